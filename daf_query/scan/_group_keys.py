"""Columns to group by, as a small number for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan._arrow_arrays import numpy_type
from daf_query.scan._evaluate import Codes, Values
from daf_query.scan._open_table import OpenTable
from daf_query.scan._rows import Rows
from daf_storage.base import Span

MAX_GROUPS: Final = 1 << 17
"""Of more groups, hash tables are faster than arrays with a place for each."""

GroupNumbers: TypeAlias = npt.NDArray[np.intp]
"""The number of the group of each row."""

_NARROW_BYTES: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class GroupKey:
    """A column of which each value has a number from 0 on."""

    labels: pa.Array
    """The values, in their order; one of them may be null."""
    numbers: Callable[[Values], npt.NDArray[Any]]
    """Returns the numbers of values of the column."""
    size: int
    """How many numbers there are."""
    places: npt.NDArray[np.int64] | None = None
    """The place of the label of each number, -1 where there is none and its rows are left out;
    None if it has its own."""

    def mapped(self, positions: pa.Array, values: pa.Array) -> GroupKey:
        """Return the key of what other values the values stand for.

        Parameters
        ----------
        positions
            The place of the other value of each number; null where there is none.
        """
        encoded = values.dictionary_encode(null_encoding="encode")
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        known = positions.is_valid().to_numpy(zero_copy_only=False)
        places = np.full(self.size, -1)
        found = positions.fill_null(0).to_numpy()[known]
        places[known] = rank[encoded.indices.to_numpy()[found]]
        return replace(self, labels=encoded.dictionary.take(pa.array(order)), places=places)


def group_key(table: OpenTable, name: str, rows: Iterable[Rows]) -> GroupKey | None:
    """Return a column as a key; None if it may have too many different values.

    Parameters
    ----------
    rows
        Those that will be grouped, or more; they are read if the range of integers is not known.

    Raises
    ------
    DafError
        The column cannot be read.
    """
    kind = table.columns[name].field.type
    if kind == pa.string():
        return _key_of_strings(table, name)
    if kind == pa.bool_():
        return _with_null(pa.array([False, True]), lambda values: values.view(np.uint8))
    if not pa.types.is_integer(kind):
        return None
    dtype = numpy_type(kind)
    if dtype.itemsize <= _NARROW_BYTES:
        limits = np.iinfo(dtype)
        return _key_of_integers(dtype, int(limits.min), int(limits.max))
    bounds = _bounds(table, name, rows)
    return None if bounds is None else _key_of_integers(dtype, *bounds)


def _key_of_strings(table: OpenTable, name: str) -> GroupKey | None:
    known = table.column(name).values(Rows(Span(0, 0)))
    if not isinstance(known, Codes) or len(known.strings) > MAX_GROUPS:
        return None

    def numbers(values: Values) -> npt.NDArray[Any]:
        if not isinstance(values, Codes) or values.strings is not known.strings:
            raise TypeError(f"the codes of column {name!r} changed")
        return values.codes

    return GroupKey(known.strings, numbers, len(known.strings))


def _key_of_integers(dtype: np.dtype[Any], low: int, high: int) -> GroupKey | None:
    size = high - low + 1
    if size > MAX_GROUPS:
        return None
    first = np.uint64(low % (1 << 64))  # differences of 64 bits are right, whatever the sign
    labels = (np.arange(size, dtype=np.uint64) + first).astype(dtype)
    offset = first.astype(np.intp)
    return _with_null(pa.array(labels), lambda values: values.astype(np.intp) - offset)


def _with_null(
    labels: pa.Array, numbers: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
) -> GroupKey:
    """Return a key of values that may be an array of Arrow with nulls, which come last."""
    null = len(labels)

    def numbers_of(values: Values) -> npt.NDArray[Any]:
        plain, is_valid = plain_values(values)
        return numbers(plain) if is_valid is None else np.where(is_valid, numbers(plain), null)

    return GroupKey(pa.concat_arrays([labels, pa.nulls(1, labels.type)]), numbers_of, null + 1)


def _bounds(table: OpenTable, name: str, rows: Iterable[Rows]) -> tuple[int, int] | None:
    """Return the smallest and the largest integer; None as soon as they are too far apart."""
    column = table.column(name)
    known = None if column.zones is None else column.zones.known_range()
    if known is not None:
        return int(known[0]), int(known[1])
    bounds: tuple[int, int] | None = None
    for part in rows:
        values = column.values(part)
        plain, is_valid = plain_values(values)
        plain = plain if is_valid is None else plain[is_valid]
        if plain.size:
            low, high = int(plain.min()), int(plain.max())
            bounds = (low, high) if bounds is None else (min(low, bounds[0]), max(high, bounds[1]))
            if bounds[1] - bounds[0] >= MAX_GROUPS:
                return None
        if part.offsets is None and column.zones is not None and isinstance(values, np.ndarray):
            column.zones.record(part.span, values)
    return bounds or (0, 0)


def plain_values(values: Values) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Return values as numbers, and which of them are valid; None if all but NaN are.

    Of strings without codes only the second means something.

    >>> plain_values(pa.array([7, None]))[1].tolist()
    [True, False]
    """
    if isinstance(values, np.ndarray):
        return values, None
    if isinstance(values, Codes):
        has_null = values.strings.null_count > 0  # the first, if any
        return values.codes, values.codes > 0 if has_null else None
    is_valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    if values.type == pa.bool_():
        values = values.cast(pa.uint8())
    if not pa.types.is_integer(values.type):
        return np.zeros(len(values), np.uint8), is_valid
    filled = values if is_valid is None else values.fill_null(0)
    return filled.to_numpy(), is_valid
