"""Queries of one table, and of one that is joined by its entries, as they are written.  Pure.

``SELECT columns FROM axis WHERE condition LIMIT ...``, ``SELECT count(*)`` of the same, and
``SELECT keys and aggregates ... GROUP BY keys ORDER BY ...``, where columns are written by their
names.  Conditions are those that mean the same to the engine and to a scan for certain: comparisons
of a column with a constant, IN, BETWEEN, IS NULL and columns of Bool, joined by AND, OR and NOT.
Whatever else is in a query leaves it to the engine.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    EXACT_FLOAT,
    FLIPPED,
    INDEX,
    NAME,
    NEGATED,
    And,
    Compare,
    Function,
    In,
    IsNull,
    IsTrue,
    Or,
    Predicate,
    compared,
    flat,
    numpy_type,
)
from daf_query.sql._names_in import given_names, names_in
from daf_query.sql._planning import NamedColumns, TableName
from daf_query.syntax import (
    Node,
    Number,
    Scope,
    Source,
    Statement,
    UnparsedError,
    arguments_of,
    constant_of,
    function_name,
    identifiers_of,
    kind_of,
    parsed,
    values_of,
    walk,
    whole_number_of,
)

_COMPARISONS: Final = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq")
_OPERATORS: Final = dict(zip(_COMPARISONS, ("==", "!=", "<", "<=", ">", ">="), strict=True))
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
    return _Reader(statement, field).predicate(node, is_negated=False, depth=0)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the nodes of a condition."""

    statement: Statement
    field: Callable[[tuple[str, ...]], pa.Field]

    def predicate(self, node: Node, *, is_negated: bool, depth: int) -> Predicate:
        """Return the predicate of a condition, or of its negation."""
        require(is_so=depth <= _MAX_DEPTH)
        kind = kind_of(node)
        body: Any = node.get(kind)
        if kind == "Nested":
            return self.predicate(body, is_negated=is_negated, depth=depth + 1)
        if kind == "UnaryOp" and body["op"] == "Not":
            return self.predicate(body["expr"], is_negated=not is_negated, depth=depth + 1)
        if kind == "BinaryOp" and body["op"] in ("And", "Or"):
            joined = And if (body["op"] == "And") != is_negated else Or
            parts = operands(node, body["op"])
            return flat(
                joined, [self.predicate(e, is_negated=is_negated, depth=depth + 1) for e in parts]
            )
        if kind == "BinaryOp":
            return self._comparison(body, is_negated=is_negated)
        if kind == "InList":
            field, constants = self._column(body["expr"]), self.statement.constants_in(body["list"])
            values = tuple(_exact(field, _value(constant)) for constant in constants or ())
            require(is_so=bool(values))
            return In(field.name, values, body["negated"] != is_negated)
        if kind == "Between":
            field, is_outside = self._column(body["expr"]), body["negated"] != is_negated
            low, high = (_value(constant_of(body[end])) for end in ("low", "high"))
            above = _compared(field, "<" if is_outside else ">=", low)
            return flat(
                Or if is_outside else And,
                [above, _compared(field, ">" if is_outside else "<=", high)],
            )
        if kind in ("IsNull", "IsNotNull"):
            return _null(self._column(body), is_negated=(kind == "IsNotNull") != is_negated)
        field = self._column(node)
        require(is_so=pa.types.is_boolean(field.type))
        return IsTrue(field.name, is_negated)

    def _comparison(self, body: Node, *, is_negated: bool) -> Predicate:
        operator = _OPERATORS.get(body["op"]) if isinstance(body["op"], str) else None
        left, right = body["left"], body["right"]
        if operator is None:
            raise UncertainError
        if identifiers_of(left) is None:
            left, right, operator = right, left, FLIPPED[operator]
        field = self._column(left)
        meant = NEGATED[operator] if is_negated else operator
        value: Any = right["Value"]["value"] if kind_of(right) == "Value" else None
        if kind_of(value) == "Boolean" and meant in ("==", "!="):
            require(is_so=pa.types.is_boolean(field.type))
            return IsTrue(field.name, (meant == "!=") == value["Boolean"])
        return _compared(field, meant, _value(constant_of(right)))

    def _column(self, node: Node) -> pa.Field:
        identifiers = identifiers_of(node)
        if identifiers is None:
            raise UncertainError
        return self.field(values_of(identifiers))


def operands(node: Node, op: str) -> list[Node]:
    """Return what a chain of the same operator joins, in its order."""
    operands = []
    while kind_of(node) == "BinaryOp" and node["BinaryOp"]["op"] == op:
        operands.append(node["BinaryOp"]["right"])
        node = node["BinaryOp"]["left"]
    return [node, *operands[::-1]]


