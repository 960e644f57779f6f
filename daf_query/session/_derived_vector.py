"""Vectors derived by a query: one value for each entry of an axis, in the order of the axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from daf_query.scan import INDEX, NAME
from daf_query.session._storable import storable
from daf_query.slice import expression_table, positions_in
from daf_query.sql import Engine, computed_table
from daf_query.syntax import is_select
from daf_storage import DafReader, errors


def derived(engine: Engine, schema: str, axis: str, query: str) -> pa.Array:
    """Return the values of a query for the entries of an axis; strings may be null.

    Parameters
    ----------
    query
        An expression of the columns of the axis, or a SELECT that yields ``name`` or ``index``
        and one other column, for each entry once.
    """
    if not query.strip():
        raise errors.QueryError("the query is empty; write an expression, or a SELECT")
    daf = engine.connections.reader(schema)
    if is_select(query):
        table = computed_table(engine.plan(query, once=(INDEX, NAME)))
    else:
        table = expression_table(engine, schema, axis, query)
    values = [name for name in table.column_names if name not in (NAME, INDEX)]
    if len(values) != 1:
        raise errors.QueryError(
            f"a vector needs one column of values beside {NAME!r} or {INDEX!r}; the query yields "
            f"{', '.join(table.column_names)}"
        )
    positions = positions_in(engine.connections.schemas[schema].concatenated(axis), table, "query")
    _check_complete(positions, daf, axis)
    column = table.column(values[0]).take(pa.array(np.argsort(positions)))
    return storable(column, f"a vector of axis {axis!r}", f"entries of axis {axis!r}")


def _check_complete(positions: Any, daf: DafReader, axis: str) -> None:
    counts = np.bincount(positions, minlength=daf.axis_length(axis))
    for problem, wrong, advice in (
        ("lacks", counts == 0, "a LEFT JOIN from the axis and coalesce() give the others a value"),
        ("has more than one row for", counts > 1, "GROUP BY its name"),
    ):
        if wrong.any():
            first = daf.get_pa_vector(axis, NAME)[int(np.argmax(wrong))].as_py()
            raise errors.QueryError(
                f"the query {problem} {int(wrong.sum()):,} of {len(counts):,} entries of axis "
                f"{axis!r}, the first is {first!r}; {advice}"
            )
