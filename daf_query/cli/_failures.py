"""How a command ends: its exit code, signals, and errors in the words of the command line.

Messages write an argument as ``name=``; one whose remedy is to pass an argument has it apart.
"""

from __future__ import annotations

import dataclasses
import re
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING, Final

from daf_storage import DafError, errors
from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    from daf_query import sql
else:
    sql = lazy_module("daf_query.sql")

DONE: Final = 0
FAILED: Final = 1
"""The request failed, or `verify` found an error; wrong usage is 2, as argparse has it."""
DATA_LOST: Final = 3
"""A repair is done, and something is lost or damaged: the output names it."""
INTERRUPTED: Final = 128 + signal.SIGINT

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_REPEATED_SECONDS: Final = 5.0


class Terminated(SystemExit):
    """The process was asked to end by a signal."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        self.exit_code = 128 + number
        super().__init__(self.exit_code)


class _Handler:
    """Raises `Terminated` in the main thread, so that what is half done is discarded.

    A second signal within a few seconds, as some programs send it, is ignored: cleaning up is not
    interrupted.
    """

    def __init__(self) -> None:
        self._last = -_REPEATED_SECONDS

    def __call__(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        is_new, self._last = now - self._last >= _REPEATED_SECONDS, now
        if is_new:
            raise Terminated(number)


def end_in_order() -> None:
    """Let the process clean up when it is asked to end; what is ignored (``nohup``) stays so."""
    handler = _Handler()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


_OPTIONS: Final = {
    errors.REPLACE: "--overwrite",
    "port=": "--port",
    "host=": "--host",
    errors.MAX_BYTES: "--max-bytes",
    'duplicates="make_unique"': "--make-unique",
}
"""What stands on the command line for an argument that a remedy names."""

_SENTENCES: Final = {errors.ALLOW_WRITE: "write its rows to a file with -o FILE"}
"""What to do instead where the command line has no such option."""

_FORMS: Final = (
    (r"\bempty=\{\('([^']*)', '([^']*)'\): [^}]*\}", r"--empty \1/\2=VALUE"),
    (r"\bempty=\{\('([^']*)', '([^']*)', '([^']*)'\): [^}]*\}", r"--empty \1/\2/\3=VALUE"),
    (r"\bempty=\{'([^']*)': [^}]*\}", r"--empty \1=VALUE"),
    (r'\b(join|merge)="(\w+)"', r"--\1 \2"),
    (r"\bparams=\{'([^']*)': [^}]*\}", r"--param \1=..."),
    (r"\bparams=(?= has)", "--param"),
    (r"\bprefix=True", "--prefix"),
    (r'\bduplicates="make_unique"', "--make-unique"),
    (r"\bnames=\[\.\.\.\]", "--names"),
    (r"\b(merge|empty)=(?=[ ,;]|$)", r"--\1"),
    (r"\banother dataset_axis\b(, or dataset_property=False)?", "another --dataset-axis"),
    (r"""\bconnect\('([^']*)', overlay="([^"]*)"\)""", r"daf annotate \1 \2"),
    (r"\bconnect\('([^']*)', overlay='([^']*)'\)", r"pass \1 --overlay \2"),
)
"""How arguments and calls are written in messages, and on the command line."""

_ARGUMENT: Final = r"(?<![\w'\"-])(rows|columns|obs_is|var_is|X_is|fill|name|key)=(?![\w'\"=])"


def in_options(error: DafError) -> str:
    """Return the message of an error in the words of the command line.

    >>> in_options(errors.path_exists("x.daf.zarr"))
    'x.daf.zarr exists already; pass --overwrite to replace it, or name another path'
    >>> in_options(errors.QueryError("rows= on axis 'cell': no vector 'a'"))
    "--rows on axis 'cell': no vector 'a'"
    """
    remedy = error.remedy
    if remedy is None:
        return re.sub(_ARGUMENT, _option_of, option_forms(str(error)))
    if remedy.argument in _SENTENCES:
        remedy = errors.Remedy("", _SENTENCES[remedy.argument])
    elif remedy.argument in _OPTIONS:
        remedy = dataclasses.replace(remedy, argument=_OPTIONS[remedy.argument])
    return error.sentence(remedy)


def _option_of(argument: re.Match[str]) -> str:
    return f"--{argument[1].replace('_', '-')}"


def option_forms(text: str) -> str:
    """Return what `concatenate` says, in an error or its report, in the words of the command line.

    >>> option_forms("pass empty={('cell', 'age'): ...}, or prefix=True")
    'pass --empty cell/age=VALUE, or --prefix'
    """
    for pattern, form in _FORMS:
        text = re.sub(pattern, form, text)
    return text


def failure_sentence(error: Exception, target: str = "") -> str:
    """Return what is printed of an error; of the engine's, which raises plain ones, the core.

    Parameters
    ----------
    target
        The file that was being written, where the error of the system names none.

    Examples
    --------
    >>> failure_sentence(errors.path_exists("x.daf.zarr"))
    'x.daf.zarr exists already; pass --overwrite to replace it, or name another path'
    """
    if isinstance(error, DafError):  # some are errors of the system, too
        return in_options(error)
    if isinstance(error, OSError):
        return str(errors.from_os_error(error, "" if error.filename is not None else target))
    if isinstance(error, MemoryError):
        return "not enough memory for the result; ask for fewer rows or columns"
    return sql.strip_prefixes(str(error)) or type(error).__name__
