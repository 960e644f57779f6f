"""The columns of obs and var as they lie in a file: what each is as a vector, and its rule.

The rules are those of an import (`daf_storage.anndata_rules`); what differs is that a vector here
is a view of the stored column.  Of a categorical the categories are read when the vectors of its
axis are listed, of a nullable column the mask: a second vector may say what is missing.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import columns as rules
from daf_storage.attached import _elements as elements
from daf_storage.attached._virtual import CodedStrings, MadeOf
from daf_storage.base import AnyArray, Span, StorageType, pandas
from daf_storage.data import Convention
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

Nodes = tuple[Node, ...]

_TRUTH: Final = pa.array(["false", "true"], pa.string())
_UNREADABLE: Final = (UnsupportedInputError, ValueError, TypeError, pa.ArrowException)
_PANDAS_WITH_STRINGS: Final = 3


class Column(Protocol):
    """A column of obs or var, as a vector."""

    sources: tuple[str, ...]
    """The paths of what it consists of."""

    @property
    def problem(self) -> str:
        """Why Daf has no such vector; empty if it has."""
        ...

    @property
    def note(self) -> str:
        """What the vector does not have of the column; empty if nothing."""
        ...

    def rule(self) -> dict[str, Any]:
        """Return what restores the column from the vector."""
        ...

    def categories(self) -> pa.Array | None:
        """Return the categories of a categorical, in order; None for others."""
        ...

    def category_count(self) -> int | None:
        """Return how many categories there are, of a categorical; by metadata alone."""
        ...

    def has_companion(self) -> bool:
        """Return whether a second vector says what is missing, since empty strings are values."""
        ...

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the vector."""
        ...

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the second vector."""
        ...

    def attributes(self) -> Mapping[str, str]:
        """Return the attributes of the vector."""
        ...


def column_at(tree: Tree, path: str) -> Column:
    """Return the column at a path of a file, by its metadata."""
    node = tree.node(path)
    if node is None:
        raise CorruptDataError(f"{tree.location}: the column {path!r} is missing")
    if node.kind == "array":
        return _array_column(tree, path, node)
    encoding = elements.encoding_of(node)
    if encoding == "categorical":
        if not _is_readable(tree, f"{path}/categories"):  # such as dates
            return SeriesColumn((path,), functools.partial(_series_at, tree, path))
        return CategoricalColumn(
            (path,),
            lambda nodes: _part(nodes[0], "codes", path),
            lambda: elements.array_at(tree, f"{path}/categories"),
            is_ordered=bool(node.attribute("ordered")),
            what=f"{tree.location}: {path}",
            pinned=lambda: (node,),
        )
    if encoding in ("nullable-integer", "nullable-boolean"):
        return NullableColumn(tree, path)
    if encoding == "nullable-string-array":
        return NullableStrings(tree, path)
    return SeriesColumn((path,), functools.partial(_series_at, tree, path))


def _is_readable(tree: Tree, path: str) -> bool:
    """Return whether Daf has arrays of the type of an array, by its metadata."""
    try:
        elements.array_at(tree, path)
    except UnsupportedDataError:
        return False
    return True


def _array_column(tree: Tree, path: str, node: Node) -> Column:
    folder, _, name = path.rpartition("/")
    old_categories = f"{folder}/__categories/{name}"
    if node.attribute("categories") is not None and tree.kind(old_categories) == "array":
        if not _is_readable(tree, old_categories):  # such as dates
            return SeriesColumn((path,), lambda: _old_series(tree, path, old_categories))
        categories = tree.node(old_categories)
        return CategoricalColumn(
            (path, old_categories),
            lambda nodes: _part(nodes[0], "", path),
            lambda: elements.array_at(tree, old_categories),
            is_ordered=categories is not None and bool(categories.attribute("ordered")),
            what=f"{tree.location}: {path}",
            pinned=lambda: (node,),
        )
    try:
        array = node.array()
    except UnsupportedDataError:
        return _unusual_column(tree, path)
    is_old = node.attribute("categories") is not None
    if array is None or len(array.info.shape) != 1 or is_old:
        return SeriesColumn((path,), functools.partial(_series_at, tree, path))
    return PlainColumn(path, array.info)


def _unusual_column(tree: Tree, path: str) -> Column:
    """Return a column of numbers of a type that Daf has not."""
    shape, dtype = elements.shape_and_dtype(tree, path)
    if len(shape) == 1 and dtype == np.float16:
        return HalfColumn(tree, path)
    if len(shape) == 1 and dtype.kind == "c":
        return NoVector(path, f"Daf has no place for values of dtype {dtype}")
    return SeriesColumn((path,), functools.partial(_series_at, tree, path))


def _series_at(tree: Tree, path: str) -> Any:
    return pandas().Series(elements.read_value(tree, path))


def _old_series(tree: Tree, path: str, categories_path: str) -> Any:
    """Return a categorical as AnnData 0.7 stored it."""
    node = tree.node(categories_path)
    is_ordered = node is not None and bool(node.attribute("ordered"))
    values = pandas().Categorical.from_codes(
        elements.read_value(tree, path),
        categories=elements.read_value(tree, categories_path),
        ordered=is_ordered,
    )
    return pandas().Series(values)


def _part(node: Node, name: str, path: str) -> StoredArray:
    array = node.array(name)
    if array is None:
        raise CorruptDataError(f"{path}: the array {name or 'itself'!r} is missing")
    return array


class _Whole:
    """What columns have in common of which the vector says all."""

    sources: tuple[str, ...]
    problem = ""
    note = ""

    def categories(self) -> pa.Array | None:
        """Return None: there are none."""
        return None

    def category_count(self) -> int | None:
        """Return None: there are none."""
        return None

    def has_companion(self) -> bool:
        """Return whether a second vector says what is missing."""
        return False

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Refuse: there is no second vector."""
        raise NotImplementedError(nodes)

    def attributes(self) -> Mapping[str, str]:
        """Return the attributes of the vector."""
        return {}


