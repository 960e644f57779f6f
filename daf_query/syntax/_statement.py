"""A SQL text that was parsed: its tree, the places of its nodes, its queries and scopes; terms.

A term is an expression of a condition, and the constants that it is compared with.  A column is
named by an identifier, or by one with a subscript, as in ``X['CD8A']``.

The parser is that of DataFusion, sqlparser-rs.  Its nodes carry the places of identifiers,
literals and ``*`` alone; where an expression ends is seen from the brackets around it.

A node is a dictionary.  Most have one key, which is what the node is: ``{"BinaryOp": {...}}``.  A
scope is one SELECT with its sources; it can use the names of those around it.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import sqloxide

from daf_query.syntax._tokens import (
    Brackets,
    Edit,
    Token,
    condition_of,
    edited,
    error_at,
    pairs_of,
    quoted_string,
    read_tokens,
    runs_of,
    tokens_of,
    unopened_bracket,
)
from daf_storage import errors

Node: TypeAlias = dict[str, Any]
_MOST_DIGITS: Final = 400
"""Integers of more are beyond what floats can be, and Python refuses to read them at all."""


class Number(NamedTuple):
    """A number, as it is written."""

    text: str
    """With its sign."""

    @property
    def value(self) -> int | float:
        """What it is.

        >>> Number("-12").value, Number("9" * 5000).value
        (-12, inf)
        """
        is_whole = self.text.lstrip("-").isdecimal() and len(self.text) < _MOST_DIGITS
        return int(self.text) if is_whole else float(self.text)


def walk(node: Any, *, into_queries: bool = True) -> Iterator[Node]:
    """Yield all nodes, those that are written first coming first; without recursion.

    Parameters
    ----------
    into_queries
        Whether what is within a subquery is among them; the subquery itself always is.
    """
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            yield each
            if into_queries or not is_query(each):
                stack.extend(reversed(each.values()))
        elif isinstance(each, list | tuple):  # pairs come as tuples
            stack.extend(reversed(each))


def is_query(node: Node) -> bool:
    """Return whether a node is a query: a SELECT, a set operation, ... with what belongs to it."""
    return "body" in node and "with" in node


def kind_of(node: Any) -> str:
    """Return what a node is; empty for what has no such key."""
    return next(iter(node)) if isinstance(node, dict) and len(node) == 1 else ""


def identifiers_of(node: Node) -> list[Node] | None:
    """Return the identifiers of a column, ``a.b``; None if a node is none. Brackets are passed."""
    while "Nested" in node:
        node = node["Nested"]
    match node:
        case {"Identifier": identifier}:
            return [identifier]
        case {"CompoundIdentifier": [*parts]}:
            return parts
    return None


def subscript_of(node: Node) -> tuple[list[Node], Node] | None:
    """Return the identifiers of a column, and what is in brackets behind it, as in ``c.X['G']``.

    The first brackets count.  None if a node is no such column, or a slice.
    """
    access = node.get("CompoundFieldAccess", {"root": node, "access_chain": ()})
    parts = None if "Nested" in access["root"] else identifiers_of(access["root"])
    for step in access["access_chain"] if parts else ():
        match step:
            case {"Dot": {"Identifier": identifier}}:
                parts = [*(parts or ()), identifier]
            case {"Subscript": {"Index": {"index": inside}}}:
                return parts or [], inside
            case _:
                return None
    return None


def constant_of(node: Any) -> Number | str | bool | None:
    """Return a number, a boolean, or the value of a string in single quotes; else None."""
    match node:
        case {"UnaryOp": {"op": "Minus", "expr": {"Value": {"value": {"Number": [text, _]}}}}}:
            return Number(f"-{text}")
        case {"Value": {"value": {"Number": [text, _]}}}:
            return Number(text)
        case {"Value": {"value": {"SingleQuotedString": str() | bool() as value}}}:
            return value
        case {"Value": {"value": {"Boolean": str() | bool() as value}}}:
            return value
    return None


def string_of(node: Node) -> str | None:
    """Return the value of a string in single quotes; None if a node is none."""
    found = constant_of(node)
    return found if isinstance(found, str) else None


def whole_number_of(node: Any) -> int | None:
    """Return the value of an integer without a sign; None if a node is none."""
    found = constant_of(node)
    return int(found.text) if isinstance(found, Number) and found.text.isdecimal() else None


def item_of(item: Node) -> tuple[Node, str | None]:
    """Return the expression of an item of SELECT, empty for a wildcard, and the name after AS."""
    match item:
        case {"ExprWithAlias": {"expr": expression, "alias": {"value": name}}}:
            return expression, name
    return item.get("UnnamedExpr", {}), None


def values_of(parts: list[Node]) -> tuple[str, ...]:
    """Return the names that identifiers, or the parts of a table's name, have without quotes."""
    identifiers = (each.get("Identifier", each) for each in parts)
    return tuple(each["value"] for each in identifiers if "value" in each)


