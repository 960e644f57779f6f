"""Reports of scans, counted while they run."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Final

from daf_query.scan._arrow_arrays import size_bytes
from daf_query.scan._evaluate import Codes, Values
from daf_query.scan._partition import split_chunks
from daf_query.scan._plan import ScanPlan
from daf_query.scan._predicate import describe
from daf_storage.base import DecodedCache

_SHOWN: Final = (
    *("table", "length", "predicate", "index_rows", "indexes", "ranges", "pruned", "rows_pruned"),
    *("read", "rows_in", "rows_out", "values", "bytes", "split", "notes"),
)


@dataclass
class ScanReport:
    """What a scan was to read, and what it read; counted while it runs."""

    table: str
    """The name of the table."""
    length: int
    """Its number of rows."""
    plan: ScanPlan | None = field(default=None, repr=False, compare=False)
    """What the scan was to read; ``None`` if it was not begun."""
    read: int = 0
    """Partitions that were read."""
    rows_in: int = 0
    """Rows for which the filter was evaluated."""
    rows_out: int = 0
    """Rows that were passed on."""
    values: dict[str, int] = field(default_factory=dict)
    """Number of values that were read, by column; those of filters and of results add up."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Their size in memory, by column; strings may have been dictionary codes."""
    notes: dict[str, str] = field(default_factory=dict)
    """Why reading a column is slower than it need be, and what to do, by column."""
    chunk_rows: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Rows per chunk of the columns that were opened."""
    cache: DecodedCache | None = field(default=None, repr=False, compare=False)
    """The cache as this scan saw it, with its own count of hits."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def predicate(self) -> str:
        """The filter, as far as it was evaluated here."""
        predicate = None if self.plan is None else self.plan.predicate
        return "" if predicate is None else describe(predicate)

    @property
    def index_rows(self) -> int | None:
        """How many rows indexes left; ``None`` if none was used."""
        return None if self.plan is None or self.plan.rows is None else self.plan.rows.size

    @property
    def indexes(self) -> list[str]:
        """The columns whose indexes were used."""
        return [] if self.plan is None else list(self.plan.indexes)

    @property
    def ranges(self) -> int:
        """Partitions of the table."""
        return 0 if self.plan is None else len(self.plan.spans)

    @property
    def pruned(self) -> int:
        """Partitions that were left out."""
        return 0 if self.plan is None else self.plan.pruned

    @property
    def rows_pruned(self) -> int:
        """Rows that were left out, of those partitions and of others."""
        return 0 if self.plan is None else self.plan.rows_pruned

    @property
    def split(self) -> dict[str, int]:
        """How many chunks of a column lie in two partitions, and may be decoded for both."""
        spans = [] if self.plan is None else self.plan.spans
        counts = {
            name: split_chunks(spans, rows, length=self.length)
            for name, rows in list(self.chunk_rows.items())
        }
        return {name: count for name, count in counts.items() if count}

    @property
    def cache_hits(self) -> int:
        """How often something decoded by an earlier query was used."""
        return 0 if self.cache is None else self.cache.hits

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain Python, for machines."""
        shown = {name: getattr(self, name) for name in _SHOWN}
        return {**shown, "values": dict(self.values), "bytes": dict(self.bytes)}

    def count(self, column: str, read: Values) -> None:
        """Add to the values read of a column."""
        values = read.codes if isinstance(read, Codes) else read
        with self.lock:
            self.values[column] = self.values.get(column, 0) + len(values)
            self.bytes[column] = self.bytes.get(column, 0) + size_bytes(values)

    def count_rows(self, span_rows: int, rows_out: int) -> None:
        """Add a partition that was read."""
        with self.lock:
            self.read += span_rows > 0
            self.rows_in += span_rows
            self.rows_out += rows_out
