"""Functions whose arguments say how large their results are: ``repeat('x', 2000000000)``.

The engine computes constants while it plans: without looking at limits of time and memory, and for
some of them with Python's lock held, so that a whole server waits.  So the argument that says the
size is wrapped in a function of ours, which raises an error for results beyond a bound, and which
the engine takes for one of a new value each time: what depends on it is computed with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import datafusion
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.syntax import (
    Edit,
    Node,
    Statement,
    UnparsedError,
    arguments_of,
    edited,
    function_name,
    kind_of,
    parsed,
    quoted_name,
    string_of,
    walk,
    whole_number_of,
)
from daf_storage import errors

_VALUE_BYTES: Final = 1 << 26
_BATCH_BYTES: Final = 1 << 30
_ITEM_BYTES: Final = 8
_CHECK: Final = "daf_checked_size"
_CHECK_STOP: Final = "daf_checked_stop"

_STRINGS: Final = ("repeat", "lpad", "rpad")
_ARRAYS: Final = ("array_repeat", "list_repeat", "array_resize", "list_resize")
_SERIES: Final = ("generate_series", "range")
_REPLACING: Final = {"replace": 2, "regexp_replace": 2, "levenshtein": 1}
"""Of which argument the length is multiplied with that of the first: as bytes, or as work."""
_SIZED: Final = (*_STRINGS, *_ARRAYS, *_SERIES)
_SMALL: Final = 1000
"""Constants whose product is at most this are left alone, if all sizes are constants."""
_LONG_QUERY: Final = 10_000
_MOST_NESTED: Final = 4
_MOST_SHOWN: Final = 200


def register_size_checks(context: datafusion.SessionContext) -> None:
    """Make the functions that check sizes known to a context."""
    integer = pa.int64()
    check = datafusion.udf(_checked_size, [integer] * 2, integer, "volatile", _CHECK)
    check_stop = datafusion.udf(_checked_stop, [integer] * 4, integer, "volatile", _CHECK_STOP)
    context.register_udf(check)
    context.register_udf(check_stop)


def with_bounded_sizes(query: str) -> str:
    """Return a query in which arguments that say how large a result is are checked.

    A column that a query does not name is called as it is written.

    Raises
    ------
    QueryError
        The functions are nested deeply.

    >>> with_bounded_sizes("SELECT length(repeat('x', 2000000000)) AS n")
    "SELECT length(repeat('x', daf_checked_size(2000000000, octet_length('x')))) AS n"
    """
    lowered = query.lower()
    if not any(name in lowered for name in (*_SIZED, *_REPLACING)):
        return query
    try:
        return edited(query, _edits(parsed(query)))
    except UnparsedError:  # the engine says what is wrong
        return query


class _Call(NamedTuple):
    """One place of a query where a function is called."""

    start: int
    """Where its name begins."""
    spans: list[tuple[int, int]]
    """Where each of its arguments begins and ends."""
    name: str
    function: Node


def _edits(statement: Statement) -> list[Edit]:
    """Return the edits; none where all sizes are small constants."""
    text = statement.text
    calls = sorted(_calls_of(statement), key=lambda call: call.start)
    if _are_small(statement, calls):
        return []
    arrays = [call.name for call in calls if call.name not in (*_STRINGS, *_REPLACING)]
    # An array may be an item of another, which the SQL does not always show.
    power = len(arrays) if {*arrays} & {*_ARRAYS} else 1
    item_bytes = _VALUE_BYTES // int((_VALUE_BYTES / _ITEM_BYTES) ** (1 / power))
    edits: list[Edit] = []
    for call in reversed(calls):  # those within others come first
        start, stop = call.spans[0][0], call.spans[-1][1]
        if sum(each.start < start < each.spans[-1][1] for each in calls) > _MOST_NESTED + 1:
            raise errors.QueryError(
                f"{call.name}() is within more than {_MOST_NESTED} calls of functions that make "
                "large values; write a subquery for one of them"
            )
        written = _checked(call, [edited(text, edits, *span) for span in call.spans], item_bytes)
        edits = [each for each in edits if each.start >= stop]
        edits.append(Edit(start, stop, ", ".join(written)))
    for item in (item for scope in statement.scopes for item in scope.select["projection"]):
        start, stop = statement.item(item) if "UnnamedExpr" in item else (0, 0)
        if any(start <= edit.start < stop for edit in edits):
            name = quoted_name(text[start:stop][:_MOST_SHOWN])
            edits.append(Edit(stop, stop, f" AS {name}"))
    return edits


def _calls_of(statement: Statement) -> Iterator[_Call]:
    """Yield the calls; a series that is a table, after FROM, is none: it is computed by rows."""
    for _, node in statement.nodes:
        name = function_name(node["Function"]) if kind_of(node) == "Function" else ""
        fewest = 1 if name in _SERIES else _REPLACING.get(name, 1) + 1
        if name in _SIZED or name in _REPLACING:
            function = node["Function"]
            spans = statement.parts(statement.brackets_after(function["name"][-1]["Identifier"]))
            if len(spans) >= fewest:
                yield _Call(statement.span(function["name"])[0], spans, name, function)


def _are_small(statement: Statement, calls: list[_Call]) -> bool:
    """Return whether the sizes are constants, which are small together."""
    given = [(call.name, arguments_of(call.function)) for call in calls if call.name in _SIZED]
    sizes = [size for name, all_ in given for size in (all_ if name in _SERIES else all_[1:2])]
    numbers = [whole_number_of(size) for size in sizes]
    product = math.prod(max(number or 1, 1) for number in numbers)
    definitions = (query.node["with"] for query in statement.queries)
    is_recursive = any(each and each["recursive"] for each in definitions)
    is_known = None not in numbers and not is_recursive
    return is_known and product <= _SMALL and len(statement.text) <= _LONG_QUERY


def _checked(call: _Call, written: list[str], item_bytes: int) -> list[str]:
    """Return the arguments of a call with a check of its size."""
    at, size, check = 1, "1", ""
    first, last = written[0], written[-1]
    if call.name in _REPLACING:
        at = _REPLACING[call.name]
        check = f"{_CHECK}(octet_length({first}), octet_length({written[at]}))"
    elif call.name in _SERIES and any(map(_is_of_times, walk(call.function))):
        seconds = f"(to_unixtime({written[1]}) - to_unixtime({first})) / date_part('epoch', {last})"
        check = f"{_CHECK}(CAST(abs({seconds}) AS BIGINT), {item_bytes})"
    elif call.name == "repeat":
        size = f"octet_length({first})"
    elif call.name in _ARRAYS:
        size = str(max(item_bytes, *map(len, written)))
    if check:
        checked = f"CASE WHEN {check} >= 0 THEN {written[at]} END"
    elif call.name in _SERIES:
        at = min(1, len(written) - 1)
        start, step = ("0" if at == 0 else first), (last if len(written) > 2 else "1")
        checked = f"{_CHECK_STOP}({written[at]}, {start}, {step}, {item_bytes})"
    else:
        checked = f"{_CHECK}({written[1]}, {size})"
    return [*written[:at], checked, *written[at + 1 :]]


def _is_of_times(node: Node) -> bool:
    return kind_of(node) == "Interval" or string_of(node) is not None


def _checked_size(counts: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return counts of things of some sizes, or raise if they are too large together.

    Negative ones are 0, which is the same; lpad() of a column panics otherwise.
    """
    count, size = (pc.cast(each, pa.float64(), safe=False) for each in (counts, sizes))
    _check_bytes(pc.multiply(count, size))
    return pc.if_else(pc.less(counts, 0), 0, counts)


def _checked_stop(stops: pa.Array, starts: pa.Array, steps: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return the ends of series of things of some sizes, or raise if they are too long."""
    given = (stops, starts, steps, sizes)
    stop, start, step, size = (pc.cast(each, pa.float64(), safe=False) for each in given)
    counts = pc.divide(pc.abs(pc.subtract(stop, start)), pc.max_element_wise(pc.abs(step), 1.0))
    _check_bytes(pc.multiply(counts, size))
    return stops


def _check_bytes(sizes: pa.Array) -> None:
    largest = pc.max(sizes).as_py() or 0
    together = pc.sum(pc.max_element_wise(sizes, 0.0)).as_py() or 0
    if largest <= _VALUE_BYTES and together <= _BATCH_BYTES:
        return
    if largest > _VALUE_BYTES:
        problem = f"a value of {largest:,.0f} bytes, where one may have {_VALUE_BYTES:,}"
    else:
        problem = f"values of {together:,.0f} bytes at once, where {_BATCH_BYTES:,} may be"
    raise errors.QueryError(
        f"the query makes {problem}: by repeat(), lpad(), array_repeat(), generate_series() or the "
        "like; write smaller ones, and for many numbers in rows FROM generate_series(1, n)"
    )
