"""Values for the parameters of a query: ``?``, ``$1`` and ``$name`` become literals.

Nothing within a string, a quoted name or a comment is one, and no value can become anything else
than a value.  DataFusion can bind values itself, but plans functions of a parameter without its
type, and the rules over a query would not see them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.sql._planning import datafusion, schema_of
from daf_query.syntax import Edit, Placeholder, edited, placeholders, quoted_string
from daf_storage import DafError, errors

Params: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""The values of the parameters of a query: in their order, or by name."""

_INTEGERS: Final = range(-(2**63), 2**64)
_TIME_UNITS: Final = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_DAYS: Final = ("Y", "M", "W", "D")
_ACCEPTED: Final = (
    "None, booleans, numbers, strings, bytes, dates and timestamps, and lists of them after IN"
)


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
    return bind_all([text_of_query(query)], params)[0]


def text_of_query(query: object) -> str:
    """Return a query if it is a string.

    Raises
    ------
    InvalidInputError
        It is something else.
    """
    if isinstance(query, str):
        return query
    raise errors.InvalidInputError(
        f"a query or a condition is a string of SQL, not {type(query).__name__}"
    )


def bind_all(queries: Sequence[str], params: Params | None) -> list[str]:
    """Return several parts of SQL with values in place of their parameters; each value is used.

    Values by position are for one of the parts alone.

    Raises
    ------
    QueryError, InvalidInputError
        As for `bind`.
    """
    requested = [placeholders(query) for query in queries]
    if isinstance(params, Mapping):
        values = {str(name): value for name, value in params.items()}
    elif params is None or isinstance(params, list | tuple):
        values = {str(number): value for number, value in enumerate(params or (), 1)}
    else:
        raise errors.InvalidInputError(
            "params= is a list of values for ? or $1, or a mapping of names to values for $name, "
            f"not {type(params).__name__}"
        )
    _check(requested, values, params)
    return [
        edited(query, [Edit(p.start, p.stop, _written(p, values[p.name])) for p in found])
        for query, found in zip(queries, requested, strict=True)
    ]


def unbound(query: str) -> tuple[str, list[str]]:
    """Return a query with a placeholder of DataFusion for each parameter, and their names.

    The names are those of the values: numbers for ``?`` and ``$1``, in their order, or words.

    >>> unbound("SELECT name FROM cell WHERE age > ? AND donor IN ?")
    ('SELECT name FROM cell WHERE age > $1 AND donor IN ($2)', ['1', '2'])
    >>> unbound("SELECT $least, $most, $least")[1]
    ['least', 'most']
    """
    found = placeholders(query)
    names = list(dict.fromkeys(each.name for each in found))
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    edits = [Edit(p.start, p.stop, f"(${p.name})" if p.of_list else f"${p.name}") for p in found]
    return edited(query, edits), names


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
    value = value[()] if isinstance(value, np.ndarray) else value  # without dimensions
    value = None if type(value).__name__ == "NAType" else value  # of pandas
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int() | float():
            return _number(value)
        case Decimal():
            return _decimal(value)
        case str():
            return _string(value)
        case bytes() | bytearray() | memoryview():
            return f"X'{bytes(value).hex()}'"
        case dt.date() | np.datetime64():
            return _time(value)
    raise errors.InvalidInputError(
        f"a parameter of a query cannot be {type(value).__name__}; it can be {_ACCEPTED}"
    )


def _number(value: float) -> str:
    if isinstance(value, int) and value not in _INTEGERS:
        raise errors.InvalidInputError(
            f"the parameter {value:,} does not fit into 64 bits; pass a float, or a string"
        )
    if not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    written = str(value)
    return f"({written})" if written.startswith("-") else written  # x -$y must not begin a comment


def _decimal(value: Decimal) -> str:
    """Return a decimal: as a float, which columns of floats are compared with, if that is exact.

    >>> _decimal(Decimal("-0.050")), _decimal(Decimal("12345678901234567.89"))
    ('(-0.05)', "CAST('12345678901234567.89' AS DECIMAL(19, 2))")
    """
    number = math.nan if value.is_nan() else float(value)
    if not value.is_finite() or (Decimal(repr(number)) == value and abs(number) < 2**53):
        return _number(number)
    if max(abs(value.adjusted()), len(value.as_tuple().digits)) > 38:
        raise errors.InvalidInputError(f"{value} is more than a decimal can have; pass a float")
    whole, _, fraction = f"{value:f}".lstrip("-0").partition(".")
    return f"CAST('{value:f}' AS DECIMAL({len(whole + fraction)}, {len(fraction)}))"


def _string(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidInputError(
            f"the parameter {value!r} is no text: it has half of a surrogate pair"
        ) from None
    return quoted_string(value)


def _time(value: Any) -> str:
    zone = "None"
    if getattr(value, "tzinfo", None) is not None:
        zone, value = 'Some("+00:00")', value.astimezone(dt.UTC).replace(tzinfo=None)
    moment = value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)
    unit = np.datetime_data(moment.dtype)[0]
    if np.isnat(moment):
        return "NULL"
    if unit in _DAYS:
        return f"DATE '{moment.astype('datetime64[D]')}'"
    if unit not in _TIME_UNITS:  # hours and minutes
        unit, moment = "s", moment.astype("datetime64[s]")
    return f"arrow_cast('{moment}', 'Timestamp({_TIME_UNITS[unit]}, {zone})')"


