"""What goes wrong, in one or two lines on standard error and an exit code that scripts can trust."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from npvi.checks import among
from npvi.cli.display import say
from npvi.runtime.interrupts import interrupts_remembered, safe_point

__all__ = ["FAILED", "INTERRUPTED", "WRONG_INPUT", "InputError", "guarded", "unknown_name"]

FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130


class InputError(ValueError):
    """Something the user gave is wrong; the message says what and where."""


@contextmanager
def guarded(command: str) -> Iterator[None]:
    """Turn errors into messages and exit codes, and warnings into notes."""
    from npvi.priors import NotPositiveDefiniteError
    from npvi.runtime.files import UnwritableError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show
            with interrupts_remembered():
                yield
                safe_point()  # the command line as a whole ends by SystemExit, after which nothing strikes
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        _stop(command, "interrupted", INTERRUPTED)
    except NotPositiveDefiniteError as error:
        _stop(command, str(error), FAILED)
    except UnwritableError as error:
        _stop(command, str(error), WRONG_INPUT)
    except ValueError as error:  # the library checks what it is given and says what is wrong with it
        _stop(command, str(error), WRONG_INPUT)
    except MemoryError:
        _stop(command, "there is not enough memory for this many rows; fewer --neighbors need less", FAILED)
    except Exception as error:
        hint = "NPVI_DEBUG=1 shows where it happened"
        _stop(command, f"failed unexpectedly: {type(error).__name__}: {error}\n{hint}", FAILED)


def unknown_name(what: str, name: str, names: Sequence[str]) -> InputError:
    """ "no column 'cuont'", with the closest name and a list of all.

    >>> str(unknown_name("survey.csv has no column", "cuont", ["lon", "lat", "count"]))
    "survey.csv has no column 'cuont': did you mean 'count'? There are lon, lat, count"
    """
    return InputError(f"{what} {name!r}{among(name, names)}")


def _stop(command: str, message: str, code: int) -> None:
    if os.environ.get("NPVI_DEBUG"):
        say(traceback.format_exc())
    say(f"npvi {command}: {message}", style="bold red")
    raise typer.Exit(code)


def _show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    say(f"note: {message}", style="yellow")
