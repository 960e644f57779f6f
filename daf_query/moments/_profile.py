"""Profiles and totals before and after the matrix was read, and as tables.

In a collection, the segments of each are merged as those of blocks are: the moments are
exact, since counts, sums and squared deviations of groups combine, whatever the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.matrix import ConcatenatedAxis, EntryAxis, Positions, Selection, each_once
from daf_query.moments._group_moments import (
    Accumulator,
    Counts,
    GroupedRows,
    Groups,
    Moments,
    Statistic,
    constant,
    estimate_segments,
    group_segments,
)
from daf_query.scan import INDEX, NAME, number_array
from daf_storage import DafReader, ShowProgress, errors
from daf_storage._lazy import pc
from daf_storage.anndata import made_unique
from daf_storage.base import AnyArray, is_remote, progress_bar

COUNTS: Final[tuple[str, ...]] = ("count", "missing", "nonzero")
NUMBERS: Final[tuple[Statistic, ...]] = ("sum", "mean", "variance", "min", "max")
STATISTICS: Final[tuple[str, ...]] = (*COUNTS, *NUMBERS)
"""The columns of numbers, in their order."""

DATASET: Final = "dataset"

_BYTES: Final = 8


Part: TypeAlias = tuple[DafReader, Positions, Positions, Positions]
"""A data set, which rows it has, where they are in it, and where the columns are."""


@dataclass(frozen=True, slots=True)
class _OfMatrix:
    """Something of the rows of a matrix and of some of its columns."""

    axes: tuple[ConcatenatedAxis, EntryAxis]
    """That of the rows, along which their positions count through, and that of the columns."""
    name: str
    """The name of the matrix."""
    columns: Selection
    """The selected columns."""

    @property
    def axis_names(self) -> tuple[str, str]:
        """The names of both axes."""
        return self.axes[0].axis, self.axes[1].axis


@dataclass(frozen=True, slots=True)
class GroupProfile(_OfMatrix):
    """What a profile consists of."""

    groups: Mapping[str, pa.Array]
    """The value of each group, by the names of the group columns."""
    sizes: Counts
    """Number of rows of each group."""
    moments: Moments
    """The numbers, of shape ``(groups, columns)``."""

    def has_counts(self) -> bool:
        """Return whether all sums and maxima are whole numbers, as those of logarithms are not."""
        sums, highest = self.moments.statistic("sum"), self.moments.statistic("max")
        are_whole = all((each[np.isfinite(each)] % 1 == 0).all() for each in (sums, highest))
        return are_whole and bool((highest > 1).any())

    def labels(self) -> list[str]:
        """Return a label for each group: its values, joined; each label once, as in anndata."""
        if not self.groups:
            return ["all"] * self.sizes.size
        columns = []
        for values in self.groups.values():
            plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            columns.append(pc.fill_null(plain.cast(pa.string()), "NULL"))
        return list(made_unique(pc.binary_join_element_wise(*columns, "_")).to_pylist())

    def to_table(self) -> pa.Table:
        """Return a row for each group and column; the moments are not copied."""
        moments, n_groups, n_columns = self.moments, self.sizes.size, self.columns.size
        counts = np.repeat(self.sizes, n_columns), moments.missing, moments.nonzero
        schema = schema_of(self.groups, self.axes[1].axis)
        numbers = [*counts, *map(moments.statistic, NUMBERS)]
        codes = np.repeat(np.arange(n_groups), n_columns)
        return self.rows(codes, np.tile(np.arange(n_columns), n_groups), numbers, schema)

    def rows(
        self, groups: AnyArray, columns: AnyArray, numbers: Sequence[AnyArray], schema: pa.Schema
    ) -> pa.Table:
        """Return a table of numbers that some groups and columns have, each by its place."""
        unique, places = np.unique(self.columns.positions, return_inverse=True)
        entries = pa.array(places.reshape(-1).astype(np.int32)[columns])
        names = self.axes[1].entries_at(unique)
        arrays = [values.take(pa.array(groups)) for values in self.groups.values()]
        arrays += [pa.DictionaryArray.from_arrays(entries, names)]
        for values, field in zip(numbers, list(schema)[len(arrays) :], strict=True):
            is_whole = pa.types.is_integer(field.type)
            arrays.append((pa.array if is_whole else number_array)(values.reshape(-1)))
        return pa.table(arrays, schema)


@dataclass(frozen=True, slots=True)
class _Prepared(_OfMatrix):
    """What is computed of a matrix whose entries are chosen, and of which nothing was read."""

    def _parts(self, rows: Positions) -> Iterator[Part]:
        """Yield data sets that have rows: which, where they are in it, and where the columns are.

        A column that it lacks is at -1.

        Raises
        ------
        MatrixNotFoundError
            Rows are selected of a data set that lacks the matrix.
        """
        along, across = self.axes
        what = f"matrix {self.name!r} for the axes {along.axis!r} and {across.axis!r}"
        for member, daf, mine, own in along.parts(rows, across.members, what):
            yield daf, mine, own, across.sources(member, self.columns.positions)

    def _download(self, parts: Iterable[Part]) -> tuple[int, str]:
        """Return about how many bytes of it are on servers, and a sentence about them."""
        names, n_bytes, requests = self.axis_names, 0, 0
        for daf, _, rows, sources in parts:
            if is_remote(daf.location):
                chosen = (
                    Selection.of(each_once(each), daf.axis_length(axis))
                    for each, axis in zip((rows, sources[sources >= 0]), names, strict=True)
                )
                read = estimate_segments(daf, names, self.name, *chosen)
                n_bytes += read.size_bytes if read.is_remote else 0
                requests += read.requests
        return n_bytes, f"downloads about {n_bytes:,} bytes in about {requests:,} requests"

    def _check_bytes(self, n_bytes: int, max_bytes: int, what: str, advice: str) -> None:
        """Refuse what is larger than its budget."""
        if n_bytes > max_bytes:
            message = f"{self.axes[1].location}: {what}, which is more than the budget of"
            raise errors.over_budget(f"{message} {max_bytes:,}", advice)


@dataclass(frozen=True, slots=True)
class PreparedProfile(_Prepared):
    """A profile whose groups are known, and for which nothing of the matrix was read."""

    groups: Groups
    fill: float = math.nan
    """What stands where a data set lacks a column; NaN is a missing value."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of its columns."""
        return schema_of(self.groups.columns, self.axes[1].axis)

    def check_size(self, max_bytes: int | None) -> None:
        """Raise if the result would be too large, or more would be downloaded of a server.

        Raises
        ------
        BudgetError
            It would have more bytes.
        """
        if max_bytes is None:
            return
        n_groups, n_columns = self.groups.rows.n_groups, self.columns.size
        n_bytes = n_groups * n_columns * _row_bytes(self.groups.columns)
        what = (
            f"would have {n_groups * n_columns:,} rows ({n_groups:,} groups x {n_columns:,} "
            f"{self.axes[1].axis}), about {n_bytes:,} bytes"
        )
        if n_bytes <= max_bytes:
            n_bytes, what = self._download(self._parts(self.groups.rows.positions))
        what = f"the profile of {self.name!r} {what}"
        self._check_bytes(n_bytes, max_bytes, what, "choose fewer rows, groups or columns")

    def _moments(self, progress: Callable[[int], None]) -> Moments:
        """Read the matrices one after the other; return the moments of each group and column."""
        rows, n_columns, across = self.groups.rows, self.columns.size, self.axes[1]
        accumulator = Accumulator(rows.n_groups * n_columns)
        keys = np.arange(rows.n_groups * n_columns).reshape(rows.n_groups, n_columns)
        for daf, mine, positions, sources in self._parts(rows.positions):
            own = GroupedRows(positions, rows.codes[mine], rows.n_groups)
            has, lacks = np.flatnonzero(sources >= 0), np.flatnonzero(sources < 0)
            columns = Selection.of(sources[has], daf.axis_length(across.axis))
            segments = group_segments(daf, self.axis_names, self.name, own, columns, progress)
            accumulator.merge(keys[:, has].reshape(-1), segments.map(np.ravel))
            if lacks.size:
                sizes = own.sizes()
                there = np.flatnonzero(sizes)
                filled = constant(self.fill, np.repeat(sizes[there], lacks.size))
                accumulator.merge(keys[np.ix_(there, lacks)].reshape(-1), filled)
        return accumulator.moments(rows.n_groups, n_columns)

    def compute(self, *, progress: ShowProgress = "auto") -> GroupProfile:
        """Read the matrix, and return the profile."""
        with progress_bar("profile", None, show=progress) as bar:
            moments = self._moments(bar.add)
        groups, sizes = self.groups.columns, self.groups.rows.sizes()
        return GroupProfile(self.axes, self.name, self.columns, groups, sizes, moments)


