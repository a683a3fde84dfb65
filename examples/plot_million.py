"""
A million rows
==============

A million counts, most of them 0 to 3, of a surface with detail at every scale. One model, all hyper-parameters learned,
every row a point of the process: nothing is binned, thinned or put through inducing points.
"""

import os
import time

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

import npvi

n = 3000 if os.environ.get("NPVI_EXAMPLES") == "small" else 1_000_000
rng = np.random.default_rng(1)
frequency = rng.standard_normal((2, 400)) / (0.15 * np.sqrt(rng.chisquare(1, 400)))  # a rough Matérn's
phase = rng.uniform(0, 2 * np.pi, 400)


def surface(places):
    parts = np.array_split(places.astype(np.float32), 1 + len(places) // 20_000)
    waves = frequency.astype(np.float32)
    return np.concatenate([np.cos(part @ waves + phase.astype(np.float32)).sum(axis=1) for part in parts]) * 0.075


places = rng.uniform(size=(n, 2))
count = rng.poisson(np.exp(surface(places))).astype(float)

# %%
# Everything is learned, in a minute or two.
started = time.process_time()
model = npvi.GPRegressor("poisson", kernel="matern12").fit(places, count)
print(model.summary(), f"\n{time.process_time() - started:.0f} CPU seconds")

# %%
# The counts as they are, the model's map and the truth; then a part of it larger.
figure, axes = plt.subplots(2, 3, figsize=(13, 8.4), layout="constrained")
colours = {"cmap": "viridis", "norm": LogNorm(0.15, 8.0)}
for row, (corner, width) in enumerate([((0.0, 0.0), 1.0), ((0.52, 0.33), 0.15)]):
    x, y = (np.linspace(start, start + width, 200) for start in corner)
    cells = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    near = np.all((places >= corner) & (places <= np.add(corner, width)), axis=1)
    some = rng.permutation(np.flatnonzero(near))[:30_000]
    axes[row, 0].scatter(*places[some].T, c=np.maximum(count[some], 0.15), s=1 + 2 * row, lw=0, **colours)
    axes[row, 0].set_title(f"{near.sum():,} counts" + (f", {len(some):,} drawn" if len(some) < near.sum() else ""))
    rates = [np.exp(model.predict_dist(cells).latent_mean), np.exp(surface(cells))]
    for axis, rate, title in zip(axes[row, 1:], rates, ("the model", "the truth"), strict=True):
        shown = axis.pcolormesh(x, y, rate.reshape(200, 200), **colours)
        axis.set_title(title)
    for axis in axes[row]:
        axis.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xticks=[], yticks=[], aspect="equal")
    axes[0, 1 + row].add_patch(plt.Rectangle((0.52, 0.33), 0.15, 0.15, fill=False, ec="white", lw=1.5))
bar = {"shrink": 0.6, "extend": "both", "ticks": [0.2, 0.5, 1, 2, 5], "format": "{x:g}"}
figure.colorbar(shown, ax=axes, label="counts expected", **bar).minorticks_off()
plt.show()
