"""Aggregates of groups of rows, by arrays that have a place for each group.

Strings are grouped by their dictionary codes, integers by their distance to the smallest; no string
and no row is made of what is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan._arrow_arrays import numpy_type
from daf_query.scan._group_keys import (
    MAX_GROUPS,
    GroupKey,
    GroupNumbers,
    group_key,
    plain_values,
)
from daf_query.scan._group_totals import MAX_BLOCK_ROWS, Totals
from daf_query.scan._open_table import OpenTable
from daf_query.scan._plan import ScanPlan
from daf_query.scan._scanner import Scan
from daf_query.scan._side_by_side import side_by_side
from daf_storage.base import Span

Function: TypeAlias = Literal["count", "sum", "avg", "min", "max"]
"""What is computed of the values of a group."""

_BLOCK_ROWS: Final = 1 << 16
"""Rows whose numbers stay in the processor's cache."""
_ROWS_PER_GROUP: Final = 4
"""In blocks of fewer, most of the time would go into the arrays of the groups."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of a column of numbers; ``count`` is of any column, or of rows."""

    function: Function
    column: str | None = None
    """None if rows are counted."""


class GroupScan:
    """A scan whose rows are aggregated by groups.

    Parameters
    ----------
    keys
        The columns to group by; without any, all rows are one group, which is there even if it has
        none.
    """

    def __init__(
        self,
        table: OpenTable,
        plan: ScanPlan,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
    ) -> None:
        self._table = table
        self._scan = Scan(table, plan)
        self._names = tuple(keys)
        self._aggregates = tuple(aggregates)

    def keys(self) -> list[GroupKey] | None:
        """Return the keys; None if there may be too many groups.

        Raises
        ------
        DafError
            A column cannot be read.
        """
        found = []
        size = 1
        for name in self._names:
            key = group_key(self._table, name, self._scan.candidates())
            size *= 1 if key is None else key.size
            if key is None or size > MAX_GROUPS:
                return None
            found.append(key)
        return found

    def arrays(self, keys: Sequence[GroupKey]) -> list[pa.Array]:
        """Return the columns of the result: the keys, then the aggregates; in the order of keys.

        Raises
        ------
        DafError
            A column cannot be read.
        """
        size = math.prod(key.size for key in keys)
        counts, totals = self._totals(keys, size)
        if any(key.places is not None for key in keys):
            counts, totals = self._mapped(keys, counts, totals)
        groups = np.flatnonzero(counts) if keys else np.zeros(1, np.intp)
        shape = tuple(len(key.labels) for key in keys)
        numbers = np.unravel_index(groups, shape) if keys else ()
        labels = [key.labels.take(pa.array(each)) for key, each in zip(keys, numbers, strict=True)]
        return [*labels, *(self._result(each, groups, counts, totals) for each in self._aggregates)]

    def _mapped(
        self, keys: Sequence[GroupKey], counts: npt.NDArray[np.int64], totals: dict[str, Totals]
    ) -> tuple[npt.NDArray[np.int64], dict[str, Totals]]:
        """Return the same for the labels of keys, of which some numbers may have the same."""
        groups = np.flatnonzero(counts)
        numbers = np.unravel_index(groups, tuple(key.size for key in keys))
        is_kept = np.ones(groups.size, np.bool_)
        targets = np.zeros(groups.size, np.intp)
        for key, each in zip(keys, numbers, strict=True):
            places = each if key.places is None else key.places[each]
            is_kept &= places >= 0
            targets = targets * len(key.labels) + places
        groups, targets = groups[is_kept], targets[is_kept]
        size = math.prod(len(key.labels) for key in keys)
        mapped_counts, mapped = np.zeros(size, np.int64), self._empty_totals(size)
        np.add.at(mapped_counts, targets, counts[groups])
        for name, total in mapped.items():
            total.merge_groups(totals[name], groups, targets)
        return mapped_counts, mapped

    def _totals(
        self, keys: Sequence[GroupKey], size: int
    ) -> tuple[npt.NDArray[np.int64], dict[str, Totals]]:
        """Return the number of rows of each group, and what was added up of each column."""
        options, partitions = self._table.options, self._scan.plan.partitions
        (counts, totals), *others = side_by_side(
            lambda part: self._totals_of(keys, size, part), partitions, threads=options.threads
        )
        for other_counts, other_totals in others:
            counts += other_counts
            for name, total in totals.items():
                total.merge(other_totals[name])
        return counts, totals

    def _totals_of(
        self, keys: Sequence[GroupKey], size: int, partitions: Sequence[Span]
    ) -> tuple[npt.NDArray[np.int64], dict[str, Totals]]:
        counts, totals = np.zeros(size, np.int64), self._empty_totals(size)
        for rows in self._scan.matching(partitions):
            numbers = [
                key.numbers(self._scan.values(name, rows))
                for name, key in zip(self._names, keys, strict=True)
            ]
            read = {name: plain_values(self._scan.values(name, rows)) for name in totals}
            for block in _blocks(rows.count, size):
                groups = _combined([each[block] for each in numbers], keys)
                rows_left = np.array([block.stop - block.start])
                added = rows_left if groups is None else np.bincount(groups, minlength=size)
                counts += added
                for name, (values, is_valid) in read.items():
                    valid = None if is_valid is None else is_valid[block]
                    totals[name].add(groups, added, values[block], valid)
        return counts, totals

    def _empty_totals(self, size: int) -> dict[str, Totals]:
        functions: dict[str, set[str]] = {}
        for each in self._aggregates:
            if self._is_read(each):
                functions.setdefault(str(each.column), set()).add(each.function)
        return {
            name: Totals(_number_type(self._table.columns[name].field.type), size, frozenset(of))
            for name, of in functions.items()
        }

    def _is_read(self, aggregate: Aggregate) -> bool:
        """Return whether values are needed, rather than the number of rows."""
        name = aggregate.column
        if name is None:
            return False
        return aggregate.function != "count" or self._table.columns[name].field.nullable

    def _result(
        self,
        aggregate: Aggregate,
        groups: GroupNumbers,
        counts: npt.NDArray[np.int64],
        totals: dict[str, Totals],
    ) -> pa.Array:
        if not self._is_read(aggregate):
            return pa.array(counts[groups])
        total = totals[str(aggregate.column)]
        valid = total.counts[groups]
        if aggregate.function == "count":
            return pa.array(valid)
        is_null = valid == 0
        values: npt.NDArray[Any]
        if aggregate.function == "avg":
            values = total.float_sums[groups] / np.maximum(valid, 1)
        else:
            values = {"sum": total.sums, "min": total.low, "max": total.high}[aggregate.function]
            values = values[groups]
        return pa.array(values, mask=is_null if is_null.any() else None)


def _blocks(count: int, size: int) -> Iterator[slice]:
    rows = min(max(_BLOCK_ROWS, _ROWS_PER_GROUP * size), MAX_BLOCK_ROWS)
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


def _combined(numbers: Sequence[npt.NDArray[Any]], keys: Sequence[GroupKey]) -> GroupNumbers | None:
    """Return the number of the group of each row, of the numbers of its keys; None without any."""
    if not numbers:
        return None
    groups = numbers[0].astype(np.intp)
    for each, key in zip(numbers[1:], keys[1:], strict=True):
        groups *= key.size
        groups += each
    return groups


def _number_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return what values of a column are added up as; those that are only counted, as anything."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return numpy_type(kind) if is_number else np.dtype(np.uint8)
