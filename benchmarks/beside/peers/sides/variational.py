"""GPyTorch: SVGP with inducing points, and VNNGP with every training row as one.

Settings of its examples (docs.gpytorch.ai, "Variational and Approximate GPs": SVGP_Regression_CUDA, VNNGP): Adam with
steps of 0.01, mini-batches of 1024 for SVGP and of 256 for VNNGP, which trains on its inducing points; responses are
standardised. In their favour:

* both go on until an epoch's bound has not risen ten times in a row, instead of for a fixed number of epochs;
* kernels have a variance, a length scale per input, and the smoothness that scored best with GPBoost; the mean is a
  constant that starts at that of the data;
* VNNGP's means start at the responses: from zero, as by default, the kernel turned into white noise before they moved.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import gpytorch
import numpy as np
import torch

from benchmarks.beside.peers.sides.base import Side

__all__ = ["InducingPoints", "NearestNeighbours"]

_EPOCHS = 400
#: an epoch's bound has risen if by more than this per row; how many may pass without
_RISE, _PATIENCE = 1e-3, 10
#: part of the time that training may take, so that predicting fits in too
_SHARE = 0.9


class PoissonLikelihood(gpytorch.likelihoods._OneDimensionalLikelihood):
    """Counts with mean exp(f); GPyTorch has none of its own."""

    def forward(self, f: torch.Tensor, **_: Any) -> torch.distributions.Distribution:
        return torch.distributions.Poisson(f.clamp(max=20.0).exp())


class Process(gpytorch.models.ApproximateGP):
    """A Gaussian process with a constant mean and a Matérn kernel."""

    def __init__(self, strategy: Any, X: torch.Tensor, smoothness: float, constant: float, length: float) -> None:
        super().__init__(strategy(self))
        self.mean_module = gpytorch.means.ConstantMean()
        self.mean_module.constant.data.fill_(constant)
        base = gpytorch.kernels.MaternKernel(nu=smoothness, ard_num_dims=X.shape[1])
        base.lengthscale = length * X.std(dim=0)
        self.covar_module = gpytorch.kernels.ScaleKernel(base)

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _Variational(Side):
    """What both have in common: the likelihood, Adam, predictions."""

    step = 0.01
    #: starting length scale in standard deviations of the input
    length = 0.5

    def __init__(self, noise: str, threads: int, smoothness: float = 0.5) -> None:
        super().__init__(noise, threads)
        self.smoothness = smoothness
        torch.set_num_threads(threads)

    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
        ends = time.perf_counter() + _SHARE * seconds
        torch.manual_seed(0)
        z = y if self.counts else np.log(y)
        shift, scale = (0.0, 1.0) if self.counts else (float(z.mean()), float(z.std()))
        inputs = torch.tensor(X, dtype=torch.float32)
        responses = torch.tensor((z - shift) / scale, dtype=torch.float32)
        constant = float(np.log(y.mean())) if self.counts else 0.0
        process = Process(lambda model: self._strategy(model, X), inputs, self.smoothness, constant, self.length)
        self._start(process, np.log(y + 0.5) if self.counts else (z - shift) / scale)
        noise = PoissonLikelihood() if self.counts else gpytorch.likelihoods.GaussianLikelihood()
        bound = gpytorch.mlls.VariationalELBO(noise, process, num_data=len(X))
        adam = torch.optim.Adam([*process.parameters(), *noise.parameters()], lr=self.step)
        self.epochs = self._climb(bound, adam, lambda: self._batches(process, inputs, responses), ends)
        return process, noise, shift, scale

    def predict(self, model: Any, X: np.ndarray) -> dict[str, Any]:
        process, noise, shift, scale = model
        process.eval()
        with torch.no_grad():
            found = [process(rows) for rows in torch.tensor(X, dtype=torch.float32).split(1024)]
            mean, var = (np.concatenate([getattr(f, name).numpy() for f in found]) for name in ("mean", "variance"))
        number = None if self.counts else float(noise.noise.detach()) * scale**2
        return {"mean": shift + scale * mean, "var": scale**2 * var, "number": number}

    def forecast(self, predicted: dict[str, Any]) -> Any:
        from benchmarks.beside.peers.forecasts import latent_normal

        return latent_normal(self.noise, **predicted)

    def _climb(self, bound: Any, adam: Any, batches: Any, ends: float) -> int:
        """Adam until an epoch's bound stops rising or time is up; the number of epochs."""
        best, since, epoch = -np.inf, 0, 0
        self.stopped = False
        while since < _PATIENCE and epoch < _EPOCHS:
            total = 0.0
            for f, y, share in batches():
                if time.perf_counter() > ends:
                    self.stopped = True
                    return epoch
                value = bound(f, y)
                adam.zero_grad()
                (-value).backward()
                adam.step()
                total += share * float(value.detach())
            epoch, since = epoch + 1, 0 if total > best + _RISE else since + 1
            best = max(best, total)
        return epoch

    def _strategy(self, model: Any, X: np.ndarray) -> Any:
        raise NotImplementedError

    def _start(self, process: Process, f: np.ndarray) -> None:
        """Where q starts, given what each response says about f; GPyTorch's own choice is the prior."""

    def _batches(self, model: Any, X: torch.Tensor, y: torch.Tensor) -> Iterator[Any]:
        """One epoch: f at some rows, their responses, and which share of all rows they are."""
        raise NotImplementedError


