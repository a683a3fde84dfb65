"""What the commands show: messages and progress on standard error, results on standard output."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "clean",
    "describe_coefficients",
    "describe_companion",
    "describe_config",
    "describe_noise",
    "messages",
    "number",
    "results",
    "say",
    "show_json",
    "show_pairs",
    "watching",
]


#: kinds of characters that change what a terminal does with others
_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def say(message: str, style: str = "") -> None:
    """A message to the person, not part of the result."""
    # soft_wrap: a log file or another program gets the line whole
    messages().print(message, style=style, soft_wrap=True)


def show_json(content: Any) -> None:
    """A result for other programs: numbers that JSON hasn't, infinities and NaN, are null.

    >>> show_json({"scores": [0.5, math.inf]})
    {"scores": [0.5, null]}
    """
    typer.echo(json.dumps(_finite(content), allow_nan=False))


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def clean(text: str, lines: bool = False) -> str:
    """Text as a terminal may have it: characters that it would obey are shown instead; with `lines`, ends of lines too.

    >>> print(clean("a \\x1b[31mred\\x1b[0m name"))
    a \\x1b[31mred\\x1b[0m name
    """
    # controls, and what turns the direction of writing or can't be written
    kept = "" if lines else "\n\t"
    return "".join(
        character if character in kept or unicodedata.category(character) not in _OBEYED else _shown(character)
        for character in text
    )


def _shown(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


class _Console(Console):
    """Where the commands print: text is text, whatever file it comes from."""

    def __init__(self, stderr: bool) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **how: Any) -> Text:  # which all text goes through on its way out
        return super().render_str(clean(text), **how)


def results() -> Console:
    """The console for results."""
    return _Console(stderr=False)


def messages() -> Console:
    """The console for what is said to the person."""
    return _Console(stderr=True)


def show_pairs(title: str, pairs: Mapping[str, str]) -> None:
    """A table of two columns: what, and its value."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(clean(name, lines=True), clean(value, lines=True))  # nobody else's line looks like one of these
    results().print(table)


def number(value: Any, digits: int = 4) -> str:
    """A number for a person to read, or several.

    >>> number(123456.789), number(0.00012345), number([0.5, 1.0]), number(20000)
    ('123,457', '0.0001234', '0.5, 1', '20,000')
    """
    if isinstance(value, bool | str) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.{digits}g}"
    return ", ".join(number(item, digits) for item in value)


def describe_config(config: Mapping[str, Any]) -> str:
    """A kernel or likelihood in one line, from its configuration.

    >>> describe_config({"type": "RBF", "length_scale": [0.5, 2.0], "variance": 1.0})
    'RBF (length scale 0.5, 2; variance 1)'
    """
    parts = []
    for name, value in config.items():
        if name in ("type", "name") or (name == "knee" and config.get("link") == "exp"):  # which has none
            continue
        if isinstance(value, Mapping) and "mapping" in value:  # the parameters of a function of the user's
            for own, said in value["mapping"].items():
                parts.append(
                    f"{own.replace('_', ' ')} {number(said['parameter'] if isinstance(said, Mapping) else said)}"
                )
        elif isinstance(value, Mapping) and "support" in value:
            parts.append(f"of {value['support']['description']}")
        elif isinstance(value, Mapping):
            parts.append(f"{value['function']}" if "function" in value else describe_config(value))
        else:
            parts.append(f"{name.replace('_', ' ')} {number(value)}")
    inside = f" ({'; '.join(parts)})" if parts else ""
    return f"{config['type']}{inside}"


def describe_noise(rounds: Sequence[Mapping[str, float]], kernel: Mapping[str, Any] | None) -> str:
    """How noise varies from place to place; `rounds` are the scores on the way.

    >>> describe_noise([{"log_score": -1.2}, {"log_score": -0.9}], {"type": "RBF", "variance": 1.0})
    'differs from place to place, its log variance RBF (variance 1): better by 0.3 nats per row than one variance'
    >>> describe_noise([{"log_score": -1.2}], None)
    'one variance for all rows'
    """
    if kernel is None:
        return "one variance for all rows"
    gain = number(rounds[-1]["log_score"] - rounds[0]["log_score"], 2)
    described = describe_config(kernel)
    return f"differs from place to place, its log variance {described}: better by {gain} nats per row than one variance"


def describe_companion(companion: Mapping[str, Any] | None) -> dict[str, str]:
    """A line about the second model of a mixture, where there is one.

    >>> describe_companion({"weight": 0.25, "model": {"kernel": {"type": "RBF", "variance": 1.0}}})
    {'mixed with': 'RBF (variance 1), which has 25 % of the say'}
    """
    if companion is None:
        return {}
    kernel = describe_config(companion["model"]["kernel"])
    return {"mixed with": f"{kernel}, which has {100 * companion['weight']:.0f} % of the say"}


def describe_coefficients(coefficients: Mapping[str, Sequence[float]]) -> str:
    """Coefficients of the mean with their standard errors.

    >>> describe_coefficients({"constant": [1.25, 0.125], "height": [-0.002, 0.0004]})
    'constant 1.25 ± 0.12; height -0.002 ± 0.0004'
    """
    return "; ".join(
        f"{name} {number(float(value))} ± {number(float(error), 2)}" for name, (value, error) in coefficients.items()
    )


@contextmanager
def watching(tolerance: float = 1e-7) -> Iterator[None]:
    """A progress bar for what `npvi.runtime.progress` reports inside."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from npvi.runtime.progress import reporting

    console = messages()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar, reporting(_Bar(bar, tolerance)):
        yield


class _Bar:
    """Turns reports into one line: the residual's way to the tolerance, in orders of magnitude, is what is left."""

    def __init__(self, bar: Progress, tolerance: float) -> None:
        self._bar, self._tolerance = bar, tolerance
        self._task = bar.add_task("starting", total=None)
        self._iteration, self._first, self._done = 0, 0.0, 0.0
        self._where = ""

    def __call__(self, stage: str, numbers: Mapping[str, float]) -> None:
        if stage.startswith("compiling"):  # a line that stays, where the bar's own is written over
            self._bar.console.print(f"{stage[0].upper()}{stage[1:]}")
        elif stage == "grid":
            self._where = f"{int(numbers['combination'])} of {int(numbers['of'])}: "
            self._iteration, self._done = 0, 0.0
        elif stage == "noise":
            self._where = f"noise, round {int(numbers['round'])} of at most {int(numbers['of'])}: "
        elif stage == "graph":
            self._iteration, self._done = 0, 0.0
            self._update(f"finding the neighbours of {int(numbers['points']):,} points", None, 0.0)
        elif stage == "learn":
            text = f"learning: evaluation {int(numbers['evaluation'])}, bound {numbers['bound']:,.1f}"
            self._update(text, None, 0.0)
        elif stage == "prior":
            self._update("solving for the first guess", None, 0.0)
        elif stage == "iteration":
            self._iterate(numbers)
        elif stage == "epoch":
            epoch = int(numbers["epoch"]) + 1
            text = f"epoch {epoch:,} of {int(numbers['of']):,}: bound about {numbers['elbo']:,.1f}"
            self._update(text, numbers["of"], epoch)
        elif stage == "predict":
            self._update(f"predicting {int(numbers['of']):,} rows", numbers["of"], numbers["rows"])
        elif stage == "map":
            self._update(f"mapping {int(numbers['of']):,} cells", numbers["of"], numbers["cells"])
        elif stage == "report":
            self._update("writing the report", numbers["of"], numbers["panel"])
        else:
            details = "  ".join(f"{name} {value:.6g}" for name, value in numbers.items())
            self._update(f"{stage}  {details}", None, 0.0)

    def _iterate(self, numbers: Mapping[str, float]) -> None:
        residual = max(numbers["mean_residual"], numbers["covariance_residual"], 1e-300)
        if self._iteration == 0:
            self._first = residual
        way = math.log(self._first / self._tolerance) if self._first > self._tolerance else 1.0
        self._done = max(self._done, min(1.0, math.log(max(self._first / residual, 1.0)) / way))
        text = f"iteration {self._iteration}: bound {numbers['elbo']:,.1f}, residual {residual:.0e}"
        self._iteration += 1
        self._update(text, 1.0, self._done)

    def _update(self, text: str, total: float | None, completed: float) -> None:
        self._bar.update(self._task, description=self._where + text, total=total, completed=completed)
