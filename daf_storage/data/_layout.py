"""Where each Daf property lives in a tree, and how it is encoded there.

Written once for every format: scalars, axes, vectors and matrices; dense, sparse and all-true
Bool.  Knows trees, and no concrete one.  Source: docs/reference/format.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.base import MatrixInfo, StorageType, VectorInfo
from daf_storage.data._stored import (
    Convention,
    PartsNode,
    SparseStrings,
    StoredMatrix,
    StoredVector,
    check_indices,
    conventions_of,
    required_array,
)
from daf_storage.errors import (
    CorruptDataError,
    InvalidInputError,
    NotADafError,
    UnsupportedDataError,
    VersionError,
)
from daf_storage.trees import Node, StoredArray, StoredTree, Tree

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


KEPT: Final = "anndata"
"""The group of the parts of an AnnData that Daf has no place for."""

_AXES_OF: Final = {SCALARS: 0, VECTORS: 1, MATRICES: 2}
"""Of how many axes the properties are that a group has."""


@dataclass(frozen=True, slots=True)
class PropertyPath:
    """Where one property is."""

    path: str
    """Its path in the tree."""
    axes: tuple[str, ...] = ()
    """The axes to which its dimensions belong; none of an axis itself."""

    @property
    def flipped(self) -> str | None:
        """Where the other orientation of a matrix is; None if it has none."""
        group, *names = self.path.split("/")
        if group != MATRICES or self.axes[0] == self.axes[1]:
            return None
        return matrix_path(names[1], names[0], names[2])


def property_of(path: str) -> PropertyPath | None:
    """Return the property at or above a path; None for the groups that properties are in.

    >>> property_of("vectors/cell/age/nzind")
    PropertyPath(path='vectors/cell/age', axes=('cell',))
    >>> property_of("vectors/cell") is None
    True
    """
    names = path.split("/")
    if names[0] == AXES:
        return PropertyPath("/".join(names[:2])) if len(names) > 1 else None
    start = 1 + (names[0] == KEPT)
    depth = _AXES_OF.get(names[:start][-1])
    if depth is None or len(names) <= start + depth:
        return None
    return PropertyPath("/".join(names[: start + depth + 1]), tuple(names[start : start + depth]))


def axes_of_group(path: str) -> tuple[str, ...]:
    """Return the axes of the properties that a group has; those that its path names so far.

    >>> axes_of_group("matrices/cell/gene")
    ('cell', 'gene')
    """
    group, *names = path.split("/")
    if group == KEPT and names:
        group, *names = names
    return tuple(names[: _AXES_OF.get(group, 0)])


def check_key(key: object, argument: str) -> None:
    """Refuse what is no key of a property: the name of a scalar, or axes and a name."""
    parts: Any = (key, key) if isinstance(key, str) else key
    is_key = isinstance(parts, tuple) and len(parts) in (2, 3)
    if not is_key or not all(isinstance(part, str) for part in parts):
        raise InvalidInputError(
            f"{argument} has the key {key!r}; a key is a scalar 'name', a vector "
            "('axis', 'name') or a matrix ('rows', 'columns', 'name')"
        )


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


def check_version(tree: StoredTree) -> None:
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


def is_daf(tree: StoredTree) -> bool:
    """Return whether the tree is marked as a Daf data set, of whatever version."""
    return tree.marker(DAF) is not None or tree.kind(DAF) is not None


def _marker(tree: StoredTree) -> list[Any] | None:
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


def open_array(tree: Tree, path: str) -> StoredArray | None:
    """Return a scalar's or an axis's array; None if there is none."""
    node = tree.node(path)
    return None if node is None else node.array()


def axis_array(tree: Tree, axis: str) -> StoredArray:
    """Return the array of an axis that is there."""
    array = open_array(tree, axis_path(axis))
    if array is None:
        raise CorruptDataError(f"{tree.location}: axis {axis!r} is not stored as an array")
    return array


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
        nnz = required_array(node, "nzind", what).info.size
        if nnz > length:
            raise CorruptDataError(
                f"{what}: nzind has {nnz:,} elements, but the axis has {length:,} entries"
            )
        check_indices(node, "nzind", nnz, what)
        kind = _values_type(node, nnz, "nzind", what)
        sparse = VectorInfo(axis, name, kind, length, is_sparse=True, chunk_rows=max(length, 1))
        return StoredVector(sparse, node, what=what)
    info = required_array(node, "", what).info
    _check_shape(info.shape, (length,), what=what, axes=(axis,))
    convention, entries_of = None, None
    if info.storage_type.is_string:
        convention, entries_of = conventions_of(node, Convention.EMPTY_IS_MISSING, what=what)
    dense = VectorInfo(
        axis,
        name,
        info.storage_type,
        length,
        is_sparse=False,
        chunk_rows=info.chunks[0],
        empty_is_missing=convention is not None,
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
        is_row_major=rows_axis == columns_axis
        and conventions_of(node, Convention.ROW_MAJOR, what=what)[0] is not None,
    )
    return StoredMatrix(info, node, what=what)


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
