"""Matrices that are assembled of parts of others, side by side and in blocks of columns.

A copy along other axes, a concatenation and a reordering, whose functions are at the end, are one
thing: chosen columns of some matrices, one after the other, whose rows move.  Columns in another
order are shown by `SubsetArray`; what is stored the other way round, or in chunks that would be
decoded again and again, is first put into a file without a name, so that memory does not grow
with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc, sp
from daf_storage.base import AnyArray, Span, StorageType, column_blocks
from daf_storage.data import _kept as kept
from daf_storage.data import _layout as layout
from daf_storage.data._coercion import SparseVectorParts, VectorInput, plain_values, stored_numbers
from daf_storage.data._encoding import (
    EmptySparse,
    block_height,
    counted_blocks,
    decoded_array,
    fill_transpose,
    index_type,
    size_bytes,
    transpose_dense,
    write_text,
    write_vector,
)
from daf_storage.data._entries import Alignment, EntrySelection, Positions, SubsetArray
from daf_storage.data._layout import StoredMatrix, StoredVector, check_rows
from daf_storage.data._reader import DafReader, numpy_vector, stored_properties
from daf_storage.trees import (
    Ranges,
    StoredArray,
    TreeTransaction,
    WritableTree,
    memory_array,
    new_node,
    scratch_array,
)

_HELD_PER_ELEMENT: Final = 96
"""What an element takes on its way, as numbers of rows, columns and places."""
_NONE: Final = np.empty(0, np.int64)
_NOWHERE: Final = "".format
"""Says no place of a value in messages: its position among those that are kept tells nothing."""


def aligned_vector(
    values: VectorInput, along: Alignment, fill: Any = None, dtype: Any = None, *, what: str
) -> VectorInput:
    """Return a vector in the order of another axis; sparse if it was and can be.

    Parameters
    ----------
    fill
        What stands where the source has no entry; by default 0, or an empty string.
    dtype
        As of `stored_numbers`; values that are left out need not fit.
    """
    if isinstance(values, SparseVectorParts) and fill and along.missing.size:
        values = numpy_vector(values)
    if isinstance(values, pa.Array):
        strings = pa.concat_arrays([values, pa.array([fill or ""], values.type)])
        return strings.take(pa.array(np.where(along.sources < 0, len(values), along.sources)))
    if not isinstance(values, SparseVectorParts):
        if along.places is None:
            return stored_numbers(values, dtype, what=what)
        is_there = along.sources >= 0
        kept = stored_numbers(values[along.sources[is_there]], dtype, what=what, place=_NOWHERE)
        out = np.full(along.n_entries, fill or 0, kept.dtype)
        out[is_there] = kept
        return out
    positions = values.nzind.astype(np.int64) - 1
    places = positions if along.places is None else along.places[positions]
    chosen = np.flatnonzero(places >= 0)
    chosen = chosen[np.argsort(places[chosen], kind="stable")]
    index = np.promote_types(values.nzind.dtype, np.min_scalar_type(along.n_entries))
    nzval = np.ones(positions.size, bool) if values.nzval is None else values.nzval
    kept = stored_numbers(nzval[chosen], dtype, what=what, place=_NOWHERE)
    return SparseVectorParts(along.n_entries, (places[chosen] + 1).astype(index), kept)


@dataclass(frozen=True, eq=False)
class Part:
    """What one stored matrix contributes: consecutive columns of the result."""

    stored: StoredMatrix | None
    """None if there is no such matrix: then all is the fill value."""
    rows: Alignment
    n_columns: int
    kind: StorageType
    """That of the result."""
    fill: Any = 0
    """What stands where the source has no row, or no column."""
    is_transposed: bool = False
    """Whether the stored columns are its rows here."""
    chosen: Positions | None = None
    """Which of its columns they are, -1 for one that it lacks; None for all, in their order."""
    folder: Path | None = None
    """Where large arrays are kept while they are needed; None for the system's folder."""

    @cached_property
    def columns(self) -> _Columns | None:
        """The columns, to be read in their order."""
        if self.stored is None or (self.chosen is not None and not (self.chosen >= 0).any()):
            return None
        sparse = self.stored.info.is_sparse
        return _sparse_columns(self, self.stored) if sparse else _dense_columns(self, self.stored)

    @property
    def what(self) -> str:
        """The stored matrix as messages name it."""
        return "" if self.stored is None else self.stored.what

    @cached_property
    def lacking(self) -> AnyArray | None:
        """Which columns the source lacks; None if it was not asked for chosen ones."""
        return None if self.chosen is None else self.chosen < 0

    @property
    def missing_rows(self) -> Positions:
        """The rows of the result in which all is the fill value."""
        return np.arange(self.rows.n_entries) if self.columns is None else self.rows.missing


