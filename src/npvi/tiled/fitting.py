"""The posterior of each tile by itself, and rounds in which tiles answer for each other until all equations hold.

At the optimum the mean f of all rows solves r(f) = ∂E log p/∂f − P̃ f = 0, P̃ being the prior's precision with the mean's
coefficients integrated out (`npvi.components.stack`). A tile's own fit solves these equations for what it sees. What is
left at its own rows comes from rows further away. A round is one step of a preconditioned iteration for all rows: all
tiles together find a step at a thin sample of the rows (`npvi.tiled.coarse`); from there each finds the Newton step
d of what it sees with its outermost rows held (a restricted Schwarz step, of two levels); the coefficients are moved
together by what all tiles say, and the length of the step is that which leaves least of the residual, measured in
standard deviations; each step is made to have no part in those of the steps before, or it would undo what they did.

For products with P = TᵀT at its own rows a tile has all rows of T that these are in, its own and some of its
neighbours' (`link`). All sums are taken in the order of the tiles, so that it doesn't matter who worked when.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from npvi.components import ProcessPrecision, Trend
from npvi.inference import AllCovariances, Data, fit_posterior
from npvi.linalg import Noise
from npvi.model import Fitted
from npvi.tiled.coarse import HELD, Thin, known_from_afar
from npvi.tiled.domain import Domain, build, keep, open_domain, sparse_rows
from npvi.tiled.job import KEPT, Job, job_at
from npvi.tiled.learning import begin
from npvi.tiled.sense import blaming, check_posterior
from npvi.tiled.store import VECTORS, StoreError

__all__ = ["compare", "complete", "fit_tile", "fitted_tile", "link", "move", "multiply", "solve", "start"]

Vector = NDArray[np.float64]

#: of the fit of a tile, and of the systems of a round
_TOLERANCE, _SOLVED = 1e-7, 1e-2
#: no residual, of which squares are summed
_ABSURD = 1e120
#: what a tile without rows has left
_NOTHING = {"squares": 0.0, "largest": 0.0}
_NOT_AT_ALL = [0.0, 0.0, 0.0]


def fit_tile(folder: str, tile: int) -> None:
    """The posterior of a tile, by what it sees."""
    job = job_at(folder)
    domain = open_domain(job, tile) if job.store.has(job.tile(tile, "domain")) else build(job, tile)
    if domain is None:
        job.store.write(job.tile(tile, "ties"))
        job.store.write(job.tile(tile, "fit"), {"empty": True})
        return
    family = AllCovariances(domain.prior, Noise(domain.keys))
    fit = fit_posterior(family, domain.data, domain.stack, begin(job, tile), _TOLERANCE, int(job.plan["max_iter"]))
    fit = fit.unless_interrupted()
    trend, own = fit.trend, domain.own
    thin, weight = Thin(domain), np.zeros(len(domain.rows))
    weight[own] = np.maximum(fit.posterior.site_precision[own], 0.0)
    vectors = {
        "mean": fit.posterior.mean[own],
        "variance-alone": fit.variance[own],
        "weight-alone": weight[own],
        "thin-weight": thin.interpolation.lumped(weight, Noise(domain.keys)).T,
        "basis": domain.basis[own],
        # Z: by how much f rises with β
        "along": (domain.basis + trend.sensitivity)[own],
    }
    for name, values in vectors.items():
        job.store.write_vectors(job.tile(tile, name), values)
    keep(domain)
    edges, positions = domain.own_edges()
    root = sparse_rows(edges, positions, len(domain.rows))
    # Y: by how much f − Hβ falls when β rises
    information = (root @ domain.basis).T @ (root @ -trend.sensitivity)
    known = positions >= 0
    owner = np.where(known, domain.owner[positions], -1).astype(np.int32)
    number = np.where(known, domain.number[positions], -1).astype(np.int32)
    lent = _lend(job, tile, edges, owner, number)
    about = {
        "converged": bool(fit.info["converged"]),
        "iterations": int(fit.info["n_iter"]),
        "seen": len(domain.rows),
        "variance_error": float(fit.info.get("variance_error", 0.0)),
    }
    job.store.write(job.tile(tile, "ties"), {"information": information.tolist()}, index=thin.index, lent=lent)
    job.store.write(job.tile(tile, "edges"), edges=edges, owner=owner, number=number)
    job.store.write(job.tile(tile, "fit"), about, sensitivity=trend.sensitivity)


def _lend(
    job: Job, tile: int, edges: NDArray[np.float64], owner: NDArray[np.int32], number: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Write down the tile's rows of T that rows of others are in, once for each of these: which has what, (tiles, 3)
    with the first row and the one after the last."""
    lent, pieces, at = [], [np.empty((0, 3 * edges.shape[1]))], 0
    for other in np.unique(owner).tolist():
        if other not in (-1, tile):
            rows = np.flatnonzero((owner == other).any(axis=1))
            pieces.append(np.column_stack([edges[rows], owner[rows], number[rows]]))
            lent.append([other, at, at + len(rows)])
            at += len(rows)
    job.store.write_vectors(job.tile(tile, "lent"), np.concatenate(pieces))
    return np.array(lent, np.int64).reshape(-1, 3)


