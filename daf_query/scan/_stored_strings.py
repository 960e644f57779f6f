"""A column of strings that is not decoded: its values are compared, and a few read, as stored."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from daf_query.scan._evaluate import Mask
from daf_query.scan._missing_strings import nulls_for_empty
from daf_query.scan._predicate import Compare, In, IsNull
from daf_query.scan._rows import Rows
from daf_storage.base import DecodedCache, ForkLock
from daf_storage.trees import StoredArray, StringMatches, StringPlaces, StringSearch

_MAX_VALUES: Final = 16
_FEW_ROWS: Final = 16
_FIRST_ROWS: Final = 1 << 13
"""The strings of so many rows are found without a look at those that follow."""


@dataclass(frozen=True, slots=True)
class _Equality:
    """A predicate as equality with one of some strings, none of them null."""

    values: tuple[str, ...]
    is_negated: bool

    @classmethod
    def of(cls, predicate: Compare | In | IsNull, *, empty_is_missing: bool) -> _Equality | None:
        """Return what a predicate asks for; None if that is something else, or of many strings."""
        values: tuple[Any, ...]
        if isinstance(predicate, IsNull):
            return cls(("",), predicate.is_negated) if empty_is_missing else None
        if isinstance(predicate, Compare):
            if predicate.operator not in ("==", "!="):
                return None
            values, is_negated = (predicate.value,), predicate.operator == "!="
        else:
            values, is_negated = predicate.values, predicate.is_negated
        if len(values) > _MAX_VALUES or not all(isinstance(value, str) for value in values):
            return None
        if empty_is_missing:  # a null is neither equal to a string nor different from it
            values = tuple(value for value in values if value)
            values = (*values, "") if is_negated else values
        return cls(values, is_negated)


class StoredStrings:
    """The strings of a column as they are stored.

    Parameters
    ----------
    open_array
        Returns the stored array; asked once.
    cache, key, identity
        Where it is remembered at which bytes strings begin.
    """

    def __init__(
        self,
        open_array: Callable[[], StoredArray],
        cache: DecodedCache,
        key: Hashable,
        identity: Hashable,
        *,
        empty_is_missing: bool = False,
    ) -> None:
        self._open_array: Callable[[], StoredArray] | None = open_array
        self._cache = cache
        self._key, self._identity = key, identity
        self._places: StringPlaces | None = cache.peek(key, identity)
        self.is_new = self._places is None
        """Whether no query has used them before: what only later queries gain by can wait."""
        self._empty_is_missing = empty_is_missing
        self._search: StringSearch | None = None
        self._matches: dict[tuple[str, ...], StringMatches] = {}
        self._lock = ForkLock()

    def matches(self, predicate: Compare | In | IsNull, rows: Rows) -> Mask | None:
        """Return for which rows a predicate is true; None if this cannot be seen here."""
        equality = _Equality.of(predicate, empty_is_missing=self._empty_is_missing)
        search = None if equality is None else self._opened()
        if equality is None or search is None:
            return None
        with self._lock:  # one thread searches for values, while the others wait
            found = self._matches.get(equality.values)
            if found is None:
                found = self._matches[equality.values] = search.find(equality.values)
        mask = found.mask(rows.span)
        if equality.is_negated:
            mask = ~mask
        return mask if rows.offsets is None else mask[rows.offsets]

    def are_cheap(self, rows: Rows, sparse_divisor: int) -> bool:
        """Return whether to read some rows here, rather than to decode all once and for all."""
        most = rows.span.size // sparse_divisor if self.is_new else _FEW_ROWS
        return rows.offsets is not None and rows.count <= max(most, 1)

    def are_first(self, rows: Rows) -> bool:
        """Return whether these are among the first rows, which are always best read here."""
        return rows.offsets is not None and (
            not rows.count or rows.span.start + int(rows.offsets[-1]) < _FIRST_ROWS
        )

    def strings(self, rows: Rows) -> pa.Array | None:
        """Return the strings of some rows; None if these are not stored plainly."""
        search = self._opened()
        if search is None:
            return None
        strings = search.strings(rows.positions)
        return nulls_for_empty(strings) if self._empty_is_missing else strings

    def _opened(self) -> StringSearch | None:
        with self._lock:
            if self._open_array is not None:
                self._search = StringSearch.of(self._open_array(), self._places, self._keep)
                self._open_array = None
            return self._search

    def _keep(self, places: StringPlaces) -> None:
        self._cache.get(self._key, self._identity, lambda: places)
