"""Frames of an AnnData: their columns as vectors, and their index as the entries of an axis.

A vector is a view of the stored column; there is one reading of each encoding.  Categories, and
masks of what is missing, are read when the vectors of an axis are listed: a second vector may say
what is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._encoding import EncodedColumn, encode_column
from daf_storage.anndata._restored import AnnDataWarning
from daf_storage.anndata._stored import CodedStrings, node_at
from daf_storage.base import (
    RESERVED_VECTORS,
    StorageType,
    first_duplicate,
    free_name,
    pandas,
    string_offsets,
)
from daf_storage.data import required_array, strings_input
from daf_storage.trees import ArrayInfo, Hdf5Tree, MemoryArray, Node, StoredArray, Tree, ZarrTree

_UNREADABLE: Final = (ValueError, TypeError, pa.ArrowException)
"""What pandas and Arrow raise for a column that no vector has; errors of Daf are such, too."""
_OF_STRINGS: Final = {"kind": "text", "dtype": "str"}
"""The rule of strings as anndata reads them with pandas 3; with pandas 2 it changes nothing."""


class Column:
    """A column of obs or var, of which it is looked what becomes of it when that is needed.

    Parameters
    ----------
    sources
        The paths of what it consists of.
    encode
        Returns what becomes of it.
    series
        Returns it as pandas has it, if it is not one element of a file.
    categories
        Those of a categorical, if they lie in a file.
    is_plain
        Whether its metadata say that there is a vector, and that it needs no second one.
    """

    column_name = name = companion_name = ""
    """What it is called in its frame; its vector, if there is one; a second one, if it has one."""

    def __init__(
        self,
        sources: tuple[str, ...],
        encode: Callable[[], EncodedColumn],
        series: Callable[[], Any] | None = None,
        categories: StoredArray | None = None,
        *,
        is_plain: bool = False,
    ) -> None:
        def encoded() -> EncodedColumn:
            try:
                return encode()
            except errors.FormatError:
                raise
            except _UNREADABLE as error:
                return EncodedColumn(None, problem=str(error))

        self.sources = sources
        self.encoded = functools.cache(encoded)
        """Returns what becomes of it; what cannot be read now is asked for again."""
        self.series = series
        self._categories = categories
        self._is_plain = is_plain
        self.state: Hashable | None = None
        """The identity of the sources before they were looked at; None if nothing is kept."""

    @property
    def error(self) -> errors.FormatError | None:
        """What is wrong with it: whoever uses it gets this."""
        try:
            self.encoded()
        except errors.FormatError as error:
            return error
        return None

    @property
    def found(self) -> EncodedColumn | None:
        """What becomes of it; None if there is no such vector, or something is wrong with it."""
        return None if self.problem or self.error is not None else self.encoded()

    @property
    def problem(self) -> str:
        """Why Daf has no such vector; empty if it has."""
        return "" if self._is_plain or self.error is not None else self.encoded().problem

    def category_count(self) -> int | None:
        """Return how many categories there are, of a categorical; by metadata alone if it can."""
        if self._categories is not None:
            return self._categories.info.size
        categories = self.encoded().categories
        return None if categories is None else len(categories)

    @property
    def companion(self) -> str:
        """The name of the vector that says what is missing; empty if there is none."""
        found = None if self._is_plain else self.found
        return "" if found is None or found.is_missing is None else self.companion_name


def series_column(sources: tuple[str, ...], series: Callable[[], Any]) -> Column:
    """Return a column that pandas has, or that only anndata reads: as an import stores it."""
    return Column(sources, lambda: encode_column(series()), series)


def broken_column(path: str, error: errors.FormatError) -> Column:
    """Return a column of which the metadata are broken: whoever uses it gets the error."""

    def fail() -> EncodedColumn:
        raise error

    return Column((path,), fail)


def _categorical(tree: Tree, sources: tuple[str, ...], categories: StoredArray) -> Column:
    """Return a column of codes and categories; the codes are read if a category is empty."""

    def encode() -> EncodedColumn:
        nodes, what = [node_at(tree, each) for each in sources], f"{tree.location}: {sources[0]}"
        codes = required_array(nodes[0], "" if nodes[0].kind == "array" else "codes", what)
        is_ordered = bool(nodes[-1].attribute("ordered"))
        rule: dict[str, Any] = {"kind": "categorical", "ordered": is_ordered}
        if categories.info.storage_type.is_string:
            strings = categories.read_strings()
        else:
            empty = pandas(extra="anndata").Categorical.from_codes(
                np.empty(0, np.int8), categories=categories.read(), ordered=is_ordered
            )
            unusual = encode_column(pandas(extra="anndata").Series(empty))
            rule, strings = unusual.rule, unusual.categories
        is_missing, has_empty = None, not np.diff(string_offsets(strings)).all()
        if has_empty and bool((codes.read() < 0).any()):
            is_missing = MemoryArray(
                lambda: codes.read() < 0, shape=codes.info.shape, storage_type=StorageType.BOOL
            )
        values = CodedStrings(codes, strings, what=what)
        return EncodedColumn(
            values, rule, is_missing, empty_is_missing=not has_empty, categories=strings
        )

    return Column(sources, encode, categories=categories)


def _masked(node: Node, what: str) -> EncodedColumn:
    """Return what becomes of integers, booleans or strings, and a mask of the missing ones."""
    values, mask = values_and_mask(node, what)
    kind, shape = values.info.storage_type, values.info.shape
    is_string = elements.encoding_of(node) == "nullable-string-array"
    if not (kind.is_string if is_string else kind is StorageType.BOOL or kind.is_integer):
        wanted = "strings" if is_string else "integers or booleans"
        raise errors.CorruptDataError(f"{what}: its values are no {wanted}")
    is_missing = mask.read()
    has_missing = bool(is_missing.any())
    if not is_string:
        return _nullable(values, mask, has_missing=has_missing)
    na_value = {"na_value": "NaN"} if node.attribute("na-value") == "NaN" else {}
    rule = {"kind": "text", "dtype": "string", "missing": has_missing, **na_value}
    if not has_missing:
        return EncodedColumn(values, rule)

    def filled() -> Any:
        strings = values.read_strings()
        return pc.if_else(pa.array(mask.read()), pa.scalar("", strings.type), strings)

    is_empty = pc.equal(values.read_strings(), "").to_numpy(zero_copy_only=False)
    has_empty = bool((is_empty & ~is_missing).any())
    made = MemoryArray(filled, shape=shape, storage_type=StorageType.STRING, sources=(values, mask))
    return EncodedColumn(made, rule, mask if has_empty else None, empty_is_missing=not has_empty)


def _nullable(values: StoredArray, mask: StoredArray, *, has_missing: bool) -> EncodedColumn:
    """Return what becomes of integers or booleans; they are not copied if none is missing."""
    arrays, kind = pandas(extra="anndata").arrays, values.info.storage_type
    build = arrays.BooleanArray if kind is StorageType.BOOL else arrays.IntegerArray

    def encoded() -> EncodedColumn:
        array = build(np.array(values.read()), np.array(mask.read()))
        return encode_column(pandas(extra="anndata").Series(array))

    is_bool = kind is StorageType.BOOL
    rule = {"kind": "nullable", "dtype": "boolean" if is_bool else kind.value}
    if not has_missing:
        return EncodedColumn(values, rule)
    is_text = is_bool or isinstance(encoded().values, pa.Array)
    made = MemoryArray(
        lambda: encoded().values,
        shape=values.info.shape,
        storage_type=StorageType.STRING if is_text else StorageType.FLOAT64,
        sources=(values, mask),
    )
    return EncodedColumn(made, rule, empty_is_missing=is_text)


def stored_array(values: Any) -> StoredArray:
    """Return values of a vector, which may be in memory, as an array."""
    return values if isinstance(values, StoredArray) else MemoryArray(lambda: values)


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


# By encoding


def column_at(tree: Tree, path: str, *, is_old: bool = False) -> Column:
    """Return the column at a path of a file.

    Parameters
    ----------
    is_old
        Whether byte strings are text, as in the frames of AnnData 0.7.
    """
    node = node_at(tree, path)
    folder, _, name = path.rpartition("/")
    old_categories = f"{folder}/__categories/{name}"
    is_coded = node.kind == "array" and node.attribute("categories") is not None
    if is_coded and tree.kind(old_categories) == "array":
        return _old_categorical(tree, (path, old_categories))
    # Categories that are dates, or numbers with a mask, are read by anndata.
    encoded, what = elements.encoding_of(node), f"{tree.location}: {path}"
    categories = _categories(tree, f"{path}/categories") if encoded == "categorical" else None
    if categories is not None:
        return _categorical(tree, (path,), categories)

    def encode() -> EncodedColumn:
        if encoded.startswith("nullable-"):
            return _masked(node, what)
        found = _array(tree, path, node, is_old=is_old) if node.kind == "array" else None
        return found or encode_column(_series(tree, path))

    is_plain = encoded in ("nullable-integer", "nullable-boolean")
    return Column((path,), encode, is_plain=is_plain)


def _series(tree: Tree, path: str) -> Any:
    """Return a column as anndata reads it."""
    try:
        values = elements.read_value(tree, path)
    except errors.CorruptDataError as error:
        raise errors.UnsupportedInputError(str(error)) from error
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        values = values.astype(object)  # of which pandas makes no text
    return pandas(extra="anndata").Series(values)


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


def _array(tree: Tree, path: str, node: Node, *, is_old: bool) -> EncodedColumn | None:
    """Return what becomes of a column that is an array; None of one that anndata has to read."""
    try:
        array = required_array(node, "", path)
    except errors.UnsupportedDataError:  # such as of numbers of half precision
        shape, dtype = elements.shape_and_dtype(tree, path)
        if len(shape) != 1 or dtype != np.float16:
            return None
        rule = {"kind": "number", "dtype": "float16"}
        return EncodedColumn(elements.half_floats(tree, path), rule)
    is_plain = len(array.info.shape) == 1 and node.attribute("categories") is None
    if not is_plain or (not is_old and elements.has_bytes(tree, path)):
        return None
    return EncodedColumn(array, _OF_STRINGS if array.info.storage_type.is_string else {})


def _old_categorical(tree: Tree, sources: tuple[str, ...]) -> Column:
    """Return a categorical as AnnData 0.7 stored it: codes, and categories elsewhere."""
    with suppress(errors.UnsupportedDataError):
        return _categorical(tree, sources, elements.array_at(tree, sources[1]))

    def series() -> Any:  # such as of dates
        codes, values = (elements.read_value(tree, each) for each in sources)
        is_ordered = bool(node_at(tree, sources[1]).attribute("ordered"))
        made = pandas(extra="anndata").Categorical.from_codes(codes, values, ordered=is_ordered)
        return pandas(extra="anndata").Series(made)

    return series_column(sources, series)


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
    names: Callable[[], EntryNames]
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
        self._index_path = index_path
        self.index_sources = self._index().sources
        self.sources = (path,)
        self._column_paths = [where for _, where in columns]

    def _index(self) -> Column:
        return column_at(self._tree, self._index_path, is_old=True)

    def length(self) -> int:
        """Return how many rows it has."""
        return int(stored_array(self._index().encoded().values).info.shape[0])

    def entries(self) -> pa.Array:
        """Return the index, read."""
        return self.names().read_strings().cast(pa.string())

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
            column = broken_column(path, error)
        self._keep(position, column)
        if not is_hdf5:
            state = self._state(column)
            column.state = state if state[0] == before else (before,)
        return column

    def _state(self, column: Column) -> tuple[Any, ...]:
        return tuple(map(self._tree.identity, column.sources))

    def names(self) -> EntryNames:
        """Return the index as entries of an axis."""
        what, found = f"{self._tree.location}: {self._path} names", self._index().encoded()
        if found.problem:
            raise errors.UnsupportedDataError(f"{what}: {found.problem}")
        return EntryNames(_names(found), what=what)


def _names(found: EncodedColumn) -> StoredArray:
    """Return a column as an index: what has no name is called as AnnData calls it."""
    values, mask = stored_array(found.values), found.is_missing
    if mask is None and not found.empty_is_missing:
        return values

    def named() -> Any:
        strings = values.read_strings()
        is_missing = pc.equal(strings, "") if mask is None else stored_array(mask).read()
        return pc.if_else(is_missing, pa.scalar("<NA>", strings.type), strings)

    return MemoryArray(
        named, shape=values.info.shape, storage_type=StorageType.STRING, sources=(values,)
    )


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
        return cached or self._keep(position, series_column(self.sources, series))

    def names(self) -> EntryNames:
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
    names = entries.to_pylist()
    taken, counts = set(names), dict[str, int]()
    made = []
    for name in names:
        number = counts.get(name, -1) + 1
        while number and f"{name}-{number}" in taken:
            number += 1
        counts[name] = number
        made.append(f"{name}-{number}" if number else name)
    return pa.array(made, entries.type)
