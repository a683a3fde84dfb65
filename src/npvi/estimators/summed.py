"""A regressor whose predictor is a sum of terms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from npvi.checks import among, check_choice, check_finite, check_flag, rows_text
from npvi.estimators import validation
from npvi.estimators.base import BaseGP
from npvi.estimators.predicting import PredictsNumbers, per_row, warn_forgotten
from npvi.inference import Data
from npvi.learning import unwrapped
from npvi.likelihoods import Likelihood, Rates, as_likelihood, largest_count, typical_count
from npvi.model import (
    FittedTerms,
    TermsSpec,
    columns_of,
    fit_terms,
    in_rows,
    left_out_by,
    predict_terms,
    update_terms,
    warn_about_sums,
)
from npvi.runtime import progress
from npvi.runtime.interrupts import interrupts_remembered
from npvi.runtime.parallel import threads
from npvi.terms import Term, as_frame, check_terms, parse

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["WithTerms"]

#: settings that are a term's to say, or that a sum of terms doesn't serve, and what they are otherwise
_NOT_WITH_TERMS = {
    "kernel": "matern",
    "nugget": None,
    "coords": None,
    "mean": "constant",
    "method": "full",
    "prior": "nngp",
    "optimizer": "closed",
    "rule": "nearest",
    "order": "maximin",
}
_INSTEAD = {
    "kernel": "give each Field its own, Field('x', 'y', kernel='matern12')",
    "nugget": "for noise that no other row shares take a Group of a column that numbers rows, or another likelihood",
    "coords": "name the columns of each Field",
    "mean": "say it by Linear('x', intercept=False)",
    "method": "terms are fitted by method='full'; 'npvi' and 'npvi-nn' are for one surface",
}


class WithTerms(PredictsNumbers, BaseGP):
    """One that may have `terms` or a `formula` instead of a kernel."""

    fitted_: Any

    @property
    def _summed(self) -> bool:
        return self.terms is not None or self.formula is not None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Self:
        """Learn the hyper-parameters and fit the posterior of f at the training points.

        Parameters
        ----------
        X : (N, d) array or DataFrame of pandas or polars; with `terms` or a `formula` a table with named columns.
        y : (N,) responses, or the name of the column of X that has them; with a `formula` it says which.
        sample_weight : (N,) weights, optional: the log-likelihood of each row is multiplied by its weight.
        exposure : (N,) positive numbers, optional: multiplies the mean of counts (area, time, population).
        trials : (N,) whole numbers, optional: of which y succeeded (binomial noise).
        noise_variance : (N,) positive numbers, optional: known variance of each observation (Gaussian
            noise), or of its logarithm (log-normal).
        censored : (N,) of −1, 0, 1, optional: y is a lower (1) or upper (−1) limit of the true value (censored noise).

        Returns
        -------
        self
        """
        row = (exposure, trials, noise_variance, censored)
        if not self._summed:
            if self.link is not None:
                raise ValueError(
                    "link goes with terms= or formula=; of one surface it is the likelihood's: "
                    "npvi.likelihoods.Poisson(link='exp')"
                )
            return super().fit(X, y, sample_weight, *row)
        with interrupts_remembered():
            self._fit_summed(X, y, sample_weight, per_row(*row))
        warn_about_sums(self.fitted_)
        return self

    def _fit_summed(self, X: Any, y: Any, weight: Any, row: dict[str, Any]) -> None:
        response, terms = self._terms()
        table = as_frame(X)
        y = response if y is None else y
        if y is None:
            raise ValueError("y is missing: give responses, the name of their column, or a formula 'count ~ …'")
        self.response_ = y if isinstance(y, str) else None
        columns = columns_of(terms, list(table.columns))
        for name in dict.fromkeys([response, self.response_]):
            if name in columns:
                raise ValueError(
                    f"the responses, column {name!r}, are among the predictors: they would tell themselves. Leave "
                    f"{name!r} out of the {'terms' if self.formula is None else 'formula, right of ~'}"
                )
        if isinstance(y, str):
            if y not in table.columns:
                raise ValueError(f"there is no column {y!r} for the responses{among(y, list(table.columns))}")
            y = table[y]
        if response is not None and response in table.columns:
            _refuse_others(y, table[response], response)
        y = self._encode(validation.check_column(y, "y"))
        if len(y) != len(table):
            raise ValueError(f"y must have one number per row of X, {len(table)} in all; got {len(y)}")
        weights = validation.check_weights(weight, np.empty((len(table), 0)))
        likelihood = self._summed_likelihood(y)
        data = _data(likelihood, y, row, weights)
        table = table[columns]
        rival = None
        if isinstance(self.likelihood, str):
            likelihood, rival = self._from_data(terms, likelihood, table, data)
            data = replace(data, likelihood=likelihood)
        spec = TermsSpec(
            terms, likelihood, self.learn is not False, self.coefficient_scale, self.hyperprior, self.hyper
        )
        report = progress.print_progress if self.verbose else None
        with threads(self.n_jobs), progress.reporting(report):
            self.fitted_ = fit_terms(spec, table, data, rival=rival)
        self.feature_names_in_ = np.array(table.columns, dtype=object)
        self.n_features_in_ = len(table.columns)

    def _terms(self) -> tuple[str | None, tuple[Term, ...]]:
        """The name of the response, and what the predictor is a sum of."""
        if self.terms is not None and self.formula is not None:
            raise ValueError("formula and terms say the same thing: give one of them")
        for name, default in _NOT_WITH_TERMS.items():
            value = getattr(self, name)
            if type(value) is not type(default) or value != default:
                instead = _INSTEAD.get(name, "leave it out")
                raise ValueError(f"{name} doesn't go with terms= or formula=: {instead}; got {name}={value!r}")
        if isinstance(self.learn, str):
            raise ValueError(f"learn must be True or False with terms= or formula=; got {self.learn!r}")
        check_choice(self.hyper, "hyper", ("auto", "plug-in", "integrate"))
        check_choice(self.hyperprior, "hyperprior", ("weak", None))
        if self.formula is not None:
            return parse(self.formula)
        return None, check_terms(self.terms)

    def _summed_likelihood(self, y: NDArray) -> Likelihood:
        """The likelihood that learning starts from, with the link that is asked for."""
        likelihood = as_likelihood(self.likelihood)
        named = isinstance(self.likelihood, str)
        if named:
            likelihood = likelihood.sized_for(y)
        choices = tuple(likelihood.links)
        if self.link is not None:
            if not choices:
                raise ValueError(f"link: {type(likelihood).__name__} has no choice of links: leave it out")
            check_choice(self.link, "link", choices)
            likelihood = likelihood.replace(link=self.link)
        elif named and isinstance(likelihood, Rates):
            likelihood = likelihood.replace(link="softplus")
        return likelihood

    def _from_data(
        self, terms: tuple[Term, ...], likelihood: Likelihood, table: pd.DataFrame, data: Data
    ) -> tuple[Likelihood, Likelihood | None]:
        """A likelihood that is only named, with numbers that the data suggest; and one with another link, if they are
        to choose.

        Where nothing is said of the link, counts have one that is exp as far as rates were seen, as published models
        have it, and a straight line from twice these on: with exp all the way, means far from data are made by what is
        hardly possible. Where the data say clearly that effects add up from a typical count on, they do.
        """
        row = TermsSpec(terms, likelihood).exposed(data.row, table)
        seen = data.y > 0.0 if data.weight is None else (data.y > 0.0) & (data.weight > 0.0)
        likelihood = likelihood.replace(**likelihood.initial_parameters(data.y, **row))
        if isinstance(likelihood, Rates) and likelihood.link == "softplus":
            counts, exposure = data.y[seen], np.broadcast_to(row.get("exposure", 1.0), data.y.shape)[seen]
            typical = likelihood.replace(knee=typical_count(counts, exposure))
            if self.link is not None:
                return typical, None
            return likelihood.replace(knee=2.0 * largest_count(counts, exposure)), typical if len(counts) else None
        return likelihood, None

    @property
    def _row_of_fit(self) -> tuple[str, ...]:
        """What there was per row of the training data: an offset that multiplies rates is the model's own."""
        fitted, names = getattr(self, "fitted_", None), super()._row_of_fit
        if isinstance(fitted, FittedTerms) and "exposure" in names:
            own = fitted.spec.multiplier(fitted.table)
            if own is not None and np.allclose(fitted.data.row["exposure"], own, rtol=1e-9, atol=0.0):
                return tuple(name for name in names if name != "exposure")
        return names

    def partial_fit(self, X: Any, y: Any = None, **extras: Any) -> Self:
        """`fit` the first time, `update` from then on."""
        return self.update(X, y, **extras) if hasattr(self, "posterior_") else self.fit(X, y, **extras)

    def update(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
    ) -> Self:
        """Let new observations join the posterior; hyper-parameters stay as they are.

        The new points come last in the graph, and the posterior starts from the one there is: the answer is that of a
        fit from scratch on the extended graph. Of terms, new levels and places join.
        """
        row = (exposure, trials, noise_variance, censored)
        if not isinstance(getattr(self, "fitted_", None), FittedTerms):
            return super().update(X, y, sample_weight, *row)
        table = as_frame(X)
        y = self.response_ if y is None else y
        if isinstance(y, str) and y in table.columns:
            y = table[y]
        if y is None or isinstance(y, str):
            raise ValueError("y is missing: give responses, or a table that has their column")
        y = self._encode(validation.check_column(y, "y"))
        if len(y) != len(table):
            raise ValueError(f"y must have one number per row of X, {len(table)} in all; got {len(y)}")
        weights = validation.check_weights(sample_weight, np.empty((len(table), 0)))
        data = _data(self.likelihood_, y, per_row(*row), weights)
        self._check_columns(table)
        with interrupts_remembered(), threads(self.n_jobs):
            self.fitted_ = update_terms(self.fitted_, table, data)
        return self

    def predict_dist(
        self,
        X: Any,
        exposure: Any = None,
        trials: Any = None,
        noise_variance: Any = None,
        censored: Any = None,
        terms: Any = None,
    ) -> Any:
        """The predictive distribution of the response at each row of X.

        Parameters
        ----------
        X : (rows, d) array or DataFrame of pandas or polars.
        exposure, trials, noise_variance, censored : data per row, as in ``fit``. A warning says where `exposure` or
            `trials` were given there and aren't here; ``exposure=1.0`` is for predictions per unit.
        terms : names of some parts, or the terms themselves, of a model that has terms: the effect of these alone, for
            which X needs no other columns. An offset is left out.

        Returns
        -------
        Predictive
            with ``mean``, ``var``, ``std``, ``quantile(q)``, ``interval(level)``, ``log_prob(y)``, ``sample(n, seed)``,
            ``latent_mean`` and ``latent_var`` (of f, without the nugget) of each row; ``joint_sample(n, seed)``,
            ``total(weights)``, ``latent_total(weights)`` and ``joint_covariance()`` of all rows together, and
            ``reach``, how far they are from the data (which the baselines don't have).
        """
        given = (exposure, trials, noise_variance, censored)
        if not isinstance(getattr(self, "fitted_", None), FittedTerms):
            if terms is not None:
                raise ValueError("terms is for models that were fitted with terms= or formula=: this one has none")
            return super().predict_dist(X, *given)
        table = as_frame(X)
        if terms is None:
            self._check_columns(table)
        row = per_row(*given)
        warn_forgotten(self, row)
        row = self.likelihood_.check_row(row, len(table))
        found = predict_terms(self.fitted_, table, row, self._chosen(terms), self.n_jobs)
        found.table = table
        return found

    def _check_columns(self, table: pd.DataFrame) -> None:
        missing = [name for name in self.fitted_.table.columns if name not in table.columns]
        if missing:
            raise ValueError(
                f"X lacks the column {missing[0]!r}, which a term uses; it has {', '.join(map(str, table.columns))}. "
                f"terms=[…] predicts by some of {', '.join(map(repr, self.fitted_.design.names))} alone"
            )

    def _chosen(self, terms: Any, argument: str = "terms") -> tuple[str, ...] | None:
        if terms is None:
            return None
        if not isinstance(terms, str | Term | list | tuple):
            raise ValueError(f"{argument} must be terms of the model, or their names; got {terms!r:.60}")
        asked = [terms] if isinstance(terms, str | Term) else list(terms)
        names = [one.name if isinstance(one, Term) else one for one in asked]
        for name in names:
            if name not in self.fitted_.design.names:
                known = ", ".join(map(repr, self.fitted_.design.names))
                raise ValueError(f"{argument}: there is no part {name!r}; the parts are {known}")
        return tuple(names)

    # -- what was learned ---------------------------------------------------------------------------------------------

    def summary(self, standard_errors: bool = False) -> pd.DataFrame:
        """Hyper-parameters and coefficients, one row each: value, standard error, and a 95 % interval.

        Of a model with terms, the standard deviation, range and the like of every part; parts that were found to say
        nothing have a standard deviation of 0. ``parts_`` has a row for each part.

        The smoothness of a `Matern` is among them, without the latter two. ``summary().attrs`` has the model's
        ``likelihood``, its number of ``rows`` and its ``bound``, which are shown above the table.

        Where hyper-parameters were integrated over, these are of their posterior: the error is the root mean square
        about the value, on its own scale, and the interval is symmetric on that of learning (the logarithm, for
        positive numbers).

        Parameters
        ----------
        standard_errors : whether to compute those of the hyper-parameters where they are not known yet; it takes about
            four evaluations of the bound for each.
        """
        check_is_fitted(self, "posterior_")
        if not isinstance(self.fitted_, FittedTerms):
            return super().summary(standard_errors)
        standard_errors = check_flag(standard_errors, "standard_errors")
        from npvi.estimators.summary import summary_of

        with threads(self.n_jobs):
            return summary_of(self.fitted_, standard_errors)

    @property
    def parts_(self) -> pd.DataFrame:
        """What each part of a model with terms says: its standard deviation over the data (``sd``), the share of the
        predictor's variance that is its own (``share``), how many numbers it has and how many of them the data
        determine (``edf``, as far as that is known), and whether it was left out because it says nothing."""
        check_is_fitted(self, "posterior_")
        if not isinstance(self.fitted_, FittedTerms):
            raise AttributeError("parts_ is for models that were fitted with terms= or formula=: this one has none")
        from npvi.estimators.summary import parts_of

        return parts_of(self.fitted_)

    def effects(self, term: Any = None) -> pd.DataFrame:
        """The effect of each level of a group: ``level``, ``effect``, ``mean``, ``sd`` and a 90 % interval.

        Parameters
        ----------
        term : name of a part such as "1|site", or the `Group`; it may be left out where there is only one.
        """
        check_is_fitted(self, "posterior_")
        if not isinstance(self.fitted_, FittedTerms):
            raise ValueError("effects is for models that were fitted with terms= or formula=: this one has none")
        from npvi.estimators.summary import effects_of

        return effects_of(self.fitted_, None if term is None else (self._chosen(term) or ("",))[0])

    def loo(self) -> NDArray[np.float64]:
        """The log score of each training row given all others: log p(y_i | the others), in the caller's order.

        By the cavity: each observation enters the posterior through a Gaussian site of its own, which is divided out.
        Hyper-parameters stay those learned with the row.

        Returns
        -------
        array of shape (N,)
        """
        check_is_fitted(self, "posterior_")
        fitted = self.fitted_
        with threads(self.n_jobs):
            return np.asarray(left_out_by(fitted).log_prob(in_rows(fitted, fitted.data.y)))


def _refuse_others(y: Any, column: pd.Series, response: str) -> None:
    """Raise where responses were given that aren't those of the formula."""
    given = np.asarray(y)
    if given.shape == column.shape and not np.array_equal(given, column.to_numpy()):
        apart = np.flatnonzero(given != column.to_numpy())
        raise ValueError(
            f"formula says that the responses are column {response!r} of X, and y has others in {len(apart)} of "
            f"{len(given)} {rows_text(apart)}: leave y out; or to model y, leave the left side of ~ out of the formula"
        )


def _data(likelihood: Likelihood, y: NDArray, row: dict[str, Any], weight: NDArray[np.float64] | None) -> Data:
    """Responses and what there is per row, checked by the likelihood."""
    plain, _ = unwrapped(likelihood, "likelihood")
    plain.validate()
    y = plain.check_response(y)
    check_finite(y, "y")
    row = plain.check_row(dict(row), len(y), y)
    return Data(likelihood, y, row, weight)
