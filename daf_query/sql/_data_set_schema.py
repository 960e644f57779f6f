"""The tables of one data set; the columns of an axis are kept while its metadata stay the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from daf_query.matrix import Selection
from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.sql._axis_schema import SCALARS, AxisSchema, shared_table
from daf_query.sql._descriptions import MATRICES, RELATIONS, Described, scalars_table
from daf_query.table import (
    AxisDataset,
    BrokenColumns,
    Categoricals,
    MatrixDataset,
    TableColumns,
    TableDataset,
    TableView,
    axis_columns,
    broken_columns,
    warn_of_problems,
    warn_once,
)
from daf_storage import DafReader
from daf_storage.spi import DecodedCache, ForkLock

_MAX_SEEN: Final = 1 << 8
_MOST_KEPT: Final = 8
"""Of how many names, of all queries, the vectors stay open; there may be thousands of data sets."""


class DafSchema(AxisSchema):
    """The tables of one data set."""

    descriptions = (MATRICES, RELATIONS, SCALARS)

    def __init__(
        self,
        name: str,
        daf: DafReader,
        cache: DecodedCache,
        shared: Mapping[str, TableDataset] = MappingProxyType({}),
        *,
        scan_options: ScanOptions = DEFAULT_OPTIONS,
        categoricals: Categoricals = "string",
    ) -> None:
        super().__init__(name, shared)
        self._categoricals: Categoricals = categoricals
        self.scan_options = scan_options
        """How its tables are cut, pruned and read."""
        self._daf = daf
        self.cache = cache
        self._known: dict[str, tuple[Hashable, TableColumns]] = {}
        self._seen: dict[tuple[str, frozenset[str]], tuple[Hashable, TableColumns]] = {}
        self._broken: dict[str, BrokenColumns] = {}
        self._lock = ForkLock()

    @property
    def daf(self) -> DafReader:
        """The data set."""
        return self._daf

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return self._daf.location

    def data_sets(self) -> Sequence[tuple[DafReader, DecodedCache]]:
        """Return the data set, and the cache of its tables."""
        return [(self._daf, self.cache)]

    def axes_set(self) -> set[str]:
        """Return the axes."""
        return self._daf.axes_set()

    def has_axis(self, axis: str) -> bool:
        """Return whether there is an axis; does not list the others."""
        return self._daf.has_axis(axis)

    def axis_length(self, axis: str) -> int:
        """Return the number of entries."""
        return self._daf.axis_length(axis)

    def find(self, name: str) -> TableDataset | None:
        """Return the table of an axis, or one that belongs to no data set; None for any other."""
        if name in self._added:
            return None
        if self._daf.has_axis(name):
            return self.dataset(name)
        return shared_table(self._shared, name)

    def table_exist(self, name: str) -> bool:
        """Return whether there is a table of this name; does not list the others."""
        is_own = name in self._added or name in self.descriptions or self._daf.has_axis(name)
        return is_own or name in self._shared

    def columns_for(self, axis: str, used: frozenset[str]) -> TableColumns:
        """Return the columns of an axis for a query that reads some of them.

        The metadata of the others are not looked at: they may be missing.
        """
        key = (axis, used)
        identity = self._daf.axis_identity(axis, used)
        with self._lock:
            seen, is_known = self._seen.get(key), axis in self._known
        if seen is None or seen[0] != identity:
            if is_known:  # the same for all queries
                found = self._current(axis)
            else:
                broken = self._broken_of(axis)
                found = axis_columns(self._daf, axis, broken, self._categoricals, among=used)
            seen = (identity, found)
            with self._lock:
                if len(self._seen) >= _MAX_SEEN:
                    self._seen.clear()
                self._seen[key] = seen
        columns = seen[1].readable()
        warn_of_problems(columns, self._warned)
        return columns

    def columns(self, axis: str) -> TableColumns:
        """Return the columns of an axis; the same as before, unless its metadata changed."""
        columns = self._current(axis).readable()
        warn_of_problems(columns, self._warned)
        return columns

    def _current(self, axis: str) -> TableColumns:
        """Return all columns of an axis, also those that turned out to be unreadable."""
        identity = self._daf.axis_identity(axis)
        with self._lock:
            known = self._known.get(axis)
        if known is None or known[0] != identity:
            broken = self._broken_of(axis)
            known = (identity, axis_columns(self._daf, axis, broken, self._categoricals))
            with self._lock:
                self._known[axis] = known
        return known[1]

    def columns_among(self, axis: str, names: frozenset[str]) -> TableColumns:
        """Return the columns of an axis that have some names; the others are not looked at."""
        broken, keeps = self._broken_of(axis), len(names) <= _MOST_KEPT
        columns = axis_columns(
            self._daf, axis, broken, self._categoricals, among=names, keeps=keeps
        )
        return columns.readable()

    def columns_added(self, axis: str, names: frozenset[str], known: TableColumns) -> TableColumns:
        """Return known columns, and those of other names; only the metadata of these are read.

        The data set has not changed since the others were looked at.
        """
        broken = self._broken_of(axis)
        keeps = len(names) + len(known.columns) <= _MOST_KEPT
        added = axis_columns(
            self._daf,
            axis,
            broken,
            self._categoricals,
            among=names,
            length=known.length,
            keeps=keeps,
        )
        return known.with_columns_of(added).readable()

    def _broken_of(self, axis: str) -> BrokenColumns:
        with self._lock:
            broken = self._broken.get(axis)
            if broken is None:
                broken = self._broken[axis] = broken_columns(self._daf, axis)
            return broken

    def dataset(self, axis: str) -> AxisDataset:
        """Return the table of an axis; its metadata is read only if it changed."""
        return self.table_of(axis, self.columns(axis))

    def table_of(self, axis: str, columns: TableColumns) -> AxisDataset:
        """Return the table of an axis whose columns are known."""
        view = TableView(cache=self.cache, options=self.scan_options)
        return AxisDataset(self._daf, axis, columns=columns, view=view)

    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selection | None = None,
        columns: Selection | None = None,
    ) -> MatrixDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes."""
        view = TableView(cache=self.cache, options=self.scan_options)
        return MatrixDataset(
            self._daf, rows_axis, columns_axis, name, rows=rows, columns=columns, view=view
        )

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable."""
        with self._lock:
            return sum(broken.count for broken in self._broken.values())

    def description(self, name: str) -> pa.dataset.Dataset:
        """Return one of the tables that describe it; of the scalars, those that can be read."""
        if name != SCALARS:
            return super().description(name)
        table, problems = scalars_table(self._daf)
        for scalar, problem in problems.items():
            warn_once(f"the table {SCALARS!r} lacks the scalar {scalar!r}: {problem}", self._warned)
        return table

    def described(self) -> Described:
        """Return the data sets that are described."""
        return Described(self.name, {None: self._daf})

    def close(self) -> None:
        """Close the data set, and forget what was decoded of it."""
        self.cache.clear()
        self._daf.close()
