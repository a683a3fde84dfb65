"""What was learned: the parts that the predictor is a sum of, each with its numbers, their intervals and units.

A part is a `Part`: whoever has more of them adds to `parts_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npvi.kernels import Kernel
from npvi.maps import axis_unit
from npvi.reporting.page import Panel, table, text
from npvi.reporting.study import Study

__all__ = ["Number", "Part", "numbers_of", "parts_of", "parts_panel"]

#: rows up to which standard errors are computed for a report where a model doesn't have them: some evaluations of the
#: bound for each number
_ROWS = 5000

_LINKS = {
    "exp": "the logarithm of the mean",
    "log": "the logarithm of the mean",
    "softplus": "the mean where that is large, its logarithm where it is small",
    "identity": "the response's own units",
    "logit": "log odds",
    "probit": "normal scores of the probability",
}
_MEANINGS = {
    "length_scale": "distance over which the surface changes",
    "variance": "how far the surface goes up and down",
    "smoothness": "½ rough, 5/2 smooth",
    "nugget": "what differs between two rows at one place",
    "dispersion": "counts vary as if their mean did, with this squared coefficient of variation",
    "period": "after which the surface repeats",
    "alpha": "mixture of length scales",
    "shape": "shape of the noise",
    "scale": "spread of the noise",
    "df": "degrees of freedom: few have heavy tails",
    "knee": "mean at which the link bends",
    "power": "variance grows with the mean to this power",
    "concentration": "how concentrated responses are",
}


_MEANINGS_OF_TERMS = {
    "range": "distance at which correlation is small, in the units of the columns",
    "sd": "how far it goes up and down, on the scale of the predictor",
    "dispersion": _MEANINGS["dispersion"],
}


@dataclass(frozen=True)
class Number:
    """A number that was learned, or held: its name, value, 95 % interval (NaN where unknown), unit and meaning."""

    name: str
    value: float
    lower: float
    upper: float
    unit: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Part:
    """A part of the predictor: what it is called, what it is, and its numbers."""

    name: str
    words: str
    numbers: Sequence[Number]


def parts_panel(study: Study) -> Panel:
    """The panel of a model's parts."""
    parts = parts_of(study)
    link = _latent_words(study)
    what = "predictor" if study.summed else "surface f"
    words = f"The {what} is on the scale of {link}. Intervals hold with 95 %."
    found = [f'<p class="hint">{text(words, 400)}</p>']
    for part in parts:
        rows = [
            [
                text(number.name),
                f"{_shown(number.value)} {text(number.unit)}",
                f"{_shown(number.lower)} … {_shown(number.upper)}" if np.isfinite(number.lower) else "",
                text(number.meaning),
            ]
            for number in part.numbers
        ]
        body = table(["number", "value", "95 % interval", ""], rows, kind="numbers") if rows else ""
        found.append(f'<h3>{text(part.name)}</h3><p class="caption">{text(part.words, 800)}</p>{body}')
    if not any(np.isfinite(number.lower) for part in parts for number in part.numbers if part.name != "Mean"):
        found.append(
            '<p class="caption">Intervals of hyper-parameters take some evaluations of the bound for each, which '
            f"isn't done for more than {_ROWS:,} rows: <code>model.summary(standard_errors=True)</code> does.</p>"
        )
    return Panel("parts", "What was learned", "".join(found))


def parts_of(study: Study) -> list[Part]:
    """The parts of a model: its surface, its mean, its noise; or its terms and its noise."""
    if study.summed:
        return _parts_of_terms(study)
    summary = numbers_of(study)
    kernel = [number for key, number in summary if key.startswith(("kernel", "nugget"))]
    noise = [number for key, number in summary if key.startswith("likelihood")]
    mean = [number for key, number in summary if key.startswith("mean__")]
    fitted = study.core.fitted_
    coordinates = ", ".join(study.inner[1][column] for column in fitted.linear_part.coords)
    surface = f"A Gaussian process with {_kinds(fitted.model.kernel)} kernel, a function of {coordinates}."
    if len(fitted.shares()) > 1:
        surface += f" Predictions are mixed over {len(fitted.shares())} models, for what isn't known of these numbers."
    found = [Part("Surface", surface, kernel)]
    if mean:
        words = "What the surface varies around, and what each covariate adds to it per unit."
        found.append(Part("Mean", words, mean))
    words = f"{type(fitted.model.likelihood).__name__}: how responses vary around it."
    if study.last is not study.core and study.last.noise_model_ is not None:
        words += " The logarithm of its variance, log v, is a second surface, with these numbers."
        rows = numbers_of(study, study.last.noise_model_)
        noise = [replace(number, unit=_of_log(number.unit)) for key, number in rows if not key.startswith("likelihood")]
    found.append(Part("Noise", words, noise))
    return found


