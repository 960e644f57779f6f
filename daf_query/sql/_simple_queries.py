"""Queries of one table, as they are written.  Pure.

``SELECT columns FROM axis WHERE condition LIMIT ...`` and ``SELECT count(*)`` of the same, where
columns are written by their names.  Conditions are those that mean the same to the engine and to a
scan for certain: comparisons of a column with a constant, IN, BETWEEN, IS NULL and columns of Bool,
joined by AND, OR and NOT.  Whatever else is in a query leaves it to the engine.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    EXACT_FLOAT,
    INDEX,
    NEGATED,
    And,
    Compare,
    In,
    IsNull,
    IsTrue,
    Or,
    Predicate,
    compared,
    flat,
    numpy_type,
)
from daf_query.sql._corrections import given_names, names_in
from daf_query.sql._planning import NamedColumns, TableName
from daf_query.syntax import (
    Constant,
    Node,
    Number,
    Scope,
    Source,
    Statement,
    Term,
    arguments_of,
    function_name,
    identifiers_of,
    kind_of,
    parsed,
    term_of,
    values_of,
    walk,
    whole_number_of,
)

_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d{0,18})")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+(?:[eE]\d{1,3})?|[eE]\d{1,3})")
_MAX_DEPTH: Final = 32
_EXACT_FLOAT32: Final = 2**24
_MAX_INT64: Final = 2**63 - 1


class UncertainError(Exception):
    """The engine is to be asked."""


def require(*, is_so: bool) -> None:
    """Leave a query to the engine unless something is so.

    Raises
    ------
    UncertainError
        It is not.
    """
    if not is_so:
        raise UncertainError


def simple_condition(
    statement: Statement, node: Node, field: Callable[[tuple[str, ...]], pa.Field]
) -> Predicate:
    """Return the predicate of a condition; raise `UncertainError` if the engine is to be asked.

    Parameters
    ----------
    statement
        Where it stands.
    field
        Returns the field of a column that is written in these parts, or raises `UncertainError`.

    Examples
    --------
    >>> from daf_query.scan._predicate import describe
    >>> from daf_query.syntax import parsed
    >>> schema = pa.schema([("age", pa.int64()), ("donor", pa.string())])
    >>> statement = parsed("SELECT 1 WHERE NOT (age > 60 OR donor = 'N3')")
    >>> node = statement.queries[0].scopes[0].select["selection"]
    >>> describe(simple_condition(statement, node, lambda parts: schema.field(parts[-1])))
    "age <= 60 AND donor != 'N3'"
    """
    return _predicate(statement, node, field, is_negated=False, depth=0)


def _predicate(
    statement: Statement,
    node: Node,
    field: Callable[[tuple[str, ...]], pa.Field],
    *,
    is_negated: bool,
    depth: int,
) -> Predicate:
    """Return the predicate of a condition, or of its negation."""
    require(is_so=depth <= _MAX_DEPTH)
    kind = kind_of(node)
    body: Any = node.get(kind)
    parts = list[Node]()
    joined: type[And | Or] = And
    if kind == "Nested":
        parts = [body]
    elif kind == "UnaryOp" and body["op"] == "Not":
        parts, is_negated = [body["expr"]], not is_negated
    elif kind == "BinaryOp" and body["op"] in ("And", "Or"):
        joined = And if (body["op"] == "And") != is_negated else Or
        parts = operands(node, body["op"])
    else:
        return _of_term(term_of(statement, node, is_negated=is_negated), field)
    inner = [
        _predicate(statement, each, field, is_negated=is_negated, depth=depth + 1) for each in parts
    ]
    return inner[0] if len(inner) == 1 else flat(joined, inner)


def _of_term(term: Term | None, field: Callable[[tuple[str, ...]], pa.Field]) -> Predicate:
    """Return the predicate of a column that is compared with constants."""
    if term is None or term.form == "pattern":
        raise UncertainError
    column, is_negated = field(_column(term.node)), term.is_negated
    if term.form == "missing":
        return _null(column, is_negated=is_negated)
    if term.form == "boolean" or isinstance(term.constants[0], bool):
        is_true = not term.constants or (term.operator == "=" and term.constants[0] is True)
        require(is_so=pa.types.is_boolean(column.type) and term.operator in ("", "="))
        return IsTrue(column.name, is_negated == is_true)
    values = list(map(_value, term.constants))
    if term.operator == "IN":
        return In(column.name, tuple(_exact(column, value) for value in values), is_negated)
    if term.operator == "BETWEEN":
        bounds = ("<", ">") if is_negated else (">=", "<=")
        both = [_compared(column, *each) for each in zip(bounds, values, strict=True)]
        return flat(Or if is_negated else And, both)
    operator = "==" if term.operator == "=" else term.operator
    return _compared(column, NEGATED[operator] if is_negated else operator, values[0])


def operands(node: Node, op: str) -> list[Node]:
    """Return what a chain of the same operator joins, in its order."""
    operands = []
    while kind_of(node) == "BinaryOp" and node["BinaryOp"]["op"] == op:
        operands.append(node["BinaryOp"]["right"])
        node = node["BinaryOp"]["left"]
    return [node, *operands[::-1]]


def _value(constant: Constant) -> int | float | str:
    if isinstance(constant, str):
        return constant
    text = constant.text if isinstance(constant, Number) else ""
    if _INTEGER.fullmatch(text) and abs(int(text)) <= _MAX_INT64:
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    raise UncertainError


def _is_integer(field: pa.Field) -> bool:
    """Return whether the engine compares a column with an Int64 as they are."""
    return bool(pa.types.is_integer(field.type)) and field.type != pa.uint64()


def _exact(field: pa.Field, constant: float | str) -> Any:
    """Return a constant as a value of a column's type, of which it is one without rounding."""
    if isinstance(constant, str):
        if field.type == pa.string():
            return constant
    elif _is_integer(field):
        limits = np.iinfo(numpy_type(field.type))
        if isinstance(constant, int) and limits.min <= constant <= limits.max:
            return constant
    elif field.type == pa.float64():
        if type(constant) is float or abs(constant) < EXACT_FLOAT:
            return float(constant)
    elif (
        field.type == pa.float32()
        and abs(constant) <= _EXACT_FLOAT32
        and float(np.float32(constant)) == constant
    ):
        return float(constant)
    raise UncertainError


