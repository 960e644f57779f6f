"""Bounds for the sizes of values that a query makes, such as ``repeat('x', 2000000000)``.

The engine makes such values without looking at limits of time and memory, constants even while it
plans, for some of them with Python's lock held: so a whole server waits, panics, or ends.  So sizes
go through a function that checks them, and that is volatile, so that nothing is computed early.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.syntax import (
    Edit,
    Statement,
    arguments_of,
    edited,
    function_name,
    kind_of,
    parsed,
    quoted_name,
    whole_number_of,
)
from daf_storage import errors

_MOST_ITEMS: Final = 1 << 26
_MOST_TOGETHER: Final = 1 << 27
_CHECK: Final = "daf_checked_size"
_STRINGS: Final = ("repeat", "lpad", "rpad")
_ARRAYS: Final = ("array_repeat", "list_repeat", "array_resize", "list_resize")
_SERIES: Final = ("generate_series", "range")
_SMALL: Final = 1000
_MOST_SHOWN: Final = 200


def register_size_checks(context: datafusion.SessionContext) -> None:
    """Make the function that checks sizes known to a context."""
    integer = pa.int64()
    context.register_udf(datafusion.udf(_checked, [integer] * 4, integer, "volatile", _CHECK))


def with_bounded_sizes(query: str) -> str:
    """Return a query in which arguments that say how large a result is are checked.

    A column that a query does not name is called as it is written.

    >>> with_bounded_sizes("SELECT length(repeat('x', 2000000000)) AS n")
    "SELECT length(repeat('x', daf_checked_size(2000000000, 0, 0, 67108864))) AS n"
    """
    lowered = query.lower()
    if not any(name in lowered for name in (*_STRINGS, *_ARRAYS, *_SERIES)):
        return query
    statement = parsed(query)
    return query if statement is None else edited(query, _size_edits(statement))


def _size_edits(statement: Statement) -> list[Edit]:
    """Return the edits; none where all sizes are small constants.

    Each of several sizes is bounded so that their product is, too: a value may be within another,
    which the SQL does not always show, or replace each character of another.
    """
    calls = list(_sized_calls(statement))
    sizes = [size for _, _, sizes in calls for size in sizes]
    if None not in sizes and math.prod(max(size or 1, 1) for size in sizes) <= _SMALL:
        return []
    edits: list[Edit] = []
    for name, spans, _ in calls:
        most = int((_MOST_ITEMS // (1 if name in _STRINGS else 8)) ** (1 / len(calls)))
        written = [statement.text[slice(*span)] for span in spans]
        start, stop = spans[min(1, len(spans) - 1)]
        opening, closing = f"{_CHECK}(", f", 0, 0, {most})"
        if name in _SERIES and len(spans) > 2 and "INTERVAL" in written[2].upper():
            seconds = f"(to_unixtime({written[1]}) - to_unixtime({written[0]}))"
            count = f"CAST(abs({seconds} / date_part('epoch', {written[2]})) AS BIGINT)"
            opening, closing = f"CASE WHEN {opening}{count}{closing} >= 0 THEN ", " END"
        elif name in _SERIES:
            first, step = written[0] if len(spans) > 1 else "0", [*written[2:], "1"][0]
            closing = f", {first}, {step}, {most})"
        edits += [Edit(start, start, opening), Edit(stop, stop, closing)]
    for item in (item for scope in statement.scopes for item in scope.select["projection"]):
        start, stop = statement.item(item) if edits and "UnnamedExpr" in item else (0, 0)
        if any(start <= edit.start < stop for edit in edits):
            name = quoted_name(statement.text[start:stop][:_MOST_SHOWN])
            edits.append(Edit(stop, stop, f" AS {name}"))
    return edits


def _sized_calls(
    statement: Statement,
) -> Iterator[tuple[str, list[tuple[int, int]], list[int | None]]]:
    """Yield the name of each call, where its arguments stand, and the constants of its size.

    A series that is a table, after FROM, is no call.
    """
    for _, node in statement.nodes:
        name = function_name(node["Function"]) if kind_of(node) == "Function" else ""
        if name in (*_STRINGS, *_ARRAYS, *_SERIES):
            function = node["Function"]
            numbers = [whole_number_of(each) for each in arguments_of(function)]
            spans = statement.parts(statement.brackets_after(function["name"][-1]["Identifier"]))
            if len(spans) > (name not in _SERIES):
                yield name, spans, numbers if name in _SERIES else numbers[1:2]


def _checked(stops: pa.Array, starts: pa.Array, steps: pa.Array, most: pa.Array) -> pa.Array:
    """Return the ends of series, or sizes, whose step is 0; raise if they are too large.

    A negative size is 0, which is the same; lpad() of a column panics otherwise.
    """
    stop, start, step = (pc.cast(each, pa.float64(), safe=False) for each in (stops, starts, steps))
    counts = pc.divide(pc.abs(pc.subtract(stop, start)), pc.max_element_wise(pc.abs(step), 1.0))
    largest, bound = pc.max(counts).as_py() or 0, most[0].as_py() if len(most) else _MOST_ITEMS
    if largest > bound or (pc.sum(counts).as_py() or 0) > _MOST_TOGETHER:
        raise errors.QueryError(
            f"the query makes a value of {largest:,.0f} items, or several in one batch, where one "
            f"may have {bound:,}, and all together {_MOST_TOGETHER:,}: by repeat(), lpad(), "
            "array_repeat(), generate_series() or the like; write smaller ones, and for many "
            "numbers in rows FROM generate_series(1, n)"
        )
    return pc.if_else(pc.and_(pc.equal(steps, 0), pc.less(stops, 0)), 0, stops)
