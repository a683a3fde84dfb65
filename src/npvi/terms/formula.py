"""Formulas as R has them, in terms: ``count ~ forest + s(depth) + (1|observer) + gp(lon, lat) + offset(log(hours))``.

formulae finds the words and reads what is inside a call; here the sum is taken apart, and what is no linear effect
becomes a term. Each piece knows its place in the text, so that errors can point at it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from npvi.terms.records import AR1, Field, Group, Linear, Offset, RandomWalk, Smooth, Term, Varying
from npvi.terms.table import EXTRA

__all__ = ["Formula", "FormulaError", "parse"]

#: calls that are terms of their own
_CALLS = ("s", "te", "gp", "offset")


#: what these may be told
_OPTIONS: dict[Any, tuple[str, ...]] = {
    Field: ("by", "kernel", "range", "sd", "sphere", "n_neighbors", "cell", "mesh", "rho"),
    Smooth: ("k", "by", "cyclic", "period", "sd", "smoothing", "knots"),
}


class FormulaError(ValueError):
    """A formula that isn't understood; the message points at the place."""


class Formula(NamedTuple):
    """What a formula says.

    Attributes
    ----------
    response : the column left of ~, or None.
    terms : the parts of the predictor.
    """

    response: str | None
    terms: tuple[Term, ...]


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    stop: int


def parse(text: Any) -> Formula:
    """Take a formula apart.

    >>> found = parse("count ~ forest + s(depth) + (1 + effort|site) + gp(lon, lat, by=year) + offset(log(hours))")
    >>> found.response, [term.name for term in found.terms]
    ('count', ['s(depth)', '1 + effort|site', 'gp(lon, lat, by=year)', 'offset(log(hours))', 'linear'])
    >>> parse("count ~ s(depth, q=3)")
    Traceback (most recent call last):
    npvi.terms.formula.FormulaError: s() has no argument 'q'; it has k, by, cyclic, period, sd, smoothing, knots
      count ~ s(depth, q=3)
                       ^
    """
    if not isinstance(text, str) or not text.strip():
        raise FormulaError(f'formula must be a text such as "count ~ s(depth) + gp(lon, lat)", got {text!r}')
    tokens = _tokens(text)
    response, tokens = _left(text, tokens)
    terms: list[Term] = []
    linear: list[str] = []
    intercept = True
    for sign, piece in _pieces(text, tokens):
        if len(piece) == 1 and piece[0].text in ("0", "1"):
            intercept = (piece[0].text == "1") == (sign == "+")
            continue
        if sign == "-":
            _fail(text, piece[0].start, "only the constant can be taken out, by - 1 or + 0")
        term = _term(text, piece)
        if term is None:
            linear.append(text[piece[0].start : piece[-1].stop])
        else:
            terms.append(term)
    return Formula(response, (*terms, Linear(*linear, intercept=intercept)))


def _tokens(text: str) -> list[_Token]:
    try:
        from formulae.scanner import ScanError, Scanner
    except ModuleNotFoundError:
        raise ImportError(EXTRA) from None

    class Placed(Scanner):  # type: ignore[misc]
        """formulae's scanner, which doesn't keep the places."""

        def add_token(self, kind: str, literal: Any = None) -> None:
            found.append(_Token(kind, self.code[self.start : self.current], self.start, self.current))
            super().add_token(kind, literal)

    found: list[_Token] = []
    scanner = Placed(text)
    try:
        while not scanner.at_end():
            scanner.start = scanner.current
            scanner.scan_token()
    except ScanError as error:
        _fail(text, scanner.start, str(error))
    depth: list[_Token] = []
    for token in found:
        if token.text == "(":
            depth.append(token)
        elif token.text == ")":
            if not depth:
                _fail(text, token.start, "there is no ( to this )")
            depth.pop()
    if depth:
        _fail(text, depth[-1].start, "this ( is not closed")
    return found


def _left(text: str, tokens: list[_Token]) -> tuple[str | None, list[_Token]]:
    """The response, and what is right of ~."""
    at = [i for i, token in enumerate(tokens) if token.kind == "TILDE"]
    if len(at) > 1:
        _fail(text, tokens[at[1]].start, "there can be only one ~")
    if not at:
        return None, tokens
    left, right = tokens[: at[0]], tokens[at[0] + 1 :]
    if not right:
        _fail(text, len(text), "nothing is right of ~: write 1 for a constant alone")
    if not left:
        return None, right
    if len(left) > 1:
        _fail(text, left[0].start, "left of ~ must be the name of a column; make one of what you want to predict")
    return _name(left[0]), right


def _pieces(text: str, tokens: list[_Token]) -> list[tuple[str, list[_Token]]]:
    """What stands between + and − outside of all parentheses."""
    pieces: list[tuple[str, list[_Token]]] = []
    depth, sign = 0, "+"
    piece: list[_Token] = []
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind in ("PLUS", "MINUS"):
            if piece:
                pieces.append((sign, piece))
            elif pieces or token.kind == "PLUS":
                _fail(text, token.start, f"nothing is left of this {token.text}")
            sign, piece = token.text, []
        else:
            piece.append(token)
    if not piece:
        _fail(text, tokens[-1].start if tokens else 0, "nothing comes after this")
    return [*pieces, (sign, piece)]


