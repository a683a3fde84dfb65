"""
Presence and absence with covariates
====================================

Where do cod live? A trawl survey off British Columbia says where some were caught. Depth explains a part of it, the
place the rest: both are in one model, and the map says how sure it is. Simulated without the data.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import npvi

small, folder = os.environ.get("NPVI_EXAMPLES") == "small", Path(os.environ.get("NPVI_DATA", ""), "models")
if (folder / "pcod.csv").exists():
    tows, cells = pd.read_csv(folder / "pcod.csv"), pd.read_csv(folder / "pcod_qcs_grid.csv")
else:
    rng, side = np.random.default_rng(0), np.arange(0.0, 160.0, 2.0)
    cells = pd.DataFrame(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2), columns=["X", "Y"])
    cells["depth"] = 165.0 + 75.0 * np.sin(cells["X"] / 25.0) + 50.0 * np.cos(cells["Y"] / 18.0)
    tows = cells.sample(2000, random_state=1, ignore_index=True)
    f = 2.0 - 6.0 * np.log(tows["depth"] / 110.0) ** 2 + np.sin(tows["X"] / 9.0) + np.cos(tows["Y"] / 14.0)
    tows["present"] = rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-f))
tows, cells = (tows[:300], cells[::20]) if small else (tows, cells)
for table in (tows, cells):
    table["log depth"], table["its square"] = np.log(table["depth"] / 100.0), np.log(table["depth"] / 100.0) ** 2

# %%
# ``coords`` are where the surface lives; the other columns are covariates, with coefficients that are learned.
inputs = ["X", "Y", "log depth", "its square"]
model = npvi.GPClassifier(coords=["X", "Y"]).fit(tows[inputs], tows["present"])
found = model.predict_dist(cells[inputs])
print(model.summary())

# %%
# The map, its doubt, and what depth does at the average place.
figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained", width_ratios=[1, 1, 0.8])
lower, upper = (1.0 / (1.0 + np.exp(-end)) for end in found.latent_interval(0.9))
maps = [("chance of a catch", found.mean, "viridis"), ("width of its 90 % interval", upper - lower, "magma")]
for axis, (words, values, colours) in zip(axes[:2], maps, strict=True):
    shown = axis.scatter(cells["X"], cells["Y"], c=values, s=60 if small else 9, marker="s", cmap=colours, lw=0, vmin=0)
    figure.colorbar(shown, ax=axis, location="right", shrink=0.7)
    axis.set(aspect="equal", title=words)
    axis.axis("off")
axes[0].scatter(tows["X"], tows["Y"], c=tows["present"], cmap="gray", s=2, lw=0)
axes[0].text(0.5, -0.02, f"{len(tows):,} tows: white with cod, black without", transform=axes[0].transAxes, ha="center")
depth = np.geomspace(*np.quantile(tows["depth"], [0.005, 0.995]), 80)
basis = np.stack([np.ones(80), np.log(depth / 100.0), np.log(depth / 100.0) ** 2], axis=1)
values, covariance = model.linear_part_.in_units(model.trend_.coefficients, model.trend_.covariance)
middle, sd = basis @ values, np.sqrt(np.einsum("ij,jk,ik->i", basis, covariance, basis))
low, mid, high = (1.0 / (1.0 + np.exp(-(middle + z * sd))) for z in (-1.645, 0.0, 1.645))
axes[2].fill_between(depth, low, high, alpha=0.25, lw=0)
axes[2].plot(depth, mid, lw=2)
axes[2].set(xlabel="depth, m", title="chance at the average place", ylim=(0, 1))
plt.show()
