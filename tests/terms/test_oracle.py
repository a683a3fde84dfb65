"""Sums of terms against dense matrices: covariances written out here, and the best Gaussian by Newton's method."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import linalg, special
from scipy.interpolate import LinearNDInterpolator

import npvi
from npvi.inference import Data
from npvi.learning import parts as parts_module
from npvi.learning.parts import PartsObjective, learn_parts
from npvi.likelihoods import Bernoulli, Gamma, Gaussian, Poisson
from npvi.terms.base import Setting
from npvi.terms.design import Design
from tests.support.oracle import matern12, matern32

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
ROWS, NEW = 140, 25
#: nodes of a mesh, beyond all places
MESH = np.vstack([np.random.default_rng(5).uniform(-0.2, 1.2, size=(20, 2)), [[-2, -2], [-2, 3], [3, -2], [3, 3]]])


def table(seed=0):
    """Training rows first, then rows that are predicted: some of their levels are new."""
    rng = np.random.default_rng(seed)
    n = ROWS + NEW
    place = rng.uniform(size=(60, 2))[rng.integers(60, size=n)]
    place[ROWS:] = rng.uniform(size=(NEW, 2))
    observer = rng.integers(12, size=n)
    observer[ROWS : ROWS + 5] = 50, 51, 50, 52, 50
    return pd.DataFrame(
        {
            "x": place[:, 0],
            "y": place[:, 1],
            "year": 2000 + rng.integers(5, size=n),
            "depth": rng.uniform(0.0, 100.0, size=n),
            "day": rng.uniform(0.0, 365.0, size=n),
            "effort": rng.standard_normal(n),
            "observer": [f"o{number}" for number in observer],
            "habitat": np.array(["bog", "fen", "heath"])[rng.integers(3, size=n)],
            "logged": 0.1 * rng.standard_normal(n),
        }
    )


SMOOTHS = [npvi.Smooth("depth"), npvi.Smooth("day", cyclic=True), npvi.Smooth("depth", "effort", k=5)]

# -- covariances of parts, over all rows ------------------------------------------------------------------------------


def places(t):
    return t[["x", "y"]].to_numpy()


def on_mesh(t, reach, sd):
    """Of numbers at nodes with straight lines between: (κ² − Δ)f is white noise, assembled triangle by triangle."""
    found = LinearNDInterpolator(MESH, np.eye(len(MESH)))
    C, G = np.zeros(len(MESH)), np.zeros((len(MESH), len(MESH)))
    for corners in found.tri.simplices:
        flat = np.linalg.inv(np.column_stack([np.ones(3), MESH[corners]]))  # coefficients of each function
        area = 0.5 * abs(np.linalg.det(np.column_stack([np.ones(3), MESH[corners]])))
        C[corners] += area / 3.0
        G[np.ix_(corners, corners)] += area * flat[1:].T @ flat[1:]
    kappa = np.sqrt(8.0) / reach
    root = kappa**2 * np.diag(C) + G
    Q = root @ np.diag(1.0 / C) @ root / (4.0 * np.pi * kappa**2 * sd**2)
    A = found(places(t))
    return A @ np.linalg.inv(Q) @ A.T


def same(t, *names):
    labels = t[list(names)].astype(str).agg(":".join, axis=1).to_numpy()
    return (labels[:, None] == labels[None, :]).astype(float)


def years(t):
    return t[["year"]].to_numpy(float)


def of_field(K, t, sd, *level):
    """A field has a variance of 10⁻⁶ of its own at each of its places, without which near ones can't be told apart."""
    return K + 1e-6 * sd**2 * same(t, "x", "y", *level)


def field(t, length=0.3, sd=0.8):
    return of_field(matern32(places(t), places(t), length, sd**2), t, sd)