def _compared(field: pa.Field, operator: str, constant: float | str) -> Predicate:
    try:
        return Compare(field.name, operator, _exact(field, constant))
    except UncertainError:
        if not isinstance(constant, float) or field.type == pa.float64():
            raise
    require(is_so=_is_integer(field) or field.type == pa.float32())
    predicate = compared(field, operator, constant)
    if not isinstance(predicate, Compare):  # a constant would be true where the column is NULL
        raise UncertainError
    return predicate


def _null(field: pa.Field, *, is_negated: bool) -> Predicate:
    is_known = field.type in (pa.float32(), pa.float64(), pa.string(), pa.bool_())
    require(is_so=field.nullable and (is_known or bool(pa.types.is_integer(field.type))))
    return IsNull(field.name, is_negated)


_MAX_REMEMBERED: Final = 1 << 8
_MAX_CHARACTERS: Final = 1 << 14
_MAX_NUMBER: Final = 10**9
_QUERY: Final = ("body", "order_by", "limit_clause")
_SELECT: Final = ("select_token", "projection", "from", "selection", "group_by", "flavor")
_FLAVORS: Final = ("Standard", "FromFirstNoSelect")


@dataclass(frozen=True, slots=True)
class SimpleQuery:
    """The parts of a query."""

    statement: Statement
    source: Source
    """The table."""
    columns: tuple[tuple[str, ...], ...]
    """The columns that are selected, as they are written; none if all are, or rows are counted."""
    count: str | None
    """What the number of rows is called, if they are counted."""
    condition: Node | None
    is_by_index: bool
    """Whether rows are sorted by index."""
    limit: int | None
    offset: int
    used: frozenset[str]
    """Names that it has, of columns and maybe others."""


