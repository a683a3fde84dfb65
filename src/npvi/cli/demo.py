"""npvi demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npvi.cli.display import number, say, show_pairs, watching
from npvi.cli.errors import InputError, guarded
from npvi.cli.tables import check_output

if TYPE_CHECKING:
    from npvi.demo import DemoResult

__all__ = ["demo"]

_FORMATS = ("png", "pdf", "svg")


def demo(
    rows: Annotated[int, typer.Option(metavar="N", help="Visits in the simulated survey.", min=50)] = 20_000,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Picture to write: .png, .pdf or .svg.")] = Path(
        "demo.png"
    ),
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed, another survey.", min=0)] = 0,
    report: Annotated[bool, typer.Option(help="Write a page beside the picture, to open in a browser.")] = True,
) -> None:
    """Simulate a survey with a known truth, learn from it, print scores, write a picture and a report.

    Observers count birds at places that crowd around towns and roads, for a few minutes or
    some hours each. The model learns from four fifths of the visits and predicts the others.

    \b
    [bold]Examples[/bold]
    npvi demo
    npvi demo --rows 100000 --output large.png --seed 1
    """
    with guarded("demo"):
        kind = output.suffix.lower().removeprefix(".")
        if kind not in _FORMATS:
            raise InputError(f"--output must end in .png, .pdf or .svg, got {output}")
        check_output(output, table=False)

        from npvi.demo import run_demo
        from npvi.demo.picture import draw
        from npvi.runtime.files import replacing

        with watching():
            result = run_demo(rows, seed)
        with replacing(output) as file:
            draw(result, file, kind)
        page = _write_report(result, output.with_suffix(".html")) if report else None
        _show(result, output, page)


def _write_report(result: DemoResult, path: Path) -> Path | None:
    """A page about the model, judged by the visits held out; None where its extra isn't installed."""
    from importlib.util import find_spec

    if find_spec("bokeh") is None:
        say("without the extra 'report' there is no page: pip install 'npvi[report]'", style="dim")
        return None
    from npvi.demo.survey import SIZE
    from npvi.reporting import report

    survey, held = result.survey, result.held_out
    with watching():
        report(
            result.model,
            path,
            survey.places[held],
            survey.counts[held],
            test_row={"exposure": survey.hours[held]},
            bbox=(0.0, 0.0, SIZE, SIZE),
            exceed=[5.0],
            target="birds",
            title="A simulated bird survey",
        )
    return path


def _show(result: DemoResult, output: Path, page: Path | None) -> None:
    scores, seconds = result.scores, result.seconds
    pairs = {
        "visits": f"{scores['fitted']:,.0f} fitted, {scores['held_out']:,.0f} held out to score",
        **{name: f"{number(found, 3)} (the truth: {true:g})" for name, (found, true) in result.learned.items()},
        "learned in": f"{scores['evaluations']:.0f} evaluations" + ("" if scores["converged"] else "; NOT converged"),
        "log density": f"{scores['log_density']:.3f} per visit (higher is better); "
        f"{scores['baseline_log_density']:.3f} for one rate everywhere",
        "50% intervals": f"hold {scores['coverage_50']:.1%} of the counts held out",
        "90% intervals": f"hold {scores['coverage_90']:.1%} (randomised at their ends, as counts are whole numbers)",
        "true surface": f"correlation {scores['correlation']:.3f} at the visits held out, "
        f"{scores['correlation_on_map']:.3f} over the whole map (log scale)",
        "(error / stated sd)²": f"{scores['squared_error_over_variance']:.2f} on average for the surface itself; about "
        f'1 would be right; {scores["npvi_squared_error_over_variance"]:.1f} with method="npvi"',
        "seconds": ", ".join(f"{name} {value:.1f}" for name, value in seconds.items()),
        "picture": str(output),
        **({} if page is None else {"report": f"{page}, which any browser opens"}),
    }
    show_pairs("A simulated bird survey", pairs)
