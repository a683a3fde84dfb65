"""
A point pattern: trees in a forest
==================================

Where 3,604 trees of a species stand in half a square kilometre of rain forest, and nothing else: no absences.
Counted in cells, empty ones too: a Cox process, with covariates and a surface for the rest. Simulated without the data.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm

import npvi

small, folder = os.environ.get("NPVI_EXAMPLES") == "small", Path(os.environ.get("NPVI_DATA", ""), "models")
if (folder / "bei.csv").exists():
    trees, land = pd.read_csv(folder / "bei.csv"), pd.read_csv(folder / "bei_covariates.csv")
else:
    rng, side = np.random.default_rng(0), np.arange(0.0, 1001.0, 5.0)
    land = pd.DataFrame(np.stack(np.meshgrid(side, side[:101]), axis=-1).reshape(-1, 2), columns=["x", "y"])
    land["elev"] = 140 + 12 * np.sin(land["x"] / 180) + 8 * np.cos(land["y"] / 90)
    land["grad"] = np.hypot(np.cos(land["x"] / 180) / 15, np.sin(land["y"] / 90) / 11)
    f = 14 * land["grad"] + 1.2 * np.sin(land["x"] / 55) * np.cos(land["y"] / 45)
    trees = land.sample(3600, replace=True, weights=np.exp(f), random_state=0)[["x", "y"]]
    trees = (trees + rng.uniform(-2.5, 2.5, (3600, 2))).clip(0.0, [999.0, 499.0], axis=1)

# %%
# Cells of 10 m; slope and elevation of the land have linear effects on the logarithm of the intensity.
land["elevation"], land["slope"] = (land["elev"] - land["elev"].mean()) / 10.0, land["grad"] * 10.0
how = {"window": (0, 0, 1000, 500), "cell": 50.0 if small else 10.0, "hyper": "plug-in"}
model = npvi.fit_points(trees[["x", "y"]], covariates=land[["x", "y", "elevation", "slope"]], **how)
print(model.parts_)
cells = model.cells_

# %%
# Trees per hectare; what slope and elevation say of them, and the surface that says the rest. Lines are of elevation.
shown = (None, ["linear"], ["gp(x, y)"])
both, slopes, surface = (np.exp(model.predict_dist(cells, terms=terms, exposure=1.0).latent_mean) for terms in shown)
total = model.predict_dist(cells, exposure=cells["area"]).total()
panels = [(f"Trees per hectare, {total.mean:,.0f} ± {total.std:.0f} in all", 1e4 * both, "viridis", (5, 500))]
panels += [("What slope and elevation say: times the average", slopes / slopes.mean(), "BrBG", (0.1, 10))]
panels += [("What the surface says: times that", surface, "BrBG", (0.1, 10))]
x, y, heights = np.unique(cells["x"]), np.unique(cells["y"]), land.pivot(index="y", columns="x", values="elev")
figure, axes = plt.subplots(2, 2, figsize=(14, 7), layout="constrained")
axes[0, 0].scatter(trees["x"], trees["y"], s=2, c="darkgreen", lw=0)
axes[0, 0].set_title(f"{len(trees):,} trees", loc="left", fontweight="bold", fontsize=10)
for axis, (title, values, colours, ends) in zip(axes.flat[1:], panels, strict=True):
    drawn = axis.pcolormesh(x, y, values.reshape(len(y), -1), cmap=colours, norm=LogNorm(*ends))
    figure.colorbar(drawn, ax=axis, extend="both", format="{x:g}", pad=0.01, shrink=0.8)
    axis.set_title(title, loc="left", fontweight="bold", fontsize=10)
for axis in axes.flat:
    axis.contour(heights.columns, heights.index, heights, levels=8, colors="0.35", linewidths=0.5)
    axis.set(aspect="equal", xlim=(0, 1000), ylim=(0, 500), xticks=[], yticks=[])
plt.show()
