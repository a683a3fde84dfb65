"""The Gaussian posterior of f beside NUTS (NumPyro), 150 rows, with hyper-parameters held and free.

    python -m benchmarks nuts [--parts held free] [--noises poisson …] [--seeds 0 …] [--samples N]

Matérn-3/2 over the unit square, f at the training rows. Errors are in units of NUTS's standard deviation: of means, of
the ratio of standard deviations, and of the 5 % and 95 % quantiles. Free ones have the priors of hyperprior="weak" on
both sides, and `predict_dist` with its defaults; the noise's own parameters and the nugget (1e-4, part of NUTS's f) are
held. NUTS with so many
samples is itself off by about 0.8/√n sd in a mean and 1.7/√n sd in such a quantile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import npvi
from benchmarks.battery import Row, column, fan_out, groups, parser, spread
from benchmarks.common import show
from benchmarks.fields import dense_draw, matern
from npvi.learning.start import weak_priors
from npvi.predictive.base import Predictive
from npvi.runtime.precision import float64

_N, _LENGTH, _NUGGET = 150, 0.2, 1e-4
_NOISES: dict[str, Any] = {
    "poisson": npvi.likelihoods.Poisson(),
    "bernoulli": npvi.likelihoods.Bernoulli(),
    "student_t": npvi.likelihoods.StudentT(scale=0.3, df=4.0),
    "zero_inflated_poisson": npvi.likelihoods.ZeroInflatedPoisson(0.3),
}
_LEVELS = (0.05, 0.95)
_SAMPLES = {"held": 8000, "free": 600}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, seeds=1)
    options.add_argument("--parts", nargs="+", default=["held", "free"], choices=["held", "free"])
    options.add_argument("--noises", nargs="+", default=list(_NOISES), choices=_NOISES)
    options.add_argument("--rows", type=int, default=_N)
    options.add_argument("--samples", type=int, help="instead of 8,000 held and 600 free")
    chosen = options.parse_args(arguments)
    cases = [
        {"part": part, "noise": noise, "seed": seed, "rows": chosen.rows, "samples": chosen.samples or _SAMPLES[part]}
        for part in chosen.parts
        for noise in chosen.noises
        for seed in chosen.seeds
    ]
    found = fan_out(one, cases, chosen)
    header = ("hyper-parameters", "noise", "mean", "worst", "sd ratio", "off by", "5 %", "95 %", "worst quantile")
    names = ("mean", "mean_worst", "ratio", "ratio_off", "low", "high", "quantile_worst")
    table = [
        (part, noise, *(spread(column(some, name)) for name in names))
        for (part, noise), some in groups(found, "part", "noise")
    ]
    show(f"f at {chosen.rows} rows beside NUTS, errors in units of its sd (means over rows; worst row)", header, table)


def one(part: str, noise: str, seed: int, rows: int, samples: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 2))
    f = dense_draw(X, _LENGTH, 1.5, rng)
    likelihood = _NOISES[noise]
    y = likelihood.sample(rng, f)
    if noise == "student_t":
        y[:: rows // 10] += rng.choice([-4.0, 4.0], size=len(y[:: rows // 10]))  # outliers
    if part == "held":
        kernel: Any = npvi.kernels.Matern32(_LENGTH, 1.0)
        model = _estimator(likelihood, kernel, rows, learn=False).fit(X, y)
        draws = _held(X, y, likelihood, samples, seed)
    else:
        kernel = npvi.kernels.Matern32(0.5, 1.0)
        held = likelihood.replace(**{name: npvi.fixed(value) for name, value in _numbers(likelihood).items()})
        model = _estimator(held, kernel, rows).fit(X, y)
        priors = weak_priors(model.fitted_.model, X, y, model.data_.latent_unit)
        draws = _free(X, y, likelihood, priors, samples, seed)
    return [_errors(model.predict_dist(X), draws)]


def _estimator(likelihood: Any, kernel: Any, rows: int, **settings: Any) -> npvi.GPRegressor:
    nugget = npvi.fixed(_NUGGET)
    return npvi.GPRegressor(likelihood, kernel, nugget=nugget, mean="zero", n_neighbors=rows - 1, **settings)


def _numbers(likelihood: Any) -> dict[str, Any]:
    given = likelihood.get_params(deep=False)
    return {name: value for name, value in given.items() if name not in (*likelihood.static, *likelihood.held)}


def _errors(dist: Predictive, draws: np.ndarray) -> Row:
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    off = np.abs(dist.latent_mean - mean) / sd
    ratio = np.sqrt(dist.latent_var) / sd
    ends = zip(dist.latent_interval(_LEVELS[1] - _LEVELS[0]), _LEVELS)
    beside = [np.abs(end - np.quantile(draws, level, axis=0)) / sd for end, level in ends]
    return {
        "mean": float(off.mean()),
        "mean_worst": float(off.max()),
        "ratio": float(ratio.mean()),
        "ratio_off": float(np.abs(ratio - 1.0).mean()),
        "low": float(beside[0].mean()),
        "high": float(beside[1].mean()),
        "quantile_worst": float(np.max(beside)),
    }


def _held(X: np.ndarray, y: np.ndarray, likelihood: Any, samples: int, seed: int) -> np.ndarray:
    root = np.linalg.cholesky(_correlation(X, _LENGTH) + _NUGGET * np.eye(len(X)))

    def model(numpyro: Any, dist: Any, jnp: Any, log_prob: Callable) -> None:
        z = numpyro.sample("z", dist.Normal(jnp.zeros(len(y)), 1.0))
        f = numpyro.deterministic("f", jnp.asarray(root) @ z)
        numpyro.factor("y", log_prob(f))

    return _run(model, y, likelihood, samples, seed)["f"]


def _free(X: np.ndarray, y: np.ndarray, likelihood: Any, priors: dict, samples: int, seed: int) -> np.ndarray:
    (of_length,), (of_variance,) = priors["kernel__length_scale"], priors["kernel__variance"]
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1))

    def model(numpyro: Any, dist: Any, jnp: Any, log_prob: Callable) -> None:
        logs = []
        for name, prior in (("length", of_length), ("variance", of_variance)):
            log = numpyro.sample(f"log_{name}", dist.ImproperUniform(dist.constraints.real, (), ()))
            t = prior.exponent * (log - np.log(prior.mode))
            numpyro.factor(f"prior_{name}", t - jnp.exp(t))
            logs.append(log)
        r = np.sqrt(3.0) * distance / jnp.exp(logs[0])
        covariance = jnp.exp(logs[1]) * (1.0 + r) * jnp.exp(-r) + _NUGGET * jnp.eye(len(y))
        z = numpyro.sample("z", dist.Normal(jnp.zeros(len(y)), 1.0))
        f = numpyro.deterministic("f", jnp.linalg.cholesky(covariance) @ z)
        numpyro.factor("y", log_prob(f))

    return _run(model, y, likelihood, samples, seed)["f"]


def _correlation(X: np.ndarray, length: float) -> np.ndarray:
    return matern(np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1)) / length, 1.5)


def _run(model: Callable, y: np.ndarray, likelihood: Any, samples: int, seed: int) -> dict[str, np.ndarray]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions, infer

    with float64():
        each = jax.vmap(likelihood.log_prob)

        def log_prob(f: jax.Array) -> jax.Array:
            return each(jnp.asarray(y), f).sum()

        kernel = infer.NUTS(lambda: model(numpyro, distributions, jnp, log_prob), target_accept_prob=0.85)
        sampler = infer.MCMC(kernel, num_warmup=500, num_samples=samples, progress_bar=False)
        sampler.run(jax.random.PRNGKey(seed))
        return {name: np.asarray(value) for name, value in sampler.get_samples().items()}


if __name__ == "__main__":
    main()