def cases(t):
    """Terms, and the prior covariance of each part over all rows."""
    effort, observers = t["effort"].to_numpy(), same(t, "observer")
    apart = np.abs(years(t) - years(t).T)
    walk = 1.0 + np.minimum(years(t), years(t).T) - years(t)[:ROWS].min()
    H = np.column_stack([t["effort"], t["habitat"] == "fen", t["habitat"] == "heath"]).astype(float)
    known = H[:ROWS]
    linear = 4.0 * (H - known.mean(axis=0)) @ (H - known.mean(axis=0)).T
    correlated = np.array([[0.25, 0.0], [0.0, 0.09]])
    both = np.stack([np.ones(len(t)), effort])
    slopes = np.einsum("ai,ab,bj->ij", both, correlated, both) * observers
    space = npvi.Field("x", "y", range=0.6, sd=0.8, n_neighbors=200)
    over = npvi.Field("x", "y", range=0.8, sd=0.5, n_neighbors=200)
    by_year = npvi.Field("x", "y", by="year", range=0.6, sd=0.7, n_neighbors=200)
    ar = npvi.Field("x", "y", by=npvi.AR1("year"), range=0.6, sd=0.7, rho=0.6, n_neighbors=200)
    walks = npvi.Field("x", "y", by=npvi.RandomWalk("year"), range=0.6, sd=0.4, n_neighbors=200)
    rough = npvi.Field("x", "y", kernel="matern12", range=1.0, sd=0.6, n_neighbors=200)
    observer = npvi.Group("observer", sd=0.5)

    moments = np.column_stack([places(t) / 0.3, years(t) / 2.5])

    def smooth(sd):
        return matern32(places(t), places(t), 0.3, sd**2)

    return {
        "space and observers": ([space, observer], [field(t), 0.25 * observers]),
        "slopes": ([npvi.Group("observer", slope="effort", sd=[0.5, 0.3])], [slopes]),
        "nested": (
            [observer, npvi.Group("observer", "year", sd=0.4)],
            [0.25 * observers, 0.16 * same(t, "observer", "year")],
        ),
        "by year": ([by_year], [field(t, 0.3, 0.7) * same(t, "year")]),
        "space and by year": ([space, by_year], [field(t), field(t, 0.3, 0.7) * same(t, "year")]),
        "space and ar1": ([space, ar], [field(t), of_field(smooth(0.7) * 0.6**apart, t, 0.7, "year")]),
        "space and moments": (
            [space, npvi.Field("x", "y", "year", range=[0.6, 0.6, 5.0], sd=0.7, n_neighbors=200)],
            [field(t), of_field(matern32(moments, moments, 1.0, 0.49), t, 0.7, "year")],
        ),
        "line and plane": (
            [npvi.Field("x", range=0.8, sd=0.5, n_neighbors=200), space],
            [matern32(t[["x"]].to_numpy(), t[["x"]].to_numpy(), 0.4, 0.25) + 0.25e-6 * same(t, "x"), field(t)],
        ),
        "ar1": ([ar], [of_field(smooth(0.7) * 0.6**apart, t, 0.7, "year")]),
        "walk": ([walks], [of_field(smooth(0.4) * walk, t, 0.4, "year")]),
        "varying": (
            [rough, npvi.Varying("effort", over=over)],
            [
                of_field(matern12(places(t), places(t), 0.5, 0.36), t, 0.6),
                field(t, 0.4, 0.5) * np.outer(effort, effort),
            ],
        ),
        "mesh": (
            [
                npvi.Field("x", "y", mesh=MESH, range=0.6, sd=0.8),
                npvi.Field("x", "y", by="year", mesh=MESH, range=0.5, sd=0.4),
                npvi.Varying("effort", over=npvi.Field("x", "y", mesh=MESH, range=0.7, sd=0.3)),
            ],
            [
                on_mesh(t, 0.6, 0.8),
                on_mesh(t, 0.5, 0.4) * same(t, "year"),
                on_mesh(t, 0.7, 0.3) * np.outer(effort, effort),
            ],
        ),
        "linear": ([npvi.Linear("effort", "habitat", scale=2.0), observer], [linear, 0.25 * observers]),
    }


# -- the best Gaussian ------------------------------------------------------------------------------------------------


def gaussian(y):
    return lambda f: (-0.5 * np.log(2 * np.pi * 0.5) - (y - f) ** 2, 2.0 * (y - f), 2.0 + 0.0 * f)


def poisson(y):
    return lambda f: (y * f - np.exp(f) - special.gammaln(y + 1.0), y - np.exp(f), np.exp(f))


def bernoulli(y):
    def terms(f):
        p = special.expit(f)
        return y * f - np.logaddexp(0.0, f), y - p, p * (1.0 - p)

    return terms


def gamma(y):
    def terms(f):
        rate = 2.0 * y * np.exp(-f)
        constant = 2.0 * np.log(2.0) + np.log(y) - special.gammaln(2.0)
        return constant - 2.0 * f - rate, rate - 2.0, rate

    return terms


NOISES = {
    "gaussian": (Gaussian(0.5), gaussian, lambda rng, f: f + np.sqrt(0.5) * rng.standard_normal(len(f))),
    "poisson": (Poisson(link="exp"), poisson, lambda rng, f: rng.poisson(np.exp(f)).astype(float)),
    "bernoulli": (Bernoulli(), bernoulli, lambda rng, f: (rng.uniform(size=len(f)) < special.expit(f)).astype(float)),
    "gamma": (Gamma(2.0), gamma, lambda rng, f: rng.gamma(2.0, np.exp(f) / 2.0)),
}


