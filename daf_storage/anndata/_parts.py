"""Where the parts of an AnnData lie in a file: frames with their columns as vectors, and values.

The frames of a file from before AnnData 0.7 are records, which are read into memory.
"""

from __future__ import annotations

import functools
import posixpath
import warnings
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._columns import Column, MaskedStrings, SeriesColumn, column_at
from daf_storage.anndata._restored import AnnDataWarning
from daf_storage.anndata._stored import MadeOf, Nodes, Place, free_name, node_at
from daf_storage.base import RESERVED_VECTORS, StorageType, first_duplicate, pandas
from daf_storage.data import strings_input
from daf_storage.trees import ArrayInfo, Hdf5Tree, MemoryArray, Node, StoredArray, Tree

MISSING_SUFFIX: Final = "_is_missing"
"""Ends the name of the Bool vector that tells a missing entry from an empty string."""

_FEW_COLUMNS: Final = 4
"""Each of so many columns on a server is looked at by itself."""


class StoredFrame:
    """A DataFrame whose columns lie in a file, each by itself.

    Parameters
    ----------
    path
        The group whose children decide which columns there are.
    index_path
        Where its names are.
    columns
        Where each column is, by its name, in order.
    is_old
        Whether byte strings are text, as in the frames of AnnData 0.7.
    """

    of_uns: AbstractSet[str] = frozenset()

    def __init__(
        self,
        tree: Tree,
        path: str,
        index_path: str,
        columns: Iterable[tuple[str, str]],
        *,
        index_name: str | None = None,
        is_old: bool = True,
    ) -> None:
        self._tree = tree
        self._path = path
        self.index_name = index_name
        self._is_old = is_old
        if tree.kind(index_path) is None:
            raise errors.CorruptDataError(f"{tree.location}: the index {index_path!r} is missing")
        self._index = column_at(tree, index_path, is_old=True)
        self.index_sources = self._index.sources
        self.sources: tuple[str, ...] = (path,)
        listed = list(columns)
        self.column_names = [name for name, _ in listed]
        """The names of its columns, in order."""
        self._column_paths = [where for _, where in listed]
        self._columns: dict[int, Column] = {}
        self.renewals = 0
        """How often a column was looked at again, since it had been changed in place."""

    def _index_nodes(self) -> Nodes:
        return tuple(node_at(self._tree, source) for source in self.index_sources)

    @property
    def length(self) -> int:
        """How many rows it has."""
        return int(self._index.array(self._index_nodes()).info.shape[0])

    def entries(self) -> pa.Array:
        """Return the index, read."""
        return self.names(self._index_nodes()).read_strings().cast(pa.string())

    def column(self, position: int) -> Column:
        """Return a column; what it says of itself is kept until it is changed.

        In a file of HDF5 that is noticed for all of it; elsewhere the column is looked at: that an
        array within it was written to does not show in the group around it.
        """
        cached = self._columns.get(position)
        if cached is not None and (cached.state is None or cached.state == self._state(cached)):
            return cached
        if len(self._columns) == _FEW_COLUMNS and isinstance(self._tree, Hdf5Tree):
            self._tree.look_ahead(self._path)  # a reader of this many reads the others, too
        self.renewals += cached is not None
        path = self._column_paths[position]
        is_hdf5 = isinstance(self._tree, Hdf5Tree)
        before = None if is_hdf5 else self._tree.identity(path)
        try:
            column = column_at(self._tree, path, is_old=self._is_old)
        except errors.FormatError as error:
            column = Column((), error=error)
        self._columns[position] = column
        if not is_hdf5 and column.error is None:
            state = self._state(column)
            column.state = state if state[0] == before else (before,)
        return column

    def _state(self, column: Column) -> tuple[Any, ...]:
        return tuple(map(self._tree.identity, column.sources))

    def names(self, nodes: Nodes) -> EntryNames:
        """Return the index as entries of an axis."""
        what = f"{self._tree.location}: {self._path} names"
        if self._index.problem:
            raise errors.UnsupportedDataError(f"{what}: {self._index.problem}")
        return EntryNames(self._index.array(nodes), what=what)


