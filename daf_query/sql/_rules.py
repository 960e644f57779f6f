"""Changes of a query before it is planned: values of its parameters, and rules.

*Parameters.*  ``?``, ``$1`` and ``$name`` become literals.  Nothing within a string, a quoted name
or a comment is one, and no value can become anything else than a value.  DataFusion can bind values
itself, but plans functions of a parameter without its type, and the rules would not see them.

*Rules* are over what the engine answers wrongly for ordinary queries, or ends at.

*Limits.*  The engine hands the order of a query to what is below, past LIMIT and OFFSET of a
subquery: rows are lost, or others are the first ones.  It does not pass a condition that is true
for each row.  Of a subquery that only passes over rows it forgets the order, so that one gets a
limit as well.  It hands a condition on a constant to what is below, past an aggregate of all rows,
which still has a row: ``(SELECT 'a' AS kind, count(*) FROM t) WHERE kind = 'b'``.  A limit
alone stops it: beside a condition, the engine fails at joins of two such rows that are sorted.

*Lists.*  Its simplifier treats two lists for one expression as sets: it makes ``x IN (1, 2) AND x
NOT IN (2, NULL)`` into ``x IN (1)``, without regard to NULL, to columns within a list, and to rows
in which ``x`` is missing.  ``(x = 1 OR x = 2)`` is such a list, and so is ``x ~ '^(1|2)$'``.  A
cast to BOOLEAN, which a list is anyway, hides it from the simplifier, and from the tables.

*Narrow integers.*  The engine computes in the type of the columns, in which 2 - 3 is 255 if it is
UInt8: tables have what a query computes with in 64 bits.  Constants widen by themselves.

*Categories.*  The engine sorts dictionaries by their values, so what ORDER BY names is replaced by
the place of each value among the categories of a column, which may be given by its name, by one
that the query gives to it, or by its position.  Where such a name is that of an expression, too, or
DISTINCT forbids another key, the values are sorted as strings, with a warning.

*Sizes.*  The engine makes values such as ``repeat('x', 2000000000)`` without looking at limits of
time and memory, constants even while it plans, for some of them with Python's lock held: a whole
server waits, panics, or ends.  So sizes go through a function that checks them, and that is
volatile, so that nothing is computed early.

Columns go by names here: of several with one name, what is true of one is taken to be true of all.
What is listed in ``docs/reference/limits.md`` stays as it is.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.sql._connections import AxisSchema
from daf_query.sql._planning import MOST_ROWS, datafusion, new_context, schema_of
from daf_query.syntax import (
    Edit,
    Node,
    Number,
    Placeholder,
    Query,
    Scope,
    Statement,
    arguments_of,
    constant_of,
    edited,
    function_name,
    identifiers_of,
    is_query,
    item_of,
    kind_of,
    name_of_column,
    names_in,
    parsed,
    placeholders,
    quoted_name,
    quoted_string,
    walk,
    whole_number_of,
)
from daf_query.table import category_columns
from daf_storage import DafError, errors
from daf_storage._lazy import pc
from daf_storage.anndata import recorded_types

Params: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""The values of the parameters of a query: in their order, or by name."""

_INTEGERS: Final = range(-(2**63), 2**64)
_TIME_UNITS: Final = ("s", "ms", "us", "ns")
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
    """Return a date or a time as SQL writes it.

    >>> [_time(each) for each in (dt.date(2024, 1, 2), np.datetime64("2024"), np.datetime64("NaT"))]
    ["DATE '2024-01-02'", "DATE '2024-01-01'", 'NULL']
    >>> _time(np.datetime64("2024-01-02T03", "h"))
    "arrow_cast('2024-01-02T03:00:00', 'Timestamp(s)')"
    """
    zone = ""
    if getattr(value, "tzinfo", None) is not None:
        zone, value = ', "+00:00"', value.astimezone(dt.UTC).replace(tzinfo=None)
    moment = value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)
    unit = np.datetime_data(moment.dtype)[0]
    if np.isnat(moment):
        return "NULL"
    if unit in _DAYS:
        return f"DATE '{moment.astype('datetime64[D]')}'"
    unit = unit if unit in _TIME_UNITS else "s"  # hours and minutes
    return f"arrow_cast('{moment.astype(f'datetime64[{unit}]')}', 'Timestamp({unit}{zone})')"


