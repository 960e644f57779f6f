"""Columns for the entries of matrices that a query names, such as the genes of ``X['FOXP3']``.

The steps:

1. Find what is subscripted, and the tables of the query (`references_in`, `selects_of`).
2. Look for a matrix of that name over the axis of each table, whose other axis has the entry.
3. Write the query with a quoted name, ``"X['FOXP3']"``, and with wildcards that leave it out.

While the query is planned, the catalog hands out tables with these columns.  To the engine they are
columns like any other, so their filters are evaluated by the scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._entry_references import (
    EntryReference,
    column_name,
    edited,
    malformed,
    references_in,
)
from daf_query.sql._from_items import FromItem, Select, is_exposing, items_called, selects_of
from daf_query.sql._names import quoted_name
from daf_query.sql._planning import EntryRewriting
from daf_query.sql._residual_filters import TableName
from daf_query.sql._tokens import tokens_of
from daf_query.sql._wildcards import wildcard_edits
from daf_query.table import MatrixEntry, check_column_names, entry_not_found, find_entry
from daf_storage import DafError, errors


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that a query can name."""

    schemas: Mapping[str, AxisSchema]
    default: str
    """The schema of tables that are named without one."""
    views: frozenset[str] = frozenset()
    """The names of views that hand on entries of matrices."""

    def find(self, item: FromItem) -> TableName | None:
        """Return the axis that a FROM names; None if it names something else."""
        if not item.is_table or not item.parts:
            return None
        schema = item.parts[-2] if len(item.parts) > 1 else self.default
        tables, axis = self.schemas.get(schema), item.parts[-1]
        if tables is None or tables.has_added(axis) or axis not in tables.axes_set():
            return None
        return schema, axis


def rewritten(query: str, tables: Tables) -> EntryRewriting:
    """Return a query with a column for each entry of a matrix that it names.

    Raises
    ------
    QueryError
        An entry is written wrongly, several matrices have the name, or a wildcard cannot leave the
        columns out.
    EntryNotFoundError
        No axis has the entry.
    """
    if "[" not in query:
        return EntryRewriting(query)
    tokens = tuple(tokens_of(query))
    references = list(references_in(query, tokens))
    if not references:
        return EntryRewriting(query)
    exposing = {reference.start for reference in references}
    selects = selects_of(tokens, query, exposing, tables.views)
    resolver = _Resolver(tables, selects)
    is_provided = [resolver.is_provided(reference) for reference in references]
    named = [
        reference
        for reference, is_column in zip(references, is_provided, strict=True)
        if is_column or resolver.is_exposed(reference)
    ]
    edits = [(each.start, each.stop, quoted_name(each.column)) for each in named]
    query = edited(query, edits)
    has_wildcard = any(select.stars or select.is_natural for select in selects)
    if has_wildcard and resolver.columns:
        query = _without_in_wildcards(query, {each.column for each in named}, resolver, tables)
    return EntryRewriting(query, resolver.columns)


def exposing_views(views: Mapping[TableName, str]) -> frozenset[str]:
    """Return the names of views that hand on entries of matrices, or may do so."""
    exposing: set[str] = set()
    for (_, name), sql in views.items():  # a view may name others, but none that came after it
        is_naming = any(other in sql for other in exposing)
        if "[" in sql or is_naming:
            tokens = tuple(tokens_of(sql))
            starts = {reference.start for reference in references_in(sql, tokens)}
            if is_naming or is_exposing(tokens, sql, starts):
                exposing.add(name)
    return frozenset(exposing)


def _without_in_wildcards(
    query: str, names: AbstractSet[str], resolver: _Resolver, tables: Tables
) -> str:
    """Return a query in which no wildcard has the columns of some names."""
    tokens = tuple(tokens_of(query))
    quoted = {quoted_name(name) for name in names}
    exposing = {token.start for token in tokens if token.text in quoted}

    def columns_of(item: FromItem) -> Sequence[str]:
        table = tables.find(item)
        return () if table is None else list(resolver.columns.get(table, ()))

    selects = selects_of(tokens, query, exposing, tables.views)
    return edited(query, list(wildcard_edits(selects, columns_of)))


