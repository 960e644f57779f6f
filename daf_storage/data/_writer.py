"""The writer of a Daf data set: every rule common to the formats, once.

Each property is prepared aside and put in place in one atomic step, after all checks: reserved
name, axis, length and labels, conflict.  A refused or crashed change leaves what was there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from daf_storage import errors
from daf_storage.base import (
    RESERVED_VECTORS,
    AnyArray,
    IfExists,
    Packing,
    ShowProgress,
    StorageType,
    check_if_exists,
    check_name,
    first_duplicate,
    packing_of,
    progress_bar,
    unique_name,
)
from daf_storage.data import _coercion as inputs
from daf_storage.data import _layout as layout
from daf_storage.data import _relayout as relayout
from daf_storage.data import _reorder as reordering
from daf_storage.data import kept
from daf_storage.data._coercion import StringMatrixInput
from daf_storage.data._convention import Convention, attributes_of
from daf_storage.data._encoding import (
    EmptySparse,
    check_filled,
    empty_sparse_matrix,
    index_type,
    relayout_dense,
    reserve_sparse_matrix,
    write_dense_matrix,
    write_filled,
    write_flat,
    write_sparse_matrix,
    write_sparse_vector,
    write_string_matrix,
)
from daf_storage.data._reader import DafReader, check_reader
from daf_storage.data._sparse_inputs import SparseMatrixInput, SparseVectorInput
from daf_storage.trees import Node, TreeTransaction, WritableTree


def _ignore(_: int) -> None:
    """Report no progress."""


def check_writer(value: object, function: str) -> None:
    """Refuse a data set that is open for reading, or what is none, where one is written to."""
    check_reader(value, function)
    if not isinstance(value, DafWriter):
        raise errors.ReadOnlyError(
            f"{function} writes to {value}, which is open for reading; open it with mode 'r+'"
        )


class DafWriter(DafReader):
    """A Daf data set that can be read and changed.

    Do not construct it; `open_daf`, `ZarrDaf` and `MemoryDaf` return one.
    """

    def __init__(
        self, tree: WritableTree, *, name: str, on_close: Callable[[], None] | None = None
    ) -> None:
        super().__init__(tree, name=name, on_close=on_close)
        self._writable = tree

    @property
    def is_writable(self) -> bool:
        """Whether this object can change the data set."""
        return True

    @property
    def writable_tree(self) -> WritableTree:
        """The groups and arrays in which the data set is stored."""
        return self._writable

    @property
    def is_append_only(self) -> bool:
        """Whether properties can be added and neither replaced nor deleted, as in an archive."""
        return self._writable.is_append_only

    def read_only(self) -> DafReader:
        """Return an object that reads the same data and cannot change it.

        It is called ``NAME.read_only``, sees what is written through this one, and is closed with
        it.
        """
        reader = ReadOnlyDaf(self._tree, name=unique_name(f"{self.name}.read_only"))
        reader.keep(self, self._counters)
        if self.origin is not None:
            reader.origin = dataclasses.replace(self.origin, name=reader.name)
        return reader

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make many changes to an archive at the cost of one commit.

        Whoever uses this object or another one of this process sees each change at once.  The
        file has them when the block ends: all of them or, after an error or a crash, none.  Other
        formats complete each change by itself, and this does nothing.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> with daf.batch():
        ...     daf.add_axis("cell", ["A", "B"])
        ...     daf.set_vector("cell", "age", [1, 2])
        """
        self._check_open()
        with self._writable.batch():
            yield

    # Scalars

    def set_scalar(
        self, name: str, value: Any, *, if_exists: IfExists = "error", dtype: Any = None
    ) -> None:
        """Store a scalar: a bool, a number, a numpy scalar (which keeps its dtype) or a string.

        ``dtype`` is as of `set_vector`.

        Raises
        ------
        ExistsError
            There is one already and ``if_exists`` is ``"error"``.
        """
        check_name(self.location, "scalar", name)
        what = f"{self.location}: scalar {name!r}"
        stored = inputs.scalar_input(value, dtype, what=what)
        self._check_free(self.has_scalar(name), if_exists, f"scalar {name!r}")
        with self._change(layout.scalar_path(name), if_exists=if_exists) as (path, changes):
            changes.write_scalar(path, stored)

    def delete_scalar(self, name: str, *, must_exist: bool = True) -> None:
        """Delete a scalar."""
        if self.has_scalar(name):
            self._remove(layout.scalar_path(name))
        elif must_exist:
            raise errors.scalar_not_found(self.location, name, self.scalars_set())

    # Axes

    def add_axis(self, axis: str, entries: Iterable[str], *, if_exists: IfExists = "error") -> None:
        """Add an axis with these unique entries.

        With ``if_exists="replace"``, an axis of this name is deleted first, with all its vectors
        and matrices.

        Raises
        ------
        DuplicateEntriesError
            An entry occurs more than once.
        ExistsError
            There is such an axis and ``if_exists`` is ``"error"``.
        """
        check_name(self.location, "axis", axis)
        what = f"{self.location}: the list of entries of axis {axis!r}"
        stored = inputs.strings_input(entries, what=what)
        twice = first_duplicate(stored)
        if twice is not None:
            raise errors.DuplicateEntriesError(
                f"{self.location}: the entries of axis {axis!r} are not unique: "
                f"{twice!r} occurs more than once; make them unique first"
            )
        self._check_free(self.has_axis(axis), if_exists, f"axis {axis!r}")
        path = layout.axis_path(axis)
        with self.batch(), self._writable.transaction() as changes, self._writable.lock():
            self._check_free(self.has_axis(axis), if_exists, f"axis {axis!r}")
            self._prepare_axis(changes, axis)
            changes.write_strings(path, stored, (len(stored),))
            changes.publish(path, replace=if_exists == "replace")
            self._count_version(path)

    def delete_axis(self, axis: str, *, must_exist: bool = True) -> None:
        """Delete an axis with all its vectors and matrices."""
        if not self.has_axis(axis):
            if must_exist:
                raise errors.axis_not_found(self.location, axis, self.axes_set())
            return
        self._check_removable(f"axis {axis!r}")
        with self._writable.transaction() as changes, self._writable.lock():
            for path in (layout.axis_path(axis), *self._paths_of_axis(axis)):
                changes.remove(path)
            self._count_version(layout.axis_path(axis))

    def reorder_axis(self, axis: str, order: Any, *, progress: ShowProgress = "auto") -> None:
        """Put the entries of an axis into another order; its vectors and matrices follow.

        All of it changes in one step: whoever reads finds the old order or the new one.  After a
        crash in the middle everything is as it was, and in a directory the same call goes on
        where it had stopped.  `daf_query.DafSession.reorder_axis` takes an SQL order.

        Parameters
        ----------
        order
            All positions (from 0), or all entries, each once, in their new order.
        progress
            Whether to show a bar on stderr.

        Raises
        ------
        AppendOnlyError
            In an archive nothing can be replaced.
        InvalidInputError, LengthError, EntryNotFoundError
            An entry is missing in the order, or there twice.
        InUseError
            Another writer is at work.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.set_vector("cell", "age", [1, 2, 3])
        >>> daf.reorder_axis("cell", ["C", "A", "B"])
        >>> daf.get_np_vector("cell", "age").tolist()
        [3, 1, 2]
        """
        self.reorder_axes({axis: order}, progress=progress)

    def reorder_axes(self, orders: Mapping[str, Any], *, progress: ShowProgress = "auto") -> None:
        """Put the entries of several axes into other orders, all in one step; see `reorder_axis`.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["X", "Y"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[1, 2], [3, 4]])
        >>> daf.reorder_axes({"cell": ["B", "A"], "gene": [1, 0]})
        >>> daf.get_np_matrix("cell", "gene", "UMIs").tolist()
        [[4, 3], [2, 1]]
        """
        with self.reordered(self.check_orders(orders), progress=progress):
            pass

    def check_orders(self, orders: Mapping[str, Any]) -> dict[str, AnyArray]:
        """Return which old position comes to each new one, by axis; see `reorder_axes`."""
        self._check_open()
        if self.is_append_only:
            raise errors.AppendOnlyError(
                f"{self.location}: can't reorder {', '.join(map(repr, orders))} of a zip-backed "
                "data set, which is append-only; convert it to a directory (.daf.zarr), reorder "
                "that, and convert back"
            )
        for axis in orders:
            self._require_axis(axis)
        return {axis: reordering.permutation(self, axis, order) for axis, order in orders.items()}

    @contextmanager
    def reordered(
        self, orders: Mapping[str, AnyArray], *, progress: ShowProgress
    ) -> Iterator[None]:
        """Prepare another order; it is put in place when the block ends without an exception."""
        paths = reordering.affected_paths(self, orders)
        what = f"reorder {', '.join(orders)}"
        with self._writable.rebuilt(reordering.token_of(orders), paths) as tree:
            with progress_bar(what, reordering.size_of(self, orders), show=progress) as bar:
                reordering.write_reordered(self, tree, orders, bar.add)
            yield

    # Vectors

    def set_vector(
        self,
        axis: str,
        name: str,
        value: Any,
        *,
        if_exists: IfExists = "error",
        dtype: Any = None,
        empty_is_missing: bool = False,
        packed: bool | Packing | None = None,
    ) -> None:
        """Store a vector.

        Parameters
        ----------
        value
            Anything numpy can turn into one dimension; Arrow; a scalar to fill the axis with; a
            pandas Series, whose labels must then be the axis entries; a scipy sparse array of
            one row or column, which is stored sparse.
        dtype
            The numpy dtype to convert to; that of ``value`` by default.  A list of integers is
            stored as Int64, or as UInt64 where one exceeds that.  ``dtype="float32"`` rounds
            floats, since that is what it asks for.  Nothing else changes a value: integers must
            fit exactly (2**24 + 1 is no Float32), finite floats must stay finite, NaN must not
            become an integer.
        empty_is_missing
            Of strings: whether an empty one stands for a missing value.  Tables then have NULL
            there; `get_np_vector` returns the empty string.  An import of AnnData sets this.
        packed
            Whether to cut it into small chunks and compress them, and how; by default as the data
            set was opened.

        Raises
        ------
        UnsupportedInputError
            A value is missing, masked, of another type than the others, or does not fit into the
            dtype; the message names the first such value and its position.
        InvalidNameError, AxisNotFoundError, LengthError, LabelsError, ExistsError
            In this order; whatever is stored stays untouched.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf(name="tiny")
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.set_vector("cell", "age", [30.0, 60.0], dtype="uint8")
        >>> daf.set_vector("cell", "weight", [1, 300], dtype="uint8")
        Traceback (most recent call last):
            ...
        daf_storage.errors.UnsupportedInputError: <memory>: vector 'weight' of axis 'cell' holds \
300 at position 1, which does not fit into UInt8; nothing was stored: pass a dtype that can hold \
it, or change the value
        """
        self._check_vector_name(axis, name)
        self._require_axis(axis)
        length = self.axis_length(axis)
        what = f"vector {name!r} of axis {axis!r}"
        given = f"{self.location}: {what}"
        stored = inputs.vector_input(value, length=length, dtype=dtype, what=given)
        found = stored.length if isinstance(stored, SparseVectorInput) else len(stored)
        if found != length:
            raise errors.wrong_length(self.location, f"vector {name!r}", found, axis, length)
        self.check_labels(axis, getattr(value, "index", None), f"vector {name!r}")
        if empty_is_missing and isinstance(stored, SparseVectorInput | np.ndarray):
            raise errors.InvalidInputError(
                f"{self.location}: {what} holds no strings, so no empty string can stand for a "
                "missing value; leave out empty_is_missing"
            )
        self._check_free(self.has_vector(axis, name), if_exists, what)
        with self._change_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            if empty_is_missing:
                changes.annotate(path, attributes_of(Convention.EMPTY_IS_MISSING))
            if isinstance(stored, SparseVectorInput):
                write_sparse_vector(changes, path, stored)
            else:
                write_flat(changes, path, stored)

    def delete_vector(self, axis: str, name: str, *, must_exist: bool = True) -> None:
        """Delete a vector; its storage is freed, arrays handed out earlier stay valid."""
        self._check_vector_name(axis, name)
        if self.has_vector(axis, name):
            self._remove(layout.vector_path(axis, name))
        elif must_exist:
            raise errors.vector_not_found(self.location, axis, name, self.vectors_set(axis))

    @contextmanager
    def empty_dense_vector(
        self,
        axis: str,
        name: str,
        dtype: Any,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing = False,
    ) -> Iterator[AnyArray]:
        """Hand out a dense vector of zeros, mapped, to be filled in place.

        It becomes part of the data set when the block ends without an exception; until then
        nothing is visible.  Do not write to the array afterwards.  With ``packed`` the array is in
        memory, and compressed when the block ends.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> with daf.empty_dense_vector("cell", "age", "int32") as ages:
        ...     ages[:] = [1, 2]
        """
        self._check_vector_name(axis, name)
        self._require_axis(axis)
        kind = self._numeric_type(dtype)
        self._check_free(
            self.has_vector(axis, name), if_exists, f"vector {name!r} of axis {axis!r}"
        )
        shape = (self.axis_length(axis),)
        with self._change_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            if packed:
                values = np.zeros(shape, kind.dtype)
                yield values
                changes.write_array(path, values)
            else:
                yield changes.reserve_array(path, shape, kind)

    @contextmanager
    def empty_sparse_vector(
        self,
        axis: str,
        name: str,
        dtype: Any,
        nnz: int,
        *,
        index_dtype: Any = None,
        if_exists: IfExists = "error",
    ) -> Iterator[EmptySparse]:
        """Hand out the parts of a sparse vector with ``nnz`` elements, to be filled in place.

        The default index type is UInt32, or UInt64 for axes beyond its range; an ``index_dtype``
        that cannot hold the last position is refused.
        """
        self._check_vector_name(axis, name)
        self._require_axis(axis)
        length = self.axis_length(axis)
        kind, index_kind = self._numeric_type(dtype), self._index_type(index_dtype, length)
        self._check_free(
            self.has_vector(axis, name), if_exists, f"vector {name!r} of axis {axis!r}"
        )
        with self._change_vector(axis, name, if_exists=if_exists) as (path, changes):
            changes.create_group(path)
            parts = EmptySparse(
                nzind=changes.reserve_array(f"{path}/nzind", (nnz,), index_kind),
                nzval=changes.reserve_array(f"{path}/nzval", (nnz,), kind),
            )
            yield parts
            if nnz and (
                parts.nzind[0] < 1
                or parts.nzind[-1] > length
                or not np.all(parts.nzind[1:] > parts.nzind[:-1])
            ):
                raise errors.InvalidInputError(
                    f"{self.location}: vector {name!r} was filled with positions that do not rise "
                    f"within 1 to {length:,}; nothing was stored"
                )

    # Matrices

    def set_matrix(  # noqa: PLR0913 - the choices of a layout
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        value: Any,
        *,
        if_exists: IfExists = "error",
        relayout: bool = True,
        dtype: Any = None,
        packed: bool | Packing | None = None,
    ) -> None:
        """Store a matrix, by default in both orientations.

        Parameters
        ----------
        value
            Shape ``(rows, columns)``: numpy in either memory order, a scalar to fill it with, a
            pandas DataFrame whose labels must then be the axes' entries, or any scipy sparse
            array, which is stored sparse.
        relayout
            Whether to store the transpose too, so that either axis can be sliced fast.  A matrix
            of one axis with itself is stored once.
        dtype
            As of `set_vector`: floats are rounded to a narrower float type that is asked for;
            any other value that does not fit exactly is an error.
        packed
            Whether to cut it into small chunks and compress them, in both orientations, and how;
            by default as the data set was opened.

        Raises
        ------
        InvalidNameError, AxisNotFoundError, LengthError, LabelsError, ExistsError
            In this order; whatever is stored stays untouched.
        """
        shape = self._check_matrix(rows_axis, columns_axis, name)
        what = f"{self.location}: matrix {name!r} of axes {rows_axis!r} and {columns_axis!r}"
        stored = inputs.matrix_input(value, shape=shape, dtype=dtype, what=what)
        self._check_matrix_input(rows_axis, columns_axis, name, stored.shape, value)
        flip = relayout and rows_axis != columns_axis
        self._check_matrix_free(rows_axis, columns_axis, name, if_exists=if_exists, flipped=flip)
        path, flipped = _both_paths(rows_axis, columns_axis, name)
        axes = (rows_axis, columns_axis)
        with self.batch():
            with self._change(
                path,
                if_exists=if_exists,
                axes=axes,
                flipped=flipped,
                rewrites_flipped=flip,
                packed=packed,
            ) as (_, changes):
                if isinstance(stored, SparseMatrixInput):
                    write_sparse_matrix(changes, path, stored)
                elif isinstance(stored, StringMatrixInput):
                    write_string_matrix(changes, path, stored)
                else:
                    write_dense_matrix(changes, path, stored)
            if flip:
                self._relayout(rows_axis, columns_axis, name, if_exists=if_exists, packed=packed)

    def relayout_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        if_exists: IfExists = "error",
        progress: Callable[[int], None] = _ignore,
        packed: bool | Packing | None = None,
    ) -> None:
        """Store the transpose of a matrix too, block by block: memory does not grow with it.

        Parameters
        ----------
        packed
            Whether to compress it, and how; by default as the data set was opened, but for the
            transpose of a sparse matrix, which is packed on request only, since it is then made
            in memory.
        progress
            Told the number of elements that were done, after each block.

        Raises
        ------
        InvalidInputError
            Both axes are the same: such a matrix has one orientation only.
        MatrixNotFoundError
            The matrix is not stored in exactly this orientation.
        """
        self._check_matrix(rows_axis, columns_axis, name)
        if rows_axis == columns_axis:
            raise errors.InvalidInputError(
                f"{self.location}: can't relayout the square matrix {name!r} of axis "
                f"{rows_axis!r}: "
                "both orientations would have the same place"
            )
        self.open_matrix(rows_axis, columns_axis, name)
        self._check_matrix_free(columns_axis, rows_axis, name, if_exists=if_exists, flipped=False)
        self._relayout(
            rows_axis, columns_axis, name, if_exists=if_exists, progress=progress, packed=packed
        )

    def delete_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        relayout: bool = True,
        must_exist: bool = True,
    ) -> None:
        """Delete a matrix; in both orientations unless ``relayout=False``."""
        self._require_axis(rows_axis)
        self._require_axis(columns_axis)
        if not self.has_matrix(rows_axis, columns_axis, name, relayout=relayout):
            if must_exist:
                known = self.matrices_set(rows_axis, columns_axis, relayout=relayout)
                raise errors.matrix_not_found(self.location, rows_axis, columns_axis, name, known)
            return
        self._remove(layout.matrix_path(rows_axis, columns_axis, name))
        if relayout and rows_axis != columns_axis:
            self._remove(layout.matrix_path(columns_axis, rows_axis, name))

    @contextmanager
    def empty_dense_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        dtype: Any,
        *,
        if_exists: IfExists = "error",
        row_major: bool = False,
        packed: bool | Packing = False,
    ) -> Iterator[AnyArray]:
        """Hand out a dense matrix of zeros, mapped, to be filled in place.

        Shape ``(rows, columns)``, Fortran order: fill it column by column.  Only this orientation
        is stored; `relayout_matrix` adds the other.  With ``packed`` the array is in memory, and
        compressed when the block ends.

        With ``row_major``, for a matrix of an axis with itself: C order, to be filled row by row,
        and stored so; `get_np_matrix` returns what was filled in.
        """
        self._check_row_major(rows_axis, columns_axis, name, row_major=row_major)
        shape = self._check_matrix(rows_axis, columns_axis, name)
        kind = self._numeric_type(dtype)
        self._check_matrix_free(rows_axis, columns_axis, name, if_exists=if_exists, flipped=False)
        path, flipped = _both_paths(rows_axis, columns_axis, name)
        axes = (rows_axis, columns_axis)
        with self._change(path, if_exists=if_exists, axes=axes, flipped=flipped, packed=packed) as (
            _,
            changes,
        ):
            if row_major:
                changes.annotate(path, attributes_of(Convention.ROW_MAJOR))
            if packed:
                stored = np.zeros(shape[::-1], kind.dtype)
            else:
                stored = changes.reserve_array(path, shape[::-1], kind)
            yield stored if row_major else stored.T
            if packed:
                write_dense_matrix(changes, path, stored.T)

    @contextmanager
    def empty_sparse_matrix(  # noqa: PLR0913 - the choices of a layout
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        dtype: Any,
        nnz: int,
        *,
        index_dtype: Any = None,
        if_exists: IfExists = "error",
        row_major: bool = False,
        packed: bool | Packing = False,
    ) -> Iterator[EmptySparse]:
        """Hand out the parts of a sparse matrix with ``nnz`` elements, to be filled in place.

        Only this orientation is stored; `relayout_matrix` adds the other.  The default index
        type is UInt32, or UInt64 where the number of rows or ``nnz`` exceeds its range; an
        ``index_dtype`` that cannot hold them is refused.  With ``packed`` the parts are in memory,
        and compressed when the block ends.

        With ``row_major``, for a matrix of an axis with itself: ``colptr`` says where each row
        begins, ``rowval`` has the column numbers, and so it is stored.
        """
        self._check_row_major(rows_axis, columns_axis, name, row_major=row_major)
        shape = self._check_matrix(rows_axis, columns_axis, name)
        kind, index_kind = (
            self._numeric_type(dtype),
            self._index_type(index_dtype, max(shape[0], nnz + 1)),
        )
        self._check_matrix_free(rows_axis, columns_axis, name, if_exists=if_exists, flipped=False)
        path, flipped = _both_paths(rows_axis, columns_axis, name)
        axes = (rows_axis, columns_axis)
        with self._change(path, if_exists=if_exists, axes=axes, flipped=flipped, packed=packed) as (
            _,
            changes,
        ):
            if row_major:
                changes.annotate(path, attributes_of(Convention.ROW_MAJOR))
            if packed:
                parts = empty_sparse_matrix(shape[1], nnz, index_kind, kind)
            else:
                parts = reserve_sparse_matrix(changes, path, shape[1], nnz, index_kind, kind)
            yield parts
            check_filled(parts, shape, nnz, f"{self.location}: matrix {name!r}")
            if packed:
                write_filled(changes, path, parts)

    # Shared by the above

    @contextmanager
    def _change(
        self,
        path: str,
        *,
        if_exists: IfExists,
        axes: tuple[str, ...] = (),
        flipped: str | None = None,
        rewrites_flipped: bool = False,
        packed: bool | Packing | None = None,
    ) -> Iterator[tuple[str, TreeTransaction]]:
        """Prepare a property and put it in place when the block ends well.

        Where that replaces a matrix, its transpose at ``flipped`` is taken away first: whatever
        happens, no two orientations of one matrix disagree.  If one of its axes was changed
        meanwhile, nothing is put in place.
        """
        self._check_open()
        nodes = [self._tree.node(layout.axis_path(axis)) for axis in axes]
        with self._packing_tree(packed).transaction() as changes:
            yield path, changes
            with self._writable.lock():
                self._check_axes_unchanged(path, axes, nodes)
                is_stale = rewrites_flipped or self._tree.kind(path) is not None
                if flipped is not None and if_exists == "replace" and is_stale:
                    changes.remove(flipped)
                try:
                    changes.publish(path, replace=if_exists == "replace")
                except FileExistsError:
                    raise errors.property_exists(self.location, path) from None
                self._count_version(path)

    def _packing_tree(self, packed: bool | Packing | None) -> WritableTree:  # noqa: FBT001 - as it was given
        """Return the tree that packs what is written as asked for; None leaves it as it is."""
        return self._writable if packed is None else self._writable.packing_as(packing_of(packed))

    def _change_vector(
        self, axis: str, name: str, *, if_exists: IfExists, packed: bool | Packing | None = None
    ) -> AbstractContextManager[tuple[str, TreeTransaction]]:
        path = layout.vector_path(axis, name)
        return self._change(path, if_exists=if_exists, axes=(axis,), packed=packed)

    def _check_axes_unchanged(
        self, path: str, axes: tuple[str, ...], nodes: list[Node | None]
    ) -> None:
        for axis, before in zip(axes, nodes, strict=True):
            now = self._tree.node(layout.axis_path(axis))
            if before is None or now is None or not before.is_same(now):
                raise errors.LengthError(
                    f"{self.location}: axis {axis!r} was replaced, reordered or deleted while "
                    f"{path} was being written; nothing was stored, write it for the new axis"
                )

    def _remove(self, path: str) -> None:
        self._check_removable(path)
        with self._writable.transaction() as changes, self._writable.lock():
            changes.remove(path)
            self._count_version(path)

    def _count_version(self, path: str) -> None:
        """Count a change; both orientations of a matrix are one."""
        group, *names = path.split("/")
        if group == layout.MATRICES:
            first, second = sorted(names[:2])
            path = layout.matrix_path(first, second, names[2])
        self._counters[path] += 1

    def _check_free(self, exists: bool, if_exists: IfExists, what: str) -> None:  # noqa: FBT001 - a fact, not a mode
        check_if_exists(if_exists)
        if exists and if_exists == "error":
            raise errors.property_exists(self.location, what, is_append_only=self.is_append_only)
        if exists:
            self._check_removable(what)

    def _check_removable(self, what: str) -> None:
        if self.is_append_only:
            raise errors.append_only(self.location, what)

    def _check_vector_name(self, axis: str, name: str) -> None:
        check_name(self.location, "vector", name)
        if name in RESERVED_VECTORS:
            raise errors.InvalidNameError(
                f"{self.location}: the vector {name!r} of axis {axis!r} is reserved: "
                "it always exists and cannot be set or deleted; choose another name"
            )

    def _check_matrix(self, rows_axis: str, columns_axis: str, name: str) -> tuple[int, int]:
        check_name(self.location, "matrix", name)
        return self.axis_length(rows_axis), self.axis_length(columns_axis)

    def _check_row_major(
        self, rows_axis: str, columns_axis: str, name: str, *, row_major: bool
    ) -> None:
        if row_major and rows_axis != columns_axis:
            raise errors.InvalidInputError(
                f"{self.location}: matrix {name!r} of axes {rows_axis!r} and {columns_axis!r} "
                "cannot be stored by rows: only one of an axis with itself can; store it for "
                f"{columns_axis!r} and {rows_axis!r}"
            )

    def _check_matrix_input(
        self, rows_axis: str, columns_axis: str, name: str, found: tuple[int, ...], value: Any
    ) -> None:
        for axis, part, length in zip(
            (rows_axis, columns_axis), ("rows", "columns"), found, strict=True
        ):
            if length != self.axis_length(axis):
                what = f"the {part} of matrix {name!r}"
                raise errors.wrong_length(self.location, what, length, axis, self.axis_length(axis))
        self.check_labels(rows_axis, getattr(value, "index", None), f"the rows of matrix {name!r}")
        self.check_labels(
            columns_axis, getattr(value, "columns", None), f"the columns of matrix {name!r}"
        )

    def _check_matrix_free(
        self, rows_axis: str, columns_axis: str, name: str, *, if_exists: IfExists, flipped: bool
    ) -> None:
        pairs = [(rows_axis, columns_axis)] + [(columns_axis, rows_axis)] * flipped
        for rows, columns in pairs:
            exists = self.has_matrix(rows, columns, name, relayout=False)
            self._check_free(exists, if_exists, f"matrix {name!r} of axes {rows!r} and {columns!r}")

    def _numeric_type(self, dtype: Any) -> StorageType:
        kind = StorageType.from_numpy(np.dtype(dtype))
        if kind is None or kind.is_string:
            raise errors.UnsupportedInputError(
                f"{self.location}: dtype {np.dtype(dtype)} cannot be filled in place; it must be "
                "bool, an integer, float32 or float64"
            )
        return kind

    def _index_type(self, dtype: Any, largest: int) -> StorageType:
        if dtype is None:
            return index_type(largest)
        kind = self._numeric_type(dtype)
        if not kind.is_integer:
            raise errors.UnsupportedInputError(
                f"{self.location}: indices must be integers, not {dtype}"
            )
        if largest > np.iinfo(kind.dtype).max:
            raise errors.UnsupportedInputError(
                f"{self.location}: indices up to {largest:,} do not fit into {kind.value}; leave "
                f"index_dtype out, or pass {index_type(largest).value}"
            )
        return kind

    def _prepare_axis(self, changes: TreeTransaction, axis: str) -> None:
        """Make the empty groups of an axis, clearing away what an older axis left there."""
        for path in self._paths_of_axis(axis):
            if self._is_occupied(path):
                changes.remove(path)
        own = f"{layout.MATRICES}/{axis}"
        others = sorted(self.axes_set() - {axis})
        groups = [layout.matrices_path(axis, other) for other in (axis, *others)]
        if self._tree.kind(own) is None:
            for group in (own, *groups):
                changes.create_group(group)
            changes.publish(own, replace=False)
        groups += [layout.matrices_path(other, axis) for other in others]
        for group in (layout.vectors_path(axis), *groups):
            if self._tree.kind(group) is None:
                changes.create_group(group)
                changes.publish(group, replace=False)

    def _is_occupied(self, path: str) -> bool:
        """Return whether there is a property below a group for one or for two axes."""
        children = self._tree.children(path)
        if path.startswith(f"{layout.MATRICES}/") and path.count("/") == 1:
            return any(self._tree.children(f"{path}/{other}") for other in children)
        return bool(children)

    def _paths_of_axis(self, axis: str) -> list[str]:
        paths = [layout.vectors_path(axis), f"{layout.MATRICES}/{axis}"]
        others = sorted(set(self._tree.children(layout.MATRICES)) - {axis})
        paths += [layout.matrices_path(other, axis) for other in others]
        return paths + kept.paths_of_axis(self._tree, axis)

    def _relayout(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        if_exists: IfExists,
        progress: Callable[[int], None] = _ignore,
        packed: bool | Packing | None = None,
    ) -> None:
        stored = self.open_matrix(rows_axis, columns_axis, name)
        path = layout.matrix_path(columns_axis, rows_axis, name)
        n_rows, n_columns = stored.info.shape
        axes = (rows_axis, columns_axis)
        with self._change(path, if_exists=if_exists, axes=axes, packed=packed) as (_, changes):
            if not stored.info.is_sparse:
                relayout_dense(changes, path, stored)
                progress(n_rows * n_columns)
                return
            parts = stored.sparse_parts()
            nnz = parts.rowval.size
            index_kind = index_type(max(n_columns, nnz + 1), StorageType.of(parts.colptr.dtype))
            kind = stored.info.storage_type
            if packed:
                out = empty_sparse_matrix(n_rows, nnz, index_kind, kind)
            else:
                out = reserve_sparse_matrix(changes, path, n_rows, nnz, index_kind, kind)
            out_indptr = relayout.transposed_colptr(parts.rowval, n_rows, what=stored.what)
            out.colptr[:] = out_indptr + 1
            relayout.transpose_sparse(
                indptr=stored.colptr(),
                rowval=parts.rowval,
                nzval=np.broadcast_to(np.True_, (nnz,)) if parts.nzval is None else parts.nzval,
                out_indptr=out_indptr,
                out_rowval=out.rowval,
                out_nzval=out.nzval,
                progress=progress,
            )
            if packed:
                write_filled(changes, path, out)


class ReadOnlyDaf(DafReader):
    """What `DafWriter.read_only` returns."""

    def keep(self, writer: DafWriter, counters: Counter[str]) -> None:
        """Keep the writer open as long as this is used, and count its changes."""
        self._writer = writer
        self._counters = counters

    def _check_open(self) -> None:
        super()._check_open()
        self._writer._check_open()  # noqa: SLF001 - one data set


def _both_paths(rows_axis: str, columns_axis: str, name: str) -> tuple[str, str | None]:
    """Return where a matrix and its transpose are; None for the latter if they are one."""
    flipped = layout.matrix_path(columns_axis, rows_axis, name)
    path = layout.matrix_path(rows_axis, columns_axis, name)
    return path, None if rows_axis == columns_axis else flipped
