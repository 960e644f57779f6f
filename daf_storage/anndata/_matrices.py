"""Matrices of an AnnData as matrices of a Daf data set, in the bytes in which they are stored.

AnnData's rows, dense or compressed, are Daf's columns of the transpose: ``X`` of obs and var is the
matrix of var and obs.  Nothing is copied.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.anndata import _elements as elements
from daf_storage.anndata._elements import MatrixHeader, Place
from daf_storage.anndata._encoding import encode_frame
from daf_storage.anndata._virtual import ArrayMaker, Converted, Nodes, Property, ShiftedIndices
from daf_storage.base import AnyArray, StorageType, pandas
from daf_storage.data import Convention, convention_attributes, layout, required_array
from daf_storage.errors import CorruptDataError, UnsupportedInputError
from daf_storage.trees import MemoryArray, Node, StoredArray, Tree, memory_array

_LONG_BYTES = 8
_CHUNK_BYTES: Final = 1 << 24


def path_of_matrix(axes: tuple[str, str], name: str, header: MatrixHeader) -> str:
    """Return the path of a matrix: the axis whose entries are stored one by one comes last.

    Parameters
    ----------
    axes
        Those of its rows and its columns, as AnnData has it.
    """
    return layout.matrix_path(*(axes if header.layout == "csc" else axes[::-1]), name)


def matrix_property(
    tree: Tree,
    place: Place,
    header: MatrixHeader,
    *,
    is_square: bool = False,
    lengths: Callable[[], tuple[int, int]],
) -> Property:
    """Return a matrix of two axes, or of an axis with itself.

    Parameters
    ----------
    lengths
        Returns the lengths of the two axes.
    """
    is_by_rows = is_square and header.layout != "csc"
    marked = convention_attributes(Convention.ROW_MAJOR if is_by_rows else None)

    def parts(nodes: Nodes) -> Mapping[str, ArrayMaker]:
        if not place.is_stored:
            return _parts_of_value(place.value, header)
        if header.layout == "dense":
            return {"": lambda: _numbers(tree, nodes[0], "", place.path, header.dtype)}
        if header.shape != lengths():
            raise CorruptDataError(
                f"{tree.location}: {place.path}: the sparse matrix has the shape "
                f"{list(header.shape)}, and its axes have {lengths()[0]:,} and {lengths()[1]:,} "
                "entries"
            )
        return _stored_parts(tree, nodes[0], place.path, header)

    kind: Any = "array" if header.layout == "dense" else "group"
    return Property((place.path,), parts, lambda: marked, kind)


def _stored_parts(
    tree: Tree, node: Node, path: str, header: MatrixHeader
) -> Mapping[str, ArrayMaker]:
    """Return the parts of a stored sparse matrix."""

    def stored(name: str) -> StoredArray:
        array = required_array(node, name, f"{tree.location}: {path}")
        if not array.info.storage_type.is_integer or len(array.info.shape) != 1:
            raise CorruptDataError(f"{tree.location}: {path}: {name} is no list of positions")
        return array

    values = f"{path}/data"
    return {
        "colptr": lambda: _shifted(stored("indptr"), stored("indices"), header),
        "rowval": lambda: _shifted(stored("indices"), stored("indices"), header),
        "nzval": lambda: _numbers(tree, node, "data", values, header.dtype),
    }


def _parts_of_value(value: Any, header: MatrixHeader) -> Mapping[str, ArrayMaker]:
    """Return the parts of a matrix in memory."""
    dtype = np.dtype(np.float32) if header.dtype == np.float16 else header.dtype
    kind = StorageType.of(dtype)
    if header.layout == "dense":
        return {"": lambda: _converted(value, header.shape, kind)}
    stored = value if value.format == header.layout else value.tocsr()
    indices = memory_array(stored.indices)
    return {
        "colptr": lambda: _shifted(memory_array(stored.indptr), indices, header),
        "rowval": lambda: _shifted(indices, indices, header),
        "nzval": lambda: _converted(stored.data, stored.data.shape, kind),
    }


def _shifted(positions: StoredArray, indices: StoredArray, header: MatrixHeader) -> ShiftedIndices:
    """Return positions from 1, in the type of the indices unless they would overflow it."""
    kind = indices.info.storage_type
    largest = max(indices.info.size, header.shape[1 if header.layout == "csr" else 0])
    fits = largest + 1 <= np.iinfo(kind.dtype).max
    return ShiftedIndices(positions, kind if fits else StorageType.INT64)


def _numbers(tree: Tree, node: Node, name: str, path: str, dtype: np.dtype[Any]) -> StoredArray:
    """Return stored numbers; half floats widened."""
    if dtype == np.float16:
        return elements.half_floats(tree, path)
    array = node.array(name)
    if array is None:
        raise CorruptDataError(f"{tree.location}: the array {path!r} is missing")
    return array


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
    if hasattr(place.value, "iloc"):
        matrix, labels, note = encode_frame(place.value)
        header = MatrixHeader("dense", (matrix.shape[0], len(labels)), matrix.dtype)
        return Annotation(labels, note, header, is_frame=True)
    node = tree.node(place.path) if place.is_stored else None
    if node is not None and elements.encoding_of(node) == "dataframe":
        return _frame_annotation(tree, place, elements.names_of(node.attribute("column-order")))
    header = place.header(tree)
    if header.problem:
        raise UnsupportedInputError(header.problem)
    note = {"format": header.layout, "dtype": str(header.dtype)}
    note |= {"is_array": True} if header.is_array else {}
    return Annotation([str(n) for n in range(header.shape[1])], note, header)


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
    matrix, labels, note = encode_frame(frame)
    is_long = any(dtype.itemsize == _LONG_BYTES and dtype.kind in "iu" for dtype in dtypes.values())
    if is_long and matrix.dtype.kind == "f":  # integers may be too large for fractions
        matrix, labels, note = encode_frame(place.read(tree))
    height = elements.shape_and_dtype(tree, posixpath.join(place.path, columns[0]))[0][0]
    header = MatrixHeader("dense", (height, len(columns)), matrix.dtype)
    return Annotation(labels, note, header, is_frame=True)


def annotation_property(
    tree: Tree, place: Place, annotation: Annotation, length: Callable[[], int]
) -> Property:
    """Return the matrix of a value of ``obsm`` or ``varm``, of an axis of some length."""
    header = annotation.header
    if not annotation.is_frame:
        n_columns = len(annotation.labels)
        return matrix_property(tree, place, header, lengths=lambda: (length(), n_columns))
    kind = StorageType.of(header.dtype)

    def values() -> AnyArray:
        found: AnyArray = place.read(tree).to_numpy().astype(kind.dtype)
        return found

    def parts(_: Nodes) -> Mapping[str, ArrayMaker]:
        return {"": lambda: MemoryArray(values, shape=header.shape, storage_type=kind)}

    return Property((place.path,), parts)
