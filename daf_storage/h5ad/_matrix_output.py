"""Write the matrices of an h5ad file in blocks, in the encodings of anndata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from daf_storage._lazy import lazy_module
from daf_storage.anndata import narrowed
from daf_storage.base import (
    Progress,
    Span,
)
from daf_storage.data import StoredMatrix, column_blocks, scipy_index_dtype

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_BYTES = 64 << 20


def index_dtype(stored: StoredMatrix) -> Any:
    """Return the dtype that holds the indices of a matrix."""
    largest = max(*stored.info.shape, stored.info.nnz or 0)
    return scipy_index_dtype(largest)


def sparse_blocks(stored: StoredMatrix) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Yield the 0-based indices and the values of a stored sparse matrix in blocks."""
    indices = stored.indices
    nzval = stored.entries("nzval") if stored.has_values() else None
    indptr = stored.colptr()
    dtype = index_dtype(stored)
    blocks = list(column_blocks(indptr)) or [Span(0, 0)]
    for span in blocks:
        part = Span(int(indptr[span.start]), int(indptr[span.stop]))
        values = np.ones(part.size, bool) if nzval is None else nzval.read_rows(part)
        yield indices.read_rows(part).astype(dtype) - dtype(stored.index_base), values


def size_bytes(stored: StoredMatrix) -> int:
    """Return about how many bytes the values and indices of a matrix take."""
    info = stored.info
    item = 1 if info.storage_type.is_string else info.storage_type.dtype.itemsize
    return info.shape[0] * info.shape[1] * item if info.nnz is None else info.nnz * (item + 4)


def _narrow_dtype(
    blocks: Iterable[npt.NDArray[Any]], stored: np.dtype[Any], note: dict[str, Any]
) -> np.dtype[Any]:
    """Return the dtype that the matrix had, unless values that were set since need more."""
    if "dtype" not in note:
        return stored
    wanted = np.dtype(note["dtype"])
    fits = all(narrowed(block, wanted).dtype == wanted for block in blocks)
    return wanted if fits else stored


def write_sparse(
    parent: Any,
    key: str,
    stored: StoredMatrix,
    layout: str,
    progress: Progress,
    note: dict[str, Any],
    check: Callable[[], None],
) -> None:
    """Write a sparse matrix as ``csr`` or ``csc``, block by block.

    Parameters
    ----------
    check
        Called after each block: raises if it could not be written.
    """
    nnz = stored.info.nnz or 0
    blocks = (data for _, data in sparse_blocks(stored))
    dtype = _narrow_dtype(blocks, stored.info.storage_type.dtype, note)
    shape = stored.info.shape[::-1] if layout == "csr" else stored.info.shape
    group = parent.create_group(key)
    group.attrs.update(
        {"encoding-type": f"{layout}_matrix", "encoding-version": "0.1.0", "shape": shape}
    )
    integer = index_dtype(stored)
    group.create_dataset("indptr", data=stored.colptr().astype(integer))
    indices = group.create_dataset("indices", shape=(nnz,), dtype=integer)
    data = group.create_dataset("data", shape=(nnz,), dtype=dtype)
    start = 0
    for block_indices, block_data in sparse_blocks(stored):
        stop = start + block_indices.size
        indices[start:stop] = block_indices
        data[start:stop] = block_data
        start = stop
        progress.add(block_indices.nbytes + block_data.nbytes)
        check()


def write_dense(
    parent: Any,
    key: str,
    stored: StoredMatrix,
    progress: Progress,
    note: dict[str, Any],
    check: Callable[[], None],
    *,
    by_rows: bool,
) -> None:
    """Write a dense matrix, block by block; see `write_sparse`."""
    values = stored.dense().read()
    values = values if by_rows else values.T
    rows = max(_BLOCK_BYTES // max(values.shape[1] * values.itemsize, 1), 1)
    starts = range(0, values.shape[0], rows)
    blocks = (values[start : start + rows] for start in starts)
    dtype = _narrow_dtype(blocks, stored.info.storage_type.dtype, note)
    dataset = parent.create_dataset(key, shape=values.shape, dtype=dtype)
    dataset.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    for start in starts:
        block = values[start : start + rows]
        dataset[start : start + rows] = block
        progress.add(block.nbytes)
        check()
