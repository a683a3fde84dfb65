"""What a model file's metadata may say: one table, for whoever reads a file and for whoever writes one."""

from __future__ import annotations

import re
from typing import Any

from npvi.io.packing import ESTIMATORS
from npvi.io.steps import STEPS
from npvi.likelihoods import Softmax
from npvi.priors import LOW_RANK, NearestNeighbors
from npvi.runtime.fields import (
    anything,
    choice,
    each,
    flag,
    items,
    maybe,
    number,
    record,
    text,
    whole,
)

__all__ = ["check_metadata", "config"]

#: models beside a model, at other hyper-parameters: `save` has seen some 30
_NODES = 200
#: parts of a kernel: as many as may be in each other
_PARTS = 100
#: a code of an authority, or a definition in well-known text of at most so many letters
_SYSTEM = re.compile(r"[A-Za-z]{1,20}:[A-Za-z0-9_.]{1,30}\Z|[A-Z_]{4,30}\[")
_LONGEST = 20_000


def config(value: Any, name: str) -> None:
    """A kernel or a likelihood; what is in it is for its class to say."""
    record({"type": text})(value, name)
    _setting(value, name)


def _setting(value: Any, name: str) -> None:
    """A parameter of the constructor, whose own checks look at it; kernels take time to compile."""
    todo, parts = [value], 0
    while todo:
        one = todo.pop()
        parts += isinstance(one, dict) and "type" in one
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    if parts > _PARTS:
        raise ValueError(f"its {name} is made of {parts} parts, more than {_PARTS}")


def _model(value: Any, name: str) -> None:
    summed = isinstance(value, dict) and "summed" in value and "pipeline" not in value
    (_SUMMED if summed else _MODEL)(value, name)
    names, columns = value["feature_names_in"], value["n_features_in"]
    if names is not None and len(names) != columns:
        raise ValueError(f"its {name or 'model'} names {len(names)} inputs and says that there are {columns}")
    beside = [value["companion"]["model"]] if "companion" in value else []
    for other in beside + (value["hyper"]["models"] if "hyper" in value else []):
        kinds = [one["likelihood"]["type"] == Softmax.__name__ for one in (value, other)]
        if other["n_features_in"] != columns or kinds[0] != kinds[1]:
            raise ValueError(f"its {name or 'model'} and one beside it are of different inputs or responses")


def _system(value: Any, name: str) -> None:
    """A code or a definition of a coordinate system: PROJ's own strings may name files, and are none."""
    text(value, name)
    if len(value) > _LONGEST or not _SYSTEM.match(value):
        raise ValueError(f"its {name} must be a coordinate system such as 'EPSG:4326', got {value[:60]!r}")


_any_number = number(finite=False)
_learning = record({"evaluations": whole()})

_hyper_table = items(
    record({"parameter": text, "standard_error": _any_number, "lower": _any_number, "upper": _any_number})
)
_row = items(choice(("exposure", "trials", "noise_variance", "censored")))
_fit_info = record({}, {"converged": flag, "n_iter": whole(), "learning": _learning})


def _formula(value: Any, name: str) -> None:
    """Text of which there isn't too much to read."""
    text(value, name)
    if len(value) > _LONGEST:
        raise ValueError(f"its {name} has {len(value)} letters, more than {_LONGEST}")


def _numbers(value: Any, name: str) -> None:
    """A number, or a list of them."""
    (items(number()) if isinstance(value, list) else number())(value, name)


#: a model made of terms
_SUMMED = record(
    {
        "npvi": text,
        "estimator": choice(("GPRegressor",)),
        "parameters": record({"formula": maybe(_formula)}),
        "likelihood": config,
        "row": _row,
        "n_rows": whole(1),
        "n_features_in": whole(),
        "feature_names_in": items(text),
        "elbo": number(),
        "n_iter": whole(),
        "fit_info": _fit_info,
        "summed": record(
            {
                "terms": items(config, 0, _PARTS),
                "likelihood": config,
                "values": each(_numbers),
                "names": items(text, 1),
                "columns": items(record({"name": text, "labels": maybe(items(text))})),
                "rows": whole(1),
                "unit": number(1e-150),
                "constant_precision": number(0.0),
                "response": maybe(text),
            },
            {
                "hyper": record(
                    {
                        "models": items(record({"values": each(_numbers), "elbo": number()}), 1, _NODES),
                        "weights": items(number(0.0, 1.0)),
                        "table": _hyper_table,
                    }
                )
            },
        ),
    }
)

_MODEL = record(
    {
        "npvi": text,
        "estimator": choice((*ESTIMATORS, "Pipeline")),
        "parameters": each(_setting),
        "kernel": config,
        "likelihood": config,
        "nugget": number(0.0),
        "posterior": choice(("factor", "draws", "precision", "dense", "low_rank")),
        "linear_part": record({"constant": flag, "names": items(text)}),
        "coefficients": each(items(_any_number, 2, 2)),
        "row": _row,
        "n_rows": whole(1),
        "n_features_in": whole(1),
        "feature_names_in": maybe(items(text)),
        "elbo": number(),
        "n_iter": whole(),
        "fit_info": _fit_info,
        "notes": each(anything),
    },
    {
        "prior": choice((NearestNeighbors.kind, *LOW_RANK)),  # older files have no other than the first
        "classes_are_objects": flag,
        "crs": _system,
        "labels": items(text),
        "hyper": record(
            {
                "models": items(_model, 1, _NODES),
                "weights": items(number(0.0, 1.0)),
                "table": _hyper_table,
            }
        ),
        "companion": record({"weight": number(0.0, 1.0), "model": _model}),
        "noise": record(
            {
                "kernel": _setting,
                "max_rounds": whole(1),
                "rounds": items(record({"log_score": number(), "crps": number()}), 1),
                "likelihood": _setting,
                "model": maybe(_model),
            }
        ),
        "pipeline": record(
            {
                "steps": items(
                    record(
                        {"name": text, "type": choice(("passthrough", *STEPS))},
                        {
                            "parameters": each(anything),
                            "fitted": each(anything),
                            "output": maybe(text),
                            "feature_names_in": maybe(items(text)),
                        },
                    )
                ),
                "last": text,
                "estimator": choice(ESTIMATORS),
            }
        ),
    },
)


def check_metadata(metadata: Any) -> None:
    """Raise KeyError where something is missing, ValueError where something is not what it may be.

    >>> check_metadata({"npvi": 3})
    Traceback (most recent call last):
    ValueError: its npvi must be text, got 3
    """
    _model(metadata, "")
