"""The writer of a Daf data set: every rule common to the formats, once.

Each property is prepared aside and put in place in one atomic step, after all checks: reserved
name, axis, length and labels, conflict.  A refused or crashed change leaves what was there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from daf_storage import errors
from daf_storage.base import NAME_VECTOR, AnyArray, IfExists, Packing, check_name, unique_name
from daf_storage.data import _layout as layout
from daf_storage.data._assembled import write_transposed
from daf_storage.data._axis_writer import AxisWriter, check_strings, check_vector_name
from daf_storage.data._coercion import SparseVectorInput, given_matrix, given_vector
from daf_storage.data._encoding import Filling, check_filled, index_type, write_matrix, write_vector
from daf_storage.data._layout import Convention, are_positions, attributes_of, values_without_entry
from daf_storage.data._reader import DafReader, check_reader, writing_remedy
from daf_storage.data._transpose import EmptySparse
from daf_storage.trees import TreeTransaction


def check_writer(value: object, function: str) -> None:
    """Refuse a data set that is open for reading, or what is none, where one is written to."""
    check_reader(value, function)
    if isinstance(value, DafReader) and not isinstance(value, DafWriter):
        raise errors.ReadOnlyError(f"{function} writes to {value}, but {writing_remedy(value)}")


class DafWriter(AxisWriter):
    """A Daf data set that can be read and changed.

    Do not construct it; `open_daf`, `ZarrDaf` and `MemoryDaf` return one.
    """

    def read_only(self) -> DafReader:
        """Return an object that reads the same data and cannot change it.

        It is called ``NAME.read_only``, sees what is written through this one, and is closed with
        it.
        """
        shown: Any = {"members": [self], "counters": self._counters}
        reader = DafReader(self._tree, name=unique_name(f"{self.name}.read_only"), **shown)
        if self.origin is not None:
            reader.origin = dataclasses.replace(self.origin, name=reader.name)
        return reader

    # Vectors

    def set_vector(  # noqa: PLR0913 - how a vector is stored
        self,
        axis: str,
        name: str,
        value: Any,
        *,
        if_exists: IfExists = "error",
        dtype: Any = None,
        empty_is_missing: bool = False,
        entries_of: str | None = None,
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
        entries_of
            Of strings: the axis that they are entries of, all but the empty ones, which is
            recorded as a relation (see `DafReader.relations`).  An import of AnnData sets this for
            categoricals that become axes.
        packed
            Whether to cut it into small chunks and compress them, and how; by default as the data
            set was opened.

        Raises
        ------
        UnsupportedInputError
            A value is missing, masked, of another type than the others, or does not fit into the
            dtype; the message names the first such value and its position.  Or a value is no entry
            of ``entries_of``.
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
        check_vector_name(self.location, axis, name)
        stored = given_vector(self.given_axis(axis), name, value, dtype)
        if empty_is_missing:
            check_strings(self.location, axis, name, stored)
        if entries_of is not None:
            self._check_entries(stored, entries_of, f"vector {name!r} of axis {axis!r}")
        convention = Convention.EMPTY_IS_MISSING if empty_is_missing else None
        with self.new_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            write_vector(changes, path, stored, attributes_of(convention, entries_of))

    def delete_vector(self, axis: str, name: str, *, must_exist: bool = True) -> None:
        """Delete a vector; its storage is freed, arrays handed out earlier stay valid."""
        check_vector_name(self.location, axis, name)
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
        packed: bool | Packing | None = None,
    ) -> Iterator[AnyArray]:
        """Hand out a dense vector of zeros, mapped, to be filled in place.

        It becomes part of the data set when the block ends without an exception; until then
        nothing is visible.  Do not write to the array afterwards.  Where it is packed, by default
        as the data set was opened, it is in memory, and compressed when the block ends.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> with daf.empty_dense_vector("cell", "age", "int32") as ages:
        ...     ages[:] = [1, 2]
        """
        check_vector_name(self.location, axis, name)
        shape, kind = (self.axis_length(axis),), self._numeric_type(dtype)
        with self.new_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            filling = Filling(changes)
            yield filling.array(path, shape, kind)
            filling.finish()

    @contextmanager
    def empty_sparse_vector(
        self,
        axis: str,
        name: str,
        dtype: Any,
        nnz: int,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[EmptySparse]:
        """Hand out the parts of a sparse vector with ``nnz`` elements, to be filled in place.

        Positions are UInt32, or UInt64 for axes beyond its range.  ``packed`` is as of
        `empty_dense_vector`.
        """
        check_vector_name(self.location, axis, name)
        length = self.axis_length(axis)
        kind, index_kind = self._numeric_type(dtype), index_type(length)
        with self.new_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            changes.create_group(path)
            filling = Filling(changes)
            parts = EmptySparse(
                nzind=filling.array(f"{path}/nzind", (nnz,), index_kind),
                nzval=filling.array(f"{path}/nzval", (nnz,), kind),
            )
            yield parts
            if not are_positions(parts.nzind, length):
                raise errors.InvalidInputError(
                    f"{self.location}: vector {name!r} was filled with positions that do not rise "
                    f"within 1 to {length:,}; nothing was stored"
                )
            filling.finish()

    @contextmanager
    def new_vector(
        self,
        axis: str,
        name: str,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[tuple[str, TreeTransaction]]:
        """Begin a vector; whoever prepares its arrays gets it put in place when the block ends."""
        check_vector_name(self.location, axis, name)
        path = layout.vector_path(axis, name)
        what = f"vector {name!r} of axis {axis!r}"
        self._check_free(self.has_vector(axis, name), if_exists, what, path=path)
        with self._change(path, if_exists=if_exists, axes=(axis,), packed=packed) as found:
            yield found

    def _check_entries(self, stored: Any, axis: str, what: str) -> None:
        """Raise unless these are strings that are entries of an axis, or empty."""
        self._require_axis(axis)
        if isinstance(stored, SparseVectorInput | np.ndarray):
            raise errors.InvalidInputError(
                f"{self.location}: {what} holds no strings, so its values are no entries of the "
                f"axis {axis!r}; leave out entries_of"
            )
        unknown = values_without_entry([stored], self.get_pa_vector(axis, NAME_VECTOR))
        if unknown is not None:
            raise errors.UnsupportedInputError(
                f"{self.location}: {unknown[1]:,} values of {what} are no entries of the axis "
                f"{axis!r}, first {unknown[0]!r}; nothing was stored: change the values, or leave "
                "out entries_of"
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
        rows, columns = self.given_axis(rows_axis), self.given_axis(columns_axis)
        stored = given_matrix(rows, columns, name, value, dtype)
        flip = relayout and rows_axis != columns_axis
        writing: Any = {"if_exists": if_exists, "packed": packed}
        flipped: Any = "follows" if flip else "goes"
        with self.batch():
            with self.new_matrix(rows_axis, columns_axis, name, **writing, flipped=flipped) as (
                path,
                changes,
            ):
                write_matrix(changes, path, stored)
            if flip:
                self.relayout_matrix(rows_axis, columns_axis, name, **writing)

    def relayout_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        if_exists: IfExists = "error",
        progress: Callable[[int], None] = lambda _: None,
        packed: bool | Packing | None = None,
    ) -> None:
        """Store the transpose of a matrix too, block by block: memory does not grow with it.

        Parameters
        ----------
        packed
            Whether to compress it, and how; by default as the data set was opened.
        progress
            Called after each block with the number of elements done.

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
        stored = self.open_matrix(rows_axis, columns_axis, name)
        with self.new_matrix(
            columns_axis, rows_axis, name, if_exists=if_exists, packed=packed, flipped="stays"
        ) as (path, changes):
            write_transposed(changes, path, stored, progress=progress)

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
                available = self.matrices_set(rows_axis, columns_axis, relayout=relayout)
                raise errors.matrix_not_found(
                    self.location, rows_axis, columns_axis, name, available
                )
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
        packed: bool | Packing | None = None,
    ) -> Iterator[AnyArray]:
        """Hand out a dense matrix of zeros, mapped, to be filled in place.

        Shape ``(rows, columns)``, Fortran order: fill it column by column.  Only this orientation
        is stored; `relayout_matrix` adds the other.  Where it is packed, by default as the data set
        was opened, the array is in memory, and compressed when the block ends.
        """
        height, width = self._check_matrix(rows_axis, columns_axis, name)
        axes, kind = (rows_axis, columns_axis), self._numeric_type(dtype)
        with self.new_matrix(*axes, name, if_exists=if_exists, packed=packed) as (path, changes):
            filling = Filling(changes)
            yield filling.array(path, (width, height), kind).T
            filling.finish()

    @contextmanager
    def empty_sparse_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        dtype: Any,
        nnz: int,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
    ) -> Iterator[EmptySparse]:
        """Hand out the parts of a sparse matrix with ``nnz`` elements, to be filled in place.

        Only this orientation is stored; `relayout_matrix` adds the other.  Indices are UInt32, or
        UInt64 where the number of rows or ``nnz`` exceeds its range.  Where they are packed, by
        default as the data set was opened, the parts are in memory, and compressed when the block
        ends.
        """
        shape = self._check_matrix(rows_axis, columns_axis, name)
        kind, index_kind = self._numeric_type(dtype), index_type(max(shape[0], nnz + 1))
        axes = (rows_axis, columns_axis)
        with self.new_matrix(*axes, name, if_exists=if_exists, packed=packed) as (path, changes):
            filling = Filling(changes)
            parts = filling.sparse_matrix(path, shape[1], nnz, index_kind, kind)
            yield parts
            check_filled(parts, shape, nnz, f"{self.location}: matrix {name!r}")
            filling.finish()

    @contextmanager
    def new_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        if_exists: IfExists = "error",
        packed: bool | Packing | None = None,
        flipped: Literal["goes", "follows", "stays"] = "goes",
    ) -> Iterator[tuple[str, TreeTransaction]]:
        """Begin one orientation of a matrix, and put it in place when the block ends well.

        Parameters
        ----------
        flipped
            What becomes of the other orientation of a matrix that is replaced; if it is to follow,
            that must be free as well.
        """
        axes = (rows_axis, columns_axis)
        pairs = list(dict.fromkeys([axes, axes[::-1]]))  # one, if it is square
        path, *other = (layout.matrix_path(*pair, name) for pair in pairs)
        self._check_matrix(*axes, name)
        for pair in pairs if flipped == "follows" else pairs[:1]:
            exists = self.has_matrix(*pair, name, relayout=False)
            what = f"matrix {name!r} of axes {pair[0]!r} and {pair[1]!r}"
            self._check_free(exists, if_exists, what, path=layout.matrix_path(*pair, name))
        with self._change(
            path,
            if_exists=if_exists,
            axes=axes,
            flipped=other[0] if other and flipped != "stays" else None,
            rewrites_flipped=flipped == "follows",
            packed=packed,
        ) as found:
            yield found

    def _check_matrix(self, rows_axis: str, columns_axis: str, name: str) -> tuple[int, int]:
        """Return the shape of a matrix that can have this name."""
        check_name(self.location, "matrix", name)
        return self.axis_length(rows_axis), self.axis_length(columns_axis)


@contextmanager
def new_property(daf: DafWriter, path: str) -> Iterator[TreeTransaction]:
    """Begin a property, and put it in place when the block ends well."""
    tree = daf.writable_tree
    with tree.transaction() as changes:
        yield changes
        with tree.lock():
            changes.publish(path, replace=False)
