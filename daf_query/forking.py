"""Forked processes: the threads of the query engine stay in the process that started them.

Whatever a child asks of the engine would wait for them for ever, so it is refused instead.
"""

from __future__ import annotations

import os

from daf_storage import errors

_started: list[int] = []
"""The process in which the engine was first used, if it was."""


def check_process() -> None:
    """Refuse to use the engine where its threads are not.

    Raises
    ------
    ForkedProcessError
        It was used in another process, of which this one is a fork.
    """
    if _started and _started[0] != os.getpid():
        raise errors.ForkedProcessError(
            f"process {os.getpid():,} was forked from process {_started[0]:,} after that had used "
            "SQL, so it lacks the threads of the query engine and can never run SQL; start "
            "processes with multiprocessing.get_context('spawn') or 'forkserver' (joblib's loky "
            "does), or fork before the first query and connect in the child; reading slices by "
            "names and positions works here too"
        )


def enter_engine() -> None:
    """Note that this process uses the engine; refuse where its threads are not."""
    check_process()
    if not _started:
        _started.append(os.getpid())
