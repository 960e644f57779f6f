"""Columns of obs and var as vectors; one reading of each encoding.

The rules are those of `daf_storage.anndata_rules`; a vector here is a view of the stored column.
Categories, and masks of what is missing, are read when the vectors of an axis are listed: a second
vector may say what is missing.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import columns as rules
from daf_storage.attached import _elements as elements
from daf_storage.attached._virtual import CodedStrings, MadeOf, Nodes
from daf_storage.base import StorageType, pandas
from daf_storage.data import Convention, required_array
from daf_storage.data import convention_attributes as attributes_of
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    UnsupportedDataError,
    UnsupportedInputError,
)
from daf_storage.trees import ArrayInfo, MemoryArray, Node, StoredArray, Tree

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

UNREADABLE: Final = (UnsupportedInputError, ValueError, TypeError, pa.ArrowException)
"""What pandas and Arrow raise for a column that no vector has."""
_PANDAS_WITH_STRINGS: Final = 3


class Column:
    """A column of obs or var, as a vector; by default the vector says all of it."""

    sources: tuple[str, ...]
    """The paths of what it consists of."""
    problem = ""
    """Why Daf has no such vector; empty if it has."""
    note = ""
    """What the vector does not have of the column; empty if nothing."""

    def rule(self) -> dict[str, Any]:
        """Return what restores the column from the vector."""
        return {}

    def categories(self) -> pa.Array | None:
        """Return the categories of a categorical, in order; None for others."""
        return None

    def category_count(self) -> int | None:
        """Return how many categories there are, of a categorical; by metadata alone."""
        return None

    def has_companion(self) -> bool:
        """Return whether a second vector says what is missing, since empty strings are values."""
        return False

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the vector."""
        raise NotImplementedError(nodes)

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the second vector."""
        raise NotImplementedError(nodes)

    def attributes(self) -> Mapping[str, str]:
        """Return the attributes of the vector."""
        return {}


class PlainColumn(Column):
    """Numbers or strings without gaps: the stored array itself is the vector."""

    def __init__(self, path: str, info: ArrayInfo) -> None:
        self.sources = (path,)
        self._info = info

    def rule(self) -> dict[str, Any]:
        """Return what restores the column: which strings it has, of some versions of pandas."""
        return dict(_string_rule()) if self._info.storage_type.is_string else {}

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the stored array."""
        return required_array(nodes[0], "", self.sources[0])


