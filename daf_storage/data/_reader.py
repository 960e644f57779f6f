"""The reader of a Daf data set: every rule common to the formats, once.

`DafReader` answers questions about scalars, axes, vectors and matrices of any `Tree`.  It reads
metadata when asked and data when needed, keeps nothing open, and hands out views of mapped files
that stay valid as long as they are referred to.  Here are also stored values as numpy and scipy
have them.
"""

from __future__ import annotations

import enum
import itertools
import os
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage.base import (
    INDEX_VECTOR,
    NAME_VECTOR,
    RESERVED_VECTORS,
    AnyArray,
    DecodedCache,
    MatrixInfo,
    Span,
    StorageType,
    VectorInfo,
    arrow_of,
    column_blocks,
    first_duplicate,
    name_problem,
    pandas,
)
from daf_storage.data import _layout as layout
from daf_storage.data import _summary as summaries
from daf_storage.data._coercion import (
    GivenAxis,
    MatrixInput,
    SparseVectorParts,
    StringMatrixInput,
    VectorInput,
    arrow_strings,
    given_matrix,
    given_vector,
)
from daf_storage.data._entries import positions_among
from daf_storage.data._layout import (
    Relation,
    StoredMatrix,
    StoredVector,
    checked_indices,
    relations_of,
    with_arrays,
)
from daf_storage.display import PreviewBudget, html_page
from daf_storage.trees import Node, Remarked, StoredArray, Tree, memory_array

if TYPE_CHECKING:
    import pandas as pd


def number_strings(values: AnyArray) -> pa.Array:
    """Return numbers as strings, as they are where strings and numbers have to become one type.

    >>> number_strings(np.array([1.5, 2.0])).tolist(), number_strings(np.array([True])).tolist()
    (['1.5', '2.0'], ['true'])
    """
    if values.dtype == np.bool_:
        return pa.array(["false", "true"]).take(arrow_of(values).cast(pa.int8()))
    return pa.array(values.astype(str), pa.string())


def is_same_scalar(one: object, other: object) -> bool:
    """Return whether two scalars have the same type and value; NaN is equal to itself.

    >>> pairs = (np.nan, np.nan), (1, 1), (np.nan, 1.0), (1, 1.0), (1, 2)
    >>> [is_same_scalar(*pair) for pair in pairs]
    [True, True, False, False, False]
    """
    return type(one) is type(other) and bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def scipy_of(stored: StoredMatrix) -> Any:
    """Return a stored sparse matrix as ``csc_array``, or ``csr_array``; values are views."""
    shape, colptr = stored.info.shape, stored.colptr()
    stored.indices.check_stored(is_complete=stored.index_base == 1)
    rows = checked_indices(stored, stored.indices.read())
    indices = rows - rows.dtype.type(1) if stored.index_base else rows
    values = stored.entries("nzval").read() if stored.has_values() else np.ones(rows.size, bool)
    index_type = scipy_index_dtype(max(*shape, rows.size))
    matrix: Any = sp.csc_array(shape, dtype=values.dtype)
    matrix.data, matrix.indices = values, indices.astype(index_type, copy=False)
    matrix.indptr = colptr.astype(index_type)
    return matrix.T if stored.info.is_row_major else matrix


def scipy_index_dtype(largest: int) -> type[np.int32 | np.int64]:
    """Return the integers of all indices of a sparse matrix of scipy.

    Examples
    --------
    >>> scipy_index_dtype(2**31 - 1), scipy_index_dtype(2**31)
    (<class 'numpy.int32'>, <class 'numpy.int64'>)
    """
    return np.int32 if largest < 2**31 else np.int64


def numpy_vector(value: VectorInput) -> AnyArray:
    """Return a vector that a caller gave as numpy; strings as objects."""
    if isinstance(value, SparseVectorParts):
        return value.to_dense(Span(0, value.length))
    return value if isinstance(value, np.ndarray) else objects(value)


def numpy_matrix(value: MatrixInput) -> Any:
    """Return a matrix that a caller gave as numpy, strings as objects, or as scipy's."""
    if isinstance(value, StringMatrixInput):
        return objects(value.strings).reshape(value.shape, order="F")
    if sp.issparse(value):
        return value
    is_zero = value.strides == (0, 0) and value.size and not value[0, 0]
    return sp.csc_array(value.shape, dtype=value.dtype) if is_zero else value


