"""Functions that say by an argument how large their results are: ``repeat('x', 2000000000)``.

The engine computes constants while it plans: without looking at limits of time and memory, and for
some of them with Python's lock held, so that a whole server waits.  So that argument is wrapped in
a function of ours, which raises an error for sizes beyond a bound, and which the engine takes for
one of a new value each time: what depends on it is computed with the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.syntax import (
    Edit,
    Statement,
    UnparsedError,
    arguments_of,
    edited,
    function_name,
    kind_of,
    parsed,
    quoted_name,
    walk,
    whole_number_of,
)
from daf_storage import errors

_MOST: Final = 1 << 26
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
    try:
        return edited(query, _edits(parsed(query)))
    except UnparsedError:  # the engine says what is wrong
        return query


def _edits(statement: Statement) -> list[Edit]:
    calls = list(_calls(statement))
    # An array may be an item of another, which the SQL does not always show.
    arrays = sum(name in _ARRAYS for name, *_ in calls) and sum(
        n not in _STRINGS for n, *_ in calls
    )
    edits: list[Edit] = []
    for name, spans, checked in calls:
        most = _MOST if name in _STRINGS else int((_MOST // 8) ** (1 / max(arrays, 1)))
        first = statement.text[slice(*spans[0])] if name in _SERIES and checked else "0"
        step = statement.text[slice(*spans[2])] if len(spans) > 2 else "1"
        step = step if name in _SERIES else "0"
        start, stop = spans[checked]
        edits += [Edit(start, start, f"{_CHECK}("), Edit(stop, stop, f", {first}, {step}, {most})")]
    for item in (item for scope in statement.scopes for item in scope.select["projection"]):
        start, stop = statement.item(item) if edits and "UnnamedExpr" in item else (0, 0)
        if any(start <= edit.start < stop for edit in edits):
            name = quoted_name(statement.text[start:stop][:_MOST_SHOWN])
            edits.append(Edit(stop, stop, f" AS {name}"))
    return edits


def _calls(statement: Statement) -> Iterator[tuple[str, list[tuple[int, int]], int]]:
    """Yield the name of each call, where its arguments stand, and which of them says the size.

    Small constants and series of times are left alone; a series after FROM is no call.
    """
    for _, node in statement.nodes:
        name = function_name(node["Function"]) if kind_of(node) == "Function" else ""
        if name not in (*_STRINGS, *_ARRAYS, *_SERIES):
            continue
        function = node["Function"]
        numbers = [whole_number_of(each) for each in arguments_of(function)]
        spans = statement.parts(statement.brackets_after(function["name"][-1]["Identifier"]))
        place = min(1, len(spans) - 1)
        sizes = numbers if name in _SERIES else numbers[1:2]
        is_small = all(size is not None and size <= _SMALL for size in sizes)
        is_of_times = name in _SERIES and any(
            kind_of(each) == "Interval" for each in walk(function)
        )
        if len(spans) > (name not in _SERIES) and not (is_small or is_of_times):
            yield name, spans, place


def _checked(stops: pa.Array, starts: pa.Array, steps: pa.Array, most: pa.Array) -> pa.Array:
    """Return the ends of series, or sizes, whose step is 0; raise if they are too large.

    A negative size is 0, which is the same; lpad() of a column panics otherwise.
    """
    stop, start, step = (pc.cast(each, pa.float64(), safe=False) for each in (stops, starts, steps))
    counts = pc.divide(pc.abs(pc.subtract(stop, start)), pc.max_element_wise(pc.abs(step), 1.0))
    largest, bound = pc.max(counts).as_py() or 0, most[0].as_py() if len(most) else _MOST
    if largest > bound or (pc.sum(counts).as_py() or 0) > _MOST_TOGETHER:
        raise errors.QueryError(
            f"the query makes a value of {largest:,.0f} items, or several in one batch, where one "
            f"may have {bound:,}, and all together {_MOST_TOGETHER:,}: by repeat(), lpad(), "
            "array_repeat(), generate_series() or the like; write smaller ones, and for many "
            "numbers in rows FROM generate_series(1, n)"
        )
    return pc.if_else(pc.and_(pc.equal(steps, 0), pc.less(stops, 0)), 0, stops)
