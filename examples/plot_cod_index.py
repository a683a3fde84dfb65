"""
Cod per year: an index of totals
================================

How much cod was there in each year? A trawl survey weighs catches at other places every year. The model is a sum: a
mean per year, a curve of depth, a field that all years share, and one of each year's own. Simulated without the data.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm

import npvi

small, folder = os.environ.get("NPVI_EXAMPLES") == "small", Path(os.environ.get("NPVI_DATA", ""), "models")
if (folder / "pcod.csv").exists():
    tows, cells = pd.read_csv(folder / "pcod.csv"), pd.read_csv(folder / "pcod_qcs_grid.csv")
else:
    rng, side = np.random.default_rng(0), np.arange(0.0, 160.0, 2.0)
    cells = pd.DataFrame(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2), columns=["X", "Y"])
    cells["depth"] = 165.0 + 75.0 * np.sin(cells["X"] / 25.0) + 50.0 * np.cos(cells["Y"] / 18.0)
    tows = cells.sample(2000, random_state=1, ignore_index=True).assign(year=rng.integers(2003, 2010, 2000))
    f = 3.0 - 4.0 * np.log(tows["depth"] / 130.0) ** 2 + np.sin(tows["X"] / 15.0 + tows["year"]) + np.cos(tows["year"])
    tows["density"] = rng.gamma(0.8 * rng.poisson(np.exp(0.4 * f)), 3.0 * np.exp(0.4 * f))
tows, cells = (tows[tows["year"] < 2006][::2], cells[::15]) if small else (tows, cells)
tows, cells = (table.assign(log_depth=np.log(table["depth"])) for table in (tows.astype({"year": str}), cells))
cells, years = cells[cells["depth"].between(*tows["depth"].quantile([0.01, 0.99]))], sorted(tows["year"].unique())

# %%
# ``range="shared"``: both fields change over the same distance. Tweedie noise has zeros and skewed weights.
formula = 'density ~ 0 + year + poly(log_depth, 2) + gp(X, Y) + gp(X, Y, by=year, range="shared")'
model = npvi.GPRegressor("tweedie", formula=formula, hyper="plug-in").fit(tows)
print(model.parts_)

# %%
# Totals over depths that were trawled, 4 km² a cell, from the joint posterior: neighbouring cells err together.
everywhere = pd.concat([cells.assign(year=year) for year in years], ignore_index=True)
found = model.predict_dist(everywhere)
tonnes = found.total(np.full(len(everywhere), 4.0 / 1000.0), by="year", of="mean").frame()  # of kg per km²

figure = plt.figure(figsize=(14, 7.2), layout="constrained")
grid = figure.add_gridspec(2, 4, height_ratios=[1, 1.15])
axis = figure.add_subplot(grid[0, :])
axis.vlines(years, tonnes["lower"], tonnes["upper"], color="tab:blue", lw=7, alpha=0.35)
axis.plot(years, tonnes["mean"], "o", c="tab:blue")
axis.set(ylabel="tonnes of cod", ylim=(0, None), title="the index: mean and 90 % interval of each year's total")
density = np.exp(found.latent_mean).reshape(len(years), -1)
colours = {"cmap": "viridis", "norm": LogNorm(*np.quantile(density, [0.3, 0.99]))}
for place, year in enumerate(np.linspace(0, len(years) - 1, 4).astype(int)):
    axis = figure.add_subplot(grid[1, place])
    drawn = axis.scatter(cells["X"], cells["Y"], c=density[year], s=60 if small else 8, marker="s", lw=0, **colours)
    axis.set(title=years[year], aspect="equal")
    axis.axis("off")
figure.colorbar(drawn, ax=figure.axes[1:], label="kg per km²", shrink=0.8, extend="both", format="{x:g}")
plt.show()
