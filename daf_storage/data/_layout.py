"""Where each Daf property lives in a tree, and how it is encoded there.

Written once for every format: scalars, axes, vectors and matrices; dense, sparse and all-true
Bool.  Knows trees, and no concrete one.  Source: docs/reference/format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage.base import AnyArray, MatrixInfo, Span, StorageType, VectorInfo
from daf_storage.data._coercion import SparseVectorInput, VectorInput
from daf_storage.data._convention import Convention, attributes_of, entries_axis, follows
from daf_storage.data._sparse_checks import (
    check_indices,
    check_sparse_vector,
    required_array,
)
from daf_storage.data._sparse_parts import (
    PartsNode,
    SparseStrings,
    SparseVectorParts,
)
from daf_storage.data._stored_matrix import StoredMatrix, stored_arrays
from daf_storage.errors import CorruptDataError, NotADafError, UnsupportedDataError, VersionError
from daf_storage.trees import Node, StoredArray, Tree

MAJOR_VERSION: Final = 1
"""The version of the format that is read and written; another one is refused."""

MINOR_VERSION: Final = 0
"""The highest minor version that is read."""

VERSION: Final = (MAJOR_VERSION, MINOR_VERSION)
"""Major and minor version of the Daf layout that is written and read."""

DAF: Final = "daf"

SCALARS: Final = "scalars"

AXES: Final = "axes"

VECTORS: Final = "vectors"

MATRICES: Final = "matrices"

INDEXES: Final = "indexes"
"""The group of the indexes, which other readers ignore."""

SKELETON: Final = (SCALARS, AXES, VECTORS, MATRICES)


def scalar_path(name: str) -> str:
    """Return the path of a scalar."""
    return f"{SCALARS}/{name}"


def axis_path(axis: str) -> str:
    """Return the path of the entries of an axis."""
    return f"{AXES}/{axis}"


def vectors_path(axis: str) -> str:
    """Return the path of the group of an axis's vectors."""
    return f"{VECTORS}/{axis}"


def vector_path(axis: str, name: str) -> str:
    """Return the path of a vector."""
    return f"{VECTORS}/{axis}/{name}"


def matrices_path(rows_axis: str, columns_axis: str) -> str:
    """Return the path of the group of the matrices of two axes, in this order."""
    return f"{MATRICES}/{rows_axis}/{columns_axis}"


def matrix_path(rows_axis: str, columns_axis: str, name: str) -> str:
    """Return the path of a matrix in one orientation."""
    return f"{MATRICES}/{rows_axis}/{columns_axis}/{name}"


def check_version(tree: Tree) -> None:
    """Raise unless the tree holds a Daf data set of a version that this code reads."""
    version = _marker(tree)
    if version is None:
        raise NotADafError(f"{tree.location}: not a daf data set: it has no array named 'daf'")
    if len(version) != len(VERSION) or not all(type(number) is int for number in version):
        raise VersionError(f"{tree.location}: malformed daf version marker {str(version)[:80]}")
    if version[0] != VERSION[0] or version[1] > VERSION[1]:
        raise VersionError(
            f"{tree.location}: incompatible format version: {version[0]}.{version[1]}; "
            f"the code supports version: {VERSION[0]}.{VERSION[1]}; a newer release may read it"
        )


def is_daf(tree: Tree) -> bool:
    """Return whether the tree is marked as a Daf data set, of whatever version."""
    return tree.marker(DAF) is not None or tree.kind(DAF) is not None


