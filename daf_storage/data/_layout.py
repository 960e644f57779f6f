"""Where each Daf property lives in a tree, how it is encoded there, and what is stored of it.

Written once for every format: scalars, axes, vectors and matrices; dense, sparse and all-true
Bool.  Knows trees, and no concrete one.  Source: docs/reference/format.md.

Attributes of the stored group or array hold a convention, so it comes and goes with the property;
programs that do not know them ignore them.  Source: docs/reference/format.md, "Conventions".
"""

from __future__ import annotations

import enum
import functools
import itertools
import math
import reprlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from daf_storage._lazy import pc
from daf_storage.base import AnyArray, MatrixInfo, Span, StorageType, VectorInfo, name_problem
from daf_storage.data._coercion import SparseVectorParts, VectorInput
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    DafWarning,
    InvalidInputError,
    NotADafError,
    ReadOnlyError,
    UnsupportedDataError,
    VersionError,
    warn,
)
from daf_storage.trees import ArrayInfo, Node, NodeKind, StoredArray, StoredTree, Tree

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

_AXES_OF: Final = {SCALARS: 0, AXES: 0, VECTORS: 1, MATRICES: 2}
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
    group, names, depth = split(path)
    if depth is None or len(names) <= depth:
        return None
    return PropertyPath("/".join([group, *names[: depth + 1]]), tuple(names[:depth]))


def axes_of_group(path: str) -> tuple[str, ...]:
    """Return the axes of the properties that a group has; those that its path names so far.

    >>> axes_of_group("matrices/cell/gene")
    ('cell', 'gene')
    """
    _, names, depth = split(path)
    return tuple(names[: depth or 0])


def split(path: str) -> tuple[str, list[str], int | None]:
    """Return the group of properties at or above a path, what is below it, and the axes of each.

    None instead of how many axes these are, if the path is of no such group.

    >>> split("anndata/vectors/cell/age"), split("indexes/cell")
    (('anndata/vectors', ['cell', 'age'], 1), ('indexes', ['cell'], None))
    """
    names = path.split("/")
    count = 2 if names[0] == KEPT else 1
    return "/".join(names[:count]), names[count:], _AXES_OF.get(names[:count][-1])


def in_words(path: str) -> str:
    """Return what messages call the property, or the index, at a path.

    >>> in_words("vectors/cell/age"), in_words("indexes/cell/age")
    ("vector 'age' of axis 'cell'", "index of vector 'age' of axis 'cell'")
    """
    group, *names = path.split("/")
    match group, *names:
        case (_, name):
            return f"{'axis' if group == AXES else 'scalar'} {name!r}"
        case (_, axis, name) if group != KEPT:
            return f"{'index of ' * (group == INDEXES)}vector {name!r} of axis {axis!r}"
        case (_, rows, columns, name) if group == MATRICES:
            return f"matrix {name!r} of axes {rows!r} and {columns!r}"
    return f"part of an AnnData {'/'.join(names)!r}"


def check_key(key: object, argument: str) -> None:
    """Refuse what is no key of a property: the name of a scalar, or axes and a name."""
    parts: Any = (key, key) if isinstance(key, str) else key
    is_key = isinstance(parts, tuple) and len(parts) in (2, 3)
    if not is_key or not all(isinstance(part, str) for part in parts):
        raise InvalidInputError(
            f"{argument} has the key {key!r}; a key is a scalar 'name', a vector "
            "('axis', 'name') or a matrix ('rows', 'columns', 'name')"
        )


ANY: Final = "*"
"""In a pattern of keys: any name."""


def matches(pattern: object, key: object) -> bool:
    """Return whether the key of a property, checked or in parts, fits a pattern.

    >>> matches(("cell", "*"), ("cell", "age")), matches("*", ("cell", "age"))
    (True, False)
    """
    wanted, own = (each if isinstance(each, tuple) else (each,) for each in (pattern, key))
    is_same_kind = len(wanted) == len(own)
    return is_same_kind and all(w in (ANY, name) for w, name in zip(wanted, own, strict=True))


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


def groups_of_axes(axes: Iterable[str]) -> list[str]:
    """Return the groups that each of some axes has, and each two of them, in their order.

    >>> groups_of_axes(["cell"])
    ['matrices/cell', 'vectors/cell', 'matrices/cell/cell']
    """
    names = sorted(axes)
    groups = [f"{top}/{axis}" for axis in names for top in (MATRICES, VECTORS)]
    return groups + [matrices_path(*pair) for pair in itertools.product(names, names)]