@dataclass(frozen=True, eq=False)
class _SparseColumns:
    """The columns of a sparse matrix."""

    colptr: AnyArray
    """Where each begins, from 0."""
    rowval: StoredArray
    """Row numbers, from 1."""
    nzval: StoredArray | None
    """Values; None if all are true."""
    n_rows: int


@dataclass(frozen=True, eq=False)
class _DenseColumns:
    """The columns of a dense matrix."""

    n_rows: int
    read: Callable[[Span], AnyArray]
    """Reads columns, an array with a row for each."""


_Columns: TypeAlias = _SparseColumns | _DenseColumns


def _dense_columns(part: Part, stored: StoredMatrix) -> _DenseColumns:
    array, picks = stored.dense(), None
    rows, columns = stored.info.shape[::-1] if part.is_transposed else stored.info.shape
    if part.chosen is not None:
        picks = EntrySelection(np.maximum(part.chosen, 0), columns)
    if part.is_transposed or (picks is not None and not picks.is_ascending):
        array = _mapped(array, part, part.n_columns * rows * part.kind.dtype.itemsize)
    if picks is not None:
        array = SubsetArray(array, *((None, picks) if part.is_transposed else (picks, None)))
    if not part.is_transposed:
        return _DenseColumns(rows, array.read_rows)

    def read(span: Span) -> AnyArray:
        values = array.read_spans([Span(0, rows)], within=span)[0]
        transposed = np.empty(values.shape[::-1], values.dtype)
        transpose_dense(values, transposed)
        return transposed

    return _DenseColumns(rows, read)


def _sparse_columns(part: Part, stored: StoredMatrix) -> _SparseColumns:
    columns = (
        _transposed(part, stored)
        if part.is_transposed
        else _SparseColumns(
            stored.colptr(),
            stored.entries("rowval"),
            stored.entries("nzval") if stored.has_values() else None,
            stored.info.shape[0],
        )
    )
    if part.chosen is None:
        return columns
    starts, counts = columns.colptr[:-1], np.append(np.diff(columns.colptr), 0)[part.chosen]
    picks = Ranges.joined(np.append(starts, 0)[part.chosen], counts)
    arrays = [columns.rowval, *([] if columns.nzval is None else [columns.nzval])]
    if not bool((np.diff(part.chosen[part.chosen >= 0]) > 0).all()):
        arrays = [_mapped(array, part, picks.size * _HELD_PER_ELEMENT) for array in arrays]
    shown = [SubsetArray(array, picks) for array in arrays]
    colptr = np.concatenate([[0], np.cumsum(counts)])
    nzval = shown[1] if columns.nzval is not None else None
    return _SparseColumns(colptr, shown[0], nzval, columns.n_rows)


def _mapped(array: StoredArray, part: Part, used_bytes: int) -> StoredArray:
    """Return an array any part of which is read at once: chunks are decoded, each once.

    Parameters
    ----------
    used_bytes
        What is used of it: within a block, each chunk is decoded once anyway.
    """
    if array.info.is_mappable or used_bytes <= block_height(1):
        return array
    return memory_array(decoded_array(array, part.folder))


def _transposed(part: Part, stored: StoredMatrix) -> _SparseColumns:
    """Return the rows of a matrix as columns, which lie in files that vanish with them."""
    (n_rows, n_columns), nnz = stored.info.shape, int(stored.colptr()[-1])
    index = index_type(n_columns, StorageType.INT32)
    has_values = stored.has_values()
    out = EmptySparse(
        colptr=np.zeros(n_rows + 1, np.int64),
        rowval=scratch_array((nnz,), index, part.folder),
        nzval=scratch_array((nnz,), stored.info.storage_type, part.folder),
    )
    fill_transpose(stored, out)
    nzval = memory_array(out.nzval) if has_values else None
    return _SparseColumns(out.colptr - 1, memory_array(out.rowval), nzval, n_columns)