_NO_COLUMNS: Final = ("name", "alias", "data_type", "Dot")
_NO_VALUES: Final = (*_NO_COLUMNS, "condition", "filter", "over", "Cast")
"""Keys of nodes below which names are no columns, or none that a number is made of."""


def column_name(matrix: str, entry: str) -> str:
    """Return the name of a column that is written with a subscript.

    >>> column_name("X", "it's")
    "X['it''s']"
    """
    return f"{matrix}[{quoted_string(entry)}]"


def name_of_column(node: Node) -> str | None:
    """Return the name of a column, in brackets or not; None if a node is something else."""
    subscript = subscript_of(node)
    if subscript is not None:
        name, entry = subscript[0][-1]["value"], string_of(subscript[1])
        return str(name) if entry is None else column_name(name, entry)
    parts = identifiers_of(node)
    return None if parts is None else values_of(parts)[-1]


def names_in(node: Any, *, of_value: bool = False) -> frozenset[str]:
    """Return the names of the columns in an expression, and of what its subqueries select.

    Parameters
    ----------
    of_value
        Only of those that its number is made of: not of conditions and casts.
    """
    left_out = _NO_VALUES if of_value else _NO_COLUMNS
    found, stack = set[str](), [node]
    while stack:
        each = stack.pop()
        if isinstance(each, list | tuple):
            stack.extend(each)
        elif isinstance(each, dict):
            name = None if kind_of(each) == "Nested" else name_of_column(each)
            if name is not None:
                found.add(name)
            elif is_query(each):
                selects = (inner.get("Select") for inner in walk(each["body"]))
                stack.extend(select["projection"] for select in selects if select)
            else:
                stack.extend(value for key, value in each.items() if key not in left_out)
    return frozenset(found)


def function_name(node: Node) -> str:
    """Return what a function is called, in small letters; empty if a node is none."""
    return "".join(values_of(node["Function"]["name"])[-1:]).lower() if "Function" in node else ""


def arguments_of(node: Node) -> list[Node]:
    """Return the expressions that a function is given by position; none if a node is none."""
    match node:
        case {"Function": {"args": {"List": {"args": listed}}}}:
            unnamed = [each.get("Unnamed", ()) for each in listed]
            return [each["Expr"] for each in unnamed if "Expr" in each]
    return []


_HIDING_RIGHT = ("LeftSemi", "LeftAnti", "Semi", "Anti")
_HIDING_LEFT = ("RightSemi", "RightAnti")

Defined: TypeAlias = "Mapping[str, Query | None]"
"""What WITH defines, by name; None for a query within itself."""


@dataclass(eq=False, slots=True)
class Source:
    """One table, subquery or function of a FROM."""

    name: str
    """What its columns are qualified by: its alias, or the last part of its name; may be empty."""
    parts: tuple[str, ...] = ()
    """The parts of the name of a table that no WITH defines."""
    query: Query | None = None
    """The subquery, or the query that WITH defines."""
    column_names: tuple[str, ...] = ()
    """The names that it gives to its columns, ``AS t (a, b)``."""
    is_hidden: bool = False
    """Whether a wildcard leaves it out: it is the other side of a semi-join or an anti-join."""
    has_alias: bool = False
    """Whether it is called otherwise than the table."""
    function: str = ""
    """What the function is called that makes the table, if one does."""

    @property
    def written(self) -> tuple[str, ...]:
        """What its columns are qualified by, in parts; none if there is nothing."""
        if self.parts and not self.has_alias:
            return self.parts
        return (self.name,) if self.name else ()

    def is_called(self, qualifier: Sequence[str]) -> bool:
        """Return whether a qualifier can mean it, such as ``cell`` or ``mine.cell``, or none."""
        if not qualifier:
            return True
        if self.name != qualifier[-1]:
            return False
        is_exact = self.parts[-2:] == tuple(qualifier[-2:])
        return len(qualifier) == 1 or is_exact or len(self.parts) == 1