def best(terms, L, constant, offset):
    """Bound, and q(z, c) for η = L z + c + offset, z ~ N(0, I) and a flat c where there is a constant."""
    n, r = L.shape
    A = np.hstack([L, np.ones((n, 1))]) if constant else L
    P = np.diag(np.append(np.ones(r), 0.0)) if constant else np.eye(r)
    z, v = np.zeros(len(P)), np.full(n, 0.1)
    for _ in range(500):
        f = (A @ z + offset)[:, None] + np.sqrt(v)[:, None] * NODES
        _, slope, w = (part @ WEIGHTS for part in terms(f))
        V = linalg.inv(P + A.T @ (w[:, None] * A))
        v = np.einsum("ij,jk,ik->i", A, V, A)
        step = V @ (A.T @ slope - P @ z)
        z = z + step * min(1.0, 2.0 / np.abs(A @ step).max(initial=1e-300))
        if np.abs(A @ step).max() < 1e-7:
            break
    value = (terms((A @ z + offset)[:, None] + np.sqrt(v)[:, None] * NODES)[0] @ WEIGHTS).sum()
    flat = np.log(2.0 * np.pi) if constant else 0.0
    bound = value + 0.5 * (np.linalg.slogdet(V)[1] - z @ P @ z - np.sum(P * V) + len(P) + flat)
    return bound, z, V


def root(K):
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10 * values.max()
    return vectors[:, kept] * np.sqrt(values[kept])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", cases(table()))
def test_parts_bound_and_predictions(name, noise):
    t = table()
    terms, covariances = cases(t)[name]
    likelihood, written, respond = NOISES[noise]
    rng = np.random.default_rng(1)
    roots = [root(K) for K in covariances]
    L = np.hstack(roots)
    y = respond(rng, 0.7 + t["logged"][:ROWS].to_numpy() + (L @ rng.standard_normal(L.shape[1]))[:ROWS])
    offset = t["logged"].to_numpy()
    model = npvi.GPRegressor(likelihood, terms=[*terms, npvi.Offset("logged")], learn=False, hyper="plug-in")
    model.fit(t[:ROWS], y)
    bound, z, V = best(written(y[:, None]), L[:ROWS], True, offset[:ROWS])
    assert model.elbo_ == pytest.approx(bound, abs=1e-4)
    A = np.hstack([L, np.ones((len(t), 1))])
    dist = model.predict_dist(t[ROWS:])
    np.testing.assert_allclose(dist.latent_mean, (A @ z + offset)[ROWS:], atol=1e-4)
    covariance = A[ROWS:] @ V @ A[ROWS:].T
    np.testing.assert_allclose(dist.latent_var, np.diag(covariance), rtol=1e-4)
    np.testing.assert_allclose(dist.joint_covariance(), covariance, atol=1e-4 * covariance.max())
    draws = dist.joint_latent_sample(4000, seed=0)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.12 * covariance.max())
    start = 0
    for term, own in zip(terms, roots):
        part = own[ROWS:]
        columns = slice(start, start + own.shape[1])
        start = columns.stop
        if isinstance(term, npvi.Linear):
            continue
        alone = model.predict_dist(t[ROWS:], terms=[term])
        np.testing.assert_allclose(alone.latent_mean, part @ z[columns], atol=1e-4)
        variance = np.einsum("ij,jk,ik->i", part, V[columns, columns], part)
        np.testing.assert_allclose(alone.latent_var, variance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("noise", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", [*cases(table()), "smooths"])
def test_gradients_by_differences(name, noise):
    """Of bound and priors, in every parameter of every kind of term."""
    t = table()[:ROWS]
    terms, _ = cases(table()).get(name, (SMOOTHS, None))
    likelihood, _, respond = NOISES[noise]
    rng = np.random.default_rng(2)
    y = respond(rng, 0.5 * rng.standard_normal(ROWS) + np.sin(t["depth"].to_numpy() / 20.0))
    design = Design(terms, t, Setting(ROWS, 1.0, True))
    objective = PartsObjective(design.parts, Data(likelihood, y), design.offset, same=design.same)
    z = objective.space.vector()
    _, gradient = objective.on_vector(z)
    for k, coordinate in enumerate(objective.space.coordinates):
        step = 1e-3 * np.eye(len(z))[k]
        ends = [objective.on_vector(z + sign * step)[0] for sign in (1.0, -1.0)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=1e-4, abs=1e-4), coordinate.name


@pytest.mark.parametrize("name", [*cases(table()), "smooths"])
def test_some_rows_first_lead_to_the_same(name, monkeypatch):
    """Every kind of term is learned from a part of the rows, then from all of them."""
    t = table()[:ROWS]
    terms, covariances = cases(table()).get(name, (SMOOTHS, [field(table())]))
    rng = np.random.default_rng(3)
    eta = 1.0 + sum(root(K)[:ROWS] @ rng.standard_normal(len(root(K).T)) for K in covariances)
    design = Design(terms, t, Setting(ROWS, 1.0, True))
    data = Data(Poisson("exp"), rng.poisson(np.exp(eta)).astype(float))
    whole = learn_parts(design.parts, data, design.offset, same=design.same)
    monkeypatch.setattr(parts_module, "_SIZES", (60,))
    begun = learn_parts(design.parts, data, design.offset, same=design.same)
    assert begun.value > whole.value - 1e-3
