"""Columns of obs and var as vectors; one reading of each encoding.

A vector is a view of the stored column.  Categories, and masks of what is missing, are read when
the vectors of an axis are listed: a second vector may say what is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import metadata, pc
from daf_storage.anndata import _encoding as encoding
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._stored import CodedStrings, MadeOf, Nodes, node_at
from daf_storage.base import StorageType, pandas, string_offsets
from daf_storage.data import Convention, required_array
from daf_storage.data import convention_attributes as attributes_of
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    UnsupportedDataError,
    UnsupportedInputError,
)
from daf_storage.trees import ArrayInfo, MemoryArray, Node, StoredArray, Tree

_UNREADABLE: Final = (UnsupportedInputError, ValueError, TypeError, pa.ArrowException)
"""What pandas and Arrow raise for a column that no vector has."""
_PANDAS_WITH_STRINGS: Final = 3

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
        Returns what restores the column from the vector.
    problem
        Why Daf has no such vector; empty if it has.
    error
        What is wrong with its metadata: whoever uses it gets this.
    """

    may_have_companion = True
    """Whether a second vector may say what is missing, as far as its type tells."""

    def __init__(
        self,
        sources: tuple[str, ...],
        make: Callable[[Nodes], StoredArray] | None = None,
        *,
        rule: Callable[[], Mapping[str, Any]] = dict,
        problem: str = "",
        error: DafError | None = None,
    ) -> None:
        self.sources = sources
        self._make = make
        self._rule = rule
        self._problem = problem
        self.error = error
        self.state: Hashable | None = None
        """The identity of the sources before they were looked at; None if nothing is kept."""

    @property
    def problem(self) -> str:
        """Why Daf has no such vector; empty if it has."""
        return self._problem

    @property
    def note(self) -> str:
        """What the vector does not have of the column; empty if nothing."""
        return ""

    def rule(self) -> dict[str, Any]:
        """Return what restores the column from the vector."""
        return dict(self._rule())

    def categories(self) -> pa.Array | None:
        """Return the categories of a categorical, in order; None for others."""
        return None

    def category_count(self) -> int | None:
        """Return how many categories there are, of a categorical; by metadata alone."""
        return None

    def missing_as(self) -> MissingAs:
        """Return how missing values are marked."""
        return ""

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the vector."""
        assert self._make is not None  # noqa: S101 - a column with a problem is no vector
        return self._make(nodes)

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the second vector: the mask."""
        return required_array(nodes[0], "mask", self.sources[0])

    def attributes(self) -> dict[str, str]:
        """Return the attributes of the vector."""
        is_empty = self.missing_as() == "empty"
        return attributes_of(Convention.EMPTY_IS_MISSING if is_empty else None)


@functools.cache
def _string_rule() -> Mapping[str, Any]:
    """Return the rule of strings as anndata reads them."""
    try:
        major = int(metadata.version("pandas").split(".")[0])
    except metadata.PackageNotFoundError:
        return {}
    return {"kind": "text", "dtype": "str"} if major >= _PANDAS_WITH_STRINGS else {}