def _term(text: str, piece: list[_Token]) -> Term | None:
    """The term that a piece is, or None where it is a linear effect."""
    pipes = [i for i, token in enumerate(piece) if token.kind == "PIPE"]
    if pipes:
        if piece[0].text != "(" or piece[-1].text != ")" or len(pipes) > 1:
            _fail(text, piece[pipes[0]].start, "effects of levels stand in parentheses of their own, (1|site)")
        return _group(text, piece[1 : pipes[0]], piece[pipes[0] + 1 : -1], piece[pipes[0]])
    if _is_call(piece):
        return _call(text, piece)
    for first, second in pairwise(piece):
        if first.text in _CALLS and second.text == "(":
            if piece[1].kind == "COLON" and piece[0].kind in ("IDENTIFIER", "BACKQUOTE_NAME", "QUOTED_NAME"):
                surface = _call(text, piece[2:]) if _is_call(piece[2:]) else None
                if isinstance(surface, Field):
                    return Varying(_name(piece[0]), over=surface)
            _fail(text, first.start, f"{first.text}(…) stands by itself between +, or as column:gp(…)")
    return None


def _is_call(piece: list[_Token]) -> bool:
    """Whether a piece is one call of a term."""
    if len(piece) < 3 or piece[0].text not in _CALLS or piece[1].text != "(":
        return False
    depth = 0
    for i, token in enumerate(piece[1:], 1):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return i == len(piece) - 1
    return False


def _group(text: str, left: list[_Token], right: list[_Token], pipe: _Token) -> Group:
    intercept, slopes = True, []
    if not left or not right:
        _fail(text, pipe.start, "left of | is what varies, right of it the column of the levels")
    for sign, piece in _pieces(text, left):
        if len(piece) != 1 or sign == "-":
            _fail(text, piece[0].start, "left of | are 1, 0 and names of columns, with + between them")
        if piece[0].text in ("0", "1"):
            intercept = piece[0].text == "1"
        else:
            slopes.append(_name(piece[0]))
    columns = [_name(token) for token in right[::2]]
    wrong = [token for token in right[1::2] if token.kind != "COLON"]
    if wrong or len(right) % 2 == 0:
        at = wrong[0].start if wrong else right[-1].start
        _fail(text, at, "right of | is a column, or several with : between them; write a/b as (1|a) + (1|a:b)")
    return _made(text, right[0].start, Group, columns, {"slope": slopes or None, "intercept": intercept})


def _call(text: str, piece: list[_Token]) -> Term:
    name, inside = piece[0], piece[2:-1]
    if name.text == "offset":
        if not inside:
            _fail(text, name.start, "offset() needs a column or an expression")
        return Offset(text[inside[0].start : inside[-1].stop])
    columns, options = [], {}
    kind = Field if name.text == "gp" else Smooth
    allowed = _OPTIONS[kind]
    for argument in _arguments(inside):
        if not argument:
            _fail(text, name.start, f"{name.text}() has an argument that is empty")
        if len(argument) > 2 and argument[1].kind == "EQUAL":
            if argument[0].text not in allowed:
                known = ", ".join(allowed)
                _fail(text, argument[0].start, f"{name.text}() has no argument {argument[0].text!r}; it has {known}")
            options[argument[0].text] = _value(text, argument[0].text, argument[2:])
        elif len(argument) == 1:
            columns.append(_name(argument[0]))
        else:
            _fail(text, argument[0].start, f"{name.text}() takes names of columns: make a column of this expression")
    return _made(text, name.start, kind, columns, options)


def _arguments(tokens: list[_Token]) -> list[list[_Token]]:
    found: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind == "COMMA":
            found.append([])
        else:
            found[-1].append(token)
    return found


def _value(text: str, name: str, tokens: list[_Token]) -> Any:
    """What an argument is: a number, a word, a column, AR1(year)."""
    first = tokens[0]
    if name == "by":
        if len(tokens) == 1:
            return _name(first)
        kinds: dict[str, Any] = {"AR1": AR1, "RandomWalk": RandomWalk, "ar1": AR1, "rw": RandomWalk}
        if first.text in kinds and len(tokens) == 4:
            return kinds[first.text](_name(tokens[2]))
        _fail(text, first.start, "by= is a column, AR1(column) or RandomWalk(column)")
    if len(tokens) == 1 and first.kind == "NUMBER":
        number = float(first.text)
        return int(number) if first.text.isdigit() else number
    if len(tokens) == 1 and first.text in ("True", "False", "TRUE", "FALSE"):
        return first.text.lower() == "true"
    if len(tokens) > 1:
        _fail(text, first.start, f"{name}= takes a number or a word in a formula; use terms=[…] for more")
    return _name(first)


def _made(text: str, at: int, kind: Any, columns: list[str], options: dict[str, Any]) -> Any:
    try:
        return kind(*columns, **options)
    except ValueError as error:
        _fail(text, at, str(error))


def _name(token: _Token) -> str:
    return token.text[1:-1] if token.text[:1] in "`'\"" else token.text


def _fail(text: str, at: int, why: str) -> NoReturn:
    """Raise an error that points at a character."""
    line = " ".join(text.splitlines()) if "\n" in text else text
    raise FormulaError(f"{why}\n  {line}\n  {' ' * at}^")