def has_arrays(tree: Tree, path: str) -> bool:
    """Return whether an array is below a group, or it cannot be listed."""
    try:
        children = tree.children(path).items()
    except DafError:
        return True
    return any(kind == "array" or has_arrays(tree, f"{path}/{name}") for name, kind in children)


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


def _node(tree: Tree, path: str, shape: tuple[int, ...], name: str) -> Node | None:
    """Return what is stored of a vector or a matrix; strings that are not empty as all of them."""
    node = None if name_problem(name) else tree.node(path)
    if node is None or node.kind != "group" or node.array("nztxt") is None:
        return node
    return with_arrays(node, {"": SparseStrings(node, shape, what=f"{tree.location}: {path}")})


def open_vector(tree: Tree, axis: str, name: str, length: int) -> StoredVector | None:
    """Return a vector after checking its metadata against the axis; None if there is none."""
    path = vector_path(axis, name)
    what, node = f"{tree.location}: {path}", _node(tree, path, (length,), name)
    if node is None:
        return None
    kind, nnz = _checked(node, (length,), (axis,), "nzind", what)
    convention, entries_of, chunk_rows = None, None, max(length, 1)
    if nnz is None:
        chunk_rows = required_array(node, "", what).info.chunks[0]
        if kind.is_string:
            convention, entries_of = conventions_of(node, Convention.EMPTY_IS_MISSING, what=what)
    is_missing, is_sparse = convention is not None, nnz is not None
    info = VectorInfo(axis, name, kind, length, is_sparse, chunk_rows, is_missing, entries_of)
    return StoredVector(info, node, what=what)


def open_matrix(
    tree: Tree, rows_axis: str, columns_axis: str, name: str, shape: tuple[int, int]
) -> StoredMatrix | None:
    """Return a matrix stored in this orientation; None if there is none."""
    path = matrix_path(rows_axis, columns_axis, name)
    what, node = f"{tree.location}: {path}", _node(tree, path, shape[::-1], name)
    if node is None:
        return None
    kind, nnz = _checked(node, shape[::-1], (columns_axis, rows_axis), "rowval", what)
    if nnz is not None:
        check_indices(node, "colptr", shape[1] + 1, what)
    info = MatrixInfo(
        rows_axis,
        columns_axis,
        name,
        kind,
        shape,
        is_sparse=nnz is not None,
        nnz=nnz,
        is_row_major=rows_axis == columns_axis
        and conventions_of(node, Convention.ROW_MAJOR, what=what)[0] is not None,
    )
    return StoredMatrix(info, node, what=what)


def _checked(
    node: Node, shape: tuple[int, ...], axes: tuple[str, ...], indices: str, what: str
) -> tuple[StorageType, int | None]:
    """Return the type of elements, and how many are stored of what is sparse; their shapes fit."""
    if node.kind != "group":
        array = required_array(node, "", what).info
        _check_shape(array.shape, shape, what=what, axes=axes)
        return array.storage_type, None
    nnz = required_array(node, indices, what).info.size
    if nnz > math.prod(shape):
        raise CorruptDataError(
            f"{what}: {indices} has {nnz:,} elements, but {' x '.join(axes)} has no room for so "
            f"many: {list(shape)}"
        )
    check_indices(node, indices, nnz, what)
    return _values_type(node, nnz, indices, what), nnz


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


ATTRIBUTE: Final = "daf_convention"
"""Name of the attribute of a convention."""

ENTRIES_OF: Final = "daf_entries_of"
"""Name of the attribute of a vector whose values are entries of an axis: that axis."""


class Convention(enum.Enum):
    """The conventions; a property has one of them or none."""

    ROW_MAJOR = "row-major"
    """Of a matrix of an axis with itself: its rows are stored one after the other."""
    EMPTY_IS_MISSING = "empty-is-missing"
    """Of a vector of strings: an empty string stands for a missing value."""


class ConventionWarning(DafWarning):
    """A convention of a stored property is unreadable or unknown, and is ignored."""