@dataclass(frozen=True, slots=True)
class PreparedTotals(_Prepared):
    """Totals of rows, of which the columns are added up."""

    rows: Selection
    """The entries that have totals."""

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        numbers = [("sum", pa.float64()), ("nonzero", pa.int64())]
        numbers += [("mean", pa.float64()), ("share", pa.float64())]
        dataset = [] if self.axes[0].is_alone else [(DATASET, pa.string())]
        return pa.schema([*dataset, (NAME, pa.string()), (INDEX, pa.int64()), *numbers])

    def check_size(self, max_bytes: int | None) -> None:
        """Raise if more would be downloaded from a server: all columns, since shares are of all.

        Raises
        ------
        BudgetError
            It would be more bytes.
        """
        if max_bytes is None:
            return
        across = self.axes[1]
        parts = (
            (daf, mine, rows, np.arange(daf.axis_length(across.axis)))
            for daf, mine, rows, _ in self._parts(self.rows.positions)
        )
        n_bytes, what = self._download(parts)
        what = f"summing rows of {self.name!r} {what}"
        self._check_bytes(n_bytes, max_bytes, what, "choose fewer rows")

    def compute(self, progress: Callable[[int], None] = lambda _: None) -> pa.Table:
        """Read the matrix once, and return a row for each entry.

        Raises
        ------
        MatrixNotFoundError
            Entries are chosen of a data set that lacks the matrix.
        """
        along, across = self.axes
        chosen, others, nonzero, n = np.zeros((4, self.rows.size))
        for daf, mine, own, sources in self._parts(self.rows.positions):
            # What is added up is a group of columns, the others are the second one.
            codes = np.ones(daf.axis_length(across.axis), np.int32)
            codes[sources[sources >= 0]] = 0
            groups = GroupedRows(np.arange(codes.size), codes, 2)
            rows = Selection.of(own, daf.axis_length(along.axis))
            found = group_segments(
                daf, self.axis_names, self.name, groups, rows, progress, is_transposed=True
            )
            (chosen[mine], others[mine]), nonzero[mine] = found.sum, found.nonzero[0]
            n[mine] = found.n[0]
        with np.errstate(all="ignore"):
            mean, share = chosen / n, chosen / (chosen + others)
        keys = along.keys_of(self.rows.positions)
        keys[NAME] = along.entries_at(self.rows.positions)
        arrays = [keys[name] for name in self.schema.names if name in keys]
        arrays += [pa.array(chosen), pa.array(nonzero.astype(np.int64))]
        arrays += [number_array(mean), number_array(share)]
        return pa.table(arrays, self.schema)


def _row_bytes(groups: Mapping[str, pa.Array]) -> int:
    """Return about how many bytes a row takes."""
    of_groups = sum(-(-array.nbytes // max(len(array), 1)) for array in groups.values())
    return int(of_groups) + _BYTES * (len(STATISTICS) + 1)


def schema_of(
    groups: Mapping[str, pa.Array],
    columns_axis: str,
    counts: Sequence[str] = COUNTS,
    numbers: Sequence[str] = NUMBERS,
) -> pa.Schema:
    """Return the names and types of the columns of what is computed of groups and columns."""
    return pa.schema(
        [
            *((name, values.type) for name, values in groups.items()),
            (columns_axis, pa.dictionary(pa.int32(), pa.string())),
            *((name, pa.int64()) for name in counts),
            *((name, pa.float64()) for name in numbers),
        ]
    )
