"""The part of a writer for vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from daf_storage import errors
from daf_storage.base import (
    NAME_VECTOR,
    AnyArray,
    IfExists,
    Packing,
    StorageType,
)
from daf_storage.data import _layout as layout
from daf_storage.data._axis_writer import AxisWriter
from daf_storage.data._encoding import (
    EmptySparse,
    index_type,
)
from daf_storage.data._new_axis import (
    check_strings,
    check_vector_name,
    given_axis,
    given_vector,
    write_vector,
)
from daf_storage.data._relations import values_without_entry
from daf_storage.data._sparse_inputs import SparseVectorInput
from daf_storage.trees import TreeTransaction


class VectorWriter(AxisWriter):
    """A data set that can be changed: its vectors; see `DafWriter`."""

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
        self._check_vector_name(axis, name)
        stored = given_vector(self.location, given_axis(self, axis), name, value, dtype)
        if empty_is_missing:
            check_strings(self.location, axis, name, stored)
        if entries_of is not None:
            self._check_entries(stored, entries_of, f"vector {name!r} of axis {axis!r}")
        self._check_vector_free(axis, name, if_exists)
        with self._change_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            write_vector(
                changes, path, stored, empty_is_missing=empty_is_missing, entries_of=entries_of
            )

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
        self._check_vector_name(axis, name)
        self._require_axis(axis)
        kind = self._numeric_type(dtype)
        self._check_vector_free(axis, name, if_exists)
        shape = (self.axis_length(axis),)
        with self._change_vector(axis, name, if_exists=if_exists, packed=packed) as (path, changes):
            if changes.packs(shape, kind):
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
        that cannot hold the last position is refused.  They are never packed.
        """
        self._check_vector_name(axis, name)
        self._require_axis(axis)
        length = self.axis_length(axis)
        kind, index_kind = self._numeric_type(dtype), self._index_type(index_dtype, length)
        self._check_vector_free(axis, name, if_exists)
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

    def _check_vector_free(self, axis: str, name: str, if_exists: IfExists) -> None:
        what, path = f"vector {name!r} of axis {axis!r}", layout.vector_path(axis, name)
        self._check_free(self.has_vector(axis, name), if_exists, what, path=path)

    def _change_vector(
        self, axis: str, name: str, *, if_exists: IfExists, packed: bool | Packing | None = None
    ) -> AbstractContextManager[tuple[str, TreeTransaction]]:
        path = layout.vector_path(axis, name)
        return self._change(path, if_exists=if_exists, axes=(axis,), packed=packed)

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

    def _check_vector_name(self, axis: str, name: str) -> None:
        check_vector_name(self.location, axis, name)

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