def _value(constant: Number | str | None) -> int | float | str:
    if isinstance(constant, str):
        return constant
    text = "" if constant is None else constant.text
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
_FUNCTIONS: Final[dict[str, Function]] = {
    **{name: name for name in get_args(Function)},
    "mean": "avg",
}
_QUERY: Final = ("body", "order_by", "limit_clause")
_SELECT: Final = ("select_token", "distinct", "projection", "from", "selection", "group_by")
_NAMING: Final = ("projection", "selection", "group_by")
_FLAVORS: Final = ("Standard", "FromFirstNoSelect")


@dataclass(frozen=True, slots=True)
class Named:
    """A column, or an output, as it is written."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the values of a column; ``count`` may be of rows."""

    function: Function
    column: Named | None
    """None if rows are counted."""


Expression: TypeAlias = Named | Call


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result."""

    expression: Expression
    name: str
    """What it is called."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """What rows of a result are sorted by."""

    by: Expression | int
    """A column, an output, an aggregate, or the place of an output, from 1."""
    is_descending: bool
    nulls_first: bool


_BY_INDEX: Final = SortKey(Named((INDEX,)), is_descending=False, nulls_first=False)


@dataclass(frozen=True, slots=True)
class SimpleQuery:
    """The parts of a query."""

    statement: Statement
    source: Source
    """The table."""
    joined: Source | None
    """Another one, that is joined by its entries."""
    vector: str
    """The column of the first table whose values are these entries."""
    outputs: tuple[Output, ...]
    """None of them if all columns are selected."""
    condition: Node | None
    keys: tuple[Named | int, ...]
    """What is grouped by: columns or outputs, or places of outputs, from 1."""
    is_grouped: bool
    """Whether rows are counted or aggregated."""
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int
    used: frozenset[str]
    """Names that it has, of columns and maybe others."""

    @property
    def is_by_index(self) -> bool:
        """Whether rows are sorted by index."""
        return self.order == (_BY_INDEX,)

    @property
    def count(self) -> str | None:
        """What the number of rows is called, if that is all."""
        is_all = not (self.keys or self.order or self.offset or self.joined) and self.limit is None
        called = [each.name for each in self.outputs if each.expression == Call("count", None)]
        return called[0] if is_all and len(called) == len(self.outputs) == 1 else None


def name_in(source: Source, parts: tuple[str, ...], columns: Container[str]) -> str | None:
    """Return the name of a column of a table; None if it is none, as it is written."""
    *qualifier, name = parts
    return name if name in columns and _is_of(source, tuple(qualifier)) else None


def _is_of(source: Source, qualifier: tuple[str, ...]) -> bool:
    return not qualifier or qualifier in (source.written, source.written[-1:])


@functools.lru_cache(_MAX_REMEMBERED)
def simple_query(text: str) -> SimpleQuery | None:
    """Return the parts of a query; None if it has others.

    >>> groups = simple_query("SELECT donor, avg(age) FROM cell GROUP BY donor")
    >>> [output.name for output in groups.outputs], groups.keys
    (['donor', 'avg(cell.age)'], (Named(parts=('donor',)),))
    >>> simple_query("SELECT donor, median(age) FROM cell GROUP BY donor") is None
    True
    """
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        return _query_of(parsed(text))
    except (UncertainError, UnparsedError):
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
    try:
        statement = parsed(text)
    except UnparsedError:
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
    require(is_so=kind_of(query["body"]) == "Select")
    require(is_so=select["flavor"] in _FLAVORS and select["distinct"] in (None, "Distinct"))
    _check_nothing_but(select, (*_SELECT, "flavor"))
    joined, vector = _joined(scope)
    outputs = () if _is_wildcard(select) else tuple(_outputs(select, scope.sources[0]))
    require(is_so=len({output.name for output in outputs}) == len(outputs))
    is_distinct = select["distinct"] is not None
    grouping = select["group_by"].get("Expressions", ([], ["all"]))
    require(is_so=not grouping[1] and not (is_distinct and grouping[0]))
    aggregates = [isinstance(each.expression, Call) for each in outputs]
    keys = tuple(map(_key, grouping[0]))
    if is_distinct:
        require(is_so=bool(outputs) and not any(aggregates))
        keys = tuple(each.expression for each in outputs if isinstance(each.expression, Named))
    require(is_so=bool(outputs) or not keys)
    require(is_so=bool(keys) or all(aggregates) or not any(aggregates))
    limit, offset = _limits(query["limit_clause"])
    used = names_in([select[part] for part in _NAMING] + [query["order_by"]])
    return SimpleQuery(
        statement=statement,
        source=scope.sources[0],
        joined=joined,
        vector=vector,
        outputs=outputs,
        condition=select["selection"],
        keys=keys,
        is_grouped=bool(keys) or any(aggregates),
        order=tuple(_order(query["order_by"])),
        limit=limit,
        offset=offset,
        used=used | {vector, NAME} if joined else used,
    )


def _check_nothing_but(node: Mapping[str, Any], keys: Container[str]) -> None:
    """Leave a query to the engine if a node has something else."""
    require(is_so=not any(value for key, value in node.items() if key not in keys))


def _is_wildcard(select: Node) -> bool:
    if select["flavor"] != "Standard":
        return True
    options = [each["Wildcard"] for each in select["projection"] if kind_of(each) == "Wildcard"]
    for each in options:
        _check_nothing_but(each, ("wildcard_token",))
    require(is_so=not options or len(select["projection"]) == 1)
    return bool(options)


def _joined(scope: Scope) -> tuple[Source | None, str]:
    """Return the table that is joined by its entries, and the column that has them."""
    require(is_so=len(scope.select["from"]) == 1)
    tables = scope.select["from"][0]
    relations = [tables["relation"], *(join["relation"] for join in tables["joins"])]
    require(is_so=len(relations) == len(scope.sources) <= 2)
    for relation, source in zip(relations, scope.sources, strict=True):
        require(is_so=kind_of(relation) == "Table" and 1 <= len(source.parts) <= 2)
        _check_nothing_but(relation["Table"], ("name", "alias"))
        require(is_so=not source.column_names)
    if not tables["joins"]:
        return None, ""
    (first, other), join = scope.sources, tables["joins"][0]
    _check_nothing_but(join, ("relation", "join_operator"))
    constraint = join["join_operator"].get("Inner") or join["join_operator"].get("Join") or {}
    condition: Node = constraint["On"] if kind_of(constraint) == "On" else {}
    condition = condition["BinaryOp"] if kind_of(condition) == "BinaryOp" else {}
    require(is_so=first.name != other.name and condition.get("op") == "Eq")
    sides = [_named(condition[side]).parts for side in ("left", "right")]
    for vector, entry in (sides, sides[::-1]):
        require(is_so=bool(vector[:-1]))
        if _is_of(first, vector[:-1]) and _is_of(other, entry[:-1]):
            require(is_so=entry[-1] == NAME and vector[-1] not in (NAME, INDEX))
            return other, vector[-1]
    raise UncertainError


def _outputs(select: Node, source: Source) -> Iterator[Output]:
    for item in select["projection"]:
        if kind_of(item) == "ExprWithAlias":
            written = item["ExprWithAlias"]
            yield Output(_expression(written["expr"]), written["alias"]["value"])
            continue
        require(is_so=kind_of(item) == "UnnamedExpr")
        expression = _expression(item["UnnamedExpr"])
        if isinstance(expression, Named):
            yield Output(expression, expression.parts[-1])
            continue
        name = "count(*)"
        if expression.column is not None:
            function = function_name(item["UnnamedExpr"]["Function"])
            name = f"{function}({'.'.join(source.written)}.{expression.column.parts[-1]})"
        yield Output(expression, name)


def _expression(node: Node) -> Expression:
    if kind_of(node) != "Function":
        return _named(node)
    function = node["Function"]
    require(is_so=function["parameters"] == "None" and len(function["name"]) == 1)
    _check_nothing_but(function, ("name", "parameters", "args"))
    called = _FUNCTIONS.get(function_name(function))
    given = function["args"].get("List") if kind_of(function["args"]) == "List" else None
    if called is None or given is None or len(given["args"]) != 1:
        raise UncertainError
    _check_nothing_but(given, ("args",))
    argument = given["args"][0].get("Unnamed")
    if argument == "Wildcard":
        require(is_so=called == "count")
        return Call("count", None)
    require(is_so=kind_of(argument) == "Expr")
    return Call(called, _named(argument["Expr"]))


def _named(node: Node) -> Named:
    identifiers = identifiers_of(node)
    if identifiers is None:
        raise UncertainError
    return Named(values_of(identifiers))


def _key(node: Node) -> Named | int:
    number = whole_number_of(node)
    return _named(node) if number is None else number


def _order(order: Node | None) -> Iterator[SortKey]:
    if order is None:
        return
    _check_nothing_but(order, ("kind",))
    require(is_so=kind_of(order["kind"]) == "Expressions")
    for each in order["kind"]["Expressions"]:
        _check_nothing_but(each, ("expr", "options"))
        number, options = whole_number_of(each["expr"]), each["options"]
        is_descending, nulls_first = options["asc"] is False, options["nulls_first"]
        by = _expression(each["expr"]) if number is None else number
        yield SortKey(by, is_descending, is_descending if nulls_first is None else nulls_first)


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
