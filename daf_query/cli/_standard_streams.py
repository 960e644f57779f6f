"""Standard streams that are closed or cannot be written to."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, Final

from daf_storage import errors

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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
