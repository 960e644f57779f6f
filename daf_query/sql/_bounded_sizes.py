"""Functions whose arguments say how large their results are: ``repeat('x', 2000000000)``.

The engine computes constants while it plans: without looking at limits of time and memory, and for
some of them with Python's lock held, so that a whole server waits.  So the argument that says the
size is wrapped in a function of ours, which raises an error for results beyond a bound, and which
the engine takes for one of a new value each time: what depends on it is computed with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.syntax import Token, identifier, tokens_of
from daf_storage import errors

_VALUE_BYTES: Final = 1 << 26
_BATCH_BYTES: Final = 1 << 30
_ITEM_BYTES: Final = 8
_CHECK: Final = "daf_checked_size"
_CHECK_STOP: Final = "daf_checked_stop"

_STRINGS: Final = ("REPEAT", "LPAD", "RPAD")
_ARRAYS: Final = ("ARRAY_REPEAT", "LIST_REPEAT", "ARRAY_RESIZE", "LIST_RESIZE")
_SERIES: Final = ("GENERATE_SERIES", "RANGE")
_REPLACING: Final = {"REPLACE": 2, "REGEXP_REPLACE": 2, "LEVENSHTEIN": 1}
"""Of which argument the length is multiplied with that of the first: as bytes, or as work."""
_SIZED: Final = (*_STRINGS, *_ARRAYS, *_SERIES)
_TIMES: Final = ("DATE", "TIME", "INTERVAL", "NOW", "TODAY", "CURRENT_", "TO_TIMESTAMP", "TO_DATE")
_VOLATILE: Final = ("RANDOM", "RAND")
_CLAUSES: Final = (
    *("SELECT", "FROM", "JOIN", "WHERE", "ON", "GROUP", "HAVING", "ORDER", "LIMIT", "QUALIFY"),
    *("WINDOW", "UNION", "EXCEPT", "INTERSECT", "VALUES", "USING"),
)
_SMALL: Final = 1000
"""Constants up to this are left alone, if no other of the functions is there."""
_LONG_QUERY: Final = 10_000
_MOST_NESTED: Final = 4


def register_size_checks(context: datafusion.SessionContext) -> None:
    """Make the functions that check sizes known to a context."""
    integer = pa.int64()
    check = datafusion.udf(_checked_size, [integer] * 2, integer, "volatile", _CHECK)
    check_stop = datafusion.udf(_checked_stop, [integer] * 4, integer, "volatile", _CHECK_STOP)
    context.register_udf(check)
    context.register_udf(check_stop)


def with_bounded_sizes(query: str) -> str:
    """Return a query in which arguments that say how large a result is are checked.

    Raises
    ------
    QueryError
        The functions are nested deeply, or a size is random.

    >>> with_bounded_sizes("SELECT repeat('x', 2000000000)")
    "SELECT repeat('x', daf_checked_size(2000000000, octet_length('x')))"
    """
    lowered = query.lower()
    if not any(name.lower() in lowered for name in (*_SIZED, *_REPLACING)):
        return query
    return _Rewriting(query).written()


def has_size_checks(query: str) -> bool:
    """Return whether arguments of a query are checked."""
    return _CHECK in query or _CHECK_STOP in query


class _Rewriting:
    """One query that is rewritten."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._tokens = tuple(tokens_of(query))
        self._ends = _closing_brackets(self._tokens)
        self._calls = _calls_of(self._tokens)
        sized = [name for name in self._calls.values() if name in _SIZED]
        arrays = [name for name in sized if name not in _STRINGS]
        # An array may be an item of another, which the SQL does not always show.
        power = len(arrays) if any(name in _ARRAYS for name in arrays) else 1
        most_items = int((_VALUE_BYTES / _ITEM_BYTES) ** (1 / power))
        self._item_bytes = _VALUE_BYTES // most_items
        is_recursive = any(token.is_word("RECURSIVE") for token in self._tokens)
        self._is_alone = len(self._calls) == 1 and not is_recursive
        self._checks_replacing = bool(sized) or len(query) > _LONG_QUERY

    def written(self) -> str:
        """Return the query as it is to be planned."""
        if not self._calls:
            return self._query
        start, stop = self._tokens[0].start, self._tokens[-1].stop
        inside = self._part(0, len(self._tokens), 0)
        return f"{self._query[:start]}{inside}{self._query[stop:]}"

    def _part(self, first: int, last: int, depth: int) -> str:
        """Return some tokens as SQL, with what is between them."""
        tokens, parts = self._tokens, []
        done, place = tokens[first].start, first
        while place < last:
            begin, end = place + 2, self._ends.get(place + 1, 0)
            if place not in self._calls or begin >= end:
                place += 1
                continue
            parts += [self._query[done : tokens[begin].start], self._arguments(place, depth)]
            done, place = tokens[end - 1].stop, end
        return "".join([*parts, self._query[done : tokens[last - 1].stop]])

    def _arguments(self, place: int, depth: int) -> str:
        """Return the arguments of a call, with its size checked."""
        name, spans = self._calls[place], self._spans(place + 2, self._ends[place + 1])
        if depth > _MOST_NESTED:
            raise errors.QueryError(
                f"{name.lower()}() is within more than {_MOST_NESTED} calls of functions that make "
                "large values; write a subquery for one of them"
            )
        written = [self._part(first, last, depth + 1) for first, last in spans]
        if name in _REPLACING:
            return ", ".join(self._replacing(written, _REPLACING[name]))
        sizes = spans if name in _SERIES else spans[1:2]
        if not sizes or (self._is_alone and all(self._is_small(*span) for span in sizes)):
            return ", ".join(written)
        inside = self._tokens[spans[0][0] : spans[-1][1]]
        if any(token.is_word(*_VOLATILE) for token in inside):
            raise errors.QueryError(
                f"random() within {name.lower()}() says how large a value is; compute it in a "
                "subquery"
            )
        if name in _SERIES:
            return ", ".join(self._series(written, inside))
        if name in _STRINGS:
            size = f"octet_length({written[0]})" if name == "REPEAT" else "1"
        else:
            size = str(max(self._item_bytes, *map(len, written)))
        return ", ".join([written[0], f"{_CHECK}({written[1]}, {size})", *written[2:]])

    def _replacing(self, written: list[str], factor: int) -> list[str]:
        if not self._checks_replacing or len(written) <= factor:
            return written
        check = f"{_CHECK}(octet_length({written[0]}), octet_length({written[factor]}))"
        checked = f"CASE WHEN {check} >= 0 THEN {written[factor]} END"
        return [*written[:factor], checked, *written[factor + 1 :]]

    def _series(self, written: list[str], inside: Sequence[Token]) -> list[str]:
        """Return the arguments of a series of numbers or times, with its end checked."""
        if len(written) == 1:
            return [f"{_CHECK_STOP}({written[0]}, 0, 1, {self._item_bytes})"]
        start, stop, step = [*written, "1"][:3]
        if any(token.kind == "string" or token.text.startswith(_TIMES) for token in inside):
            seconds = f"(to_unixtime({stop}) - to_unixtime({start})) / date_part('epoch', {step})"
            check = f"{_CHECK}(CAST(abs({seconds}) AS BIGINT), {self._item_bytes})"
            return [start, f"CASE WHEN {check} >= 0 THEN {stop} END", *written[2:]]
        return [
            start,
            f"{_CHECK_STOP}({stop}, {start}, {step}, {self._item_bytes})",
            *written[2:],
        ]

    def _spans(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return where each argument begins and ends."""
        spans, place, first = [], begin, begin
        while place < end:
            if self._tokens[place].is_operator(","):
                spans.append((first, place))
                first = place + 1
            place = max(self._ends.get(place, 0), place + 1)
        return [(start, stop) for start, stop in [*spans, (first, end)] if start < stop]

    def _is_small(self, first: int, last: int) -> bool:
        """Return whether an argument is a small number."""
        text = self._query[self._tokens[first].start : self._tokens[last - 1].stop]
        return text.isdecimal() and int(text[:9]) <= _SMALL


def _closing_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Return which token closes what each bracket opens."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.is_operator("(", "["):
            opened.append(place)
        elif token.is_operator(")", "]") and opened:
            ends[opened.pop()] = place
    return ends


def _calls_of(tokens: Sequence[Token]) -> dict[int, str]:
    """Return where the functions are called, by their names in capitals.

    A series that is a table, after FROM, is none: it is computed row by row.
    """
    calls: dict[int, str] = {}
    clauses = [""]
    for place, token in enumerate(tokens[:-1]):
        before = tokens[place - 1] if place else None
        if token.is_operator("("):
            is_call = before is not None and before.kind in ("word", "quoted")
            is_call = is_call and not (before and before.is_word(*_CLAUSES))
            clauses.append("CALL" if is_call else clauses[-1])
        elif token.is_operator(")") and len(clauses) > 1:
            clauses.pop()
        elif token.is_word(*_CLAUSES) and (clauses[-1] != "CALL" or token.is_word("SELECT")):
            clauses[-1] = token.text
        elif token.kind in ("word", "quoted") and tokens[place + 1].is_operator("("):
            name = identifier(token.text).upper()
            is_table = name in _SERIES and clauses[-1] in ("FROM", "JOIN")
            if name in (*_SIZED, *_REPLACING) and not is_table:
                calls[place] = name
    return calls


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