class _Resolver:
    """Finds the matrices that the references of one query mean."""

    def __init__(self, tables: Tables, selects: Sequence[Select]) -> None:
        self._tables = tables
        self._items = [item for select in selects for item in select.items]
        self._has_views = any(
            item.parts[-1:] and item.parts[-1] in tables.views for item in self._items
        )
        self.columns: dict[TableName, dict[str, MatrixEntry]] = {}
        """The columns that each table gets."""

    def is_provided(self, reference: EntryReference) -> bool:
        """Return whether a reference is a column of tables, which get it."""
        qualified = items_called(self._items, reference.qualifier)
        tables = dict.fromkeys(map(self._tables.find, qualified))
        problems: list[DafError] = []
        is_provided = False
        for table in tables:
            try:
                is_provided |= table is not None and self._provide(table, reference)
            except DafError as error:
                problems.append(error)
        if problems and not is_provided and not any(item.exposes for item in qualified):
            raise problems[0]
        return is_provided

    def is_exposed(self, reference: EntryReference) -> bool:
        """Return whether a reference is a column that a subquery or a view may hand on.

        Other columns of subqueries may be subscripted, too: structs.
        """
        qualified = items_called(self._items, reference.qualifier)
        if not qualified:
            self._check_qualifier(reference)
        if reference.entry is None or not any(item.exposes for item in qualified):
            return False
        return self._has_views or any(
            _matrices(self._tables.schemas[table[0]], table[1], reference.name)
            for table in self._axes()
        )

    def _axes(self) -> list[TableName]:
        """Return the axes that the query reads from."""
        tables = dict.fromkeys(map(self._tables.find, self._items))
        return [table for table in tables if table is not None]

    def _check_qualifier(self, reference: EntryReference) -> None:
        """Raise if a reference is qualified by the other axis, or by a table that is not there."""
        if not reference.qualifier:
            return
        name = f"{reference.qualifier[-1]}.{reference.name}"
        for table in self._axes():
            if _matrices(self._tables.schemas[table[0]], table[1], name):
                if reference.entry is None:
                    raise malformed(reference, name)
                raise errors.QueryError(
                    f"{name}[{reference.subscript}] needs one name for the axis and the matrix; "
                    f"write {quoted_name(name)}[{reference.subscript}]"
                )
        if not all(item.is_table for item in self._items):
            return  # a struct of a subquery may have a field of that name
        for item in self._items:
            axis = self._tables.find(item)
            if axis and _matrices(self._tables.schemas[axis[0]], axis[1], reference.name):
                written = f"{_as_written(reference.name)}[{reference.subscript}]"
                raise errors.QueryError(
                    f"no table of the query is called {'.'.join(reference.qualifier)}; write "
                    f"{item.qualifier}.{written}"
                )

    def _provide(self, table: TableName, reference: EntryReference) -> bool:
        """Return whether a table provides a column, which it gets then.

        Raises
        ------
        QueryError, EntryNotFoundError
            It has such a matrix, but the reference does not name one of its entries.
        """
        schema, axis = self._tables.schemas[table[0]], table[1]
        known = schema.dataset(axis).table_columns.columns
        if reference.column in known:
            return True
        matrices = _matrices(schema, axis, reference.name)
        if not matrices:
            return False
        shown = reference.subscript
        dotted = [quoted_name(f"{other}.{name}") for other, name in matrices]
        choices = " or ".join(f"{name}[{shown}]" for name in dotted)
        if reference.name in known:
            raise errors.QueryError(
                f"{schema.location}: {reference.name} is a vector of axis {axis!r}, so it has no "
                f"entries; the matrix of that name is {choices}"
            )
        if len(matrices) > 1:
            raise errors.QueryError(
                f"{schema.location}: axis {axis!r} has {len(matrices)} matrices "
                f"{reference.name!r}; write {choices}"
            )
        other, name = matrices[0]
        if reference.entry is None:
            raise malformed(reference, reference.name)
        check_entry(schema, other, reference.entry, axis)
        remedy = f"FROM matrix('{axis}', '{other}', '{name}') AS m WHERE m.{other} = $entry"
        check_column_names([reference.column], "a query", remedy)
        entry = MatrixEntry(other, name, reference.entry)
        self.columns.setdefault(table, {})[reference.column] = entry
        return True


