"""Side by side with GPBoost and GPyTorch's SVGP: same data, same neighbours, same threads. Needs the `bench` extra.

    NPVI_DATA=... python -m benchmarks.gpboost [fixed] [learned] [large] [svgp]

Each side runs in a process of its own, one after the other. Times are of fitting and of predicting means and variances;
our compilation is left out and shown by itself, peers are warmed up on a few rows. A run that takes longer than 15
minutes is stopped and counts as 15 minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import load, show

_LIMIT = 900.0
_NEIGHBORS = 20
_THREADS = len(os.sched_getaffinity(0))
#: of the simulated counts
_LENGTH, _VARIANCE = 0.1, 1.0
_TEST = 5000
_PARTS = ["fixed", "learned", "large", "svgp"]


def simulated(n: int) -> dict[str, np.ndarray]:
    """Poisson counts of mean about 1 under an exponential kernel in the unit square; the last rows are for testing."""
    from npvi.graph import build_graph
    from npvi.kernels import Matern12
    from npvi.priors import NNGP

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n + _TEST, 2))
    graph = build_graph(X, 30)
    prior = NNGP(Matern12(_LENGTH, _VARIANCE), 1e-8, X[graph.order], graph)
    f = np.empty(len(X))
    f[graph.order] = prior.root.solve(rng.standard_normal(len(X)))
    y = rng.poisson(np.exp(f)).astype(np.float64)
    train, test = slice(0, n), slice(n, None)
    return {"X_train": X[train], "y_train": y[train], "X_test": X[test], "y_test": y[test]}


def _data(name: str) -> dict[str, np.ndarray] | None:
    return simulated(int(name.removeprefix("poisson"))) if name.startswith("poisson") else load(name)


# -- one side, in its own process -------------------------------------------------------------------------------------


def npvi_side(data: dict[str, np.ndarray], likelihood: str, learn: bool, threads: int) -> dict[str, float]:
    import npvi

    settings: dict[str, Any] = {"n_neighbors": _NEIGHBORS, "n_jobs": threads}
    if not learn:
        settings |= {"kernel": npvi.kernels.Matern12(_LENGTH, _VARIANCE), "nugget": 1e-6, "learn": False}
        settings |= {"mean": "zero"}

    def run() -> tuple[float, float, float]:
        started = time.perf_counter()
        model = npvi.GPRegressor(likelihood, **settings).fit(data["X_train"], data["y_train"])
        fitted = time.perf_counter()
        dist = model.predict_dist(data["X_test"])
        assert dist.latent_var.min() >= 0.0
        predicted = time.perf_counter()
        return fitted - started, predicted - fitted, -float(dist.log_prob(data["y_test"]).mean())

    first = sum(run()[:2])
    fit, predict, nlpd = min((run() for _ in range(3)), key=lambda times: times[0] + times[1])
    return {"fit": fit, "predict": predict, "nlpd": nlpd, "compile": max(0.0, first - fit - predict)}


def gpboost_side(
    data: dict[str, np.ndarray], likelihood: str, learn: bool, threads: int, route: str
) -> dict[str, float]:
    import gpboost

    names = {"negative_binomial": "negative_binomial", "lognormal": "gaussian"}
    kernel = "matern" if likelihood in ("gamma", "lognormal") else "exponential"
    y = np.log(data["y_train"]) if likelihood == "lognormal" else data["y_train"]

    def model(rows: slice) -> gpboost.GPModel:
        return gpboost.GPModel(
            gp_coords=data["X_train"][rows],
            cov_function=kernel,
            cov_fct_shape=1.5,
            likelihood=names.get(likelihood, likelihood),
            gp_approx="vecchia",
            num_neighbors=_NEIGHBORS,
            matrix_inversion_method=route,
            num_parallel_threads=threads,
            seed=0,
        )

    def run(rows: slice) -> tuple[float, float, dict[str, np.ndarray], Any]:
        X = np.ones((len(y[rows]), 1)) if learn else None
        started = time.perf_counter()
        gp = model(rows)
        if learn:
            gp.fit(y=y[rows], X=X, params={"trace": False})
            fitted = time.perf_counter()
            new = {"X_pred": np.ones((len(data["X_test"]), 1))}
        else:
            parameters = np.array([_VARIANCE, _LENGTH])
            gp.neg_log_likelihood(cov_pars=parameters, y=y[rows])
            fitted = time.perf_counter()
            new = {"cov_pars": parameters, "y": y[rows]}
        found = gp.predict(gp_coords_pred=data["X_test"], predict_var=True, predict_response=False, **new)
        return fitted - started, time.perf_counter() - fitted, found, gp

    run(slice(0, 500))
    fit, predict, found, gp = run(slice(None))
    parameters = gp.get_aux_pars(format_pandas=False) if likelihood in ("gamma", "negative_binomial") else None
    covariance = gp.get_cov_pars(format_pandas=False) if learn else None
    nlpd = _score(likelihood, data["y_test"], found["mu"], found["var"], parameters, covariance)
    return {"fit": fit, "predict": predict, "nlpd": nlpd}


def _score(likelihood: str, y: np.ndarray, mean: np.ndarray, var: np.ndarray, aux: Any, covariance: Any) -> float:
    """Negative log predictive density of a latent normal with GPBoost's own noise parameters, by our quadrature."""
    from npvi.likelihoods import Gamma, LogNormal, NegativeBinomial, Poisson
    from npvi.predictive import Predictive

    if likelihood == "lognormal":
        noise = float(np.ravel(covariance)[0])
        return -float(Predictive(LogNormal(noise), mean, np.maximum(var, 0.0)).log_prob(y).mean())
    number = float(np.ravel(aux)[0]) if aux is not None else 1.0
    made = {"poisson": Poisson(), "gamma": Gamma(number), "negative_binomial": NegativeBinomial(number)}
    return -float(Predictive(made[likelihood], mean, np.maximum(var, 0.0)).log_prob(y).mean())