def attributes_of(convention: Convention | None, entries_of: str | None = None) -> dict[str, str]:
    """Return the attributes that store a convention, and the axis that values are entries of.

    >>> attributes_of(Convention.ROW_MAJOR)
    {'daf_convention': 'row-major'}
    >>> attributes_of(None, "type")
    {'daf_entries_of': 'type'}
    """
    attributes = {} if convention is None else {ATTRIBUTE: convention.value}
    return attributes if entries_of is None else {**attributes, ENTRIES_OF: entries_of}


def conventions_of(
    node: Node, *allowed: Convention, what: str
) -> tuple[Convention | None, str | None]:
    """Return the convention of a node, and the axis that its values were recorded to be entries of.

    What makes no sense is ignored, with a warning.
    """
    try:
        value, axis = node.attribute(ATTRIBUTE), node.attribute(ENTRIES_OF)
    except (CorruptDataError, ReadOnlyError) as error:
        _ignore(what, f"its attributes cannot be read ({error})")
        return None, None
    found = next((one for one in allowed if isinstance(value, str) and value == one.value), None)
    if value is not None and found is None:
        choices = " or ".join(repr(one.value) for one in allowed)
        text = f"its attribute {ATTRIBUTE} is {reprlib.repr(value)}; here it can only be {choices}"
        _ignore(what, text)
    if axis is not None and name_problem(axis) is not None:
        text = f"its attribute {ENTRIES_OF} is {reprlib.repr(axis)}, and not the name of an axis"
        _ignore(what, text)
        axis = None
    return found, axis


def _ignore(what: str, problem: str) -> None:
    warn(f"{what}: {problem}; it is ignored: write the property again", ConventionWarning)


RelationSource: TypeAlias = Literal["import", "name"]
"""How a relation is known: recorded with the vector, as an import does, or by its name alone."""


@dataclass(frozen=True, slots=True, order=True)
class Relation:
    """A vector whose values are entries of an axis; an empty or missing value is of none."""

    axis: str
    """The axis that the vector runs along."""
    vector: str
    """Its name on that axis."""
    to_axis: str
    """The axis that its values are entries of."""
    source: RelationSource
    """Whether that was recorded when the vector was written, or follows from its name."""


def relation_of(axes: Collection[str], vector: VectorInfo) -> Relation | None:
    """Return the relation of a vector, if its values are entries of one of some axes.

    What was recorded goes before the name.  By its name a vector of strings refers to the axis of
    that name, or of the part before the first dot: ``type`` and ``type.manual`` to ``type``.
    """
    if not vector.storage_type.is_string:
        return None
    if vector.entries_of in axes:
        return Relation(vector.axis, vector.name, str(vector.entries_of), "import")
    for name in (vector.name, vector.name.partition(".")[0]):
        if name in axes:
            return Relation(vector.axis, vector.name, name, "name")
    return None


def relations_of(axes: Collection[str], vectors: Iterable[VectorInfo]) -> list[Relation]:
    """Return the relations of vectors to some axes, in alphabetical order."""
    relations = (relation_of(axes, vector) for vector in vectors)
    return sorted(relation for relation in relations if relation is not None)


def values_without_entry(batches: Iterable[pa.Array], entries: pa.Array) -> tuple[str, int] | None:
    """Return the first of some strings that is no entry of an axis, and how many are none.

    Empty strings and nulls are missing values, which are not counted.

    >>> values_without_entry([pa.array(["B", "", "X", "X"])], pa.array(["A", "B"]))
    ('X', 2)
    >>> values_without_entry([pa.array(["B", None])], pa.array(["A", "B"])) is None
    True
    """
    first, count = "", 0
    for batch in batches:
        is_coded = pa.types.is_dictionary(batch.type)
        strings = (batch.dictionary_decode() if is_coded else batch).cast(entries.type)
        is_known = pc.or_(pc.is_in(strings, value_set=entries), pc.equal(strings, ""))
        unknown = strings.filter(pc.invert(is_known))  # of nulls that is null
        if len(unknown) and not count:
            first = unknown[0].as_py()
        count += len(unknown)
    return (first, count) if count else None


def check_indices(node: Node, name: str, count: int, what: str) -> StoredArray:
    """Return an array of positions, after checking its metadata; nothing of it was read."""
    array = required_array(node, name, what)
    if array.info.shape != (count,) or not array.info.storage_type.is_integer:
        raise CorruptDataError(
            f"{what}: {name} is not a list of {count:,} positions, but "
            f"{array.info.storage_type.value} of shape {list(array.info.shape)}"
        )
    return array


