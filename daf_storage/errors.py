"""Every error of the two packages, and the sentences that they speak.

::

    DafError
    ├── InvalidInputError (ValueError)          what the caller passed is wrong
    │   ├── InvalidNameError                    a name that no format can hold
    │   ├── InvalidModeError                    not one of r, r+, w+, w
    │   ├── LengthError                         a length or shape differs from the axis
    │   ├── LabelsError                         labels differ from the axis entries
    │   ├── DuplicateEntriesError               axis entries are not unique
    │   ├── QueryError                          SQL that cannot be answered
    │   └── UnsupportedInputError               values of a type that Daf has no place for
    ├── NotFoundError (LookupError)             what was asked for is not there
    │   ├── SourceNotFoundError (FileNotFoundError)
    │   ├── ScalarNotFoundError, AxisNotFoundError, VectorNotFoundError,
    │   └── MatrixNotFoundError, EntryNotFoundError
    ├── ExistsError                             it is there already, and may not be replaced
    ├── ReadOnlyError (PermissionError)         opened for reading, asked to write
    ├── AppendOnlyError                         the format can add, and not change or delete
    ├── InUseError                              another writer has it open
    ├── SizeLimitError                          it would grow beyond what it was opened for
    ├── BudgetError                             it would take more memory than it may
    ├── RemoteError (ConnectionError)           a server fails, or cannot be reached
    │   └── AccessDeniedError (PermissionError) no credentials, or not the right ones
    ├── StorageError (OSError)                  the file system fails, or refuses
    │   └── StorageFullError                    there is no space left
    ├── ForkedProcessError (RuntimeError)       in a forked process: SQL, or writing a file
    ├── FormatError (ValueError)                the stored data is not what it should be
    │   ├── NotADafError                        no Daf data set at this place
    │   ├── VersionError                        a Daf version that this code does not know
    │   ├── CorruptDataError                    truncated, contradictory or unreadable
    │   └── UnsupportedDataError                valid, but of a dtype or codec not supported
    └── MissingDependencyError (ImportError)    an optional package is not installed

Messages are whole sentences of the shape *source: what was asked; what is there instead; what to
do*, because engines pass them on as bare text.  ``NotFoundError`` is a ``LookupError`` and not a
``KeyError``, since the latter prints its text in quotes.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import shlex
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar
from weakref import WeakKeyDictionary


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do, where that is to pass an argument: the command line has an option for it.

    >>> str(Remedy("pass ", 'if_exists="replace"', " to replace it"))
    'pass if_exists="replace" to replace it'
    """

    before: str
    argument: str
    """As in a call in Python."""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{self.argument}{self.after}"


REPLACE: Final = 'if_exists="replace"'
ALLOW_WRITE: Final = 'allow="write"'
MAX_BYTES: Final = "max_bytes="
SKIP_BROKEN: Final = "skip_broken=True"


class DafError(Exception):
    """Root of every error that this software raises on purpose.

    Attributes
    ----------
    remedy
        The end of the message, if that is to pass an argument.
    """

    remedy: Remedy | None = None

    def __str__(self) -> str:
        return self.sentence(self.remedy)

    def sentence(self, remedy: Remedy | None) -> str:
        """Return the message with another remedy, such as an option of the command line."""
        fact = super().__str__()
        return fact if remedy is None else f"{fact}; {remedy}"


class DafWarning(UserWarning):
    """Root of every warning of this software; the command ``daf`` prints them."""


class InvalidInputError(DafError, ValueError):
    """What the caller passed is wrong."""


class InvalidNameError(InvalidInputError):
    """A name that at least one storage format cannot hold."""


class InvalidModeError(InvalidInputError):
    """The mode is not one of ``r``, ``r+``, ``w+`` and ``w``."""


class LengthError(InvalidInputError):
    """A length or a shape differs from the length of the axis."""


class LabelsError(InvalidInputError):
    """The labels that the input carries differ from the entries of the axis."""


class DuplicateEntriesError(InvalidInputError):
    """The entries of an axis are not unique."""


class QueryError(InvalidInputError):
    """A SQL query or predicate that cannot be answered."""

    line: int | None = None
    """The line of a syntax error, from 1; None of other errors."""
    column: int | None = None
    """Its column, from 1."""
    reason: str | None = None
    """What is wrong there, without the place."""


class UnsupportedInputError(InvalidInputError):
    """Values of a type that the Daf data model has no place for."""


class NotFoundError(DafError, LookupError):
    """What was asked for is not there."""


class SourceNotFoundError(NotFoundError, FileNotFoundError):
    """There is no file or directory at this path."""


