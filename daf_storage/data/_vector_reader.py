"""The part of a reader for vectors."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import (
    INDEX_VECTOR,
    NAME_VECTOR,
    RESERVED_VECTORS,
    AnyArray,
    Span,
    StorageType,
    VectorInfo,
    name_problem,
    pandas,
)
from daf_storage.data import _layout as layout
from daf_storage.data._conversions import (
    arrow_of,
    default_vector,
    objects,
)
from daf_storage.data._layout import (
    StoredVector,
)
from daf_storage.data._sparse_parts import SparseVectorParts
from daf_storage.trees import StoredArray

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")
    pc = lazy_module("pyarrow.compute")
from daf_storage.data._axis_reader import REQUIRED, AxisReader


class VectorReader(AxisReader):
    """A data set that is open: its vectors; see `DafReader`."""

    def vector_version_counter(self, axis: str, name: str) -> int:
        """Return how often a vector, or its axis, was changed through this object; as for axes."""
        return self._counters[layout.vector_path(axis, name)] + self.axis_version_counter(axis)

    def vectors_set(self, axis: str) -> set[str]:
        """Return the names of an axis's vectors, without the reserved ``name`` and ``index``."""
        self._require_axis(axis)
        return self._names(layout.vectors_path(axis))

    def has_vector(self, axis: str, name: str) -> bool:
        """Return whether an axis has a vector; true for ``name`` and ``index``."""
        self._require_axis(axis)
        if name in RESERVED_VECTORS:
            return True
        return (
            name_problem(name) is None
            and self._tree.kind(layout.vector_path(axis, name)) is not None
        )

    def vector_info(self, axis: str, name: str) -> VectorInfo:
        """Return the type and the layout of a vector; reads metadata and sizes of files only.

        Raises
        ------
        VectorNotFoundError
            There is none of this name.
        CorruptDataError, UnsupportedDataError
            Its metadata is broken, or its files are missing or truncated.
        """
        if name in RESERVED_VECTORS:
            kind = StorageType.STRING if name == NAME_VECTOR else StorageType.INT64
            length = self.axis_length(axis)
            return VectorInfo(axis, name, kind, length, False, max(length, 1))  # noqa: FBT003 - fields in their order
        stored = self.open_vector(axis, name)
        stored.check_stored()
        return stored.info

    def vector_infos(
        self, axis: str, *, length: int | None = None, among: Collection[str] | None = None
    ) -> Iterator[tuple[str, VectorInfo | errors.DafError]]:
        """Yield what `vector_info` says of each vector of an axis, in alphabetical order.

        Where it raises, the error is yielded.  The axis is looked at once, not for each.

        Parameters
        ----------
        length
            How many entries the axis has, if that has just been looked at.
        among
            The only names that are looked for; by default all vectors are listed.
        """
        for name, found in self.open_vectors(axis, length=length, among=among):
            yield name, found if isinstance(found, errors.DafError) else found.info

    def open_vectors(
        self, axis: str, *, length: int | None = None, among: Collection[str] | None = None
    ) -> Iterator[tuple[str, StoredVector | errors.DafError]]:
        """Yield what `open_vector` returns for each vector of an axis, in alphabetical order.

        Where `vector_info` raises, the error is yielded.

        Parameters
        ----------
        length
            How many entries the axis has, if that has just been looked at.
        among
            The only names that are looked for; by default all vectors are listed.
        """
        length = self.axis_length(axis) if length is None else length
        names = self.vectors_set(axis) if among is None else set(among).difference(RESERVED_VECTORS)
        for name in sorted(names):
            try:
                stored = self._find_vector(axis, name, length)
                if stored is None and among is not None:
                    continue
                if stored is None:
                    raise self._vector_not_found(axis, name)
                stored.check_stored()
            except errors.DafError as error:
                yield name, error
            else:
                yield name, stored

    def open_vector(self, axis: str, name: str, *, length: int | None = None) -> StoredVector:
        """Return a vector pinned as it is now, to be read in parts.

        Parameters
        ----------
        length
            How many entries it must have, if that is known; by default the axis is looked at.

        Raises
        ------
        VectorNotFoundError
            There is none of this name, or it is one of the reserved ones.
        CorruptDataError, UnsupportedDataError
            Its metadata is broken or its type is not one of Daf's.
        """
        return self._open_vector(axis, name, self.axis_length(axis) if length is None else length)

    def _open_vector(self, axis: str, name: str, length: int) -> StoredVector:
        found = self._find_vector(axis, name, length)
        if found is None:
            raise self._vector_not_found(axis, name)
        return found

    def _find_vector(self, axis: str, name: str, length: int) -> StoredVector | None:
        if name_problem(name) is not None:
            return None
        return layout.open_vector(self._tree, axis, name, length)

    def _vector_not_found(self, axis: str, name: str) -> errors.VectorNotFoundError:
        return errors.vector_not_found(self.location, axis, name, self.vectors_set(axis))

    def get_np_vector(self, axis: str, name: str, *, default: Any = REQUIRED) -> AnyArray:
        """Return a vector as numpy.

        Parameters
        ----------
        default
            What to return if there is no such vector: None, a scalar to fill the length with, or
            an array of that length.

        Returns
        -------
        numpy.ndarray
            Shape ``(axis length,)``.  Dense numeric vectors are read-only views of the mapped
            file, valid as long as they are referred to; sparse ones are expanded into a new
            array; strings are ``str`` objects.

        Raises
        ------
        VectorNotFoundError, AxisNotFoundError
            There is none and no ``default`` was given; the axis must always exist.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.get_np_vector("cell", "age").tolist()
        [30, 60, 90]
        >>> daf.get_np_vector("cell", "sex", default="unknown").tolist()
        ['unknown', 'unknown', 'unknown']
        """
        if default is not REQUIRED and not self.has_vector(axis, name):
            filled: AnyArray = self._default_vector(axis, name, default)
            return filled
        if name == NAME_VECTOR:
            return self.axis_entries(axis)
        if name == INDEX_VECTOR:
            return np.arange(self.axis_length(axis))
        stored = self.open_vector(axis, name)
        if stored.info.storage_type.is_string:
            return objects(self._strings(stored))
        return stored.read(Span(0, stored.info.length))

    def get_pa_vector(self, axis: str, name: str) -> pa.Array:
        """Return a vector as Arrow.

        Returns
        -------
        pyarrow.Array
            Dense numbers lie in the mapped file itself, without a copy.  Strings are decoded
            straight into Arrow.  Bool is copied, since Arrow packs eight to a byte, and so are
            sparse vectors.  NaN stays NaN.
        """
        if name == NAME_VECTOR:
            return self._entries(axis)
        if name == INDEX_VECTOR:
            return pa.array(np.arange(self.axis_length(axis)))
        stored = self.open_vector(axis, name)
        if stored.info.storage_type.is_string:
            return self._strings(stored)
        return arrow_of(stored.read(Span(0, stored.info.length)))

    def get_pd_vector(self, axis: str, name: str) -> pd.Series[Any]:
        """Return a vector as a pandas Series whose index is the axis entries."""
        values = self.get_np_vector(axis, name)
        series: pd.Series[Any] = pandas().Series(values, index=self.axis_entries(axis), name=name)
        return series

    def get_sparse_vector(self, axis: str, name: str) -> SparseVectorParts:
        """Return the parts of a sparse vector as they lie in the mapped files."""
        stored = self.open_vector(axis, name)
        if not stored.info.is_sparse:
            raise errors.InvalidInputError(
                f"{self.location}: vector {name!r} of axis {axis!r} is stored densely; "
                "read it with get_np_vector"
            )
        return stored.sparse_parts()

    def string_array(self, axis: str, name: str) -> StoredArray:
        """Return the stored array of a vector of strings, or of the entries (``name``), pinned."""
        if name == NAME_VECTOR:
            return self._axis_array(axis, self._axis_node(axis))
        return self.open_vector(axis, name).string_array()

    def vector_identity(self, axis: str, name: str) -> Hashable:
        """Return a value that changes whenever a vector does, or the entries (``name``)."""
        is_name = name == NAME_VECTOR
        return self._tree.identity(
            layout.axis_path(axis) if is_name else layout.vector_path(axis, name)
        )

    def _strings(self, stored: StoredVector) -> Any:
        key = (stored.info.axis, stored.info.name)
        return self._decoded.get(key, stored.identity, stored.read_strings)

    def known_strings(self, stored: StoredVector) -> Any:
        """Return all elements of a pinned vector of strings if they are remembered, or None."""
        return self._decoded.peek((stored.info.axis, stored.info.name), stored.identity)

    def _default_vector(self, axis: str, name: str, default: Any) -> Any:
        if default is None:
            return None
        length = self.axis_length(axis)
        what = f"the default for vector {name!r}"
        found = default_vector(default, length=length, what=f"{self.location}: {what}")
        if len(found) != length:
            raise errors.wrong_length(self.location, what, len(found), axis, length)
        self.check_labels(axis, getattr(default, "index", None), what)
        return found
