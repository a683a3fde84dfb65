"""The page of a report: sections with text and plots as one HTML file that asks nobody for anything.

All text that isn't ours goes through `text` on its way in. A Content-Security-Policy allows the page's own scripts, by
their hashes, and nothing else: what slipped through would be shown, not run, and nothing can be fetched or sent.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npvi.runtime.extras import needed

__all__ = ["Check", "Choice", "Panel", "checkboxes", "page", "plain", "plot", "radios", "table", "text"]

_HERE = Path(__file__).parent
#: kinds of characters that change how others are shown
_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")


@dataclass(frozen=True)
class Panel:
    """One section of a report.

    Attributes
    ----------
    key : its anchor, a word.
    title : its heading, and in the list of contents.
    body : HTML.
    plots : Bokeh's figures by the key with which `body` has a place for them (`plot`).
    data : what the script of the page reads, by name.
    """

    key: str
    title: str
    body: str
    plots: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


def plain(value: Any, longest: int = 200) -> str:
    """Text from elsewhere, without characters that change how others are shown; shortened where very long.

    >>> plain("a\\u202eb")
    'a b'
    """
    shown = "".join(" " if unicodedata.category(one) in _OBEYED else one for one in str(value))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def text(value: Any, longest: int = 200) -> str:
    """Text as HTML shows it, whatever is in it.

    >>> text("<script>alert('x')</script> & co")
    '&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; co'
    """
    return html.escape(plain(value, longest))


def plot(key: str, words: str, ratio: float = 2.2, extra: int = 60) -> str:
    """A place for a plot, `words` say what is in it: as wide as the page, `ratio` times as wide as high, and `extra`
    pixels for its axes."""
    how = f"--ratio: {ratio:.3f}; --extra: {extra}px"
    return f'<div class="plot" id="{key}" style="{how}" role="img" aria-label="{text(words)}"></div>'


@dataclass(frozen=True)
class Choice:
    """One of several things of which one is shown: its label, the models of Bokeh that are visible then, and a line of
    text below."""

    label: str
    shows: Sequence[Any]
    words: str = ""


Check = tuple[str, Sequence[Any], bool]
"""A label, the models of Bokeh that are visible where it is checked, and whether it is at first."""


def radios(key: str, legend: str, choices: Sequence[Choice]) -> str:
    """Buttons of which one is pressed, the first one at first."""
    buttons, lines = [], []
    for number, choice in enumerate(choices):
        own = f"{key}-{number}"
        checked = " checked" if number == 0 else ""
        buttons.append(
            f'<input type="radio" name="{key}" id="{own}" data-shows="{_ids(choice.shows)}"{checked}>'
            f'<label for="{own}">{text(choice.label)}</label>'
        )
        if choice.words:
            hidden = "" if number == 0 else " hidden"
            lines.append(f'<p class="caption" data-with="{own}"{hidden}>{text(choice.words, 600)}</p>')
    return f'<fieldset class="choices"><legend>{text(legend)}</legend>{"".join(buttons)}</fieldset>{"".join(lines)}'


def checkboxes(key: str, checks: Sequence[Check]) -> str:
    """Things that are shown or not, each by itself."""
    boxes = []
    for number, (label, shows, on) in enumerate(checks):
        own = f"{key}-{number}"
        checked = " checked" if on else ""
        boxes.append(
            f'<label><input type="checkbox" id="{own}" data-shows="{_ids(shows)}"{checked}> {text(label, 400)}</label>'
        )
    return f'<div class="checks">{"".join(boxes)}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = (), kind: str = "") -> str:
    """A table; cells are HTML, those of the columns `numbers` are aligned to the right; `kind` is a style."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=number' if place in numbers else ''}>{cell}</{tag}>" for place, cell in enumerate(cells)
        )

    above = f"<thead><tr>{line(head, 'th')}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}">{above}<tbody>{body}</tbody></table></div>'


def page(title: str, lead: str, panels: Sequence[Panel], language: str = "en") -> str:
    """The whole file.

    Parameters
    ----------
    title : plain text.
    lead : HTML below the title.
    panels : in order.
    """
    needed("bokeh", "report", "reports")
    from bokeh.embed import json_item
    from bokeh.resources import Resources

    library = Resources(mode="inline", components=["bokeh"]).js_raw
    own = (_HERE / "page.js").read_text(encoding="utf-8")
    scripts = [*library, own]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )
    links = "".join(f'<a href="#{panel.key}">{text(panel.title)}</a>' for panel in panels)
    sections = "".join(
        f'<section id="{panel.key}"><h2>{text(panel.title)}</h2>{panel.body}</section>' for panel in panels
    )
    items = {key: json_item(figure, key) for panel in panels for key, figure in panel.plots.items()}
    data = {name: value for panel in panels for name, value in panel.data.items()}
    held = _as_data("plots", items) + _as_data("facts", data)
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{(_HERE / 'page.css').read_text(encoding='utf-8')}</style>\n</head>\n"
        f"<body>\n<header><h1>{text(title)}</h1>{lead}<nav>{links}</nav></header>\n<main>{sections}</main>\n"
        "<noscript><p>The plots need JavaScript, which is switched off.</p></noscript>\n"
        f"{held}{''.join(f'<script>{script}</script>' for script in scripts)}\n</body>\n</html>\n"
    )


def _ids(models: Sequence[Any]) -> str:
    return " ".join(model.id for model in models)


def _as_data(key: str, value: Any) -> str:
    """JSON that no browser takes for anything else."""
    found = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        found = found.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{key}">{found}</script>\n'


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
