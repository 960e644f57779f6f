"""HTML that notebooks show of a session: its data sets and its tables."""

from __future__ import annotations

from typing import Final

from daf_query.sql import AxisSchema, Connections
from daf_storage.data import data_set_section
from daf_storage.display import (
    Markup,
    PreviewBudget,
    html_details,
    html_element,
    html_page,
    html_table,
    joined_html,
    shortened,
)

_MEMBERS: Final = 20


def session_page(connections: Connections) -> Markup:
    """Return the page of a session; the budget of previews is that of all data sets together."""
    budget = PreviewBudget()
    readers = connections.readers()
    parts = []
    for place, (name, schema) in enumerate(connections.schemas.items()):
        heading = html_element("strong", shortened(name))
        if schema.is_collection:
            parts.append(html_details(heading, _collection(schema)))
        else:
            daf = readers[name]
            section = data_set_section(daf.summary(), daf, budget)
            parts.append(html_details(heading, section, is_open=place == 0))
    others = sorted({*connections.shared, *connections.user_tables})
    if others:
        names = ", ".join(map(shortened, others))
        parts.append(html_element("div", f"tables: {names}"))
    return html_page(*parts)


def _collection(schema: AxisSchema) -> Markup:
    """Return the data sets of a collection, and the lengths of their axes; reads metadata only."""
    readers = schema.readers()
    axes = sorted(schema.axes_set(), key=lambda axis: (-schema.axis_length(axis), axis))
    totals = ("together", *(f"{schema.axis_length(axis):,}" for axis in axes))
    rows: list[tuple[str, ...]] = [totals]
    for name, daf in list(readers.items())[:_MEMBERS]:
        lengths = (f"{daf.axis_length(axis):,}" if daf.has_axis(axis) else "" for axis in axes)
        rows.append((shortened(name), *lengths))
    more = len(readers) - _MEMBERS
    note = html_element("div", f"{more:,} more data sets", class_="note") if more > 0 else ""
    return joined_html(
        (
            html_element("div", f"{len(readers):,} data sets as one: {schema.location}"),
            html_table(("data set", *map(shortened, axes)), rows),
            note,
        )
    )