class HalfColumn(Column):
    """Numbers of half precision, widened."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.sources = (path,)
        self._tree = tree

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return {"kind": "number", "dtype": "float16"}

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - read through its library
        """Return the numbers as Float32."""
        return elements.half_floats(self._tree, self.sources[0])


class NoVector(Column):
    """A column of values that no vector has; nothing of it is read."""

    def __init__(self, path: str, problem: str) -> None:
        self.sources = (path,)
        self.problem = problem


@functools.cache
def _string_rule() -> Mapping[str, Any]:
    """Return the rule of strings as anndata reads them."""
    try:
        major = int(importlib.metadata.version("pandas").split(".")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    if major < _PANDAS_WITH_STRINGS:
        return {}
    frame = pandas(extra="anndata").DataFrame({"strings": np.array(["a"], dtype=object)})
    return rules.encode_column(frame["strings"]).rule


class BrokenColumn(Column):
    """A column whose metadata cannot be read; whoever uses it learns why."""

    def __init__(self, error: DafError) -> None:
        self.sources: tuple[str, ...] = ()
        self.error = error

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - there are none
        """Raise what is wrong."""
        raise self.error


class SeriesColumn(Column):
    """A column that pandas has, or that only anndata reads: as an import stores it."""

    def __init__(self, sources: tuple[str, ...], series: Callable[[], Any]) -> None:
        self.sources = sources
        self._series = functools.cache(series)

    def value(self) -> Any:
        """Return the column as pandas has it."""
        return self._series()

    @functools.cached_property
    def _encoded(self) -> Any:
        return rules.encode_column(self._series())

    @property
    def problem(self) -> str:  # type: ignore[override]  # looked for when it is asked for
        """Why Daf has no such vector."""
        try:
            _ = self._encoded
        except (*UNREADABLE, CorruptDataError) as error:
            return str(error)
        return ""

    @property
    def note(self) -> str:  # type: ignore[override]  # as above
        """What the vector does not have of the column."""
        return str(self._encoded.note)

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

    def has_companion(self) -> bool:
        """Return whether a second vector says what is missing."""
        return self._encoded.is_missing is not None

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the vector."""
        return MemoryArray(lambda: self._encoded.values)

    def is_missing(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - it was read
        """Return the second vector."""
        return MemoryArray(lambda: self._encoded.is_missing)

    def attributes(self) -> Mapping[str, str]:
        """Return that empty strings are missing, if they are."""
        is_so = self._encoded.empty_is_missing
        return attributes_of(Convention.EMPTY_IS_MISSING) if is_so else {}


_FEW_CATEGORIES: Final = 1 << 8
"""So many strings are compared before Arrow is prepared to."""


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
        self.sources = sources
        self._codes_name = codes
        self._ordered_by = ordered_by
        self._has_missing = functools.cache(lambda: bool((self._codes((node,)).read() < 0).any()))
        self._categories = categories
        self._what = what

    def _codes(self, nodes: Nodes) -> StoredArray:
        return required_array(nodes[0], self._codes_name, self.sources[0])

    @property
    def problem(self) -> str:  # type: ignore[override]  # looked for when it is asked for
        """Why Daf has no such vector; strings need not be looked at."""
        try:
            if not self._categories.info.storage_type.is_string:
                _ = self._unusual
        except UNREADABLE as error:
            return str(error)
        return ""

    def category_count(self) -> int:
        """Return how many categories there are."""
        return self._categories.info.size

    def categories(self) -> pa.Array:
        """Return the categories as strings, in order."""
        return self._strings

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        if self._is_plain:
            return {"kind": "categorical", "ordered": self._is_ordered}
        return dict(self._unusual.rule)

    @property
    def _is_plain(self) -> bool:
        info = self._categories.info
        return info.storage_type.is_string and info.size > 0

    @property
    def _is_ordered(self) -> bool:
        return self._ordered_by is not None and bool(self._ordered_by.attribute("ordered"))

    @functools.cached_property
    def _strings(self) -> pa.Array:
        return self._categories.read_strings() if self._is_plain else self._unusual.categories

    @functools.cached_property
    def _unusual(self) -> rules.EncodedColumn:
        """What becomes of categories that are no strings, or of none at all."""
        stored = self._categories
        is_string = stored.info.storage_type.is_string
        values: Any = np.empty(0, dtype=object) if is_string else stored.read()
        empty = pandas(extra="anndata").Categorical.from_codes(
            np.empty(0, np.int8), categories=values, ordered=self._is_ordered
        )
        return rules.encode_column(pandas(extra="anndata").Series(empty))

    @functools.cached_property
    def _has_empty(self) -> bool:
        """Whether a category is the empty string."""
        strings = self.categories()
        if len(strings) <= _FEW_CATEGORIES:
            return "" in strings.to_pylist()
        return bool(pc.any(pc.equal(strings, "")).as_py())

    def has_companion(self) -> bool:
        """Return whether an empty string is a category, and some are missing: reads the codes."""
        return self._has_empty and self._has_missing()

    def attributes(self) -> Mapping[str, str]:
        """Return that empty strings are missing, unless the empty string is a category."""
        return {} if self._has_empty else attributes_of(Convention.EMPTY_IS_MISSING)

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
        self.sources = (path,)
        self._what = f"{tree.location}: {path}"
        values, mask = values_and_mask(node, self._what)
        self._kind = kind = values.info.storage_type
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
        strings = pandas(extra="anndata").array(["a"], dtype=pandas(extra="anndata").StringDtype())
        rule = dict(rules.encode_column(pandas(extra="anndata").Series(strings)).rule)
        return {**rule, "missing": True} if self._has_missing() else rule

    def has_companion(self) -> bool:
        """Return whether some are missing, and others are empty strings: reads the strings."""
        return self._kind.is_string and self._has_missing() and self._has_empty()

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

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the mask."""
        return required_array(nodes[0], "mask", self.sources[0])

    def attributes(self) -> Mapping[str, str]:
        """Return that empty strings are missing, if they are."""
        is_so = self._has_missing() and self._is_text() and not self._has_empty()
        return attributes_of(Convention.EMPTY_IS_MISSING) if is_so else {}


def _encoded(values: StoredArray, mask: StoredArray) -> Any:
    """Return what becomes of integers or booleans of which some are missing."""
    arrays = pandas(extra="anndata").arrays
    is_bool = values.info.storage_type is StorageType.BOOL
    build = arrays.BooleanArray if is_bool else arrays.IntegerArray
    series = pandas(extra="anndata").Series(build(np.array(values.read()), np.array(mask.read())))
    return rules.encode_column(series).values


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
    return _ENCODINGS.get(elements.encoding_of(node), _read_column)(tree, path, node)


def _read_column(tree: Tree, path: str, _: Node) -> Column:
    return SeriesColumn((path,), functools.partial(_series_at, tree, path))


def _categorical(tree: Tree, path: str, node: Node) -> Column:
    categories = _categories(tree, f"{path}/categories")
    if categories is None:  # such as dates, or numbers with a mask
        return _read_column(tree, path, node)
    what = f"{tree.location}: {path}"
    return CategoricalColumn((path,), node, "codes", categories, ordered_by=node, what=what)


_ENCODINGS: Final[Mapping[str, Callable[[Tree, str, Node], Column]]] = {
    "categorical": _categorical,
    "nullable-integer": MaskedColumn,
    "nullable-boolean": MaskedColumn,
    "nullable-string-array": MaskedColumn,
}
"""The kinds of columns that are groups; anndata reads all others."""


def _categories(tree: Tree, path: str) -> StoredArray | None:
    """Return categories that are an array, or strings none of which is missing; None for others."""
    node = tree.node(path)
    if node is None or node.kind == "array":
        return None if elements.has_bytes(tree, path) else _readable(tree, path)
    if elements.encoding_of(node) != "nullable-string-array":
        return None
    values, mask = values_and_mask(node, f"{tree.location}: {path}")
    if mask.read().any():
        raise CorruptDataError(f"{tree.location}: {path}: one of the categories is missing")
    return values if values.info.size else None


def _readable(tree: Tree, path: str) -> StoredArray | None:
    """Return an array, by its metadata; None if Daf has no arrays of its type."""
    try:
        return elements.array_at(tree, path)
    except UnsupportedDataError:
        return None


def _array_column(tree: Tree, path: str, node: Node, *, is_old: bool) -> Column:
    folder, _, name = path.rpartition("/")
    old_categories = f"{folder}/__categories/{name}"
    if node.attribute("categories") is not None and tree.kind(old_categories) == "array":
        categories = _readable(tree, old_categories)
        if categories is None:  # such as dates
            return SeriesColumn((path,), lambda: _old_series(tree, path, old_categories))
        return CategoricalColumn(
            (path, old_categories),
            node,
            "",
            categories,
            ordered_by=tree.node(old_categories),
            what=f"{tree.location}: {path}",
        )
    try:
        array = node.array()
    except UnsupportedDataError:
        return _unusual_column(tree, path, node)
    if (
        array is None
        or len(array.info.shape) != 1
        or node.attribute("categories") is not None
        or (not is_old and elements.has_bytes(tree, path))
    ):
        return _read_column(tree, path, node)
    return PlainColumn(path, array.info)


def _unusual_column(tree: Tree, path: str, node: Node) -> Column:
    """Return a column of numbers of a type that Daf has not."""
    shape, dtype = elements.shape_and_dtype(tree, path)
    if len(shape) == 1 and dtype == np.float16:
        return HalfColumn(tree, path)
    if len(shape) == 1 and dtype.kind == "c":
        return NoVector(path, f"Daf has no place for values of dtype {dtype}")
    return _read_column(tree, path, node)


def _series_at(tree: Tree, path: str) -> Any:
    values = elements.read_value(tree, path)
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        values = values.astype(object)  # of which pandas makes no text
    return pandas(extra="anndata").Series(values)


def _old_series(tree: Tree, path: str, categories_path: str) -> Any:
    """Return a categorical as AnnData 0.7 stored it."""
    node = tree.node(categories_path)
    is_ordered = node is not None and bool(node.attribute("ordered"))
    values = pandas(extra="anndata").Categorical.from_codes(
        elements.read_value(tree, path),
        categories=elements.read_value(tree, categories_path),
        ordered=is_ordered,
    )
    return pandas(extra="anndata").Series(values)