def _check(
    requested: Sequence[Sequence[Placeholder]], values: Mapping[str, Any], params: Params | None
) -> None:
    """Raise unless the parameters and the values are the same ones."""
    found = list(itertools.chain(*requested))
    written, names = {each.written: each.name for each in found}, {each.name for each in found}
    has_marks, is_named = "?" in written, isinstance(params, Mapping)
    is_listed = params is not None and not is_named
    if has_marks and len(written) > 1:
        other = next(each for each in written if each != "?")
        raise errors.QueryError(f"the query has parameters ? and {other}; use one or the other")
    if (is_listed or has_marks) and sum(map(bool, requested)) > 1:
        raise errors.QueryError(
            "rows= and columns= both have parameters, so say by name which value belongs to which: "
            "$name, and params={'name': value}"
        )
    if names == values.keys() and not (has_marks and is_named):
        return
    has = f"the parameter{'s' * (len(written) > 1)} {', '.join(written)}"
    if has_marks:
        unquoted = " without quotes" * (params is None)
        has = f"{len(names)} parameter{'s' * (len(names) > 1)} (?){unquoted}"
    given = f"params= has {len(values)} value{'s' * (len(values) != 1)}"
    if not is_listed:
        given = f"params= has values for {errors.shown_names(values)}" if is_named else "no values"
    lacking = [name for name in written.values() if name not in values and not name.isdecimal()]
    remedy = errors.Remedy("pass ", "params=", f"{{'{lacking[0]}': ...}}") if lacking else None
    message = f"the query has {has if written else 'no parameters'}, and {given}"
    raise errors.with_remedy(errors.QueryError(message), None if is_listed else remedy)


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
    """Return the values of a list, a flat array, a series or a set; None of anything else.

    NaN among strings is how pandas writes a missing one.

    >>> _items(("a", math.nan)), _items({3, 1}), _items(np.array([1.5])), _items([math.nan])
    (['a', None], [1, 3], [np.float64(1.5)], [nan])
    >>> [_items(each) for each in ("ab", b"ab", {"a": 1}, np.ones((1, 1)), np.array(1), 5)]
    [None, None, None, None, None, None]
    """
    is_one = isinstance(value, str | bytes | bytearray | memoryview | Mapping | pa.Scalar)
    if is_one or getattr(value, "ndim", 1) != 1 or not isinstance(value, Iterable):
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


