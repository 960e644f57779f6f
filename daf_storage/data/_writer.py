"""The writer of a Daf data set: every rule common to the formats, once.

Each property is prepared aside and put in place in one atomic step, after all checks: reserved
name, axis, length and labels, conflict.  A refused or crashed change leaves what was there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from daf_storage import errors
from daf_storage.base import (
    AnyArray,
    IfExists,
    Packing,
    check_name,
    unique_name,
)
from daf_storage.data import _layout as layout
from daf_storage.data._convention import Convention, attributes_of
from daf_storage.data._encoding import (
    EmptySparse,
    check_filled,
    empty_sparse_matrix,
    reserve_sparse_matrix,
    write_dense_matrix,
    write_filled,
    write_transposed,
)
from daf_storage.data._new_axis import given_axis, given_matrix, write_matrix
from daf_storage.data._reader import DafReader, check_reader, writing_remedy
from daf_storage.data._transpose import DEFAULT_MEMORY_BYTES, check_memory
from daf_storage.data._vector_writer import VectorWriter
from daf_storage.trees import TreeTransaction


def _ignore(_: int) -> None:
    """Report no progress."""


def check_writer(value: object, function: str) -> None:
    """Refuse a data set that is open for reading, or what is none, where one is written to."""
    check_reader(value, function)
    if isinstance(value, DafReader) and not isinstance(value, DafWriter):
        raise errors.ReadOnlyError(f"{function} writes to {value}, but {writing_remedy(value)}")


class DafWriter(VectorWriter):
    """A Daf data set that can be read and changed.

    Do not construct it; `open_daf`, `ZarrDaf` and `MemoryDaf` return one.
    """

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

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "score", [[0.5, 1], [1, 1], [2, 2]])
        >>> daf.get_np_matrix("cell", "gene", "score").dtype.name
        'float64'
        """
        self._check_matrix(rows_axis, columns_axis, name)
        rows, columns = given_axis(self, rows_axis), given_axis(self, columns_axis)
        stored = given_matrix(self.location, rows, columns, name, value, dtype)
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
                write_matrix(changes, path, stored)
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
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        """Store the transpose of a matrix too, block by block: memory does not grow with it.

        Parameters
        ----------
        packed
            Whether to compress it, and how; by default as the data set was opened.
        progress
            Called after each block with the number of elements done.
        memory_bytes
            How much memory a sparse matrix may take on its way, 16 MiB or more.

        Raises
        ------
        InvalidInputError
            Both axes are the same: such a matrix has one orientation only; or ``memory_bytes`` is
            too little.
        MatrixNotFoundError
            The matrix is not stored in exactly this orientation.
        """
        self._check_matrix(rows_axis, columns_axis, name)
        check_memory(memory_bytes)
        if rows_axis == columns_axis:
            raise errors.InvalidInputError(
                f"{self.location}: can't relayout the square matrix {name!r} of axis "
                f"{rows_axis!r}: "
                "both orientations would have the same place"
            )
        self.open_matrix(rows_axis, columns_axis, name)
        self._check_matrix_free(columns_axis, rows_axis, name, if_exists=if_exists, flipped=False)
        self._relayout(
            rows_axis,
            columns_axis,
            name,
            if_exists=if_exists,
            progress=progress,
            packed=packed,
            memory_bytes=memory_bytes,
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
        packed: bool | Packing | None = None,
    ) -> Iterator[AnyArray]:
        """Hand out a dense matrix of zeros, mapped, to be filled in place.

        Shape ``(rows, columns)``, Fortran order: fill it column by column.  Only this orientation
        is stored; `relayout_matrix` adds the other.  Where it is packed, by default as the data set
        was opened, the array is in memory, and compressed when the block ends.

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
            is_packed = changes.packs(shape[::-1], kind)
            if is_packed:
                stored: AnyArray = np.zeros(shape[::-1], kind.dtype)
            else:
                stored = changes.reserve_array(path, shape[::-1], kind)
            yield stored if row_major else stored.T
            if is_packed:
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
        packed: bool | Packing | None = None,
    ) -> Iterator[EmptySparse]:
        """Hand out the parts of a sparse matrix with ``nnz`` elements, to be filled in place.

        Only this orientation is stored; `relayout_matrix` adds the other.  The default index
        type is UInt32, or UInt64 where the number of rows or ``nnz`` exceeds its range; an
        ``index_dtype`` that cannot hold them is refused.  Where they are packed, by default as the
        data set was opened, the parts are in memory, and compressed when the block ends.

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
            is_packed = self._packing_tree(packed).packing is not None
            if is_packed:
                parts = empty_sparse_matrix(shape[1], nnz, index_kind, kind)
            else:
                parts = reserve_sparse_matrix(changes, path, shape[1], nnz, index_kind, kind)
            yield parts
            check_filled(parts, shape, nnz, f"{self.location}: matrix {name!r}")
            if is_packed:
                write_filled(changes, path, parts)

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

    def _check_matrix_free(
        self, rows_axis: str, columns_axis: str, name: str, *, if_exists: IfExists, flipped: bool
    ) -> None:
        pairs = [(rows_axis, columns_axis)] + [(columns_axis, rows_axis)] * flipped
        for rows, columns in pairs:
            exists = self.has_matrix(rows, columns, name, relayout=False)
            what = f"matrix {name!r} of axes {rows!r} and {columns!r}"
            path = layout.matrix_path(rows, columns, name)
            self._check_free(exists, if_exists, what, path=path)

    def _relayout(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        if_exists: IfExists,
        progress: Callable[[int], None] = _ignore,
        packed: bool | Packing | None = None,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        stored = self.open_matrix(rows_axis, columns_axis, name)
        path = layout.matrix_path(columns_axis, rows_axis, name)
        axes = (rows_axis, columns_axis)
        with self._change(path, if_exists=if_exists, axes=axes, packed=packed) as (_, changes):
            write_transposed(changes, path, stored, progress=progress, memory_bytes=memory_bytes)


@contextmanager
def new_property(daf: DafWriter, path: str) -> Iterator[TreeTransaction]:
    """Begin a property, and put it in place when the block ends well."""
    tree = daf.writable_tree
    with tree.transaction() as changes:
        yield changes
        with tree.lock():
            changes.publish(path, replace=False)


@contextmanager
def matrix_property(
    daf: DafWriter,
    rows_axis: str,
    columns_axis: str,
    name: str,
    *,
    if_exists: IfExists,
    packed: bool | Packing | None,
    flipped: Literal["goes", "follows", "stays"] = "goes",
) -> Iterator[tuple[str, TreeTransaction]]:
    """Begin one orientation of a matrix, and put it in place when the block ends well.

    Parameters
    ----------
    flipped
        What becomes of the other orientation of a matrix that is replaced; if it is to follow, that
        must be free as well.
    """
    path, other = _both_paths(rows_axis, columns_axis, name)
    daf._check_matrix(rows_axis, columns_axis, name)  # noqa: SLF001 - what its own methods begin with
    daf._check_matrix_free(  # noqa: SLF001
        rows_axis, columns_axis, name, if_exists=if_exists, flipped=flipped == "follows"
    )
    with daf._change(  # noqa: SLF001
        path,
        if_exists=if_exists,
        axes=(rows_axis, columns_axis),
        flipped=None if flipped == "stays" else other,
        rewrites_flipped=flipped != "stays",
        packed=packed,
    ) as found:
        yield found


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
