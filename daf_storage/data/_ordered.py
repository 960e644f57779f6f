"""Sparse matrices of other programs, whose elements may be out of order, or stored twice."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, Span
from daf_storage.data._sparse_parts import PartsNode
from daf_storage.data._stored_matrix import StoredMatrix
from daf_storage.data._transpose import column_blocks
from daf_storage.errors import CorruptDataError
from daf_storage.stores import is_lasting
from daf_storage.trees import memory_array

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_MOST_REMEMBERED: Final = 256
_BLOCK_ELEMENTS: Final = 1 << 22


_VERDICTS: Final[dict[Hashable, bool]] = {}
"""Whether matrices are in order, by their identities, as long as a change would show."""


def ordered(stored: StoredMatrix) -> StoredMatrix:
    """Return a matrix whose row numbers ascend within each column, each occurring once.

    The stored one, if it is so: of a file of another program all row numbers are read, once as
    long as the file is the same.  Else one in memory, in which elements stored twice are added up,
    as scipy does.

    Raises
    ------
    CorruptDataError
        A row number leaves its axis, or a chunk of row numbers is missing.
    """
    if not stored.info.is_sparse or stored.is_ordered:
        return stored
    identity = (stored.what, stored.identity)
    is_in_order = _VERDICTS.get(identity)
    if is_in_order is None:
        is_in_order = _is_in_order(stored)
        if is_lasting(identity):
            if len(_VERDICTS) >= _MOST_REMEMBERED:
                _VERDICTS.clear()
            _VERDICTS[identity] = is_in_order
    return stored if is_in_order else _in_memory(stored)


def _is_in_order(stored: StoredMatrix) -> bool:
    """Return whether the row numbers ascend within each column; reads them in blocks."""
    colptr, indices = stored.colptr(), stored.indices
    for span in column_blocks(colptr, max_elements=_BLOCK_ELEMENTS):
        start, stop = int(colptr[span.start]), int(colptr[span.stop])
        rows = checked_indices(stored, indices.read_rows(Span(start, stop)))
        if not ascend(rows, colptr[span.start : span.stop + 1] - start):
            return False
    return True


def checked_indices(stored: StoredMatrix, rows: AnyArray) -> AnyArray:
    """Return row numbers as they are stored, after checking that they are on their axis.

    Of a file of others, also that none of them stands in for one that is missing.
    """
    base, n_rows = stored.index_base, stored.info.shape[0]
    if rows.size and (int(rows.min()) < base or int(rows.max()) >= n_rows + base):
        raise CorruptDataError(
            f"{stored.what}: rowval leaves the range {base} to {n_rows + base - 1:,} of its rows "
            "axis"
        )
    if rows.size and not stored.is_filled and not rows.all():  # what Zarr leaves out reads as zeros
        stored.check_filled(asks_server=not (rows[1:] | rows[:-1]).all())
    return rows


def ascend(rows: AnyArray, pointers: AnyArray) -> bool:
    """Return whether row numbers ascend within each column, given where the columns begin.

    >>> ascend(np.array([1, 3, 0, 2]), np.array([0, 2, 2, 4]))
    True
    >>> ascend(np.array([1, 1]), np.array([0, 2])), ascend(np.array([1, 1]), np.array([0, 1, 2]))
    (False, True)
    """
    rises = rows[1:] > rows[:-1]
    borders = pointers[1:-1] - 1
    rises[borders[(borders >= 0) & (borders < rises.size)]] = True
    return bool(rises.all())


def _in_memory(stored: StoredMatrix) -> StoredMatrix:
    """Return the matrix with its elements in order, in memory."""
    rows = checked_indices(stored, stored.indices.read())
    values = stored.entries("nzval").read() if stored.has_values() else np.ones(rows.size, bool)
    n_rows, n_columns = stored.info.shape
    indices = rows.astype(np.int64) - stored.index_base
    matrix: Any = sp.csr_array(
        (np.array(values), indices, np.array(stored.colptr())), shape=(n_columns, n_rows)
    )
    matrix.sum_duplicates()
    index_dtype = stored.entries("rowval").info.storage_type.dtype
    parts = {
        "colptr": (matrix.indptr + 1).astype(index_dtype),
        "rowval": (matrix.indices + 1).astype(index_dtype),
        "nzval": matrix.data,
    }
    node = PartsNode(stored.node, {name: memory_array(part) for name, part in parts.items()})
    return StoredMatrix(replace(stored.info, nnz=int(matrix.nnz)), node, what=stored.what)
