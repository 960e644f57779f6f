"""Entries of matrices as a list names them, for engines that are given their columns beforehand."""

from __future__ import annotations

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._matrix_entries import Tables, unknown_entry_hint, with_entries
from daf_query.syntax import Node, UnparsedError, list_items, parsed, quoted_name, subscript_of
from daf_query.table import MatrixEntry
from daf_storage import errors


def entry_columns(schema: AxisSchema, axis: str, written: str) -> dict[str, MatrixEntry]:
    """Return the columns that a list such as ``X['CD8A'], X['CD3E'] AS cd3e`` means.

    Raises
    ------
    QueryError
        It is no such list, or the axis has no such matrix.
    EntryNotFoundError
        No axis has the entry.
    """
    columns: dict[str, MatrixEntry] = {}
    for item in list_items(written):
        name, entry = _column(schema, axis, item.strip())
        if name in columns:
            raise errors.QueryError(
                f"two of {written!r} would be called {name!r}; rename one with AS"
            )
        columns[name] = entry
    return columns


def _column(schema: AxisSchema, axis: str, item: str) -> tuple[str, MatrixEntry]:
    # Not an injection: it is parsed here, and never executed.
    query = f"SELECT {item} FROM {quoted_name(axis)}"  # noqa: S608 - of the query itself
    expression, alias = _item(query, axis, item)
    subscript = subscript_of(expression)
    if subscript is None:
        raise _malformed(item)
    rewriting = with_entries(query, Tables({schema.name: schema}, schema.name))
    entries = rewriting.columns.get((schema.name, axis), {})
    if len(entries) != 1:
        matrix = subscript.parts[-1]["value"]
        hint = unknown_entry_hint(matrix, [(schema, axis)], query)
        raise errors.MatrixNotFoundError(
            f"{schema.location}: {item!r} names no entry of a matrix over axis {axis!r}{hint}"
        )
    ((name, entry),) = entries.items()
    return alias or name, entry


def _item(query: str, axis: str, item: str) -> tuple[Node, str | None]:
    """Return the only expression of a query of one table, and the name that it is given."""
    try:
        statement = parsed(query)
    except UnparsedError:
        raise _malformed(item) from None
    sources = [source.name for source in statement.sources]
    if len(statement.tree) != 1 or len(statement.queries) != 1 or sources != [axis]:
        raise _malformed(item)
    projection = statement.queries[0].scopes[0].select["projection"]
    if len(projection) != 1:
        raise _malformed(item)
    aliased = projection[0].get("ExprWithAlias")
    if aliased is not None:
        return aliased["expr"], aliased["alias"]["value"]
    return projection[0].get("UnnamedExpr", {}), None


def _malformed(item: str) -> errors.QueryError:
    return errors.QueryError(
        f"{item!r} is no entry of a matrix; write X['CD8A'], or X['CD8A'] AS cd8a, with commas "
        "between several"
    )