def _marker(tree: Tree) -> list[Any] | None:
    attribute = tree.marker(DAF)
    if attribute is not None:
        return attribute if isinstance(attribute, list) else [attribute]
    node = tree.node(DAF)
    array = None if node is None else node.array()
    if array is None:
        return None
    if array.info.storage_type.is_string or array.info.size != len(VERSION):
        raise VersionError(
            f"{tree.location}: malformed daf version marker: {array.info.storage_type.value} of "
            f"shape {list(array.info.shape)} instead of two numbers"
        )
    numbers = array.read().reshape(-1).tolist()
    return [int(number) if number == number // 1 else number for number in numbers]


class StoredVector:
    """One vector, pinned: what is read belongs together, also if it is replaced meanwhile."""

    def __init__(self, info: VectorInfo, node: Node, *, what: str) -> None:
        self.info = info
        """Its metadata."""
        self._node = node
        self._what = what
        self._parts: SparseVectorParts | None = None

    @property
    def identity(self) -> Hashable:
        """What a cache of decoded values goes by; to be asked for before anything is read."""
        return self._node.identity

    @property
    def convention(self) -> Convention | None:
        """How its bytes are to be read, where their type does not say it."""
        return Convention.EMPTY_IS_MISSING if self.info.empty_is_missing else None

    @property
    def attributes(self) -> dict[str, str]:
        """What is stored beside the data, to be handed on by whoever writes them elsewhere."""
        return attributes_of(self.convention, self.info.entries_of)

    def values(self) -> VectorInput:
        """Return all elements as a writer takes them: numbers, strings, or sparse parts."""
        if self.info.storage_type.is_string:
            return self.read_strings()
        if not self.info.is_sparse:
            return self.read(Span(0, self.info.length))
        parts = self.sparse_parts()
        nzval = np.ones(parts.nzind.size, bool) if parts.nzval is None else parts.nzval
        return SparseVectorInput(parts.length, parts.nzind - parts.nzind.dtype.type(1), nzval)

    def read(self, span: Span) -> AnyArray:
        """Return a range of a numeric vector; a read-only view of the file if it is dense."""
        if self.info.is_sparse:
            return self.sparse_parts().to_dense(span)
        return required_array(self._node, "", self._what).read_rows(span)

    def reader(self) -> Callable[[Span], AnyArray]:
        """Return a function that reads ranges of a numeric vector.

        It holds the mapped memory and no file, where the vector can be mapped: hundreds of vectors
        can be read side by side.
        """
        if self.info.is_sparse:
            return self.sparse_parts().to_dense
        array = required_array(self._node, "", self._what)
        if not array.info.is_mappable and array.info.chunks != array.info.shape:
            return array.read_rows
        mapped = array.read()  # a single chunk is fetched and decoded once, not once per range
        return lambda span: mapped[span.slice]

    def check_stored(self) -> None:
        """Raise if what is stored cannot be the vector, by the sizes of files alone."""
        for name, array in self.arrays().items():
            array.check_stored(is_complete=name == "nzind")

    @property
    def is_mapped(self) -> bool:
        """Whether reading a dense vector costs no memory: it is a view of a file."""
        return (
            not self.info.is_sparse and required_array(self._node, "", self._what).info.is_mappable
        )

    def arrays(self) -> dict[str, StoredArray]:
        """Return the stored arrays by their name below the vector's; a dense one has none."""
        return stored_arrays(self._node, ("nzind", "nzval"), self.info.is_sparse, self._what)

    def all_arrays(self) -> list[StoredArray]:
        """Return the stored arrays that it consists of: one, if it is dense."""
        return list(self.arrays().values()) if self.info.is_sparse else [self.string_array()]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all elements of a vector of strings."""
        return required_array(self._node, "", self._what).read_strings()

    def string_batches(self) -> Iterator[pa.Array]:
        """Yield the elements of a vector of strings piece by piece, as codes where that is cheap.

        Where they are stored plainly, no more than a piece is in memory.
        """
        array = self.string_array()
        return array.string_pieces() if array.info.size else iter([array.read_strings()])

    def string_array(self) -> StoredArray:
        """Return the stored array of a vector of strings, or of a dense one."""
        return required_array(self._node, "", self._what)

    def sparse_parts(self) -> SparseVectorParts:
        """Return the stored parts of a sparse vector; checked when first asked for."""
        if self._parts is None:
            stored = required_array(self._node, "nzind", self._what)
            stored.check_stored(is_complete=True)
            nzind = stored.read()
            values = self._node.array("nzval")
            nzval = None if values is None else values.read()
            check_sparse_vector(self.info.length, nzind, what=self._what)
            self._parts = SparseVectorParts(self.info.length, nzind, nzval)
        return self._parts


def open_array(tree: Tree, path: str) -> StoredArray | None:
    """Return a scalar's or an axis's array; None if there is none."""
    node = tree.node(path)
    return None if node is None else node.array()


def open_vector(tree: Tree, axis: str, name: str, length: int) -> StoredVector | None:
    """Return a vector after checking its metadata against the axis; None if there is none."""
    path = vector_path(axis, name)
    what = f"{tree.location}: {path}"
    node = tree.node(path)
    if node is None:
        return None
    if node.kind == "group" and node.array("nztxt") is not None:
        node = PartsNode(node, {"": SparseStrings(node, (length,), what=what)})
    if node.kind == "group":
        return StoredVector(_sparse_vector_info(node, axis, name, length, what), node, what=what)
    info = required_array(node, "", what).info
    _check_shape(info.shape, (length,), what=what, axes=(axis,))
    is_string = info.storage_type.is_string
    is_missing = is_string and follows(node, Convention.EMPTY_IS_MISSING, what=what)
    entries_of = entries_axis(node, what=what) if is_string else None
    dense = VectorInfo(
        axis,
        name,
        info.storage_type,
        length,
        is_sparse=False,
        chunk_rows=info.chunks[0],
        empty_is_missing=is_missing,
        entries_of=entries_of,
    )
    return StoredVector(dense, node, what=what)


def open_matrix(
    tree: Tree, rows_axis: str, columns_axis: str, name: str, shape: tuple[int, int]
) -> StoredMatrix | None:
    """Return a matrix stored in this orientation; None if there is none."""
    path = matrix_path(rows_axis, columns_axis, name)
    node = tree.node(path)
    if node is None:
        return None
    what = f"{tree.location}: {path}"
    if node.kind == "group" and node.array("nztxt") is not None:
        node = PartsNode(node, {"": SparseStrings(node, shape[::-1], what=what)})
    nnz = None
    if node.kind == "group":
        nnz = required_array(node, "rowval", what).info.size
        if nnz > shape[0] * shape[1]:
            raise CorruptDataError(
                f"{what}: rowval has {nnz:,} elements, but {shape[0]:,} x {shape[1]:,} has no room "
                "for so many"
            )
        check_indices(node, "rowval", nnz, what)
        check_indices(node, "colptr", shape[1] + 1, what)
        storage_type = _values_type(node, nnz, "rowval", what)
    else:
        array = required_array(node, "", what).info
        storage_type = array.storage_type
        _check_shape(array.shape, shape[::-1], what=what, axes=(columns_axis, rows_axis))
    info = MatrixInfo(
        rows_axis,
        columns_axis,
        name,
        storage_type,
        shape,
        is_sparse=nnz is not None,
        nnz=nnz,
        is_row_major=rows_axis == columns_axis and follows(node, Convention.ROW_MAJOR, what=what),
    )
    return StoredMatrix(info, node, what=what)


def _sparse_vector_info(node: Node, axis: str, name: str, length: int, what: str) -> VectorInfo:
    nnz = required_array(node, "nzind", what).info.size
    if nnz > length:
        raise CorruptDataError(
            f"{what}: nzind has {nnz:,} elements, but the axis has {length:,} entries"
        )
    check_indices(node, "nzind", nnz, what)
    storage_type = _values_type(node, nnz, "nzind", what)
    return VectorInfo(axis, name, storage_type, length, True, max(length, 1))  # noqa: FBT003 - fields in their order


def _values_type(node: Node, nnz: int, indices: str, what: str) -> StorageType:
    """Return the type of the stored elements, after checking how many there are."""
    values = node.array("nzval")
    if values is None:
        return StorageType.BOOL
    if values.info.storage_type.is_string:
        raise UnsupportedDataError(f"{what}/nzval: strings are not read from sparse arrays")
    _check_shape(values.info.shape, (nnz,), what=f"{what}/nzval", axes=(indices,))
    return values.info.storage_type


def _check_shape(
    found: tuple[int, ...], needed: tuple[int, ...], *, what: str, axes: tuple[str, ...]
) -> None:
    if found != needed:
        raise CorruptDataError(
            f"{what}: the stored shape is {list(found)}, "
            f"but {' x '.join(axes)} needs {list(needed)}"
        )


def is_all_true(values: Any) -> bool:
    """Return whether these are Bool values of which none is false; they need no ``nzval``."""
    return bool(values.dtype == np.bool_ and values.all())