def check_rows(rows: AnyArray, n_rows: int, what: str, base: int = 1) -> None:
    """Raise before compiled code is given a number outside of its arrays."""
    if rows.size and (int(rows.min()) < base or int(rows.max()) >= n_rows + base):
        raise rows_outside(what, n_rows, base)


def checked_indices(stored: StoredMatrix, rows: AnyArray) -> AnyArray:
    """Return row numbers as they are stored, after checking that they are on their axis.

    Of a file of others, also that none of them stands in for one that is missing.
    """
    base, n_rows = stored.index_base, stored.info.shape[0]
    check_rows(rows, n_rows, stored.what, base)
    if rows.size and not stored.is_filled and not rows.all():  # what Zarr leaves out reads as zeros
        stored.check_filled(asks_server=not (rows[1:] | rows[:-1]).all())
    return rows


def rows_outside(what: str, n_rows: int, base: int = 1) -> CorruptDataError:
    last = n_rows + base - 1
    return CorruptDataError(f"{what}: rowval leaves the range {base} to {last:,} of its rows axis")


def required_array(node: Node, name: str, what: str) -> StoredArray:
    array = node.array(name)
    if array is None:
        raise CorruptDataError(f"{what}: the array {name or 'itself'!r} is missing")
    return array


def sparse_positions(node: Node, count: int, length: int, what: str) -> AnyArray:
    """Return the positions in a sparse vector, from 1, after checking them."""
    stored = check_indices(node, "nzind", count, what)
    stored.check_stored(is_complete=True)
    nzind = stored.read()
    if not are_positions(nzind, length):
        raise CorruptDataError(f"{what}: nzind does not rise within 1 to {length:,}")
    return nzind


def are_positions(nzind: AnyArray, length: int) -> bool:
    """Return whether these are positions in a sparse vector: they rise, within 1 to its length.

    >>> [are_positions(np.array(each, int), 4) for each in ([], [1, 4], [0, 2], [2, 5], [2, 2])]
    [True, True, False, False, False]
    """
    is_within = not nzind.size or (nzind[0] >= 1 and nzind[-1] <= length)
    return bool(is_within and np.all(nzind[1:] > nzind[:-1]))


def is_colptr(colptr: AnyArray, n_columns: int, nnz: int) -> bool:
    """Return whether these say where columns begin: they rise from 1 to the end of the last.

    >>> [is_colptr(np.array(each), 2, 3) for each in ([1, 1, 4], [1, 5, 4], [1, 4], [0, 1, 4])]
    [True, False, False, False]
    >>> is_colptr(np.array([1, 1, 3]), 2, 3), is_colptr(np.array([1]), 0, 0)
    (False, True)
    """
    is_long = colptr.shape == (n_columns + 1,) and colptr[0] == 1 and colptr[-1] == nnz + 1
    return bool(is_long and np.all(colptr[1:] >= colptr[:-1]))


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
            nzind = sparse_positions(self._node, count, self.info.size, self._what)
            return nzind.astype(np.int64) - 1
        n_columns, n_rows = self.info.shape
        colptr = check_indices(self._node, "colptr", n_columns + 1, self._what).read()
        rows = check_indices(self._node, "rowval", count, self._what).read()
        if not is_colptr(colptr, n_columns, count):
            raise CorruptDataError(f"{self._what}: colptr, rowval and nztxt do not fit together")
        check_rows(rows, n_rows, self._what)
        lengths: AnyArray = np.diff(colptr.astype(np.int64))
        columns = np.repeat(np.arange(n_columns), lengths)
        return columns * n_rows + rows.astype(np.int64) - 1