def check_entry(schema: AxisSchema, axis: str, entry: str, asked: str) -> None:
    """Raise unless some data set has an entry of an axis; ``asked`` is that of the table.

    Raises
    ------
    EntryNotFoundError
        None has.
    """
    having = [pair for pair in schema.data_sets() if {axis, asked} <= pair[0].axes_set()]
    if any(find_entry(daf, axis, entry, cache) is not None for daf, cache in having):
        return
    daf, cache = having[0]
    error = entry_not_found(daf, axis, entry, cache)
    if any(find_entry(each, asked, entry, own) is not None for each, own in having):
        hint = f"it is one of axis {asked!r} itself: ask the table {axis!r} for it"
        error = errors.with_message(error, f"{error}; {hint}")
    raise error


def _matrices(schema: AxisSchema, axis: str, name: str) -> list[tuple[str, str]]:
    """Return the other axis and the name of each matrix over an axis that a name can mean.

    It is the name of a matrix, or that of the other axis, a dot, and the name.
    """
    having = [daf for daf, _ in schema.data_sets() if daf.has_axis(axis)]
    parts = name.split(".")
    splits = [(".".join(parts[:n]), ".".join(parts[n:])) for n in range(1, len(parts))]
    dotted = [
        (other, rest)
        for other, rest in splits
        if any(daf.has_axis(other) and daf.has_matrix(axis, other, rest) for daf in having)
    ]
    return dotted or [
        (other, name)
        for other in dict.fromkeys(other for daf in having for other in daf.matrix_axes(axis, name))
    ]


def unknown_entry_hint(name: str, tables: Sequence[tuple[AxisSchema, str]], query: str) -> str:
    """Return what to write for a column that is not there; empty if no matrix is meant.

    Parameters
    ----------
    tables
        The axes that the engine looked for it in.
    """
    if name.endswith("']") and "['" in name:
        return (
            "; a wildcard has no entries of matrices, so a subquery, a view or a WITH has to name "
            f"{name} in its own SELECT"
        )
    for schema, axis in tables:
        matrices = _matrices(schema, axis, name)
        if matrices:
            other, matrix = matrices[0]
            return _example(schema, other, f"{other}.{matrix}" if len(matrices) > 1 else name)
    for reference in references_in(query, tuple(tokens_of(query))):
        written = reference.entry or ""
        if reference.name == name and any(
            written in schema.dataset(axis).table_columns.columns for schema, axis in tables
        ):
            column = written if written.isidentifier() else quoted_name(written)
            return f"; {written!r} is a column itself: write {column}"
    if f"{name}[" in query or f"{quoted_name(name)}[" in query:
        if not tables:
            return "; this is not the table of an axis, and only an axis has matrices"
        known = sorted({each for schema, axis in tables for each in _over(schema, axis, name)})
        has = errors.known_names(known, none="none")
        return f"; the matrices over this axis are {has}{errors.nearest(name, known)}"
    return ""


def _over(schema: AxisSchema, axis: str, asked: str) -> Iterator[str]:
    """Yield the names of the matrices over an axis, with a dot if what was asked for has one."""
    for daf, _ in schema.data_sets():
        if daf.has_axis(axis):
            for other in daf.axes_set():
                for name in daf.matrices_set(axis, other):
                    yield f"{other}.{name}" if "." in asked else name


def _example(schema: AxisSchema, other: str, name: str) -> str:
    """Return how to name an entry of a matrix, with the first one."""
    daf = next(daf for daf, _ in schema.data_sets() if daf.has_axis(other))
    written = _as_written(name)
    entry = str(daf.axis_entries(other, [0])[0]) if daf.axis_length(other) else "..."
    return (
        f"; it is a matrix over {other!r}, so name an entry of that axis, as in "
        f"{column_name(written, entry)}"
    )


def _as_written(name: str) -> str:
    return name if name.isidentifier() else quoted_name(name)
