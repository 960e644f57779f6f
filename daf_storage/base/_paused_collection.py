"""Pauses of Python's cyclic garbage collector, while thousands of objects are made that stay.

The collector looks at all objects again each time that a quarter more are there.  While thousands
of data sets are opened, hardly anything of what is made is garbage, and to look for it takes up to
a third of the time.  Reference counting goes on, so what no cycle holds is freed as ever.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MIN_PAUSED_MEMBERS: Final = 64
"""Of fewer data sets the collector is left alone: it takes a few milliseconds."""


@contextmanager
def paused_collection(members: int) -> Iterator[None]:
    """Pause the cyclic garbage collector within a block, if many data sets are looked at there.

    Whoever has disabled the collector finds it disabled.

    Parameters
    ----------
    members
        How many data sets there are; of fewer than `MIN_PAUSED_MEMBERS`, nothing happens.

    Examples
    --------
    >>> import gc
    >>> gc.enable()
    >>> with paused_collection(10_000):
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    if members < MIN_PAUSED_MEMBERS or not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        yield
    finally:
        gc.enable()
