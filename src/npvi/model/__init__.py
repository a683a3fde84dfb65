"""The core, without scikit-learn: a model is described, fitted, extended and asked, by functions of plain records."""

from npvi.model.fitted import Fitted, Hyper, Interrupted
from npvi.model.fitting import fit
from npvi.model.inferring import ScaleWarning
from npvi.model.predicting import Latent, latent_at, predict, predict_alone
from npvi.model.spec import Spec, check_nugget, plain_parts, spec_of
from npvi.model.sums import warn_about_sums
from npvi.model.updating import update

__all__ = [
    "Fitted",
    "Hyper",
    "Interrupted",
    "Latent",
    "ScaleWarning",
    "Spec",
    "check_nugget",
    "fit",
    "latent_at",
    "plain_parts",
    "predict",
    "predict_alone",
    "spec_of",
    "update",
    "warn_about_sums",
]