def link(folder: str, tile: int) -> None:
    """All rows of T that the tile's own rows are in, and the rows of other tiles that are in these: what products with
    P = TᵀT at its own rows ask for."""
    job = job_at(folder)
    name = job.tile(tile, "links")
    if not job.layout["rows"][tile]:
        job.store.write(name)
        return
    mine, lenders = job.store.read(job.tile(tile, "edges")), job.store.read(job.file("lenders"))
    pieces = [[mine[field]] for field in ("edges", "owner", "number")]
    n, width = mine["edges"].shape
    lender = [np.full(n, tile, np.int32)]
    to = lenders["to"] == tile
    for other, start, stop, rows in zip(*(lenders[field][to].tolist() for field in ("of", "start", "stop", "rows"))):
        found = job.store.read_vectors(job.tile(other, "lent"), rows, start, stop)
        lender.append(np.full(len(found), other, np.int32))
        for k, piece in enumerate(pieces):
            piece.append(found[:, k * width : (k + 1) * width])
    edges, owner, number = (np.concatenate(piece) for piece in pieces)
    columns = np.where(owner == tile, number, -1).astype(np.int64)
    theirs = (owner >= 0) & (owner != tile)
    places, at = np.unique(np.column_stack([owner[theirs], number[theirs]]), axis=0, return_inverse=True)
    columns[theirs] = n + at.ravel()
    root = sparse_rows(edges, columns, n + len(places))
    arrays = {"values": root.data, "columns": root.indices.astype(np.int32), "pointer": root.indptr}
    owner, number = places.astype(np.int64).T
    job.store.write(name, **arrays, owner=owner, number=number, lender=np.concatenate(lender))
    if not job.update:  # of which there may be other links, when more tiles are fitted
        job.store.remove(job.tile(tile, "edges"))


def _of_trend(links: _Links, tile: int, mean: Vector, basis: NDArray[np.float64]) -> dict[str, Any]:
    """What a tile's rows of T add to HᵀPf and HᵀPH, and to what is known of β."""
    own = links.root[: links.n]
    whitened = own @ basis
    information = links.job.store.about(links.job.tile(tile, "ties"))["information"]
    HPf, HPH = whitened.T @ (own @ mean), whitened.T @ whitened
    return {"HPf": HPf.tolist(), "HPH": HPH.tolist(), "information": information}