class SeriesColumn(Column):
    """A column that pandas has, or that only anndata reads: as an import stores it."""

    def __init__(self, sources: tuple[str, ...], series: Callable[[], Any]) -> None:
        super().__init__(sources)
        self.value = functools.cache(series)

    @functools.cached_property
    def _encoded(self) -> encoding.EncodedColumn:
        return encoding.encode_column(self.value())

    @functools.cached_property
    def problem(self) -> str:
        """Why Daf has no such vector."""
        try:
            _ = self._encoded
        except (*_UNREADABLE, CorruptDataError) as error:
            return str(error)
        return ""

    @property
    def note(self) -> str:
        """What the vector does not have of the column."""
        return self._encoded.note

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return dict(self._encoded.rule)

    def categories(self) -> pa.Array | None:
        """Return the categories, if it is a categorical."""
        return None if self.problem else self._encoded.categories

    def category_count(self) -> int | None:
        """Return how many categories there are."""
        categories = self.categories()
        return None if categories is None else len(categories)

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
        ordered_by: Node | None,
        what: str,
    ) -> None:
        super().__init__(sources)
        self._codes_name = codes
        self._is_ordered = functools.cache(
            lambda: ordered_by is not None and bool(ordered_by.attribute("ordered"))
        )
        self._has_missing = functools.cache(lambda: bool((self._codes((node,)).read() < 0).any()))
        self._stored_categories = categories
        info = categories.info
        self._is_string = info.storage_type.is_string
        self._what = what

    def _codes(self, nodes: Nodes) -> StoredArray:
        return required_array(nodes[0], self._codes_name, self.sources[0])

    @property
    def problem(self) -> str:
        """Why Daf has no such vector; strings need not be looked at."""
        try:
            if not self._is_string:
                _ = self._unusual
        except _UNREADABLE as error:
            return str(error)
        return ""

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
            raise CorruptDataError(f"{self._what}: its values are no {wanted}")
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

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the stored values if none is missing, else what an import makes of them."""
        values, mask = values_and_mask(nodes[0], self._what)
        if not _any(mask):
            return values
        if self._kind.is_string:
            return MaskedStrings(values, mask)
        kind = StorageType.STRING if self._is_bool else None  # of integers it depends on them
        return MemoryArray(
            lambda: _encoded(values, mask),
            shape=values.info.shape,
            storage_type=kind,
            sources=(values, mask),
        )


def _encoded(values: StoredArray, mask: StoredArray) -> Any:
    """Return what becomes of integers or booleans of which some are missing."""
    arrays = pandas(extra="anndata").arrays
    is_bool = values.info.storage_type is StorageType.BOOL
    build = arrays.BooleanArray if is_bool else arrays.IntegerArray
    series = pandas(extra="anndata").Series(build(np.array(values.read()), np.array(mask.read())))
    return encoding.encode_column(series).values


class MaskedStrings(MadeOf):
    """Strings of which some are missing, which are empty here."""

    def __init__(self, values: StoredArray, mask: StoredArray) -> None:
        self._parts = (values, mask)
        info = values.info
        self.info = ArrayInfo(info.shape, StorageType.STRING, info.chunks, is_mappable=False)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        return self.filled("")

    def filled(self, text: str) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings, with a text in place of those that are missing."""
        values, mask = self._parts
        strings = values.read_strings()
        return pc.if_else(pa.array(mask.read()), pa.scalar(text, strings.type), strings)


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
        raise CorruptDataError(f"{what}: its mask has the type {kind}, and should have booleans")
    if mask.info.shape != values.info.shape:
        raise CorruptDataError(f"{what}: its mask and its values differ in length")
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
        raise CorruptDataError(f"{tree.location}: the column {path!r} is missing")
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
        with suppress(UnsupportedDataError):
            return None if elements.has_bytes(tree, path) else elements.array_at(tree, path)
        return None
    if elements.encoding_of(node) != "nullable-string-array":
        return None
    values, mask = values_and_mask(node, f"{tree.location}: {path}")
    if mask.read().any():
        raise CorruptDataError(f"{tree.location}: {path}: one of the categories is missing")
    return values if values.info.size else None


def _array_column(tree: Tree, path: str, node: Node, *, is_old: bool) -> Column:
    folder, _, name = path.rpartition("/")
    old_categories = f"{folder}/__categories/{name}"
    if node.attribute("categories") is not None and tree.kind(old_categories) == "array":
        return _old_categorical(tree, path, node, old_categories)
    try:
        array = required_array(node, "", path)
    except UnsupportedDataError:
        return _unusual_column(tree, path)
    if (
        len(array.info.shape) != 1
        or node.attribute("categories") is not None
        or (not is_old and elements.has_bytes(tree, path))
    ):
        return _read_column(tree, path)
    rule = _string_rule if array.info.storage_type.is_string else dict
    return Column((path,), lambda nodes: required_array(nodes[0], "", path), rule=rule)


def _unusual_column(tree: Tree, path: str) -> Column:
    """Return a column of numbers of a type that Daf has not."""
    shape, dtype = elements.shape_and_dtype(tree, path)
    if len(shape) == 1 and dtype == np.float16:
        rule = {"kind": "number", "dtype": "float16"}
        return Column((path,), lambda _: elements.half_floats(tree, path), rule=lambda: rule)
    if len(shape) == 1 and dtype.kind == "c":
        return Column((path,), problem=f"Daf has no place for values of dtype {dtype}")
    return _read_column(tree, path)


def _old_categorical(tree: Tree, path: str, node: Node, categories_path: str) -> Column:
    """Return a categorical as AnnData 0.7 stored it."""
    ordered_by, sources = node_at(tree, categories_path), (path, categories_path)
    what = f"{tree.location}: {path}"
    with suppress(UnsupportedDataError):
        categories = elements.array_at(tree, categories_path)
        return CategoricalColumn(sources, node, "", categories, ordered_by=ordered_by, what=what)

    def series() -> Any:  # such as of dates
        codes, values = (elements.read_value(tree, each) for each in sources)
        is_ordered = bool(ordered_by.attribute("ordered"))
        made = pandas(extra="anndata").Categorical.from_codes(codes, values, ordered=is_ordered)
        return pandas(extra="anndata").Series(made)

    return SeriesColumn(sources, series)
