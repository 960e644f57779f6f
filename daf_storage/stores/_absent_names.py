"""Names that a directory does not have, remembered as long as the directory is what it was.

A data set without indexes is asked for them by each column of each query.  One look at the times of
its directory, which change with the names in it, answers all of them.
"""

from __future__ import annotations

import os
from typing import Final

from daf_storage.stores._identity import Fingerprint, fingerprint, is_settled

_MAX_NAMES: Final = 1 << 6


class AbsentNames:
    """Names that are not in a directory.

    Parameters
    ----------
    root
        The path of the directory.

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.mkdtemp()
    >>> os.utime(root, (0, 0))
    >>> absent = AbsentNames(root)
    >>> absent.note("indexes")
    >>> os.mkdir(f"{root}/indexes")
    >>> absent.is_absent("indexes")
    False
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, Fingerprint] = {}

    def is_absent(self, name: str) -> bool:
        """Return whether a name was not there, and nothing came or went in the directory since."""
        seen = self._seen.get(name)
        if seen is None:
            return False
        try:
            return fingerprint(os.stat(self._root)) == seen
        except OSError:
            return False

    def note(self, name: str) -> None:
        """Look for a name, and remember it if it is not there.

        Not of a directory that changed just now: the next change might not show.
        """
        try:
            status = os.stat(self._root)  # before the look: what comes meanwhile shows
        except OSError:
            return
        if is_settled(status) and not os.path.lexists(f"{self._root}/{name}"):
            if len(self._seen) >= _MAX_NAMES:
                self._seen.clear()
            self._seen[name] = fingerprint(status)
