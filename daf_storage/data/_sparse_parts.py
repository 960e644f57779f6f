"""The arrays of which sparse vectors and matrices consist."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.data._sparse_checks import (
    check_indices,
    check_sparse_vector,
    is_colptr,
    required_array,
)
from daf_storage.errors import CorruptDataError
from daf_storage.trees import ArrayInfo, Node, NodeKind, StoredArray


class SparseVectorParts:
    """A sparse vector as stored: views of the mapped files, indices counting from 1.

    The views are read-only and valid as long as they are referred to.
    """

    def __init__(self, length: int, nzind: AnyArray, nzval: AnyArray | None) -> None:
        self.length = length
        """Number of elements, zeros included."""
        self.nzind = nzind
        """Positions of the stored elements, ascending, the first position being 1."""
        self.nzval = nzval
        """The stored elements; None where all are true (Bool)."""

    def to_dense(self, span: Span) -> AnyArray:
        """Return the elements of ``span`` with their zeros, as a new array."""
        bounds = np.searchsorted(self.nzind, np.array([span.start, span.stop], np.int64) + 1)
        stored = slice(int(bounds[0]), int(bounds[1]))
        values = True if self.nzval is None else self.nzval[stored]
        dense = np.zeros(span.size, dtype=bool if self.nzval is None else self.nzval.dtype)
        dense[self.nzind[stored].astype(np.int64) - (1 + span.start)] = values
        return dense


class SparseMatrixParts:
    """A sparse matrix as stored (CSC): views of the mapped files, indices counting from 1.

    Column ``j`` (from 0) has its row numbers in ``rowval[colptr[j] - 1 : colptr[j + 1] - 1]`` and
    its values at the same places of ``nzval``.  The views are read-only and valid as long as they
    are referred to.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        colptr: AnyArray,
        rowval: AnyArray,
        nzval: AnyArray | None,
    ) -> None:
        self.shape = shape
        """Numbers of rows and of columns."""
        self.colptr = colptr
        """Where each column begins, counted from 1; one more than there are columns."""
        self.rowval = rowval
        """Row numbers from 1, ascending within each column."""
        self.nzval = nzval
        """The stored elements; None where all are true (Bool)."""


class ElementRanges:
    """All row numbers or values of a sparse matrix, read where they are sliced."""

    def __init__(self, array: StoredArray) -> None:
        self._array = array
        self.size = array.info.size
        """How many there are."""

    def __getitem__(self, part: slice) -> AnyArray:
        return self._array.read_rows(Span(part.start, min(part.stop, self.size)))


class SparseStrings(StoredArray):
    """Strings of which only those that are not empty are stored, presented as a dense array.

    HDF5 files have them; see `StoredArray` for the members.
    """

    def __init__(self, node: Node, shape: tuple[int, ...], *, what: str) -> None:
        self.info = ArrayInfo(shape, StorageType.STRING, shape, is_mappable=False)
        self._node = node
        self._what = what

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, the empty ones too, flattened in C order."""
        stored = required_array(self._node, "nztxt", self._what)
        if len(stored.info.shape) != 1 or not stored.info.storage_type.is_string:
            raise CorruptDataError(f"{self._what}: nztxt is not a list of strings")
        if stored.info.size > self.info.size:
            raise CorruptDataError(
                f"{self._what}: nztxt has {stored.info.size:,} strings, but the shape "
                f"{list(self.info.shape)} has no room for so many"
            )
        stored.check_stored(is_complete=True)
        stored_strings = stored.read_strings()
        places = self._places(len(stored_strings))
        picks = np.full(self.info.size, len(stored_strings), dtype=np.int64)
        picks[places] = np.arange(len(stored_strings))
        return pa.concat_arrays([stored_strings, pa.array([""], stored_strings.type)]).take(
            pa.array(picks)
        )

    def _places(self, count: int) -> AnyArray:
        """Return where the stored strings belong, counted from 0, after checking it."""
        if len(self.info.shape) == 1:
            nzind = check_indices(self._node, "nzind", count, self._what).read()
            check_sparse_vector(self.info.size, nzind, what=self._what)
            return nzind.astype(np.int64) - 1
        n_columns, n_rows = self.info.shape
        colptr = check_indices(self._node, "colptr", n_columns + 1, self._what).read()
        rows = check_indices(self._node, "rowval", count, self._what).read().astype(np.int64) - 1
        if not is_colptr(colptr, n_columns, count):
            raise CorruptDataError(f"{self._what}: colptr, rowval and nztxt do not fit together")
        if count and (rows.min() < 0 or rows.max() >= n_rows):
            raise CorruptDataError(f"{self._what}: a row number is outside 1 to {n_rows:,}")
        lengths: AnyArray = np.diff(colptr.astype(np.int64))
        columns = np.repeat(np.arange(n_columns), lengths)
        return columns * n_rows + rows


class PartsNode:
    """A node whose arrays are others than those that are stored; see `Node`."""

    def __init__(self, node: Node, arrays: Mapping[str, StoredArray]) -> None:
        self._node = node
        self._arrays = arrays

    @property
    def kind(self) -> NodeKind:
        """Whether it is an array or a group of some."""
        return "array" if "" in self._arrays else "group"

    @property
    def identity(self) -> Hashable:
        """What a cache goes by."""
        return ("parts", self._node.identity)

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, PartsNode) and self.identity == other.identity

    def array(self, name: str = "") -> StoredArray | None:
        """Return this array, or one of the parts."""
        return self._arrays.get(name)

    def attribute(self, name: str) -> Any:
        """Return an attribute of the stored node; None if it has none of this name."""
        return self._node.attribute(name)
