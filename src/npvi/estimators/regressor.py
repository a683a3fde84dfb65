"""Gaussian process regression with any noise."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from npvi.checks import as_numbers
from npvi.estimators.mapping import MapsNumbers
from npvi.estimators.summed import WithTerms

__all__ = ["GPRegressor"]


class GPRegressor(MapsNumbers, WithTerms):
    """Gaussian process for responses with any noise, by variational inference over nearest neighbours.

    Parameters
    ----------
    likelihood : str or Likelihood
        What y is, given f: "gaussian", "lognormal", "poisson", "bernoulli", "binomial", "gamma", "student_t", …, or an
        object such as ``npvi.likelihoods.Poisson(link="exp")``. Counts that are only named choose their link (exp, or
        softplus with a knee) by what each says of places that are left out.
    kernel : str, Kernel or function of two points
        Covariance of f: "matern" (whose smoothness is learned, or two are mixed), "rbf", "matern12", "matern32",
        "matern52", …, or an object such as ``npvi.kernels.RBF(length_scale=0.5, variance=1.0)``. One that is only named
        has a length scale per input, and starts at the data's own scales; the numbers of an object are where learning
        starts, unless they say more: ``npvi.fixed(0.5)``, ``npvi.bounded(0.5, 0.1, 2.0)``,
        ``npvi.positive(0.5, prior=(0.0, 1.0))``.
    nugget : float or None
        Variance on the diagonal, fresh for every row: what rows at one place don't have in common, besides the noise.
        Points that share a location need it positive; for counts it is overdispersion. In predictions it is part of the
        response, not of f (``latent_var``). None: learned (10⁻⁴ where nothing is); with Gaussian noise, which it can't
        be told from, tiny.
    mean : {"constant", "linear", "zero"}
        Prior mean of f: a constant, which is learned; a linear function of the covariates (of all columns, where
        `coords` leaves none over); or zero. Covariates are part of it in any case.
    method : {"full", "npvi", "npvi-nn"}
        How the posterior is approximated: by the best Gaussian there is, by the
        paper's, whose covariance has a sparse factor, or by what a network recognises as that.
    prior : {"nngp", "fitc", "nystrom"}
        How the Gaussian process is approximated: each point given its nearest neighbours (a nearest-neighbour Gaussian
        process, which is a Vecchia approximation); or all of them through a few inducing points, with the kernel's own
        variances ("fitc") or without ("nystrom", which needs a nugget). The latter two see what is far apart and
        smooth, not what varies between inducing points, and cost N times the square of `n_inducing` per iteration;
        there the best Gaussian is exact for any number of rows.
    optimizer : {"closed", "sgd"} or SGD
        How the paper's posterior is found: by closed forms, which is fast, or by the paper's stochastic gradients
        (AdaGrad on batches of rows); ``npvi.SGD(optimizer="adam", epochs=1000)`` has its settings.
    n_neighbors : int or "auto"
        Parents of each point. "auto" is 20; 40 where the process has more than three inputs and there are at most
        10,000 rows: among few rows and many inputs more neighbours know more, and cost little. A prediction looks at as
        many training points, with ``method="full"`` at three times as many. N − 1 or more means all.
    rule : {"nearest", "paper"}
        How parents are chosen.
    order : {"maximin", "grid", "nested", "random", "given"} or permutation
        Order of the points; coarse to fine by default.
    inducing : {"kmeans", "random"} or array of shape (M, inputs of the process)
        For "fitc" and "nystrom": rows next to the centres of clusters, as the kernel that is given (or learning starts
        from) measures distance; rows at random; or the inducing points themselves. Learning holds them.
    n_inducing : int
        How many. As many as there are different rows is the Gaussian process itself.
    network : {"sites", "pretrained", "gcn"}, Recognizer or settings
        For "npvi-nn": a network trained on patches of the data, one that comes with the package, the paper's graph
        convolutional networks, or one of your own (`npvi.fit_network`); settings are `npvi.amortized.SiteNetwork` and
        `npvi.amortized.GCN`.
    solve : {"cg", "local"}
        For "npvi-nn": whether recognised sites become means by one solve for all points, or patch by patch.
    refine : int
        For "npvi-nn": finishing sweeps, 0 to 3.
    learn : {True, False, "grid"}
        Whether hyper-parameters are learned, by the largest bound, or stay as given. "grid": the paper's way, the
        length scale among seven that predicts a validation split best (`npvi.grid_search` has more of it). From one
        row nothing is learned, which a warning says; nor, without priors (``hyperprior=None``), from fewer than five.
    coords : columns or None
        Which columns of X the process sees, by name or number; the others are covariates of the mean. None: all.
    coefficient_scale : {"weak", None} or float
        Standard deviation of the Gaussian prior of each covariate's coefficient. "weak": 5 units of f (logarithms,
        log-odds; the spread of y where f has its scale) per standard deviation of the covariate. None: flat.
    hyperprior : {"weak", None}
        Priors of the length scales and standard deviations that have none of their own (`npvi.pc`, `npvi.positive`):
        penalised complexity, in the data's own units, or none, which is maximum likelihood.
    hyper : {"auto", "plug-in", "integrate"}
        What isn't known of the hyper-parameters: predictions mix some models around the best one, as likely as the
        data and the priors make them ("integrate"), or are those of the best one ("plug-in"). "auto" integrates up to
        2,500 rows, and up to 10,000 with Gaussian or log-normal noise, where it takes little time;
        ``fit_info_["hyper"]`` says what was done, and why.
    tol : float
        Both residuals of the optimum must fall below it; by draws they can't be had as small.
    max_iter : int
        Most iterations.
    random_state : int, RandomState or None
        For random orders and ties. None means 0: the same data give the same answer, in whatever order the rows come
        (unless `order` says what it is).
    n_jobs : int or None
        Threads; None means all cores.
    verbose : int
        1 prints a line per step.
    terms : list of terms or None
        What the predictor is a sum of, instead of one surface: ``[npvi.Field("lon", "lat"), npvi.Smooth("depth"),
        npvi.Group("observer"), npvi.Linear("forest"), npvi.Offset("log(hours)")]``. `kernel`, `coords` and `mean` are
        then the terms' to say. A constant is among them unless ``npvi.Linear(intercept=False)`` says otherwise.
    formula : str or None
        The same as a text: ``"count ~ forest + s(depth) + (1|observer) + gp(lon, lat) + offset(log(hours))"``.
    link : str or None
        With `terms` or a `formula`, the link of a likelihood that is only named. Unless given, that of counts is exp as
        far as rates were seen and a straight line beyond (softplus with its knee at twice the largest), so that means
        far from all data stay within reason; where the data say clearly, by 3 nats of the bound, that effects add up
        from a typical count on, the knee is there (``fit_info_["link"]``). "exp" is exp all the way, "softplus" has its
        knee at a typical count.

    Attributes
    ----------
    elbo_ : float
        The evidence lower bound of all data, every constant included.
    fit_info_ : dict
        The bound and both residuals after every iteration, what the fit guarantees, what the solver did, how learning
        went, the parameters that ended at a bound, seconds per stage; what was seen in all training rows and what the
        model expects there (``sum_seen``, ``sum_expected``, and ``sum_error``, the standard error of the latter). With
        ``method="full"`` and more than 400 points, how far standard deviations are off, as relative root mean squares:
        those of predictions (``variance_error``), and those of f at the training rows (``marginal_variances``: rows
        that were ``compared``, how far they were ``off``, what is ``left`` of it).
    kernel_, likelihood_, nugget_ : those used, learned or given.
    posterior_ : the posterior at the training points, in the order of ``graph_.order``.
    graph_ : the graph.
    structure_ : how the process is approximated; ``structure_.points`` are the inducing points, where there are any.
    mean_coefficients_ : array, the constant and the coefficients of the covariates, as far as there are any.
    companion_ : a second fitted model of another smoothness, or None
        Where a mixture of both predicts better than either, by leaving out one observation at a time; `predict_dist`
        then returns that mixture.
    companion_weight_ : its share.
    hyper_ : models at other hyper-parameters that predictions are mixed from, with their weights, or None.
    fitted_ : all of this as one record, which `npvi.model.update` and `npvi.model.predict` take.

    Methods
    -------
    * ``fit(X, y, sample_weight, exposure, trials, noise_variance, censored)`` learns the hyper-parameters and fits the
      posterior. All but `X` and `y` are data per row, and optional: weights; exposure of counts; trials, of which y
      succeeded; known variances; −1 or 1 where y is a limit.
    * ``update(X, y, …)``, ``partial_fit(X, y, …)``: new observations join the posterior at the hyper-parameters it has.
    * ``predict(X, return_std, exposure, trials, noise_variance, censored)``: mean of the response at new rows; with
      `return_std` also its standard deviation.
    * ``predict_dist(X, exposure, trials, noise_variance, censored)``: its whole distribution.
    * ``log_score(X, y, exposure, trials, noise_variance, censored)``: mean log predictive density of responses.
    * ``summary(standard_errors)``: hyper-parameters and coefficients of the mean, as a table.
    * ``save(path)``: the fitted model in one file, which `npvi.load` reads.

    Examples
    --------
    >>> import npvi, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, size=(500, 2))
    >>> y = rng.poisson(np.exp(1 + np.sin(X[:, 0])))
    >>> model = npvi.GPRegressor("poisson").fit(X, y)
    >>> dist = model.predict_dist([[np.pi / 2, 5.0]])
    >>> bool(5 < dist.mean[0] < 10)  # the truth is exp(2) = 7.4
    True
    """

    def _encode(self, y: NDArray, every: Any = None) -> NDArray:
        return as_numbers(y, "y")
