"""Matrices of an AnnData as matrices of a Daf data set, in the bytes in which they are stored.

AnnData's rows, dense or compressed, are Daf's columns of the transpose: ``X`` of obs and var is the
matrix of var and obs.  Nothing is copied.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import annotations as annotation_rules
from daf_storage.attached import _elements as elements
from daf_storage.attached._elements import MatrixHeader, MatrixLayout
from daf_storage.attached._virtual import (
    ArrayMaker,
    Converted,
    Nodes,
    Property,
    ShiftedIndices,
    memory_property,
)
from daf_storage.base import AnyArray, StorageType, pandas
from daf_storage.data import Convention, convention_attributes, layout
from daf_storage.errors import CorruptDataError, UnsupportedInputError
from daf_storage.trees import MemoryArray, Node, StoredArray, Tree, memory_array

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_LONG_BYTES = 8
_CHUNK_BYTES: Final = 1 << 24


STORED: Final = object()
"""Stands for a value that lies in the file."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value of an AnnData is."""

    path: str
    """Its path in the file, or that of what has it."""
    value: Any = STORED
    """The value, if it is in memory, or only anndata understands how it is stored."""

    @property
    def is_stored(self) -> bool:
        """Whether it is read from the file."""
        return self.value is STORED

    def header(self, tree: Tree) -> MatrixHeader:
        """Return what is known of it as a matrix."""
        return elements.matrix_header(tree, self.path) if self.is_stored else _known(self.value)

    def read(self, tree: Tree) -> Any:
        """Return it as anndata reads it."""
        return elements.read_value(tree, self.path) if self.is_stored else self.value