def _check(
    requested: Sequence[Sequence[Placeholder]], values: Mapping[str, Any], params: Params | None
) -> None:
    """Raise unless the parameters and the values are the same ones."""
    written = {each.written: each.name for found in requested for each in found}
    names = {each.name for found in requested for each in found}
    others = [each for each in written if each != "?"]
    if "?" in written and others:
        raise errors.QueryError(f"the query has parameters ? and {others[0]}; use one or the other")
    is_named = isinstance(params, Mapping)
    if ((params is not None and not is_named) or "?" in written) and sum(map(bool, requested)) > 1:
        raise errors.QueryError(
            "rows= and columns= both have parameters, so say by name which value belongs to which: "
            "$name, and params={'name': value}"
        )
    if names == values.keys() and not ("?" in written and is_named):
        return
    shown, s = ", ".join(written), "s" * (len(written) > 1)
    has = f"the parameter{s} {shown}" if written else "no parameters"
    if "?" in written:
        unquoted = " without quotes" * (params is None)
        has = f"{len(names)} parameter{'s' * (len(names) > 1)} (?){unquoted}"
    given = f"{len(values)} value{'s' * (len(values) != 1)}"
    given = f"values for {errors.shown_names(values)}" if is_named else given
    given = "no values" if params is None else f"params= has {given}"
    lacking = [name for name in written.values() if name not in values and not name.isdecimal()]
    is_told = lacking and (is_named or params is None)
    remedy = errors.Remedy("pass ", "params=", f"{{'{lacking[0]}': ...}}") if is_told else None
    raise errors.with_remedy(errors.QueryError(f"the query has {has}, and {given}"), remedy)


def _written(parameter: Placeholder, value: Any) -> str:
    """Return what stands for a parameter."""
    items = _items(value)
    if items is None and parameter.of_list and not parameter.is_bracketed:
        raise errors.QueryError(
            f"IN {parameter.written} needs a list of values, not {type(value).__name__}"
        )
    if items is not None and not parameter.of_list:
        raise errors.QueryError(
            f"the parameter {parameter.written} is a list, which can only stand after IN"
        )
    if items is None:
        return f"({literal(value)})" if parameter.is_bracketed else literal(value)
    if items:  # with 0.0 and -0.0 if one is among them: the engine tells them apart
        has_zero = any(isinstance(item, float | np.floating) and item == 0 for item in items)
        return f"({', '.join(map(literal, [*items, *(0.0, -0.0) * has_zero]))})"
    # IN of nothing is false, and NOT IN true, also for NULL; SQL has no empty list.
    return f"(NULL) IS {'NOT FALSE' if parameter.is_negated else 'TRUE'}"


def _items(value: Any) -> list[Any] | None:
    """Return the values of a list, an array, a series or a set; None of anything else.

    NaN among strings is how pandas writes a missing one.
    """
    is_one = isinstance(value, str | bytes | bytearray | memoryview | Mapping | pa.Scalar)
    if is_one or getattr(value, "ndim", 1) == 0 or not isinstance(value, Iterable):
        return None
    items = sorted(value, key=repr) if isinstance(value, AbstractSet) else list(value)
    if any(isinstance(item, str) for item in items):
        return [None if isinstance(item, float) and math.isnan(item) else item for item in items]
    return items


_EXPRESSIONS: Final = (
    *("projections", "predicate", "on", "filter"),
    *("group_by_exprs", "aggregate_exprs", "sort_exprs"),
)
"""Methods of nodes that return expressions."""
_LEAVES: Final = ("Column", "Literal", "ScalarVariable")
"""Expressions that the bindings give as operands of themselves."""


def unbound_schemas(
    plan: Callable[[str], datafusion.DataFrame], query: str
) -> tuple[pa.Schema | None, pa.Schema]:
    """Return the columns of a query without the values of its parameters, and its parameters.

    The columns are None where they depend on the values.  A parameter of which nothing is known is
    a string.
    """
    numbered, names = unbound(query)
    columns, types = None, dict[str, pa.DataType]()
    try:
        frame = plan(numbered)
        columns, types = schema_of(frame), dict(_types(frame))
    except DafError:
        if not names:
            raise
    return columns, pa.schema([(name, types.get(name, pa.string())) for name in names])


def _types(frame: datafusion.DataFrame) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the names of the parameters of a plan with their types, where they are known."""
    stack: list[Any] = [frame.logical_plan()]
    while stack:
        each = stack.pop()
        if isinstance(each, list | tuple):
            stack.extend(each)
            continue
        is_expression = hasattr(each, "variant_name")
        try:
            stack += [] if is_expression else each.inputs()
            if is_expression and each.variant_name() not in (*_LEAVES, "Placeholder"):
                stack.extend(each.rex_call_operands())
                continue
            variant = each.to_variant()
        except Exception:  # noqa: BLE001, S112 - what the bindings have no class for
            continue
        if not is_expression:
            stack += [getattr(variant, name)() for name in _EXPRESSIONS if hasattr(variant, name)]
        elif each.variant_name() == "Placeholder" and variant.field() is not None:
            yield str(variant.id()).removeprefix("$"), variant.field().type