class PlainColumn(_Whole):
    """Numbers or strings without gaps: the stored array itself is the vector."""

    def __init__(self, path: str, info: ArrayInfo) -> None:
        self.sources = (path,)
        self._info = info

    def rule(self) -> dict[str, Any]:
        """Return what restores the column: which strings it has, of some versions of pandas."""
        return dict(_string_rule()) if self._info.storage_type.is_string else {}

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the stored array."""
        return _part(nodes[0], "", self.sources[0])


class HalfColumn(_Whole):
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


class NoVector(_Whole):
    """A column of values that no vector has; nothing of it is read."""

    def __init__(self, path: str, problem: str) -> None:
        self.sources = (path,)
        self.problem = problem

    def rule(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def array(self, nodes: Nodes) -> StoredArray:
        """Refuse: there is no such vector."""
        raise NotImplementedError(nodes)


@functools.cache
def _string_rule() -> Mapping[str, Any]:
    """Return the rule of strings as anndata reads them."""
    try:
        major = int(importlib.metadata.version("pandas").split(".")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    if major < _PANDAS_WITH_STRINGS:
        return {}
    frame = pandas().DataFrame({"strings": np.array(["a"], dtype=object)})
    return rules.encode_column(frame["strings"]).rule


class CategoricalColumn(_Whole):
    """Codes and categories: strings as codes of them."""

    def __init__(
        self,
        sources: tuple[str, ...],
        codes: Callable[[Nodes], StoredArray],
        categories: Callable[[], StoredArray],
        *,
        is_ordered: bool,
        what: str,
        pinned: Callable[[], Nodes],
    ) -> None:
        self.sources = sources
        self._has_missing = functools.cache(lambda: bool((codes(pinned()).read() < 0).any()))
        self._codes = codes
        self._categories = categories
        self._is_ordered = is_ordered
        self._what = what

    @property
    def problem(self) -> str:  # type: ignore[override]  # looked for when it is asked for
        """Why Daf has no such vector; strings need not be looked at."""
        try:
            if not self._categories().info.storage_type.is_string:
                _ = self._encoded
        except _UNREADABLE as error:
            return str(error)
        return ""

    def category_count(self) -> int:
        """Return how many categories there are."""
        return self._categories().info.size

    def categories(self) -> pa.Array:
        """Return the categories as strings, in order."""
        return self._encoded[0]

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return dict(self._encoded[1])

    @functools.cached_property
    def _encoded(self) -> tuple[pa.Array, dict[str, Any]]:
        """The categories, and the rule."""
        stored = self._categories()
        if stored.info.storage_type.is_string and stored.info.size:
            return stored.read_strings(), {"kind": "categorical", "ordered": self._is_ordered}
        is_string = stored.info.storage_type.is_string
        values: Any = np.empty(0, dtype=object) if is_string else stored.read()
        empty = pandas().Categorical.from_codes(
            np.empty(0, np.int8), categories=values, ordered=self._is_ordered
        )
        encoded = rules.encode_column(pandas().Series(empty))
        return encoded.categories, encoded.rule

    @functools.cached_property
    def _has_empty(self) -> bool:
        """Whether a category is the empty string."""
        return bool(pc.any(pc.equal(self.categories(), "")).as_py())

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


class NullableColumn(_Whole):
    """Integers or booleans, and a mask of those that are missing."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.sources = (path,)
        self._what = f"{tree.location}: {path}"
        self._is_bool = elements.array_at(tree, f"{path}/values").info.storage_type is (
            StorageType.BOOL
        )
        self._dtype = elements.array_at(tree, f"{path}/values").info.storage_type
        self._has_missing = functools.cache(lambda: _any(elements.array_at(tree, f"{path}/mask")))
        self._is_large = functools.cache(
            lambda: isinstance(
                self._encoded(
                    *(elements.array_at(tree, f"{path}/{n}") for n in ("values", "mask"))
                ),
                pa.Array,
            )
        )

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return {"kind": "nullable", "dtype": "boolean" if self._is_bool else self._dtype.value}

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the stored values if none is missing, else what an import makes of them."""
        values, mask = (_part(nodes[0], part, self.sources[0]) for part in ("values", "mask"))
        if mask.info.shape != values.info.shape:
            raise CorruptDataError(f"{self._what}: its mask and its values differ in length")
        if not _any(mask):
            return values
        if self._is_bool:
            return CodedStrings(MaskedCodes(values, mask), lambda: _TRUTH, what=self._what)
        return MemoryArray(lambda: self._encoded(values, mask), sources=(values, mask))

    def _encoded(self, values: StoredArray, mask: StoredArray) -> Any:
        array = pandas().arrays.IntegerArray(np.array(values.read()), np.array(mask.read()))
        return rules.encode_column(pandas().Series(array)).values

    def attributes(self) -> Mapping[str, str]:
        """Return that empty strings are missing, if it is stored as strings since some are."""
        is_so = self._has_missing() and (self._is_bool or self._is_large())
        return attributes_of(Convention.EMPTY_IS_MISSING) if is_so else {}


class NullableStrings(_Whole):
    """Strings, and a mask of those that are missing."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.sources = (path,)
        self._has_missing = functools.cache(lambda: _any(elements.array_at(tree, f"{path}/mask")))
        self._has_empty = functools.cache(
            lambda: _has_empty(
                elements.array_at(tree, f"{path}/values"), elements.array_at(tree, f"{path}/mask")
            )
        )

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        string_type = pandas().StringDtype()
        sample = pandas().Series(pandas().array(["a"], dtype=string_type))
        rule = dict(rules.encode_column(sample).rule)
        return {**rule, "missing": True} if self._has_missing() else rule

    def has_companion(self) -> bool:
        """Return whether some are missing, and others are empty strings: reads the column."""
        return self._has_missing() and self._has_empty()

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the strings; the missing ones are empty."""
        values, mask = (_part(nodes[0], part, self.sources[0]) for part in ("values", "mask"))
        return MaskedStrings(values, mask) if self._has_missing() else values

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the mask."""
        return _part(nodes[0], "mask", self.sources[0])

    def attributes(self) -> Mapping[str, str]:
        """Return that empty strings are missing, if they are."""
        is_so = self._has_missing() and not self._has_empty()
        return attributes_of(Convention.EMPTY_IS_MISSING) if is_so else {}


