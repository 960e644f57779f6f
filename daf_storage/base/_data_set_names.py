"""Names of data sets, unique within the process."""

from __future__ import annotations

import itertools
from collections import Counter

from daf_storage.base._forking import ForkLock

_lock = ForkLock()
_used: Counter[str] = Counter()


def unique_name(name: str) -> str:
    """Return the name, with ``#2``, ``#3`` and so on if this process has used it already."""
    if "!" in name:
        return name
    with _lock:
        _used[name] += 1
        count = _used[name]
        if count == 1:
            return name
        for number in itertools.count(count):
            unique = f"{name}#{number}"
            if not _used[unique]:
                _used[unique] += 1
                return unique
    raise AssertionError("itertools.count does not end")
