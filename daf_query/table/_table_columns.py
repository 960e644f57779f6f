"""The columns of a table, warnings of those that it lacks, and what notebooks show of it."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa

from daf_query.index import StoredIndexes
from daf_query.scan import INDEX, NAME, Column, FindPointIndexes, VectorColumn
from daf_query.table._broken_columns import BrokenColumns
from daf_query.table._columns import (
    Categoricals,
    TableColumn,
    categorical_columns,
    recorded_columns,
    vector_of,
)
from daf_storage import DafError, DafReader, VectorInfo, errors
from daf_storage.anndata import recorded_types
from daf_storage.base import StorageType
from daf_storage.data import axis_section
from daf_storage.display import (
    Markup,
    PreviewBudget,
    html_element,
    html_page,
    html_table,
    shortened,
)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table at one moment, and why some of the data are none."""

    table: str
    """The name of the table: an axis."""
    length: int
    """Number of rows."""
    columns: Mapping[str, Column]
    """By name; of an axis ``name``, ``index``, then the vectors in alphabetical order."""
    problems: Mapping[str, str]
    """What cannot be read, and why."""
    point_indexes: FindPointIndexes = lambda *_: ()
    """Returns the indexes over two of some columns."""
    broken: BrokenColumns = field(default_factory=BrokenColumns)
    """The columns that turned out to be unreadable since."""

    def readable(self) -> TableColumns:
        """Return the same without columns that turned out to be unreadable."""
        noted = self.broken.noted()
        if not noted:
            return self
        problems = {name: reason for name, reason in noted.items() if reason is not None}
        columns = {
            name: replace(column, recorded=None)
            if name in noted and isinstance(column, TableColumn)
            else column
            for name, column in self.columns.items()
            if name not in problems
        }
        return replace(self, columns=columns, problems={**self.problems, **problems})

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema; engines ask for it several times per query."""
        return pa.schema([column.field for column in self.columns.values()])


def signature_of(columns: TableColumns) -> Hashable | None:
    """Return what tables of the same schema have in common, all of whose columns are vectors.

    ``None`` if one of the columns is none: the table has to be looked at by itself.
    """
    parts: list[Hashable] = []
    for name, column in columns.columns.items():
        vector = vector_of(column)
        if vector is None:
            return None
        parts.append((name, vector.info.storage_type, vector.info.empty_is_missing))
    return tuple(parts)


class UnreadableVectorWarning(errors.DafWarning):
    """A vector cannot be read, so a table lacks its column."""


def warn_once(text: str, warned: set[str]) -> None:
    """Warn of something that cannot be read, unless ``warned`` has the text."""
    if text not in warned:
        warned.add(text)
        warnings.warn(text, UnreadableVectorWarning, stacklevel=4)


def warn_of_problems(columns: TableColumns, warned: set[str]) -> None:
    """Warn once of each column that a table lacks, with the reason."""
    for name, problem in columns.problems.items():
        warn_once(f"the table {columns.table!r} lacks the column {name!r}: {problem}", warned)


def broken_columns(daf: DafReader, axis: str) -> BrokenColumns:
    """Return the record of the columns of an axis that turn out to be unreadable."""
    return BrokenColumns(partial(daf.vector_identity, axis))


def axis_columns(
    daf: DafReader,
    axis: str,
    broken: BrokenColumns | None = None,
    categoricals: Categoricals = "string",
    *,
    among: frozenset[str] | None = None,
) -> TableColumns:
    """Return the columns of an axis; reads metadata and sizes of files only.

    Parameters
    ----------
    among
        The only names of vectors whose metadata are read; by default those of all.
    """
    length = daf.axis_length(axis)
    columns: dict[str, Column] = {}
    problems = {}
    indexes = StoredIndexes(daf, axis)
    for name, kind in ((NAME, StorageType.STRING), (INDEX, StorageType.INT64)):
        # `vector_info` says the same, and looks at the axis for each.
        info = VectorInfo(axis, name, kind, length, is_sparse=False, chunk_rows=max(length, 1))
        columns[name] = VectorColumn(daf, info, indexes)
    for name, found in daf.open_vectors(axis, length=length, among=among):
        if isinstance(found, DafError):
            problems[name] = str(found)
        else:
            columns[name] = VectorColumn(daf, found.info, indexes)
    broken = broken or broken_columns(daf, axis)
    recorded = recorded_types(daf, axis, among)
    guarded: dict[str, Column] = {
        name: TableColumn(column, broken) for name, column in columns.items()
    }
    guarded = recorded_columns(guarded, recorded, daf, axis, broken)
    if categoricals == "dictionary":
        guarded = categorical_columns(guarded, recorded)
    return TableColumns(axis, length, guarded, problems, indexes.points, broken)


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