class MaskedCodes(MadeOf):
    """Booleans of which some are missing, as the codes -1, 0 and 1."""

    def __init__(self, values: StoredArray, mask: StoredArray) -> None:
        self._parts = (values, mask)
        info = values.info
        self.info = ArrayInfo(info.shape, StorageType.INT8, info.chunks, is_mappable=False)

    def read(self) -> AnyArray:
        """Return all codes."""
        return self.read_rows(Span(0, self.info.shape[0]))

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the codes."""
        values, mask = (part.read_rows(span) for part in self._parts)
        codes: AnyArray = np.where(mask, -1, values).astype(np.int8)
        return codes

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:  # noqa: ARG002 - one dimension
        """Return several ranges."""
        return [self.read_rows(span) for span in spans]

    def read_strings(self) -> pa.StringArray:
        """Refuse: they are numbers."""
        raise TypeError("codes are no strings")


class MaskedStrings(MadeOf):
    """Strings of which some are missing, which are empty here."""

    def __init__(self, values: StoredArray, mask: StoredArray) -> None:
        self._parts = (values, mask)
        info = values.info
        self.info = ArrayInfo(info.shape, StorageType.STRING, info.chunks, is_mappable=False)

    def read(self) -> AnyArray:
        """Return all strings as objects."""
        values: AnyArray = self.read_strings().to_numpy(zero_copy_only=False)
        return values

    def read_rows(self, span: Span) -> AnyArray:
        """Return a range of the strings as objects."""
        return self.read()[span.slice]

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:  # noqa: ARG002 - one dimension
        """Return several ranges of the strings as objects."""
        values = self.read()
        return [values[span.slice] for span in spans]

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        values, mask = self._parts
        strings = values.read_strings()
        return pc.if_else(pa.array(mask.read()), pa.scalar("", strings.type), strings)


class BrokenColumn(_Whole):
    """A column whose metadata cannot be read; whoever uses it learns why."""

    def __init__(self, error: DafError) -> None:
        self.sources: tuple[str, ...] = ()
        self.error = error

    def rule(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def array(self, nodes: Nodes) -> StoredArray:  # noqa: ARG002 - there are none
        """Raise what is wrong."""
        raise self.error


class SeriesColumn(_Whole):
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
        except (*_UNREADABLE, CorruptDataError) as error:
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


def _any(mask: StoredArray) -> bool:
    return bool(mask.read().any())


def _has_empty(values: StoredArray, mask: StoredArray) -> bool:
    is_empty = pc.equal(values.read_strings(), "").to_numpy(zero_copy_only=False)
    return bool((is_empty & ~mask.read()).any())
