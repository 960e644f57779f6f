"""Translate DataFusion errors into `DafError`s.

The engine reports errors as text.  The common ones are recognised, and get what it cannot know:
which axes and vectors there are, and which other axis has a vector of the name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from daf_query.sql._axis_schema import CATALOG, PUBLIC, AxisSchema
from daf_query.sql._base_hints import base_hint
from daf_query.sql._column_hints import entry_hint, join_hint
from daf_query.sql._limit_errors import column_in_limit, limit_error
from daf_query.sql._matrix_entries import unknown_entry_hint
from daf_query.sql._subquery_errors import subquery_error
from daf_query.sql._syntax_errors import shortened, syntax_error
from daf_query.sql._table_functions import USAGES
from daf_query.syntax import Token, one_statement, quoted_name, tokens_of, unquoted_name
from daf_query.table import TableDataset
from daf_storage import DafError, errors
from daf_storage.spi import install_command

_NO_FIELD = re.compile(r"No field named (?P<field>.+?)\.(?: Did you mean|\s|$)", re.DOTALL)
_VALID_FIELDS = re.compile(r"Valid fields are (?P<fields>.*)\.", re.DOTALL)
_NAME_PART = re.compile(r'"(?:[^"]|"")*"|[^",.\s]+')
_FIELD = re.compile(rf"(?:{_NAME_PART.pattern})(?:\.(?:{_NAME_PART.pattern}))*")
_SUGGESTED = re.compile(r"Did you mean '(?P<fields>.+?)'\?")
_NO_TABLE = re.compile(r"table '(?P<table>[^']+)' not found")
_NO_TABLE_FUNCTION = re.compile(r"table function '(?P<name>[^']*)' not found")
_NO_FUNCTION = re.compile(r"Invalid function '(?P<name>[^']*)'")
_PARSER = re.compile(r"(?:Parser|Tokenizer)Error\(\"(?P<problem>.*)\"\)", re.DOTALL)
_PLACE = re.compile(r"\s*(?:at|near) Line: (?P<line>\d+), Column: (?P<column>\d+)")
_NOT_ALLOWED = re.compile(r"(?P<what>DDL|DML|Statement) not supported: (?P<name>\w+)")
_BEFORE_VALUES = ("=", "<", ">", "~", "(", ",")
_COMPARISONS = ("=", "<>", "!=", "==", "<", ">")
_NO_SIGNATURE = re.compile(
    r"No function matches the given name and argument types .*?\. "
    r"You might need to add explicit type casts\."
)
_OURS = re.compile(
    r"type: <class 'daf_storage\.errors\.(?P<error>\w+)'>, value: \w+\((?P<quote>[\"'])"
    r"(?P<message>(?:\\.|(?!(?P=quote)).)*)(?P=quote)",
    re.DOTALL,
)
_NAMED = re.compile(r"(?P<error>[A-Z]\w+Error): (?P<message>.*)$", re.DOTALL)
_REMEDIES = (
    (
        "Cannot create filter with non-boolean predicate",
        "; a condition is true or false, as in n_genes > 0",
    ),
    (
        "Cannot access field at argument 1",
        """; ['name'] is for a matrix over the axis of the table, as in "gene.X"['name']""",
    ),
    (
        "Source table contains",
        "; an entry of a matrix, as in X['name'], is one more: name columns by AS in SELECT",
    ),
    (
        "Column in SELECT must be in GROUP BY",
        "; add it to GROUP BY (GROUP BY ALL takes all that are no aggregates), or aggregate it",
    ),
    (
        "SQL error: RecursionLimitExceeded",
        ": brackets are too deep within each other; write inner ones as WITH name AS (...)",
    ),
)
"""How messages of the engine begin, and what to write."""
_PREFIXES = re.compile(
    r"^(?:DataFusion error: |Arrow error: |External error: |Error during planning: |"
    r"Schema error: |Execution error: |This feature is not implemented: |"
    r"(?:\w+|Optimizer rule '\w+' failed)\s+caused by\s+)+"
)


def translate_planning_error(
    error: Exception,
    query: str,
    schemas: Mapping[str, AxisSchema],
    shared: Mapping[str, TableDataset] = MappingProxyType({}),
) -> DafError:
    """Return the error of a query in the words of the data set.

    Parameters
    ----------
    shared
        Tables that belong to no data set.
    """
    if isinstance(error, DafError):
        return error
    if isinstance(error, UnicodeEncodeError):
        return _no_unicode(query)
    text = str(error)
    if _OURS.search(text):  # of a table function
        return translate_execution_error(error)
    if match := _PARSER.search(text):
        return _syntax_error(match["problem"], query)
    if match := _NOT_ALLOWED.search(text):
        return _refused(match["name"])
    if match := _NO_TABLE.search(text):
        return _unknown_table(match["table"], schemas)
    if match := _NO_FIELD.search(text):
        field = match["field"]
        return (
            subquery_error(text)
            or column_in_limit(_last_part(field), query)
            or _unknown_column(field, text, query, schemas, shared)
        )
    if match := _NO_TABLE_FUNCTION.search(text):
        return _unknown_table_function(match["name"])
    if (match := _NO_FUNCTION.search(text)) and (missing := _unknown_function(match["name"], text)):
        return missing
    return _other(text, query)


def _other(text: str, query: str) -> DafError:
    """Return an error in the engine's words, with a remedy if there is one."""
    try:
        one_statement(query)
    except errors.QueryError as of_the_text:  # none, or several: it says where
        return of_the_text
    if known := subquery_error(text) or limit_error(text):
        return known
    problem = strip_prefixes(text).replace("While expanding wildcard, ", "")
    return errors.QueryError(f"{shortened(problem)}{_remedy(problem)}")