def _parts_of_terms(study: Study) -> list[Part]:
    """Each term with what it adds to the predictor, the coefficients, the noise."""
    model: Any = study.core
    errors = bool(model.learn) and model.fitted_.hyper is None and len(study.table) <= _ROWS  # type: ignore[attr-defined]
    rows = model.summary(standard_errors=errors).to_dict("index")
    varies = model.parts_.to_dict("index")
    left = dict(rows)
    found = []
    for part in model.fitted_.design.parts:
        own = [key for key in rows if str(key).startswith(f"{part.name}__")]
        numbers = [_plain_number(str(key)[len(part.name) + 2 :], left.pop(key)) for key in own]
        if part.name not in varies or (part.name == "linear" and not own):
            continue
        about = varies[part.name]
        words = (
            "Was found to say nothing, and left out."
            if about["left_out"]
            else f"Varies by {_shown(about['sd'])} (standard deviation) over the rows, "
            f"{100 * about['share']:.0f} % of what all parts do"
            + (f"; the data determine {_shown(about['edf'])} numbers of it." if np.isfinite(about["edf"]) else ".")
        )
        found.append(Part(part.name, words, numbers))
    noise = [_plain_number(str(key).removeprefix("likelihood__"), left.pop(key)) for key in rows if _of_noise(key)]
    if left:
        words = "What is added to the predictor, and what each column adds to it per unit."
        found.append(Part("Mean", words, [_plain_number(str(key), row) for key, row in left.items()]))
    found.append(Part("Noise", f"{type(model.likelihood_).__name__}: how responses vary around it.", noise))
    return found


def _of_noise(key: Any) -> bool:
    return str(key).startswith("likelihood__")


def _plain_number(name: str, row: Mapping[Any, Any]) -> Number:
    ends = float(row["value"]), float(row["lower"]), float(row["upper"])
    return Number(name.replace("_", " "), *ends, "", _MEANINGS_OF_TERMS.get(name.partition("[")[0], ""))


def _of_log(unit: str) -> str:
    """What is f's in a table of the logarithm of a variance."""
    return {"f": "log v", "f²": "(log v)²"}.get(unit, unit.replace("f per", "log v per"))


def numbers_of(study: Study, of: Any = None) -> list[tuple[str, Number]]:
    """Every number of `summary`, with its name there; of the surface's model unless another is named."""
    core = study.core if of is None else of
    known = core.fitted_.hyper is not None or study.several
    learned = bool(core.learn) and core.fitted_.spec.learn
    errors = learned and not known and len(study.X) <= _ROWS and core.fitted_.spec.method != "npvi-nn"
    rows: Mapping[Any, Any] = core.summary(standard_errors=errors).to_dict("index")
    names = [study.inner[1][column] for column in core.fitted_.linear_part.coords]
    found = []
    for key, row in rows.items():
        number = Number(
            _name(str(key), names),
            float(row["value"]),
            float(row["lower"]),
            float(row["upper"]),
            _unit(study, str(key), names),
            _meaning(str(key)),
        )
        found.append((str(key), number))
    return found


def _kinds(kernel: Any) -> str:
    """What a kernel is made of.

    >>> from npvi.kernels import RBF, Matern, Sphere
    >>> _kinds(Sphere(Matern())), _kinds(RBF() + Matern())
    ('Sphere(Matern)', 'RBF + Matern')
    """
    inner = [value for value in kernel.get_params(deep=False).values() if isinstance(value, Kernel)]
    name = type(kernel).__name__
    if name in ("Sum", "Product") and len(inner) == 2:
        return f"{_kinds(inner[0])} {'+' if name == 'Sum' else '×'} {_kinds(inner[1])}"
    return f"{name}({', '.join(map(_kinds, inner))})" if inner else name


def _meaning(key: str) -> str:
    if key == "likelihood__variance":
        return "how far responses are from the surface, squared"
    return _MEANINGS.get(_last(key), "")


def _last(key: str) -> str:
    return key.partition("[")[0].rpartition("__")[2]


def _entry(key: str) -> int | None:
    inside = key.partition("[")[2].rstrip("]")
    return int(inside) if inside.isdigit() else None


def _name(key: str, coordinates: Sequence[str]) -> str:
    """Words of a parameter's name.

    >>> _name("kernel__length_scale[1]", ["lon", "lat"]), _name("mean__forest", [])
    ('length scale along lat', 'forest')
    """
    if key.startswith("mean__"):
        return key.removeprefix("mean__")
    name = _last(key).replace("_", " ")
    path = key.partition("[")[0].split("__")[1:-1]
    inner = [part for part in path if part != "kernel"]
    entry = _entry(key)
    if _last(key) == "length_scale" and entry is not None and entry < len(coordinates):
        name += f" along {coordinates[entry]}"
    elif entry is not None:
        name += f" {entry + 1}"
    return f"{name} ({', '.join(inner)})" if inner else name


def _unit(study: Study, key: str, coordinates: Sequence[str]) -> str:
    last = _last(key)
    if last in ("length_scale", "period") and key.startswith("kernel"):
        if study.on_sphere:
            return "km"
        entry = _entry(key)
        named = coordinates[entry] if entry is not None and entry < len(coordinates) else None
        places = study.places
        of_places = study.last is study.model and (named is None or (places is not None and named in places.axes))
        if places is not None and places.crs is not None and of_places:
            return axis_unit(places.crs)
        return f"units of {named if named is not None else ', '.join(coordinates)}"
    if (key.startswith("kernel") and last == "variance") or last == "nugget":
        return "f²"
    if key.startswith("mean__"):
        name = key.removeprefix("mean__")
        return "f" if name.startswith("constant") else f"f per unit of {name}"
    likelihood = type(study.core.likelihood_).__name__
    if likelihood in ("Gaussian", "CensoredGaussian") and last == "variance":
        return f"{study.target}²"
    if likelihood in ("StudentT", "Laplace") and last == "scale":
        return study.target
    return ""


def _latent_words(study: Study) -> str:
    likelihood = study.core.likelihood_
    if type(likelihood).__name__ in ("LogNormal", "CensoredLogNormal"):
        return f"the logarithm of {study.target}"
    link = getattr(likelihood, "link", None)
    return _LINKS.get(str(link), study.target if link is None else f"the link {link}")


def _shown(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.3g}"
