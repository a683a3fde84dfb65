"""What is left of the posterior at each point once its own observation, or all of its place, are taken out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npvi.inference.data import Data

__all__ = ["places_of", "without_own", "without_place"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def without_own(
    data: Data, mean: Vector, variance: Vector, site_precision: Vector, prior_precision: Vector
) -> tuple[Vector, Vector]:
    """Mean and variance of each f given all observations but its own.

    Each observation enters the posterior through a Gaussian site of its own, which is divided out; what is left is
    never less than the prior knows.
    """
    others = np.maximum(1.0 / variance - site_precision, prior_precision)
    return mean - data.expectations(mean, variance).gradient / others, 1.0 / others


def places_of(X: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """The rows at each place, where all coordinates are equal.

    >>> [rows.tolist() for rows in places_of(np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 1.0]]))]
    [[0, 2], [1]]
    """
    label = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def without_place(
    mean: Vector, gradient: Vector, site_precision: Vector, covariance: Matrix, prior_covariance: Matrix
) -> tuple[Vector, Vector]:
    """Means and variances of f at the rows of one place, given all observations but theirs.

    With V the posterior covariance of these f, W their sites and g the gradient of E log p: the cavity has precision
    V⁻¹ − W, kept at or above the prior's, and mean m − (V⁻¹ − W)⁻¹ g. All arguments are those of the place's rows.
    """
    root = np.linalg.cholesky(prior_covariance)
    # in units of the prior, whose precision is the identity there
    inner = np.linalg.solve(root, np.linalg.solve(root, covariance).T)
    precision = np.linalg.inv(0.5 * (inner + inner.T)) - root.T @ (site_precision[:, None] * root)
    values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    back = root @ vectors / np.sqrt(np.maximum(values, 1.0))
    return mean - back @ (back.T @ gradient), np.einsum("ij,ij->i", back, back)
