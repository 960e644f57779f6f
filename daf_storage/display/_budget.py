"""How much the previews of one page may cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PREVIEW_ROWS: Final = 4096
"""At most so many values of a column are looked at."""

_BYTES: Final = 16 << 20
_SECONDS: Final = 0.25
_SMALL_BYTES: Final = 64 << 10
"""What is read in no time, and is looked at however late it is."""
_LOOK_BYTES: Final = 4096
"""What it costs to open a property, in bytes of the budget."""


class PreviewBudget:
    """Bytes and seconds that the previews of one page may take; what is spent is counted.

    Seconds only keep large reads away: what is small is looked at on a busy machine, too.

    Parameters
    ----------
    size_bytes
        How many bytes may be read or decoded; one column may take a quarter of them.
    seconds
        How long they may take, by default a quarter of a second; what has begun is ended.
    clock
        Tells the time.

    Examples
    --------
    >>> budget = PreviewBudget(1000)
    >>> budget.spend(200), budget.spend(400)
    (True, False)
    """

    def __init__(
        self,
        size_bytes: int = _BYTES,
        seconds: float | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.spent_bytes = 0
        """How many bytes were spent."""
        self.is_remote: bool | None = None
        """Whether the data set is on a server, once that is known."""
        self._size_bytes = size_bytes
        self._most_bytes = size_bytes // 4
        self._clock = clock
        self._end = clock() + (_SECONDS if seconds is None else seconds)

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return self._clock() >= self._end

    def look(self) -> bool:
        """Take what it costs to open one property; False if nothing is left for it."""
        return self.spend(min(_LOOK_BYTES, self._most_bytes))

    def spend(self, size_bytes: int) -> bool:
        """Take bytes of the budget, and return True; False if that is too much, or too late."""
        is_left = self.spent_bytes + size_bytes <= self._size_bytes
        if size_bytes > self._most_bytes or not is_left:
            return False
        if size_bytes > _SMALL_BYTES and self.is_late:
            return False
        self.spent_bytes += size_bytes
        return True