def _counts(part: Part) -> Positions:
    """Return how many elements each column of a part has in a sparse matrix of the result."""
    columns = part.columns
    if isinstance(columns, _SparseColumns) and part.rows.is_complete and not _is_spread(part):
        return np.diff(columns.colptr)
    blocks = _sparse_pieces(part, has_values=False)
    return np.concatenate([_NONE, *(np.diff(block.indptr) for block in blocks)])


def _sparse_pieces(part: Part, *, has_values: bool = True) -> Iterator[Any]:
    """Yield what one part contributes to a sparse matrix, by columns; see `_moved`."""
    columns = part.columns
    if _is_spread(part):
        yield from map(sp.csr_array, _dense_pieces(part))
    elif isinstance(columns, _SparseColumns):
        for span in _spans(columns):
            yield _moved(part, columns, span, has_values=has_values)
    else:
        yield sp.csr_array((part.n_columns, part.rows.n_entries), dtype=part.kind.dtype)


def _moved(part: Part, columns: _SparseColumns, span: Span, *, has_values: bool = True) -> Any:
    """Return some columns as the rows of a ``csr_array``, whose columns are the result's rows.

    Without its values, all are true.
    """
    pointers = columns.colptr[span.start : span.stop + 1]
    elements = Span(int(pointers[0]), int(pointers[-1]))
    rows, nzval = columns.rowval.read_rows(elements), columns.nzval
    check_rows(rows, columns.n_rows, part.what)
    values = (
        np.ones(elements.size, bool)
        if nzval is None or not has_values
        else nzval.read_rows(elements)
    )
    is_moved = part.rows.places is not None
    parts = (values, rows.astype(np.int64) - 1, pointers - pointers[0])
    block = sp.csr_array(parts, shape=(span.size, columns.n_rows + is_moved))
    if is_moved:
        block = block[:, part.rows.sources]  # -1 is the one that is empty
    if not block.has_sorted_indices:
        block = block.tocsc().tocsr()  # twice a counting sort
    if not block.has_canonical_format:
        raise errors.CorruptDataError(
            f"{part.what}: an element is stored twice; an import of an AnnData (daf import) "
            "adds such elements up, so import it and use that"
        )
    return block


def _is_spread(part: Part) -> bool:
    """Return whether the elements of a part are found in dense blocks of it."""
    is_filled = bool(part.fill) and part.missing_rows.size > 0
    return isinstance(part.columns, _DenseColumns) or is_filled


def _spans(columns: _SparseColumns) -> Iterator[Span]:
    return column_blocks(columns.colptr, max_elements=block_height(_HELD_PER_ELEMENT))


def _dense_pieces(part: Part) -> Iterator[AnyArray]:
    """Yield what one part contributes to a dense matrix: a row for each column of the matrix."""
    columns, n_rows = part.columns, part.rows.n_entries
    row_bytes = max(n_rows, 0 if columns is None else columns.n_rows) * part.kind.dtype.itemsize
    step = block_height(row_bytes)
    for start in range(0, part.n_columns, step):
        span = Span(start, min(start + step, part.n_columns))
        if isinstance(columns, _DenseColumns):
            block = _placed(part, columns, span)
        else:
            block = (
                np.zeros((span.size, n_rows), part.kind.dtype)
                if columns is None
                else _as_result(_moved(part, columns, span).toarray(), part)
            )
            if part.fill and part.missing_rows.size:
                block[:, part.missing_rows] = part.fill
        if part.lacking is not None:
            block[part.lacking[span.slice]] = part.fill
        yield block


def _as_result(values: AnyArray, part: Part) -> AnyArray:
    """Return what goes into the result in its type; errors name the value, not its place here."""
    return stored_numbers(values, part.kind.dtype, what=part.what, place=_NOWHERE)


def _placed(part: Part, columns: _DenseColumns, span: Span) -> AnyArray:
    values = columns.read(span)
    if part.rows.places is None:
        values = _as_result(values, part)
        return values if part.lacking is None else values.copy()
    sources = part.rows.sources
    if part.rows.missing.size == 0:
        return np.ascontiguousarray(_as_result(values[:, sources], part))
    block = np.full((span.size, part.rows.n_entries), part.fill, part.kind.dtype)
    places = np.flatnonzero(sources >= 0)
    block[:, places] = _as_result(values[:, sources[places]], part)
    return block