@dataclass(eq=False, slots=True)
class Scope:
    """One SELECT, with the sources of its FROM."""

    select: Node
    parent: Scope | None
    """That of the query around it, whose names it can use too."""
    sources: list[Source] = field(default_factory=list)
    is_natural: bool = False
    """Whether a NATURAL JOIN is among its joins."""
    is_merged: bool = False
    """Whether NATURAL JOIN or USING merges columns of two tables."""

    def chain(self) -> Iterator[Scope]:
        """Yield the scope and those around it, from within."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def called(self, qualifier: Sequence[str]) -> list[Source]:
        """Return the sources that a qualifier can mean; all, if it is empty."""
        return [source for source in self.sources if source.is_called(qualifier)]


@dataclass(eq=False, slots=True)
class Query:
    """A query: a SELECT, or several that a set operation joins, with ORDER BY, LIMIT and WITH."""

    node: Node
    scopes: list[Scope] = field(default_factory=list)
    """Of its SELECTs; those of a set operation in the order of the text."""
    column_names: tuple[str, ...] = ()
    """The names that WITH gives to its columns, ``WITH t (a, b) AS ...``."""
    is_source: bool = False
    """Whether its rows are those of a FROM, a WITH or a branch of a set operation; not LATERAL."""


def _columns_of(alias: Node) -> tuple[str, ...]:
    return tuple(each["name"]["value"] for each in alias["columns"])


_MAX_KEPT: Final = 1 << 8
_MAX_KEPT_CHARACTERS: Final = 1 << 14
Constant: TypeAlias = Number | str | bool
"""What stands in a query, and means the same wherever it does."""
_VISIBLE: Final = re.compile(r"[^\n]")
_STARTS: Final = ("SELECT", "DISTINCT", "ALL", "BY", "WHERE")
_CLAUSES: Final = (
    *("FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "UNION", "EXCEPT", "INTERSECT"),
    *("ORDER", "LIMIT", "OFFSET", "INTO", "FETCH"),
)
"""Words that end the items of a SELECT, or its condition."""
_CONSTANT: Final = re.compile(r"-?\d[\d.]*|'(?:[^']|'')*'")
"""The places that the tree lacks."""


class Statement:
    """A SQL text that was parsed; `parsed` makes one.

    It has its queries, their scopes, and the scope of each node.

    Parameters
    ----------
    text
        As it was written; may be several statements with semicolons.
    """

    def __init__(self, text: str, tokens: Sequence[Token], tree: list[Node]) -> None:
        self.text = text
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.tokens = tokens
        """The tokens of the text."""
        self.tree = tree
        """The tree of each statement."""
        self.queries: list[Query] = []
        """All queries, those within others first."""
        self.nodes: list[tuple[Scope | None, Node]] = []
        """All nodes outside of the names of tables, each with the scope whose names it can use."""
        for node in tree:
            self.read(node, {}, None)

    def read(self, node: Any, defined: Defined, scope: Scope | None) -> None:
        """Read what is no query itself, and the queries within."""
        for each in walk(node, into_queries=False):
            if is_query(each):
                self._query(each, defined, scope)
            else:
                self.nodes.append((scope, each))

    def _query(self, node: Node, defined: Defined, parent: Scope | None) -> Query:
        query = Query(node)
        definitions = node["with"] or {"cte_tables": (), "recursive": False}
        for table in definitions["cte_tables"]:
            name = table["alias"]["name"]["value"]
            inner = {**defined, name: None} if definitions["recursive"] else defined
            found = self._query(table["query"], inner, parent)
            found.is_source = True
            found.column_names = _columns_of(table["alias"])
            defined = {**defined, name: found}
        self._body(node["body"], defined, parent, query)
        rest = {key: value for key, value in node.items() if key not in ("with", "body")}
        self.read(rest, defined, query.scopes[0] if query.scopes else parent)
        self.queries.append(query)
        return query

    def _body(self, body: Node, defined: Defined, parent: Scope | None, query: Query) -> None:
        branches: list[Node] = []
        while "SetOperation" in body:
            branches.append(body["SetOperation"]["right"])
            body = body["SetOperation"]["left"]
        branches.append(body)
        for branch in reversed(branches):
            kind = kind_of(branch)
            if kind == "SetOperation":
                self._body(branch, defined, parent, query)
            elif kind == "Query":
                inner = self._query(branch["Query"], defined, parent)
                inner.is_source = True
                query.scopes += inner.scopes
            elif kind == "Select":
                query.scopes.append(self._select(branch["Select"], defined, parent))
            else:  # VALUES, TABLE
                self.read(branch, defined, parent)

    def _select(self, select: Node, defined: Defined, parent: Scope | None) -> Scope:
        scope = Scope(select, parent)
        for each in select["from"]:
            self._tables(each, defined, scope)
        rest = {key: value for key, value in select.items() if key not in ("from", "select_token")}
        self.read(rest, defined, scope)
        return scope

    def _tables(self, node: Node, defined: Defined, scope: Scope) -> None:
        self._relation(node["relation"], defined, scope)
        for join in node["joins"]:
            operator = join["join_operator"]
            kind = kind_of(operator)
            first = len(scope.sources)
            self._relation(join["relation"], defined, scope)
            if kind in _HIDING_RIGHT + _HIDING_LEFT:
                is_right = kind in _HIDING_RIGHT
                for source in scope.sources[first:] if is_right else scope.sources[:first]:
                    source.is_hidden = True
            constraint = operator[kind] if kind else operator
            scope.is_natural |= constraint == "Natural"
            scope.is_merged |= constraint == "Natural" or kind_of(constraint) == "Using"
            self.read(operator, defined, scope)

    def _relation(self, node: Node, defined: Defined, scope: Scope) -> None:
        kind, body = next(iter(node.items()))
        if kind == "NestedJoin":
            self._tables(body["table_with_joins"], defined, scope)
            return
        alias = body.get("alias") or {"name": {"value": ""}, "columns": ()}
        source = Source(
            alias["name"]["value"],
            column_names=_columns_of(alias),
            has_alias=bool(alias["name"]["value"]),
        )
        if kind == "Derived":
            parent = scope if body["lateral"] else scope.parent
            source.query = self._query(body["subquery"], defined, parent)
            source.query.is_source = not body["lateral"]
        elif kind == "Table" and body["args"] is None:
            parts = values_of(body["name"])
            source.name = source.name or "".join(parts[-1:])
            if len(parts) == 1 and parts[0] in defined:
                source.query = defined[parts[0]]
            else:
                source.parts = parts
        else:  # a function, UNNEST, PIVOT, ...
            source.function = values_of(body["name"])[-1] if kind == "Table" else ""
            self.read(body, defined, scope)
        scope.sources.append(source)

    @cached_property
    def scopes(self) -> list[Scope]:
        """The scopes of its queries, each once."""
        found = {id(scope): scope for query in self.queries for scope in query.scopes}
        return list(found.values())

    @cached_property
    def sources(self) -> list[Source]:
        """What its queries read from, each place of a FROM by itself; and what is described."""
        described = (
            each["ExplainTable"]["table_name"] for each in self.tree if "ExplainTable" in each
        )
        sources = [source for scope in self.scopes for source in scope.sources]
        return [*sources, *(Source("", values_of(name)) for name in described)]

    def place(self, at: Node) -> int:
        """Return the place of a line and a column of the parser."""
        return int(self._lines[at["line"] - 1] + at["column"] - 1)

    def span(self, node: Any) -> tuple[int, int]:
        """Return where the first leaf of a node begins, and where the last one ends.

        Brackets, signs and words around them are not in it.

        Raises
        ------
        ValueError
            It has no leaf with a place.
        """
        spans = (each["span"] for each in walk(node) if each.get("span"))
        ends = [(each["start"], each["end"]) for each in spans if each["start"]["line"]]
        places = [self.place(end) for each in ends for end in each]
        return min(places), max(places)

    @cached_property
    def brackets(self) -> list[Brackets]:
        """The pairs of brackets, by where they open."""
        return pairs_of(self.tokens)

    def written(self, node: Any) -> str:
        """Return the text of an expression, of which brackets belong to it that begin in it.

        A sign, NOT, CASE and CAST have no place, so those of an expression that begins or ends with
        such a word are not in it.
        """
        start, stop = self.span(node)
        for pair in self.brackets:
            if start <= pair.opening < stop:
                stop = max(stop, pair.closing + 1)
        return self.text[start:stop]

    def brackets_after(self, identifier: Node) -> Brackets:
        """Return the first brackets that open behind an identifier."""
        return self.brackets[bisect(self.brackets, (self.span(identifier)[1],))]

    def parts(self, pair: Brackets) -> list[tuple[int, int]]:
        """Return where each of what commas part between brackets begins and ends."""
        between = self.tokens[self._token_at(pair.opening + 1) : self._token_at(pair.closing)]
        return [(run[0].start, run[-1].stop) for run in runs_of(between, ",") if run]

    def item(self, node: Any) -> tuple[int, int]:
        """Return where an item of SELECT, or its condition, begins, and ends, without its name."""
        named = node.get("ExprWithAlias")
        start, last = self.span(named["expr"] if named else node)
        first, tokens = self._token_at(start), self.tokens
        while not (tokens[first - 1].is_operator(",", ")") or tokens[first - 1].is_word(*_STARTS)):
            first -= 1
        stop = self._token_at(self.span(named["alias"])[0]) if named else self._end(first, last)
        stop -= named is not None and tokens[stop - 1].is_word("AS")
        return tokens[first].start, tokens[stop - 1].stop

    def sign_before(self, operand: Node, text: str) -> Token:
        """Return the word or operator before an operand of it."""
        before = self.tokens[: self._token_at(self.span(operand)[0])]
        return next(token for token in reversed(before) if token.text == text)

    def token_from(self, place: int) -> Token:
        """Return the first token that does not begin before a place."""
        return self.tokens[self._token_at(place)]

    def _token_at(self, place: int) -> int:
        return bisect_left(self.tokens, place, key=lambda token: token.start)

    def _end(self, first: int, last: int | None = None) -> int:
        """Return the token before which what begins at one has its comma, bracket or clause.

        Clauses are looked for from a place on: ``a IS DISTINCT FROM b`` has none before.
        """
        depth = 0
        for number in range(first, len(self.tokens)):
            token = self.tokens[number]
            depth += token.is_operator("(", "[", "{") - token.is_operator(")", "]", "}")
            is_clause = last is not None and token.start >= last and token.is_word(*_CLAUSES)
            if depth < 0 or (depth == 0 and (is_clause or token.is_operator(",", ";"))):
                return number
        return len(self.tokens)

    def brackets_of(self, query: Node) -> Brackets:
        """Return the innermost brackets around a query; of a statement itself there are none."""
        start = self.start_of(query)
        return next(pair for pair in self.around(start) if pair.opening < start)

    def constants_in(self, listed: Sequence[Node]) -> list[Constant] | None:
        """Return the constants of a list, with those that the tree lacks; None if it has others.

        >>> statement = parsed(f"SELECT age IN ({'-1, ' * 20}'a')")
        >>> listed = next(node["InList"]["list"] for _, node in statement.nodes if "InList" in node)
        >>> len(listed), len(statement.constants_in(listed))
        (1, 21)
        >>> short = parsed("SELECT age IN (1, 'a')")
        >>> short.constants_in(next(n["InList"]["list"] for _, n in short.nodes if "InList" in n))
        [Number(text='1'), 'a']
        """
        constants = list(_constants(listed) or ())
        if not constants:
            return None
        opening = next(self.around(self.span(listed[0])[0])).opening
        token = self.tokens[self._token_at(opening + 1)]
        if token.kind != "constants" or token.start != opening + 1:
            return constants
        left_out: list[Constant] = [
            each[1:-1].replace("''", "'") if each[0] == "'" else Number(each)
            for each in _CONSTANT.findall(self.text, token.start, token.stop)
        ]
        return left_out + constants

    def start_of(self, query: Node) -> int:
        """Return where a query begins, behind the bracket that it may have around it."""
        if query["with"]:
            return self.span(query["with"]["with_token"])[0]
        body = query["body"]
        while "SetOperation" in body:
            body = body["SetOperation"]["left"]
        if "Query" in body:
            return self.brackets_of(body["Query"]).opening
        if "Select" in body:
            return self.span(body["Select"]["select_token"])[0]
        first = self.span(query)[0]  # TABLE has none
        return max(t.start for t in self.tokens if t.is_word("VALUES", "TABLE") and t.start < first)

    def around(self, place: int) -> Iterator[Brackets]:
        """Yield the brackets around a place, the innermost first."""
        for pair in reversed(self.brackets[: bisect(self.brackets, (place,))]):
            if pair.closing >= place:
                yield pair


def parsed(text: str) -> Statement | None:
    """Return a SQL text as a tree; None if the parser does not know it.

    A short one is parsed once, a long one as long as it is held.  Of what has no tree, the engine
    may know more, or say better what is wrong.

    Raises
    ------
    QueryError
        It nests too deeply.

    Examples
    --------
    >>> statement = parsed("SELECT c.age FROM cell AS c, (SELECT * FROM gene) AS g")
    >>> [[source.name for source in scope.sources] for scope in statement.queries[-1].scopes]
    [['c', 'g']]
    """
    if len(text) <= _MAX_KEPT_CHARACTERS:
        return _kept(text)
    statement = _long.get(text) or _read(text)
    if statement is not None:
        _long[text] = statement
    return statement


def is_select(text: str) -> bool:
    """Return whether SQL is a whole query, not a part of one, such as a predicate.

    >>> is_select("(SELECT name FROM cell) LIMIT 3"), is_select("(SELECT max(age) FROM cell) = age")
    (True, False)
    """
    numbered = enumerate(read_tokens(text))
    depth, first = next((each for each in numbered if not each[1].is_operator("(")), (0, None))
    if first is None or not first.is_word("SELECT", "WITH"):
        return False
    return depth == 0 or bool((statement := parsed(text)) and statement.queries)


def is_condition(text: str) -> bool:
    """Return whether SQL is what can stand after WHERE.

    >>> is_condition("a IN (1, 2) ORDER BY a, b"), is_condition("a, b")
    (True, False)
    """
    statement = parsed(f"SELECT 1 WHERE {text}")
    return statement is not None and bool(statement.queries)


def _read(text: str) -> Statement | None:
    tokens = tokens_of(text)
    _check_nesting(tokens)
    # Of long lists of constants, which no rule looks at, the last one is left alone: the parser
    # reads a text of the same length in a short time.
    hidden = [slice(each.start, each.stop) for each in tokens if each.kind == "constants"]
    sql = edited(text, (Edit(s.start, s.stop, _VISIBLE.sub(" ", text[s])) for s in hidden))
    try:
        tree: list[Node] = sqloxide.parse_sql(sql=sql, dialect="generic")
    except ValueError:  # such as COPY ... STORED AS, which is the engine's own
        return None
    return Statement(text, tokens, tree)


_kept = lru_cache(_MAX_KEPT)(_read)
_long: WeakValueDictionary[str, Statement] = WeakValueDictionary()


_MAX_COST: Final = 3000
_ENGINE_DEPTH: Final = 1000
"""More than the 50 brackets within each other that the engine takes."""
_JOINING: Final = ("AND", "OR", "XOR", "UNION", "EXCEPT", "INTERSECT", "JOIN")
_COSTS: Final = {
    **dict.fromkeys(("IS", "IN", "LIKE", "ILIKE", "SIMILAR", "BETWEEN", "AT", "COLLATE", "DIV"), 3),
    **dict.fromkeys("+-*/%|<>=!~^&#:@[", 3),
    "INTERVAL": 30,
    "EXPLAIN": 150,
}
"""Measured: chains of 4,000 AND or OR are answered, and 3,000 ``||`` end the process; the last two
may be repeated without end, and took a stack of 1 MiB."""


def _check_nesting(tokens: Sequence[Token]) -> None:
    """Refuse a text at which the parser or the engine would end the process, as its stack does.

    Brackets they count themselves.  Not so a chain of operators, ``a + b + c``, each of which is an
    operand of the next: thousands of them are as deep as as many brackets.

    Raises
    ------
    QueryError
        It nests too deeply; the message says what to write instead.
    """
    # Of each bracket the largest cost of its expressions, then those of the conditions of the last.
    levels = [[0, 0]]
    for token in tokens:
        level = levels[-1]
        if token.is_operator("("):
            levels.append([0, 0])
        elif token.is_operator(")") and len(levels) > 1:
            cost = _cost(levels.pop()) + 1
            levels[-1][-1] += cost
        elif token.is_operator(",") or token.is_word("WHEN", "THEN", "ELSE"):
            level[:] = _cost(level), 0
        elif token.is_word(*_JOINING):
            level.append(0)
        elif token.kind in ("word", "operator"):
            level[-1] += _COSTS.get(token.text, 0)
        if len(levels) > _ENGINE_DEPTH:
            return  # the engine refuses it
    cost = sum(map(_cost, levels))
    if cost > _MAX_COST:
        raise errors.QueryError(
            f"the query has too many operators in one chain: more than {_MAX_COST // 3:,}, or "
            f"{_MAX_COST:,} of AND and OR; write IN (...) for many values, or give them as a table"
        )


def _cost(level: Sequence[int]) -> int:
    """Return the cost of what is between two brackets: conditions that are joined cost one each."""
    most, *conditions = level
    return max(most, len(conditions) - 1 + max(conditions))


TermForm: TypeAlias = Literal["equal", "order", "pattern", "missing", "boolean"]
"""How an expression is compared: by = or IN, by < and the like, by LIKE, by IS NULL, or not."""
_OPERATORS: Final = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PLACED: Final = ("Identifier", "CompoundIdentifier", "CompoundFieldAccess", "Function")
"""What begins and ends with a leaf or a bracket, so that its text is known."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression and the constants that it is compared with."""

    statement: Statement
    node: Node
    """The expression."""
    form: TermForm
    operator: str
    """As SQL, with the expression on the left; ``<>`` is a negated ``=``."""
    constants: tuple[Constant, ...] = ()
    is_negated: bool = False
    """Whether rows that satisfy it are left out."""

    @property
    def expression(self) -> str:
        """The expression, as SQL."""
        return self.statement.written(self.node)

    @property
    def values(self) -> list[str | float]:
        """The constants as Python has them."""
        return [each.value if isinstance(each, Number) else each for each in self.constants]


