"""The values of a SQL expression for the entries of an axis."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from daf_query.scan import INDEX
from daf_query.slice._selector import explained_of
from daf_query.sql import Engine, computed_table
from daf_query.syntax import Edit, WrappedSql, quoted_name

VALUE = "value"
"""What the column of the values is called."""


def expression_table(
    engine: Engine,
    schema: str,
    axis: str,
    text: str,
    key: Sequence[str] = (INDEX,),
    *,
    join: str = "",
    edits: tuple[Edit, ...] = (),
) -> pa.Table:
    """Return the position of each entry, as ``index``, and the value of an expression for it.

    Parameters
    ----------
    key
        The columns that say which entry it is.
    join
        What comes after the table, such as a join that chooses some of its rows.
    edits
        What is written differently in the expression.

    Raises
    ------
    QueryError
        It is wrong; a syntax error says where in the expression.
    VectorNotFoundError
        It names an unknown column.
    """
    table = f"{quoted_name(schema)}.{quoted_name(axis)}"
    # Not an injection: the query is read-only, one statement, and the expression is SQL by design.
    start, end = (
        f"SELECT {', '.join(map(quoted_name, key))}, (\n",
        f"\n) AS {VALUE} FROM {table} {join}",
    )
    wrapped = WrappedSql.between(start, text, end, edits)
    try:
        return computed_table(engine.plan_raw(wrapped.query))
    except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
        raise explained_of(error, wrapped, engine, what="expression") from None
