"""Sessions that a process keeps open, so that the next fragment of a data set opens nothing."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from daf_query.session import DafSession
from daf_storage.base import ForkLock

MAX_SESSIONS: Final = 16
"""How many sessions are kept."""
CACHE_BYTES: Final = 64 << 20
"""How much each of them remembers of what was decoded."""


@dataclass(slots=True, eq=False)
class _Kept:
    """A session, and how many read from it now."""

    session: DafSession
    leases: int = 0
    is_evicted: bool = False


class OpenSessions:
    """An LRU cache of sessions; one that is read from is closed only afterwards.

    A forked process starts with an empty one: what its parent opened stays the parent's.

    Parameters
    ----------
    max_sessions
        How many are kept.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> sessions = OpenSessions(max_sessions=1)
    >>> with sessions.lease("tiny", lambda: daf_query.connect(daf_storage.MemoryDaf())) as session:
    ...     session.tables()
    ['matrices', 'relations', 'scalars']
    >>> len(sessions)
    1
    """

    def __init__(self, *, max_sessions: int = MAX_SESSIONS) -> None:
        self._max = max_sessions
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._pid = os.getpid()
        self._of_parent: list[object] = []
        self._lock = ForkLock()

    def __len__(self) -> int:
        with self._lock:
            self._enter()
            return len(self._kept)

    @contextmanager
    def lease(self, key: Hashable, make: Callable[[], DafSession]) -> Iterator[DafSession]:
        """Hand out the session of a key, made if there is none; it stays open for the block."""
        kept = self._take(key)
        if kept is None:
            kept = self._add(key, make())
        try:
            yield kept.session
        finally:
            with self._lock:
                kept.leases -= 1
                is_last = kept.is_evicted and not kept.leases
            if is_last and self._pid == os.getpid():
                kept.session.close()

    def forget(self, key: Hashable) -> None:
        """Let go of a session whose data set was changed."""
        with self._lock:
            self._enter()
            kept = self._kept.pop(key, None)
        if kept is not None:
            self._evict(kept)

    def clear(self) -> None:
        """Let go of all sessions."""
        with self._lock:
            self._enter()
            keys = list(self._kept)
        for key in keys:
            self.forget(key)

    def _take(self, key: Hashable) -> _Kept | None:
        with self._lock:
            self._enter()
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                kept.leases += 1
            return kept

    def _add(self, key: Hashable, session: DafSession) -> _Kept:
        """Keep a session, unless another thread was faster; close those that are too many."""
        evicted = []
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = _Kept(session)
            else:
                evicted.append(_Kept(session))
            kept.leases += 1
            while len(self._kept) > self._max:
                evicted.append(self._kept.popitem(last=False)[1])
        for each in evicted:
            self._evict(each)
        return kept

    def _evict(self, kept: _Kept) -> None:
        with self._lock:
            kept.is_evicted = True
            is_free = not kept.leases
        if is_free:
            kept.session.close()

    def _enter(self) -> None:
        """Start again in a forked process; nothing of its parent is closed or freed there."""
        if self._pid != os.getpid():
            self._of_parent.append(self._kept)
            self._kept = OrderedDict()
            self._pid = os.getpid()


OPEN_SESSIONS: Final = OpenSessions()
"""Those of this process."""