def write_assembled(
    changes: TreeTransaction,
    path: str,
    parts: Sequence[Part],
    *,
    is_sparse: bool,
    add: Callable[[int], None] = lambda _: None,
) -> None:
    """Prepare a matrix that consists of parts, of one kind, one after the other.

    Parameters
    ----------
    add
        Called after each block with its bytes.
    """
    kind, n_rows = parts[0].kind, parts[0].rows.n_entries
    shape = (sum(part.n_columns for part in parts), n_rows)
    if kind.is_string:
        write_text(changes, path, pa.concat_arrays([_strings_of(part) for part in parts]), shape)
    elif is_sparse:
        _write_sparse(changes, path, parts, add)
    else:
        blocks = counted_blocks(itertools.chain.from_iterable(map(_dense_pieces, parts)), add)
        changes.write_blocks(path, shape, kind, blocks)


def _write_sparse(
    changes: TreeTransaction,
    path: str,
    parts: Sequence[Part],
    add: Callable[[int], None],
) -> None:
    kind, n_rows = parts[0].kind, parts[0].rows.n_entries
    colptr = np.concatenate([[1], *map(_counts, parts)]).astype(np.int64)
    np.cumsum(colptr, out=colptr)
    nnz = int(colptr[-1]) - 1
    pointer, index = _index_types(parts, nnz + 1, n_rows)
    changes.create_group(path)
    changes.write_array(f"{path}/colptr", colptr.astype(pointer.dtype))
    folder = parts[0].folder
    rowval = changes.reserve_array(f"{path}/rowval", (nnz,), index, folder)
    has_values = kind is not StorageType.BOOL or any(
        _is_spread(p) or not isinstance(p.columns, _SparseColumns) or p.columns.nzval is not None
        for p in parts
    )
    nzval = changes.reserve_array(f"{path}/nzval", (nnz,), kind, folder) if has_values else None
    start = 0
    for part in parts:
        for block in _sparse_pieces(part):
            stop = start + block.indices.size
            rowval[start:stop] = block.indices + 1
            if nzval is not None:
                nzval[start:stop] = _as_result(block.data, part)
            add((stop - start) * (index.dtype.itemsize + has_values * kind.dtype.itemsize))
            start = stop


def _index_types(parts: Sequence[Part], *largest: int) -> list[StorageType]:
    """Return the types of pointers and row numbers: of a single matrix those that it has."""
    stored = parts[0].stored if len(parts) == 1 else None
    if stored is None or not stored.info.is_sparse:
        return [index_type(max(largest))] * 2
    own = [stored.entries(part).info.storage_type for part in ("colptr", "rowval")]
    return [index_type(most, kind) for most, kind in zip(largest, own, strict=True)]


def _strings_of(part: Part) -> pa.Array:
    """Return the strings of a part, of which all are in memory, column after column."""
    fill = pa.scalar(part.fill or "", pa.large_string())
    rows = part.rows.sources
    chosen = np.arange(part.n_columns) if part.chosen is None else part.chosen
    if part.stored is None or not part.stored.dense().info.size:
        return pa.repeat(fill, part.n_columns * rows.size)
    array = part.stored.dense()
    places = np.arange(array.info.size).reshape(array.info.shape)
    grid = (places.T if part.is_transposed else places)[np.ix_(chosen, rows)]
    is_missing = (chosen < 0)[:, None] | (rows < 0)
    taken = pa.array(grid.reshape(-1), mask=is_missing.reshape(-1))
    return pc.fill_null(array.read_strings().cast(pa.large_string()).take(taken), fill)


Orders = Mapping[str, AnyArray]
"""Which old position comes to each new one, by axis."""


