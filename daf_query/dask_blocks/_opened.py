"""Sources, and those that this process has open: a bounded number of readers and of plans.

A worker gets a source with each graph.  What it opens is kept, the least recently used is let go:
the next task, and the next graph over the same path, finds it open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from daf_query.dask_blocks._tokens import pickled_by_value
from daf_storage import DafReader, Origin, errors
from daf_storage.base import ForkLock

MAX_READERS: Final = 64
"""How many data sets a process keeps open for tasks."""

MAX_SOURCES: Final = 16
"""How many sources a process keeps open: of a sparse matrix, its column pointers are in memory."""

_T = TypeVar("_T")


class OpenedSource(Protocol):
    """What reads pieces."""

    def read(self, piece: Any) -> Any:
        """Return the values of a piece."""
        ...


class Source(Protocol):
    """What a graph has of the data: how it is opened, and no values."""

    @property
    def key(self) -> str:
        """Equal for sources that read the same, in every process."""
        ...

    def open(self) -> OpenedSource:
        """Open it; metadata are read."""
        ...


@dataclass(frozen=True, slots=True)
class InMemorySource:
    """A source over data that no path leads to: for the threads of this process alone."""

    key: str
    """Unlike any other's."""
    opened: OpenedSource
    """What reads it."""
    location: str
    """The data set, for messages."""

    def open(self) -> OpenedSource:
        """Return what reads it."""
        return self.opened

    def __reduce__(self) -> Any:
        """Leave the data behind: whoever opens the source in another process gets an error.

        An error here would come out of the scheduler as one about pickling.
        """
        return UnreachableSource, (self.key, self.location)


@dataclass(frozen=True, slots=True)
class UnreachableSource:
    """What another process gets of a source in memory."""

    key: str
    location: str

    def open(self) -> NoReturn:
        """Refuse.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise errors.InvalidInputError(
            f"{self.location}: no path leads to this data set, so other processes cannot read it; "
            "copy_all() it to a path and connect that, or compute with scheduler='threads'"
        )


class _Kept(Generic[_T]):
    """What was opened last, up to a number."""

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._lock = ForkLock()
        self._opened: OrderedDict[Any, _T] = OrderedDict()

    def get(
        self, key: Any, open_it: Callable[[], _T], is_usable: Callable[[_T], bool] = lambda _: True
    ) -> _T:
        """Return what is kept by a key, if it can be used; else open it."""
        with self._lock:
            known = self._opened.pop(key, None)
            if known is None or not is_usable(known):
                known = open_it()
            self._opened[key] = known
            while len(self._opened) > self._max_count:
                self._opened.popitem(last=False)  # closed when the last task lets go of it
            return known

    def __len__(self) -> int:
        return len(self._opened)

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._opened.clear()


READERS: Final[_Kept[DafReader]] = _Kept(MAX_READERS)
SOURCES: Final[_Kept[OpenedSource]] = _Kept(MAX_SOURCES)


def reader_at(origin: Origin, is_usable: Callable[[DafReader], bool] = lambda _: True) -> DafReader:
    """Return the reader of a path that this process keeps; it is opened again if it is outdated.

    Parameters
    ----------
    is_usable
        Whether what it reads is what the caller expects.
    """
    return READERS.get(pickled_by_value(origin), origin.open, is_usable)


def opened(source: Source) -> OpenedSource:
    """Return a source, opened; by the first task of this process that needs it."""
    if isinstance(source, InMemorySource):
        return source.open()
    return SOURCES.get(source.key, source.open)


def let_go() -> None:
    """Let go of all that this process keeps open for tasks."""
    SOURCES.clear()
    READERS.clear()