class ScalarNotFoundError(NotFoundError):
    """The data set has no scalar of this name."""


class AxisNotFoundError(NotFoundError):
    """The data set has no axis of this name."""


class VectorNotFoundError(NotFoundError):
    """The axis has no vector of this name."""

    other_axes: tuple[str, ...] = ()
    """The axes that have one, where a query asked for it."""


class MatrixNotFoundError(NotFoundError):
    """The two axes have no matrix of this name."""


class EntryNotFoundError(NotFoundError):
    """The axis has no entry of this name, or no such position."""

    entry: str = ""
    """The name; empty for a position."""


class ExistsError(DafError):
    """The property exists already and replacing it was not asked for."""


class ReadOnlyError(DafError, PermissionError):
    """The data set was opened for reading only."""


class AppendOnlyError(DafError):
    """The format can hold more, and cannot change or delete what it holds."""


class InUseError(DafError):
    """The data set is open elsewhere in a way that excludes this."""


class SizeLimitError(DafError):
    """A file would grow beyond the size for which it was opened."""


class BudgetError(DafError):
    """A result would take more memory than the caller allows; nothing was read."""


class RemoteError(DafError, ConnectionError):
    """A server fails, or cannot be reached."""


class AccessDeniedError(RemoteError, PermissionError):
    """A server refuses: there are no credentials, or they do not allow it."""


class ForkedProcessError(DafError, RuntimeError):
    """The process was forked from one that had used SQL, or has the file open for writing.

    Threads do not come along; and two processes would write over what the other one wrote.
    """


class StorageError(DafError, OSError):
    """The file system fails, or refuses what was asked of it."""


class StorageFullError(StorageError):
    """There is no space left where something was to be written."""


class FormatError(DafError, ValueError):
    """The stored data is not what it should be."""


class NotADafError(FormatError):
    """There is something at this place, but not a Daf data set."""


class VersionError(FormatError):
    """The data set has a version of the format that this code does not know."""


class CorruptDataError(FormatError):
    """Stored data is truncated, contradicts itself or cannot be parsed."""


class UnsupportedDataError(FormatError):
    """A stored array is valid but uses a dtype or a codec that is not supported."""


class MissingDependencyError(DafError, ImportError):
    """An optional package is needed for this and is not installed."""


_MOST_NAMES_SHOWN = 12

_SENTENCES: Final[dict[int, tuple[type[DafError], str]]] = {
    errno.ENOSPC: (StorageFullError, "No space left on device; free some, or use another disk"),
    errno.EDQUOT: (StorageFullError, "your quota of this disk is used up; free some space"),
    errno.EFBIG: (StorageFullError, "the file would be larger than is allowed here"),
    errno.EACCES: (ReadOnlyError, "permission denied; ask for access, or use another path"),
    errno.EPERM: (ReadOnlyError, "this is not permitted; ask for access, or use another path"),
    errno.EROFS: (ReadOnlyError, "this file system is read-only; use a path on another one"),
    errno.ENOENT: (SourceNotFoundError, "there is no such file or directory"),
    errno.ENOTDIR: (SourceNotFoundError, "a part of this path is a file, not a directory"),
    errno.EISDIR: (InvalidInputError, "there is a directory of this name; name a file"),
    errno.ELOOP: (InvalidInputError, "its symbolic links form a loop; name another path"),
    errno.ENAMETOOLONG: (InvalidInputError, "this name is too long for the file system"),
    errno.EEXIST: (ExistsError, "this exists already"),
    errno.EMFILE: (StorageError, "too many files are open; raise the limit with 'ulimit -n'"),
    errno.EIO: (StorageError, "the disk fails to read or write; look at it before all else"),
    errno.EADDRINUSE: (InUseError, "another program uses this port"),
    errno.EADDRNOTAVAIL: (InvalidInputError, "this machine does not have this address"),
    errno.EBADF: (InvalidInputError, "no file is open under this number"),
    errno.ENXIO: (InvalidInputError, "this is a socket or a device that cannot be written to"),
}


STATED_NUMBER: Final = re.compile(r"errno = (\d+)")
"""The number of an error of the operating system, as HDF5 states it."""