def _known(value: Any) -> MatrixHeader:
    """Return what is known of a value in memory."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return elements.no_matrix("Daf has no masks", value.dtype)
    if len(np.shape(value)) != 2:
        problem = f"it has {len(np.shape(value))} dimensions; matrices have two"
        return elements.no_matrix(problem, np.dtype(object))
    dtype = np.dtype(value.dtype)
    known: MatrixLayout = "csr" if sp.issparse(value) else "dense"
    if getattr(value, "format", "") == "csc":
        known = "csc"
    return MatrixHeader(
        known,
        (value.shape[0], value.shape[1]),
        dtype,
        elements.dtype_problem(dtype),
        is_array=isinstance(value, sp.sparray),
    )


@dataclass(frozen=True, slots=True)
class MatrixOf:
    """Which matrix of a Daf data set a matrix of an AnnData is."""

    rows_axis: str
    """The axis of its rows, as AnnData has it."""
    columns_axis: str
    name: str

    def path(self, header: MatrixHeader) -> str:
        """Return its path: the axis whose entries are stored one after the other comes last."""
        is_by_columns = header.layout == "csc"
        axes = (self.rows_axis, self.columns_axis)
        return layout.matrix_path(*(axes if is_by_columns else axes[::-1]), self.name)


def matrix_property(
    tree: Tree,
    place: Place,
    header: MatrixHeader,
    *,
    is_square: bool,
    lengths: Callable[[], tuple[int, int]],
) -> Property:
    """Return a matrix of two axes, or of an axis with itself.

    Parameters
    ----------
    lengths
        Returns the lengths of the two axes.
    """
    if not place.is_stored:
        return _in_memory(place, header, is_square=is_square)
    is_by_rows = is_square and header.layout != "csc"
    marked = convention_attributes(Convention.ROW_MAJOR) if is_by_rows else {}
    if header.layout == "dense":
        return Property(
            "array",
            (place.path,),
            lambda nodes: {"": lambda: _numbers(tree, nodes[0], "", place.path, header.dtype)},
            lambda: marked,
        )
    return Property(
        "group",
        (place.path,),
        lambda nodes: _sparse(tree, nodes, place.path, _fitting(tree, place, header, lengths())),
        lambda: marked,
    )


def _fitting(
    tree: Tree, place: Place, header: MatrixHeader, lengths: tuple[int, int]
) -> MatrixHeader:
    """Return what is known of a sparse matrix if it has the lengths of its axes."""
    if header.shape != lengths:
        raise CorruptDataError(
            f"{tree.location}: {place.path}: the sparse matrix has the shape {list(header.shape)}, "
            f"and its axes have {lengths[0]:,} and {lengths[1]:,} entries"
        )
    return header


def _sparse(tree: Tree, nodes: Nodes, path: str, header: MatrixHeader) -> Mapping[str, ArrayMaker]:
    """Return the parts of a sparse matrix."""
    node = nodes[0]
    n_minor = header.shape[1] if header.layout == "csr" else header.shape[0]

    def stored(name: str) -> StoredArray:
        array = node.array(name)
        if array is None:
            raise CorruptDataError(f"{tree.location}: {path}: the array {name!r} is missing")
        if not array.info.storage_type.is_integer or len(array.info.shape) != 1:
            raise CorruptDataError(f"{tree.location}: {path}: {name} is no list of positions")
        return array

    def index_type() -> StorageType:
        indices = stored("indices")
        return shifted_type(indices.info.storage_type, max(indices.info.size, n_minor))

    return {
        "colptr": lambda: ShiftedIndices(stored("indptr"), index_type()),
        "rowval": lambda: ShiftedIndices(stored("indices"), index_type()),
        "nzval": lambda: _numbers(tree, node, "data", f"{path}/data", header.dtype),
    }


def shifted_type(kind: StorageType, largest: int) -> StorageType:
    """Return the type of positions from 1: that of those from 0 unless it would overflow.

    >>> shifted_type(StorageType.INT8, 126).value, shifted_type(StorageType.INT8, 127).value
    ('Int8', 'Int64')
    """
    return kind if largest + 1 <= np.iinfo(kind.dtype).max else StorageType.INT64


def _numbers(tree: Tree, node: Node, name: str, path: str, dtype: np.dtype[Any]) -> StoredArray:
    """Return stored numbers; half floats widened."""
    if dtype != np.float16:
        array = node.array(name)
        if array is None:
            raise CorruptDataError(f"{tree.location}: the array {path!r} is missing")
        return array

    return elements.half_floats(tree, path)


def _in_memory(place: Place, header: MatrixHeader, *, is_square: bool) -> Property:
    """Return a matrix that was read."""
    is_by_rows = is_square and header.layout != "csc"
    marked = convention_attributes(Convention.ROW_MAJOR) if is_by_rows else {}
    dtype = np.dtype(np.float32) if header.dtype == np.float16 else header.dtype
    kind = StorageType.of(dtype)
    value = place.value
    if header.layout == "dense":
        array = _converted(value, header.shape, kind)
        return Property("array", (place.path,), lambda _: {"": lambda: array}, lambda: marked)
    stored = value if value.format == header.layout else value.tocsr()
    n_minor = header.shape[1] if header.layout == "csr" else header.shape[0]
    index = shifted_type(StorageType.of(stored.indices.dtype), max(stored.indices.size, n_minor))
    parts: dict[str, ArrayMaker] = {
        "colptr": lambda: ShiftedIndices(memory_array(stored.indptr), index),
        "rowval": lambda: ShiftedIndices(memory_array(stored.indices), index),
        "nzval": lambda: _converted(stored.data, stored.data.shape, kind),
    }
    return Property("group", (place.path,), lambda _: parts, lambda: marked)


def _converted(values: Any, shape: tuple[int, ...], kind: StorageType) -> Converted:
    """Return numbers in memory, of which a range is copied when it is asked for."""
    chunk = max(_CHUNK_BYTES // max(math.prod(shape[1:]) * kind.dtype.itemsize, 1), 1)

    def read_range(rows: slice, columns: slice | None) -> AnyArray:
        return np.asarray(values[rows] if columns is None else values[rows, columns])

    return Converted(shape, (min(chunk, shape[0]), *shape[1:]), kind, read_range)


# Values of obsm and varm


@dataclass(frozen=True, slots=True)
class Annotation:
    """A value of ``obsm`` or ``varm`` as a matrix to an axis of its own."""

    labels: list[str]
    """The entries of that axis."""
    note: dict[str, Any]
    """What restores the value."""
    header: MatrixHeader
    """How it is stored; a DataFrame is put together by rows."""
    is_frame: bool = False


def annotation_at(tree: Tree, place: Place) -> Annotation:
    """Return what a value of ``obsm`` or ``varm`` becomes, by its metadata.

    Raises
    ------
    UnsupportedInputError
        Daf has no matrix that says all of it; the message says why.
    """
    if not place.is_stored:
        encoded = annotation_rules.encode_annotation(place.value)
        is_frame = hasattr(place.value, "iloc")
        header = _known(encoded.matrix if is_frame else place.value)
        return Annotation(encoded.labels, encoded.note, header, is_frame=is_frame)
    node = tree.node(place.path)
    if node is not None and elements.encoding_of(node) == "dataframe":
        return _frame_annotation(tree, place, elements.names_of(node.attribute("column-order")))
    header = elements.matrix_header(tree, place.path)
    if header.problem:
        raise UnsupportedInputError(header.problem)
    sample: Any = np.empty((0, header.shape[1]), header.dtype)
    if header.layout != "dense":
        build = sp.csr_matrix if header.layout == "csr" else sp.csc_matrix
        storable = np.float32 if header.dtype == np.float16 else header.dtype
        sample = build((0, header.shape[1]), dtype=storable)
    encoded = annotation_rules.encode_annotation(sample)
    note = {**encoded.note, "dtype": str(header.dtype)}
    return Annotation(encoded.labels, note, header)


def _frame_annotation(tree: Tree, place: Place, columns: list[str]) -> Annotation:
    """Return what a DataFrame of numbers becomes."""
    dtypes = {}
    for name in columns:
        path = posixpath.join(place.path, name)
        node = tree.node(path)
        if node is None or node.kind != "array":
            raise UnsupportedInputError("a DataFrame of which a matrix of numbers does not say all")
        dtypes[name] = elements.shape_and_dtype(tree, path)[1]
    frame: Any = pandas(extra="anndata").DataFrame(
        {name: np.empty(0, dtype) for name, dtype in dtypes.items()}
    )
    encoded = annotation_rules.encode_annotation(frame)
    is_long = any(dtype.itemsize == _LONG_BYTES and dtype.kind in "iu" for dtype in dtypes.values())
    if is_long and encoded.matrix.dtype.kind == "f":  # integers may be too large for fractions
        encoded = annotation_rules.encode_annotation(elements.read_value(tree, place.path))
    height = elements.shape_and_dtype(tree, posixpath.join(place.path, columns[0]))[0][0]
    header = MatrixHeader("dense", (height, len(columns)), encoded.matrix.dtype)
    return Annotation(encoded.labels, encoded.note, header, is_frame=True)


def annotation_property(
    tree: Tree, place: Place, annotation: Annotation, length: Callable[[], int]
) -> Property:
    """Return the matrix of a value of ``obsm`` or ``varm``, of an axis of some length."""
    if not annotation.is_frame:
        return matrix_property(
            tree,
            place,
            annotation.header,
            is_square=False,
            lengths=lambda: (length(), len(annotation.labels)),
        )
    header = annotation.header
    kind = StorageType.of(header.dtype)

    def make() -> AnyArray:
        values: AnyArray = place.read(tree).to_numpy().astype(kind.dtype)
        return values

    return memory_property(
        (place.path,), lambda: MemoryArray(make, shape=header.shape, storage_type=kind)
    )
