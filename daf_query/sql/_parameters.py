"""Values for the parameters of a query: ``?``, ``$1`` and ``$name`` become literals.

They are replaced token by token, so nothing within a string, a quoted name or a comment is one, and
no value can become anything else than a value.  DataFusion can bind values itself, but plans
functions of a parameter without its type, and the checks of a query's text would not see them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.syntax import Token, check_names, tokens_of
from daf_storage import errors

Params: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""The values of the parameters of a query: in their order, or by name."""

_SMALLEST_INTEGER: Final = -(2**63)
_LARGEST_INTEGER: Final = 2**64 - 1
_TIME_UNITS: Final = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_ACCEPTED: Final = (
    "None, booleans, numbers, strings, bytes, dates and timestamps, and lists of them after IN"
)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One place of a query where a value is missing."""

    name: str
    """As in ``$name``; of ``?``, its number."""
    written: str
    """As it is written."""
    start: int
    """Where it begins."""
    stop: int
    """Where what it is replaced by ends: after the bracket, if it is alone in that of IN."""
    of_list: bool
    """Whether it stands for the values of a list."""
    is_bracketed: bool
    """Whether that list has its bracket already."""
    is_negated: bool
    """Whether it is a list of NOT IN."""


def bind(query: str, params: Params | None) -> str:
    """Return a query with values in place of its parameters.

    Raises
    ------
    QueryError
        The parameters and the values are not the same ones.
    InvalidInputError
        A value is of a type that SQL has no literal for.

    Examples
    --------
    >>> bind("SELECT name FROM cell WHERE age > $least", {"least": 60})
    'SELECT name FROM cell WHERE age > 60'
    >>> bind("SELECT ? AS quoted, '?' AS mark", ["it's"])
    "SELECT 'it''s' AS quoted, '?' AS mark"
    >>> bind("SELECT name FROM cell WHERE donor IN $donors", {"donors": ["N1", "N2"]})
    "SELECT name FROM cell WHERE donor IN ('N1', 'N2')"
    """
    return bind_all([query], params)[0]


def bind_all(queries: Sequence[str], params: Params | None) -> list[str]:
    """Return several parts of SQL with values in place of their parameters; each value is used.

    Values by position are for one of the parts alone.

    Raises
    ------
    QueryError, InvalidInputError
        As for `bind`.
    """
    for query in queries:
        if not isinstance(query, str):
            raise errors.InvalidInputError(
                f"a query or a condition is a string of SQL, not {type(query).__name__}"
            )
    if params is None and not any("$" in query or "?" in query for query in queries):
        return list(queries)
    for query in queries:
        check_names(query)
    parameters = [list(_parameters(query)) for query in queries]
    values = _values(params)
    _check(parameters, values, params)
    return [
        _substituted(query, asked, values) for query, asked in zip(queries, parameters, strict=True)
    ]


def placeholders(query: str) -> tuple[str, list[str]]:
    """Return a query with a placeholder of DataFusion for each parameter, and their names.

    The names are those of the values: numbers for ``?`` and ``$1``, in their order, or words.

    >>> placeholders("SELECT name FROM cell WHERE age > ? AND donor IN ?")
    ('SELECT name FROM cell WHERE age > $1 AND donor IN ($2)', ['1', '2'])
    >>> placeholders("SELECT $least, $most, $least")[1]
    ['least', 'most']
    """
    parts, names, position = [], list[str](), 0
    for parameter in _parameters(query):
        in_brackets = parameter.of_list and not parameter.is_bracketed
        written = f"(${parameter.name})" if in_brackets else f"${parameter.name}"
        parts += [query[position : parameter.start], written]
        position = parameter.start + len(parameter.written)
        if parameter.name not in names:
            names.append(parameter.name)
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    return "".join(parts) + query[position:], names


def literal(value: object) -> str:
    """Return a value as SQL writes it.

    >>> literal("N'3"), literal(-1.5), literal(None), literal(b"ab")
    ("'N''3'", '(-1.5)', 'NULL', "X'6162'")

    Raises
    ------
    InvalidInputError
        It is of a type that SQL has no literal for.
    """
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, np.datetime64):
        return _numpy_time(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return "NULL"
    for types, written in _LITERALS:
        if isinstance(value, types):
            return written(value)
    raise errors.InvalidInputError(
        f"a parameter of a query cannot be {type(value).__name__}; it can be {_ACCEPTED}"
    )


def _integer(value: int) -> str:
    if not _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
        raise errors.InvalidInputError(
            f"the parameter {value:,} does not fit into 64 bits; pass a float, or a string"
        )
    return str(value) if value >= 0 else f"({value})"  # x -$y must not begin a comment


def _float(value: float) -> str:
    if not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    written = repr(float(value))
    return f"({written})" if written.startswith("-") else written


def _string(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidInputError(
            f"the parameter {value!r} is no text: it has half of a surrogate pair"
        ) from None
    return "'" + value.replace("'", "''") + "'"


def _time(value: dt.date) -> str:
    written = value.isoformat()
    if not isinstance(value, dt.datetime):
        return f"DATE '{written}'"
    if written == "NaT":
        return "NULL"
    unit = "Nanosecond" if getattr(value, "nanosecond", 0) else "Microsecond"
    zone = "None" if value.tzinfo is None else 'Some("+00:00")'
    return f"arrow_cast('{written}', 'Timestamp({unit}, {zone})')"


def _numpy_time(value: np.datetime64) -> str:
    if np.isnat(value):
        return "NULL"
    unit = np.datetime_data(value.dtype)[0]
    if unit not in _TIME_UNITS:
        return f"DATE '{value.astype('datetime64[D]')}'"
    return f"arrow_cast('{value}', 'Timestamp({_TIME_UNITS[unit]}, None)')"


_LITERALS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, _integer),
    (float, _float),
    (str, _string),
    ((bytes, bytearray, memoryview), lambda value: f"X'{bytes(value).hex()}'"),
    (dt.date, _time),
)
"""How values are written, by type; the first that fits."""


def _parameters(query: str) -> Iterator[_Parameter]:
    tokens = list(tokens_of(query))
    number = 0
    for place, token in enumerate(tokens):
        if token.kind != "parameter":
            continue
        number += token.text == "?"
        name = str(number) if token.text == "?" else query[token.start + 1 : token.stop]
        yield _parameter(tokens, place, name, query[token.start : token.stop])


def _parameter(tokens: Sequence[Token], place: int, name: str, written: str) -> _Parameter:
    """Return a parameter with what is known from the tokens around it."""
    before = tokens[max(0, place - 3) : place][::-1]
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    is_bracketed = (
        len(before) > 1
        and before[0].is_operator("(")
        and before[1].is_word("IN")
        and after is not None
        and after.is_operator(")")
    )
    around = before[2:] if is_bracketed else before[1:]
    return _Parameter(
        name,
        written,
        tokens[place].start,
        after.stop if is_bracketed and after is not None else tokens[place].stop,
        of_list=is_bracketed or (bool(before) and before[0].is_word("IN")),
        is_bracketed=is_bracketed,
        is_negated=bool(around) and around[0].is_word("NOT"),
    )


def _values(params: Params | None) -> dict[str, Any]:
    if params is None:
        return {}
    if isinstance(params, Mapping):
        return {str(name): value for name, value in params.items()}
    if isinstance(params, list | tuple):
        return {str(number): value for number, value in enumerate(params, 1)}
    raise errors.InvalidInputError(
        "params= is a list of values for ? or $1, or a mapping of names to values for $name, not "
        f"{type(params).__name__}"
    )


def _check(
    parameters: Sequence[Sequence[_Parameter]], values: Mapping[str, Any], params: Params | None
) -> None:
    """Raise unless the parameters and the values are the same ones."""
    everything = [parameter for each in parameters for parameter in each]
    by_position = [parameter for parameter in everything if parameter.written == "?"]
    if by_position and len(by_position) < len(everything):
        other = next(parameter.written for parameter in everything if parameter.written != "?")
        raise errors.QueryError(f"the query has parameters ? and {other}; use one or the other")
    is_positional = params is not None and not isinstance(params, Mapping)
    if (is_positional or by_position) and sum(map(bool, parameters)) > 1:
        raise errors.QueryError(
            "rows= and columns= both have parameters, so say by name which value belongs to which: "
            "$name, and params={'name': value}"
        )
    asked = {parameter.name for parameter in everything}
    if asked != values.keys() or (by_position and params is not None and not is_positional):
        written = list(dict.fromkeys(parameter.written for parameter in everything))
        shown = (
            _counted(len(by_position), "parameter") + " (?)" if by_position else _listed(written)
        )
        raise errors.QueryError(f"the query has {shown}, and params= has {_given(values, params)}")


def _listed(written: Sequence[str]) -> str:
    if not written:
        return "no parameters"
    return f"the parameter{'s' * (len(written) > 1)} {', '.join(written)}"


def _given(values: Mapping[str, Any], params: Params | None) -> str:
    if isinstance(params, Mapping):
        return f"values for {errors.known_names(values, none='none')}"
    return _counted(len(values), "value")


def _counted(count: int, what: str) -> str:
    """Return a number of things.

    >>> _counted(1, "parameter"), _counted(2, "parameter")
    ('1 parameter', '2 parameters')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def _substituted(query: str, parameters: Sequence[_Parameter], values: Mapping[str, Any]) -> str:
    parts, position = [], 0
    for parameter in parameters:
        value = values[parameter.name]
        items = _items(value)
        parts.append(query[position : parameter.start])
        if items is not None:
            parts.append(_list(parameter, items))
            position = parameter.stop
        elif parameter.of_list and not parameter.is_bracketed:
            raise errors.QueryError(
                f"IN {parameter.written} needs a list of values, not {type(value).__name__}"
            )
        else:
            parts.append(literal(value))
            position = parameter.start + len(parameter.written)
    return "".join(parts) + query[position:]


