"""Frames of an AnnData: their columns as vectors, and their index as the entries of an axis.

A vector is a view of the stored column; there is one reading of each encoding.  Categories, and
masks of what is missing, are read when the vectors of an axis are listed: a second vector may say
what is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.anndata import _encoding as encoding
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._restored import AnnDataWarning
from daf_storage.anndata._stored import CodedStrings, Nodes, node_at
from daf_storage.base import (
    RESERVED_VECTORS,
    StorageType,
    first_duplicate,
    free_name,
    pandas,
    string_offsets,
)
from daf_storage.data import Convention, required_array, strings_input
from daf_storage.data import convention_attributes as attributes_of
from daf_storage.trees import ArrayInfo, Hdf5Tree, MemoryArray, Node, StoredArray, Tree, ZarrTree

_UNREADABLE: Final = (ValueError, TypeError, pa.ArrowException)
"""What pandas and Arrow raise for a column that no vector has; errors of Daf are such, too."""
_OF_STRINGS: Final = {"kind": "text", "dtype": "str"}
"""The rule of strings as anndata reads them with pandas 3; with pandas 2 it changes nothing."""

MissingAs: TypeAlias = Literal["", "empty", "vector"]
"""How a vector marks missing values: it has none; by empty strings; or by a second vector, where
empty strings are values."""


class Column:
    """A column of obs or var, as a vector; by default one array, which says all of it.

    Parameters
    ----------
    sources
        The paths of what it consists of.
    make
        Returns the vector, given the pinned sources.
    rule
        What restores the column from the vector.
    error
        What is wrong with its metadata: whoever uses it gets this.
    """

    note: str = ""
    """What the vector does not have of the column; empty if nothing."""
    may_have_companion = True
    """Whether a second vector may say what is missing, as far as its type tells."""
    column_name = name = companion_name = ""
    """What it is called in its frame; its vector, if there is one; a second one, if it has one."""
    unclear: errors.FormatError | None = None
    """Why it cannot be said what is missing."""
    _has_companion: bool | None = None

    def __init__(
        self,
        sources: tuple[str, ...],
        make: Callable[[Nodes], StoredArray] | None = None,
        *,
        rule: Mapping[str, Any] | None = None,
        error: errors.DafError | None = None,
    ) -> None:
        self.sources = sources
        self._make = make
        self._rule = rule or {}
        self.error = error
        self.state: Hashable | None = None
        """The identity of the sources before they were looked at; None if nothing is kept."""

    @property
    def is_shown(self) -> bool:
        """Whether there is such a vector, and nothing is wrong with its metadata."""
        return not self.problem and self.error is None

    @property
    def companion(self) -> str:
        """The name of the vector that says what is missing; empty if there is none."""
        if self._has_companion is None:  # what cannot be read now is asked for again
            self.unclear, may_have_one = None, self.is_shown and self.may_have_companion
            try:
                self._has_companion = may_have_one and self.missing_as() == "vector"
            except errors.FormatError as error:
                self.unclear = error
        return self.companion_name if self._has_companion else ""

    @functools.cached_property
    def problem(self) -> str:
        """Why Daf has no such vector; empty if it has."""
        try:
            self.check()
        except _UNREADABLE as error:
            return str(error)
        return ""

    def check(self) -> None:
        """Raise if Daf has no such vector."""

    def rule(self) -> dict[str, Any]:
        """Return what restores the column from the vector."""
        return dict(self._rule)

    def categories(self) -> pa.Array | None:
        """Return the categories of a categorical, in order; None for others."""
        return None

    def category_count(self) -> int | None:
        """Return how many categories there are, of a categorical; by metadata alone if it can."""
        categories = self.categories()
        return None if categories is None else len(categories)

    def missing_as(self) -> MissingAs:
        """Return how missing values are marked."""
        return ""

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the vector."""
        assert self._make is not None  # noqa: S101 - a column with a problem is no vector
        return self._make(nodes)

    def entries(self, nodes: Nodes) -> StoredArray:
        """Return it as an index."""
        return self.array(nodes)

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the second vector: the mask."""
        return required_array(nodes[0], "mask", self.sources[0])

    def attributes(self) -> dict[str, str]:
        """Return the attributes of the vector."""
        is_empty = self.missing_as() == "empty"
        return attributes_of(Convention.EMPTY_IS_MISSING if is_empty else None)


class SeriesColumn(Column):
    """A column that pandas has, or that only anndata reads: as an import stores it."""

    def __init__(self, sources: tuple[str, ...], series: Callable[[], Any]) -> None:
        super().__init__(sources)
        self.value = functools.cache(series)

    @functools.cached_property
    def _encoded(self) -> encoding.EncodedColumn:
        return encoding.encode_column(self.value())

    def check(self) -> None:
        """Raise if Daf has no such vector."""
        _ = self._encoded

    @functools.cached_property
    def note(self) -> str:  # type: ignore[override]  # made when it is needed
        """What the vector does not have of the column."""
        return self._encoded.note

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return dict(self._encoded.rule)

    def categories(self) -> pa.Array | None:
        """Return the categories, if it is a categorical."""
        return None if self.problem else self._encoded.categories

    def missing_as(self) -> MissingAs:
        """Return how missing values are marked."""
        if self._encoded.is_missing is not None:
            return "vector"
        return "empty" if self._encoded.empty_is_missing else ""

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the vector."""
        return MemoryArray(lambda: self._encoded.values)

    def is_missing(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the second vector."""
        return MemoryArray(lambda: self._encoded.is_missing)


class CategoricalColumn(Column):
    """Codes and categories: strings as codes of them."""

    def __init__(
        self,
        sources: tuple[str, ...],
        node: Node,
        codes: str,
        categories: StoredArray,
        *,
        ordered_by: Node,
        what: str,
    ) -> None:
        super().__init__(sources)
        self._codes_name = codes
        self._is_ordered = functools.cache(lambda: bool(ordered_by.attribute("ordered")))
        self._has_missing = functools.cache(lambda: bool((self._codes((node,)).read() < 0).any()))
        self._stored_categories = categories
        self._is_string = categories.info.storage_type.is_string
        self._what = what

    def _codes(self, nodes: Nodes) -> StoredArray:
        return required_array(nodes[0], self._codes_name, self.sources[0])

    def check(self) -> None:
        """Raise if Daf has no such vector; strings need not be looked at."""
        if not self._is_string:
            _ = self._unusual

    def category_count(self) -> int:
        """Return how many categories there are."""
        return self._stored_categories.info.size

    def categories(self) -> pa.Array:
        """Return the categories as strings, in order."""
        return self._strings

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        if self._is_string:
            return {"kind": "categorical", "ordered": self._is_ordered()}
        return dict(self._unusual.rule)

    @functools.cached_property
    def _strings(self) -> pa.Array:
        stored = self._stored_categories
        return stored.read_strings() if self._is_string else self._unusual.categories

    @functools.cached_property
    def _unusual(self) -> encoding.EncodedColumn:
        """What becomes of categories that are no strings."""
        values = self._stored_categories.read()
        empty = pandas(extra="anndata").Categorical.from_codes(
            np.empty(0, np.int8), categories=values, ordered=self._is_ordered()
        )
        return encoding.encode_column(pandas(extra="anndata").Series(empty))

    @functools.cached_property
    def _has_empty(self) -> bool:
        """Whether a category is the empty string."""
        return not np.diff(string_offsets(self.categories())).all()

    def missing_as(self) -> MissingAs:
        """Return how missing values are marked; reads the codes if a category is empty."""
        if not self._has_empty:
            return "empty"
        return "vector" if self._has_missing() else ""

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the strings."""
        return CodedStrings(self._codes(nodes), self.categories, what=self._what)

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return for which entries there is no code."""
        codes = self._codes(nodes)
        return MemoryArray(
            lambda: codes.read() < 0, shape=codes.info.shape, storage_type=StorageType.BOOL
        )


class MaskedColumn(Column):
    """Integers, booleans or strings, and a mask of those that are missing."""

    def __init__(self, tree: Tree, path: str, node: Node) -> None:
        super().__init__((path,))
        self._what = f"{tree.location}: {path}"
        values, mask = values_and_mask(node, self._what)
        self._kind = kind = values.info.storage_type
        self.may_have_companion = kind.is_string
        self._na_value = node.attribute("na-value")
        self._is_bool = kind is StorageType.BOOL
        is_string = elements.encoding_of(node) == "nullable-string-array"
        if not (kind.is_string if is_string else self._is_bool or kind.is_integer):
            wanted = "strings" if is_string else "integers or booleans"
            raise errors.CorruptDataError(f"{self._what}: its values are no {wanted}")
        self._has_missing = functools.cache(lambda: _any(mask))
        self._has_empty = functools.cache(lambda: kind.is_string and _has_empty(values, mask))
        self._is_text = functools.cache(
            lambda: kind.is_string or self._is_bool or isinstance(_encoded(values, mask), pa.Array)
        )

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        if not self._kind.is_string:
            return {"kind": "nullable", "dtype": "boolean" if self._is_bool else self._kind.value}
        rule = {"kind": "text", "dtype": "string", "missing": self._has_missing()}
        return {**rule, "na_value": "NaN"} if self._na_value == "NaN" else rule

    def missing_as(self) -> MissingAs:
        """Return how missing values are marked; reads the strings if some are missing."""
        if not self._has_missing() or not self._is_text():
            return ""
        return "vector" if self._has_empty() else "empty"

    def array(self, nodes: Nodes, missing: str = "") -> StoredArray:
        """Return the stored values if none is missing, else what an import makes of them."""
        values, mask = values_and_mask(nodes[0], self._what)
        if not _any(mask):
            return values
        is_string = self._kind.is_string
        encoded = functools.partial(_filled, missing=missing) if is_string else _encoded
        return MemoryArray(
            lambda: encoded(values, mask),
            shape=values.info.shape,
            storage_type=StorageType.STRING if is_string or self._is_bool else None,
            sources=(values, mask),
        )

    def entries(self, nodes: Nodes) -> StoredArray:
        """Return it as an index: what has no name is called as AnnData calls it."""
        return self.array(nodes, "<NA>")


def _encoded(values: StoredArray, mask: StoredArray) -> Any:
    """Return what becomes of integers or booleans of which some are missing."""
    arrays = pandas(extra="anndata").arrays
    is_bool = values.info.storage_type is StorageType.BOOL
    build = arrays.BooleanArray if is_bool else arrays.IntegerArray
    series = pandas(extra="anndata").Series(build(np.array(values.read()), np.array(mask.read())))
    return encoding.encode_column(series).values


def _filled(values: StoredArray, mask: StoredArray, missing: str) -> Any:
    """Return strings, with a text in place of those that are missing."""
    strings = values.read_strings()
    return pc.if_else(pa.array(mask.read()), pa.scalar(missing, strings.type), strings)


def values_and_mask(node: Node, what: str) -> tuple[StoredArray, StoredArray]:
    """Return the arrays of a column with a mask.

    Raises
    ------
    CorruptDataError
        One is missing, or the mask is not a boolean for each value.
    """
    values, mask = (required_array(node, part, what) for part in ("values", "mask"))
    if mask.info.storage_type is not StorageType.BOOL:
        kind = mask.info.storage_type.value
        raise errors.CorruptDataError(
            f"{what}: its mask has the type {kind}, and should have booleans"
        )
    if mask.info.shape != values.info.shape:
        raise errors.CorruptDataError(f"{what}: its mask and its values differ in length")
    return values, mask


def _any(mask: StoredArray) -> bool:
    return bool(mask.read().any())


def _has_empty(values: StoredArray, mask: StoredArray) -> bool:
    is_empty = pc.equal(values.read_strings(), "").to_numpy(zero_copy_only=False)
    return bool((is_empty & ~mask.read()).any())


# By encoding


def column_at(tree: Tree, path: str, *, is_old: bool = False) -> Column:
    """Return the column at a path of a file, by its metadata.

    Parameters
    ----------
    is_old
        Whether byte strings are text, as in the frames of AnnData 0.7.
    """
    node = tree.node(path)
    if node is None:
        raise errors.CorruptDataError(f"{tree.location}: the column {path!r} is missing")
    if node.kind == "array":
        return _array_column(tree, path, node, is_old=is_old)
    encoded = elements.encoding_of(node)
    if encoded.startswith("nullable-"):
        return MaskedColumn(tree, path, node)
    # Categories that are dates, or numbers with a mask, are read by anndata.
    categories = _categories(tree, f"{path}/categories") if encoded == "categorical" else None
    if categories is None:
        return _read_column(tree, path)
    what = f"{tree.location}: {path}"
    return CategoricalColumn((path,), node, "codes", categories, ordered_by=node, what=what)


def _read_column(tree: Tree, path: str) -> Column:
    """Return a column that anndata reads."""

    def series() -> Any:
        values = elements.read_value(tree, path)
        if isinstance(values, np.ndarray) and values.dtype.kind == "S":
            values = values.astype(object)  # of which pandas makes no text
        return pandas(extra="anndata").Series(values)

    return SeriesColumn((path,), series)


def _categories(tree: Tree, path: str) -> StoredArray | None:
    """Return categories that are an array, or strings none of which is missing; None for others."""
    node = tree.node(path)
    if node is None or node.kind == "array":
        with suppress(errors.UnsupportedDataError):
            return None if elements.has_bytes(tree, path) else elements.array_at(tree, path)
        return None
    if elements.encoding_of(node) != "nullable-string-array":
        return None
    values, mask = values_and_mask(node, f"{tree.location}: {path}")
    if mask.read().any():
        raise errors.CorruptDataError(f"{tree.location}: {path}: one of the categories is missing")
    return values if values.info.size else None


def _array_column(tree: Tree, path: str, node: Node, *, is_old: bool) -> Column:
    folder, _, name = path.rpartition("/")
    old_categories = f"{folder}/__categories/{name}"
    if node.attribute("categories") is not None and tree.kind(old_categories) == "array":
        return _old_categorical(tree, path, node, old_categories)
    try:
        array = required_array(node, "", path)
    except errors.UnsupportedDataError:  # such as of numbers of half precision
        shape, dtype = elements.shape_and_dtype(tree, path)
        if len(shape) != 1 or dtype != np.float16:
            return _read_column(tree, path)
        rule = {"kind": "number", "dtype": "float16"}
        return Column((path,), lambda _: elements.half_floats(tree, path), rule=rule)
    if (
        len(array.info.shape) != 1
        or node.attribute("categories") is not None
        or (not is_old and elements.has_bytes(tree, path))
    ):
        return _read_column(tree, path)
    rule = _OF_STRINGS if array.info.storage_type.is_string else {}
    return Column((path,), lambda nodes: required_array(nodes[0], "", path), rule=rule)


def _old_categorical(tree: Tree, path: str, node: Node, categories_path: str) -> Column:
    """Return a categorical as AnnData 0.7 stored it."""
    ordered_by, sources = node_at(tree, categories_path), (path, categories_path)
    what = f"{tree.location}: {path}"
    with suppress(errors.UnsupportedDataError):
        categories = elements.array_at(tree, categories_path)
        return CategoricalColumn(sources, node, "", categories, ordered_by=ordered_by, what=what)

    def series() -> Any:  # such as of dates
        codes, values = (elements.read_value(tree, each) for each in sources)
        is_ordered = bool(ordered_by.attribute("ordered"))
        made = pandas(extra="anndata").Categorical.from_codes(codes, values, ordered=is_ordered)
        return pandas(extra="anndata").Series(made)

    return SeriesColumn(sources, series)


# Frames

MISSING_SUFFIX: Final = "_is_missing"
"""Ends the name of the Bool vector that tells a missing entry from an empty string."""

_FEW_COLUMNS: Final = 4
"""Each of so many columns on a server is looked at by itself."""


class Frame:
    """A DataFrame of an AnnData, whose columns have vectors; their names follow from theirs alone.

    Parameters
    ----------
    part
        What messages call it: ``obs``, ``var`` or ``raw.var``.
    """

    of_uns: AbstractSet[str] = frozenset()
    """The keys of ``uns`` that are a part of it."""
    index_name: str | None
    index_sources: tuple[str, ...] = ("",)
    sources: tuple[str, ...] = ("",)
    renewals = 0
    """How often a column was looked at again, since it had been changed in place."""
    length: Callable[[], int]
    """Returns how many rows it has."""
    names: Callable[[Nodes], EntryNames]
    """Returns the index as entries of an axis."""
    column: Callable[[int], Column]

    def __init__(self, part: str, column_names: list[str]) -> None:
        self.part = part
        self.column_names = column_names
        """The names of its columns, in order."""
        self._columns: dict[int, Column] = {}
        taken = set(RESERVED_VECTORS)
        names = [free_name(name, taken) for name in column_names]
        companions = [free_name(f"{name}{MISSING_SUFFIX}", taken) for name in names]
        self._names = list(zip(column_names, names, companions, strict=True))
        self._positions = {name: n for each in (companions, names) for n, name in enumerate(each)}

    def _keep(self, position: int, column: Column) -> Column:
        column.column_name, column.name, column.companion_name = self._names[position]
        self._columns[position] = column
        return column

    def find(self, name: str) -> Column | None:
        """Return the column of which a vector has this name; None if there is none."""
        position = self._positions.get(name)
        column = None if position is None else self.column(position)
        if column is None or column.name == name:
            return column
        return column if column.companion == name else None

    def every(self) -> Iterator[Column]:
        """Yield all columns, in their order."""
        yield from map(self.column, range(len(self._names)))

    def of_column(self, column_name: str) -> Column:
        """Return the first column of this name."""
        return self.column(self.column_names.index(column_name))


class StoredFrame(Frame):
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

    def __init__(
        self,
        tree: Tree,
        path: str,
        index_path: str,
        columns: list[tuple[str, str]],
        *,
        part: str,
        index_name: str | None = None,
        is_old: bool = True,
    ) -> None:
        super().__init__(part, [name for name, _ in columns])
        self._tree = tree
        self._path = path
        self.index_name = index_name
        self._is_old = is_old
        if tree.kind(index_path) is None:
            raise errors.CorruptDataError(f"{tree.location}: the index {index_path!r} is missing")
        self._index = column_at(tree, index_path, is_old=True)
        self.index_sources = self._index.sources
        self.sources = (path,)
        self._column_paths = [where for _, where in columns]

    def _index_nodes(self) -> Nodes:
        return tuple(node_at(self._tree, source) for source in self.index_sources)

    def length(self) -> int:
        """Return how many rows it has."""
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
        self._keep(position, column)
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
        return EntryNames(self._index.entries(nodes), what=what)


def stored_frame(tree: Tree, path: str) -> StoredFrame:
    """Return the DataFrame that anndata wrote into a group."""
    node = node_at(tree, path)
    index = elements.text_of(node.attribute("_index")) or "_index"
    names = elements.names_of(node.attribute("column-order"))
    slashes = str.maketrans("\\", "/") if isinstance(tree, ZarrTree) else {}  # as zarr-python does
    return StoredFrame(
        tree,
        path,
        f"{path}/{index}".translate(slashes),
        [(name, f"{path}/{name}".translate(slashes)) for name in names],
        part=path.replace("/", "."),
        index_name=None if index == "_index" else index,
        is_old=elements.text_of(node.attribute("encoding-version")) == "0.1.0",
    )


class MemoryFrame(Frame):
    """A DataFrame in memory; maybe since only anndata understands how it is stored."""

    def __init__(self, frame: Any, *, part: str, of_uns: AbstractSet[str] = frozenset()) -> None:
        super().__init__(part, [str(name) for name in frame.columns])
        self.of_uns = of_uns
        self._frame = frame
        name = frame.index.name
        self.index_name = None if name is None else str(name)

    def length(self) -> int:
        """Return how many rows it has."""
        return len(self._frame)

    def column(self, position: int) -> Column:
        """Return a column."""
        series = functools.partial(self._frame.iloc.__getitem__, (slice(None), position))
        cached = self._columns.get(position)
        return cached or self._keep(position, SeriesColumn(self.sources, series))

    def names(self, nodes: Nodes) -> EntryNames:  # noqa: ARG002 - it was read
        """Return the index as entries of an axis."""
        index, what = self._frame.index, f"{self.part} names"
        is_text = all(issubclass(found, str) for found in set(map(type, index)))
        strings = index if is_text else index.map(str)
        return EntryNames(
            MemoryArray(lambda: strings_input(strings, what=what)), what=what, is_text=is_text
        )


class EntryNames(StoredArray):
    """Names of observations or variables as entries: strings, each of which occurs once.

    Names that occur more than once get anndata's suffixes, with a warning.
    """

    has_unique_strings = True
    """Whether who reads them need not look for duplicates again."""

    def __init__(self, stored: StoredArray, *, what: str, is_text: bool = True) -> None:
        self.sources = (stored,)
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
        stored = self.sources[0]
        if stored.info.storage_type.is_string:
            return stored.read_strings()
        index = pandas(extra="anndata").Index(stored.read()).map(str)  # as AnnData has them
        return strings_input(index, what=self._what)

    def _unique(self, names: pa.Array, twice: str) -> pa.Array:
        errors.warn(
            f"{self._what} are not unique: {twice!r} occurs more than once; they are made unique "
            f"as AnnData does it, such as {twice + '-1'!r}",
            AnnDataWarning,
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