def objects(strings: Any) -> npt.NDArray[np.object_]:
    """Return Arrow strings as an array of ``str`` objects."""
    found: npt.NDArray[np.object_] = strings.to_numpy(zero_copy_only=False)
    return found.astype(object, copy=False)


def integer_positions(requested: Any, where: str) -> npt.NDArray[np.int64]:
    """Return positions as 64-bit integers; fractions, masks and strings are errors.

    >>> integer_positions([2, 0], "indices=")
    array([2, 0])
    """
    positions = np.asarray(requested)
    if positions.size and positions.dtype.kind not in "iu":
        raise errors.InvalidInputError(
            f"{where} holds {positions.dtype} values; pass positions (integers), for a mask "
            "those of numpy.flatnonzero(mask)"
        )
    too_large = np.iinfo(np.int64).max
    if positions.dtype == np.uint64:  # beyond int64 is beyond every axis
        positions = np.minimum(positions, np.uint64(too_large))
    return positions.astype(np.int64)


_BLOCK_ELEMENTS: Final = 1 << 22


def ordered(stored: StoredMatrix) -> StoredMatrix:
    """Return a matrix whose row numbers ascend within each column, each occurring once.

    The stored one, if it is so: of a file of another program all row numbers are read.  Else one in
    memory, in which elements stored twice are added up, as scipy does.

    Raises
    ------
    CorruptDataError
        A row number leaves its axis, or a chunk of row numbers is missing.
    """
    if not stored.info.is_sparse or stored.is_ordered:
        return stored
    return stored if _is_in_order(stored) else _in_memory(stored)


def _is_in_order(stored: StoredMatrix) -> bool:
    """Return whether the row numbers ascend within each column; reads them in blocks."""
    colptr, indices = stored.colptr(), stored.indices
    for span in column_blocks(colptr, max_elements=_BLOCK_ELEMENTS):
        start, stop = int(colptr[span.start]), int(colptr[span.stop])
        rows = checked_indices(stored, indices.read_rows(Span(start, stop)))
        if not ascend(rows, colptr[span.start : span.stop + 1] - start):
            return False
    return True


def ascend(rows: AnyArray, pointers: AnyArray) -> bool:
    """Return whether row numbers ascend within each column, given where the columns begin.

    >>> ascend(np.array([1, 3, 0, 2]), np.array([0, 2, 2, 4]))
    True
    >>> ascend(np.array([1, 1]), np.array([0, 2])), ascend(np.array([1, 1]), np.array([0, 1, 2]))
    (False, True)
    """
    rises = rows[1:] > rows[:-1]
    borders = pointers[1:-1] - 1
    rises[borders[(borders >= 0) & (borders < rises.size)]] = True
    return bool(rises.all())


def _in_memory(stored: StoredMatrix) -> StoredMatrix:
    """Return the matrix with its elements in order, in memory."""
    matrix = scipy_of(stored).copy()
    matrix.sum_duplicates()
    index_dtype = stored.entries("rowval").info.storage_type.dtype
    parts = {
        "colptr": (matrix.indptr.astype(np.int64) + 1).astype(index_dtype),
        "rowval": (matrix.indices.astype(np.int64) + 1).astype(index_dtype),
        "nzval": matrix.data,
    }
    node = with_arrays(stored.node, {name: memory_array(part) for name, part in parts.items()})
    return StoredMatrix(replace(stored.info, nnz=int(matrix.nnz)), node, what=stored.what)


class _Required(enum.Enum):
    """The type of the default that says: it must exist."""

    REQUIRED = "required"

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required.REQUIRED
"""Default of every ``default=``: the property must exist."""


_MAX_ENTRIES: Final = 1 << 40

