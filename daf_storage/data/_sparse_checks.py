"""Check that the arrays of a sparse vector or matrix fit each other."""

from __future__ import annotations

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.errors import CorruptDataError
from daf_storage.trees import Node, StoredArray


def check_indices(node: Node, name: str, count: int, what: str) -> StoredArray:
    """Return an array of positions, after checking its metadata; nothing of it was read."""
    array = required_array(node, name, what)
    if array.info.shape != (count,) or not array.info.storage_type.is_integer:
        raise CorruptDataError(
            f"{what}: {name} is not a list of {count:,} positions, but "
            f"{array.info.storage_type.value} of shape {list(array.info.shape)}"
        )
    return array


def required_array(node: Node, name: str, what: str) -> StoredArray:
    array = node.array(name)
    if array is None:
        raise CorruptDataError(f"{what}: the array {name or 'itself'!r} is missing")
    return array


def check_sparse_vector(length: int, nzind: AnyArray, *, what: str) -> None:
    """Check the positions in a sparse vector, which `check_indices` has found to be a list."""
    if not are_positions(nzind, length):
        raise CorruptDataError(f"{what}: nzind does not rise within 1 to {length:,}")


def are_positions(nzind: AnyArray, length: int) -> bool:
    """Return whether these are positions in a sparse vector: they rise, within 1 to its length."""
    rises = not nzind.size or bool(np.all(nzind[1:] > nzind[:-1]))
    return not nzind.size or bool(nzind[0] >= 1 and nzind[-1] <= length and rises)


def is_colptr(colptr: AnyArray, n_columns: int, nnz: int) -> bool:
    is_list = colptr.ndim == 1 and colptr.size == n_columns + 1 and colptr.dtype.kind in "iu"
    if not is_list or colptr[0] != 1 or colptr[-1] != nnz + 1:
        return False
    return bool(np.all(colptr[1:] >= colptr[:-1]))