def _items(value: Any) -> list[Any] | None:
    """Return the values of a list, an array or a set; None of anything else."""
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=repr)
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return list(value.to_pylist())
    for method in ("to_list", "tolist"):  # of polars, pandas and numpy
        if hasattr(value, method) and not isinstance(value, np.generic | memoryview):
            items = getattr(value, method)()
            return items if isinstance(items, list) else None
    return None


def _list(parameter: _Parameter, items: Sequence[Any]) -> str:
    if not parameter.of_list:
        raise errors.QueryError(
            f"the parameter {parameter.written} is a list, which can only stand after IN"
        )
    opening = "" if parameter.is_bracketed else "("
    if items:
        return opening + ", ".join(literal(item) for item in _with_both_zeros(items)) + ")"
    # IN of nothing is false, and NOT IN true, also for NULL; SQL has no empty list.
    return f"{opening}NULL) IS {'NOT FALSE' if parameter.is_negated else 'TRUE'}"


def _with_both_zeros(items: Sequence[Any]) -> Sequence[Any]:
    """Return values for IN, with 0.0 and -0.0 if one is among them: the engine tells them apart.

    >>> _with_both_zeros([0.5, -0.0]), _with_both_zeros([0, 1])
    ([0.5, -0.0, 0.0, -0.0], [0, 1])
    """
    has_zero = any(isinstance(item, float | np.floating) and item == 0 for item in items)
    return [*items, 0.0, -0.0] if has_zero else items
