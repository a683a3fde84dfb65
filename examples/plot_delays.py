"""
Delays in eight dimensions
==========================

Arrival delays of American flights, from eight inputs: a Gaussian process isn't only for maps. It learns a length scale
for each input, which says how much that matters, and gives whole distributions. Simulated without the data.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import npvi

small, path = os.environ.get("NPVI_EXAMPLES") == "small", Path(os.environ.get("NPVI_DATA", ""), "flight_delay")
inputs = ["plane_age", "distance", "air_time", "dep_time", "arr_time", "day_of_week", "day_of_month", "month"]
rng, n = np.random.default_rng(0), 800 if small else 20_000
if (path / "flight_delay.parquet").exists():
    flights = pd.read_parquet(path / "flight_delay.parquet").sample(n, random_state=0)
else:
    ends = np.array([[0, 100, 20, 300, 300, 1, 1, 1], [40, 3000, 300, 1400, 1400, 8, 32, 5]])
    flights = pd.DataFrame(np.floor(rng.uniform(*ends, size=(n, 8))), columns=inputs)
    evening, weekend = np.clip((flights["dep_time"] - 600) / 800, 0, 1), flights["day_of_week"].between(4, 5)
    flights["arr_delay"] = 60 * np.exp(evening * (0.2 + 0.4 * weekend) + 0.3 * rng.standard_normal(n)) - 65

# %%
# An hour is added to all delays, which makes them positive and skewed: log-normal.
since_an_hour_early = np.clip(flights["arr_delay"] + 60.0, 1.0, 400.0)
model = npvi.GPRegressor("lognormal", hyper="plug-in").fit(flights[inputs], since_an_hour_early)
importance = flights[inputs].std() / model.kernel_.length_scale

# %%
# 100 flights of usual lengths at every hour, and up to an hour longer in the air than is usual for their distance.
hours, longer = np.arange(6, 23, 4 if small else 1), np.arange(-10, 61, 20 if small else 5)
some = flights[inputs].sample(20 if small else 100, random_state=1)
usual = np.polyval(np.polyfit(flights["distance"], flights["air_time"], 1), some["distance"])
table = pd.concat([some.assign(dep_time=60 * hour, air_time=usual + more) for more in longer for hour in hours])
table["arr_time"] = (table["dep_time"] + table["air_time"] + 30) % 1440
levels = (10, 25, 50, 75, 90)
quantiles = model.predict_dist(table).quantile(np.array(levels) / 100.0) - 60.0
late = {level: q.reshape(len(longer), len(hours), -1).mean(axis=2) for level, q in zip(levels, quantiles, strict=True)}

figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained", width_ratios=[0.8, 1.1, 1])
order = importance.sort_values()
axes[0].barh(order.index.str.replace("_", " "), order, color="tab:blue")
axes[0].set(title="what matters: spread over length scale")
shown = axes[1].contourf(hours, longer, late[90], levels=15, cmap="magma")
axes[1].set(title="one in ten is later than", xlabel="departure, hour", ylabel="minutes in the air beyond the usual")
figure.colorbar(shown, ax=axes[1], label="minutes")
typical = np.argmin(np.abs(longer))
for low, high, alpha in ((10, 90, 0.2), (25, 75, 0.35)):
    axes[2].fill_between(hours, late[low][typical], late[high][typical], color="tab:purple", alpha=alpha, lw=0)
axes[2].plot(hours, late[50][typical], c="tab:purple", lw=2)
axes[2].axhline(0.0, c="0.6", lw=1)
axes[2].set(title="the usual flight: median, half and 80 %", xlabel="departure, hour", ylabel="minutes late")
plt.show()