class InducingPoints(_Variational):
    """SVGP: 1000 inducing points, the centres of k-means to begin with, and learned."""

    points, batch = 1000, 1024

    def _strategy(self, model: Any, X: np.ndarray) -> Any:
        from sklearn.cluster import KMeans

        count = min(self.points, len(np.unique(X, axis=0)))
        centres = KMeans(count, n_init=1, random_state=0).fit(X).cluster_centers_
        q = gpytorch.variational.CholeskyVariationalDistribution(count)
        points = torch.tensor(centres, dtype=torch.float32)
        return gpytorch.variational.VariationalStrategy(model, points, q, learn_inducing_locations=True)

    def _batches(self, model: Any, X: torch.Tensor, y: torch.Tensor) -> Iterator[Any]:
        for rows in torch.randperm(len(X)).split(self.batch):
            yield model(X[rows]), y[rows], len(rows) / len(X)


class NearestNeighbours(_Variational):
    """VNNGP: all training rows are inducing points, in random order, with 20 neighbours each, our default."""

    neighbours, batch = 20, 256

    def __init__(self, noise: str, threads: int, smoothness: float = 0.5) -> None:
        import faiss

        super().__init__(noise, threads, smoothness)
        # GPyTorch searches for one row's neighbours at a time, which two threads only make slower
        faiss.omp_set_num_threads(1)

    def fit(self, X: np.ndarray, y: np.ndarray, seconds: float) -> Any:
        order = np.random.default_rng(0).permutation(len(X))
        return super().fit(X[order], y[order], seconds)

    def _strategy(self, model: Any, X: np.ndarray) -> Any:
        q = gpytorch.variational.MeanFieldVariationalDistribution(len(X))
        points = torch.tensor(X, dtype=torch.float32)
        return gpytorch.variational.NNVariationalStrategy(
            model, points, q, k=self.neighbours, training_batch_size=self.batch
        )

    def _start(self, process: Process, f: np.ndarray) -> None:
        strategy = process.variational_strategy
        q = strategy._variational_distribution
        q.variational_mean.data.copy_(torch.tensor(f, dtype=torch.float32))
        q._variational_stddev.data.fill_(0.1)
        strategy.variational_params_initialized.fill_(1)

    def _batches(self, model: Any, X: torch.Tensor, y: torch.Tensor) -> Iterator[Any]:
        strategy = model.variational_strategy
        for _ in range(strategy._total_training_batches):
            f = strategy(x=None, prior=False)
            rows = strategy.current_training_indices
            yield f, y[rows], len(rows) / len(X)
