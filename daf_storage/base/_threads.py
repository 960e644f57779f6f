"""Threads of this process, locks that outlive a fork, pauses of garbage collection, and a cache.

``fork`` copies the memory of a process and only the thread that called it.  Whoever waits in the
child for one of the others waits for ever, so that is refused, or avoided.  Threads stay for the
next task: to begin one takes longer than many a task.  They are as many as cores, and those that
wait for servers a few more; all that is read in the process shares them.

The garbage collector is paused while HDF5 waits for a server: HDF5 has a lock meanwhile, and a
thread that collects one of its objects waits for it.  Reference counting goes on.

What was decoded is remembered, bounded in bytes, so that no query decodes it again.
"""

from __future__ import annotations

import _thread
import copy
import functools
import gc
import os
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

from daf_storage import errors, settings

_T = TypeVar("_T")
_R = TypeVar("_R")


class ThreadedLibrary:
    """A library that starts threads once in a process, and waits for them ever after.

    Parameters
    ----------
    what
        What it does, for messages.
    start
        What starts its threads, for messages.
    """

    def __init__(self, what: str, *, start: str) -> None:
        self._what = what
        self._start = start
        self._pid: int | None = None

    def note_start(self) -> None:
        """Note that its threads are in this process, unless they are in another already."""
        if self._pid is None:
            self._pid = os.getpid()

    def check(self) -> None:
        """Refuse to use it where its threads are not.

        Raises
        ------
        ForkedProcessError
            They are in another process, of which this one is a fork.
        """
        if self._pid not in (None, os.getpid()):
            raise errors.ForkedProcessError(
                f"process {os.getpid()} was forked from process {self._pid} after {self._start} "
                f"there, and has none of the threads of {self._what}, so {self._what} would never "
                "answer; start processes with multiprocessing.get_context('spawn') or "
                "'forkserver' (joblib does so by itself), or fork first and connect in the child"
            )

    def enter(self) -> None:
        """Check, and note that its threads are here from now on."""
        self.check()
        self.note_start()


SERVER_CLIENT = ThreadedLibrary("the client of servers", start="something was read from a server")
"""What asks servers: the library obstore, whose threads serve all of its stores."""


class ForkLock(_thread.RLock):  # type: ignore[misc]  # final in the stubs alone
    """A reentrant lock that is free in a forked process, whoever held it in the parent.

    To enter and to leave it runs no code of Python, within which Ctrl-C could come: between taking
    a lock and the block that gives it back, it would leave the lock held for ever.

    Examples
    --------
    >>> lock = ForkLock()
    >>> with lock, lock:
    ...     print("held twice by one thread")
    held twice by one thread
    """

    def __init__(self) -> None:
        _Locks.note(self)


class _Locks:
    """All locks of this process.

    Not a `weakref.WeakSet`: it would call Python for each lock that is let go, in any thread, and
    what is raised in a thread to end its work would be lost in there.
    """

    all: ClassVar[set[weakref.ref[ForkLock]]] = set()
    most: ClassVar[int] = 64

    @classmethod
    def note(cls, lock: ForkLock) -> None:
        """Add a lock; now and then, leave out those that are gone.

        Without a lock, which an interrupt could leave held: each step is atomic.
        """
        cls.all.add(weakref.ref(lock))
        if len(cls.all) > cls.most:
            cls.all.difference_update([each for each in list(cls.all) if each() is None])
            cls.most = 2 * len(cls.all) + 64

    @classmethod
    def free(cls) -> None:
        """Free all of them, in a forked process: the threads that held them are not in it."""
        for each in cls.all:
            lock = each()
            if lock is not None:
                lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001 - as logging does


os.register_at_fork(after_in_child=_Locks.free)


_pools: Final[dict[tuple[str, int, int], ThreadPoolExecutor]] = {}
_lock: Final = ForkLock()


def pooled_threads(name: str, most: int) -> ThreadPoolExecutor:
    """Return the threads of this process for one purpose; they are begun as they are needed.

    A fork has none of its parent's, and gets its own.

    Parameters
    ----------
    name
        What they are for; a part of their names.
    most
        How many there are at the most.

    Examples
    --------
    >>> pooled_threads("example", 2).submit(len, "abc").result()
    3
    >>> pooled_threads("example", 2) is pooled_threads("example", 2)
    True
    """
    key = (name, most, os.getpid())
    with _lock:
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = ThreadPoolExecutor(most, thread_name_prefix=f"daf-{name}")
    return pool


THREADS: Final = os.cpu_count() or 1
"""How many tasks run at a time."""

_CONNECTIONS: Final = 16


def run_all(tasks: Iterable[Callable[[], object]]) -> None:
    """Run tasks side by side, which write their results themselves; a few wait at a time.

    They must not call this function: they would wait for their own threads.

    Raises
    ------
    Exception
        What the first of them raises, when none of them runs any more.

    Examples
    --------
    >>> seen = []
    >>> run_all([lambda: seen.append(1), lambda: seen.append(2)])
    >>> sorted(seen)
    [1, 2]
    """
    for _ in computed(tasks):
        pass