def given_names(
    statement: Statement, *, of_value: bool = False
) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Yield the names that the queries of a statement give to expressions.

    Each with the names of the columns in it, and whether it is nothing but a column.
    """
    named = [(query.column_names, query) for query in statement.queries]
    named += [(s.column_names, s.query) for s in statement.sources if s.query is not None]
    for names, query in named:  # by position: any may be that of any
        projections = [scope.select["projection"] for scope in query.scopes if names]
        columns = names_in(projections, of_value=of_value)
        yield from ((name, columns, False) for name in names)
    for scope in statement.scopes:
        for item in scope.select["projection"]:
            expression, name = item_of(item)
            if name is not None:
                is_column = name_of_column(expression) is not None
                yield name, names_in(expression, of_value=of_value), is_column


def corrections(statement: Statement) -> Iterator[Edit]:
    """Yield what to write instead.

    The engine takes the column of ``x >= ALL (SELECT x FROM t)`` for that of the query around, so
    it gets another name; ``nvl`` and ``ifnull`` make floats of unsigned integers.  It takes a
    subquery of one value for one that is never NULL where its column is not, such as ``count(*)``:
    it may have no row.  What ``nullif`` returns may be NULL.  NULL in the subquery of NOT IN is
    passed over where that names columns of the query around it: as a derived table it cannot.

    Raises
    ------
    QueryError
        The engine takes too much for the right side of IS DISTINCT FROM.

    Examples
    --------
    >>> from daf_query.syntax import edited, parsed
    >>> query = "SELECT n FROM t WHERE n >= ALL (SELECT n FROM t)"
    >>> print(edited(query, corrections(parsed(query))))
    SELECT n FROM t WHERE n >= ALL (SELECT n AS "__quantified_0" FROM t)
    """
    numbers = itertools.count()
    apart = {
        id(item.get("UnnamedExpr")) for s in statement.scopes for item in s.select["projection"]
    }
    for _, node in statement.nodes:
        match node:
            case {"Function": {"name": name}} if function_name(node) in ("nvl", "ifnull"):
                yield Edit(*statement.span(name), "coalesce")
            case {"Subquery": query} if id(node) not in apart:
                pair = statement.brackets_of(query)
                yield Edit(pair.opening, pair.opening, "nullif(")
                yield Edit(pair.closing + 1, pair.closing + 1, ", NULL)")
            case {"AnyOp": {"right": right}} | {"AllOp": {"right": right}}:
                apart.update(map(id, walk(right)))
                for query in [each for each in walk(right) if is_query(each)][:1]:
                    name = quoted_name(f"__quantified_{next(numbers)}")
                    yield from _named(statement, query, name)
            case {"InSubquery": {"subquery": query, "negated": True}}:
                yield from _selecting(statement, query, "\n) AS __quantified")
            case {"IsDistinctFrom": [_, {"BinaryOp": {"op": "And" | "Or" as operator}}]} | {
                "IsNotDistinctFrom": [_, {"BinaryOp": {"op": "And" | "Or" as operator}}]
            }:
                raise errors.QueryError(
                    f"IS DISTINCT FROM ... {operator.upper()} is refused: the engine takes all "
                    "that follows for the right side of the comparison; write "
                    f"(a IS DISTINCT FROM b) {operator.upper()} ..."
                )


def _named(statement: Statement, query: Node, name: str) -> Iterator[Edit]:
    """Yield a name of its own for the column of a subquery."""
    items = query["body"]["Select"]["projection"] if "Select" in query["body"] else [{}]
    parts = identifiers_of(items[0].get("UnnamedExpr", {}))
    if parts is not None:
        stop = statement.span(parts)[1]
        yield Edit(stop, stop, f" AS {name}")
    elif kind_of(items[0]) != "UnnamedExpr":  # a derived table is of no use where it is correlated
        yield from _selecting(statement, query, f"\n) AS quantified({name})")


def _selecting(statement: Statement, query: Node, rest: str) -> Iterator[Edit]:
    """Yield what makes a query in brackets the table of another."""
    pair = statement.brackets_of(query)
    yield Edit(pair.opening + 1, pair.opening + 1, "SELECT * FROM (")
    yield Edit(pair.closing, pair.closing, rest)


_SETS = ("Rollup", "Cube", "GroupingSets")


def limit_barriers(statement: Statement) -> Iterator[Edit]:
    r"""Yield a limit and a condition for each query that nothing around it may pass.

    >>> from daf_query.syntax import edited
    >>> query = "SELECT n FROM (SELECT n FROM t LIMIT 3) ORDER BY n"
    >>> edited(query, limit_barriers(parsed(query)))
    'SELECT n FROM (SELECT * FROM (SELECT n FROM t LIMIT 3\n) WHERE random() >= 0.0) ORDER BY n'
    """
    for query in (each for each in statement.queries if each.is_source):
        clause = query.node["limit_clause"]
        is_limited = clause and clause.get("LimitOffset", {"limit": clause})["limit"]
        limit = "" if is_limited else f"\nLIMIT {MOST_ROWS}"
        if clause is not None:
            yield from _selecting(statement, query.node, f"{limit}\n) WHERE random() >= 0.0")
        elif any(map(_has_total, query.scopes)):
            end = statement.brackets_of(query.node).closing
            yield Edit(end, end, limit)


def _has_total(scope: Scope) -> bool:
    """Return whether a SELECT aggregates without groups: it has a row even where it reads none."""
    select = scope.select
    keys = select["group_by"].get("Expressions", [select])[0]
    parts = walk([select["projection"], select["having"]], into_queries=False)
    aggregates = (each["Function"] for each in parts if function_name(each) in _aggregates())
    is_total = not all(each["over"] for each in aggregates)
    return is_total if not keys else any(kind_of(each) in _SETS for each in keys)


@cache
def _aggregates() -> frozenset[str]:
    """Return the names of the aggregates of the engine."""
    return frozenset(new_context("", memory_bytes=None).udafs())


_PATTERNS: Final = ("PGRegexMatch", "PGRegexNotMatch", "PGRegexIMatch", "PGRegexNotIMatch")


def list_barriers(statement: Statement, *, is_part: bool = False) -> Iterator[Edit]:
    """Yield a cast, which merges with nothing, for each of several lists.

    What such lists imply is handed to the tables as for other conditions that the engine keeps.

    Parameters
    ----------
    is_part
        Conditions of other queries may meet those of this one: it is a view, or names one.

    Examples
    --------
    >>> from daf_query.syntax import edited
    >>> query = "SELECT * FROM t WHERE x IN (1) AND x NOT IN (2, NULL)"
    >>> edited(query, list_barriers(parsed(query)))
    'SELECT * FROM t WHERE x IN (1)::BOOLEAN AND x NOT IN (2, NULL)::BOOLEAN'
    >>> [*list_barriers(parsed("SELECT * FROM t WHERE x IN (1)"))]
    []
    """
    lists = [each for node in statement.nodes for each in _lists(statement, *node)]
    if is_part or len(lists) > 1:
        yield from itertools.chain(*lists)


def _lists(statement: Statement, scope: Scope | None, node: Node) -> Iterator[tuple[Edit, ...]]:
    """Yield what hides a node that is a list: IN, a pattern, or ``(x = 1 OR x = 2)`` in brackets.

    A chain that no brackets are around, and that is no item of SELECT, is beside nothing that it
    could be merged with wrongly; a pattern cannot be hidden.
    """
    match node:
        case {"InList": {"list": listed}}:
            pairs = statement.around(statement.span(listed)[0])
            stop = next(pair for pair in pairs if pair.before == "IN").closing + 1
            yield (Edit(stop, stop, "::BOOLEAN"),)
        case {"BinaryOp": {"op": str() as op}} if op in _PATTERNS:
            yield ()
        case {"Nested": inner} if _is_list(inner):
            start, end = statement.span(inner)
            stop = next(pair for pair in statement.around(start) if pair.closing >= end).closing + 1
            yield (Edit(stop, stop, "::BOOLEAN"),)
        case {"UnnamedExpr": _} | {"ExprWithAlias": _} if scope is not None:
            is_grouped = any(scope.select["group_by"].get("Expressions", "*"))
            if not is_grouped and _is_list(item_of(node)[0]):
                start, stop = statement.item(node)
                yield Edit(start, start, "("), Edit(stop, stop, ")::BOOLEAN")


def _is_list(node: Node) -> bool:
    """Return whether OR joins comparisons with =, or AND such with <>, so that they are a list."""
    joining = node.get("BinaryOp", {}).get("op")
    count, stack = 0, [node]
    while stack:
        match stack.pop():
            case {"Nested": inner}:
                stack.append(inner)
            case {"BinaryOp": {"op": op, "left": left, "right": right}} if op == joining:
                stack += [left, right]
            case {"BinaryOp": {"op": op}}:
                count += op == ("Eq" if joining == "Or" else "NotEq")
            case {"Like": {"negated": negated}} | {"ILike": {"negated": negated}}:
                count += negated == (joining == "And")
    return count > 1


_WRAPPING: Final = ("Plus", "Minus", "Multiply", "Modulo", "PGBitwiseShiftLeft")
_RANKS: Final = ("rank", "dense_rank", "row_number", "ntile")


def computed_names(statements: Sequence[Statement]) -> frozenset[str]:
    """Return the names of columns that queries, and the views that they name, compute with.

    >>> from daf_query.syntax import parsed
    >>> query = "SELECT p - b AS d, c + 1 FROM (SELECT a AS p, * FROM cell)"
    >>> sorted(computed_names([parsed(query)]))
    ['a', 'b', 'p']
    """
    nodes = [node for statement in statements for _, node in statement.nodes]
    names, before = names_in(list(map(_operands, nodes)), of_value=True), frozenset[str]()
    given = [each for s in statements if names for each in given_names(s, of_value=True)]
    while names != before:
        names, before = (
            names.union(*(columns for name, columns, _ in given if name in names)),
            names,
        )
    return names


def signed_ranks(statement: Statement) -> Iterator[Edit]:
    """Yield a cast for each rank: the engine has unsigned ones, and some are subtracted."""
    ranks = (n["Function"] for _, n in statement.nodes if function_name(n) in _RANKS)
    for rank in (each for each in ranks if each["over"]):
        start, named = statement.span(rank["name"])[0], rank["over"].get("NamedWindow")
        overs = (p for p in statement.brackets if p.before == "OVER" and p.opening > start)
        stop = statement.span(named)[1] if named else next(overs).closing + 1
        yield from (Edit(start, start, "CAST("), Edit(stop, stop, " AS BIGINT)"))


def _operands(node: Node) -> list[Node]:
    """Return what is computed with each other, or changes its sign."""
    match node:
        case {"BinaryOp": {"op": str() as op, "left": left, "right": right}} if op in _WRAPPING:
            return [] if _is_number(left) or _is_number(right) else [left, right]
        case {"UnaryOp": {"op": "Minus", "expr": operand}}:
            return [operand]
    return arguments_of(node) if function_name(node) == "abs" else []


def _is_number(node: Node) -> bool:
    while "Nested" in node or "UnaryOp" in node:
        node = node["Nested"] if "Nested" in node else node["UnaryOp"]["expr"]
    return isinstance(constant_of(node), Number)


_ORDER: Final = "category_order"


def register_category_order(
    context: datafusion.SessionContext, schemas: Mapping[str, AxisSchema]
) -> None:
    """Make ``category_order('cell.stage', stage)`` a function of SQL.

    The engine sorts strings and dictionaries by their values: ORDER BY needs a number.
    """

    def category_order(names: pa.Array, values: pa.Array) -> pa.Array:
        if not len(names):
            return pa.array([], pa.int32())
        categories = _categories(schemas, str(names[0]))
        places = pc.index_in(values, value_set=categories)
        after = pa.scalar(len(categories), pa.int32())  # of values that are no category
        return pc.if_else(pc.and_(pc.is_null(places), pc.is_valid(values)), after, places)

    function = datafusion.udf(
        category_order, [pa.string(), pa.string()], pa.int32(), "stable", _ORDER
    )
    context.register_udf(function)


def _categories(schemas: Mapping[str, AxisSchema], name: str) -> pa.Array:
    """Return the categories of ``axis.column``, or of ``schema.axis.column``."""
    by_column: dict[str, pa.Array] = {}
    for schema in (each for each in schemas.values() if not each.is_collection):
        for axis in sorted(schema.axes_set()):
            for column, recorded in recorded_types(schema.only.daf, axis).items():
                if recorded.categories is not None:
                    by_column.setdefault(f"{axis}.{column}", recorded.categories)
                    by_column[f"{schema.name}.{axis}.{column}"] = recorded.categories
    if name not in by_column:
        has = errors.choices(name, [each for each in by_column if each.count(".") == 1])
        raise errors.QueryError(
            f"{_ORDER}() knows no categories of {name!r}; there are those of {has}"
        )
    return by_column[name]


_KEY: Final = "with_fill"
"""What only items of ORDER BY have."""


class AlphabeticalOrderWarning(errors.DafWarning):
    """A query sorts a categorical as strings, since its order is not known at this place."""


def category_keys(
    statement: Statement, categoricals: Mapping[str, str | None], views: Sequence[Statement] = ()
) -> Iterator[Edit]:
    """Yield what to sort by, so that categoricals are in the order of their categories.

    Parameters
    ----------
    categoricals
        What `category_order` calls the categories of each column; None if tables differ in them.
    views
        Those that it names; they may give names, too.

    Warns
    -----
    AlphabeticalOrderWarning
        Something that is sorted by has the name of a categorical, and may not be it.

    Examples
    --------
    >>> from daf_query.syntax import edited, parsed
    >>> query = "SELECT * FROM obs ORDER BY stage DESC"
    >>> print(edited(query, category_keys(parsed(query), {"stage": "obs.stage"})))
    SELECT * FROM obs ORDER BY category_order('obs.stage', "stage") DESC
    """
    categorical_of: dict[str, str | None] = dict(categoricals)
    given = itertools.chain.from_iterable(map(given_names, (*views, statement)))
    for given_name, columns, is_column in given:
        name = categorical_of.get(next(iter(columns), ""), "") if is_column else ""
        categorical_of[given_name] = name if categorical_of.get(given_name, name) == name else None
    orders = [(query, query.node["order_by"] or {"kind": {}}) for query in statement.queries]
    owners = {
        id(item): query
        for query, order in orders
        for item in order["kind"].get("Expressions") or ()
    }
    distinct = {
        id(item)
        for _, call in statement.nodes
        if call.get("duplicate_treatment") == "Distinct"
        for clause in call["clauses"]
        for item in clause.get("OrderBy", ())
    }
    for _, node in statement.nodes:
        if _KEY not in node:
            continue
        query = owners.get(id(node))
        parts, (start, stop) = _column(statement, node["expr"], query)
        name = parts[-1]["value"] if parts else ""
        if categorical_of.get(name, "") == "":
            continue
        written = ".".join(quoted_name(part["value"]) for part in parts)
        is_distinct = id(node) in distinct or (
            query is not None and any(scope.select["distinct"] for scope in query.scopes)
        )
        if is_distinct or categorical_of[name] is None:
            errors.warn(
                f"ORDER BY {written} sorts strings here, not categories: the query gives the name "
                "to something else, too, or says DISTINCT (write GROUP BY instead); ORDER BY "
                f"category_order('AXIS.COLUMN', {written}) sorts by categories anywhere",
                AlphabeticalOrderWarning,
            )
        else:
            yield Edit(start, stop, f"{_ORDER}({literal(categorical_of[name])}, {written})")


def _column(
    statement: Statement, key: Node, query: Query | None
) -> tuple[list[Node], tuple[int, int]]:
    """Return the column of an item of ORDER BY, in parts, and where it is; or no parts."""
    parts, position = identifiers_of(key), whole_number_of(key)
    items = query.scopes[0].select["projection"] if query is not None and query.scopes else ()
    if position is not None and not any("Wildcard" in kind_of(item) for item in items[:position]):
        for item in items[position - 1 : position]:
            aliased = item.get("ExprWithAlias")
            parts = [aliased["alias"]] if aliased else identifiers_of(item["UnnamedExpr"])
    return parts or [], (statement.span(parts if position is None else key) if parts else (0, 0))


def recorded_categories(axes: Iterable[tuple[AxisSchema, str]]) -> dict[str, str | None]:
    """Return what `category_order` calls the categories of each categorical column of some axes.

    None for a column of several of the axes, each of which may have categories of its own.
    """
    owners: dict[str, list[str | None]] = {}
    for schema, axis in axes:
        fields = schema.dataset(axis).schema
        categorical = category_columns(fields)
        for column in fields.names:
            full_name = f"{schema.name}.{axis}.{column}"
            owners.setdefault(column, []).append(full_name if column in categorical else None)
    return {
        column: names[0] if len(names) == 1 else None
        for column, names in owners.items()
        if any(names)
    }


_MOST_ITEMS: Final = 1 << 26
_MOST_TOGETHER: Final = 1 << 27
_CHECK: Final = "daf_checked_size"
_STRINGS: Final = ("repeat", "lpad", "rpad")
_ARRAYS: Final = ("array_repeat", "list_repeat", "array_resize", "list_resize")
_SERIES: Final = ("generate_series", "range")
_SMALL: Final = 1000


def register_size_checks(context: datafusion.SessionContext) -> None:
    """Make the function that checks sizes known to a context."""
    integer = pa.int64()
    context.register_udf(datafusion.udf(_checked, [integer] * 4, integer, "volatile", _CHECK))


def with_bounded_sizes(query: str) -> str:
    """Return a query in which arguments that say how large a result is are checked.

    >>> with_bounded_sizes("SELECT length(repeat('x', 2000000000)) AS n")
    "SELECT length(repeat('x', daf_checked_size(2000000000, 0, 0, 67108864))) AS n"
    """
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
    return edits


def _sized_calls(
    statement: Statement,
) -> Iterator[tuple[str, list[tuple[int, int]], list[int | None]]]:
    """Yield the name of each call, where its arguments stand, and the constants of its size.

    A series that is a table, after FROM, is no call.
    """
    for _, node in statement.nodes:
        name = function_name(node)
        if name in (*_STRINGS, *_ARRAYS, *_SERIES):
            numbers = [whole_number_of(each) for each in arguments_of(node)]
            written = node["Function"]["name"][-1]["Identifier"]
            spans = statement.parts(statement.brackets_after(written))
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