class MadeNode:
    """A group or an array made of pinned nodes; see `Node`.

    Parameters
    ----------
    sources
        The nodes, whose identities are its own.
    array
        Returns an array by its name, this one by an empty one; it is asked for each once.
    attribute
        Returns an attribute by its name.
    variant
        What tells its identity from that of the nodes, and of others that are made of them.
    """

    def __init__(
        self,
        kind: NodeKind,
        sources: tuple[Node, ...],
        array: Callable[[str], StoredArray | None],
        attribute: Callable[[str], Any],
        variant: Hashable | None = None,
    ) -> None:
        self.kind = kind
        self._sources = sources
        self._array = functools.cache(array)
        self._attribute = attribute
        self._variant = () if variant is None else (variant,)

    @property
    def identity(self) -> Hashable:
        """What a cache goes by: that of all that it is made of."""
        return (*self._variant, *(source.identity for source in self._sources))

    @property
    def place(self) -> Hashable:
        """What a node has another one of that is made of other ones, also if these are new."""
        return tuple(source.place for source in self._sources)

    def array(self, name: str = "") -> StoredArray | None:
        """Return this array, or the array of that name below this group; made once."""
        return self._array(name)

    def attribute(self, name: str) -> Any:
        """Return an attribute; None if it has none of this name."""
        return self._attribute(name)


def with_arrays(node: Node, arrays: Mapping[str, StoredArray]) -> MadeNode:
    """Return a node with other arrays than those that are stored; one has no name."""
    kind: NodeKind = "array" if "" in arrays else "group"
    return MadeNode(kind, (node,), arrays.get, node.attribute, "parts")


_MAX_KEPT_COLUMNS: Final = 1 << 18


_Info = TypeVar("_Info", bound=VectorInfo | MatrixInfo)


class _StoredProperty(Generic[_Info]):
    """A vector or a matrix, pinned: what is read belongs together, also if it is replaced."""

    _part_names: ClassVar[tuple[str, ...]]

    def __init__(self, info: _Info, node: Node, *, what: str) -> None:
        self.info = info
        """Its metadata."""
        self.node = node
        """The node that it is stored as."""
        self.what = what
        """The property as messages name it."""

    @property
    def identity(self) -> Hashable:
        """What a cache of decoded values goes by; to be asked for before anything is read."""
        return self.node.identity

    def arrays(self) -> dict[str, StoredArray]:
        """Return the stored arrays by their name below the property's; a dense one has none."""
        if not self.info.is_sparse:
            return {"": self.dense()}
        found = ((part, self.node.array(part)) for part in self._part_names)
        return {part: array for part, array in found if array is not None}

    def dense(self) -> StoredArray:
        """Return the one array of what is dense; a matrix has (columns, rows), or is by rows."""
        return required_array(self.node, "", self.what)

    def check_stored(self) -> None:
        """Raise if what is stored cannot be the property, by the sizes of files alone."""
        for name, array in self.arrays().items():
            array.check_stored(is_complete=name not in ("", "nzval"))