def _no_unicode(query: str) -> DafError:
    """Return the error of half a surrogate pair, as Python hands on bytes that are no UTF-8."""
    at = next((i for i, c in enumerate(query) if "\ud800" <= c <= "\udfff"), 0)
    return errors.QueryError(
        f"the query has {query[at : at + 1]!r} at character {at + 1:,}, which is no Unicode; "
        "write the query in UTF-8"
    )


def _refused(statement: str) -> DafError:
    return errors.with_remedy(
        errors.ReadOnlyError(
            f"the query was refused: {statement} changes something, and queries only read "
            "unless asked otherwise"
        ),
        errors.Remedy("pass ", errors.ALLOW_WRITE, " to sql() if you mean it"),
    )


def _unknown_function(name: str, text: str) -> DafError | None:
    """Return what to write instead of a function that there is not; None if nothing is known."""
    if name in USAGES:
        return errors.QueryError(f"{name}() is a table: write it after FROM, {USAGES[name]}")
    if name.startswith("st_") and "Did you mean 'st_" not in text:
        return errors.QueryError(
            f"there is no function {name!r}; those of shapes come from geodatafusion: "
            f"geodatafusion.register_all(db.context); install it with: {install_command('spatial')}"
        )
    return None


def translate_execution_error(error: Exception) -> DafError:
    """Return an error that was raised while rows were computed in our words.

    One of ours comes through the engine as text, with its class, its message and a traceback.
    """
    if isinstance(error, DafError):
        return error
    text = str(error)
    if match := _OURS.search(text):
        error_type: type[DafError] = getattr(errors, match["error"], errors.QueryError)
        return error_type(_unescaped(match["message"], match["quote"]))
    text = strip_prefixes(text)
    if match := _NAMED.match(text):
        named = getattr(errors, match["error"], None)
        if isinstance(named, type) and issubclass(named, DafError):
            return named(match["message"])
    return subquery_error(text) or limit_error(text) or errors.QueryError(shortened(text))


def _remedy(problem: str) -> str:
    """Return what to write where the engine says only what is wrong.

    >>> _remedy("Cannot create filter with non-boolean predicate 'age' returning Int64")
    '; a condition is true or false, as in n_genes > 0'
    """
    if problem.startswith("Table '") and problem.endswith("already exists"):
        return "; write CREATE OR REPLACE, or DROP it first"
    return next((remedy for start, remedy in _REMEDIES if problem.startswith(start)), "")


def _unescaped(literal: str, quote: str) -> str:
    try:
        return str(ast.literal_eval(f"{quote}{literal}{quote}"))
    except (SyntaxError, ValueError):
        return literal


def strip_prefixes(text: str) -> str:
    """Return an engine's message without the names of the layers that it came through.

    >>> strip_prefixes("DataFusion error: Arrow error: External error: Cast error: no")
    'Cast error: no'
    """
    if match := _NO_SIGNATURE.search(text):
        return match.group(0)
    return _PREFIXES.sub("", text).strip()


