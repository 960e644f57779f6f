"""The blocks in which stored arrays are copied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from daf_storage.base import Span
from daf_storage.trees import THREADS, StoredArray

_BLOCK_BYTES: Final = 1 << 24
_THREAD_BYTES: Final = 1 << 21
_BLOCKS_HELD: Final = 4
"""One of the source, one of the copy, and what they are decoded from."""


def block_spans(array: StoredArray, memory_bytes: int) -> Iterator[Span]:
    """Yield ranges of the first dimension, along chunks where there are several.

    What is held while one is copied, or compared, fits the memory; it is a row of chunks at least.
    """
    length, *rest = array.info.shape
    row_bytes = math.prod(rest) * array.info.storage_type.dtype.itemsize
    chunk = max(array.info.chunks[0], 1)
    block_bytes = max(_BLOCK_BYTES, _THREAD_BYTES * THREADS)
    block_bytes = min(block_bytes, memory_bytes // _BLOCKS_HELD)
    height = max(block_bytes // max(row_bytes, 1), 1)
    if chunk < length:
        height = max(height // chunk, 1) * chunk
    for start in range(0, length, height):
        yield Span(start, min(start + height, length))