def _of_staying(
    links: _Links, tile: int, mean: Vector, basis: NDArray[np.float64]
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Of an update: what rows of T that other tiles keep add to HᵀPf by what is new of this tile's rows; and how HᵀPf
    and Pf rise with β where rows of tiles that stay move with it."""
    job, n = links.job, links.n
    staying = links.gathered("along")
    staying[job.active[links.owner]] = 0.0
    new, there = np.zeros(len(links.owner)), int(job.kept_layout["rows"][tile])
    if there:
        new[:there] = mean[:there] - job.first_kept(tile, "mean", there)[:, 0]
    whitened, kept = links.root @ basis, np.flatnonzero(~job.active[links.lender])
    sums = {"HPf": whitened[kept].T @ (links.root[kept] @ new), "taken": whitened[:n].T @ (links.root[:n] @ staying)}
    return sums, links.product(staying)


class _Links:
    """What `link` has found."""

    def __init__(self, job: Job, tile: int) -> None:
        found = job.store.read(job.tile(tile, "links"))
        n = int(job.layout["rows"][tile])
        self.job, self.n, self.lender = job, n, found["lender"]
        self.owner = np.concatenate([np.full(n, tile), found["owner"]])
        self.number = np.concatenate([np.arange(n), found["number"]])
        shape = (len(found["pointer"]) - 1, len(self.owner))
        self.root = csr_array((found["values"], found["columns"], found["pointer"]), shape=shape)

    def gathered(self, name: str) -> NDArray[np.float64]:
        """Vectors of this name, at the tile's own rows and then at others."""
        return self.job.gathered(name, self.owner, self.number)

    def product(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P x at the tile's own rows."""
        return (self.root.T @ (self.root @ x))[: self.n]


def multiply(folder: str, tile: int, step: int) -> None:
    """Products with P at the tile's own rows, and the sums that follow from them.

    In step 0 those with the mean, and with H; then that with the step that the tiles have found.
    """
    job = job_at(folder)
    name = job.tile(tile, f"product-{step:02d}")
    if not job.layout["rows"][tile]:
        job.store.write(name, {})
        return
    links = _Links(job, tile)
    if step == 0:
        mean, basis = links.gathered("mean"), links.gathered("basis")
        product, of_basis = links.product(mean), links.product(basis)
        sums, more = _of_trend(links, tile, mean[:, 0], basis), {}
        if job.update:
            among, more["of_staying"] = _of_staying(links, tile, mean[:, 0], basis)
            sums |= {name: (np.array(sums.get(name, 0.0)) + value).tolist() for name, value in among.items()}
        job.store.write_vectors(job.tile(tile, "of-basis"), of_basis)
        job.store.write(name, sums, product=product[:, 0], **more)
        return
    solved = job.store.about(job.file(f"rounds/solved-{step:02d}"))
    x = links.gathered(f"step-{step:02d}")[:, 0] + links.gathered("along") @ np.array(solved["moved"])
    found = links.product(x) - job.own(tile, "of-basis") @ np.array(solved["coefficients"])  # P̃ x
    x, sd = x[: links.n], np.sqrt(job.own(tile, "variance")[:, 0])
    q = (found + job.own(tile, "weight")[:, 0] * x) * sd
    r = job.own(tile, f"residual-{step - 1:02d}")[:, 0] * sd
    before = np.array([job.store.read(_taken(job, tile, k))["q"] for k in range(1, step)]).reshape(step - 1, links.n)
    sums = {"qq": float(q @ q), "qr": float(q @ r), "qp": (before @ q).tolist(), "pr": (before @ r).tolist()}
    sums["pp"] = (before**2).sum(axis=1).tolist()
    job.store.write(name, sums, x=x, product=found, q=q)


def start(folder: str, tile: int) -> None:
    """What is left of the equations at the tile's own rows, once all tiles have fitted theirs, with the variances that
    rows have when those that the tile didn't see are known, too."""
    job = job_at(folder)
    domain = open_domain(job, tile)
    if domain is None:
        job.store.write(_state(job, tile, 0), _NOTHING)
        return
    weight, variance = (domain.gathered(f"{name}-alone")[:, 0] for name in ("weight", "variance"))
    afar = known_from_afar(domain, weight)
    family, own = AllCovariances(domain.prior, Noise(domain.keys)), domain.own
    alone, informed = family.covariance(weight), family.covariance(weight + afar)
    if alone is None or informed is None:
        raise _no_posterior(job, tile)
    variance = (variance * informed.variance / alone.variance)[own]
    at = np.flatnonzero(afar)
    job.store.write(job.tile(tile, "afar"), at=at, weight=afar[at])
    mean = job.own(tile, "mean")[:, 0]
    precision = domain.data.take(own).expectations(mean, variance).precision
    if not np.isfinite(precision).all():
        raise _no_posterior(job, tile)
    job.store.write_vectors(job.tile(tile, "weight"), np.maximum(precision, 0.0))
    job.store.write_vectors(job.tile(tile, "variance"), variance)
    coefficients = np.array(job.store.about(job.file("rounds/begun"))["coefficients"])
    found = job.store.read(job.tile(tile, "product-00"))
    pull = found["product"] - job.own(tile, "of-basis") @ coefficients
    if job.update:  # rows of tiles that stay have moved with the coefficients
        pull += found["of_staying"] @ (coefficients - job.began)
    _keep_state(domain, 0, mean, pull, {})


def _state(job: Job, tile: int, step: int) -> str:
    return job.tile(tile, f"state-{step:02d}")


def _taken(job: Job, tile: int, step: int) -> str:
    return job.tile(tile, f"taken-{step:02d}")


def _keep_state(domain: Domain, number: int, mean: Vector, pull: Vector, sums: dict[str, float]) -> None:
    """Write down where a tile is after a round, and what is left of the equations there; `pull` is P̃ times the mean.
    The precisions stay those of the beginning."""
    job, tile = domain.job, domain.tile
    variance = job.own(tile, "variance")[:, 0]
    residual = domain.data.take(domain.own).expectations(mean, variance).gradient - pull
    if not np.all(np.abs(residual) < _ABSURD):
        raise _no_posterior(job, tile)
    everywhere = np.zeros(len(domain.rows))
    everywhere[domain.own] = residual
    job.store.write_vectors(job.tile(tile, f"thin-{number:02d}"), Thin(domain).interpolation.collected(everywhere))
    job.store.write_vectors(job.tile(tile, f"residual-{number:02d}"), residual)
    job.store.write_vectors(job.tile(tile, f"mean-{number:02d}"), mean)
    left = residual * np.sqrt(variance)
    sums = {"squares": float(left @ left), "largest": float(np.abs(left).max()), **sums}
    job.store.write(_state(job, tile, number), sums, pull=pull)


def solve(folder: str, tile: int, step: int) -> None:
    """The step that a tile would take, by what is left at all rows that it sees, its outermost ones held, and those of
    tiles that stay."""
    job = job_at(folder)
    domain = open_domain(job, tile)
    name = job.tile(tile, f"step-{step:02d}")
    if domain is None:
        job.store.write(name, {"HPd": []})
        return
    left, weight = domain.gathered(f"residual-{step - 1:02d}")[:, 0], domain.gathered("weight")[:, 0]
    thin = Thin(domain)
    begun = thin.interpolation.spread(job.store.read(job.file(f"rounds/thin-{step:02d}"))["found"][thin.index])
    moving = job.active[domain.owner]
    begun[~moving] = 0.0
    left -= domain.prior.matvec(begun) + weight * begun
    held = ~(domain.inner & moving)
    weight[held] = HELD * (weight[held] + domain.prior.precision_diagonal[held])
    left[held] = 0.0
    found = ProcessPrecision(domain.prior, weight, tolerance=_SOLVED).solve(left)
    found = (begun + found)[domain.own]
    job.store.write_vectors(name, found)
    job.store.write(name, {"HPd": (job.own(tile, "of-basis").T @ found).tolist()})


def move(folder: str, tile: int, step: int) -> None:
    """Take the step."""
    job = job_at(folder)
    domain = open_domain(job, tile)
    if domain is None:
        job.store.write(_state(job, tile, step), {**_NOTHING, "moved": 0.0, "farthest": 0.0})
        return
    decided = job.store.about(job.file(f"rounds/taken-{step:02d}"))
    length, direction = decided["length"], job.store.read(job.tile(tile, f"product-{step:02d}"))
    for k, share in enumerate(decided["shares"], 1):
        for one, values in job.store.read(_taken(job, tile, k)).items():
            direction[one] -= share * values
    moved = direction["x"]
    job.store.write(_taken(job, tile, step), **direction)
    mean = job.own(tile, f"mean-{step - 1:02d}")[:, 0] + length * moved
    # a step is short, too, where the way is barred: what tiles would do counts
    far = max(abs(length), 1.0) * moved / np.sqrt(job.own(tile, "variance")[:, 0])
    sums = {"moved": float(far @ far), "farthest": float(np.abs(far).max())}
    pull = job.store.read(_state(job, tile, step - 1))["pull"] + length * direction["product"]
    _keep_state(domain, step, mean, pull, sums)


def compare(folder: str, tile: int, step: int) -> None:
    """How far an update has moved the rows that a tile had before, in standard deviations: all, and those in the half
    of the tile that is next to each tile that stays."""
    job = job_at(folder)
    name, there = job.tile(tile, "moved"), int(job.kept_layout["rows"][tile])
    if not there:
        job.store.write(name, {"all": _NOT_AT_ALL, "next": {}})
        return

    variance = job.first_kept(tile, "variance", there)[:, 0]
    moved = (job.own(tile, f"mean-{step:02d}")[:there] - job.first_kept(tile, f"mean-{step:02d}", there))[:, 0]
    moved /= np.sqrt(variance)
    wider = np.sqrt(job.own(tile, "variance")[:there, 0] / variance) - 1.0
    rows = job.store.read(job.tile(tile, "rows"))["rows"][:there]
    points, boxes = job.settled.points(rows[:, : len(job.source.inputs)]), job.layout["boxes"]
    half, near = 0.5 * float(np.ptp(boxes[tile], axis=0).max()), {}
    only = np.arange(job.tiling.count) == tile
    for other in np.flatnonzero(job.tiling.touching(only) & ~job.active & (job.layout["rows"] > 0)).tolist():
        gaps = np.maximum(np.maximum(boxes[other, 0] - points, points - boxes[other, 1]), 0.0)
        some = np.linalg.norm(gaps, axis=1) <= half
        if some.any():
            near[str(other)] = _how_far(moved[some], wider[some])
    job.store.write(name, {"all": _how_far(moved, wider), "next": near})


def _how_far(moved: Vector, wider: Vector) -> list[float]:
    """Root mean square and largest of means, and root mean square of standard deviations."""
    return [float(np.sqrt(np.mean(moved**2))), float(np.abs(moved).max()), float(np.sqrt(np.mean(wider**2)))]


def _no_posterior(job: Job, tile: int) -> StoreError:
    """Where P + W has no factor, which it has for any w ≥ 0 that data give."""
    return StoreError(
        f"{job.store.folder} can't be used: what tile {tile} and those around it have of means and variances leaves no "
        "posterior"
    )


def complete(folder: str, tile: int, step: int) -> None:
    """All that predictions ask a tile for; and its share of the bound."""
    job = job_at(folder)
    name = job.tile(tile, "posterior")
    domain = open_domain(job, tile)
    if domain is None:
        job.store.write(name, {"bound": 0.0, "coefficients": []})
        return
    fit = job.store.about(job.tile(tile, "fit"))
    mean, variance = domain.gathered(f"mean-{step:02d}")[:, 0], domain.gathered("variance")[:, 0]
    sensitivity = job.store.read(job.tile(tile, "fit"))["sensitivity"]
    w = np.maximum(domain.data.expectations(mean, variance).precision, 0.0)
    afar, known = job.store.read(job.tile(tile, "afar")), w.copy()
    known[afar["at"]] += afar["weight"]
    coefficients = np.array(job.store.about(job.file("rounds/ended"))["coefficients"])
    residual = mean - domain.basis @ coefficients
    family = AllCovariances(domain.prior, Noise(domain.keys))
    covariance = family.covariance(w)
    if covariance is None:
        raise _no_posterior(job, tile)
    own = domain.own
    whitened = sparse_rows(*domain.own_edges(), len(residual)) @ residual
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
    arrays = {"residual": residual, "site_precision": known, "sensitivity": sensitivity}
    kept = {"places": domain.places, "parents": domain.graph.parents, "spatial": domain.graph.spatial}
    job.store.write_vectors(job.tile(tile, "mean"), mean[own])
    about = {"bound": float(bound), "coefficients": coefficients.tolist(), **fit}
    links = _Links(job, tile)
    about["basis"] = np.abs(domain.basis).max(axis=0).tolist()
    about |= _of_trend(links, tile, links.gathered(f"mean-{step:02d}")[:, 0], links.gathered("basis"))
    about["sums"] = {file: job.store.checksum(job.tile(tile, file)) for file in KEPT if file.endswith(VECTORS)}
    job.store.write(name, about, **arrays, **kept, keys=domain.keys)
    for name in ("links", "domain"):  # nobody else reads them
        job.store.remove(job.tile(tile, name))


def fitted_tile(job: Job, tile: int, trend: tuple[Vector, NDArray[np.float64]]) -> Fitted:
    """A finished tile as a model of its own; `trend` is what is known of the coefficients."""
    from npvi.graph import Graph

    settled, name = job.settled, job.tile(tile, "posterior")
    about, found = job.store.read_all(name)
    with blaming(job.store.path(name)):
        check_posterior(found, about, len(settled.part.coords), len(trend[0]))
        # what updates of other tiles have said of the mean since
        slid = trend[0] - np.array(about["coefficients"], np.float64).reshape(len(trend[0]))
    n, residual = len(found["residual"]), found["residual"] + found["sensitivity"] @ slid
    graph = Graph(np.arange(n), found["parents"], found["spatial"])
    prior: Any = settled.model.prior(found["places"], graph)
    family = AllCovariances(prior, Noise(found["keys"]))
    covariance = family.covariance(found["site_precision"])
    if covariance is None:  # P + W is positive definite for w ≥ 0
        raise StoreError(f"{job.store.path(name)} can't be used: its site_precision leaves no posterior")
    posterior = family.posterior(residual, covariance)
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