def stored_frame(tree: Tree, path: str) -> StoredFrame:
    """Return the DataFrame that anndata wrote into a group."""
    node = node_at(tree, path)
    index = elements.text_of(node.attribute("_index")) or "_index"
    names = elements.names_of(node.attribute("column-order"))
    return StoredFrame(
        tree,
        path,
        f"{path}/{index}",
        [(name, f"{path}/{name}") for name in names],
        index_name=None if index == "_index" else index,
        is_old=elements.text_of(node.attribute("encoding-version")) == "0.1.0",
    )


class MemoryFrame:
    """A DataFrame in memory; maybe since only anndata understands how it is stored.

    Parameters
    ----------
    part
        What messages call it.
    of_uns
        The keys of ``uns`` that are a part of it.
    """

    index_sources = sources = ("",)
    renewals = 0

    def __init__(self, frame: Any, *, part: str, of_uns: AbstractSet[str] = frozenset()) -> None:
        self.of_uns = of_uns
        self._frame = frame
        self._part = part
        name = frame.index.name
        self.index_name = None if name is None else str(name)
        self.length = len(frame)
        self.column_names = [str(name) for name in frame.columns]
        self._columns: dict[int, Column] = {}

    def column(self, position: int) -> Column:
        """Return a column."""
        if position not in self._columns:
            series = functools.partial(self._series, position)
            self._columns[position] = SeriesColumn(self.sources, series)
        return self._columns[position]

    def _series(self, position: int) -> Any:
        return self._frame.iloc[:, position]

    def names(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the index as entries of an axis."""
        index, what = self._frame.index, f"{self._part} names"
        is_text = all(issubclass(found, str) for found in set(map(type, index)))
        strings = index if is_text else index.map(str)
        return EntryNames(
            MemoryArray(lambda: strings_input(strings, what=what)), what=what, is_text=is_text
        )


Frame: TypeAlias = StoredFrame | MemoryFrame
"""A DataFrame of an AnnData."""


class EntryNames(MadeOf):
    """Names of observations or variables as entries: strings, each of which occurs once.

    Names that occur more than once get anndata's suffixes, with a warning.
    """

    has_unique_strings = True
    """Whether who reads them need not look for duplicates again."""

    def __init__(self, stored: StoredArray, *, what: str, is_text: bool = True) -> None:
        self._parts = (stored,)
        self._what = what
        info = stored.info
        self.is_text = is_text and info.storage_type.is_string
        """Whether they were text before."""
        self.info = ArrayInfo(info.shape, StorageType.STRING, info.shape, is_mappable=False)

    def read_strings(self) -> Any:
        """Return all names."""
        names = self.given()
        twice = first_duplicate(names)
        return names if twice is None else self._unique(names, twice)

    def given(self) -> Any:
        """Return all names as they are, of which some may occur more than once."""
        stored = self._parts[0]
        if isinstance(stored, MaskedStrings):
            return stored.filled("<NA>")  # as AnnData calls what has no name
        if stored.info.storage_type.is_string:
            return stored.read_strings()
        index = pandas(extra="anndata").Index(stored.read()).map(str)  # as AnnData has them
        return strings_input(index, what=self._what)

    def _unique(self, names: pa.Array, twice: str) -> pa.Array:
        warnings.warn(
            f"{self._what} are not unique: {twice!r} occurs more than once; they are made unique "
            f"as AnnData does it, such as {twice + '-1'!r}",
            AnnDataWarning,
            stacklevel=2,
        )
        return made_unique(names)


def made_unique(entries: pa.Array) -> pa.Array:
    """Return strings of which each repeated one gets ``-1``, ``-2`` and so on, as in anndata.

    The first one stays, and a name that is there already is not made.

    >>> made_unique(pa.array(["a", "b", "a", "a-1", "a"])).to_pylist()
    ['a', 'b', 'a-2', 'a-1', 'a-3']
    """
    codes = entries.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(codes, return_index=True)
    is_repeated = np.ones(codes.size, bool)
    is_repeated[first] = False
    places = np.flatnonzero(is_repeated)
    repeated = entries.take(pa.array(places)).to_pylist()
    candidates = pc.match_substring_regex(entries, "-[0-9]+$")
    taken = set(entries.filter(candidates).to_pylist())
    counts: dict[str, int] = {}
    renamed = []
    for name in repeated:  # of the repeated ones only
        number = counts.get(name, 0) + 1
        while f"{name}-{number}" in taken:
            number += 1
        counts[name] = number
        renamed.append(f"{name}-{number}")
    return pc.replace_with_mask(entries, pa.array(is_repeated), pa.array(renamed, entries.type))


class FrameVectors:
    """The columns of a frame by the names of their vectors, which follow from theirs alone.

    Parameters
    ----------
    part
        What messages call the frame: ``obs``, ``var`` or ``raw.var``.
    """

    def __init__(self, frame: Frame, part: str) -> None:
        self.frame = frame
        self.part = part
        taken = set(RESERVED_VECTORS)
        names = frame.column_names
        self._names = [_added(free_name(name, taken), taken) for name in names]
        self._companions = [
            _added(free_name(f"{name}{MISSING_SUFFIX}", taken), taken) for name in self._names
        ]
        both = (self._companions, self._names)
        self._positions = {name: n for listed in both for n, name in enumerate(listed)}

    def find(self, name: str) -> FrameVector | None:
        """Return the vector of this name, or that whose companion has it; None if there is none."""
        position = self._positions.get(name)
        vector = None if position is None else self._vector(position)
        if vector is None or vector.name == name:
            return vector
        return vector if vector.companion == name else None

    def every(self) -> Iterator[FrameVector]:
        """Yield those of all columns, in their order."""
        yield from map(self._vector, range(len(self._names)))

    def of_column(self, column_name: str) -> FrameVector:
        """Return the vector of the first column of this name."""
        return self._vector(self.frame.column_names.index(column_name))

    def _vector(self, position: int) -> FrameVector:
        column_name, column = self.frame.column_names[position], self.frame.column(position)
        return FrameVector(column_name, column, self._names[position], self._companions[position])


def _added(name: str, taken: set[str]) -> str:
    taken.add(name)
    return name


class FrameVector:
    """The vector of a column; of a damaged one, it raises when it is used."""

    def __init__(self, column_name: str, column: Column, name: str, companion: str) -> None:
        self.column_name = column_name
        self.column = column
        self.name = name
        """The name of the vector, if Daf has such a vector."""
        self._companion = companion
        self.error = column.error
        """What is wrong with its metadata."""
        self.problem = ""
        """Why there is no such vector."""
        try:
            self.problem = column.problem
        except errors.FormatError as error:
            self.error = error

    @property
    def is_shown(self) -> bool:
        """Whether there is such a vector, and nothing is wrong with its metadata."""
        return not self.problem and self.error is None

    @functools.cached_property
    def companion(self) -> str:
        """The name of the vector that says what is missing; empty if there is none."""
        try:
            may_have_one = self.is_shown and self.column.may_have_companion
            has_one = may_have_one and self.column.missing_as() == "vector"
        except errors.FormatError as error:
            self.error, has_one = error, False
        return self._companion if has_one else ""


_PARTS: Final = frozenset(
    {"X", "layers", "obs", "var", "obsm", "varm", "obsp", "varp", "uns", "raw"}
    | {"raw.X", "raw.var", "raw.varm"}
)
_CATEGORIES: Final = "_categories"
_NAMES: Final = {"obs": ("obs_names", "row_names"), "var": ("var_names", "col_names")}
"""What the names are called in a group that does not say what it is."""
_OF_PLACES: Final = ("layers", "obsm", "varm", "obsp", "varp", "uns")
"""The parts whose values have keys."""
_NEIGHBORS: Final = ("distances", "connectivities")
GROUPS: Final = (
    *("", "obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns"),
    *("raw", "raw/var", "raw/varm"),
)
"""The groups whose children decide what properties there are."""

Places = dict[str, Place]


@dataclass(slots=True)
class Parts:
    """The parts of an AnnData: where each lies in a file, or what it is."""

    obs: Frame
    var: Frame
    main: Place | None
    layers: Places = field(default_factory=dict)
    obsm: Places = field(default_factory=dict)
    varm: Places = field(default_factory=dict)
    obsp: Places = field(default_factory=dict)
    varp: Places = field(default_factory=dict)
    uns: Places = field(default_factory=dict)
    raw_var: Frame | None = None
    raw_main: Place | None = None
    raw_varm: Places = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """Groups and arrays that AnnData does not know."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the groups that cannot be read."""


def is_anndata(tree: Tree) -> bool:
    """Return whether a tree holds an AnnData; by its root alone."""
    root = tree.node("")
    if root is None or root.kind != "group":
        return False
    encoding = elements.encoding_of(root)
    if encoding:  # a MuData has obs and var too
        return encoding == "anndata"
    has_frames = all(tree.kind(part) is not None for part in ("obs", "var"))
    return has_frames and tree.kind("mod") is None  # the first MuData had no encoding either


def anndata_parts(tree: Tree) -> Parts:
    """Return the parts of an AnnData, by metadata.

    Raises
    ------
    FormatError
        Its obs or var cannot be read.
    """
    children, damaged = tree.children(""), dict[str, str]()
    with_keys: Any = {part: _places(tree, part, damaged) for part in _OF_PLACES}
    uns: Places = with_keys["uns"]
    obs, var = (_frame(tree, part, uns) for part in ("obs", "var"))
    for frame in (obs, var):
        for key in frame.of_uns & uns.keys():
            del uns[key]
    raw = "raw." if "raw.X" in children else "raw/"
    raw_var = _raw_var(tree, raw, damaged)
    parts = Parts(
        obs=obs,
        var=var,
        main=_main(tree, "X"),
        raw_var=raw_var,
        raw_main=None if raw_var is None else _main(tree, f"{raw}X"),
        raw_varm={} if raw_var is None else _places(tree, f"{raw}varm", damaged),
        unknown=tuple(sorted(set(children) - _PARTS)),
        damaged=damaged,
        **with_keys,
    )
    _add_neighbors(tree, parts)
    return parts


def parts_of_object(adata: Any, tree: Tree) -> Parts:
    """Return the parts of an AnnData in memory; of one that is backed, ``X`` lies in its file."""
    raw = adata.raw
    with_keys: Any = {part: _values(getattr(adata, part)) for part in _OF_PLACES}

    def main(path: str, owner: Any) -> Place | None:
        if isinstance(tree, Hdf5Tree) and tree.kind(path) is not None:
            return _main(tree, path)
        return None if owner.X is None else Place("", owner.X)

    return Parts(
        obs=MemoryFrame(adata.obs, part="obs"),
        var=MemoryFrame(adata.var, part="var"),
        main=main("X", adata),
        raw_var=None if raw is None else MemoryFrame(raw.var, part="raw.var"),
        raw_main=None if raw is None else main("raw/X", raw),
        raw_varm={} if raw is None else _values(raw.varm),
        **with_keys,
    )


def _frame(tree: Tree, path: str, uns: Iterable[str] = ()) -> Frame:
    """Return a DataFrame; one from before AnnData 0.7 in memory, with its categories in ``uns``.

    Such a one is an array of records, or a group that does not say what it is.
    """
    node = tree.node(path)
    if node is None:
        raise errors.CorruptDataError(
            f"{tree.location}: this AnnData has no {path}; is it complete?"
        )
    if node.kind == "array":
        _check_readable(node)
    elif node.attribute("column-order") is not None:
        return stored_frame(tree, path)
    if not isinstance(tree, Hdf5Tree):
        raise errors.UnsupportedDataError(
            f"{tree.location}: a Zarr directory from before AnnData 0.7 is not read in place; "
            "read it with anndata.read_zarr, and pass the result to from_anndata"
        )
    frame = _old_frame(tree, path)
    keys = (key for key in uns if key.endswith(_CATEGORIES))
    of_uns = {key for key in keys if _set_categories(tree, frame, key)}
    return MemoryFrame(frame, part=path.replace("/", "."), of_uns=of_uns)


def _check_readable(node: Node) -> None:
    """Raise if an array is one because its metadata cannot be read; Daf need not have its type."""
    with suppress(errors.UnsupportedDataError):
        node.array()


def _raw_var(tree: Tree, raw: str, damaged: dict[str, str]) -> Frame | None:
    if raw == "raw/" and "var" not in _places(tree, "raw", damaged):
        return None
    try:
        return _frame(tree, "raw.var") if raw == "raw." else stored_frame(tree, "raw/var")
    except errors.CorruptDataError as error:
        damaged["raw"] = str(error)
        return None


def _main(tree: Tree, path: str) -> Place | None:
    """Return the place of a matrix, also of a damaged one: whoever uses it gets the error."""
    try:
        node = tree.node(path)
        if node is None:
            return Place(path) if tree.children(path) else None
        return None if elements.encoding_of(node) == "null" else Place(path)
    except errors.FormatError:
        return Place(path)


def _places(tree: Tree, path: str, damaged: dict[str, str]) -> Places:
    """Return what is in a group, or the fields of old records; if it cannot be listed, note why."""
    try:
        node = tree.node(path)
        if node is not None and node.kind == "array":
            _check_readable(node)
            return _values(_records(tree, path))
        children = tree.children(path)
    except errors.CorruptDataError as error:
        damaged[path] = str(error)
        return {}
    if node is None and children:
        damaged[path] = (
            f"{tree.location}: {path}: its metadata are missing, and what it has is there"
        )
        return {}
    return {key: Place(posixpath.join(path, key)) for key in children}


def _add_neighbors(tree: Tree, parts: Parts) -> None:
    """Take the matrices of neighbours from where AnnData 0.7 kept them."""
    if "neighbors" not in parts.uns or tree.kind("uns/neighbors") != "group":
        return
    for key, place in _places(tree, "uns/neighbors", {}).items():
        node = tree.node(place.path)
        if key in _NEIGHBORS and node is not None and elements.sparse_kind(node):
            parts.obsp.setdefault(key, place)
            others = parts.uns["neighbors"].without
            parts.uns["neighbors"] = Place("uns/neighbors", without=(*others, key))


@contextmanager
def _readable(tree: Tree, path: str) -> Iterator[None]:
    """Let what h5py, numpy and pandas raise of an old part be a `CorruptDataError`."""
    try:
        yield
    except (OSError, TypeError, ValueError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise errors.CorruptDataError(
            f"{tree.location}: {path} cannot be read ({reason}); is the file complete?"
        ) from error


def _old_frame(tree: Tree, path: str) -> Any:
    """Return a DataFrame of records, or of a group that does not say what it is."""
    is_group = tree.kind(path) != "array"
    places = _places(tree, path, {}) if is_group else {}
    columns = {key: place.read(tree) for key, place in places.items()}
    columns = columns if is_group else _records(tree, path)
    with _readable(tree, path):
        frame = pandas(extra="anndata").DataFrame(columns)
        names = [key for key in _NAMES[path.rpartition(".")[2]] if key in places]
        if names:
            return frame.set_index(names[0]).rename_axis(None)
        return (
            frame.set_axis(frame.index.map(str)) if is_group else frame.set_index(frame.columns[0])
        )


def _records(tree: Tree, path: str) -> dict[str, Any]:
    """Return the fields of an array of records, with text for byte strings; of others none."""
    with _readable(tree, path), elements.element(tree, path) as stored:
        names = stored.dtype.names or ()
        records = stored[()] if names else {}
        return {name: _text(records[name]) for name in names}


def _text(values: Any) -> Any:
    if values.dtype.kind not in "SO":
        return values
    return [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]


def _set_categories(tree: Tree, frame: Any, key: str) -> bool:
    """Make a categorical of the column whose categories are in uns; say if there is one."""
    name, path = key.removesuffix(_CATEGORIES), f"uns/{key}"
    if name not in frame or frame[name].dtype.kind not in "iu" or tree.kind(path) != "array":
        return False
    with _readable(tree, path):
        with elements.element(tree, path) as stored:
            categories = _text(np.ravel(stored[()]))
        is_coded = bool((frame[name] < len(categories)).all())  # else it is of the other frame
        if is_coded:
            frame[name] = pandas(extra="anndata").Categorical.from_codes(frame[name], categories)
    return is_coded


def _values(values: Mapping[str, Any]) -> Places:
    """Return places of values that were read; anything in the file may change them."""
    return {key: Place("", value) for key, value in named(values).items()}


def named(layers: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the layers of an AnnData; from anndata 0.13 on, X is among them without a name."""
    return {key: value for key, value in layers.items() if key is not None}
