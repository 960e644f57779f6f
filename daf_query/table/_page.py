"""HTML that notebooks show of a table: its columns, and of an axis some of the values."""

from __future__ import annotations

from daf_query.table._table_columns import TableColumns
from daf_storage import DafReader, errors
from daf_storage.spi import (
    Markup,
    PreviewBudget,
    axis_section,
    html_element,
    html_page,
    html_table,
    shortened,
)


def table_page(columns: TableColumns, location: str, *, is_filtered: bool) -> Markup:
    """Return the page of a table whose values are not looked at."""
    cells = [(shortened(each.name), str(each.type)) for each in columns.schema]
    return html_page(
        _heading(columns, location, is_filtered=is_filtered),
        html_table(("column", "type"), cells),
    )


def axis_page(daf: DafReader, columns: TableColumns, *, is_filtered: bool) -> Markup:
    """Return the page of the table of an axis, with previews of its vectors.

    What cannot be read, such as a data set that was closed, is said in their place.
    """
    heading = _heading(columns, daf.location, is_filtered=is_filtered)
    try:
        return html_page(heading, *_previews(daf, columns))
    except errors.DafError as error:
        note = f"cannot be read: {shortened(error, 160)}"
        return html_page(heading, html_element("div", note, class_="note"))


def _previews(daf: DafReader, columns: TableColumns) -> tuple[Markup, Markup]:
    summary = next((axis for axis in daf.summary().axes if axis.name == columns.table), None)
    if summary is None:
        raise errors.axis_not_found(daf.location, columns.table, daf.axes_set())
    names = {vector.name for vector in summary.vectors}
    others = ", ".join(shortened(name) for name in columns.columns if name not in names)
    return (
        axis_section(summary, daf, PreviewBudget()),
        html_element("div", f"also columns: {others}", class_="note"),
    )


def _heading(columns: TableColumns, location: str, *, is_filtered: bool) -> Markup:
    strong = html_element("strong", shortened(columns.table))
    which = " before its filter" if is_filtered else ""
    return html_element("div", strong, f": {columns.length:,} rows{which}, of {location}")
