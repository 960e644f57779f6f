"""Standard streams: their colours, the pager, control characters, and what is closed or full.

Colours are for a terminal; none in pipes and files, and none where ``NO_COLOR`` is set.  The pager
is that of ``PAGER``, or less.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage._terminal_text import text_width, visible

if TYPE_CHECKING:
    import json
    import subprocess

    from _typeshed import ReadableBuffer

    from daf_storage import ShowProgress, display, stores
else:
    display = lazy_module("daf_storage.display")
    stores = lazy_module("daf_storage.stores")
    json, subprocess = map(lazy_module, ("json", "subprocess"))

Style: TypeAlias = Literal["heading", "faint", "error"]
"""What is set apart."""

_CODES: Final = {"heading": "1", "faint": "2", "error": "1;31"}


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours that nobody has switched off."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return not is_plain and stream.isatty()


def coloured(text: str, style: Style, stream: TextIO) -> str:
    """Return text as it is printed on a stream."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if has_colours(stream) else text


def coloured_table(lines: Sequence[str], stream: TextIO) -> list[str]:
    """Return the lines of a table, of which the first two are the names of its columns."""
    if not has_colours(stream):
        return list(lines)
    heads = [coloured(lines[0], "heading", stream)] + [
        coloured(line, "faint", stream) for line in lines[1:2]
    ]
    return heads + list(lines[2:])


_ESCAPES: Final = re.compile(r"\x1b\[[\d;]*m")
_LESS: Final = "RSX"
"""Colours, long lines cut at the edge, and what was seen stays on the screen."""


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


def print_lines(lines: Sequence[str], command: str | None) -> None:
    """Print lines, in a pager if there is one and they do not fit."""
    if command is None or _fits(lines):
        print(*lines, sep="\n")
        return
    sys.stdout.flush()
    environment = {"LESS": _LESS, **os.environ}
    with (
        _undisturbed(),
        subprocess.Popen(  # noqa: S604 - PAGER is a line of the shell, which the user wrote
            command, shell=True, stdin=subprocess.PIPE, env=environment, encoding="utf-8"
        ) as process,
        contextlib.suppress(BrokenPipeError),  # it was left before its end
    ):
        process.communicate("\n".join(lines) + "\n")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Leave Ctrl-C to the pager."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fits(lines: Sequence[str]) -> bool:
    size = shutil.get_terminal_size()
    is_short = len(lines) < size.lines
    return is_short and all(text_width(_ESCAPES.sub("", line)) <= size.columns for line in lines)


class TerminalBytes(io.RawIOBase):
    """Prints UTF-8 that is written for programs on standard output, a terminal, visibly."""

    def __init__(self) -> None:
        self._kept = b""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, content: Any) -> int:
        """Print the whole lines that there are."""
        part = bytes(memoryview(content))
        lines, newline, self._kept = (self._kept + part).rpartition(b"\n")
        self._print(lines + newline)
        return len(part)

    def close(self) -> None:
        """Print the rest."""
        if not self.closed:
            self._print(self._kept)
        super().close()

    def _print(self, content: bytes) -> None:
        sys.stdout.write(visible(content.decode("utf-8", "replace")))


_INPUT: Final = 0
_OUTPUT: Final = 1
_ERROR: Final = 2


def prepare_standard_streams() -> None:
    """Let errors of standard output name it, and open the streams that are closed (``>&-``).

    Otherwise the next files that are opened, say an archive, would get their numbers, and what a
    library prints would be written into the data.  Output to a closed stream is an error, as it
    is for other commands; messages to a closed standard error are dropped.
    """
    for number in (_INPUT, _OUTPUT, _ERROR):
        if not _is_open(number):
            _open_nothing(number)  # which gets the lowest number that is free
    if sys.stderr is None:
        sys.stderr = os.fdopen(_open_nothing(_ERROR), "w", encoding="utf-8")
    given = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_StandardOutput(_OUTPUT if given else _open_nothing(_OUTPUT), "w")),
        encoding="utf-8" if given is None else given.encoding,
        errors="strict" if given is None else given.errors,
        line_buffering=given is not None and given.isatty(),
    )


class _StandardOutput(io.FileIO):
    """Standard output, whose errors name it: the system names no file."""

    def __init__(self, number: int, mode: str) -> None:
        super().__init__(number, mode, closefd=False)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.errno == errno.EBADF:
                raise errors.StorageError(
                    "standard output is closed; open it, or name a file: -o FILE"
                ) from error
            raise errors.from_os_error(error, "standard output") from error


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _open_nothing(number: int) -> int:
    """Open the null device in place of a stream; the one of standard output refuses writes."""
    return os.open(os.devnull, os.O_WRONLY if number == _ERROR else os.O_RDONLY)


def print_json(record: Any, **how: Any) -> None:
    """Print a record for programs."""
    print(visible(json.dumps(record, **{"indent": 2, **how})), flush=True)  # the same JSON


def described(path: str) -> str:
    """Return a file that was written, with its size if it has one."""
    if Path(path).is_dir():
        return f"{path} ({display.readable_bytes(size_bytes(path))})"
    output = stores.find_output(path)
    if not output.is_regular:
        return path
    return f"{path} ({display.readable_bytes(output.path.stat().st_size)})"


def size_bytes(path: str) -> int:
    """Return how many bytes a data set has on disk."""
    container = Path(path.split("#/", 1)[0])
    if container.is_file():
        return container.stat().st_size
    return sum(
        (Path(parent) / name).stat().st_size
        for parent, _, names in os.walk(container)
        for name in names
    )


def progress_of(options: Namespace) -> ShowProgress:
    """Return whether a command shows a progress bar."""
    return "never" if options.quiet else "auto"
