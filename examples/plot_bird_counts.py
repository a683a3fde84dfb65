"""
Bird counts with effort and observers
=====================================

Volunteers count birds where they live and drive, for minutes or for hours, and some see twice as many as others. What
is wanted is a map of birds *per hour* for the average observer, and how sure it is. Simulated, so the truth is known.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm

import npvi
from npvi.demo import simulate_survey

small, rng = os.environ.get("NPVI_EXAMPLES") == "small", np.random.default_rng(0)
simulated = simulate_survey(rows=500 if small else 6000, seed=3)
skill = pd.Series(np.sort(0.4 * rng.standard_normal(40)), [f"observer {number}" for number in range(40)])
survey = pd.DataFrame(simulated.places, columns=["east", "north"]).assign(hours=simulated.hours)
survey["observer"] = rng.choice(skill.index, len(survey))
f = simulated.surface(simulated.places) + survey["observer"].map(skill)
survey["count"] = rng.poisson(survey["hours"] * np.exp(f))

# %%
# A sum of parts: a surface, an effect of each observer, and the logarithm of the hours, which has no coefficient.
formula = "count ~ gp(east, north) + (1|observer) + offset(log(hours))"
model = npvi.GPRegressor("poisson", formula=formula, hyper="plug-in").fit(survey)
print(model.parts_)

# %%
# The rate for the average observer at each cell of a map, with its 90 % interval; and the observers themselves.
side = np.linspace(0.5, 99.5, 20 if small else 140)
cells = pd.DataFrame(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2), columns=["east", "north"])
f = model.predict_dist(cells, terms=["linear", "gp(east, north)"])
lower, upper = (np.exp(end) for end in f.latent_interval(0.9))
truth = np.exp(simulated.surface(cells.to_numpy()))
figure, axes = plt.subplot_mosaic("abcd;eeee", figsize=(16, 6.6), layout="constrained", height_ratios=[4.2, 1])
rates = {"norm": LogNorm(*np.quantile(truth, [0.01, 0.99])), "cmap": "viridis"}
doubt = {"norm": LogNorm(1.2, np.quantile(upper / lower, 0.99)), "cmap": "magma"}
seen = np.clip(survey["count"] / survey["hours"], rates["norm"].vmin, None)
axes["a"].scatter(survey["east"], survey["north"], c=seen, s=4, linewidths=0, **rates)
maps = {"b": (truth, rates), "c": (np.exp(f.latent_mean), rates), "d": (upper / lower, doubt)}
drawn = {key: axes[key].pcolormesh(side, side, z.reshape(len(side), -1), **how) for key, (z, how) in maps.items()}
for key, under, words, ticks in (("c", "abc", "birds per hour", [1, 3, 10]), ("d", "d", "upper over lower", [2, 3])):
    how = {"label": words, "ticks": ticks, "aspect": 20 * len(under), "location": "bottom", "format": "{x:g}"}
    figure.colorbar(drawn[key], ax=[axes[one] for one in under], extend="both", **how).minorticks_off()
inside = f"Its doubt: {np.mean((lower < truth) & (truth < upper)):.0%} of the truth inside"
titles = {"a": f"What {len(seen):,} visits saw", "b": "The truth", "c": "The model's answer", "d": inside}
for key, title in titles.items():
    axes[key].set(xlim=(0, 100), ylim=(0, 100), xticks=[], yticks=[], aspect="equal")
    axes[key].set_title(title, loc="left", fontweight="bold")
found = model.effects("1|observer").set_index("level").sort_values("mean")
axes["e"].vlines(found.index, np.exp(found["lower"]), np.exp(found["upper"]), color="tab:blue", lw=5, alpha=0.4)
axes["e"].plot(found.index, np.exp(skill[found.index]), "k_", ms=9)
axes["e"].set(xticks=[], ylim=(0, None), xlabel="40 observers beside the average one: stated (blue), true (black)")
plt.show()