_LOOKS: Final = 4
"""How often to look for a matrix: a reader that looks while a writer replaces both orientations may
miss one that is not there yet, and then the other, which is gone by then."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How a data set can be opened again for reading, in this process or another."""

    open_again: Callable[[str], DafReader]
    """Opens a path for reading."""
    path: str
    """An absolute path, or a URL."""
    name: str
    """The name of the data set."""
    inode: tuple[int, int] | None = None
    """That of the file which was opened here; None of what is no file, and elsewhere."""

    def open(self) -> DafReader:
        """Open it again, by the same name."""
        reader = self.open_again(self.path)
        reader.rename(self.name)
        return reader


def is_in_place(daf: DafReader) -> bool:
    """Return whether a data set is the file of another format, which is read and never written."""
    return isinstance(daf.tree, Remarked)


def writing_remedy(daf: DafReader) -> str:
    """Return what to do in order to write, where a data set is open for reading."""
    if is_in_place(daf):
        return (
            "it is read in place and never written; write beside it: "
            f'connect({daf.location!r}, overlay="mine.daf.zarr"), or import it into a data set of '
            f"its own: daf import {errors.in_shell(daf.location)} OUT.daf.zarr"
        )
    return daf.how_to_write


def check_reader(value: object, function: str) -> None:
    """Refuse a path, or anything else, where an open data set is asked for."""
    if isinstance(value, DafReader):
        return
    is_path = isinstance(value, str | os.PathLike)
    raise errors.InvalidInputError(
        f"{function} takes an open data set, not {value!r}; "
        + (f"pass open_daf({str(value)!r})" if is_path else "open one with open_daf")
    )


