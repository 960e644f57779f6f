"""Functions that Dask workers run in tests; the module imports little, for each worker does too."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np


def slow_sum(block: Any, folder: str, seconds: float) -> Any:
    """Return the sum of a block, after a while; say in a file which process computes it."""
    Path(folder, f"{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(seconds)
    return np.array([[block.sum()]])


def slow_sums(array: Any, folder: Path, seconds: float) -> Any:
    """Return the sum of each block; Dask does not try the function here, for the meta is given."""
    chunks = (tuple(1 for _ in array.chunks[0]), (1,))
    return array.map_blocks(slow_sum, str(folder), seconds, chunks=chunks, meta=np.empty((0, 0)))


def processes(folder: Path) -> set[int]:
    """Return the processes that began a block."""
    return {int(file.name.partition("-")[0]) for file in folder.iterdir()}
