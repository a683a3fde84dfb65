"""
Rain, with noise that varies
============================

May rainfall at 8,863 American stations. On the plains a station agrees with its neighbours, in the West it doesn't: one
size of noise for all is too large here and too small there. So the noise is a surface too. Simulated without the data.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

import npvi
from npvi.datasets import load

small = os.environ.get("NPVI_EXAMPLES") == "small"
if os.environ.get("NPVI_DATA"):
    X, rain = load("precipitation").X, 8.18 * load("precipitation").y  # inches
else:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, [15, 8], size=(6000, 2))
    noise = 0.06 + 0.28 / (1.0 + np.exp(3.0 * (X[:, 0] - 5.0 - np.sin(X[:, 1]))))
    rain = np.exp(1.0 + 0.6 * np.sin(0.9 * X[:, 0]) * np.cos(0.7 * X[:, 1]) + noise * rng.standard_normal(len(X)))
X, rain = (X[::6], rain[::6]) if small else (X, rain)
test = np.arange(len(X)) % 5 == 0

# %%
# Log-normal noise: f is the logarithm of the median. It and the size of the noise are learned.
one = npvi.GPRegressor("lognormal", hyper="plug-in").fit(X[~test], rain[~test])
varying = npvi.VaryingNoiseRegressor(npvi.GPRegressor("lognormal", hyper="plug-in")).fit(X[~test], rain[~test])

# %%
# The median; how far a gauge may be from it; and stations held out, by how noisy their place is.
east, north = (np.linspace(*np.quantile(X[:, i], [0, 1]), 30 if small else side) for i, side in ((0, 220), (1, 125)))
cells = np.stack(np.meshgrid(east, north), axis=-1).reshape(-1, 2)
found = varying.predict_dist(cells)
land = np.min([np.hypot(*(cells - place).T) for place in X[:: max(1, len(X) // 1500)]], axis=0) < 0.45
figure, axes = plt.subplots(1, 3, figsize=(17, 4.2), layout="constrained", width_ratios=[1, 1, 0.62])
scale = {"norm": LogNorm(1.1, 1.75), "ticks": [1.2, 1.4, 1.6, 2.0]}
maps = [("median of the rain in May, inches", found.quantile(0.5), "YlGnBu", {"norm": None, "ticks": None})]
maps += [("90 % of gauges are within this factor of it", np.exp(1.645 * found.noise_std), "magma_r", scale)]
for axis, (words, values, colours, how) in zip(axes, maps, strict=False):
    on_land = np.where(land, values, np.nan).reshape(len(north), -1)
    shown = axis.pcolormesh(east, north, on_land, cmap=colours, norm=how["norm"])
    bar = figure.colorbar(shown, ax=axis, ticks=how["ticks"], format="{x:g}", location="bottom", shrink=0.6, aspect=35)
    bar.minorticks_off()
    axis.set(aspect="equal", title=words)
    axis.axis("off")
fifths = np.array_split(np.argsort(varying.predict_dist(X[test]).noise_std), 5)
for words, model in (("one size of noise", one), ("noise a surface", varying)):
    lower, upper = model.predict_dist(X[test]).interval(0.9)
    inside = (lower <= rain[test]) & (rain[test] <= upper)
    axes[2].plot([inside[fifth].mean() for fifth in fifths], "o-", label=words)
axes[2].axhline(0.9, c="0.6", lw=1, ls="--")
axes[2].set(xticks=[0, 4], xticklabels=["quiet fifth", "noisy fifth"], ylim=(0.5, 1.02), title="in 90 % intervals")
axes[2].legend(loc="lower left", frameon=False, title=f"{test.sum():,} gauges held out", alignment="left")
plt.show()
