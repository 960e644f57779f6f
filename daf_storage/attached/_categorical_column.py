"""Categoricals of obs and var as vectors; their categories are read when these are listed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage._lazy import lazy_module
from daf_storage.anndata_rules import columns as rules
from daf_storage.attached._columns import UNREADABLE, Nodes, WholeColumn
from daf_storage.attached._virtual import CodedStrings
from daf_storage.base import StorageType, pandas
from daf_storage.data import Convention
from daf_storage.data import convention_attributes as attributes_of
from daf_storage.trees import MemoryArray, StoredArray

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_FEW_CATEGORIES: Final = 1 << 8
"""So many strings are compared before Arrow is prepared to."""


class CategoricalColumn(WholeColumn):
    """Codes and categories: strings as codes of them."""

    def __init__(
        self,
        sources: tuple[str, ...],
        codes: Callable[[Nodes], StoredArray],
        categories: StoredArray,
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
            if not self._categories.info.storage_type.is_string:
                _ = self._encoded
        except UNREADABLE as error:
            return str(error)
        return ""

    def category_count(self) -> int:
        """Return how many categories there are."""
        return self._categories.info.size

    def categories(self) -> pa.Array:
        """Return the categories as strings, in order."""
        return self._encoded[0]

    def rule(self) -> dict[str, Any]:
        """Return what restores the column."""
        return dict(self._encoded[1])

    @functools.cached_property
    def _encoded(self) -> tuple[pa.Array, dict[str, Any]]:
        """The categories, and the rule."""
        stored = self._categories
        if stored.info.storage_type.is_string and stored.info.size:
            return stored.read_strings(), {"kind": "categorical", "ordered": self._is_ordered}
        is_string = stored.info.storage_type.is_string
        values: Any = np.empty(0, dtype=object) if is_string else stored.read()
        empty = pandas(extra="anndata").Categorical.from_codes(
            np.empty(0, np.int8), categories=values, ordered=self._is_ordered
        )
        encoded = rules.encode_column(pandas(extra="anndata").Series(empty))
        return encoded.categories, encoded.rule

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
