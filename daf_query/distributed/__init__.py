"""Tables and matrices that other processes read by path, for Dask, Spark and training.

**Nouns.** A *source* says how another process opens a table or a matrix: by the paths, options and
views of its data sets, and with the version that they had; it has no values.  A process keeps a
bounded number of readers and of opened sources.  Whoever reads compares the version, and refuses
what was changed since.  A *block* is what a task of a Dask array returns: CSR or dense.

A worker gets a source with each task.  What it opens is kept, the least recently used is let go:
the next task over the same path finds it open.

Must not know slices, tables or sessions: they make sources.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import stat
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from daf_storage import DafReader, Origin, errors
from daf_storage._lazy import sp
from daf_storage.base import ForkLock, Span, optional_import

MAX_SOURCES: Final = 16
"""How many sources a process keeps open: of a sparse matrix, its column pointers are in memory."""

_DIGEST_BYTES: Final = 16
_PICKLE_PROTOCOL: Final = 4

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """How a table or a matrix is opened in another process, and no values."""

    pickled: bytes
    """What is opened, with its data sets as they were opened; empty if no path leads to them."""
    key: str
    """Equal for sources that read the same, in every process."""
    location: str
    what: str
    """What is read, for messages."""
    columns: tuple[str, ...]
    """The columns whose version counts."""
    paths: tuple[str, ...] = ()
    """The paths or URLs of the data sets."""
    version: Hashable = None
    live: Any = None
    """What is read, where no path leads to it: for the threads of this process alone."""

    @classmethod
    def of(cls, found: Any, what: str, columns: Sequence[str] = ()) -> Self:
        """Return the source of a table or a matrix, with the version that it has now.

        It has a ``location``, and ``data_version(columns)`` returns what differs once its data were
        changed; None where nothing shows it.

        Raises
        ------
        InvalidInputError
            Its data set was closed, or another one lies at its path by now.
        """
        names = tuple(columns)
        try:
            pickled, origins = _by_path(found)
        except errors.InvalidInputError:  # no path leads to it
            found.data_version(names)  # raises if it was closed
            return cls(b"", uuid.uuid4().hex, found.location, what, names, live=found)
        paths = tuple(dict.fromkeys(origin.path for origin in origins))
        version = _version(paths, lambda: found.data_version(names))
        key = _digest_of(pickled, repr((names, version)).encode())
        source = cls(pickled, key, found.location, what, names, paths, version)
        if any(map(_is_replaced, origins)):
            raise source.changed()
        return source

    def __reduce__(self) -> Any:
        """Leave what is in memory behind: whoever opens the source elsewhere gets an error.

        An error here would come out of a scheduler as one about pickling.
        """
        parts = (self.pickled, self.key, self.location, self.what, self.columns, self.paths)
        return type(self), (*parts, self.version)

    def open(self) -> Any:
        """Open it; metadata are read.

        Raises
        ------
        InvalidInputError
            No path leads to it; or it was changed since the source was made.
        """
        self.require_path()
        try:
            found = pickle.loads(self.pickled)  # noqa: S301 - made by `of`
        except errors.SourceNotFoundError:
            raise
        except (errors.NotFoundError, errors.FormatError):  # an axis or a matrix is gone
            raise self.changed() from None
        self.check(found)
        return found

    def require_path(self) -> None:
        """Refuse what is in memory."""
        if not self.pickled:
            raise errors.InvalidInputError(
                f"{self.location}: no path leads to this data set, so other processes cannot read "
                "it; copy_all() it to a path and connect that, or compute with scheduler='threads'"
            )

    def is_current(self, found: Any) -> bool:
        """Return whether the data is what it was; yes where nothing shows it."""
        if self.version is None:
            return True
        try:
            now = _version(self.paths, lambda: found.data_version(self.columns))
        except (errors.NotFoundError, errors.FormatError, OSError):
            return False
        return now in (None, self.version)

    def check(self, found: Any) -> None:
        """Refuse data that was changed.

        Raises
        ------
        InvalidInputError
            It was changed or replaced since the source was made.
        """
        if not self.is_current(found):
            raise self.changed()

    def changed(self) -> errors.InvalidInputError:
        """Return the error of data that was changed."""
        return errors.InvalidInputError(
            f"{self.location}: {self.what} was changed or replaced since it was planned how to "
            "read it, so its parts may not belong together; run the query again, or make the slice "
            "or the Dask collection again"
        )


def _version(paths: Sequence[str], of_data: Callable[[], Hashable]) -> Hashable:
    """Return what shows a change on any machine: of files their sizes and times.

    Of what lies in directories, that of the data; None where nothing shows it.
    """
    states = tuple(map(file_state, paths))
    if None not in states:
        return states
    version = of_data()
    return None if version is None else (states, version)


def _is_replaced(origin: Origin) -> bool:
    """Return whether its path leads to another file by now than the one that is open."""
    if origin.inode is None:
        return False
    try:
        status = _file_of(origin.path).stat()
    except OSError:
        return True
    return (status.st_dev, status.st_ino) != origin.inode


def _file_of(path: str) -> Path:
    """Return a path, or that of the file which has the group; folders may be called ``x#``, too."""
    whole = Path(path)
    return whole if whole.exists() else Path(path.rpartition("#/")[0])


