"""The blocks in which stored arrays are copied."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from daf_storage.base import Span
from daf_storage.trees import StoredArray

_BLOCK_BYTES: Final = 1 << 24


def block_spans(array: StoredArray) -> Iterator[Span]:
    """Yield ranges of the first dimension, along chunks where there are several."""
    length, *rest = array.info.shape
    row_bytes = math.prod(rest) * array.info.storage_type.dtype.itemsize
    chunk = max(array.info.chunks[0], 1)
    height = max(_BLOCK_BYTES // max(row_bytes, 1), 1)
    if chunk < length:
        height = max(height // chunk, 1) * chunk
    for start in range(0, length, height):
        yield Span(start, min(start + height, length))
