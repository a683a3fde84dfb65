"""The contract of a likelihood: what one response y is, given the latent f, written in JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from npvi.checks import as_numbers, check_finite, check_per_row
from npvi.likelihoods.families.thresholds import Threshold
from npvi.likelihoods.integrals.root_finding import to_y
from npvi.likelihoods.links import Link
from npvi.likelihoods.support import POSITIVE, REAL, Support
from npvi.parameters import POSITIVE_NUMBER, Interval, Parametrised, check_positive, check_size, numbers_in
from npvi.runtime.arrays import Array, Number
from npvi.runtime.lazy import jax

__all__ = ["Likelihood"]

#: how large a response may be: sums of squares over many rows must stay numbers
_LARGEST = 1e120
#: beyond, float64 has even numbers only, and log p(y | f), a difference of large numbers, has no digits
_LARGEST_COUNT = 1e16


class Likelihood(Parametrised):
    """Base class of observation models p(y | f).

    A subclass needs `support`, `log_prob`, `conditional_mean`, `conditional_variance`, `cdf` and `sample`;
    the expectations, the predictive distribution, its quantiles and its scores follow. Methods that begin
    with ``expected_`` or ``marginal_`` are closed forms: they replace the numerical integral where they do
    not return None. A function log p(y | f) becomes a likelihood without a class: `npvi.likelihoods.Custom`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> class Laplace(Likelihood):
    ...     resolution = 0.1
    ...     def __init__(self, scale=1.0):
    ...         self.scale = scale
    ...     def log_prob(self, y, f):
    ...         return -jnp.abs(y - f) / self.scale - jnp.log(2.0 * self.scale)
    >>> from npvi.likelihoods import expectations
    >>> result = expectations(Laplace(), np.zeros(1), np.zeros(1), np.ones(1))
    >>> float(result.value[0].round(2))  # −E|f| − log 2
    -1.49
    """

    named: ClassVar[dict[str, type[Likelihood]]] = {}
    """The classes that have a name."""
    extras: ClassVar[tuple[str, ...]] = ()
    """Names of the data per row, besides y, that the methods take as keywords."""
    extra_supports: ClassVar[dict[str, Support]] = {}
    """What each of the extras may be; positive numbers where nothing is said."""
    domains: ClassVar[dict[str, Interval]] = {}
    """What each learnable parameter may be: a number strictly inside, or an increasing vector of them; positive
    where nothing is said."""
    limits: ClassVar[dict[str, tuple[float, float]]] = {}
    """How far learning takes some of them: beyond, the noise is as good as of another kind, or as good as none."""
    floors: ClassVar[dict[str, float]] = {}
    """The share of where it starts that learning leaves of some at least: noise that is less is as good as none."""
    links: ClassVar[dict[str, Link]] = {}
    """The choices for a parameter called `link`, where there is one."""

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        if cls is Likelihood and (args or kwargs):
            raise TypeError(
                "Likelihood is the base class of likelihoods and takes no arguments; for a function log p(y | f) of "
                "your own write npvi.likelihoods.Custom(log_prob, params)"
            )
        made: Self = super().__new__(cls)  # of no known type in scikit-learn
        return made

    # -- what p(y | f) is like; a subclass sets a plain attribute, or a property where it depends on parameters
    # ---------------------------------------------------------------------------------------------------------

    @property
    def support(self) -> Support:
        """Which responses are allowed."""
        return REAL

    @property
    def log_concave(self) -> bool:
        """Whether log p(y | f) is concave in f for every y."""
        return False

    @property
    def resolution(self) -> float:
        """The scale of f over which log p(y | f) is smooth; the step of numerical integrals follows it.

        A third of the distance from the real axis to the nearest singularity: 1 for the logistic function,
        with its poles at ±iπ.
        """
        return 1.0

    def bend(self, **row: Array) -> tuple[float, float] | None:
        """The range of f outside of which log p(y | f) is smooth over a share of the distance from it.

        The real parts of its singularities: (0, 0) for log(1 + exp f), with log f and exp f on either side. Integrals
        over wide ranges of f then take few steps. None where there is no such range.
        """
        return None

    @property
    def start_sd(self) -> Number:
        """Standard deviation of f about y's own fitted value at which what y says of f is taken first: next to nothing,
        but where log p has a kink, of which all of y would then be said to be known."""
        return 1e-3

    @property
    def location(self) -> bool:
        """Whether log p(y | f) is a function of y − f, all of whose singularities are `3 · resolution` from 0, up and
        down: integrals over wide ranges of f then take few steps, whatever the scale of the noise."""
        return False

    # -- p(y | f), for one observation, in JAX
    # ------------------------------------------------------------------------

    def log_prob(self, y: jax.Array, f: jax.Array, **row: jax.Array) -> jax.Array:
        """log p(y | f), normalised."""
        raise NotImplementedError

    def conditional_mean(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        """E[y | f]."""
        raise NotImplementedError

    def conditional_variance(self, f: jax.Array, **row: jax.Array) -> jax.Array:
        """Var[y | f]."""
        raise NotImplementedError

    # -- p(y | f), for arrays, in NumPy
    # -------------------------------------------------------------------------------

    def cdf(self, y: Array, f: Array, **row: Array) -> Array:
        """P(Y ≤ y | f), which must not increase with f; arguments broadcast."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, f: Array, **row: Array) -> Array:
        """A draw of y for each f; arguments broadcast."""
        raise NotImplementedError

    def initial_latent(self, y: Array, **row: Array) -> Array:
        """An f whose mean is about y, to start an iteration from."""
        return np.zeros(np.shape(y))

    def latent_unit(self, y: Array, **row: Array) -> float:
        """What counts as a change of f by one, for priors that are weak whatever the units of y: 1 where f is a
        logarithm or log-odds, the spread of y where f has y's own scale."""
        return 1.0

    def initial_parameters(self, y: Array, **row: Array) -> dict[str, Number]:
        """Parameters to start learning from, by name, from moments of the data alone; what is not named stays."""
        return {}

    def unseen(self, y: Array) -> dict[str, list[tuple[float, float] | None]]:
        """Weak normal priors, mean and standard deviation, of entries of parameters that these responses leave open;
        None for others. Of an increasing vector they are of the first number and of the logarithms of steps."""
        return {}

    def sized_for(self, y: Array) -> Likelihood:
        """The same with as many parameters as the responses need, where the user only named it."""
        return self

    # -- the same in NumPy, for arrays, where it is written out: nothing then needs to be compiled
    # ---------------------------------------------------------------------------------------------

    def log_prob_slopes(self, y: Array, f: Array, **row: Array) -> tuple[Array, Array, Array]:
        """log p(y | f) and its first two derivatives in f."""
        raise NotImplementedError

    def conditional_moments(self, f: Array, **row: Array) -> tuple[Array, Array]:
        """E[y | f] and Var[y | f]."""
        raise NotImplementedError

    def expected_slopes(self, y: Array, m: Array, v: Array, **row: Array) -> tuple[Number, ...] | None:
        """`expected_log_prob` and its first four derivatives in m, arrays or numbers. Those in v follow by the heat
        equation, ∂/∂v = ½ ∂²/∂m²."""
        return None

    # -- closed forms under f ~ N(m, v), where there are any
    # ----------------------------------------------------------

    def expected_log_prob(self, y: jax.Array, m: jax.Array, v: jax.Array, **row: jax.Array) -> jax.Array | None:
        """E log p(y | f), for one observation, in JAX."""
        return None

    def keeps_digits(self, y: Array, **row: Array) -> Array | bool:
        """For which responses `expected_log_prob` is right to many digits, in NumPy; the others are left to rules."""
        return True

    def marginal_log_prob(self, y: Array, m: Array, v: Array, **row: Array) -> Array | None:
        """log ∫ p(y | f) N(f; m, v) df, in NumPy."""
        return None

    def marginal_moments(self, m: Array, v: Array, **row: Array) -> tuple[Array, Array] | None:
        """Mean and variance of y, in NumPy."""
        return None

    def marginal_cdf(self, y: Array, m: Array, v: Array, **row: Array) -> Array | None:
        """P(Y ≤ y), in NumPy."""
        return None

    def marginal_quantile(self, q: float, m: Array, v: Array, **row: Array) -> Array | None:
        """The smallest y with P(Y ≤ y) ≥ q, in NumPy."""
        return None

    def beside_zeros(self) -> tuple[float, Likelihood] | None:
        """A probability with which y is 0 whatever f is, and the likelihood that y follows otherwise."""
        return None

    def threshold(self, y: Array, **row: Array) -> Threshold | None:
        """A random T with P(Y ≤ y | f) = P(f ≤ T) for each of the responses y, in NumPy."""
        return None

    def cdf_at(self, x: Array, f: Array, **row: Array) -> Array:
        """`cdf` of the response at x, the coordinate of searches: the logarithm of positive numbers, the log-odds of
        shares, else the response."""
        return self.cdf(to_y(self.support)(x), f, **row)

    def shared(self, **row: Array) -> tuple[dict[str, float], Array | float] | None:
        """The data that make P(Y ≤ y | f) the same function for all rows, and by how much f is more for each of them;
        None where there is no such function, or it isn't smooth in f."""
        if all(np.all(value == value[:1]) for value in row.values()):
            return {name: float(value[0]) for name, value in row.items()}, 0.0
        return None

    # -- checks
    # -------------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise ValueError where a parameter is not allowed."""
        for name, value in self.get_params(deep=False).items():
            if name == "link" and not (isinstance(value, str) and value in self.links):
                choices = ", ".join(repr(choice) for choice in self.links)
                raise ValueError(f"{type(self).__name__}: link must be one of {choices}, got {value!r}")
            if name not in self.static:
                _check_domain(self, name, self.domains.get(name, POSITIVE_NUMBER))

    def check_response(self, y: ArrayLike, name: str = "y") -> Array:
        """`y` as an array of float64, or ValueError where some of it is outside the support.

        >>> from npvi.likelihoods import Poisson
        >>> Poisson().check_response([3, 0, -1])
        Traceback (most recent call last):
        ValueError: y: 1 of 3 rows cannot be Poisson (row 2: -1.0); allowed: whole numbers 0, 1, 2, …
        """
        y = as_numbers(y, name)
        outside = np.flatnonzero(self.support.invalid(y))
        if len(outside):
            some = ", ".join(f"row {i}: {y[i]}" for i in outside[:3]) + (", …" if len(outside) > 3 else "")
            raise ValueError(
                f"{name}: {len(outside)} of {len(y)} rows cannot be {type(self).__name__} ({some}); "
                f"allowed: {self.support.description}"
            )
        limit = _LARGEST_COUNT if self.support.discrete else _LARGEST
        large = np.flatnonzero(np.abs(y) > limit)
        if len(large):
            why = "whole numbers aren't told apart" if self.support.discrete else "squares are no numbers any more"
            raise ValueError(
                f"{name}: {len(large)} of {len(y)} rows are beyond ±{limit:g} (row {large[0]}: {y[large[0]]:g}), "
                f"where {why}: divide {name} by its typical size"
            )
        return y

    def check_row(self, row: Mapping[str, ArrayLike | None] | None, n: int, y: Array | None = None) -> dict[str, Array]:
        """The data per row as float64 arrays of length `n`, or ValueError; names that are None are left out.

        With the responses `y` it also checks that the two go together.

        >>> from npvi.likelihoods import Bernoulli
        >>> Bernoulli().check_row({"exposure": [1.0, 2.0]}, 2)
        Traceback (most recent call last):
        ValueError: Bernoulli takes no exposure
        """
        checked = {}
        for name, value in (row or {}).items():
            if value is None:
                continue
            if name not in self.extras:
                takes = f"; it takes {', '.join(self.extras)}" if self.extras else ""
                raise ValueError(f"{type(self).__name__} takes no {name}{takes}")
            values = check_per_row(value, name, n)
            checked[name] = np.array(np.broadcast_to(values, (n,)))
            allowed = self.extra_supports.get(name, POSITIVE)
            wrong = np.flatnonzero(allowed.invalid(checked[name]))
            if len(wrong):
                what = "positive and finite" if allowed is POSITIVE else allowed.description
                raise ValueError(
                    f"{name} must be {what}, but {len(wrong)} of {n} rows are not "
                    f"(first: row {wrong[0]}, {checked[name][wrong[0]]})"
                )
            check_finite(checked[name], name, _LARGEST_COUNT if allowed.discrete else _LARGEST)
        if y is not None:
            self.check_together(y, checked)
        return checked

    def check_together(self, y: Array, row: dict[str, Array]) -> None:
        """Raise ValueError where responses and data per row, each allowed by itself, contradict each other."""


def _check_domain(obj: Parametrised, name: str, domain: Interval) -> None:
    """Raise ValueError unless the parameter `name` is strictly inside `domain`."""
    if domain == POSITIVE_NUMBER:
        check_positive(obj, name)
        return
    value = getattr(obj, name)
    allowed = "a vector of increasing numbers" if domain.increasing else "a finite number"
    if np.isfinite([domain.lower, domain.upper]).all():
        allowed += f" between {domain.lower:g} and {domain.upper:g}"
    elif np.isfinite(domain.lower):
        allowed += f" above {domain.lower:g}"
    elif np.isfinite(domain.upper):
        allowed += f" below {domain.upper:g}"
    values = numbers_in(value)
    good = (
        values is not None
        and values.size > 0
        and np.all(np.isfinite(values) & (values > domain.lower) & (values < domain.upper))
    )
    if domain.increasing and values is not None:
        good = good and values.ndim == 1 and np.all(np.diff(values) > 0)
    if values is None or not good:
        raise ValueError(f"{type(obj).__name__}: {name} must be {allowed}, got {value!r}")
    check_size(values, f"{type(obj).__name__}: {name}", domain)
