"""The choice of the rows of a table, and of how they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from daf_query.scan import DEFAULT_OPTIONS, Positions, Predicate, ScanOptions, ScanReport
from daf_storage.spi import DecodedCache


@dataclass(frozen=True, eq=False)
class TableView:
    """Which rows of a table are wanted, and how they are read."""

    base_filter: pc.Expression | None = None
    """Only the rows for which this is true."""
    rows: Positions | None = None
    """Only these rows, ascending."""
    inferred: Predicate | None = None
    """Other rows may be left out; those for which it is not known are kept."""
    cache: DecodedCache = field(default_factory=DecodedCache)
    """What was decoded by any scan that shares it."""
    reports: list[ScanReport] | None = None
    """Where to leave a report of each scan."""
    options: ScanOptions = DEFAULT_OPTIONS
    """How rows are cut, pruned and read."""

    @property
    def is_filtered(self) -> bool:
        """Whether some rows may be left out."""
        parts = (self.base_filter, self.rows, self.inferred)
        return any(part is not None for part in parts)

    def pickled(self) -> dict[str, Any]:
        """Return the parts that another process gets: all but the cache and the reports."""
        names = ("base_filter", "rows", "inferred", "options")
        return {name: getattr(self, name) for name in names}
