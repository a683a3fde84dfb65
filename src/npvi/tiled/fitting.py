"""The posterior of each tile by itself, and rounds in which tiles answer for each other until all equations hold.

At the optimum the mean f of all rows solves r(f) = ∂E log p/∂f − P̃ f = 0, P̃ being the prior's precision with the mean's
coefficients integrated out (`npvi.components.stack`). A tile's own fit solves these equations for what it sees. What is
left at its own rows comes from rows further away. A round is one step of a preconditioned iteration for all rows: each
tile finds the Newton step d of what it sees with its outermost rows held (a restricted Schwarz step), the tiles'
coefficients are moved together by what all of them say, and the length of the step is that which leaves least of
the residual, measured in standard deviations; each step is made to have no part in that of the step before.

Products with P̃ are sums over tiles: every row of T in P = TᵀT belongs to one tile, which passes on to others what its
row adds to theirs. All sums are taken in the order of the tiles, so that it doesn't matter who worked when.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npvi.components import ProcessPrecision, Trend
from npvi.inference import AllCovariances, Data, fit_posterior
from npvi.linalg import Noise
from npvi.model import Fitted
from npvi.tiled.domain import build, keep, open_domain
from npvi.tiled.job import Job, job_at
from npvi.tiled.sense import blaming, check_posterior
from npvi.tiled.store import StoreError

__all__ = ["complete", "fit_tile", "fitted_tile", "hand_over", "move", "solve", "start", "take_over"]

Vector = NDArray[np.float64]

#: of the fit of a tile, and of the systems of a round
_TOLERANCE, _SOLVED = 1e-7, 1e-2
#: how much more a row is held that stays than its own equation holds it
_HELD = 1e6


def fit_tile(folder: str, tile: int) -> None:
    """The posterior of a tile, by what it sees."""
    job = job_at(folder)
    domain = build(job, tile)
    if domain is None:
        job.store.write(job.tile(tile, "fit"), {"empty": True})
        return
    family = AllCovariances(domain.prior, Noise(domain.keys))
    fit = fit_posterior(family, domain.data, domain.stack, None, _TOLERANCE, int(job.plan["max_iter"]))
    fit = fit.unless_interrupted()
    trend, own = fit.trend, domain.own
    # Y: by how much f − Hβ falls when β rises
    follows = -trend.sensitivity
    root = domain.own_root
    information = (root @ domain.basis).T @ (root @ follows)
    keep(domain)
    about = {
        "converged": bool(fit.info["converged"]),
        "iterations": int(fit.info["n_iter"]),
        "seen": len(domain.rows),
        "variance_error": float(fit.info.get("variance_error", 0.0)),
    }
    job.store.write(
        job.tile(tile, "fit"),
        about,
        mean=fit.posterior.mean[own],
        variance=fit.variance[own],
        along=(domain.basis + trend.sensitivity)[own],
        sensitivity=trend.sensitivity,
        information=information,
        touched=np.array(domain.owners, np.int64),
    )


def hand_over(folder: str, tile: int, step: int) -> None:
    """What the tile's own rows of T add to products with P: its own part, and what it passes on to others.

    In step 0 the product is that of the mean, and of H; then that of the step that the tiles have found.
    """
    job = job_at(folder)
    domain = open_domain(job, tile)
    name = job.tile(tile, f"product-{step:02d}")
    if domain is None:
        job.store.write(name, touched=np.zeros(0, np.int64))
        return
    if step == 0:
        (mean,) = domain.gathered("fit", "mean")
        x = np.column_stack([mean, domain.basis])
    else:
        (x,) = domain.gathered(f"step-{step:02d}", "step")
        (along,) = domain.gathered("fit", "along")
        x = (x + along @ np.array(job.store.about(f"rounds/solved-{step:02d}")["moved"]))[:, None]
    root = domain.own_root
    product = root.T @ (root @ x)
    arrays: dict[str, NDArray[Any]] = {}
    others = [owner for owner in domain.owners if owner != tile]
    for owner in others:
        rows = np.flatnonzero((domain.owner == owner) & (product != 0.0).any(axis=1))
        arrays[f"number_{owner}"], arrays[f"part_{owner}"] = domain.number[rows], product[rows]
    own = domain.own
    job.store.write(name, **arrays, x=x[own], own=product[own], touched=np.array(others, np.int64))


def _product(job: Job, tile: int, step: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x and P x at a tile's own rows, from all tiles that know of them, in their order."""
    found = job.store.read(job.tile(tile, f"product-{step:02d}"))
    product = found["own"]
    for other in job.store.read("touching")["by"][:, tile].nonzero()[0].tolist():
        theirs = job.store.read(job.tile(other, f"product-{step:02d}"))
        np.add.at(product, theirs[f"number_{tile}"], theirs[f"part_{tile}"])
    return found["x"], product


