"""Reorder the entries of axes, with their vectors and matrices.

Each property is written again in blocks, into a tree that takes the place of the old one when all
of them are there.  Knows readers and transactions; decides nothing of formats.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.base import AnyArray
from daf_storage.data import _kept as kept
from daf_storage.data import _layout as layout
from daf_storage.data._assembled import Alignment, Part, aligned_vector, write_assembled
from daf_storage.data._containers import plain_values
from daf_storage.data._encoding import index_type, write_vector
from daf_storage.data._reader import DafReader
from daf_storage.data._stored import StoredMatrix, StoredVector
from daf_storage.trees import TreeTransaction, WritableTree

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
    """Write everything that follows the order of some axes."""
    for axis, positions in orders.items():
        path = layout.axis_path(axis)
        entries = daf.get_pa_vector(axis, "name").take(pa.array(positions))
        with _new(tree, path) as changes:
            changes.write_strings(path, entries, (len(entries),))
    for path, stored in _properties(daf, orders):
        with _new(tree, path) as changes:
            if isinstance(stored, StoredVector):
                moved = Alignment.reordered(orders[stored.info.axis], stored.info.length)
                values = aligned_vector(stored.values(), moved, what=path)
                write_vector(changes, path, values, stored.attributes)
            else:
                changes.annotate(path, stored.attributes)
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


def _write_matrix(
    changes: TreeTransaction, path: str, stored: StoredMatrix, orders: Orders
) -> None:
    info, kinds = stored.info, None
    rows, columns = orders.get(info.rows_axis), orders.get(info.columns_axis)
    if info.is_sparse:
        pointers, index = (stored.entries(part).info.storage_type for part in ("colptr", "rowval"))
        kinds = pointers, index_type(info.shape[0], index)
    moved = Alignment.reordered(rows, info.shape[0])
    part = Part(stored, moved, info.shape[1], info.storage_type, chosen=columns)
    write_assembled(changes, path, [part], is_sparse=info.is_sparse, kinds=kinds)