def file_state(path: str) -> tuple[int, int] | None:
    """Return size and time of a file, or of that which has a group; None of anything else.

    Inodes would differ between machines.
    """
    try:
        status = _file_of(path).stat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


class Pool(Generic[_T]):
    """What was opened last, up to a number.

    A forked process starts with an empty one: what its parent opened stays the parent's.
    """

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._lock = ForkLock()
        self._opened: OrderedDict[Hashable, _T] = OrderedDict()
        self._pid = os.getpid()
        self._of_parent: list[object] = []

    def get(
        self,
        key: Hashable,
        open_it: Callable[[], _T],
        is_usable: Callable[[_T], bool] = lambda _: True,
    ) -> _T:
        """Return what is kept by a key, if it can be used; else open it."""
        with self._lock:
            if self._pid != os.getpid():  # forked; nothing of its parent is closed or freed here
                self._of_parent.append(self._opened)
                self._opened, self._pid = OrderedDict(), os.getpid()
            source = self._opened.pop(key, None)
            if source is None or not is_usable(source):
                source = open_it()
            self._opened[key] = source
            while len(self._opened) > self._max_count:
                self._opened.popitem(last=False)  # closed when the last task lets go of it
            return source

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._opened.clear()


SOURCES: Final[Pool[Any]] = Pool(MAX_SOURCES)


def opened(source: Source) -> Any:
    """Return what a source is of, opened by the first task of this process that needs it.

    Raises
    ------
    InvalidInputError
        No path leads to it; or it was changed since the source was made.
    """
    if source.live is not None:
        return source.live
    return SOURCES.get(source.key, source.open, source.is_current)


@contextmanager
def reading(source: Source) -> Iterator[Any]:
    """Hand out what a source is of, and refuse what was read of it if it was changed meanwhile."""
    found = opened(source)
    yield found
    source.check(found)


def token_of(*described: Any) -> str:
    """Return a digest of values that can be pickled: equal ones have one token, in any process."""
    return _digest_of(*(_by_path(each)[0] for each in described))


def _digest_of(*parts: bytes) -> str:
    return hashlib.blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).hexdigest()


def _by_path(value: Any) -> tuple[bytes, list[Origin]]:
    """Return a value as bytes that are those of any equal one, and where its data sets are."""
    file = io.BytesIO()
    pickler = _ByPath(file, protocol=_PICKLE_PROTOCOL)
    pickler.fast = True  # without references to what came before, which depend on identities
    pickler.dump(value)
    return file.getvalue(), pickler.origins


class _ByPath(pickle.Pickler):
    """Notes where readers are; of the names of one, pickled it has none but its path.

    What is pickled so is read: a data set that is open for writing is opened for reading.
    """

    def __init__(self, file: io.BytesIO, *, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.origins: list[Origin] = []

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, DafReader):
            return Origin.open, (value.require_origin(),)
        if not isinstance(value, Origin):
            return NotImplemented
        self.origins.append(value)
        return Origin, (value.open_again, value.path, value.path)


BlockKind: TypeAlias = Literal["csr", "dense"]
"""What a block is: a ``csr_matrix``, or a ``numpy.ndarray``."""


def nullable_types(pandas: Any) -> dict[pa.DataType, Any]:
    """Return pandas' types of booleans and integers that may be missing, by those of Arrow."""
    names = [f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)]
    types = {pa.from_numpy_dtype(name.lower()): getattr(pandas, f"{name}Dtype")() for name in names}
    return {pa.bool_(): pandas.BooleanDtype(), **types}


def series_of(pandas: Any, column: pa.ChunkedArray, field: pa.Field) -> Any:
    """Return a column as pandas has it in every partition of a frame.

    Integers and booleans that may be missing are pandas' nullable ones, whether or not any is
    missing here; strings and categories are strings of Arrow.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    of_strings = pandas.StringDtype("pyarrow")
    types = dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), of_strings)
    if field.nullable:
        types |= nullable_types(pandas)
    if column.type == pa.string_view():  # pandas takes no views
        column = column.cast(pa.large_string())
    return column.to_pandas(types_mapper=types.get)