def svgp_side(data: dict[str, np.ndarray], likelihood: str, threads: int) -> dict[str, float]:
    """GPyTorch's SVGP, 1000 inducing points (k-means, learned), Adam until an epoch's bound stops rising."""
    import gpytorch
    import torch
    from sklearn.cluster import KMeans

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    X = torch.tensor(data["X_train"], dtype=torch.float32)
    log_normal = likelihood == "lognormal"
    y = torch.tensor(np.log(data["y_train"]) if log_normal else data["y_train"], dtype=torch.float32)
    scale = X.std(dim=0)
    started = time.perf_counter()
    inducing = KMeans(1000, n_init=1, random_state=0).fit(data["X_train"]).cluster_centers_

    class Poisson(gpytorch.likelihoods._OneDimensionalLikelihood):
        def forward(self, f: torch.Tensor, **_: Any) -> torch.distributions.Distribution:
            return torch.distributions.Poisson(f.clamp(max=20.0).exp())

    class Latent(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, q, learn_inducing_locations=True))
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.MaternKernel(nu=0.5 if likelihood == "poisson" else 1.5, ard_num_dims=X.shape[1])
            base.lengthscale = 0.5 * scale
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Latent(torch.tensor(inducing, dtype=torch.float32))
    noise = Poisson() if likelihood == "poisson" else gpytorch.likelihoods.GaussianLikelihood()
    bound = gpytorch.mlls.VariationalELBO(noise, model, num_data=len(X))
    optimiser = torch.optim.Adam([*model.parameters(), *noise.parameters()], lr=0.01)
    best, since, epoch = -np.inf, 0, 0
    while since < 5 and epoch < 400 and time.perf_counter() - started < _LIMIT - 60.0:
        order, total = torch.randperm(len(X)), 0.0
        for rows in order.split(1024):
            optimiser.zero_grad()
            value = bound(model(X[rows]), y[rows])
            (-value).backward()
            optimiser.step()
            total += float(value) * len(rows) / len(X)
        epoch, since = epoch + 1, 0 if total > best + 1e-3 else since + 1
        best = max(best, total)
    fit = time.perf_counter() - started
    model.eval()
    with torch.no_grad():
        f = model(torch.tensor(data["X_test"], dtype=torch.float32))
        mean, var = f.mean.numpy().astype(float), f.variance.numpy().astype(float)
    predict = time.perf_counter() - started - fit
    covariance = float(noise.noise) if log_normal else None  # type: ignore[attr-defined]
    return {
        "fit": fit,
        "predict": predict,
        "nlpd": _score(likelihood, data["y_test"], mean, var, None, covariance),
        "epochs": epoch,
    }


