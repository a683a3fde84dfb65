"""Numbers from all rows: what some of them have told is where the climb begins, and tiles say which way it goes on.

At the best q the bound's derivative in the hyper-parameters θ is a sum over rows (`npvi.learning.objective`). Each tile
finds the best q of what it sees, with coefficients of its own, and hands over the part of its own rows: a few numbers,
summed in the order of the tiles. How much all rows know of θ is what a few tiles tell by differences, times as many.
Some of the rows are near the top already; so one to three Newton steps do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npvi.inference import Start
from npvi.learning import BoundObjective, SearchSpace, newton_step, secant
from npvi.linalg import Noise
from npvi.priors import NotPositiveDefiniteError
from npvi.runtime import progress
from npvi.runtime.warn import warn
from npvi.tiled.domain import build, keep, open_domain
from npvi.tiled.job import Job, job_at
from npvi.tiled.settled import Settled
from npvi.tiled.store import VECTORS

if TYPE_CHECKING:
    from npvi.tiled.building import _Stages

__all__ = ["begin", "climbed", "slopes"]

Vector = NDArray[np.float64]

#: evaluations by all tiles, at most, and nats that a step must promise to be looked at: one that promises less is taken
#: unseen, by a curvature that is known well it misses little of them
_EVALUATIONS, _UNSEEN = 5, 0.2
#: tiles that tell how the bound bends, and how far apart differences are taken
_BENT, _APART = 8, 0.1
_GOLDEN = 0.6180339887498949


def begin(job: Job, tile: int) -> Start | None:
    """Where the fit of a tile may begin: with the best q that the climb has found there. An update has none, nor has a
    finished store that is mended."""
    number = job.settled.info.get("begin")
    if number is None or job.update or not job.store.has(job.tile(tile, f"q-{number}{VECTORS}")):
        return None
    return _start(job, tile, number)


def _start(job: Job, tile: int, number: str) -> Start:
    size = len(job.store.read(job.tile(tile, "domain"))["keys"])
    mean, variance = job.store.read_vectors(job.tile(tile, f"q-{number}"), size).T
    return Start(mean.copy(), variance.copy())


def slopes(folder: str, tile: int, number: str) -> None:
    """The bound's derivatives in the hyper-parameters, by a tile's own rows."""
    job = job_at(folder)
    name = job.tile(tile, f"slopes-{number}")
    asked = job.store.about(f"climb/{number}")
    if not job.layout["rows"][tile]:
        job.store.write(name, {})
        return
    if job.store.has(job.tile(tile, "domain")):
        domain = open_domain(job, tile)
    else:
        domain = build(job, tile)
        if domain is not None:
            keep(domain)
    assert domain is not None  # it has rows
    start = None if asked["after"] is None else _start(job, tile, asked["after"])
    objective = BoundObjective(
        domain.places, domain.data, domain.basis, domain.graph, start, noise=Noise(domain.keys), rows=domain.own
    )
    try:
        gradient = objective(job.settled.model.at(asked["values"]))[1]
    except (NotPositiveDefiniteError, FloatingPointError, np.linalg.LinAlgError):
        job.store.write(name, {"lost": True})
        return
    found = objective.start
    if asked["kept"] and found is not None:
        job.store.write_vectors(job.tile(tile, f"q-{number}"), np.column_stack([found.mean, found.variance]))
    job.store.write(name, {key: np.asarray(slope).tolist() for key, slope in gradient.items()})


def climbed(stages: _Stages, space: SearchSpace) -> Settled:
    """The model at what all rows say of its numbers, `space` being what may be learned of it.

    Each evaluation is written down, as all else is: a climb that was stopped goes on where it was.
    """
    job = stages.job
    rows = job.layout["rows"]
    all_ = np.flatnonzero(rows).tolist()
    z, low, high = space.vector(), space.low, space.high
    here = _evaluated(stages, space, z, "00", all_, None)
    gradient = space.pull_back(z, _added(job, "00", all_))
    if not np.isfinite(gradient).all():  # nobody knows better than the sample
        warn("some tiles have no posterior at what a sample of the rows says of the numbers, which stay as they are")
        return job.settled.at(job.settled.model, {"climbed": True})
    curvature, evaluations = _curvature(stages, space, z, all_), 1
    while evaluations < _EVALUATIONS:
        step = newton_step(curvature, gradient, z, low, high)
        promised = 0.5 * float(step @ gradient)
        if promised < _UNSEEN:
            break
        number, there = f"{evaluations:02d}", np.clip(z + step, low, high)
        _evaluated(stages, space, there, number, all_, here)
        evaluations += 1
        after = space.pull_back(there, _added(job, number, all_))
        bent = secant(curvature, there - z, gradient - after)
        onward = newton_step(bent, after, there, low, high)
        progress.report("climb", evaluation=evaluations, promised=0.5 * float(onward @ after))
        if not 0.5 * float(onward @ after) < promised:  # which leads nowhere, or to where a tile has no answer
            break
        here, z, gradient, curvature = number, there, after, bent
    step = newton_step(curvature, gradient, z, low, high)
    promised = 0.5 * float(step @ gradient)
    if promised < _UNSEEN:
        z = np.clip(z + step, low, high)
    else:
        warn(f"after {evaluations} evaluations by all rows numbers could be better by some {promised:.1f} nats")
    errors = np.abs(space.slopes(z)) * np.sqrt(np.maximum(np.diag(curvature), 0.0))
    labels = [c.name if c.entry is None else f"{c.name}[{c.entry}]" for c in space.coordinates]
    info = {
        "rows": int(rows.sum()),
        "sample": job.settled.info["rows"],
        "evaluations": evaluations,
        "promised": promised,
        "at_bound": space.at_bound(z),
        "standard_errors": dict(zip(labels, errors.tolist())),
        "begin": here,
        "climbed": True,
    }
    return job.settled.at(job.settled.model.at(space.named(z)), info)


def _evaluated(
    stages: _Stages,
    space: SearchSpace,
    z: Vector,
    number: str,
    tiles: Sequence[int],
    after: str | None,
    kept: bool = True,
) -> str:
    """The slopes at z by some tiles, which begin with the q that they have found `after` another evaluation."""
    job = stages.job
    if not job.store.has(f"climb/{number}"):
        job.store.write(f"climb/{number}", {"values": space.named(z), "after": after, "kept": kept})
    calls = [(tile, number) for tile in tiles]
    stages.run("slopes", slopes, calls, lambda tile, number: job.tile(tile, f"slopes-{number}"), job.layout["rows"])
    return number


def _added(job: Job, number: str, tiles: Sequence[int]) -> dict[str, Any]:
    """What tiles say of an evaluation, summed in their order."""
    said = [job.store.about(job.tile(tile, f"slopes-{number}")) for tile in tiles]
    return {
        name: np.full(np.shape(value), np.nan)
        if any("lost" in one for one in said)
        else np.sum([one[name] for one in said], axis=0)
        for name, value in job.settled.model.named().items()
    }


def _curvature(stages: _Stages, space: SearchSpace, z: Vector, tiles: Sequence[int]) -> NDArray[np.float64]:
    """The inverse of minus the second derivatives, by differences of what a few tiles say: an information."""
    job, rows = stages.job, stages.job.layout["rows"]
    chosen = sorted({tiles[int((k * _GOLDEN % 1.0) * len(tiles))] for k in range(1, min(_BENT, len(tiles)) + 1)})
    here, turned = space.pull_back(z, _added(job, "00", chosen)), []
    for j, e in enumerate(_APART * np.eye(len(z))):
        there = z + np.where(z + e > space.high, -e, e)
        _evaluated(stages, space, there, f"bent-{j:02d}", chosen, "00", kept=False)
        turned.append((here - space.pull_back(there, _added(job, f"bent-{j:02d}", chosen))) / (there - z).sum())
    matrix = np.array(turned).reshape(len(z), len(z))
    matrix = np.where(np.isfinite(matrix), matrix, 0.0)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    share = float(rows[chosen].sum() / rows.sum())
    # what a few tiles don't know, all of them hardly do: a nat at least
    return np.asarray((vectors * (share / np.maximum(np.abs(values), 1.0))) @ vectors.T)