def take_over(folder: str, tile: int, step: int) -> None:
    """Products with P at the tile's own rows, and the sums that follow from them."""
    job = job_at(folder)
    name = job.tile(tile, f"sums-{step:02d}")
    if not job.layout["rows"][tile]:
        job.store.write(name, {})
        return
    x, product = _product(job, tile, step)
    if step == 0:
        basis, fit = _own_basis(job, tile), job.store.read(job.tile(tile, "fit"))
        job.store.write(job.tile(tile, "of-basis"), product=product[:, 1:])
        sums = {"HPf": (basis.T @ product[:, 0]).tolist(), "HPH": (basis.T @ product[:, 1:]).tolist()}
        sums["information"] = fit["information"].tolist()
        job.store.write(name, sums, mean=x[:, 0], product=product[:, 0])
        return
    state = job.store.read(job.tile(tile, f"state-{step - 1:02d}"))
    moved = np.array(job.store.about(f"rounds/solved-{step:02d}")["coefficients"])
    found = product[:, 0] - job.store.read(job.tile(tile, "of-basis"))["product"] @ moved  # P̃ x
    q = (found + state["weight"] * x[:, 0]) * state["sd"]
    r, before = state["residual"] * state["sd"], state["before"]
    sums = {"qq": float(q @ q), "qr": float(q @ r), "qp": float(q @ before), "pp": float(before @ before)}
    sums["pr"] = float(before @ r)
    job.store.write(name, sums, x=x[:, 0], product=found, q=q)


def start(folder: str, tile: int) -> None:
    """What is left of the equations at the tile's own rows, once all tiles have fitted theirs."""
    job = job_at(folder)
    name = job.tile(tile, "state-00")
    if not job.layout["rows"][tile]:
        job.store.write(name, {"squares": 0.0, "largest": 0.0})
        return
    found = job.store.read(job.tile(tile, "sums-00"))
    coefficients = np.array(job.store.about("rounds/begun")["coefficients"])
    pull = found["product"] - job.store.read(job.tile(tile, "of-basis"))["product"] @ coefficients
    variance = job.store.read(job.tile(tile, "fit"))["variance"]
    at = _own_data(job, tile).expectations(found["mean"], variance)
    nothing = np.zeros(len(pull))
    state = {"mean": found["mean"], "pull": pull, "weight": np.maximum(at.precision, 0.0), "sd": np.sqrt(variance)}
    residual = at.gradient - pull
    left = residual * state["sd"]
    sums = {"squares": float(left @ left), "largest": float(np.abs(left).max())}
    job.store.write(name, sums, **state, residual=residual, step=nothing, stepped=nothing, before=nothing)


def solve(folder: str, tile: int, step: int) -> None:
    """The step that a tile would take, by what is left at all rows that it sees, its outermost ones held."""
    job = job_at(folder)
    domain = open_domain(job, tile)
    name = job.tile(tile, f"step-{step:02d}")
    if domain is None:
        job.store.write(name, {"HPd": []}, step=np.zeros(0))
        return
    left, weight = domain.gathered(f"state-{step - 1:02d}", "residual", "weight")
    held = ~domain.inner
    weight[held] = _HELD * (weight[held] + domain.prior.precision_diagonal[held])
    left[held] = 0.0
    found = ProcessPrecision(domain.prior, weight, tolerance=_SOLVED).solve(left)[domain.own]
    of_basis = job.store.read(job.tile(tile, "of-basis"))["product"]
    job.store.write(name, {"HPd": (of_basis.T @ found).tolist()}, step=found)


def move(folder: str, tile: int, step: int) -> None:
    """Take the step."""
    job = job_at(folder)
    name = job.tile(tile, f"state-{step:02d}")
    if not job.layout["rows"][tile]:
        job.store.write(name, {"squares": 0.0, "largest": 0.0, "moved": 0.0, "farthest": 0.0})
        return
    decided = job.store.about(f"rounds/taken-{step:02d}")
    found, state = (
        job.store.read(job.tile(tile, f"sums-{step:02d}")),
        job.store.read(job.tile(tile, f"state-{step - 1:02d}")),
    )
    length, share = decided["length"], decided["share"]
    moved = found["x"] - share * state["step"]
    stepped = found["product"] - share * state["stepped"]
    before = found["q"] - share * state["before"]
    mean, pull = state["mean"] + length * moved, state["pull"] + length * stepped
    at = _own_data(job, tile).expectations(mean, state["sd"] ** 2)
    residual = at.gradient - pull
    left, far = residual * state["sd"], length * moved / state["sd"]
    sums = {"squares": float(left @ left), "largest": float(np.abs(left).max())}
    sums |= {"moved": float(far @ far), "farthest": float(np.abs(far).max())}
    arrays = {"mean": mean, "pull": pull, "weight": state["weight"], "sd": state["sd"], "residual": residual}
    job.store.write(name, sums, **arrays, step=moved, stepped=stepped, before=before)


