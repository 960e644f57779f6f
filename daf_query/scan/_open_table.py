"""The columns of one table as one query reads them: each is opened once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from daf_query.scan._column import Column, OpenColumn
from daf_query.scan._options import DEFAULT_OPTIONS, ScanOptions
from daf_query.scan._report import ScanReport
from daf_query.scan._row_index import RowIndex
from daf_query.scan._rows import Positions
from daf_storage.spi import DecodedCache, ForkLock

FindPointIndexes: TypeAlias = Callable[[Sequence[str], DecodedCache], Sequence[RowIndex]]
"""Returns the indexes over two of some columns of numbers."""


class OpenTable:
    """What planning and all fragments of a query share, so that what they read is of one state.

    Parameters
    ----------
    report
        Counts what is read.
    rows
        The only rows that there are, ascending, where the caller restricted them.
    point_indexes
        Returns the indexes over two of some columns of numbers.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        length: int,
        cache: DecodedCache,
        report: ScanReport,
        *,
        rows: Positions | None = None,
        point_indexes: FindPointIndexes = lambda *_: (),
        options: ScanOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.columns = columns
        self.length = length
        self.report = report
        self.rows = rows
        self.options = options
        self._cache = cache
        self._point_indexes = point_indexes
        self._open: dict[str, OpenColumn] = {}
        self._lock = ForkLock()

    def column(self, name: str) -> OpenColumn:
        """Return a column, opened when it is first asked for."""
        with self._lock:
            if name not in self._open:
                column = self.columns[name]
                self._open[name] = column.open(self._cache, self.options)
                self.report.chunk_rows[name] = column.chunk_rows
            return self._open[name]

    def point_indexes(self, names: Sequence[str]) -> Sequence[RowIndex]:
        """Return the indexes over two of some columns of numbers."""
        return self._point_indexes(names, self._cache)
