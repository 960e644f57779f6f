"""The plan of a query, and the report of its execution: what it read, and how long it took."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from daf_query.scan import ScanReport


@dataclass(frozen=True)
class QueryPlan:
    """How a query would be executed; `DafSession.explain` returns it."""

    query: str
    """The query."""
    logical: str
    """The optimised plan: which columns and filters the tables are given, what is joined."""
    physical: str
    """The steps that are executed."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What is expensive about a column, and how to make it cheap, by the name of the column."""
    direct: str = ""
    """How the query is answered without this plan; empty if the engine executes it."""

    def as_dict(self) -> dict[str, Any]:
        """Return both plans as plain Python, for machines."""
        return {name: value for name, value in asdict(self).items() if name != "query"}

    def __str__(self) -> str:
        notes = "\n".join(f"note: {name}: {note}" for name, note in self.notes.items())
        direct = f"answered without this plan: {self.direct}" if self.direct else ""
        parts = (direct, self.logical, self.physical.rstrip(), notes)
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class Explanation:
    """What running a query once has cost; `DafSession.explain_analyze` returns it."""

    query: str
    """The query."""
    seconds: float
    """How long it took."""
    rows: int
    """Number of rows of the result."""
    scans: tuple[ScanReport, ...]
    """The tables that were read, in the order in which that began."""
    cache_hits: int
    """How often something computed by an earlier query was used."""
    plan: str
    """The engine's own plan."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the plan as plain Python, for machines."""
        return {
            "seconds": self.seconds,
            "rows": self.rows,
            "cache_hits": self.cache_hits,
            "scans": [scan.as_dict() for scan in self.scans],
        }

    def __str__(self) -> str:
        head = f"{self.rows:,} rows in {1e3 * self.seconds:.1f} ms; {self.cache_hits} cache hits"
        return "\n".join([head, *(_text(scan) for scan in self.scans)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _text(scan: ScanReport) -> str:
    lines = [
        f"table {scan.table}: {scan.length:,} rows",
        f"  ranges   {scan.ranges:,}, of which {scan.pruned:,} left out and {scan.read:,} read",
        f"  rows     {scan.rows_pruned:,} left out, {scan.rows_in:,} read, {scan.rows_out:,} kept",
    ]
    if scan.index_rows is not None:
        of = f" of {'; '.join(scan.indexes)}" if scan.indexes else ""
        lines.append(f"  index    left {scan.index_rows:,} rows{of}")
    if scan.predicate:
        lines.append(f"  filter   {scan.predicate}")
    for name, count in sorted(scan.values.items()):
        lines.append(f"  column   {name}: {count:,} values, {scan.bytes[name]:,} bytes")
        if name in scan.split:
            lines[-1] += f"; {scan.split[name]:,} chunks lie in two ranges"
        if name in scan.notes:
            lines.append(f"  note     {name}: {scan.notes[name]}")
    return "\n".join(lines)
