"""Columns of obs and var with a mask of what is missing, as vectors.

The mask is read when the vectors of the axis are listed: a second vector may say what is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import columns as rules
from daf_storage.attached import _elements as elements
from daf_storage.attached._columns import Nodes, WholeColumn
from daf_storage.attached._virtual import CodedStrings, MadeOf
from daf_storage.base import AnyArray, Span, StorageType, pandas
from daf_storage.data import Convention, required_array
from daf_storage.data import convention_attributes as attributes_of
from daf_storage.errors import CorruptDataError
from daf_storage.trees import ArrayInfo, MemoryArray, StoredArray, Tree, WholeStrings

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_TRUTH: Final = pa.array(["false", "true"], pa.string())


class NullableColumn(WholeColumn):
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
        values, mask = (
            required_array(nodes[0], part, self.sources[0]) for part in ("values", "mask")
        )
        if mask.info.shape != values.info.shape:
            raise CorruptDataError(f"{self._what}: its mask and its values differ in length")
        if not _any(mask):
            return values
        if self._is_bool:
            return CodedStrings(MaskedCodes(values, mask), lambda: _TRUTH, what=self._what)
        return MemoryArray(lambda: self._encoded(values, mask), sources=(values, mask))

    def _encoded(self, values: StoredArray, mask: StoredArray) -> Any:
        array = pandas(extra="anndata").arrays.IntegerArray(
            np.array(values.read()), np.array(mask.read())
        )
        return rules.encode_column(pandas(extra="anndata").Series(array)).values

    def attributes(self) -> Mapping[str, str]:
        """Return that empty strings are missing, if it is stored as strings since some are."""
        is_so = self._has_missing() and (self._is_bool or self._is_large())
        return attributes_of(Convention.EMPTY_IS_MISSING) if is_so else {}


class NullableStrings(WholeColumn):
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
        string_type = pandas(extra="anndata").StringDtype()
        sample = pandas(extra="anndata").Series(
            pandas(extra="anndata").array(["a"], dtype=string_type)
        )
        rule = dict(rules.encode_column(sample).rule)
        return {**rule, "missing": True} if self._has_missing() else rule

    def has_companion(self) -> bool:
        """Return whether some are missing, and others are empty strings: reads the column."""
        return self._has_missing() and self._has_empty()

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the strings; the missing ones are empty."""
        values, mask = (
            required_array(nodes[0], part, self.sources[0]) for part in ("values", "mask")
        )
        return MaskedStrings(values, mask) if self._has_missing() else values

    def is_missing(self, nodes: Nodes) -> StoredArray:
        """Return the mask."""
        return required_array(nodes[0], "mask", self.sources[0])

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


class MaskedStrings(MadeOf, WholeStrings):
    """Strings of which some are missing, which are empty here."""

    def __init__(self, values: StoredArray, mask: StoredArray) -> None:
        self._parts = (values, mask)
        info = values.info
        self.info = ArrayInfo(info.shape, StorageType.STRING, info.chunks, is_mappable=False)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings."""
        values, mask = self._parts
        strings = values.read_strings()
        return pc.if_else(pa.array(mask.read()), pa.scalar("", strings.type), strings)


def _values_and_mask(nodes: Nodes, path: str) -> tuple[StoredArray, StoredArray]:
    return required_array(nodes[0], "values", path), required_array(nodes[0], "mask", path)


def _any(mask: StoredArray) -> bool:
    return bool(mask.read().any())


def _has_empty(values: StoredArray, mask: StoredArray) -> bool:
    is_empty = pc.equal(values.read_strings(), "").to_numpy(zero_copy_only=False)
    return bool((is_empty & ~mask.read()).any())
