"""Queries of one table, and of one that is joined by its entries, as they are written.  Pure.

``SELECT columns FROM axis WHERE condition LIMIT ...``, ``SELECT count(*)`` of the same, and
``SELECT keys and aggregates ... GROUP BY keys ORDER BY ...``, where columns are written by their
names.  Whatever else is in a query leaves it to the engine.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args

from daf_query.scan import INDEX, NAME, Function
from daf_query.sql._names_in import given_names, names_in
from daf_query.sql._plan_nodes import TableName
from daf_query.sql._planning import NamedColumns
from daf_query.sql._simple_condition import UncertainError, require
from daf_query.syntax import (
    Node,
    Scope,
    Source,
    Statement,
    UnparsedError,
    arguments_of,
    function_name,
    identifiers_of,
    kind_of,
    parsed,
    values_of,
    walk,
    whole_number_of,
)

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
