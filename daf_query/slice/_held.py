"""The count of references that tells whether an object is held by more than its running method.

``db.matrix(...).to_scipy()`` leaves nobody who could ask the slice again, so that its values are
handed over, not copied.  Python counts who holds an object.  How many that are within a method is
tried once; from Python 3.14 on the count does not tell, and everything counts as held.
"""

from __future__ import annotations

import sys
from typing import Final


class _Tried:
    def count(self) -> int:
        """Return the count within a method."""
        return sys.getrefcount(self)


def _count_if_unheld() -> int:
    """Return the count within a method of an object that nobody holds; 0 if it does not tell."""
    held = _Tried()
    unheld = _Tried().count()
    return unheld if unheld < held.count() else 0


IF_UNHELD: Final = _count_if_unheld()
"""What ``sys.getrefcount(self)`` returns in a method of an object that nobody else holds."""
