"""One data set of a schema; the columns of an axis are kept while its metadata stay the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

from daf_query.matrix import Selection
from daf_query.scan import ScanOptions
from daf_query.table import (
    DATASET,
    AxisDataset,
    BrokenColumns,
    Categoricals,
    MatrixDataset,
    TableColumns,
    TableView,
    axis_columns,
    broken_columns,
)
from daf_storage import DafReader
from daf_storage.base import DecodedCache, ForkLock

_MOST_NAMES: Final = 1 << 6
"""So many names, of all queries, are looked for together."""
_MOST_KEPT: Final = 8
"""Of how many names, of all queries, the vectors stay open; there may be thousands of data sets."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The columns of an axis, as they are known."""

    identity: Hashable
    """What changes with them."""
    columns: TableColumns
    names: frozenset[str] = frozenset()
    """What was looked for; not all of them need be there."""


class Member:
    """One of the data sets that a schema shows, or the only one."""

    def __init__(
        self,
        daf: DafReader,
        cache: DecodedCache,
        scan_options: ScanOptions,
        categoricals: Categoricals = "string",
    ) -> None:
        self.daf = daf
        """The data set."""
        self.cache = cache
        """Where values of its tables are kept."""
        self.scan_options = scan_options
        """How its tables are cut, pruned and read."""
        self._categoricals: Categoricals = categoricals
        self._all: dict[str, _Known] = {}
        self._some: dict[str, _Known] = {}
        self._broken: dict[str, BrokenColumns] = {}
        self._lock = ForkLock()

    def columns(self, axis: str, names: frozenset[str] | None = None) -> TableColumns:
        """Return the columns of an axis; the same as before, unless its metadata changed.

        Parameters
        ----------
        names
            Of the only ones that are needed, of which not all need be there: the metadata of others
            are not looked at, and may be missing.  Those that were asked for before, or all, may be
            among them.
        """
        return (self._every(axis) if names is None else self._named(axis, names)).readable()

    def _every(self, axis: str) -> TableColumns:
        """Return all columns of an axis, also those that turned out to be unreadable."""
        identity = self.daf.axis_identity(axis)
        with self._lock:
            known = self._all.get(axis)
        if known is None or known.identity != identity:
            known = _Known(identity, self._read(axis))
            with self._lock:
                self._all[axis] = known
                self._some.pop(axis, None)
        return known.columns

    def _named(self, axis: str, names: frozenset[str]) -> TableColumns:
        """Return columns that have some names, also those that turned out to be unreadable.

        Metadata that were read count as long as the data set shows no change; of a new name, only
        the metadata of that vector are read.
        """
        with self._lock:
            known, has_all = self._some.get(axis), axis in self._all
        wanted = names | {DATASET} | (frozenset() if known is None else known.names)
        if len(wanted) > max(_MOST_NAMES, len(names) + 1):
            known, wanted = None, names | {DATASET}
        # What shows a change is looked at before the metadata: one in between shows the next time.
        identity = self.daf.axis_identity(axis, wanted)
        if known is None or (known.names, known.identity) != (wanted, identity):
            keeps = len(wanted) <= _MOST_KEPT
            if has_all:  # the same for all queries
                columns = self._every(axis)
            elif known is not None and self._is_same(axis, identity, known):
                added, length = wanted - known.names, known.columns.length
                more = self._read(axis, among=added, length=length, keeps=keeps)
                columns = known.columns.with_columns_of(more) if added else known.columns
            else:
                columns = self._read(axis, among=wanted, keeps=keeps)
            known = _Known(identity, columns, wanted)
            with self._lock:
                self._some[axis] = known
        return known.columns

    def _is_same(self, axis: str, identity: Hashable, known: _Known) -> bool:
        """Return whether an axis has not changed since some columns of it were looked at.

        Of an archive, one value shows any change; of a directory, one for their names does.
        """
        return known.identity in (identity, self.daf.axis_identity(axis, known.names))

    def _read(self, axis: str, **how: Any) -> TableColumns:
        with self._lock:
            broken = self._broken.get(axis)
            if broken is None:
                broken = self._broken[axis] = broken_columns(self.daf, axis)
        return axis_columns(self.daf, axis, broken, self._categoricals, **how)

    def knows_all(self, axis: str) -> bool:
        """Return whether the metadata of all columns of an axis were looked at."""
        with self._lock:
            return axis in self._all

    def table(self, axis: str, columns: TableColumns) -> AxisDataset:
        """Return the table of an axis whose columns are known."""
        return AxisDataset(self.daf, axis, columns=columns, view=self._view)

    def matrix_table(
        self, axes: tuple[str, str], name: str, rows: Selection | None, columns: Selection | None
    ) -> MatrixDataset:
        """Return the long form of a matrix, as it is now; of some entries of its axes."""
        return MatrixDataset(self.daf, *axes, name, rows=rows, columns=columns, view=self._view)

    @property
    def _view(self) -> TableView:
        return TableView(cache=self.cache, options=self.scan_options)

    @property
    def broken_count(self) -> int:
        """How often a column turned out to be unreadable."""
        with self._lock:
            return sum(broken.count for broken in self._broken.values())

    def close(self) -> None:
        """Close the data set, and forget what was decoded of it."""
        self.cache.clear()
        self.daf.close()