def name_in(source: Source, parts: tuple[str, ...], columns: Container[str]) -> str | None:
    """Return the name of a column of a table; None if it is none, as it is written."""
    *qualifier, name = parts
    is_of = not qualifier or tuple(qualifier) in (source.written, source.written[-1:])
    return name if is_of and name in columns else None


@functools.lru_cache(_MAX_REMEMBERED)
def simple_query(text: str) -> SimpleQuery | None:
    """Return the parts of a query; None if it has others.

    >>> query = simple_query("SELECT donor, c.age FROM cell AS c WHERE age > 60")
    >>> query.columns, query.count, query.source.parts
    ((('donor',), ('c', 'age')), None, ('cell',))
    >>> simple_query("SELECT median(age) FROM cell") is None
    True
    """
    if len(text) > _MAX_CHARACTERS:
        return None
    statement = parsed(text)
    try:
        return None if statement is None else _query_of(statement)
    except UncertainError:
        return None


def named_columns(text: str, default: str) -> tuple[TableName, NamedColumns] | None:
    """Return the table of a query, and its columns that are named; None if others may be needed.

    Parameters
    ----------
    default
        The schema of tables that are named without one.

    Examples
    --------
    >>> query = "SELECT avg(age) AS n FROM cell WHERE donor = 'N1' GROUP BY kind ORDER BY n"
    >>> table, named = named_columns(query, "runs")
    >>> table, sorted(named.names), sorted(named.required)
    (('runs', 'cell'), ['age', 'donor', 'kind', 'n'], ['age', 'donor', 'kind'])
    >>> named_columns("SELECT * FROM cell", "runs") is None
    True
    """
    statement = parsed(text)
    if statement is None:
        return None
    scopes = [scope for query in statement.queries for scope in query.scopes]
    if [kind_of(each) for each in statement.tree] != ["Query"] or len(statement.queries) != 1:
        return None
    if len(scopes) != 1 or len(scopes[0].sources) != 1 or scopes[0].select["flavor"] != "Standard":
        return None
    (source,), select = scopes[0].sources, scopes[0].select
    if any(map(_may_be_all, walk(select))) or not 1 <= len(source.parts) <= 2:
        return None
    given = {name.name for name in given_names(statement)}
    schema, table = (default, *source.parts)[-2:]
    names = names_in([select, statement.queries[0].node["order_by"]])
    before = names_in([select["projection"], select["selection"]])
    return (schema, table), NamedColumns(names, names - given | before)


def _may_be_all(node: Node) -> bool:
    """Return whether a node may need columns that it does not name, or is no column."""
    if kind_of(node) != "Function":
        return "wildcard_token" in node or kind_of(node) == "CompoundFieldAccess"
    function = node["Function"]
    listed = function["args"].get("List", {"args": ()}) if function["args"] != "None" else None
    is_star = listed is not None and len(arguments_of(function)) < len(listed["args"])
    return is_star and function_name(function) != "count"


def _query_of(statement: Statement) -> SimpleQuery:
    require(is_so=[kind_of(each) for each in statement.tree] == ["Query"])
    require(is_so=len(statement.queries) == 1 and len(statement.queries[0].scopes) == 1)
    query, (scope,) = statement.queries[0].node, statement.queries[0].scopes
    select = scope.select
    _check_nothing_but(query, _QUERY)
    require(is_so=kind_of(query["body"]) == "Select" and select["flavor"] in _FLAVORS)
    _check_nothing_but(select, _SELECT)
    require(is_so=select["group_by"].get("Expressions") == ([], []))
    _check_one_table(scope)
    is_by_index, (limit, offset) = _is_by_index(query["order_by"]), _limits(query["limit_clause"])
    count: str | None = None
    columns: tuple[tuple[str, ...], ...] = ()
    if not _is_wildcard(select):
        count = _count(select["projection"])
        require(is_so=count is None or not (is_by_index or offset or limit is not None))
        columns = () if count is not None else tuple(map(_selected, select["projection"]))
        require(is_so=len({column[-1] for column in columns}) == len(columns))
    return SimpleQuery(
        statement=statement,
        source=scope.sources[0],
        columns=columns,
        count=count,
        condition=select["selection"],
        is_by_index=is_by_index,
        limit=limit,
        offset=offset,
        used=names_in([select["projection"], select["selection"], query["order_by"]]),
    )