def _syntax_error(problem: str, query: str) -> errors.QueryError:
    """Return an error that shows where the parser stopped."""
    place = _PLACE.search(problem)
    lines = query.split("\n")
    line, column = len(lines), len(lines[-1]) + 1
    if place is not None:
        line, column = int(place["line"]), int(place["column"])
    reason = _PLACE.sub("", problem).replace('\\"', '"')
    where = f"at line {line}, column {column}"
    return syntax_error(reason, query, line, column, where=where)


def unknown_result_column(error: Exception, columns: Collection[str]) -> DafError | None:
    """Return the error for a column that a result does not have; None if it is another error."""
    match = _NO_FIELD.search(str(error))
    if match is None:
        return None
    name = _last_part(match["field"])
    has = errors.known_names(columns, none="none")
    return errors.VectorNotFoundError(
        f"the result has no column {name!r}; it has {has}{errors.nearest(name, columns)}"
    )


def _unknown_table_function(asked: str) -> errors.QueryError:
    has = "; ".join(USAGES.values())
    close = errors.nearest(asked, USAGES)
    return errors.QueryError(f"there is no table function {asked!r}; there is {has}{close}")


def _data_set_and_table(asked: str, schemas: Collection[str]) -> tuple[str, str]:
    """Return the two names in what the engine says, which has no quotes: either may have dots.

    >>> _data_set_and_table("daf.run.1.cell", ["run.1"]), _data_set_and_table("cell", ["run.1"])
    (('run.1', 'cell'), ('public', 'cell'))
    """
    rest = asked.removeprefix(f"{CATALOG}.")
    for schema in sorted((*schemas, PUBLIC), key=len, reverse=True):
        if rest.startswith(f"{schema}."):
            return schema, rest.removeprefix(f"{schema}.")
    schema, name = [PUBLIC, *rest.split(".")][-2:]
    return schema, name


def _unknown_table(asked: str, schemas: Mapping[str, AxisSchema]) -> DafError:
    asked_schema, name = _data_set_and_table(asked, schemas)
    catalog, *parts = asked.split(".")
    if len(parts) == 2 and catalog != CATALOG:
        return errors.NotFoundError(
            f"there is no catalog {catalog!r}, only {CATALOG!r}; write {asked_schema}.{name}"
        )
    if asked_schema not in {*schemas, PUBLIC}:
        has = errors.known_names(schemas, none="none")
        return errors.NotFoundError(f"no data set {asked_schema!r} is connected; there are {has}")
    holders = [schema for schema, tables in schemas.items() if name in tables.table_names]
    for schema in holders if len(schemas) == 1 else [asked_schema]:
        problem = _problem(schemas, schema, name)
        if problem is not None:
            return problem
    if len(schemas) == 1 and holders and asked_schema == PUBLIC:
        return errors.NotFoundError(
            f"{PUBLIC!r} has no table {name!r}: it is one of {holders[0]!r}; write "
            f"{holders[0]}.{name}, or just {name}"
        )
    if len(schemas) > 1 and holders:
        where = " or ".join(f"{schema}.{name}" for schema in holders)
        return errors.AxisNotFoundError(
            f"several data sets are connected, so a table needs its data set's name: {where}"
        )
    known = [
        name if len(schemas) == 1 else f"{schema}.{name}"
        for schema, tables in schemas.items()
        for name in tables.table_names
    ]
    source = ", ".join(tables.location for tables in schemas.values())
    has = errors.known_names(known, none="no tables")
    close = errors.nearest_axis(name, {k.split(".")[-1] for k in known})
    base = base_hint(*schemas.values())
    return errors.AxisNotFoundError(
        f"{source}: there is no table {name!r}; there are {has}{close}{base}"
    )


def _unknown_column(
    field: str,
    text: str,
    query: str,
    schemas: Mapping[str, AxisSchema],
    shared: Mapping[str, TableDataset],
) -> DafError:
    name, table = _last_part(field), _qualifier(field)
    fields = _VALID_FIELDS.search(text) or _SUGGESTED.search(text)
    listed = fields["fields"] if fields else ""
    valid = {_last_part(each) for each in _FIELD.findall(listed)}
    tables = _tables_of(listed, schemas)
    relations = _relations_of(listed)
    if table and table not in relations and name in valid:
        has = errors.known_names(relations, none="none")
        return errors.VectorNotFoundError(
            f"{table}.{name} is a column of a table {table!r}, which the query does not have; it "
            f"has {has}: write {name}"
        )
    scanned = [tables_of.dataset(axis) for tables_of, axis in tables]
    scanned += [table.readable() for title, table in shared.items() if title in relations]
    for dataset in scanned:
        problem = dataset.table_columns.problems.get(name)
        if problem is not None:
            return errors.UnsupportedDataError(problem)
    for tables_of, axis in tables:
        entry = entry_hint(name, query, tables_of, axis)
        if entry:
            return errors.VectorNotFoundError(
                f"{tables_of.location}: axis {axis!r} has no vector {name!r}; {entry}"
            )
    return _absent_column(name, valid, tables, query, schemas)