def terms_of(statement: Statement, condition: Node) -> Iterator[Term]:
    """Yield the terms of a condition, at any depth; those of subqueries are not among them."""
    pending = [(condition, False)]
    while pending:
        node, negated = pending.pop()
        match node:
            case {"Nested": inner}:
                pending.append((inner, negated))
            case {"UnaryOp": {"op": "Not", "expr": inner}}:
                pending.append((inner, not negated))
            case {"BinaryOp": {"op": "And" | "Or", "left": left, "right": right}}:
                pending += [(right, negated), (left, negated)]
            case _ if (term := term_of(statement, node, is_negated=negated)) is not None:
                yield term


def term_of(statement: Statement, node: Node, *, is_negated: bool = False) -> Term | None:
    """Return a condition that nothing joins as a term; None if it is something else."""
    form: TermForm
    given: Sequence[Any] = ()
    match node:
        case {"BinaryOp": {"op": str() as op, "left": side, "right": right}} if op in _OPERATORS:
            operator, given = _OPERATORS[op], [right]
            if _constants(given) is None:
                side, given, operator = right, [side], _FLIPPED.get(operator, operator)
            form = "equal" if operator in ("=", "<>") else "order"
            is_negated, operator = is_negated != (operator == "<>"), operator.replace("<>", "=")
        case {"InList": {"expr": side, "list": listed, "negated": negated}}:
            form, operator, is_negated = "equal", "IN", is_negated != negated
            given = statement.constants_in(listed) or listed
        case {"Between": {"expr": side, "low": low, "high": high, "negated": negated}}:
            form, operator, is_negated = "order", "BETWEEN", is_negated != negated
            given = low, high
        case {"Like": {"expr": side, "pattern": pattern, "negated": negated}}:
            form, operator, is_negated = "pattern", "LIKE", is_negated != negated
            given = (pattern,)
        case {"IsNull": side}:
            form, operator = "missing", "IS NULL"
        case {"IsNotNull": side}:
            form, operator, is_negated = "missing", "IS NULL", not is_negated
        case {"Identifier": _} | {"CompoundIdentifier": _}:
            form, operator, side = "boolean", "", node
        case _:
            return None
    constants = _constants(given)
    if constants is None or not (identifiers_of(side) or _is_placed(side)):
        return None
    return Term(statement, side, form, operator, constants, is_negated)


