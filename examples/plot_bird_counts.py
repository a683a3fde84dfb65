"""
Bird counts with effort
=======================

Volunteers count birds where they live and drive, for minutes or for hours. What is wanted is a map of birds *per hour*,
of the places between the roads too, and of how sure it is. The survey is simulated, so that the truth is known.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

import npvi
from npvi.demo import simulate_survey

small = os.environ.get("NPVI_EXAMPLES") == "small"
survey = simulate_survey(rows=500 if small else 6000, seed=3)

# %%
# Hours are *exposure*: what is expected of a visit is its hours times the rate. All else is learned.
model = npvi.GPRegressor("poisson").fit(survey.places, survey.counts, exposure=survey.hours)
print(model.summary())

# %%
# One hour at each cell of a map, and the 90 % interval of the rate there.
side = np.linspace(0.5, 99.5, 20 if small else 140)
cells = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
f = model.predict_dist(cells, exposure=1.0)
lower, upper = (np.exp(end) for end in f.latent_interval(0.9))
truth = np.exp(survey.surface(cells))
inside = np.mean((lower < truth) & (truth < upper))

# %%
# The model has never seen the truth, and says where it may be wrong: far from roads.
figure, axes = plt.subplots(1, 4, figsize=(16, 5), layout="constrained")
shared = {"norm": LogNorm(*np.quantile(truth, [0.01, 0.995])), "cmap": "viridis"}
seen = np.clip(survey.counts / survey.hours, shared["norm"].vmin, None)
axes[0].scatter(*survey.places.T, c=seen, s=4, linewidths=0, **shared)
panels = [(truth, "The truth"), (np.sqrt(lower * upper), "The model's answer")]
for axis, (values, title) in zip(axes[1:], panels, strict=False):
    rates = axis.pcolormesh(side, side, values.reshape(len(side), -1), **shared)
    axis.set_title(title, loc="left", fontweight="bold")
axes[0].set_title(f"What {len(seen):,} visits saw", loc="left", fontweight="bold")
width = (upper / lower).reshape(len(side), -1)
doubt = axes[3].pcolormesh(side, side, width, cmap="magma", norm=LogNorm(1.1, np.quantile(width, 0.99)))
axes[3].set_title(f"Its doubt ({inside:.0%} of the truth is inside)", loc="left", fontweight="bold")
for axis in axes:
    axis.set(xlim=(0, 100), ylim=(0, 100), xticks=[], yticks=[], aspect="equal")
below = {"location": "bottom", "format": "{x:g}", "shrink": 0.8}
bar = figure.colorbar(rates, ax=axes[:3], label="birds per hour", extend="both", ticks=[1, 3, 10], aspect=60, **below)
bar.minorticks_off()
words = "upper end of the 90 % interval over the lower"
bar = figure.colorbar(doubt, ax=axes[3], label=words, extend="max", ticks=[1.5, 2, 3], aspect=24, **below)
bar.minorticks_off()
plt.show()