def _check_nothing_but(node: Mapping[str, Any], keys: Container[str]) -> None:
    """Leave a query to the engine if a node has something else."""
    require(is_so=not any(value for key, value in node.items() if key not in keys))


def _check_one_table(scope: Scope) -> None:
    """Leave a query to the engine if it is not of one table alone."""
    require(is_so=len(scope.select["from"]) == len(scope.sources) == 1)
    relation = scope.select["from"][0]["relation"]
    require(is_so=kind_of(relation) == "Table" and not scope.select["from"][0]["joins"])
    _check_nothing_but(relation["Table"], ("name", "alias"))
    require(is_so=1 <= len(scope.sources[0].parts) <= 2 and not scope.sources[0].column_names)


def _is_wildcard(select: Node) -> bool:
    if select["flavor"] != "Standard":
        return True
    options = [each["Wildcard"] for each in select["projection"] if kind_of(each) == "Wildcard"]
    for each in options:
        _check_nothing_but(each, ("wildcard_token",))
    require(is_so=not options or len(select["projection"]) == 1)
    return bool(options)


def _count(projection: Sequence[Node]) -> str | None:
    """Return what ``count(*)`` is called, if that is all that is selected."""
    require(is_so=bool(projection))
    named = projection[0].get("ExprWithAlias")
    node = projection[0].get("UnnamedExpr", {}) if named is None else named["expr"]
    if len(projection) > 1 or kind_of(node) != "Function":
        return None
    function: Node = node["Function"]
    _check_nothing_but(function, ("name", "parameters", "args"))
    listed = function["args"].get("List") if kind_of(function["args"]) == "List" else None
    require(is_so=function_name(function) == "count" and len(function["name"]) == 1)
    require(is_so=function["parameters"] == "None" and listed is not None)
    _check_nothing_but(listed or {}, ("args",))
    require(is_so=listed is not None and listed["args"] == [{"Unnamed": "Wildcard"}])
    return "count(*)" if named is None else str(named["alias"]["value"])


def _selected(item: Node) -> tuple[str, ...]:
    """Return a column that is selected, which keeps its name."""
    named = item.get("ExprWithAlias")
    column = _column(item.get("UnnamedExpr") if named is None else named["expr"])
    require(is_so=named is None or named["alias"]["value"] == column[-1])
    return column


def _column(node: Node | None) -> tuple[str, ...]:
    identifiers = None if node is None else identifiers_of(node)
    if identifiers is None:
        raise UncertainError
    return values_of(identifiers)


def _is_by_index(order: Node | None) -> bool:
    """Return whether rows are sorted by index, rather than not at all."""
    if order is None:
        return False
    _check_nothing_but(order, ("kind",))
    keys = order["kind"]["Expressions"] if kind_of(order["kind"]) == "Expressions" else []
    require(is_so=len(keys) == 1)
    _check_nothing_but(keys[0], ("expr", "options"))
    options = keys[0]["options"]
    require(is_so=options["asc"] is not False and not options["nulls_first"])
    require(is_so=_column(keys[0]["expr"]) == (INDEX,))
    return True


def _limits(clause: Node | None) -> tuple[int | None, int]:
    """Return LIMIT and OFFSET."""
    if clause is None:
        return None, 0
    limits: Node = clause["LimitOffset"] if kind_of(clause) == "LimitOffset" else {"other": True}
    _check_nothing_but(limits, ("limit", "offset"))
    limit = None if limits["limit"] is None else whole_number_of(limits["limit"])
    offset = 0 if limits["offset"] is None else whole_number_of(limits["offset"]["value"])
    if offset is None or (limit is None and limits["limit"] is not None):
        raise UncertainError
    require(is_so=max(limit or 0, offset) < _MAX_NUMBER)
    return limit, offset