def _absent_column(
    name: str,
    valid: set[str],
    tables: list[tuple[AxisSchema, str]],
    query: str,
    schemas: Mapping[str, AxisSchema],
) -> DafError:
    """Return an error that no table of the query has a column, with what may have been meant."""
    if len(tables) == 1:
        tables_of, axis = tables[0]
        known = tables_of.dataset(axis).schema.names
        close = errors.nearest(name, known)
        error = errors.vector_not_found(tables_of.location, axis, name, known)
    else:
        has, close = errors.known_names(valid, none="no columns"), errors.nearest(name, valid)
        error = errors.VectorNotFoundError(f"the query has no column {name!r}; it has {has}{close}")
    elsewhere = [
        axis
        for tables_of in schemas.values()
        for axis in sorted(tables_of.axes_set())
        if (tables_of, axis) not in tables and name in _columns(tables_of, axis)
    ]
    hints = [
        f"axis {axis!r} has a vector of that name"
        + "".join(join_hint(tables_of, asked, axis) for tables_of, asked in tables[:1])
        for axis in elsewhere
    ]
    hint = f"; {', '.join(hints)}" if hints else _string_hint(name, query, is_near=close != "")
    hint = unknown_entry_hint(name, tables, query) or hint
    hint = hint or base_hint(*(tables_of for tables_of, _ in tables))
    error = errors.with_message(error, f"{error}{hint}")
    error.other_axes = tuple(elsewhere)
    return error


def _string_hint(name: str, query: str, *, is_near: bool) -> str:
    """Return how to write a string, if a name in double quotes, or in none, was to be one.

    Parameters
    ----------
    is_near
        Whether a column has nearly that name, which then is what an unquoted name means.
    """
    before = Token("operator", "", 0, 0)
    for token in tokens_of(query):
        is_value = before.is_operator(*_BEFORE_VALUES) or before.is_word("LIKE", "ILIKE")
        written = name.replace("'", "''")
        if token.kind == "quoted" and token.text == quoted_name(name) and is_value:
            return f"; double quotes are for names, so write a string as '{written}'"
        is_compared = not is_near and before.is_operator(*_COMPARISONS)
        if token.kind == "word" and query[token.start : token.stop] == name and is_compared:
            return f"; a string is written in single quotes: '{written}'"
        before = token
    return ""


def _problem(schemas: Mapping[str, AxisSchema], schema: str, name: str) -> DafError | None:
    """Return why a table that is there cannot be used; None if it can, or is not there."""
    try:
        if schema in schemas:
            schemas[schema].find(name)
    except DafError as error:
        return error
    return None


def _columns(tables: AxisSchema, axis: str) -> list[str]:
    """Return the columns of an axis; none if it is broken."""
    try:
        return list(tables.dataset(axis).schema.names)
    except DafError:
        return []


def _tables_of(fields: str, schemas: Mapping[str, AxisSchema]) -> list[tuple[AxisSchema, str]]:
    """Return the axes whose columns the engine lists as valid."""
    relations = _relations_of(fields)
    return [
        (tables, axis)
        for tables in schemas.values()
        for axis in sorted(tables.axes_set())
        if axis in relations
    ]


def _relations_of(fields: str) -> set[str]:
    """Return the tables whose columns the engine lists as valid."""
    qualified = (_NAME_PART.findall(field) for field in _FIELD.findall(fields))
    return {unquoted_name(parts[-2]) for parts in qualified if len(parts) > 1}


def _qualifier(field: str) -> str:
    """Return the table of a qualified name, without quotes; empty if there is none."""
    parts = _NAME_PART.findall(field)
    return unquoted_name(parts[-2]) if len(parts) > 1 else ""


def _last_part(field: str) -> str:
    """Return the last part of a possibly qualified and quoted name, without quotes."""
    quoted = re.search(r'"(?:[^"]|"")*"$', field.strip())
    return unquoted_name(quoted[0] if quoted else field.strip().rsplit(".", 1)[-1])
