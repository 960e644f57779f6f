"""The output of commands: exit codes, colours, the pager, JSON, sizes, and the lines of tables.

Colours are for a terminal; none in pipes and files, and none where ``NO_COLOR`` is set.  The pager
is that of ``PAGER``, or less.
"""

from __future__ import annotations

import os
import pydoc
import re
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

from daf_query.cli._later import display, json, sql, stores
from daf_storage import DafError, errors
from daf_storage._terminal_text import text_width, visible

if TYPE_CHECKING:
    from daf_storage import ShowProgress

DONE: Final = 0
FAILED: Final = 1
"""The request failed, or `verify` found an error; wrong usage is 2, as argparse has it."""
DATA_LOST: Final = 3
"""A repair is done, and something is lost or damaged: the output names it."""
INTERRUPTED: Final = 128 + signal.SIGINT

Style: TypeAlias = Literal["heading", "faint", "error"]
"""What is set apart."""

_CODES: Final = {"heading": "1", "faint": "2", "error": "1;31"}
_ESCAPES: Final = re.compile(r"\x1b\[[\d;]*m")
_BLANKS: Final = str.maketrans("\n\t", "  ")


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours that nobody has switched off."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return not is_plain and stream.isatty()


def coloured(text: str, style: Style, stream: TextIO) -> str:
    """Return text as it is printed on a stream."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if has_colours(stream) else text


def pager_of(options: Namespace) -> str | None:
    """Return the pager of a command; None if it was refused."""
    return None if options.no_pager else pager()


def pager() -> str | None:
    """Return the command of the pager; None where there is none, or ``PAGER`` is empty or cat."""
    if not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
        return None
    is_dumb = os.environ.get("TERM") == "dumb"  # less asks for a key before it shows anything
    chosen = os.environ.get("PAGER", "" if is_dumb else "less").strip()
    program = chosen.split(maxsplit=1)[0] if chosen else ""
    is_there = program not in ("", "cat") and shutil.which(program) is not None
    return chosen if is_there else None


def print_table(lines: Sequence[str], command: str | None) -> None:
    """Print the lines of a table, its two first apart; in a pager if there is one and need be."""
    lines = [
        coloured(lines[0], "heading", sys.stdout),
        *(coloured(line, "faint", sys.stdout) for line in lines[1:2]),
        *lines[2:],
    ]
    if command is None or _fits(lines):
        print(*lines, sep="\n")
        return
    sys.stdout.flush()
    os.environ.setdefault("LESS", "RSX")  # colours, long lines cut, and it stays on the screen
    pydoc.pipepager("\n".join(lines) + "\n", command)


def _fits(lines: Sequence[str]) -> bool:
    size = shutil.get_terminal_size()
    is_short = len(lines) < size.lines
    return is_short and all(text_width(_ESCAPES.sub("", line)) <= size.columns for line in lines)


def aligned(
    names: Sequence[str], rows: Iterable[Sequence[str]], is_number: Sequence[bool]
) -> list[str]:
    """Return the lines of a table, numbers to the right.

    >>> aligned(["type", "n"], [["B", "12"]], [False, True])
    ['type   n', '----  --', 'B     12']
    """
    listed = [[visible(cell).translate(_BLANKS) for cell in row] for row in (names, *rows)]
    widths = [max(text_width(row[i]) for row in listed) for i in range(len(names))]
    lines = []
    for row in [listed[0], ["-" * most for most in widths], *listed[1:]]:
        cells = []
        for cell, most, to_right in zip(row, widths, is_number, strict=True):
            blanks = " " * (most - text_width(cell))
            cells.append(blanks + cell if to_right else cell + blanks)
        lines.append("  ".join(cells).rstrip())
    return lines


def print_json(record: Any, **how: Any) -> None:
    """Print a record for programs."""
    print(visible(json.dumps(record, **{"indent": 2, **how})), flush=True)  # the same JSON


def described(path: str) -> str:
    """Return a file that was written, with its size if it has one."""
    is_there = Path(path).is_dir() or stores.find_output(path).is_regular
    return f"{path} ({display.readable_bytes(size_bytes(path))})" if is_there else path


def size_bytes(path: str) -> int:
    """Return how many bytes a data set has on disk."""
    container = Path(path.split("#/", 1)[0])
    files = container.rglob("*") if container.is_dir() else [container]
    return sum(file.stat().st_size for file in files if file.is_file())


_ARGUMENTS: Final = (
    *("rows", "columns", "obs_is", "var_is", "X_is", "fill", "name", "key", "merge", "empty"),
    *("port", "host", "max_bytes"),
)
_FORMS: Final[Any] = (
    (re.escape(errors.REPLACE), "--overwrite"),
    (r'\bduplicates="make_unique"', "--make-unique"),
    (r"\bempty=\{\(?'([^']*)'\)?: [^}]*\}", r"--empty \1=VALUE"),
    (r"\bempty=\{\('([^']*)', '([^']*)'\): [^}]*\}", r"--empty \1/\2=VALUE"),
    (r"\bempty=\{\('([^']*)', '([^']*)', '([^']*)'\): [^}]*\}", r"--empty \1/\2/\3=VALUE"),
    (r'\b(join|merge)="(\w+)"', r"--\1 \2"),
    (r"\bparams=\{'([^']*)': [^}]*\}", r"--param \1=..."),
    (r"\bparams=(?= has)", "--param"),
    (r"\bprefix=True", "--prefix"),
    (r"\bnames=\[\.\.\.\]", "--names"),
    (r"\banother dataset_axis\b(, or dataset_property=False)?", "another --dataset-axis"),
    (r"\bconnect\('([^']*)', overlay=\"([^\"]*)\"\)", r"daf annotate \1 \2"),
    (r"\bconnect\('([^']*)', overlay='([^']*)'\)", r"pass \1 --overlay \2"),
    (
        rf"(?<![\w'\"-])({'|'.join(_ARGUMENTS)})=(?=[ ,;]|$)",
        lambda found: f"--{found[1].replace('_', '-')}",
    ),
)
"""How arguments and calls are written in messages, and on the command line."""


def option_forms(text: str) -> str:
    """Return a message of the packages in the words of the command line.

    >>> option_forms("pass empty={('cell', 'age'): ...}, or prefix=True")
    'pass --empty cell/age=VALUE, or --prefix'
    >>> option_forms("rows= on axis 'cell': no vector 'a'")
    "--rows on axis 'cell': no vector 'a'"
    """
    for pattern, form in _FORMS:
        text = re.sub(pattern, form, text)
    return text


def failure_sentence(error: Exception, target: str | None = None) -> str:
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
        remedy = error.remedy
        if remedy is not None and remedy.argument == errors.ALLOW_WRITE:  # there is no such option
            remedy = errors.Remedy("", "write its rows to a file with -o FILE")
        return option_forms(str(error) if remedy is None else error.sentence(remedy))
    if isinstance(error, OSError):
        where = "" if error.filename is not None else target or "standard output"
        return str(errors.from_os_error(error, where))
    if isinstance(error, MemoryError):
        return "not enough memory for the result; ask for fewer rows or columns"
    return sql.strip_prefixes(str(error)) or type(error).__name__


def progress_of(options: Namespace) -> ShowProgress:
    """Return whether a command shows a progress bar."""
    return "never" if options.quiet else "auto"
