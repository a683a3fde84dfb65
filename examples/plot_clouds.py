"""
Clouds in a satellite raster
============================

Land surface temperatures over Arkansas and Oklahoma. Clouds are drawn over them, so that what is beneath is known.
``npvi.fill`` fits a raster where it has values, and predicts where it has none. Simulated without the data.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import npvi
from npvi.datasets import load

small = os.environ.get("NPVI_EXAMPLES") == "small"
if os.environ.get("NPVI_DATA"):
    modis, step = load("modis"), 10 if small else 2
    cells = pd.MultiIndex.from_arrays(np.round(modis.X[:, ::-1], 6).T, names=["lat", "lon"])
    truth = xr.DataArray(pd.Series(modis.y, cells).unstack(), name="degrees")[::step, ::step]
else:
    lat, lon = np.linspace(34, 37, 30 if small else 150), np.linspace(-96, -91, 50 if small else 250)
    rng = np.random.default_rng(1)  # waves of all lengths, as in a rough surface; and noise
    waves = rng.normal(size=(400, 3)) * 2.5 / np.sqrt(rng.chisquare(2, size=(400, 1)) / 2)
    noise = 2.5 * rng.normal(size=(len(lat), len(lon)))
    hills = sum((np.cos(a * lon + b * lat[:, None] + 9 * c) for a, b, c in waves), noise)
    truth = xr.DataArray(45 + 0.2 * hills, {"lat": lat, "lon": lon}, name="degrees")

# %%
# Clouds of all sizes over a third of the land.
rows, columns = np.meshgrid(*(np.linspace(0, 1, n) for n in truth.shape), indexing="ij")
waves = np.random.default_rng(5).normal(size=(150, 3)) * [22.0, 34.0, 9.0]
thickness = sum(np.cos(a * rows + b * columns + c) / (5 + abs(a) + abs(b)) for a, b, c in waves)
seen = truth.where(thickness < np.quantile(thickness, 0.67))

# %%
found = npvi.fill(seen)
hidden = (found["filled"] & truth.notnull()).to_numpy()
error = (found["degrees"] - truth).to_numpy()[hidden]
inside = ((found["q5"] <= truth) & (truth <= found["q95"])).to_numpy()[hidden].mean()

# %%
# Seen, filled in, the truth, and the stated doubt: small at the edges of clouds, large in their middle.
figure, axes = plt.subplots(2, 2, figsize=(12, 8), layout="constrained", sharex=True, sharey=True)
low, high = np.nanquantile(truth, [0.01, 0.99])
words = f"The truth: off by {np.sqrt(np.mean(error**2)):.1f} degrees, {inside:.0%} inside 90 % intervals"
panels = [("Seen between clouds", seen), ("Filled in", found["degrees"]), (words, truth)]
for axis, (title, values) in zip(axes.flat, panels, strict=False):
    shown = axis.pcolormesh(truth["lon"], truth["lat"], values, cmap="RdYlBu_r", vmin=low, vmax=high)
    axis.set_title(title, loc="left", fontweight="bold", fontsize=10)
doubt = axes[1, 1].pcolormesh(truth["lon"], truth["lat"], found["std"].where(found["filled"]), cmap="magma", vmin=0)
axes[1, 1].set_title("Doubt where it is filled in", loc="left", fontweight="bold", fontsize=10)
figure.colorbar(shown, ax=axes[0, 1], label="degrees Celsius", extend="both")
figure.colorbar(doubt, ax=axes[1, 1], label="standard deviation, degrees")
plt.setp(axes, xticks=[], yticks=[], aspect=1.2)
plt.show()