def complete(folder: str, tile: int, step: int) -> None:
    """All that predictions ask a tile for; and its share of the bound."""
    job = job_at(folder)
    name = job.tile(tile, "posterior")
    domain = open_domain(job, tile)
    if domain is None:
        job.store.write(name, {"bound": 0.0, "coefficients": []})
        return
    (mean,) = domain.gathered(f"state-{step:02d}", "mean")
    fit = job.store.read(job.tile(tile, "fit"))
    (variance,) = domain.gathered("fit", "variance")
    w = np.maximum(domain.data.expectations(mean, variance).precision, 0.0)
    coefficients = np.array(job.store.about("rounds/ended")["coefficients"])
    residual = mean - domain.basis @ coefficients
    family = AllCovariances(domain.prior, Noise(domain.keys))
    covariance = family.covariance(w)
    assert covariance is not None  # P + W is positive definite for w ≥ 0
    own = domain.own
    whitened = domain.own_root @ residual
    # log |P + W|, row by row, and what its factor lacks, as much of it for each row
    transpose = getattr(covariance.precision_factor, "transpose", None)
    if transpose is None:
        logarithms = -covariance.log_determinant * len(own) / len(domain.rows)
    else:
        all_ = 2.0 * np.log(transpose.diagonal)
        logarithms = all_[own].sum() - (covariance.log_determinant + all_.sum()) * len(own) / len(domain.rows)
    said = domain.data.take(own).expectations(mean[own], variance[own]).value.sum()
    bound = said + 0.5 * (w[own] @ variance[own] - whitened @ whitened - logarithms)
    bound -= 0.5 * np.log(domain.prior.conditional_variance[own]).sum()
    arrays = {"residual": residual, "site_precision": w, "sensitivity": fit["sensitivity"]}
    kept = {"places": domain.places, "parents": domain.graph.parents, "spatial": domain.graph.spatial}
    job.store.write(name, {"bound": float(bound)}, **arrays, **kept, keys=domain.keys)


def fitted_tile(job: Job, tile: int, trend: tuple[Vector, NDArray[np.float64]]) -> Fitted:
    """A finished tile as a model of its own; `trend` is what is known of the coefficients."""
    from npvi.graph import Graph

    found, settled, name = job.store.read(job.tile(tile, "posterior")), job.settled, job.tile(tile, "posterior")
    with blaming(job.store.path(name)):
        check_posterior(found, len(settled.part.coords), len(trend[0]))
    n = len(found["residual"])
    graph = Graph(np.arange(n), found["parents"], found["spatial"])
    prior: Any = settled.model.prior(found["places"], graph)
    family = AllCovariances(prior, Noise(found["keys"]))
    covariance = family.covariance(found["site_precision"])
    if covariance is None:  # P + W is positive definite for w ≥ 0
        raise StoreError(f"{job.store.path(name)} can't be used: its site_precision leaves no posterior")
    posterior = family.posterior(found["residual"], covariance)
    coefficients, spread = trend
    nothing = np.zeros((n, len(coefficients)))  # the mean is beside the mean function already
    return Fitted(
        spec=settled.spec,
        model=settled.model,
        graph=graph,
        prior=prior,
        posterior=posterior,
        trend=Trend(coefficients, spread, found["sensitivity"]),
        data=Data(settled.likelihood, np.zeros(0)),
        basis=nothing,
        linear_part=settled.part,
        elbo=0.0,
        n_iter=1,
        info={},
    )


def _own_rows(job: Job, tile: int) -> NDArray[np.float64]:
    return job.store.read(job.tile(tile, "rows"))["rows"]


def _own_data(job: Job, tile: int) -> Data:
    _, y, row = job.source.split(_own_rows(job, tile))
    likelihood = job.settled.likelihood
    return Data(likelihood, likelihood.check_response(y), likelihood.check_row(row, len(y), y))


def _own_basis(job: Job, tile: int) -> NDArray[np.float64]:
    return job.settled.part.basis(_own_rows(job, tile)[:, : len(job.source.inputs)])
