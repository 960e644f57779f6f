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
from daf_storage.attached._columns import Nodes, WholeColumn
from daf_storage.attached._virtual import CodedStrings, MadeOf
from daf_storage.base import AnyArray, Span, StorageType, pandas
from daf_storage.data import Convention, required_array
from daf_storage.data import convention_attributes as attributes_of
from daf_storage.errors import CorruptDataError
from daf_storage.trees import ArrayInfo, MemoryArray, Node, StoredArray, WholeStrings

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_TRUTH: Final = pa.array(["false", "true"], pa.string())


class NullableColumn(WholeColumn):
    """Integers or booleans, and a mask of those that are missing."""

    def __init__(self, path: str, node: Node, *, what: str) -> None:
        self.sources = (path,)
        self._what = what
        values, mask = values_and_mask(node, what)
        self._dtype = values.info.storage_type
        self._is_bool = self._dtype is StorageType.BOOL
        if not (self._is_bool or self._dtype.is_integer):
            raise CorruptDataError(f"{what}: its values are no integers or booleans")
        self._has_missing = functools.cache(lambda: _any(mask))
        self._is_large = functools.cache(lambda: isinstance(self._encoded(values, mask), pa.Array))

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return {"kind": "nullable", "dtype": "boolean" if self._is_bool else self._dtype.value}

    def array(self, nodes: Nodes) -> StoredArray:
        """Return the stored values if none is missing, else what an import makes of them."""
        values, mask = values_and_mask(nodes[0], self._what)
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

    def __init__(self, path: str, node: Node, *, what: str) -> None:
        self.sources = (path,)
        self._what = what
        values, mask = values_and_mask(node, what)
        if not values.info.storage_type.is_string:
            raise CorruptDataError(f"{what}: its values are no strings")
        self._has_missing = functools.cache(lambda: _any(mask))
        self._has_empty = functools.cache(lambda: _has_empty(values, mask))

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
        values, mask = values_and_mask(nodes[0], self._what)
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