def computed(
    tasks: Iterable[Callable[[], _R]], pool: str = "decode", threads: int = THREADS
) -> Iterator[_R]:
    """Yield what tasks return, in their order; a few of them run, and wait to be taken, at a time.

    They must not call this function, nor `run_all`, unless those of another pool do.  A single one
    in a list is run by the caller.

    >>> list(computed([lambda: 1, lambda: 2]))
    [1, 2]
    """
    if isinstance(tasks, list) and len(tasks) == 1:
        return iter([tasks[0]()])
    return _in_order(tasks, pool, threads)


def fetched(items: list[_T], fetch: Callable[[_T], _R]) -> Iterator[tuple[_T, _R]]:
    """Yield what is fetched for each item, in their order; several are fetched at a time.

    >>> list(fetched([1, 2], str))
    [(1, '1'), (2, '2')]
    """
    tasks = (functools.partial(fetch, item) for item in items)
    return zip(items, _in_order(tasks, "fetch", _CONNECTIONS), strict=True)


def _in_order(tasks: Iterable[Callable[[], _R]], pool: str, threads: int) -> Iterator[_R]:
    """Yield what tasks return; nobody waits for those that run when an error ends it."""
    pending: deque[Future[_R]] = deque()
    try:
        for task in tasks:
            pending.append(pooled_threads(pool, threads).submit(task))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            if not future.cancel() and pool != "fetch":  # it writes into what is read
                future.exception()


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector within a block.

    Whoever has disabled the collector finds it disabled.

    Examples
    --------
    >>> import gc
    >>> gc.enable()
    >>> with paused_collection():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    was_enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()


MAX_BYTES = 512 << 20
"""How much is remembered if nobody says."""


class _Room:
    """The entries of all parts of a cache, the least recently used first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.entries: OrderedDict[Hashable, tuple[Hashable, Any, int]] = OrderedDict()
        self.size_bytes = 0
        self.lock = ForkLock()


class DecodedCache:
    """Recently decoded Arrow arrays, and whatever has ``nbytes``, by key, bounded in bytes.

    An entry counts only for the identity it was decoded under: a property that was replaced since,
    by whomever, is decoded again.

    Parameters
    ----------
    max_bytes
        How much is remembered, about; the newest entry stays even if it is larger.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._room = _Room(max_bytes)
        self._owner: object = object()
        self.hits = 0
        """How often something was found here."""

    def part(self) -> DecodedCache:
        """Return a cache with keys of its own, which shares the room of this one."""
        return self._sharing(object())

    def counter(self) -> DecodedCache:
        """Return a cache with the same entries as this one, and a count of hits of its own."""
        return self._sharing(self._owner)

    def named(self, name: str) -> DecodedCache:
        """Return a part of this one whose keys are those of one array; equal names, equal keys."""
        return self._sharing((self._owner, name))

    def _sharing(self, owner: object) -> DecodedCache:
        other = copy.copy(self)
        other._owner, other.hits = owner, 0  # noqa: SLF001 - our own
        return other

    @property
    def nbytes(self) -> int:
        """How many bytes are remembered, by all parts together."""
        return self._room.size_bytes

    def get(self, key: Hashable, identity: Hashable, decode: Callable[[], Any]) -> Any:
        """Return the array of ``key``, decoding it if it is not here or was replaced."""
        found = self.peek(key, identity)
        if found is None:
            found = decode()
            self.keep(key, identity, found)
        return found

    def keep(self, key: Hashable, identity: Hashable, decoded: Any) -> None:
        """Remember an array that was not here, and forget others if there is too much."""
        room, place = self._room, (self._owner, key)
        with room.lock:
            self._drop(place)
            room.entries[place] = (identity, decoded, int(decoded.nbytes))
            room.size_bytes += int(decoded.nbytes)
            while len(room.entries) > 1 and room.size_bytes > room.max_bytes:
                self._drop(next(iter(room.entries)))

    def peek(self, key: Hashable, identity: Hashable) -> Any:
        """Return the array of ``key`` if it is here; None if not, and nothing is decoded."""
        room, place = self._room, (self._owner, key)
        with room.lock:
            entry = room.entries.get(place)
            if entry is None or entry[0] != identity:
                return None
            room.entries.move_to_end(place)
        self.hits += 1
        return entry[1]

    def clear(self) -> None:
        """Forget everything of this part."""
        with self._room.lock:
            for key in [key for key in self._room.entries if self._is_own(key)]:
                self._drop(key)

    def _drop(self, place: Hashable) -> None:
        """Forget one entry, if it is there; the lock is held."""
        entry = self._room.entries.pop(place, None)
        self._room.size_bytes -= 0 if entry is None else entry[2]

    def _is_own(self, key: Hashable) -> bool:
        owner = key[0] if isinstance(key, tuple) else None
        return owner is self._owner or (isinstance(owner, tuple) and owner[0] is self._owner)


@functools.cache
def _process_cache() -> DecodedCache:
    return DecodedCache(max_bytes=settings.DAF_DECODED_CHUNKS_MAX_BYTES)


def new_chunk_cache() -> DecodedCache:
    """Return a cache for the chunks of a file or tree, which shares its budget with all others."""
    return _process_cache().part()
