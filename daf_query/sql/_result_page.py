"""HTML that notebooks show of a result: the first rows, and what the columns look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from daf_storage.display import (
    Markup,
    Preview,
    html_element,
    html_page,
    html_table,
    joined_html,
    preview_chart,
    preview_of,
    shortened,
    shown_values,
)

LOOKED_AT_ROWS: Final = 1000
"""Of how many rows the charts are."""

SHOWN_ROWS: Final = 10
"""How many rows are shown."""

_SHOWN_COLUMNS: Final = 30


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
    kind = html_element("div", shortened(_type_name(field.type), 24), class_="note")
    side = "number" if preview.least is not None else "text"
    return html_element("th", name, kind, preview_chart(preview), class_=side)


def _type_name(kind: pa.DataType) -> str:
    return str(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _cell(value: Any) -> Markup:
    if value is None:
        return html_element("td", "NULL", class_="note")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return html_element("td", shortened(value))
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return html_element("td", text, class_="number")


def _notes(rows: pa.Table, total: int | None, *, is_all: bool) -> Markup:
    shown = min(rows.num_rows, SHOWN_ROWS)
    known = rows.num_rows if total is None else total
    plural = "s" * (known != 1)
    if is_all and shown == known:
        parts: Sequence[str] = [f"{known:,} row{plural}"]
    elif total is None and not is_all:
        parts = [
            f"the first {shown:,} of more than {LOOKED_AT_ROWS:,} rows",
            f"charts are of the first {LOOKED_AT_ROWS:,}",
        ]
    else:
        parts = [f"the first {shown:,} of {known:,} row{plural}"]
        parts += [] if is_all else [f"charts are of the first {LOOKED_AT_ROWS:,}"]
    hidden = rows.num_columns - _SHOWN_COLUMNS
    if hidden > 0:
        parts = [*parts, f"{hidden:,} more columns"]
    return joined_html(["; ".join(parts)])
