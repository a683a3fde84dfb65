"""The core, without scikit-learn: a model is described, fitted, extended and asked, by functions of plain records."""

from npvi.model.fitted import Fitted, Hyper, Interrupted, warn_about_sums
from npvi.model.fitting import fit
from npvi.model.hyper import most_integrated
from npvi.model.inferring import ScaleWarning
from npvi.model.leaving_out import in_rows, latent_left_out, left_out_by
from npvi.model.linear_part import LinearPart
from npvi.model.linear_part import columns_of as coordinate_columns
from npvi.model.predicting import Latent, latent_at, predict, predict_alone
from npvi.model.spec import Spec, check_settings, plain_parts, spec_of
from npvi.model.summed import (
    FittedTerms,
    TermsSpec,
    columns_of,
    fit_terms,
    predict_terms,
    restored,
    standard_errors,
    update_terms,
)
from npvi.model.updating import update

__all__ = [
    "Fitted",
    "FittedTerms",
    "Hyper",
    "Interrupted",
    "Latent",
    "LinearPart",
    "ScaleWarning",
    "Spec",
    "TermsSpec",
    "check_settings",
    "columns_of",
    "coordinate_columns",
    "fit",
    "fit_terms",
    "in_rows",
    "latent_at",
    "latent_left_out",
    "left_out_by",
    "most_integrated",
    "plain_parts",
    "predict",
    "predict_alone",
    "predict_terms",
    "restored",
    "spec_of",
    "standard_errors",
    "update",
    "update_terms",
    "warn_about_sums",
]