class StoredVector(_StoredProperty[VectorInfo]):
    """One vector, pinned: what is read belongs together, also if it is replaced meanwhile."""

    _part_names = ("nzind", "nzval")
    _parts: SparseVectorParts | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """What is stored beside the data, to be handed on by whoever writes them elsewhere."""
        convention = Convention.EMPTY_IS_MISSING if self.info.empty_is_missing else None
        return attributes_of(convention, self.info.entries_of)

    def values(self) -> VectorInput:
        """Return all elements as a writer takes them: numbers, strings, or sparse parts."""
        if self.info.storage_type.is_string:
            return self.read_strings()
        if not self.info.is_sparse:
            return self.read(Span(0, self.info.length))
        return self.sparse_parts()

    def read(self, span: Span) -> AnyArray:
        """Return a range of a numeric vector; a read-only view of the file if it is dense."""
        if self.info.is_sparse:
            return self.sparse_parts().to_dense(span)
        return self.dense().read_rows(span)

    def reader(self) -> Callable[[Span], AnyArray]:
        """Return a function that reads ranges of a numeric vector.

        It holds the mapped memory and no file, where the vector can be mapped: hundreds of vectors
        can be read side by side.
        """
        if self.info.is_sparse:
            return self.sparse_parts().to_dense
        array = self.dense()
        if not array.info.is_mappable and array.info.chunks != array.info.shape:
            return array.read_rows
        mapped = array.read()  # a single chunk is fetched and decoded once, not once per range
        return lambda span: mapped[span.slice]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all elements of a vector of strings."""
        return self.dense().read_strings()

    def string_batches(self) -> Iterator[pa.Array]:
        """Yield the elements of a vector of strings piece by piece, as codes where that is cheap.

        Where they are stored plainly, no more than a piece is in memory.
        """
        array = self.dense()
        return array.string_pieces() if array.info.size else iter([array.read_strings()])

    def sparse_parts(self) -> SparseVectorParts:
        """Return the stored parts of a sparse vector; checked when first asked for."""
        if self._parts is None:
            count = required_array(self.node, "nzind", self.what).info.size
            nzind = sparse_positions(self.node, count, self.info.length, self.what)
            values = self.node.array("nzval")
            nzval = None if values is None else values.read()
            self._parts = SparseVectorParts(self.info.length, nzind, nzval)
        return self._parts


class StoredMatrix(_StoredProperty[MatrixInfo]):
    """One matrix in one stored orientation, pinned.

    The stored columns are those of the matrix, unless ``info.is_row_major``: then they are its
    rows.  `colptr`, `entries`, `dense` and `arrays` are as stored; what `DafReader` returns has
    the orientation of the matrix.
    """

    _part_names = ("colptr", "rowval", "nzval")

    def __init__(self, info: MatrixInfo, node: Node, *, what: str) -> None:
        super().__init__(info, node, what=what)
        self._colptr: AnyArray | None = None
        self._filled: frozenset[bool] = frozenset()

    @property
    def attributes(self) -> dict[str, str]:
        """What is stored beside the data, to be handed on by whoever writes them elsewhere."""
        return attributes_of(Convention.ROW_MAJOR if self.info.is_row_major else None)

    def is_same(self, other: StoredMatrix) -> bool:
        """Return whether another one is the very same stored matrix, not replaced meanwhile."""
        return self.node.place == other.node.place

    def colptr(self) -> AnyArray:
        """Return where each stored column of a sparse matrix begins, from 0, as int64.

        Short ones are kept, read-only.
        """
        if self._colptr is not None:
            return self._colptr
        nnz = self.entries("rowval").info.size
        stored = check_indices(self.node, "colptr", self.info.shape[1] + 1, self.what).read()
        if not is_colptr(stored, self.info.shape[1], nnz):
            first, name = self.index_base, "colptr" if self.index_base else "indptr"
            raise CorruptDataError(
                f"{self.what}: {name} does not rise from {first} to {nnz + first:,} "
                f"over {self.info.shape[1]:,} entries of {self.info.columns_axis!r}"
            )
        colptr: AnyArray = stored.astype(np.int64)
        colptr -= 1
        if colptr.size <= _MAX_KEPT_COLUMNS:
            colptr.flags.writeable = False
            self._colptr = colptr
        return colptr

    def entries(self, part: str) -> StoredArray:
        """Return the ``rowval``, ``nzval`` or ``colptr`` of a sparse matrix."""
        return required_array(self.node, part, self.what)

    @property
    def indices(self) -> StoredArray:
        """The row number of each stored element of a sparse matrix, from `index_base`."""
        rowval = self.entries("rowval")
        found: StoredArray = getattr(rowval, "from_zero", rowval)  # see `ShiftedIndices`
        return found

    def element_arrays(self) -> tuple[StoredArray, ...]:
        """Return `indices` of a sparse matrix, and its values if they are stored."""
        return (self.indices, *([self.entries("nzval")] if self.has_values() else []))

    @property
    def index_base(self) -> int:
        """What the row numbers of `indices` count from: 1, or 0 in files of others."""
        return 1 - hasattr(self.entries("rowval"), "from_zero")

    @property
    def is_ordered(self) -> bool:
        """Whether row numbers ascend within each column, as the format demands.

        Of a file of others nothing warrants it: elements may even be stored twice, and are to be
        added up.  `ordered` returns a matrix in which they are.
        """
        return self.index_base == 1

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
                    f"{self.what}: {name} is missing: several elements would be in one place"
                )
        is_known = asks_server or self.indices.info.is_mappable  # of what is mapped, all is
        self._filled |= {is_known, False}

    def has_values(self) -> bool:
        """Return whether a sparse matrix stores its values; if not, all are true (Bool)."""
        return self.node.array("nzval") is not None

    def values(self, span: Span) -> AnyArray:
        """Return some of the stored elements of a sparse matrix."""
        if not self.has_values():
            return np.ones(span.size, bool)
        return self.entries("nzval").read_rows(span)

    def decoded_bytes(self) -> int:
        """Return how much memory the numbers take that are not mapped, once all are read."""
        decoded = (array.info for array in self.arrays().values() if not array.info.is_mappable)
        return sum(info.size * info.storage_type.dtype.itemsize for info in decoded)
