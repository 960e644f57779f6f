"""The part of a reader for matrices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import MatrixInfo, name_problem, pandas
from daf_storage.data import _layout as layout
from daf_storage.data._coercion import given_matrix
from daf_storage.data._conversions import numpy_matrix, objects, ordered, scipy_of
from daf_storage.data._stored import SparseMatrixParts, StoredMatrix
from daf_storage.data._vector_reader import REQUIRED, VectorReader

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_Found = TypeVar("_Found")

_LOOKS: Final = 4
"""How often to look for a matrix that a writer may be replacing."""


class MatrixReader(VectorReader):
    """A data set that is open: its scalars, axes, vectors and matrices; see `DafReader`."""

    def matrix_version_counter(self, rows_axis: str, columns_axis: str, name: str) -> int:
        """Return how often a matrix, in either orientation, or one of its axes was changed."""
        first, second = sorted((rows_axis, columns_axis))
        count = self._counters[layout.matrix_path(first, second, name)]
        return count + sum(self.axis_version_counter(axis) for axis in {first, second})

    def matrices_set(self, rows_axis: str, columns_axis: str, *, relayout: bool = True) -> set[str]:
        """Return the names of the matrices of two axes; of this orientation only on request."""
        self._require_axis(rows_axis)
        self._require_axis(columns_axis)
        path = layout.matrices_path(rows_axis, columns_axis)
        names = self._names(path)
        if relayout and rows_axis != columns_axis:
            names |= self._names(layout.matrices_path(columns_axis, rows_axis))
            names |= self._names(path)  # a writer may have replaced one after the other meanwhile
        return names

    def has_matrix(
        self, rows_axis: str, columns_axis: str, name: str, *, relayout: bool = True
    ) -> bool:
        """Return whether there is a matrix; in either orientation unless ``relayout=False``."""
        self._require_axis(rows_axis)
        self._require_axis(columns_axis)
        if name_problem(name) is not None:
            return False
        pairs = [(rows_axis, columns_axis)] + [(columns_axis, rows_axis)] * relayout

        def look() -> bool:
            return any(self._tree.kind(layout.matrix_path(r, c, name)) for r, c in pairs)

        return look() or bool(self._look_again(pairs, look))

    def matrix_axes(self, axis: str, name: str) -> list[str]:
        """Return the other axes of the matrices of a name over an axis, in alphabetical order."""
        axes = sorted(self.axes_set())
        if axis not in axes:
            raise errors.axis_not_found(self.location, axis, axes)
        if name_problem(name) is not None:
            return []
        pairs = {other: [(axis, other), (other, axis)] for other in axes}
        return [
            other
            for other in axes
            if any(self._tree.kind(layout.matrix_path(r, c, name)) for r, c in pairs[other])
        ]

    def matrix_identity(self, rows_axis: str, columns_axis: str, name: str) -> Hashable:
        """Return a value that changes whenever a matrix does, in either orientation."""
        pairs = dict.fromkeys([(rows_axis, columns_axis), (columns_axis, rows_axis)])
        return tuple(
            self._tree.identity(layout.matrix_path(rows, columns, name)) for rows, columns in pairs
        )

    def matrix_info(self, rows_axis: str, columns_axis: str, name: str) -> MatrixInfo:
        """Return the type and the layout of a matrix stored in this orientation.

        Raises
        ------
        MatrixNotFoundError
            There is none in this orientation; the transpose may exist.
        CorruptDataError, UnsupportedDataError
            Its metadata is broken, or its files are missing or truncated.
        """
        stored = self.open_matrix(rows_axis, columns_axis, name)
        stored.check_stored()
        return stored.info

    def open_matrix(self, rows_axis: str, columns_axis: str, name: str) -> StoredMatrix:
        """Return a matrix stored in this orientation, pinned as it is now.

        Raises
        ------
        MatrixNotFoundError
            There is none in this orientation; the transpose may exist.
        """
        found = self.find_matrix(rows_axis, columns_axis, name)
        if found is None:
            known = self.matrices_set(rows_axis, columns_axis, relayout=False)
            raise errors.matrix_not_found(self.location, rows_axis, columns_axis, name, known)
        return found

    def find_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        lengths: Mapping[str, int] | None = None,
    ) -> StoredMatrix | None:
        """Return a matrix stored in this orientation, pinned as it is now; None if there is none.

        Parameters
        ----------
        lengths
            How many entries the axes must have, if that is known; by default they are looked at.
        """
        if lengths is None:
            lengths = {axis: self.axis_length(axis) for axis in (rows_axis, columns_axis)}
        shape = (lengths[rows_axis], lengths[columns_axis])
        if name_problem(name) is not None:
            return None
        return layout.open_matrix(self._tree, rows_axis, columns_axis, name, shape)

    def open_orientations(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        lengths: Mapping[str, int] | None = None,
    ) -> list[StoredMatrix]:
        """Return a matrix in each orientation in which it is stored, pinned as it is now.

        While a writer replaces a matrix there may be one orientation only, and at no moment none;
        this one comes first where both exist.

        Parameters
        ----------
        lengths
            How many entries the axes must have, if that is known; by default they are looked at.

        Raises
        ------
        MatrixNotFoundError
            There is none in either orientation.
        """
        pairs = list(dict.fromkeys([(rows_axis, columns_axis), (columns_axis, rows_axis)]))

        def look() -> list[StoredMatrix]:
            known = lengths or {axis: self.axis_length(axis) for axis in pairs[0]}
            stored = (self.find_matrix(*pair, name, lengths=known) for pair in pairs)
            return [matrix for matrix in stored if matrix is not None]

        stored = look() or self._look_again(pairs, look)
        if not stored:
            known = self.matrices_set(rows_axis, columns_axis)
            raise errors.matrix_not_found(self.location, rows_axis, columns_axis, name, known)
        return stored

    def _look_again(self, pairs: list[tuple[str, str]], look: Callable[[], _Found]) -> _Found:
        """Look for a matrix until nothing changes meanwhile.

        A writer that replaces both orientations takes one away before it puts the other in place:
        whoever looks at them one after the other may find neither.
        """
        paths = [layout.matrices_path(rows, columns) for rows, columns in pairs]
        for _ in range(_LOOKS):
            before = [self._tree.identity(path) for path in paths]
            found = look()
            if found or before == [self._tree.identity(path) for path in paths]:
                return found
        return look()

    def get_np_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        relayout: bool = True,
        default: Any = REQUIRED,
    ) -> Any:
        """Return a whole matrix.

        Returns
        -------
        numpy.ndarray or scipy.sparse.csc_array or scipy.sparse.csr_array
            Shape ``(rows, columns)``.  Dense: a read-only view of the mapped file, Fortran order
            where stored in this orientation, C order where only the transpose is stored.  Sparse:
            CSC, or CSR where only the transpose is stored; values are views, indices are
            copied since they count from 0 here and from 1 in the file.  A matrix of an axis with
            itself that was imported from AnnData is stored by rows: C order, or CSR.

        Raises
        ------
        MatrixNotFoundError
            There is none, and no ``default``; with ``relayout=False`` the transpose does not count.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> daf.get_np_matrix("gene", "cell", "UMIs").tolist()
        [[0, 2, 4], [1, 3, 5]]
        >>> daf.get_np_matrix("cell", "gene", "counts", default=None) is None
        True
        """
        if default is not REQUIRED and not self.has_matrix(
            rows_axis, columns_axis, name, relayout=relayout
        ):
            return self._default_matrix(rows_axis, columns_axis, name, default)
        if not relayout:
            return self._matrix_values(self.open_matrix(rows_axis, columns_axis, name))
        stored = self.open_orientations(rows_axis, columns_axis, name)[0]
        is_flipped = stored.info.rows_axis != rows_axis
        return self._matrix_values(stored).T if is_flipped else self._matrix_values(stored)

    def get_pd_matrix(self, rows_axis: str, columns_axis: str, name: str) -> pd.DataFrame:
        """Return a whole matrix as a pandas DataFrame with both axes' entries as labels.

        A sparse matrix becomes a frame of pandas' sparse columns.
        """
        values = self.get_np_matrix(rows_axis, columns_axis, name)
        labels = {"index": self.axis_entries(rows_axis), "columns": self.axis_entries(columns_axis)}
        frame: pd.DataFrame
        if sp.issparse(values):
            frame = pandas().DataFrame.sparse.from_spmatrix(values, **labels)
        else:
            frame = pandas().DataFrame(values, **labels)
        return frame

    def get_sparse_matrix(self, rows_axis: str, columns_axis: str, name: str) -> SparseMatrixParts:
        """Return the parts of a sparse matrix of this orientation, views of the mapped files.

        New arrays for a matrix that is stored by rows, as those of an axis with itself are that
        were imported from AnnData (``matrix_info(...).is_row_major``).
        """
        stored = self.open_matrix(rows_axis, columns_axis, name)
        if not stored.info.is_sparse:
            raise errors.InvalidInputError(
                f"{self.location}: matrix {name!r} of axes {rows_axis!r} and {columns_axis!r} is "
                "stored densely; read it with get_np_matrix"
            )
        return ordered(stored).sparse_parts()

    def _matrix_values(self, stored: StoredMatrix) -> Any:
        if stored.info.is_sparse:
            return scipy_of(ordered(stored))
        array = stored.dense()
        if array.info.storage_type.is_string:
            values: Any = objects(array.read_strings()).reshape(array.info.shape)
        else:
            values = array.read()
        return values if stored.info.is_row_major else values.T

    def _default_matrix(self, rows_axis: str, columns_axis: str, name: str, default: Any) -> Any:
        if default is None:
            return None
        rows, columns = self.given_axis(rows_axis), self.given_axis(columns_axis)
        called = "the default for matrix"
        return numpy_matrix(
            given_matrix(self.location, rows, columns, name, default, called=called)
        )