def from_os_error(error: OSError, location: str = "") -> DafError:
    """Say what the operating system refused, in a sentence; `DafError`s stay as they are.

    Parameters
    ----------
    location
        What messages name; by default, the file that the operating system names.

    Examples
    --------
    >>> import errno
    >>> print(from_os_error(OSError(errno.ENOSPC, "No space left"), "x.daf.zarr"))
    x.daf.zarr: No space left on device; free some, or use another disk
    """
    if isinstance(error, DafError):
        return error
    named = error.filename if isinstance(error.filename, str | bytes) else ""
    where = location or os.fsdecode(named)
    start = f"{where}: " if where else ""
    stated = STATED_NUMBER.search(str(error))
    code = int(stated.group(1)) if error.errno is None and stated else error.errno
    kind, sentence = _SENTENCES.get(code or 0, (StorageError, ""))
    reason = " ".join((error.strerror or "").split()) or reason_of(error)
    return kind(f"{start}{sentence or reason}")


def reason_of(error: BaseException) -> str:
    r"""Return the message of an error in one line; one of ours, which says it, is raised again.

    >>> reason_of(ValueError("bad\n  magic")), reason_of(EOFError())
    ('bad magic', 'EOFError')
    """
    if isinstance(error, DafError):
        raise error
    return " ".join(str(error).split()) or type(error).__name__


def shown_names(available: Iterable[str], *, none: str = "none") -> str:
    """Return a readable list of names, shortened when there are many.

    >>> shown_names("abcdefghijklm", none="nothing")
    'a, b, c, d, e, f, g, h, i, j, k, l and 1 more'
    >>> shown_names("abcdefghijkl", none="nothing")
    'a, b, c, d, e, f, g, h, i, j, k, l'
    """
    names = sorted(available)
    if not names:
        return none
    shown = ", ".join(names[:_MOST_NAMES_SHOWN])
    rest = len(names) - _MOST_NAMES_SHOWN
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def in_shell(word: object) -> str:
    """Return a path, a name or SQL as a shell takes it, for a command that is advised.

    >>> print(in_shell("x.zip#/a"), in_shell("#1.h5ad"), in_shell("my runs"), in_shell("wow!/a"))
    x.zip#/a "#1.h5ad" "my runs" 'wow!/a'
    """
    text = str(word)
    if re.search(r'["$`\\]|!(?![=\s])', text):  # ! begins what was typed before
        return shlex.quote(text)
    return text if re.fullmatch(r"(?![#~])[\w@%+=:,./#~-]+", text) else f'"{text}"'


_SAME_AXES: Final = (("obs", "cell", "cells"), ("var", "gene", "genes"))
"""What the axes of an AnnData are called in different data sets."""


def unresolved(path: object) -> str:
    """Return what is taken literally in a path that does not exist; empty if nothing is.

    >>> unresolved("~/pbmc.h5ad")
    "; '~' is not replaced here: write the home directory in full"
    """
    parts = str(path).split("/")
    if "~" in parts:
        return "; '~' is not replaced here: write the home directory in full"
    return "; write a path instead of a file: URL" if "file:" in parts else ""


