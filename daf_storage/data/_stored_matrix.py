"""One stored orientation of a matrix, pinned."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from daf_storage.base import AnyArray, MatrixInfo
from daf_storage.data._convention import Convention, attributes_of
from daf_storage.data._sparse_checks import check_indices, is_colptr, required_array
from daf_storage.data._sparse_parts import ElementRanges, SparseMatrixParts
from daf_storage.data._transpose import transpose_sparse
from daf_storage.errors import CorruptDataError
from daf_storage.trees import Node, StoredArray

_MAX_KEPT_COLUMNS: Final = 1 << 18


class StoredMatrix:
    """One matrix in one stored orientation, pinned.

    The stored columns are those of the matrix, unless ``info.is_row_major``: then they are its
    rows.  `colptr`, `entries`, `dense` and `arrays` are as stored; `sparse_parts` and what
    `DafReader` returns have the orientation of the matrix.
    """

    def __init__(self, info: MatrixInfo, node: Node, *, what: str) -> None:
        self.info = info
        """Its metadata."""
        self._node = node
        self._what = what
        self._colptr: AnyArray | None = None
        self._elements: tuple[StoredArray, ...] | None = None
        self._index_base: int | None = None
        self._filled: frozenset[bool] = frozenset()

    @property
    def node(self) -> Node:
        """The node that it is stored as."""
        return self._node

    @property
    def convention(self) -> Convention | None:
        """How its bytes are to be read, where their type and shape do not say it."""
        return Convention.ROW_MAJOR if self.info.is_row_major else None

    @property
    def identity(self) -> Hashable:
        """What a cache of decoded values goes by; to be asked for before anything is read."""
        return self._node.identity

    @property
    def attributes(self) -> dict[str, str]:
        """What is stored beside the data, to be handed on by whoever writes them elsewhere."""
        return attributes_of(self.convention)

    @property
    def what(self) -> str:
        """The matrix as messages name it."""
        return self._what

    def is_same(self, other: StoredMatrix) -> bool:
        """Return whether another one is the very same stored matrix, not replaced meanwhile."""
        return self._node.is_same(other._node)

    def arrays(self) -> dict[str, StoredArray]:
        """Return the stored arrays by their name below the matrix's; a dense one has none."""
        return stored_arrays(
            self._node, ("colptr", "rowval", "nzval"), self.info.is_sparse, self._what
        )

    def dense(self) -> StoredArray:
        """Return the array of a dense matrix; stored as (columns, rows), or by rows."""
        return required_array(self._node, "", self._what)

    def colptr(self) -> AnyArray:
        """Return where each stored column of a sparse matrix begins, from 0, as int64.

        Short ones are kept, read-only.
        """
        if self._colptr is not None:
            return self._colptr
        nnz = self.entries("rowval").info.size
        stored = check_indices(self._node, "colptr", self.info.shape[1] + 1, self._what).read()
        if not is_colptr(stored, self.info.shape[1], nnz):
            raise CorruptDataError(
                f"{self._what}: colptr does not rise from 1 to {nnz + 1:,} "
                f"over {self.info.shape[1]:,} columns"
            )
        colptr: AnyArray = stored.astype(np.int64)
        colptr -= 1
        if colptr.size <= _MAX_KEPT_COLUMNS:
            colptr.flags.writeable = False
            self._colptr = colptr
        return colptr

    def entries(self, part: str) -> StoredArray:
        """Return the ``rowval``, ``nzval`` or ``colptr`` of a sparse matrix."""
        return required_array(self._node, part, self._what)

    @property
    def indices(self) -> StoredArray:
        """The row number of each stored element of a sparse matrix, from `index_base`."""
        rowval = self.entries("rowval")
        from_zero: StoredArray | None = getattr(rowval, "from_zero", None)  # see `CountedFromZero`
        return rowval if from_zero is None else from_zero

    def element_arrays(self) -> tuple[StoredArray, ...]:
        """Return `indices` of a sparse matrix, and its values if they are stored; found once."""
        if self._elements is None:
            values = [self.entries("nzval")] if self.has_values() else []
            self._elements = (self.indices, *values)
        return self._elements

    @property
    def index_base(self) -> int:
        """What the row numbers of `indices` count from: 1, or 0 in files of others."""
        if self._index_base is None:  # a check of protocols takes long
            self._index_base = 1 - hasattr(self.entries("rowval"), "from_zero")
        return self._index_base

    @property
    def is_ordered(self) -> bool:
        """Whether row numbers ascend within each column, as the format demands.

        Of a file of others nothing warrants it: elements may even be stored twice, and are to be
        added up.  `ordered` returns a matrix in which they are.
        """
        return self.index_base == 1

    def check_stored(self) -> None:
        """Raise if what is stored cannot be the matrix, by the sizes of files alone."""
        for name, array in self.arrays().items():
            array.check_stored(is_complete=name in ("colptr", "rowval"))

    @property
    def is_filled(self) -> bool:
        """Whether `check_filled` would find nothing, or the format has no zeros as row numbers."""
        return self.index_base == 1 or True in self._filled

    def check_filled(self, *, asks_server: bool) -> None:
        """Raise if chunks of row numbers are missing that held more than the fill value; once.

        Zarr leaves out chunks that hold nothing else.  But then no column has that row twice,
        unless a writer stored elements twice, and in no other row for a whole chunk.

        Raises
        ------
        CorruptDataError
            A column would have several elements in one row.
        """
        if asks_server in self._filled or self.info.shape[0] <= 1:  # there is no other row
            return
        unstored = self.indices.unstored_chunks(asks_server=asks_server)
        rows = self.indices.read() if unstored else np.empty(0, np.int64)
        for name, span in unstored:
            same = np.flatnonzero(rows == rows[span.start])
            columns = np.searchsorted(self.colptr(), same, side="right")
            is_twice = columns[1:] == columns[:-1]
            if np.any(is_twice & (same[1:] >= span.start) & (same[:-1] < span.stop)):
                raise CorruptDataError(
                    f"{self._what}: {name} is missing: as it is read, several elements of a row "
                    "or a column are in one place"
                )
        is_known = asks_server or self.indices.info.is_mappable  # of what is mapped, all is
        self._filled |= {is_known, False}

    def has_values(self) -> bool:
        """Return whether a sparse matrix stores its values; if not, all are true (Bool)."""
        return self._node.array("nzval") is not None

    def sparse_parts(self) -> SparseMatrixParts:
        """Return the parts of a sparse matrix, after checking ``colptr``.

        Views of the mapped files; of a matrix that is stored by rows, new arrays with its columns.
        """
        stored = self.parts_as_stored()
        return _transposed(self.colptr(), stored, self._what) if self.info.is_row_major else stored

    def decoded_bytes(self) -> int:
        """Return how much memory the numbers take that are not mapped, once all are read."""
        decoded = (array.info for array in self.arrays().values() if not array.info.is_mappable)
        return sum(info.size * info.storage_type.dtype.itemsize for info in decoded)

    def element_ranges(self) -> tuple[ElementRanges, ElementRanges | None]:
        """Return the row numbers, from 1, and the values, as they are stored, to be sliced.

        Nothing is read before, and what is decoded is not held.
        """
        rowval = self.entries("rowval")
        rowval.check_stored(is_complete=True)
        nzval = ElementRanges(self.entries("nzval")) if self.has_values() else None
        return ElementRanges(rowval), nzval

    def parts_as_stored(self) -> SparseMatrixParts:
        """Return the parts as they are stored: by columns, or by rows if ``info.is_row_major``.

        Row numbers count from 1, also where they are stored otherwise.
        """
        self.colptr()
        stored = self.entries("rowval")
        stored.check_stored(is_complete=True)
        rowval = stored.read()
        nzval = self.entries("nzval").read() if self.has_values() else None
        colptr = self.entries("colptr").read()
        return SparseMatrixParts(self.info.shape, colptr, rowval, nzval)


def _transposed(indptr: AnyArray, stored: SparseMatrixParts, what: str) -> SparseMatrixParts:
    colptr = np.empty_like(stored.colptr)
    rowval = np.empty_like(stored.rowval)
    nzval = None if stored.nzval is None else np.empty_like(stored.nzval)
    transpose_sparse(
        indptr=indptr,
        rowval=stored.rowval,
        nzval=stored.nzval,
        out_colptr=colptr,
        out_rowval=rowval,
        out_nzval=nzval,
        what=what,
    )
    return SparseMatrixParts(stored.shape, colptr, rowval, nzval)


def stored_arrays(
    node: Node,
    parts: tuple[str, ...],
    is_sparse: bool,  # noqa: FBT001 - of two callers
    what: str,
) -> dict[str, StoredArray]:
    """Return the arrays of a property by their name below it; a dense one has none."""
    if not is_sparse:
        return {"": required_array(node, "", what)}
    found = ((part, node.array(part)) for part in parts)
    return {part: array for part, array in found if array is not None}
