"""Stored arrays, copied in blocks as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from daf_storage.base import AnyArray
from daf_storage.data import write_text
from daf_storage.trees import StoredArray, TreeTransaction
from daf_storage.upkeep._block_spans import block_spans

_STRING_BYTES: Final = 16


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
