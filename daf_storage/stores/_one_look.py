"""One look at each file, for a block that asks for the states of thousands of them again and again.

What shows a change is older then than what is read: a change in between shows the next time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from daf_storage.stores._identity import is_lasting


class _Looks(threading.local):
    """The states that were seen within the block of this thread; None outside of one."""

    states: dict[object, Hashable] | None = None


_LOOKS: Final = _Looks()


@contextmanager
def one_look() -> Iterator[None]:
    """Look at the state of each archive once within a block, of this thread alone.

    For callers that remember the state together with what they read, and compare it with the one
    that they find at the next query.

    Examples
    --------
    >>> looks = iter([1, 2, 3])
    >>> with one_look():
    ...     seen_state("a.zip", lambda: next(looks)), seen_state("a.zip", lambda: next(looks))
    (1, 1)
    >>> seen_state("a.zip", lambda: next(looks))
    2
    """
    outer = _LOOKS.states
    try:
        _LOOKS.states = {} if outer is None else outer
        yield
    finally:
        _LOOKS.states = outer


def seen_state(file: object, look: Callable[[], Hashable]) -> Hashable:
    """Return the state of a file: that which was seen before, within a block of `one_look`.

    Of a file that has just been written to, or that cannot be looked at, each look counts.
    """
    states = _LOOKS.states
    if states is None:
        return look()
    state = states.get(file)
    if state is None:
        state = look()
        if state is not None and is_lasting(state):
            states[file] = state
    return state