def nearest(requested: object, available: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for close spellings, else an empty string."""
    by_fold: dict[str, str] = {}
    for name in available:
        by_fold.setdefault(name.casefold(), name)
    close = difflib.get_close_matches(str(requested).casefold(), list(by_fold), n=2, cutoff=0.6)
    if not close:
        return ""
    return "; did you mean " + " or ".join(repr(by_fold[name]) for name in close) + "?"


def nearest_axis(requested: object, available: Iterable[str]) -> str:
    """Do the same for axes; ``obs`` is near ``cell`` where there is one of them only."""
    available = list(available)
    close = nearest(requested, available)
    if close:
        return close
    same = next((names for names in _SAME_AXES if str(requested).casefold() in names), ())
    others = [repr(name) for name in same if name in available]
    return f"; did you mean {' or '.join(others)}?" if others else ""


def scalar_not_found(source: str, name: str, available: Iterable[str]) -> ScalarNotFoundError:
    """Say which scalars there are."""
    has = choices(name, available, none="no scalars")
    return ScalarNotFoundError(f"{source}: there is no scalar {name!r}; it has {has}")


def choices(requested: object, available: Iterable[str], *, none: str = "none") -> str:
    """Return the names that there are, and which of them are near to one that was asked for."""
    available = list(available)
    return f"{shown_names(available, none=none)}{nearest(requested, available)}"


def axis_not_found(source: str, axis: str, available: Iterable[str]) -> AxisNotFoundError:
    """Say which axes there are."""
    available = list(available)
    has = shown_names(available, none="no axes")
    return AxisNotFoundError(
        f"{source}: there is no axis {axis!r}; it has {has}{nearest_axis(axis, available)}"
    )


def vector_not_found(
    source: str, axis: str, name: str, available: Iterable[str]
) -> VectorNotFoundError:
    """Say which vectors the axis has."""
    has = choices(name, available, none="no vectors")
    return VectorNotFoundError(f"{source}: axis {axis!r} has no vector {name!r}; it has {has}")


def matrix_not_found(
    source: str, rows_axis: str, columns_axis: str, name: str, available: Iterable[str]
) -> MatrixNotFoundError:
    """Say which matrices the two axes have."""
    has = choices(name, available, none="no matrices")
    return MatrixNotFoundError(
        f"{source}: axes {rows_axis!r} and {columns_axis!r} have no matrix {name!r}; "
        f"they have {has}"
    )


def entry_not_found(
    source: str, axis: str, entry: str, available: Iterable[str]
) -> EntryNotFoundError:
    """Say which entry was asked for; ``available`` may be a sample of the axis."""
    error = EntryNotFoundError(
        f"{source}: axis {axis!r} has no entry {entry!r}{nearest(entry, available)}"
    )
    error.entry = entry
    return error


_Error = TypeVar("_Error", bound=DafError)


def with_message(error: _Error, message: str) -> _Error:
    """Return an error of the same class and with the same data that says something else.

    >>> error = QueryError("no")
    >>> error.line = 3
    >>> with_message(error, "rows=: no").line
    3
    """
    other = type(error)(message)
    other.__dict__.update(error.__dict__)
    return other


@contextmanager
def located(what: object) -> Iterator[None]:
    """Put where it happened before the message of a `DafError` of the block."""
    try:
        yield
    except DafError as error:
        raise with_message(error, f"{what}: {error}") from None


def with_remedy(error: _Error, remedy: Remedy | None) -> _Error:
    """Return an error that ends by saying which argument to pass."""
    error.remedy = remedy
    return error


def property_exists(source: str, what: str, *, is_append_only: bool = False) -> ExistsError:
    """Say how to replace a property that is there already, if that is possible."""
    if is_append_only:
        return ExistsError(
            f"{source}: {what} exists already, and an archive is append-only; store it under "
            "another name, or work on a directory (.daf.zarr)"
        )
    return with_remedy(
        ExistsError(f"{source}: {what} exists already"), Remedy("pass ", REPLACE, " to replace it")
    )


def path_exists(path: str) -> ExistsError:
    """Say how to replace the file or data set at a path."""
    return with_remedy(
        ExistsError(f"{path} exists already"),
        Remedy("pass ", REPLACE, " to replace it, or name another path"),
    )


def over_budget(message: str, advice: str = "choose fewer rows or columns") -> BudgetError:
    """Say how to get a result that is larger than its budget."""
    return with_remedy(BudgetError(message), Remedy(f"{advice}, or pass a larger ", MAX_BYTES))


def append_only(source: str, what: str) -> AppendOnlyError:
    """Say why something in an archive cannot be replaced, and the way out."""
    return AppendOnlyError(
        f"{source}: can't delete or overwrite {what} in a zip-backed data set, which is "
        "append-only; store it under another name, or work on a directory (.daf.zarr)"
    )


def wrong_length(source: str, what: str, length: int, axis: str, axis_length: int) -> LengthError:
    """Say both lengths."""
    return LengthError(
        f"{source}: {what} has length {length:,}, but axis {axis!r} has {axis_length:,} entries"
    )


def wrong_labels(source: str, what: str, axis: str) -> LabelsError:
    """Say whose labels differ from which axis."""
    return LabelsError(
        f"{source}: the labels of {what} are not the entries of axis {axis!r} in the same order; "
        "reindex the input, or pass its values without labels"
    )


CALLER: Final[ContextVar[int | None]] = ContextVar("caller", default=None)
"""The thread that called this software, and waits for this one; None if it is the same."""
_warned: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()


def warn(text: str, category: type[Warning], *, once_for: object | None = None) -> None:
    """Warn at the line that called this software, however far that is from here.

    Parameters
    ----------
    once_for
        For this object the text is given once, while it lives.
    """
    given = set() if once_for is None else _warned.setdefault(once_for, set())
    if text in given:
        return
    given.add(text)
    found = frame = sys._current_frames()[CALLER.get() or threading.get_ident()]  # noqa: SLF001 - as warnings do
    while outer := frame.f_back:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        found = outer if package in ("daf_query", "daf_storage") else found
        frame = outer
    names, code = found.f_globals, found.f_code
    warned, module = names.setdefault("__warningregistry__", {}), str(names.get("__name__"))
    warnings.warn_explicit(text, category, code.co_filename, found.f_lineno, module, warned)