def _constants(listed: Sequence[Node | Constant]) -> tuple[Constant, ...] | None:
    """Return what is constant; None if one of it is something else."""
    found = [constant_of(each) if isinstance(each, dict) else each for each in listed]
    return None if None in found else tuple(each for each in found if each is not None)


def _is_placed(node: Node) -> bool:
    """Return whether the text of an expression is known, and it is no constant."""
    match node:
        case {"BinaryOp": {"left": left, "right": right}}:
            placed = [_is_placed(left), _is_placed(right)]
            return all(placed) or (any(placed) and ("Value" in left or "Value" in right))
    return kind_of(node) in _PLACED and not any(each.get("over") for each in walk(node))


def conjuncts_of(statement: Statement, condition: Node) -> Iterator[tuple[str, Node]]:
    """Yield what AND joins in the condition of a WHERE, within brackets around several too."""
    pending = [(condition, *statement.item(condition))]
    while pending:
        node, start, stop = pending.pop()
        match node:
            case {"Nested": inner}:
                pair = next(pair for pair in statement.brackets if pair.opening >= start)
                pending.append((inner, pair.opening + 1, pair.closing))
            case {"BinaryOp": {"op": "And", "left": left, "right": right}}:
                sign = statement.sign_before(right, "AND")
                pending += [(right, sign.stop, stop), (left, start, sign.start)]
            case _:
                yield statement.text[start:stop].strip(), node


