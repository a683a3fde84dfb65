"""``method="npvi-nn"``: which network, how it is had, and the posterior that it recognises."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from npvi.amortized.fitting import BATCH, examples, optimum, patches, train_recognizer
from npvi.amortized.gcn import GCN
from npvi.amortized.recognition import MOST_SWEEPS, recognise, recognised
from npvi.amortized.recognizer import Recognizer, RecognizerError, exact_sites, pretrained
from npvi.amortized.settings import SiteNetwork
from npvi.checks import check_choice
from npvi.components import Coefficients, Process, SolverLog, Stack
from npvi.graph import build_graph
from npvi.inference import Data, Fit, SparseFactors, fit_from_sites
from npvi.priors import NNGP
from npvi.runtime import progress

__all__ = ["check_network", "infer", "train_on"]

Progress = Callable[[dict[str, float]], None]

_NAMES = ("sites", "pretrained", "gcn")
#: nats per point that a network without rounds may miss, and rounds where it misses more
_NEAR_ENOUGH, _ROUNDS = 0.01, 3


def check_network(network: Any, solve: Any, refine: Any) -> None:
    """Raise ValueError where a setting is not allowed."""
    known = network in _NAMES if isinstance(network, str) else isinstance(network, Recognizer | SiteNetwork | GCN)
    if not known:
        names = ", ".join(map(repr, _NAMES))
        raise ValueError(
            f"network must be one of {names}, a npvi.Recognizer, or settings (SiteNetwork, GCN of npvi.networks); "
            f"got {network!r}"
        )
    if isinstance(network, SiteNetwork | GCN):
        network.validate()
    check_choice(solve, "solve", ("cg", "local"))
    if not (isinstance(refine, int | np.integer) and 0 <= refine <= MOST_SWEEPS):
        raise ValueError(f"refine must be 0 to {MOST_SWEEPS} finishing sweeps, got {refine!r}")


def infer(
    network: Any,
    solve: str,
    refine: int,
    data: Data,
    stack: Stack,
    seed: int,
    report: Progress | None = None,
) -> tuple[Fit, Recognizer | None]:
    """The posterior, and the recognizer where there is one."""
    if network == "gcn" or isinstance(network, GCN):
        from npvi.amortized.gcn.fit import fit_gcn

        settings = GCN() if network == "gcn" else network
        return fit_gcn(stack.prior, data, stack, settings, seed=seed, progress=report), None
    started = time.perf_counter()
    recognizer = _recognizer(network, data, stack, seed)
    trained = time.perf_counter() - started
    if solve == "local":
        from npvi.amortized.local import recognise_locally

        fit = recognise_locally(recognizer, data, stack, refine, report)
    else:
        fit = recognise(recognizer, data, stack, refine, report)
    fit.info["seconds_of_training"] = trained
    found = fit.info["applicability"]
    if found["verdict"] != "trust":
        warnings.warn(_warning(found, refine, network), UserWarning, stacklevel=5)
    return fit, recognizer


def _warning(found: dict[str, Any], refine: int, network: Any) -> str:
    """What to say of a recognised posterior that isn't to be trusted, and what to do."""
    trained_here = network == "sites" or isinstance(network, SiteNetwork)
    advice = {
        "refine": f"finish it with refine={refine + 1}",
        "retrain": "use method='full'" if trained_here else "train a network on these data (leave network out)",
        "full": "use method='full'; neither refining nor training would mend that",
    }
    off = (
        f"has means up to {found['mean_offset']:.2g} standard deviations off, and standard deviations of "
        f"{found['smallest_sd_ratio']:.2f} to {found['largest_sd_ratio']:.2f} times those of method='full' "
        f"({found['share_off']:.0%} of the rows are beyond 0.5, 0.85 or 1.18)"
        if np.isfinite(found["mean_offset"])
        else "can't be compared with that of method='full', whose precision has no usable factor"
    )
    strange = f"; {found['outside']:.0%} of the rows are unlike its training" if found["outside"] > 0.1 else ""
    return f"the recognised posterior {off}{strange}: {advice[found['verdict']]}"


def _recognizer(network: Any, data: Data, stack: Stack, seed: int) -> Recognizer | None:
    likelihood, n_inputs = data.likelihood, stack.prior.X.shape[1]
    if isinstance(network, Recognizer):
        network.check(likelihood, n_inputs)
        return network
    if exact_sites(likelihood):
        return None
    if network == "pretrained":
        found = pretrained(likelihood)
        found.check(likelihood, n_inputs)
        return found
    return train_on(data, stack, SiteNetwork() if network == "sites" else network, seed)


def train_on(data: Data, stack: Stack, settings: SiteNetwork, seed: int) -> Recognizer:
    """A recognizer trained on patches of these data; their points keep their order.

    Where nothing is said of rounds, it is trained without them and, should it miss the patches' optimum, with some.
    """
    X = stack.prior.X
    points = len(X) if settings.points is None else int(settings.points)
    # all patches together, because a small fit's time goes into what doesn't depend on its size
    rows = np.sort(np.concatenate(patches(stack.prior.kernel.coordinates(X), points)))
    progress.report("examples", points=len(rows))
    part, prior = data.take(rows), part_of(stack, rows)
    best = optimum(part, prior)

    def trained(rounds: int) -> Recognizer:
        seen = examples(part, prior, rounds, best.posterior)
        if not len(seen.features):
            raise RecognizerError(
                "network: no row of these data can serve as an example, because the iteration to their optimum ran "
                "away: use network='pretrained' or method='full'"
            )
        steps_of_an_epoch = -(-len(seen.features) // BATCH)
        return train_recognizer(
            data.likelihood,
            [seen],
            n_inputs=X.shape[1],
            rounds=rounds,
            width=int(settings.width),
            epochs=-(-int(settings.steps) // steps_of_an_epoch),
            learning_rate=float(settings.learning_rate),
            seed=seed,
            report=lambda **numbers: progress.report("training", **numbers),
        )

    if settings.rounds is not None:
        return trained(int(settings.rounds))
    recognizer = trained(0)
    part = replace(part, coarse=True)
    found = recognised(recognizer, part, prior, SolverLog())
    reached = fit_from_sites(SparseFactors(prior.prior), part, prior, found.mean, found.site_precision).elbo
    return recognizer if best.elbo - reached <= _NEAR_ENOUGH * len(rows) else trained(_ROUNDS)


def part_of(stack: Stack, rows: np.ndarray) -> Stack:
    """The prior and mean function of some of the points alone, in the order they have."""
    prior: Any = stack.prior
    X = np.ascontiguousarray(prior.X[rows])
    k = max(1, min(prior.graph.n_neighbors, len(rows) - 1))
    graph = build_graph(prior.kernel.coordinates(X), k, order="given")
    basis = np.ascontiguousarray(stack.linear.basis[rows])
    return Stack(Process(NNGP(prior.kernel, prior.nugget, X, graph)), Coefficients(basis, stack.linear.precision))
