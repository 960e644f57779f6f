"""The face of a query: its first rows, its plan, and the report of its execution."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from daf_query.scan import ScanReport
from daf_storage.display import (
    Markup,
    Preview,
    html_element,
    html_page,
    html_table,
    joined_html,
    preview_of,
    shortened,
    shown_values,
)


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
        if name in scan.notes:
            lines.append(f"  note     {name}: {scan.notes[name]}")
    return "\n".join(lines)


LOOKED_AT_ROWS: Final = 1000
"""Of how many rows the charts are."""

SHOWN_ROWS: Final = 10
"""How many rows are shown."""

_SHOWN_COLUMNS: Final = 30

PLAN_COLUMNS: Final = ["plan_type", "plan"]
"""The columns of the answer to EXPLAIN."""


def plan_page(plan: pa.Table) -> Markup:
    """Return the page of the answer to EXPLAIN."""
    parts = (f"{each['plan_type']}:\n{each['plan']}" for each in plan.to_pylist())
    return html_page(html_element("pre", "\n".join(parts)))


def error_page(sentence: str) -> Markup:
    """Return what is shown where there should be rows."""
    return html_page(html_element("pre", sentence))


def rows_page(rows: pa.Table, total: int | None = None, *, title: str = "") -> Markup:
    """Return the page of a result.

    Parameters
    ----------
    rows
        Its first rows: one more than are looked at, if there are as many.
    total
        How many there are, if that is known.
    title
        What they are.
    """
    looked_at = rows.slice(0, LOOKED_AT_ROWS)
    is_all = rows.num_rows <= LOOKED_AT_ROWS and total in (None, rows.num_rows)
    columns = [looked_at.column(place) for place in range(min(rows.num_columns, _SHOWN_COLUMNS))]
    fields = [rows.schema.field(place) for place in range(len(columns))]
    previews = [preview_of(column, total=len(column)) for column in columns]
    charts = [_header(each, preview) for each, preview in zip(fields, previews, strict=True)]
    shown = looked_at.slice(0, SHOWN_ROWS)
    cells = [shown_values(shown.column(place)) for place in range(len(columns))]
    body = [[_cell(value) for value in row] for row in zip(*cells, strict=True)]
    notes = _notes(rows, total, is_all=is_all)
    heading = [html_element("div", html_element("strong", title))] if title else []
    return html_page(*heading, html_table(charts, body), html_element("div", notes, class_="note"))


def _header(field: pa.Field, preview: Preview) -> Markup:
    name = html_element("div", shortened(field.name))
    data_type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    kind = html_element("div", shortened(str(data_type), 24), class_="note")
    side = "text" if preview.bins is None else "number"
    chart = html_element("span", preview.chart, title=preview.figures)
    return html_element("th", name, kind, chart, class_=side)


def _cell(value: Any) -> Markup:
    if value is None:
        return html_element("td", "NULL", class_="note")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return html_element("td", shortened(value))
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return html_element("td", text, class_="number")


def _notes(rows: pa.Table, total: int | None, *, is_all: bool) -> Markup:
    shown = min(rows.num_rows, SHOWN_ROWS)
    row_count = rows.num_rows if total is None else total
    of = f"{row_count:,}" if is_all or total is not None else f"more than {LOOKED_AT_ROWS:,}"
    which = "" if is_all and shown == row_count else f"the first {shown:,} of "
    parts = [f"{which}{of} row{'s' * (row_count != 1)}"]
    parts += [] if is_all else [f"charts are of the first {LOOKED_AT_ROWS:,}"]
    hidden = rows.num_columns - _SHOWN_COLUMNS
    parts += [f"{hidden:,} more columns"] if hidden > 0 else []
    return joined_html(["; ".join(parts)])
