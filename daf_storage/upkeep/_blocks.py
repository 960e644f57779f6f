"""The blocks in which arrays are copied and compared: how large they are, and a copy as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from daf_storage.base import AnyArray, Span
from daf_storage.data import write_text
from daf_storage.trees import THREADS, StoredArray, TreeTransaction

_BLOCK_BYTES: Final = 1 << 24
_THREAD_BYTES: Final = 1 << 21
_BLOCKS_HELD: Final = 4
"""One of the source, one of the copy, and what they are decoded from."""
_STRING_BYTES: Final = 16


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


def copy_array(
    changes: TreeTransaction,
    path: str,
    array: StoredArray,
    memory_bytes: int,
    add: Callable[[int], None],
) -> None:
    """Copy an array of numbers in blocks; one of strings is held while it is copied.

    Parameters
    ----------
    add
        Called after each block with its bytes.
    """
    if array.info.storage_type.is_string:
        write_text(changes, path, array.read_strings(), array.info.shape)
        add(size_bytes(array))
        return

    def blocks() -> Iterator[AnyArray]:
        for span in block_spans(array, memory_bytes):
            block = array.read_rows(span)
            yield block
            add(block.nbytes)

    changes.write_blocks(path, array.info.shape, array.info.storage_type, blocks())


def size_bytes(array: StoredArray) -> int:
    """Return the bytes of the elements of an array; of strings about."""
    kind = array.info.storage_type
    return array.info.size * (_STRING_BYTES if kind.is_string else kind.dtype.itemsize)