class DafReader:
    """A Daf data set that can be read.

    Do not construct it; `open_daf`, `ZarrDaf` and `MemoryDaf` return one (or a writer, which can
    do all of this too).  It is safe to use from several threads.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> daf.get_np_vector("cell", "age").tolist()
    [30, 60]
    """

    how_to_write: ClassVar[str] = (
        "it was opened for reading; open it with mode 'r+' to change it: open_daf(path, 'r+'), or "
        "connect(path, mode='r+')"
    )
    """What messages advise where it was to be written."""

    is_writable: ClassVar[bool] = False
    """Whether this object can change the data set."""

    origin: Origin | None = None
    """How it can be opened again; None if it is in memory."""

    def __init__(
        self,
        tree: Tree,
        *,
        name: str,
        on_close: Callable[[], None] | None = None,
        members: Sequence[DafReader] = (),
        counters: Counter[str] | None = None,
    ) -> None:
        self._tree = tree
        self._name = name
        self.members = tuple(members)
        """The data sets that it shows, as long as they are open; none of one that is stored."""
        self._is_closed = False
        self._decoded = DecodedCache()
        self._counters: Counter[str] = Counter() if counters is None else counters
        self._release = None if on_close is None else weakref.finalize(self, on_close)

    @property
    def name(self) -> str:
        """The name of the data set: as given, else its scalar ``name``, else its full path."""
        return self._name

    @property
    def tree(self) -> Tree:
        """The groups and arrays in which the data set is stored."""
        return self._tree

    @property
    def location(self) -> str:
        """The path or other place that messages name."""
        return self._tree.location

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def rename(self, name: str) -> None:
        """Call this object by another name; the stored data does not change."""
        self._name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further use; arrays handed out earlier stay valid.  May be called twice."""
        self._is_closed = True
        self._decoded.clear()
        if self._release is not None:
            self._release()

    def scalars_set(self) -> set[str]:
        """Return the names of the scalars."""
        return self._names(layout.SCALARS)

    def has_scalar(self, name: str) -> bool:
        """Return whether there is a scalar of this name."""
        return self._kind(layout.scalar_path, name) is not None

    def scalar_type(self, name: str) -> StorageType:
        """Return the stored type of a scalar."""
        return self._scalar(name).info.storage_type

    def get_scalar(self, name: str, *, default: Any = REQUIRED) -> Any:
        """Return a scalar as ``bool``, ``int``, ``float`` or ``str``.

        Raises
        ------
        ScalarNotFoundError
            There is none and no ``default`` was given.
        """
        if default is not REQUIRED and not self.has_scalar(name):
            return default
        array = self._scalar(name)
        if array.info.size != 1:
            raise errors.CorruptDataError(
                f"{self.location}: scalar {name!r} has {array.info.size} elements instead of one"
            )
        if array.info.storage_type.is_string:
            return array.read_strings()[0].as_py()
        return array.read().reshape(-1)[0].item()

    def axes_set(self) -> set[str]:
        """Return the names of the axes."""
        return self._names(layout.AXES)

    def has_axis(self, axis: str) -> bool:
        """Return whether there is an axis of this name."""
        return self._kind(layout.axis_path, axis) is not None

    def axis_length(self, axis: str) -> int:
        """Return the number of entries of an axis; reads metadata only."""
        return self._axis_array(axis, self._axis_node(axis)).info.shape[0]

    def axis_version_counter(self, axis: str) -> int:
        """Return how often an axis was set, reordered or deleted through this object."""
        return self._counters[layout.axis_path(axis)]

    def axis_identity(self, axis: str) -> Hashable:
        """Return a value that changes whenever a vector of the axis is set or deleted.

        Or its metadata, or the entries, are rewritten in place by another program.
        """
        self._check_open()
        return (
            self._tree.identity(layout.axis_path(axis)),
            self._tree.listing_identity(layout.vectors_path(axis)),
        )

    def _names(self, path: str) -> set[str]:
        self._check_open()
        return set(self._tree.children(path))

    def _kind(self, path_of: Callable[..., str], *names: str) -> str | None:
        self._check_open()
        return None if any(map(name_problem, names)) else self._tree.kind(path_of(*names))

    def _check_open(self) -> None:
        if self._is_closed:
            raise errors.InvalidInputError(
                f"{self.location}: the data set was closed; open it again"
            )
        for member in self.members:
            member._check_open()  # noqa: SLF001 - of the same class

    def _require_axes(self, *axes: str) -> None:
        for axis in axes:
            if not self.has_axis(axis):
                raise errors.axis_not_found(self.location, axis, self.axes_set())

    def _scalar(self, name: str) -> StoredArray:
        is_there, path = self.has_scalar(name), layout.scalar_path(name)
        array = layout.open_array(self._tree, path) if is_there else None
        if array is None:
            raise errors.scalar_not_found(self.location, name, self.scalars_set())
        return array

    def _axis_node(self, axis: str) -> Node:
        self._check_open()
        node = None if name_problem(axis) else self._tree.node(layout.axis_path(axis))
        if node is None:
            raise errors.axis_not_found(self.location, axis, self.axes_set())
        return node

    def _axis_array(self, axis: str, node: Node) -> StoredArray:
        array = node.array()
        if array is None or len(array.info.shape) != 1 or not array.info.storage_type.is_string:
            raise errors.CorruptDataError(
                f"{self.location}: axis {axis!r} is not stored as a list of strings"
            )
        if array.info.size > _MAX_ENTRIES:
            raise errors.CorruptDataError(
                f"{self.location}: axis {axis!r} is said to have {array.info.size:,} entries"
            )
        array.check_stored(is_complete=True)
        return array

    def _entries(self, axis: str) -> Any:
        node = self._axis_node(axis)

        def read() -> pa.Array:
            array = self._axis_array(axis, node)
            entries = array.read_strings()
            has_unique = getattr(array, "has_unique_strings", False)
            twice = None if has_unique else first_duplicate(entries)
            if twice is not None:
                raise errors.CorruptDataError(
                    f"{self.location}: axis {axis!r} is corrupt: its entry {twice!r} occurs more "
                    "than once"
                )
            return entries

        return self._decoded.get((axis,), node.identity, read)

    def cached_entries(self, axis: str) -> Any:
        """Return the entries of an axis if they are remembered, or None."""
        return self._decoded.peek((axis,), self._axis_node(axis).identity)

    def check_labels(self, axis: str, labels: Any, what: str) -> None:
        """Raise ``LabelsError`` if a pandas index is given and is not the axis entries.

        A plain ``RangeIndex`` counts as no labels.
        """
        self.given_axis(axis).check_labels(labels, what)

    # Vectors

    def vector_version_counter(self, axis: str, name: str) -> int:
        """Return how often a vector, or its axis, was changed through this object; as for axes."""
        return self._counters[layout.vector_path(axis, name)] + self.axis_version_counter(axis)

    def vectors_set(self, axis: str) -> set[str]:
        """Return the names of an axis's vectors, without the reserved ``name`` and ``index``."""
        self._require_axes(axis)
        return self._names(layout.vectors_path(axis))

    def has_vector(self, axis: str, name: str) -> bool:
        """Return whether an axis has a vector; true for ``name`` and ``index``."""
        self._require_axes(axis)
        return name in RESERVED_VECTORS or self._kind(layout.vector_path, axis, name) is not None

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

    def vector_infos(self, axis: str) -> Iterator[tuple[str, VectorInfo | errors.DafError]]:
        """Yield what `vector_info` says of each vector of an axis, in alphabetical order.

        Where it raises, the error is yielded.  The axis is looked at once, not for each.
        """
        for name, found in self.open_vectors(axis):
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
                stored = layout.open_vector(self._tree, axis, name, length)
                if stored is None:
                    continue
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
        length = self.axis_length(axis) if length is None else length
        found = layout.open_vector(self._tree, axis, name, length)
        if found is None:
            raise errors.vector_not_found(self.location, axis, name, self.vectors_set(axis))
        return found

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
        values = self._values(axis, name)
        return values if isinstance(values, np.ndarray) else objects(values)

    def get_pa_vector(self, axis: str, name: str) -> pa.Array:
        """Return a vector as Arrow.

        Returns
        -------
        pyarrow.Array
            Dense numbers lie in the mapped file itself, without a copy.  Strings are decoded
            straight into Arrow.  Bool is copied, since Arrow packs eight to a byte, and so are
            sparse vectors.  NaN stays NaN.
        """
        values = self._values(axis, name)
        return arrow_of(values) if isinstance(values, np.ndarray) else values

    def _values(self, axis: str, name: str) -> AnyArray | pa.Array:
        """Return a vector of numbers as numpy, one of strings as Arrow."""
        if name == NAME_VECTOR:
            return self._entries(axis)
        if name == INDEX_VECTOR:
            return np.arange(self.axis_length(axis))
        stored = self.open_vector(axis, name)
        if stored.info.storage_type.is_string:
            key = (axis, name)
            return self._decoded.get(key, stored.identity, stored.read_strings)
        return stored.read(Span(0, stored.info.length))

    def string_array(self, axis: str, name: str) -> StoredArray:
        """Return the stored array of a vector of strings, or of the entries (``name``), pinned."""
        if name == NAME_VECTOR:
            return self._axis_array(axis, self._axis_node(axis))
        return self.open_vector(axis, name).dense()

    def vector_identity(self, axis: str, name: str) -> Hashable:
        """Return a value that changes whenever a vector does, or the entries (``name``)."""
        is_name = name == NAME_VECTOR
        return self._tree.identity(
            layout.axis_path(axis) if is_name else layout.vector_path(axis, name)
        )

    def _default_vector(self, axis: str, name: str, default: Any) -> Any:
        if default is None:
            return None
        given, called = self.given_axis(axis), "the default for vector"
        return numpy_vector(given_vector(given, name, default, called=called))

    def cached_strings(self, stored: StoredVector) -> Any:
        """Return all elements of a pinned vector of strings if they are remembered, or None."""
        return self._decoded.peek((stored.info.axis, stored.info.name), stored.identity)

    def given_axis(self, axis: str) -> GivenAxis:
        """Return an axis, for values that are given along it."""
        entries = partial(self._entries, axis)
        return GivenAxis(self.location, axis, self.axis_length(axis), entries)

    # Matrices

    def matrix_version_counter(self, rows_axis: str, columns_axis: str, name: str) -> int:
        """Return how often a matrix, in either orientation, or one of its axes was changed."""
        first, second = sorted((rows_axis, columns_axis))
        count = self._counters[layout.matrix_path(first, second, name)]
        return count + sum(self.axis_version_counter(axis) for axis in {first, second})

    def matrices_set(self, rows_axis: str, columns_axis: str, *, relayout: bool = True) -> set[str]:
        """Return the names of the matrices of two axes; of this orientation only on request."""
        self._require_axes(rows_axis, columns_axis)
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
        self._require_axes(rows_axis, columns_axis)
        pairs = [(rows_axis, columns_axis)] + [(columns_axis, rows_axis)] * relayout
        return any(self._kind(layout.matrix_path, *pair, name) for pair in pairs * _LOOKS)

    def matrix_axes(self, axis: str, name: str) -> list[str]:
        """Return the other axes of the matrices of a name over an axis, in alphabetical order."""
        self._require_axes(axis)
        return [other for other in sorted(self.axes_set()) if self.has_matrix(axis, other, name)]

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
            available = self.matrices_set(rows_axis, columns_axis, relayout=False)
            raise errors.matrix_not_found(self.location, rows_axis, columns_axis, name, available)
        return found

    def find_matrix(self, rows_axis: str, columns_axis: str, name: str) -> StoredMatrix | None:
        """Return a matrix stored in this orientation, pinned as it is; None if there is none."""
        shape = self.axis_length(rows_axis), self.axis_length(columns_axis)
        return layout.open_matrix(self._tree, rows_axis, columns_axis, name, shape)

    def open_orientations(self, rows_axis: str, columns_axis: str, name: str) -> list[StoredMatrix]:
        """Return a matrix in each orientation in which it is stored, pinned as it is now.

        While a writer replaces a matrix there may be one orientation only, and at no moment none;
        this one comes first where both exist.

        Raises
        ------
        MatrixNotFoundError
            There is none in either orientation.
        """
        pairs = dict.fromkeys([(rows_axis, columns_axis), (columns_axis, rows_axis)])
        for _ in range(_LOOKS):
            found = (self.find_matrix(*pair, name) for pair in pairs)
            stored = [matrix for matrix in found if matrix is not None]
            if stored:
                return stored
        available = self.matrices_set(rows_axis, columns_axis)
        raise errors.matrix_not_found(self.location, rows_axis, columns_axis, name, available)

    # Whole, and as pandas has them

    def __reduce__(self) -> tuple[Callable[[Origin], DafReader], tuple[Origin]]:
        """Pickle the path and the name; whoever unpickles it opens the path again."""
        if self.is_writable:
            raise errors.InvalidInputError(
                f"{self.location}: a data set that is open for writing cannot be pickled, since "
                "one process alone may write; pickle a reader of it, open_daf(path)"
            )
        return Origin.open, (self.require_origin(),)

    def require_origin(self) -> Origin:
        """Return how it can be opened again.

        Raises
        ------
        InvalidInputError
            It is in memory, or was closed.
        """
        self._check_open()
        if self.origin is None:
            raise errors.InvalidInputError(
                f"{self.location}: no path leads to this data set, so it cannot be pickled; "
                "copy_all() it to a path, and open that"
            )
        return self.origin

    def axis_entries(
        self, axis: str, indices: Any = None, *, allow_empty: bool = False
    ) -> npt.NDArray[np.object_]:
        """Return the entries of an axis as an array of ``str`` objects.

        ``get_pa_vector(axis, "name")`` is the fast way for large axes.

        Parameters
        ----------
        indices
            The 0-based positions of the entries to return, in any order; by default all.
        allow_empty
            Negative positions, which `axis_indices` gives for "no entry", become empty strings
            instead of an error.

        Raises
        ------
        EntryNotFoundError
            A position is outside of the axis.
        InvalidInputError
            They are not integers; a mask is not taken for positions 0 and 1.
        """
        own = self._entries(axis)
        if indices is None:
            return objects(own)
        positions = integer_positions(indices, f"{self.location}: indices= of axis {axis!r}")
        is_empty = positions < 0
        is_outside = (positions >= len(own)) | (is_empty & (not allow_empty))
        if bool(is_outside.any()):
            raise errors.EntryNotFoundError(
                f"{self.location}: axis {axis!r} has no entry at position "
                f"{int(positions[is_outside][0])}; it has {len(own):,} entries, counted from 0"
            )
        return objects(own.take(pa.array(positions, mask=is_empty)).fill_null(""))

    def axis_dict(self, axis: str) -> dict[str, int]:
        """Return the 0-based position of each entry of an axis.

        It has a Python object per entry; `axis_indices` looks up many entries without.
        """
        return {entry: i for i, entry in enumerate(self._entries(axis).to_pylist())}

    def axis_indices(
        self,
        axis: str,
        entries: Iterable[str],
        *,
        allow_empty: bool = False,
        allow_missing: bool = False,
    ) -> npt.NDArray[np.int64]:
        """Return the 0-based positions of entries, in the order given; duplicates are kept.

        Parameters
        ----------
        allow_empty
            Empty strings, which by convention mean "no entry", become -1 instead of an error.
        allow_missing
            So do other strings that are not entries of the axis.

        Raises
        ------
        EntryNotFoundError
            A string is not an entry of the axis.
        """
        own = self._entries(axis)
        requested = arrow_strings(entries).cast(own.type)
        positions = positions_among(requested, own)
        is_missing = positions < 0
        if is_missing.any():
            missing = requested.filter(pa.array(is_missing)).to_pylist()
            bad = [e for e in missing if not (allow_empty if e == "" else allow_missing)]
            if bad:
                raise errors.entry_not_found(
                    self.location, axis, str(bad[0]), own.slice(0, 20_000).to_pylist()
                )
        return positions

    def get_pd_vector(self, axis: str, name: str) -> pd.Series[Any]:
        """Return a vector as a pandas Series whose index is the axis entries."""
        values = self.get_np_vector(axis, name)
        series: pd.Series[Any] = pandas().Series(values, index=self.axis_entries(axis), name=name)
        return series

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
            if default is None:
                return None
            rows, columns = self.given_axis(rows_axis), self.given_axis(columns_axis)
            called = "the default for matrix"
            return numpy_matrix(given_matrix(rows, columns, name, default, called=called))
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

    def _matrix_values(self, stored: StoredMatrix) -> Any:
        if stored.info.is_sparse:
            return scipy_of(ordered(stored))
        array = stored.dense()
        if array.info.storage_type.is_string:
            values: Any = objects(array.read_strings()).reshape(array.info.shape)
        else:
            values = array.read()
        return values if stored.info.is_row_major else values.T

    def description(self) -> str:
        """Return a readable summary: axes, vectors, matrices and scalars.  Reads metadata only."""
        return summaries.as_text(self.summary())

    def summary(self) -> summaries.DafSummary:
        """Return what the data set holds, as a value.  Reads metadata only."""
        return summaries.summarise(self)

    def _repr_html_(self) -> str:
        return html_page(summaries.data_set_section(self.summary(), self, PreviewBudget()))

    def relations(self) -> list[Relation]:
        """Return the vectors whose values are entries of an axis.  Reads metadata only.

        A vector whose metadata are broken is left out; `summary` and `verify` name it.

        Returns
        -------
        list of Relation
            In alphabetical order.  Values are not looked at: `verify` tells of those that are no
            entries.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("type", ["B", "T"])
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.set_vector("cell", "type.manual", ["T", ""])
        >>> daf.relations()
        [Relation(axis='cell', vector='type.manual', to_axis='type', source='name')]
        """
        infos: list[VectorInfo] = []
        for axis in self.axes_set():
            with suppress(errors.DafError):
                infos += [i for _, i in self.vector_infos(axis) if isinstance(i, VectorInfo)]
        return relations_of(self.axes_set(), infos)

    def read_only(self) -> DafReader:
        """Return an object that reads the same data and cannot change it; a reader returns itself.

        It is called ``NAME.read_only`` and sees what is written through the other one.
        """
        return self


def stored_properties(
    daf: DafReader, axes: Collection[str] | None = None
) -> Iterator[tuple[str, StoredVector | StoredMatrix]]:
    """Yield vectors, and matrices in each stored orientation, by their paths, pinned.

    Parameters
    ----------
    axes
        Only what has one of these axes; by default all.
    """
    every = sorted(daf.axes_set())
    for axis in every if axes is None else axes:
        for name in sorted(daf.vectors_set(axis)):
            yield layout.vector_path(axis, name), daf.open_vector(axis, name)
    for pair in itertools.product(every, every):
        if axes is None or not set(axes).isdisjoint(pair):
            for name in sorted(daf.matrices_set(*pair, relayout=False)):
                yield layout.matrix_path(*pair, name), daf.open_matrix(*pair, name)