_WHERE: Final = "SELECT 1 WHERE "
_SIGNS: Final = {"And": "AND", "Or": "OR", "BitwiseAnd": "&", "BitwiseOr": "|"}
_MIXED: Final = "Python and SQL read | beside AND differently: put brackets around each"
_WRITTEN: Final = {"&": "AND", "|": "OR", "~": " NOT "}


def python_edits(predicate: str) -> list[Edit]:
    """Return what makes SQL of ``) & (``, ``) | (``, ``~(`` and ``in [...]``.

    What is SQL stays as it is: only a bracket that is a condition by itself is joined or negated.

    Raises
    ------
    QueryError
        A bracket closes that is not open, there is a WHERE, or ``|`` and AND are mixed, which
        Python and SQL read differently.

    Examples
    --------
    >>> from daf_query.syntax import edited
    >>> edited("(b in [1]) & ~(a)", python_edits("(b in [1]) & ~(a)"))
    '(b in (1)) AND  NOT (a)'
    """
    condition = condition_of(predicate)
    tokens = tokens_of(condition)
    if (bracket := unopened_bracket(predicate)) is not None:
        raise _wrong(predicate, bracket, "no bracket is open that ) could close")
    if len(tokens) > 1 and tokens[0].is_word("WHERE") and tokens[1].kind != "operator":
        reason = "leave out WHERE; the condition is what comes after it"
        raise _wrong(predicate, tokens[0].start, reason)
    if not any(character in condition for character in "&|~["):
        return []
    edits = [
        Edit(place, place + 1, bracket)
        for pair in pairs_of(tokens)
        if pair.before == "IN" and condition[pair.opening] == "["
        for place, bracket in zip(pair[:2], "()", strict=True)
    ]
    statement = parsed(_WHERE + edited(condition, edits))
    signs = _signs(statement, predicate) if statement is not None else ()
    shift = len(_WHERE)
    return edits + [Edit(t.start - shift, t.stop - shift, _WRITTEN[t.text]) for t in signs]