_SIDES: dict[str, Callable[..., dict[str, float]]] = {"npvi": npvi_side, "gpboost": gpboost_side, "svgp": svgp_side}


def _run(side: str, name: str, **options: Any) -> dict[str, float] | None:
    """One side's figures; None where it ran out of time."""
    task = json.dumps({"side": side, "name": name, "options": {**options, "threads": _THREADS}})
    environment = {**os.environ, "OMP_NUM_THREADS": str(_THREADS)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.gpboost", "--task", task],
            capture_output=True,
            text=True,
            check=True,
            timeout=_LIMIT,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(error.stderr) from error
    return json.loads(done.stdout.splitlines()[-1])


# -- tables -----------------------------------------------------------------------------------------------------------


def _seconds(result: dict[str, float] | None) -> float:
    return _LIMIT if result is None else result["fit"] + result["predict"]


def _cells(result: dict[str, float] | None) -> tuple[object, object, object]:
    if result is None:
        return f"> {_LIMIT:.0f}", "", ""
    return result["fit"], result["predict"], f"{result['nlpd']:.4f}"


def _compare(title: str, cases: list[tuple[str, str, bool, tuple[str, ...]]]) -> None:
    rows = []
    for name, likelihood, learn, routes in cases:
        if _data(name) is None:
            continue
        ours = _run("npvi", name, likelihood=likelihood, learn=learn)
        assert ours is not None
        rows.append((name, likelihood, "npvi", *_cells(ours), 1.0, ours["compile"]))
        for route in routes:
            theirs = _run("gpboost", name, likelihood=likelihood, learn=learn, route=route)
            rows.append((name, likelihood, f"GPBoost, {route}", *_cells(theirs), _seconds(theirs) / _seconds(ours), ""))
    header = ("data", "likelihood", "software", "fit s", "predict s", "NLPD", "slower by", "compile s")
    show(title, header, rows)


def main() -> None:
    try:
        import gpboost
    except ImportError:
        print("  (gpboost: skipped, the `bench` extra isn't installed: make bench-peers)")
        return
    parts = [part for part in sys.argv[1:] if part in _PARTS] or _PARTS
    print(f"  GPBoost {gpboost.__version__}, {_THREADS} threads, K = {_NEIGHBORS}; variances included")
    if "fixed" in parts:
        cases = [
            ("poisson20000", "poisson", False, ("cholesky", "iterative")),
            ("poisson100000", "poisson", False, ("cholesky",)),
        ]
        _compare(f"Fixed parameters, exponential kernel, {_TEST} test points", cases)
    if "learned" in parts:
        cases = [
            ("bird_counts", "poisson", True, ("cholesky",)),
            ("bird_counts", "negative_binomial", True, ("cholesky",)),
            ("precipitation", "gamma", True, ("cholesky",)),
            ("precipitation", "lognormal", True, ("cholesky",)),
        ]
        _compare("Learned parameters, our defaults; GPBoost: exponential for counts, Matérn-3/2 else", cases)
    if "large" in parts:
        _compare("Learned parameters, 100,000 simulated counts", [("poisson100000", "poisson", True, ("iterative",))])
    if "svgp" in parts:
        rows = []
        for name, likelihood in (("bird_counts", "poisson"), ("precipitation", "lognormal")):
            if _data(name) is None:
                continue
            ours = _run("npvi", name, likelihood=likelihood, learn=True)
            theirs = _run("svgp", name, likelihood=likelihood)
            rows.append((name, likelihood, "npvi", *_cells(ours), 1.0, ""))
            epochs = "" if theirs is None else theirs["epochs"]
            rows.append((name, likelihood, "SVGP", *_cells(theirs), _seconds(theirs) / _seconds(ours), epochs))
        header = ("data", "likelihood", "software", "fit s", "predict s", "NLPD", "slower by", "epochs")
        show("GPyTorch's SVGP, M = 1000, Adam until the bound stops rising", header, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--task"]:
        task = json.loads(sys.argv[2])
        arrays = _data(task["name"])
        print(json.dumps(_SIDES[task["side"]](arrays, **task["options"])))
    else:
        main()
