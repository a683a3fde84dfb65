"""Three points of an order from coarse to fine, and the parents of each."""

import matplotlib.pyplot as plt
import numpy as np

import npvi

rng = np.random.default_rng(4)
X = rng.uniform(size=(400, 2))
graph = npvi.graph.build_graph(X, 8)  # maximin order, nearest parents
places = X[graph.order]

figure, axes = plt.subplots(1, 3, figsize=(10, 3.7), layout="constrained")
for axis, position in zip(axes, (12, 60, 390), strict=True):
    parents = graph.parents[position]
    axis.scatter(*places.T, s=5, c="0.85")
    axis.scatter(*places[:position].T, s=9, c="0.55")
    for parent in parents[parents >= 0]:
        axis.plot(*zip(places[position], places[parent], strict=True), c="tab:blue", lw=1.2)
    axis.scatter(*places[parents[parents >= 0]].T, s=28, c="tab:blue", zorder=3)
    axis.scatter(*places[position], s=60, c="tab:red", zorder=4)
    axis.set(xticks=[], yticks=[], aspect="equal", title=f"point {position + 1} of 400")