def entry_positions(
    daf: DafReader, axis: str, chosen: Any, *, what: str, is_order: bool = False
) -> Positions:
    """Return the positions of some entries of an axis, each of which is chosen once.

    Parameters
    ----------
    chosen
        A range, positions, names, or a mask.
    what
        What is chosen, for messages.
    is_order
        Whether they are an order, which a mask cannot be.

    Raises
    ------
    EntryNotFoundError, DuplicateEntriesError, LengthError, InvalidInputError
        There is no such entry; one is chosen twice; a mask is not as long as the axis; or these are
        no entries.
    """
    length = daf.axis_length(axis)
    if isinstance(chosen, slice):
        chosen = range(*chosen.indices(length))
    is_range = isinstance(chosen, range)
    values: Any = (
        np.arange(chosen.start, chosen.stop, chosen.step)
        if is_range
        else plain_values(chosen, what=what)
    )
    if isinstance(values, pa.Array):
        positions = daf.axis_indices(axis, values)
    elif values.ndim == 1 and values.dtype == np.bool_ and not is_order:
        if values.size != length:
            raise errors.wrong_length(daf.location, "a mask", values.size, axis, length)
        positions = np.flatnonzero(values)
    elif values.ndim == 1 and (values.dtype.kind in "iu" or not values.size):
        positions = values
    else:
        accepted = "positions or names" if is_order else "positions, names, a mask or a slice"
        raise errors.InvalidInputError(f"{what} cannot be {chosen!r}; pass {accepted}")
    outside = (positions < 0) | (positions >= length)
    if outside.any():
        raise errors.EntryNotFoundError(
            f"{what}: there is no entry at position {int(positions[np.argmax(outside)])}; it has "
            f"{length:,} entries, counted from 0"
        )
    positions = positions.astype(np.int64, copy=False)
    counts = np.bincount(positions, minlength=1)
    if int(counts.max()) > 1:
        twice = int(np.argmax(counts > 1))
        raise errors.DuplicateEntriesError(
            f"{what}: {str(daf.axis_entries(axis, [twice])[0])!r} is there more than once: "
            f"position {twice} is chosen {int(counts[twice])} times"
        )
    return positions


def permutation(daf: DafReader, axis: str, order: Any) -> Positions:
    """Return which old position comes to each new one.

    Parameters
    ----------
    order
        All positions, or all entries, each once, in their new order.

    Raises
    ------
    LengthError, DuplicateEntriesError, EntryNotFoundError, InvalidInputError
        Something is missing, or there twice; or it is no order.
    """
    listed = order if hasattr(order, "dtype") or hasattr(order, "type") else list(order)
    what = f"the order of axis {axis!r}"
    positions = entry_positions(daf, axis, listed, what=f"{daf.location}: {what}", is_order=True)
    length = daf.axis_length(axis)
    if positions.size != length:
        raise errors.wrong_length(daf.location, what, positions.size, axis, length)
    return positions


def affected_paths(daf: DafReader, axes: Collection[str]) -> list[str]:
    """Return the paths of everything that follows the order of some axes, each once."""
    paths = [layout.axis_path(axis) for axis in axes]
    paths += [path for path, _ in stored_properties(daf, axes)]
    return paths + kept.aligned_paths(daf.tree, axes)


def write_reordered(
    daf: DafReader, tree: WritableTree, orders: Orders, report: Callable[[int], None]
) -> None:
    """Write everything that follows the order of some axes."""
    for axis, positions in orders.items():
        path = layout.axis_path(axis)
        entries = daf.get_pa_vector(axis, "name").take(pa.array(positions))
        with new_node(tree, path) as changes:
            changes.write_strings(path, entries, (len(entries),))
    for path, stored in stored_properties(daf, orders):
        with new_node(tree, path) as changes:
            if isinstance(stored, StoredVector):
                moved = Alignment.reordered(orders[stored.info.axis], stored.info.length)
                values = aligned_vector(stored.values(), moved, what=path)
                write_vector(changes, path, values, stored.attributes)
            else:
                _write_matrix(changes, path, stored, orders)
        report(size_bytes(stored.arrays().values()))
    kept.write_reordered(daf.tree, tree, orders)


def _write_matrix(
    changes: TreeTransaction, path: str, stored: StoredMatrix, orders: Orders
) -> None:
    changes.annotate(path, stored.attributes)
    info = stored.info
    rows, columns = orders.get(info.rows_axis), orders.get(info.columns_axis)
    moved = Alignment.reordered(rows, info.shape[0])
    part = Part(stored, moved, info.shape[1], info.storage_type, chosen=columns)
    write_assembled(changes, path, [part], is_sparse=info.is_sparse)
