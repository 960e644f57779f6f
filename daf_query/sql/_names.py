"""Names in queries: entries of matrices, which become columns; and what is not there.

An entry, such as a gene in ``X['FOXP3']``, becomes a quoted name, ``"X['FOXP3']"``, where a table
of its scope has such a matrix, or a subquery hands such a column on; wildcards leave it out.  While
the query is planned, the catalog hands out tables with these columns.  To the engine they are
columns like any other, so their filters are evaluated by the scan.

Errors of tables and columns that are not there say what there is instead, and what was meant.  They
must not cost more than they are worth: entries are compared where they are decoded already, or few;
nothing is built of them.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query.scan import NAME
from daf_query.sql._connections import PUBLIC, AxisSchema, Connections, Tables
from daf_query.sql._planning import CATALOG, MatrixEntries, TableName
from daf_query.syntax import (
    Edit,
    Node,
    Scope,
    Source,
    Statement,
    column_name,
    edited,
    identifiers_of,
    item_of,
    joined_names,
    kind_of,
    name_of_column,
    parsed,
    plain_name,
    quoted_name,
    quoted_string,
    string_of,
    subscript_of,
    unquoted_name,
    values_of,
    walk,
)
from daf_query.table import (
    DATASET,
    MatrixEntry,
    check_column_names,
    entry_not_found,
    find_entry,
    spelled_entry,
    table_format,
)
from daf_storage import DafError, DafReader, errors

Rule: TypeAlias = Callable[[Statement], Iterable[Edit]]
"""Yields what is changed in a statement."""


@dataclass(frozen=True, slots=True)
class EntryReference:
    """One place of a query where something is subscripted."""

    scope: Scope
    qualifier: tuple[str, ...]
    """The parts of its qualifier, without quotes."""
    name: str
    """What is subscripted, without quotes: a matrix, perhaps."""
    entry: str | None
    """The entry; None if what is in the brackets is no string."""
    start: int
    """Where the name begins, after its qualifier."""
    stop: int
    """Where the brackets end."""
    subscript: str
    """What is in the brackets, as it is written."""

    @property
    def column(self) -> str:
        """The name of the column that stands for it."""
        return column_name(self.name, self.entry or "")


def references_in(statement: Statement | None) -> Iterator[EntryReference]:
    """Yield what is subscripted in a statement; nothing of none.

    >>> query = '''SELECT c."my X" [ 'it''s' ] FROM cell AS c'''
    >>> [(r.name, r.entry, r.qualifier) for r in references_in(parsed(query))]
    [('my X', "it's", ('c',))]
    """
    if statement is None:
        return
    for scope, node in statement.nodes:
        subscript = subscript_of(node)
        if subscript is not None and scope is not None:
            (*qualifier, name), inside = subscript
            pair = statement.brackets_after(name)
            yield EntryReference(
                scope,
                values_of(qualifier),
                name["value"],
                string_of(inside),
                statement.span(name)[0],
                pair.closing + 1,
                statement.text[pair.opening + 1 : pair.closing].strip(),
            )


def with_entries(
    query: str, tables: Tables, rules: Sequence[Rule] = ()
) -> tuple[str, MatrixEntries]:
    """Return a query with a column for each entry of a matrix that it names, and these columns.

    Parameters
    ----------
    rules
        What else is changed.

    Raises
    ------
    QueryError
        An entry is written wrongly, several matrices have the name, or a wildcard cannot leave the
        columns out.
    EntryNotFoundError
        No axis has the entry.
    """
    statement = parsed(query)
    if statement is None:  # the engine says what is wrong
        return query, {}
    rule = _Rule(statement, tables)
    edits = [edit for each in rules for edit in each(statement)]
    edits += [*rule.entries(), *rule.wildcards()]
    return edited(query, edits), rule.columns


class _Rule:
    """Finds the matrices that the references of one query mean."""

    def __init__(self, statement: Statement, tables: Tables) -> None:
        self._statement = statement
        self._tables = tables
        self._given = {
            reference.column
            for view in tables.views.values()
            for reference in references_in(parsed(view))
        }
        """The columns for entries that views, and subqueries that were read, may hand on."""
        self.columns: dict[TableName, dict[str, MatrixEntry]] = {}
        """The columns that each table gets."""

    def entries(self) -> list[Edit]:
        """Return what to write for the entries; finds the columns of the tables."""
        named = filter(self._is_column, references_in(self._statement))
        return [Edit(each.start, each.stop, quoted_name(each.column)) for each in named]

    def _is_column(self, reference: EntryReference) -> bool:
        """Return whether a reference is a column of a table, which gets it, or of a subquery."""
        is_known = False
        for scope in reference.scope.chain():
            sources = scope.called(reference.qualifier)
            is_known |= bool(sources)
            is_column = reference.column in self._given and any(
                self._tables.is_query(source) for source in sources
            )
            problems: list[DafError] = []
            for table in dict.fromkeys(map(self._tables.find, sources)):
                try:
                    is_column |= table is not None and self._provide(*table, reference)
                except DafError as error:
                    problems.append(error)
            if is_column:
                self._given.add(reference.column)
                return True
            if problems:
                raise problems[0]
        if not is_known:
            self._check_dotted(reference)
        return False

    def _check_dotted(self, reference: EntryReference) -> None:
        """Raise if what qualifies a reference is no table, but the other axis of a matrix."""
        name = ".".join((*reference.qualifier[-1:], reference.name))
        sources = (source for each in reference.scope.chain() for source in each.sources)
        for table in map(self._tables.find, sources):
            if table is not None and _matrices(*table, name):
                if reference.entry is None:
                    raise _malformed(reference, name)
                raise errors.QueryError(
                    f"{name}[{reference.subscript}] needs one name for the axis and the matrix; "
                    f"write {quoted_name(name)}[{reference.subscript}]"
                )

    def _provide(self, schema: AxisSchema, axis: str, reference: EntryReference) -> bool:
        """Return whether a table provides a column, which it gets then.

        Raises
        ------
        QueryError, EntryNotFoundError
            It has such a matrix, but the reference does not name one of its entries.
        """
        available = schema.dataset(axis).table_columns.columns
        if reference.column in available:
            return True
        matrices = _matrices(schema, axis, reference.name)
        if not matrices:
            return False
        shown = reference.subscript
        dotted = [quoted_name(f"{other}.{name}") for other, name in matrices]
        choices = " or ".join(f"{name}[{shown}]" for name in dotted)
        if reference.name in available:
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
            raise _malformed(reference, reference.name)
        _check_entry(schema, other, reference.entry, axis)
        remedy = f"FROM matrix('{axis}', '{other}', '{name}') AS m WHERE m.{other} = $entry"
        check_column_names([reference.column], "a query", remedy)
        entry = MatrixEntry(other, name, reference.entry)
        self.columns.setdefault((schema.name, axis), {})[reference.column] = entry
        return True

    def wildcards(self) -> Iterator[Edit]:
        """Yield what to change, so that no wildcard has the columns that tables got.

        The engine refuses to leave out a column that is not there, or that two tables have; so the
        sources of each SELECT decide how it is written.  FROM alone, which means all columns, the
        engine takes for none.

        Raises
        ------
        QueryError
            A NATURAL JOIN would compare them.
        """
        for scope in self._statement.scopes:
            got = self._got(scope.sources)
            if scope.is_natural and len(set(got)) < len(got):
                raise errors.QueryError(
                    f"NATURAL JOIN would compare {got[0]} of both tables as well; write JOIN ... "
                    "USING (...) with the columns that you mean"
                )
            if scope.select["flavor"] == "FromFirstNoSelect":
                start, _ = self._statement.span(scope.select["select_token"])
                yield Edit(start, start, f"SELECT *{_exclude(got)} ")
            for item in scope.select["projection"]:
                if "Wildcard" in item:
                    yield from self._unqualified(item["Wildcard"], scope)
                elif "QualifiedWildcard" in item:
                    names = self._got(scope.called(_qualifier_of(item))[:1])
                    yield from self._excluding(item["QualifiedWildcard"][1], names)

    def _got(self, sources: Sequence[Source]) -> list[str]:
        """Return the columns that sources got."""
        found = filter(None, map(self._tables.find, sources))
        return [name for on, axis in found for name in self.columns.get((on.name, axis), ())]

    def _unqualified(self, star: Node, scope: Scope) -> Iterator[Edit]:
        shown = [source for source in scope.sources if not source.is_hidden]
        is_changed = any(value for key, value in star.items() if key.startswith("opt_"))
        is_plain = all(source.name for source in shown) and not (scope.is_merged or is_changed)
        if is_plain and self._got(shown):  # a table has what another hands on
            stars = [
                f"{'.'.join(map(quoted_name, source.written))}.*{_exclude(self._got([source]))}"
                for source in shown
            ]
            yield Edit(*self._statement.span(star["wildcard_token"]), ", ".join(stars))
        else:
            yield from self._excluding(star, list(dict.fromkeys(self._got(shown))))

    def _excluding(self, star: Node, names: Sequence[str]) -> Iterator[Edit]:
        """Yield what to change, so that a wildcard leaves out some more columns."""
        listed = star["opt_exclude"] or star["opt_except"]
        given = [each for each in walk(listed) if "quote_style" in each]
        excluded = [each["value"] for each in given]
        left = [name for name in names if name not in excluded]
        if not left:
            return
        _, stop = self._statement.span(star["wildcard_token"])
        if not listed:
            yield Edit(stop, stop, _exclude(left))
            return
        quoted = ", ".join(map(quoted_name, [*left, *excluded]))
        in_brackets = f"({quoted})" if kind_of(listed) == "Single" else quoted
        yield Edit(*self._statement.span(given), in_brackets)


def _qualifier_of(item: Node) -> tuple[str, ...]:
    """Return the qualifier of a wildcard, in parts; none of one without, or of an expression."""
    if "QualifiedWildcard" not in item:
        return ()
    return values_of(item["QualifiedWildcard"][0].get("ObjectName", []))


def _exclude(names: Sequence[str]) -> str:
    return f" EXCLUDE ({', '.join(map(quoted_name, names))})" if names else ""


def _malformed(reference: EntryReference, matrix: str) -> errors.QueryError:
    """Return an error that says how an entry of a matrix is written."""
    inside = reference.subscript
    shown = plain_name(matrix)
    if inside.startswith('"') and inside.endswith('"') and len(inside) > 1:
        written = f"{shown}[{quoted_string(unquoted_name(inside))}]"
        remedy = f"double quotes are for names, so write {written}"
    else:
        remedy = (
            f"the entry is a string, as in {shown}['name'], or a parameter with a string, "
            f"as in {shown}[$entry]"
        )
    return errors.QueryError(f"{shown}[{inside}] names no entry of the matrix {matrix!r}: {remedy}")


def _check_entry(schema: AxisSchema, axis: str, entry: str, requested: str) -> None:
    """Raise unless some data set has an entry of an axis; ``requested`` is that of the table.

    Raises
    ------
    EntryNotFoundError
        None has.
    """
    having = [each for each in schema.members.values() if {axis, requested} <= each.daf.axes_set()]

    def has_entry(axis: str) -> bool:
        return any(find_entry(each.daf, axis, entry, each.cache) is not None for each in having)

    if has_entry(axis):
        return
    error = entry_not_found(having[0].daf, axis, entry, having[0].cache)
    if has_entry(requested):
        hint = f"it is one of axis {requested!r} itself: ask the table {axis!r} for it"
        error = errors.with_message(error, f"{error}; {hint}")
    raise error


def _matrices(schema: AxisSchema, axis: str, name: str) -> list[tuple[str, str]]:
    """Return the other axis and the name of each matrix over an axis that a name can mean.

    It is the name of a matrix, or that of the other axis, a dot, and the name.
    """
    having = schema.readers(axis).values()
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


def entry_columns(schema: AxisSchema, axis: str, written: str) -> dict[str, MatrixEntry]:
    """Return the columns that a list such as ``X['CD8A'], X['CD3E'] AS cd3e`` means.

    Raises
    ------
    QueryError
        It is no such list, or the axis has no such matrix.
    EntryNotFoundError
        No axis has the entry.
    """
    # Not an injection: it is parsed here, and never executed.
    query = f"SELECT {written} FROM {quoted_name(axis)}"  # noqa: S608 - of the query itself
    statement = parsed(query)
    scopes = statement.scopes if statement is not None else []
    is_list = [[source.name for source in scope.sources] for scope in scopes] == [[axis]]
    _, found = with_entries(query, Tables({schema.name: schema}, schema.name))
    columns: dict[str, MatrixEntry] = {}
    for item in scopes[0].select["projection"] if is_list else [{}]:
        node, given = item_of(item)
        subscript = subscript_of(node)
        if subscript is None:
            raise errors.QueryError(
                f"{written!r} is no entry of a matrix; write X['CD8A'], or X['CD8A'] AS cd8a, with "
                "commas between several"
            )
        matrix, column = subscript[0][-1]["value"], name_of_column(node) or ""
        entry = found.get((schema.name, axis), {}).get(column)
        if entry is None:
            hint = unknown_entry_hint(matrix, [(schema, axis)], statement)
            raise errors.MatrixNotFoundError(
                f"{schema.location}: {written!r} names no entry of a matrix over axis {axis!r}"
                f"{hint}"
            )
        name = given or column
        if name in columns:
            raise errors.QueryError(
                f"two of {written!r} would be called {name!r}; rename one with AS"
            )
        columns[name] = entry
    return columns


def unknown_entry_hint(
    name: str, tables: Sequence[tuple[AxisSchema, str]], statement: Statement | None
) -> str:
    """Return what to write for a column that is not there; empty if no matrix is meant.

    Parameters
    ----------
    tables
        The axes that the engine looked for it in.
    statement
        The query.
    """
    for schema, axis in tables:
        for other, matrix in _matrices(schema, axis, name):
            written = f"{other}.{matrix}" if len(_matrices(schema, axis, name)) > 1 else name
            daf = next(iter(schema.readers(other).values()))
            entry = str(daf.axis_entries(other, [0])[0]) if daf.axis_length(other) else "..."
            return (
                f"; it is a matrix over {other!r}, so name an entry of that axis, as in "
                f"{column_name(plain_name(written), entry)}"
            )
    for reference in references_in(statement):
        if name not in (reference.name, reference.column):
            continue
        entry = reference.entry or ""
        if any(entry in schema.dataset(axis).table_columns.columns for schema, axis in tables):
            return f"; {entry!r} is a column itself: write {plain_name(entry)}"
        sources = reference.scope.called(reference.qualifier)
        if any(source.query is not None for source in sources):
            return (
                "; a wildcard has no entries of matrices, so a subquery, a view or a WITH has to "
                f"name {reference.column} in its own SELECT"
            )
        if not tables:
            return "; this is not the table of an axis, and only an axis has matrices"
        available = {
            f"{other}.{each}" if "." in name else each
            for schema, axis in tables
            for daf in schema.readers(axis).values()
            for other in daf.axes_set()
            for each in daf.matrices_set(axis, other)
        }
        return f"; the matrices over this axis are {errors.choices(name, sorted(available))}"
    return ""


_VALID_FIELDS: Final = (
    re.compile(r"Valid fields are (?P<fields>.*)\.", re.DOTALL),
    re.compile(r"Did you mean '(?P<fields>.+?)'\?"),
)
_NAME_PART: Final = re.compile(r'"(?:[^"]|"")*"|[^",.\s]+')
_FIELD: Final = re.compile(rf"(?:{_NAME_PART.pattern})(?:\.(?:{_NAME_PART.pattern}))*")
_MOST_ENTRIES: Final = 1 << 20
"""How many entries of an axis are decoded for a hint; more, if they are decoded already."""
_MOST_FORMS: Final = 3
_BASE: Final = "base_daf_repository"
_BETWEEN: Final = " + "
"""What is between the locations of data sets that are on top of each other."""


@dataclass
class FailedQuery:
    """A query that failed, and what it could have named."""

    query: str
    tables: Tables
    connections: Connections
    text: str = ""
    """What the engine says."""

    @cached_property
    def statement(self) -> Statement:
        """The tree of the query; an empty one if it has none."""
        empty = Statement("", (), [])
        with suppress(errors.QueryError):
            return parsed(self.query) or empty
        return empty

    def nodes(self, *keys: str) -> Iterator[Node]:
        """Yield the nodes that have some keys."""
        return (node for _, node in self.statement.nodes if all(key in node for key in keys))

    def axes(self) -> list[tuple[AxisSchema, str]]:
        """Return the axes of all data sets."""
        schemas = self.tables.schemas.values()
        return [(each, axis) for each in schemas for axis in sorted(each.axes_set())]

    def columns(self, axes: Iterable[tuple[AxisSchema, str]]) -> list[str]:
        """Return the names of the columns of some axes; those of a broken one are left out."""
        names = ((schema.name, axis) for schema, axis in axes)
        return [column for name in names for column in self.connections.columns(name)]

    def columns_of(self, source: Source) -> dict[str, pa.DataType]:
        """Return the types of the columns of a table of a FROM; none of a subquery."""
        return self.connections.columns(self.tables.named(source))

    def type_of(self, scope: Scope | None, parts: Sequence[str]) -> pa.DataType | None:
        """Return the type of a column; None if it is of no table."""
        *qualifier, name = parts
        for each in scope.chain() if scope is not None else ():
            for columns in map(self.columns_of, each.called(qualifier)):
                if name in columns:
                    return columns[name]
        return None


def missing_table(failed: FailedQuery, match: re.Match[str]) -> DafError:
    """Return the error of a table that is not there."""
    schemas = failed.tables.schemas
    named = map(failed.tables.named, failed.statement.sources)
    by_text = {".".join((CATALOG, *each)): each for each in named}  # of which any may have dots
    written = match["table"]
    for each in schemas:  # without the quotes that its name needs
        if written.startswith(f"{each}."):
            by_text.setdefault(written, (each, written.removeprefix(f"{each}.")))
    schema, name = by_text.get(written, (PUBLIC, *written.split("."))[-2:])
    if schema not in {*schemas, PUBLIC}:
        has = errors.shown_names(schemas)
        is_file = table_format(f"{schema}.{name}") is not None
        hint = f"; a file is a table in quotes: FROM '{schema}.{name}'" if is_file else ""
        for each, tables in schemas.items() if not is_file else ():
            if tables.is_collection and schema in tables.readers() and tables.has_axis(name):
                table = ".".join(map(plain_name, [each, name][len(schemas) == 1 :]))
                where = f"WHERE {DATASET} = {quoted_string(schema)}"
                hint = f"; it is one of a collection: FROM {table} {where}"
        return errors.NotFoundError(f"no data set {schema!r} is connected; there are {has}{hint}")
    holders = [each for each, tables in schemas.items() if name in tables.table_names]
    for holder in holders if len(schemas) == 1 else {schema} & {*schemas}:
        try:
            schemas[holder].find(name)
        except DafError as error:  # it is there, and cannot be used
            return error
    if holders:
        where = " or ".join(f"{plain_name(holder)}.{plain_name(name)}" for holder in holders)
        return errors.AxisNotFoundError(
            f"there is no table {match['table']!r}: it needs the name of its data set; write "
            f"{where}"
        )
    available = {each for tables in schemas.values() for each in tables.table_names}
    source = ", ".join(tables.location for tables in schemas.values())
    has = errors.shown_names(failed.connections.table_names, none="no tables")
    return errors.AxisNotFoundError(
        f"{source}: there is no table {name!r}; there are {has}"
        f"{errors.nearest_axis(name, available)}{_base_hint(schemas.values())}"
        f"{unknown_entry_hint(name, failed.axes(), None)}"
    )


def missing_column(failed: FailedQuery, field: str) -> DafError:
    """Return the error of a column that no table of the query has.

    Parameters
    ----------
    field
        What the engine does not know, maybe qualified and quoted.
    """
    *qualifier, name = parts_of_name(field)
    if name == "None":
        return errors.QueryError("None is NULL: write x IS NULL, or x IS NOT NULL")
    listed = next(filter(None, (each.search(failed.text) for each in _VALID_FIELDS)), None)
    fields = [parts_of_name(each) for each in _FIELD.findall(listed["fields"] if listed else "")]
    valid = {each[-1] for each in fields}
    relations = {each[-2] for each in fields if len(each) > 1}
    named = [each for each in failed.statement.sources if each.name in relations]
    tables = [*dict.fromkeys(filter(None, map(failed.tables.find, named)))]
    columns = valid.union(failed.columns(tables))
    if qualifier and qualifier[-1] not in relations:
        table, dotted = ".".join(qualifier), ".".join((*qualifier, name))
        if dotted in columns:
            return errors.VectorNotFoundError(
                f"the query has no table {table!r}; the column is called {dotted!r}: quote its "
                f"name, as in {quoted_name(dotted)}"
            )
        if name in valid or unknown_entry_hint(name, tables, None):
            has = errors.shown_names(relations)
            return errors.VectorNotFoundError(
                f"{dotted} is a column of a table {table!r}, which the query does not have; it "
                f"has {has}: write {name}"
            )
    for dataset in map(failed.connections.find, map(failed.tables.named, named)):
        problem = None if dataset is None else dataset.table_columns.problems.get(name)
        if problem:
            return errors.UnsupportedDataError(problem)
    for tables_of, axis in tables:
        if entry := _entry_hint(name, failed.query, tables_of, axis):
            return errors.VectorNotFoundError(
                f"{tables_of.location}: axis {axis!r} has no vector {name!r}; {entry}"
            )
    return _absent_column(failed, name, valid, tables)


def _absent_column(
    failed: FailedQuery, name: str, valid: set[str], tables: list[tuple[AxisSchema, str]]
) -> DafError:
    """Return an error that no table of the query has a column, with what may have been meant."""
    available: Collection[str] = valid
    if len(tables) == 1:
        tables_of, axis = tables[0]
        available = tables_of.dataset(axis).schema.names
        error = errors.vector_not_found(tables_of.location, axis, name, available)
    else:
        has = errors.choices(name, valid, none="no columns")
        error = errors.VectorNotFoundError(f"the query has no column {name!r}; it has {has}")
    others = (each for each in failed.axes() if each not in tables)
    elsewhere = [each[1] for each in others if name in failed.columns([each])]
    hint = (
        unknown_entry_hint(name, tables, failed.statement)
        or _longer_hint(name, failed.query, failed.columns(tables))
        or "".join(_elsewhere_hint(axis, tables) for axis in elsewhere[:1])
        or _alias_hint(failed, name)
        or _string_hint(failed, name, is_near=errors.nearest(name, available) != "")
        or _base_hint(tables_of for tables_of, _ in tables)
    )
    error = errors.with_message(error, f"{error}{hint}")
    error.other_axes = tuple(elsewhere)
    return error


def _longer_hint(name: str, query: str, available: Sequence[str]) -> str:
    """Return how to write a column of which an unquoted name is the beginning."""
    longer = tuple(each.lower() for each in (*joined_names(query, name)[:-1], f"{name} "))
    begins = [each for each in available if each.lower().startswith(longer)]
    quoted = " or ".join(map(quoted_name, begins))
    return f"; put the whole name in double quotes: {quoted}" if begins else ""


def _elsewhere_hint(other: str, tables: Sequence[tuple[AxisSchema, str]]) -> str:
    """Return that another axis has the vector, and how to join the two, if a vector says so."""
    hint = f"; axis {other!r} has a vector of that name"
    for schema, axis in tables[:1]:
        for daf in schema.readers(axis, other).values():
            for relation in daf.relations():
                if (relation.axis, relation.to_axis) == (axis, other):
                    column = f"{plain_name(axis)}.{plain_name(relation.vector)}"
                    table = plain_name(other)
                    entries = f"(SELECT name FROM {table} WHERE ...)"  # noqa: S608 - a message
                    join = f"JOIN {table} ON {column} = {table}.name"
                    return f"{hint}: {join}, or {column} IN {entries}"
    return hint


def _alias_hint(failed: FailedQuery, name: str) -> str:
    """Return how to filter by what SELECT computes, if WHERE has a name that is given there."""
    for scope in failed.statement.scopes:
        is_given = name in [item_of(each)[1] for each in scope.select["projection"]]
        if is_given and any(each.get("value") == name for each in walk(scope.select["selection"])):
            return (
                f"; {name!r} is computed after WHERE: filter what is computed of groups by "
                "HAVING, anything else in a query around this one, of which it is a subquery"
            )
    return ""


def _string_hint(failed: FailedQuery, name: str, *, is_near: bool) -> str:
    """Return how to write a string, if a name in double quotes, or in none, was to be one.

    Parameters
    ----------
    is_near
        Whether a column has nearly that name, which then is what an unquoted name means.
    """
    written = quoted_string(name)
    for node in failed.nodes():
        match node:
            case {"InList": {"list": values}}:
                is_string = True
            case {"BinaryOp": {"op": op, "right": right}}:
                values, is_string = [right], op in _COMPARISONS and not is_near
            case {"Like": {"pattern": pattern}} | {"ILike": {"pattern": pattern}}:
                values, is_string = [pattern], False
            case _:
                continue
        for parts in filter(None, map(identifiers_of, values)):
            if values_of(parts) == (name,) and parts[0]["quote_style"] == '"':
                return f"; double quotes are for names, so write a string as {written}"
            if values_of(parts) == (name,) and is_string:
                return f"; a string is written in single quotes: {written}"
    return ""


_COMPARISONS: Final = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq")


def parts_of_name(field: str) -> list[str]:
    """Return the parts of a possibly qualified and quoted name, without quotes.

    >>> parts_of_name('c."HLA-A"')
    ['c', 'HLA-A']
    """
    return list(map(unquoted_name, _NAME_PART.findall(field))) or [field]


def _entry_hint(name: str, query: str, schema: AxisSchema, axis: str) -> str:
    """Return how to write an entry of another axis, as ``X['MS4A1']``; empty if it is none.

    Parameters
    ----------
    name
        The column that is not there; of ``HLA-DRA > 1``, the engine misses ``HLA``.
    axis
        The axis whose table does not have it.
    """
    names = joined_names(query, name)
    for daf in schema.readers(axis).values():
        hints = []
        for other in sorted(daf.axes_set() - {axis}):
            matrices = sorted(daf.matrices_set(axis, other))
            found = _entry(daf, other, names) if matrices else None
            if found is not None:
                vector, entry = found
                forms = (
                    quoted_name(f"{other}.{each}")
                    if len(daf.matrix_axes(axis, each)) > 1
                    else plain_name(each)
                    for each in matrices[:_MOST_FORMS]
                )
                written = " or ".join(f"{form}[{quoted_string(entry)}]" for form in forms)
                what = "an entry" if vector == NAME else f"in {vector}"
                hints.append(f"{entry!r} is {what} of axis {other!r}: write {written}")
        if hints:
            return "; ".join(hints)
    return ""


def _entry(daf: DafReader, axis: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return in which vector an axis has the first of some names, and its spelling there."""
    with suppress(DafError):  # the axis is damaged: the error is about something else
        if daf.axis_length(axis) <= _MOST_ENTRIES or daf.cached_entries(axis) is not None:
            return spelled_entry(daf, axis, names)
    return None


def _base_hint(schemas: Any) -> str:
    """Return how to open the first overlay with its base; empty if there is none."""
    hints = [missing_base(schema.only.daf) for schema in schemas if not schema.is_collection]
    return next(filter(None, hints), "")


def missing_base(daf: DafReader) -> str:
    """Return how to open an overlay with its base; empty if a data set is none, or has it."""
    base = daf.get_scalar(_BASE, default=None)
    if not isinstance(base, str) or not base or _BETWEEN in daf.location:
        return ""
    if "://" not in base and "://" not in daf.location:
        folder = Path(daf.location.partition("#/")[0]).parent
        base = os.path.normpath(folder / base)
    return (
        f"; it is on top of {base}, which was not opened with it: "
        f"connect({base!r}, overlay={daf.location!r})"
    )
