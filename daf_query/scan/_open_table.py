"""The columns of one table as one query reads them: each is opened once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from daf_query.scan._column import Column, OpenColumn
from daf_query.scan._options import DEFAULT_OPTIONS, ScanOptions
from daf_query.scan._predicate import Predicate
from daf_query.scan._report import ScanReport
from daf_query.scan._row_index import RowIndex
from daf_query.scan._rows import Positions
from daf_storage.base import DecodedCache, ForkLock

FindPointIndexes: TypeAlias = Callable[[Sequence[str], DecodedCache], Sequence[RowIndex]]
"""Returns the indexes over two of some columns of numbers."""


@dataclass(eq=False)
class OpenTable:
    """What planning and all fragments of a query share, so that what they read is of one state."""

    columns: Mapping[str, Column]
    length: int
    cache: DecodedCache
    report: ScanReport
    """Counts what is read."""
    rows: Positions | None = None
    """The only rows that there are, ascending, where the caller restricted them."""
    required: Sequence[Predicate] = ()
    """What is true of all rows of any scan, whatever its filter is."""
    find_point_indexes: FindPointIndexes = lambda *_: ()
    """Returns the indexes over two of some columns of numbers."""
    options: ScanOptions = DEFAULT_OPTIONS
    _open: dict[str, OpenColumn] = field(default_factory=dict)
    _lock: ForkLock = field(default_factory=ForkLock)

    def column(self, name: str) -> OpenColumn:
        """Return a column, opened when it is first asked for."""
        with self._lock:
            if name not in self._open:
                column = self.columns[name]
                self._open[name] = column.open(self.cache, self.options)
                self.report.chunk_rows[name] = column.chunk_rows
            return self._open[name]

    def point_indexes(self, names: Sequence[str]) -> Sequence[RowIndex]:
        """Return the indexes over two of some columns of numbers."""
        return self.find_point_indexes(names, self.cache)
