"""Models whose hyper-parameters stay as given."""

from __future__ import annotations

from npvi import GPClassifier, GPRegressor

#: the paper's own model: its family, no mean, nothing learned
PAPER = {"kernel": "matern32", "nugget": 1e-4, "mean": "zero", "method": "npvi", "learn": False}


def paper_regressor(likelihood="gaussian", kernel="matern32", **settings):
    return GPRegressor(likelihood, **{**PAPER, "kernel": kernel, **settings})


def paper_classifier(likelihood="bernoulli", kernel="matern32", **settings):
    return GPClassifier(likelihood, **{**PAPER, "kernel": kernel, **settings})
