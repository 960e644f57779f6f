"""Reorder the entries of axes, with their vectors and matrices.

Each property is written again in blocks, into a tree that takes the place of the old one when all
of them are there.  Knows readers and transactions; decides nothing of formats.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data import _layout as layout
from daf_storage.data import kept
from daf_storage.data._containers import plain_values
from daf_storage.data._encoding import index_type, write_text
from daf_storage.data._layout import StoredVector
from daf_storage.data._reader import DafReader
from daf_storage.data._stored_matrix import StoredMatrix
from daf_storage.trees import StoredArray, TreeTransaction, WritableTree

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_BLOCK_ELEMENTS = 1 << 21

Report = Callable[[int], None]
Orders = Mapping[str, AnyArray]
"""Which old position comes to each new one, by axis."""


def permutation(daf: DafReader, axis: str, order: Any) -> AnyArray:
    """Return which old position comes to each new one, int64.

    Parameters
    ----------
    order
        All positions, or all entries, each once, in their new order.

    Raises
    ------
    InvalidInputError, EntryNotFoundError
        Something is missing, or there twice.
    """
    length = daf.axis_length(axis)
    listed = order if hasattr(order, "dtype") or hasattr(order, "type") else list(order)
    values: Any = plain_values(listed, what=f"{daf.location}: the order of axis {axis!r}")
    if len(values) == length == 0:
        return np.empty(0, np.int64)
    if not isinstance(values, np.ndarray):
        values = daf.axis_indices(axis, values)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise errors.InvalidInputError(
            f"{daf.location}: the order of axis {axis!r} must be a list of all its positions or of "
            f"all its entries, not {values.ndim} dimensions of {values.dtype}"
        )
    if len(values) != length:
        what = f"the order of axis {axis!r}"
        raise errors.wrong_length(daf.location, what, len(values), axis, length)
    if int(values.min()) < 0 or int(values.max()) >= length:
        raise errors.InvalidInputError(
            f"{daf.location}: the order of axis {axis!r} has positions outside of 0 to "
            f"{length - 1:,}"
        )
    counts = np.bincount(values.astype(np.int64), minlength=length)
    if not bool(np.all(counts == 1)):
        name = daf.axis_entries(axis)[int(np.argmax(counts))]
        raise errors.InvalidInputError(
            f"{daf.location}: the order of axis {axis!r} has {name!r} more than once; each entry "
            "must be there exactly once"
        )
    positions: AnyArray = values.astype(np.int64)
    return positions


def token_of(orders: Orders) -> str:
    """Return what tells this reordering from any other."""
    digest = hashlib.sha256()
    for axis in sorted(orders):
        digest.update(axis.encode() + b"\0" + orders[axis].tobytes())
    return digest.hexdigest()


def affected_paths(daf: DafReader, axes: Collection[str]) -> list[str]:
    """Return the paths of everything that follows the order of some axes, each once."""
    paths = [layout.axis_path(axis) for axis in axes]
    paths += [path for path, _ in _properties(daf, axes)]
    return paths + kept.aligned_paths(daf.tree, axes)


def size_of(daf: DafReader, axes: Iterable[str]) -> int:
    """Return how many elements will be reported as done."""
    arrays = [a for _, stored in _properties(daf, axes) for a in stored.arrays().values()]
    return sum(array.info.size for array in arrays)


def write_reordered(daf: DafReader, tree: WritableTree, orders: Orders, report: Report) -> None:
    """Write everything that follows the order of some axes; what is there already is complete."""
    for axis, positions in orders.items():
        path = layout.axis_path(axis)
        if tree.kind(path) is None:
            entries = daf.get_pa_vector(axis, "name").take(pa.array(positions))
            with _new(tree, path) as changes:
                changes.write_strings(path, entries, (len(entries),))
    for path, stored in _properties(daf, orders):
        if tree.kind(path) is None:
            with _new(tree, path) as changes:
                changes.annotate(path, stored.attributes)
                if isinstance(stored, StoredVector):
                    _write_vector(changes, path, stored, orders[stored.info.axis])
                else:
                    _write_matrix(changes, path, stored, orders)
        report(sum(array.info.size for array in stored.arrays().values()))
    kept.write_reordered(daf.tree, tree, orders)


@contextmanager
def _new(tree: WritableTree, path: str) -> Iterator[TreeTransaction]:
    """Prepare a property, and put it in place when the block ends well."""
    with tree.transaction() as changes:
        yield changes
        changes.publish(path, replace=False)


def _properties(
    daf: DafReader, axes: Iterable[str]
) -> Iterator[tuple[str, StoredVector | StoredMatrix]]:
    """Yield every vector of some axes, and every matrix over at least one of them."""
    chosen = list(axes)
    for axis in chosen:
        for name in sorted(daf.vectors_set(axis)):
            yield layout.vector_path(axis, name), daf.open_vector(axis, name)
    every = sorted(daf.axes_set())
    for rows, columns in itertools.product(every, every):
        if rows in chosen or columns in chosen:
            for name in sorted(daf.matrices_set(rows, columns, relayout=False)):
                yield layout.matrix_path(rows, columns, name), daf.open_matrix(rows, columns, name)


def _write_vector(
    changes: TreeTransaction, path: str, stored: StoredVector, positions: AnyArray
) -> None:
    if stored.info.storage_type.is_string:
        strings = stored.read_strings().take(pa.array(positions))
        write_text(changes, path, strings, (len(strings),))
        return
    if not stored.info.is_sparse:
        values = stored.read(Span(0, stored.info.length))
        blocks = (values[part] for part in _cut(positions, 1))
        changes.write_blocks(path, (positions.size,), stored.info.storage_type, blocks)
        return
    parts = stored.sparse_parts()
    places = _inverse(positions)[parts.nzind.astype(np.int64) - 1]
    order = np.argsort(places)
    changes.create_group(path)
    index = index_type(positions.size, StorageType.of(parts.nzind.dtype))
    changes.write_array(f"{path}/nzind", (places[order] + 1).astype(index.dtype))
    if parts.nzval is not None:
        changes.write_array(f"{path}/nzval", parts.nzval[order])


def _write_matrix(
    changes: TreeTransaction, path: str, stored: StoredMatrix, orders: Orders
) -> None:
    info = stored.info
    rows, columns = orders.get(info.rows_axis), orders.get(info.columns_axis)
    every = np.arange(info.shape[1])
    majors = every if columns is None else columns
    if info.is_sparse:
        _write_sparse(changes, path, stored, rows, majors)
        return
    array = stored.dense()
    if info.storage_type.is_string:
        numbers = np.arange(array.info.size).reshape(array.info.shape)[majors]
        numbers = numbers if rows is None else numbers[:, rows]
        strings = array.read_strings().take(pa.array(numbers.reshape(-1)))
        write_text(changes, path, strings, array.info.shape)
        return
    blocks = _dense_blocks(array, majors, rows)
    changes.write_blocks(path, array.info.shape, info.storage_type, blocks)


def _dense_blocks(
    array: StoredArray, majors: AnyArray, rows: AnyArray | None
) -> Iterator[AnyArray]:
    for part in _cut(majors, array.info.shape[1]):
        block = np.concatenate(array.read_spans([Span(int(n), int(n) + 1) for n in part]))
        yield block if rows is None else block[:, rows]


def _write_sparse(
    changes: TreeTransaction,
    path: str,
    stored: StoredMatrix,
    rows: AnyArray | None,
    majors: AnyArray,
) -> None:
    """Write the columns ``majors`` one after the other, their rows moved and sorted again."""
    colptr = stored.colptr()
    lengths = np.diff(colptr)[majors]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    rowval = stored.entries("rowval")
    kind = index_type(stored.info.shape[0], rowval.info.storage_type)
    changes.create_group(path)
    colptr_dtype = stored.arrays()["colptr"].info.storage_type.dtype
    changes.write_array(f"{path}/colptr", (ends + 1).astype(colptr_dtype))
    moved = None if rows is None else _inverse(rows)

    def blocks(part: str) -> Iterator[AnyArray]:
        for block in np.split(majors, np.flatnonzero(np.diff(ends[1:] // _BLOCK_ELEMENTS)) + 1):
            spans = [Span(int(colptr[n]), int(colptr[n + 1])) for n in block]
            found = np.concatenate(rowval.read_spans(spans)) if spans else np.empty(0, kind.dtype)
            order = None
            if moved is not None:
                found = _checked(found, moved.size, stored.what)
                found = (moved[found.astype(np.int64) - 1] + 1).astype(kind.dtype)
                order = _order_within(found, np.diff(colptr)[block], moved.size)
            if part == "nzval" and spans:
                found = np.concatenate(stored.entries(part).read_spans(spans))
            yield found if order is None else found[order]

    nnz = (int(ends[-1]),)
    changes.write_blocks(f"{path}/rowval", nnz, kind, blocks("rowval"))
    if stored.has_values():
        values = stored.entries("nzval").info.storage_type
        changes.write_blocks(f"{path}/nzval", nnz, values, blocks("nzval"))


def _order_within(rows: AnyArray, lengths: AnyArray, n_rows: int) -> AnyArray:
    """Return the order that sorts the rows of each column; columns follow one another."""
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    places: Any = sp.csr_array(
        (np.arange(rows.size), rows.astype(np.int64) - 1, pointers), shape=(lengths.size, n_rows)
    )
    places.sort_indices()
    return np.asarray(places.data)


def _checked(rows: AnyArray, n_rows: int, what: str) -> AnyArray:
    if rows.size and (int(rows.min()) < 1 or int(rows.max()) > n_rows):
        raise errors.CorruptDataError(
            f"{what}: rowval leaves the range 1 to {n_rows:,} of its rows axis"
        )
    return rows


def _cut(positions: AnyArray, width: int) -> Iterator[AnyArray]:
    """Yield positions in parts of bounded numbers of elements."""
    step = max(_BLOCK_ELEMENTS // max(width, 1), 1)
    for start in range(0, positions.size, step):
        yield positions[start : start + step]


def _inverse(positions: AnyArray) -> AnyArray:
    """Return which new position each old one comes to."""
    found = np.empty(positions.size, np.int64)
    found[positions] = np.arange(positions.size)
    return found