def _wrong(predicate: str, place: int, reason: str) -> errors.QueryError:
    return error_at(reason, predicate, place, where="in the predicate")


def _signs(statement: Statement, predicate: str) -> list[Token]:
    """Return each ``&`` and ``|`` between conditions in brackets, and each ``~`` before one.

    None where one has another operand, so that it is of bits.  Python's ``not`` takes all that
    ``&`` joins, SQL's the first of it.
    """
    signs: list[Token] = []
    # Subqueries come before it.
    pending = [(statement.queries[-1].scopes[0].select["selection"], len(_WHERE), "")]
    while pending:
        node, start, around = pending.pop()
        sign = statement.token_from(start)
        match node:
            case {"Nested": inner} | {"UnaryOp": {"op": "Not" | "BitwiseNot", "expr": inner}}:
                pending.append((inner, sign.stop, sign.text))
            case {"BinaryOp": {"op": str() as op, "left": left, "right": right}} if (
                op in _SIGNS and around != "NOT"
            ):
                sign = statement.sign_before(right, _SIGNS[op])
                pending += [(right, sign.stop, sign.text), (left, start, sign.text)]
                if (sign.text, around) == ("|", "AND"):
                    reason = (
                        "Python and SQL read | beside AND differently: put brackets around each"
                    )
                    raise _wrong(predicate, sign.start - len(_WHERE), reason)
            case _ if around in _WRITTEN:
                return []
            case _:
                continue
        signs += [sign] * (sign.text in _WRITTEN)
    return signs
