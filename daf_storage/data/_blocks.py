"""The blocks in which arrays are copied, compared and transposed: how large they are.  Pure."""

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


def block_height(row_bytes: int, memory_bytes: int) -> int:
    """Return how many rows of so many bytes a block has: what is held with it fits the memory."""
    block_bytes = min(max(_BLOCK_BYTES, _THREAD_BYTES * THREADS), memory_bytes // _BLOCKS_HELD)
    return max(block_bytes // max(row_bytes, 1), 1)


def block_spans(array: StoredArray, memory_bytes: int) -> Iterator[Span]:
    """Yield ranges of the first dimension, along chunks where there are several.

    What is held while one is copied, or compared, fits the memory; it is a row of chunks at least.
    """
    length, *rest = array.info.shape
    chunk = max(array.info.chunks[0], 1)
    height = block_height(math.prod(rest) * array.info.storage_type.dtype.itemsize, memory_bytes)
    if chunk < length:
        height = max(height // chunk, 1) * chunk
    for start in range(0, length, height):
        yield Span(start, min(start + height, length))
