"""Queries that aggregate groups of rows of one table, as they are written.  Pure.

``SELECT keys and aggregates FROM axis WHERE condition GROUP BY keys ORDER BY ... LIMIT ...``, where
keys and arguments are columns by their names.  Another table may be joined by its entries
(``FROM cell JOIN donor ON cell.donor = donor.name``), of which columns can be keys.  Whatever is
not certain is left to the engine.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from daf_query.scan import INDEX, NAME, Aggregate, Function
from daf_query.sql._simple_condition import (
    UncertainError,
    name_of,
    names_in,
    require,
    simple_tokens,
)
from daf_query.syntax import Token

_MAX_REMEMBERED: Final = 1 << 8
_FUNCTIONS: Final[dict[str, Function]] = {
    "COUNT": "count",
    "SUM": "sum",
    "AVG": "avg",
    "MEAN": "avg",
    "MIN": "min",
    "MAX": "max",
}
_CLAUSES: Final = ("FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "OFFSET")
"""Words that begin a part of a query, in their order."""
_NO_ALIAS: Final = (
    *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ON"),
    *("USING", "HAVING", "WINDOW", "QUALIFY", "TABLESAMPLE", "PIVOT", "UNPIVOT", "FOR", "GLOBAL"),
    *("ASOF", "STRAIGHT_JOIN", "PREWHERE", "SETTINGS", "FORMAT", "PARTITION", "CONNECT", "START"),
    *("LOCK", "SAMPLE", "MATCH_RECOGNIZE", "FINAL", "SET", "DO", "OUTPUT", "AT", "CLUSTERED"),
)
"""Words after a table that are, or may be, something else than what it is called."""
_WHOLE: Final = re.compile(r"\d{1,9}")
_SUSPECT: Final = re.compile(r"\b(?:group|distinct|count|sum|avg|mean|min|max)\b", re.IGNORECASE)

Expression: TypeAlias = str | Aggregate
"""A column by its name, or an aggregate."""


@dataclass(frozen=True, slots=True)
class GroupOutput:
    """A column of the result."""

    expression: Expression
    """What it has."""
    name: str
    """What it is called."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """What rows of a result are sorted by."""

    by: Expression | int
    """A name, an aggregate, or the place of an output, from 1."""
    is_descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class TableItem:
    """A table after FROM or JOIN."""

    schema: str | None
    """The schema that it names."""
    table: str
    alias: str | None = None

    @property
    def qualifiers(self) -> frozenset[tuple[str, ...]]:
        """What may stand before its columns."""
        if self.alias is not None:
            return frozenset([(self.alias,)])
        full_name = (self.table,) if self.schema is None else (self.schema, self.table)
        return frozenset([full_name, (self.table,)])

    @property
    def shown(self) -> str:
        """What stands before a column in the engine's name of an aggregate."""
        if self.alias is not None:
            return self.alias
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class EntryJoin:
    """A table that is joined by its entries."""

    item: TableItem
    vector: str
    """The column of the first table whose values are its entries."""


@dataclass(frozen=True, slots=True)
class SimpleGroups:
    """A query of groups of one table, as it is written."""

    outputs: tuple[GroupOutput, ...]
    item: TableItem
    """The table."""
    join: EntryJoin | None
    """Another one, of which columns can be keys."""
    sides: Mapping[str, TableItem]
    """The table of columns that are written with one."""
    bare: frozenset[str]
    """Names of columns, or of outputs, that are written without a table."""
    condition: tuple[Token, ...]
    """What stands after WHERE; empty for all rows."""
    keys: tuple[str | int, ...]
    """Names of columns or outputs, or places of outputs, from 1; none if all are one group."""
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int
    used: frozenset[str]
    """Names that it has, of columns and maybe others."""

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates, each once."""
        found = [each.expression for each in self.outputs]
        return tuple(dict.fromkeys(each for each in found if isinstance(each, Aggregate)))

    def keys_of(self, columns: Container[str]) -> tuple[str, ...]:
        """Return the columns to group by; raise `UncertainError` if that is not certain.

        A column comes before an output of its name.
        """
        keys = []
        for key in self.keys:
            expression: Expression | int = key
            if isinstance(key, int):
                require(is_so=1 <= key <= len(self.outputs))
                expression = self.outputs[key - 1].expression
            elif key not in columns:
                expression = self._output_called(key).expression
            require(is_so=isinstance(expression, str))
            keys.append(str(expression))
        require(is_so=len(set(keys)) == len(keys))
        plain = (each.expression for each in self.outputs if isinstance(each.expression, str))
        require(is_so=all(name in keys for name in plain))
        return tuple(keys)

    def sorted_by(self, key: SortKey, columns: Container[str]) -> int:
        """Return the output that rows are sorted by; raise `UncertainError` as above."""
        by = key.by
        if isinstance(by, int):
            require(is_so=1 <= by <= len(self.outputs))
            return by - 1
        for place, output in enumerate(self.outputs):
            if isinstance(by, str) and output.name == by:
                require(is_so=by not in columns or output.expression == by)
                return place
        expressions = [output.expression for output in self.outputs]
        require(is_so=by in expressions)
        return expressions.index(by)

    def _output_called(self, name: str) -> GroupOutput:
        for output in self.outputs:
            if output.name == name:
                return output
        raise UncertainError


@functools.lru_cache(_MAX_REMEMBERED)
def simple_groups(query: str) -> SimpleGroups | None:
    """Return the parts of a query of groups; None if it has others.  Parsed once.

    >>> groups = simple_groups("SELECT donor, avg(age) FROM cell GROUP BY donor")
    >>> [output.name for output in groups.outputs], groups.keys
    (['donor', 'avg(cell.age)'], ('donor',))
    >>> simple_groups("SELECT donor, median(age) FROM cell GROUP BY donor") is None
    True
    """
    if _SUSPECT.search(query) is None:
        return None
    try:
        return _groups_of(query, simple_tokens(query))
    except (UncertainError, IndexError):
        return None


def _groups_of(query: str, tokens: Sequence[Token]) -> SimpleGroups:
    if tokens[-1].is_operator(";"):
        tokens = tokens[:-1]
    require(is_so=tokens[0].is_word("SELECT"))
    is_distinct = tokens[1].is_word("DISTINCT")
    parts = _parts(tokens[1 + is_distinct :])
    item, join = _tables(parts["FROM"], query)
    reader = _Reader(query, item, join)
    outputs = tuple(reader.output(part) for part in _listed(parts["SELECT"]))
    names = [output.name for output in outputs]
    require(is_so=len(set(names)) == len(names))
    keys: tuple[str | int, ...] = ()
    if is_distinct:
        plain = [each.expression for each in outputs if isinstance(each.expression, str)]
        require(is_so="GROUP" not in parts and len(plain) == len(outputs))
        keys = tuple(plain)
    elif "GROUP" in parts:
        keys = tuple(map(reader.key, _listed(_after_by(parts["GROUP"]))))
    else:
        require(is_so=all(isinstance(each.expression, Aggregate) for each in outputs))
    order = parts.get("ORDER")
    sort_keys = () if order is None else tuple(map(reader.sort_key, _listed(_after_by(order))))
    return SimpleGroups(
        outputs=outputs,
        item=item,
        join=join,
        sides=dict(reader.sides),
        bare=frozenset(reader.bare),
        condition=tuple(parts.get("WHERE", ())),
        keys=keys,
        order=sort_keys,
        limit=_whole(parts["LIMIT"]) if "LIMIT" in parts else None,
        offset=_whole(parts["OFFSET"]) if "OFFSET" in parts else 0,
        used=names_in(tokens, query),
    )


def _parts(tokens: Sequence[Token]) -> dict[str, Sequence[Token]]:
    """Return the tokens after SELECT and after each word that begins a part."""
    places = [place for place, token in enumerate(tokens) if token.is_word(*_CLAUSES)]
    words = [tokens[place].text for place in places]
    require(is_so=words == [word for word in _CLAUSES if word in words] and words[:1] == ["FROM"])
    stops = [*places, len(tokens)]
    parts = {"SELECT": tokens[: places[0]]}
    for word, (start, stop) in zip(words, itertools.pairwise(stops), strict=True):
        parts[word] = tokens[start + 1 : stop]
    require(is_so=all(parts.values()))
    return parts


def _tables(tokens: Sequence[Token], query: str) -> tuple[TableItem, EntryJoin | None]:
    """Return the table after FROM, and the one that is joined by its entries."""
    place = next((n for n, token in enumerate(tokens) if token.is_word("JOIN")), None)
    if place is None:
        return _item(tokens, query), None
    first, rest = tokens[:place], tokens[place + 1 :]
    item = _item(first[:-1] if first[-1].is_word("INNER") else first, query)
    on = next((n for n, token in enumerate(rest) if token.is_word("ON")), len(rest))
    other, equality = _item(rest[:on], query), rest[on + 1 :]
    equals = next((n for n, token in enumerate(equality) if token.is_operator("=")), 0)
    sides = [_dotted(equality[:equals], query), _dotted(equality[equals + 1 :], query)]
    require(is_so=not item.qualifiers & other.qualifiers)
    for vector, entry in (sides, sides[::-1]):
        if tuple(vector[:-1]) in item.qualifiers and tuple(entry[:-1]) in other.qualifiers:
            require(is_so=entry[-1] == NAME and vector[-1] not in (NAME, INDEX))
            return item, EntryJoin(other, vector[-1])
    raise UncertainError


def _item(tokens: Sequence[Token], query: str) -> TableItem:
    alias = None
    if len(tokens) > 1 and not tokens[-2].is_operator("."):
        alias = name_of(tokens[-1], query)
        require(is_so=not tokens[-1].is_word(*_NO_ALIAS))
        tokens = tokens[: -2 if tokens[-2].is_word("AS") else -1]
    names = _dotted(tokens, query)
    require(is_so=len(names) in (1, 2))
    return TableItem(names[0] if names[1:] else None, names[-1], alias)


def _dotted(tokens: Sequence[Token], query: str) -> list[str]:
    require(is_so=len(tokens) % 2 == 1 and all(each.is_operator(".") for each in tokens[1::2]))
    return [name_of(token, query) for token in tokens[::2]]


def _listed(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield what commas separate; those in brackets would be of other functions."""
    commas = [place for place, token in enumerate(tokens) if token.is_operator(",")]
    for start, stop in itertools.pairwise([-1, *commas, len(tokens)]):
        require(is_so=stop > start + 1)
        yield tokens[start + 1 : stop]


def _after_by(tokens: Sequence[Token]) -> Sequence[Token]:
    require(is_so=tokens[0].is_word("BY"))
    return tokens[1:]


def _whole(tokens: Sequence[Token]) -> int:
    require(is_so=len(tokens) == 1 and _WHOLE.fullmatch(tokens[0].text) is not None)
    return int(tokens[0].text)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads expressions over the columns of one or two tables."""

    query: str
    item: TableItem
    join: EntryJoin | None
    sides: dict[str, TableItem] = field(default_factory=dict)
    bare: set[str] = field(default_factory=set)

    def output(self, tokens: Sequence[Token]) -> GroupOutput:
        """Read what is selected."""
        name = None
        if len(tokens) > 2 and tokens[-2].is_word("AS"):
            tokens, name = tokens[:-2], name_of(tokens[-1], self.query)
        expression = self._expression(tokens)
        if name is None:
            name = expression if isinstance(expression, str) else self._name(expression, tokens)
        return GroupOutput(expression, name)

    def key(self, tokens: Sequence[Token]) -> str | int:
        """Read what is grouped by."""
        if tokens[0].kind == "number":
            return _whole(tokens)
        return self._column(tokens)

    def sort_key(self, tokens: Sequence[Token]) -> SortKey:
        """Read what is sorted by."""
        nulls = None
        if len(tokens) > 2 and tokens[-2].is_word("NULLS"):
            require(is_so=tokens[-1].is_word("FIRST", "LAST"))
            tokens, nulls = tokens[:-2], tokens[-1].text == "FIRST"
        is_descending = tokens[-1].is_word("DESC")
        if len(tokens) > 1 and tokens[-1].is_word("ASC", "DESC"):
            tokens = tokens[:-1]
        if tokens[0].kind == "number":
            by: Expression | int = _whole(tokens)
        else:
            by = self._expression(tokens)
        return SortKey(by, is_descending, is_descending if nulls is None else nulls)

    def _expression(self, tokens: Sequence[Token]) -> Expression:
        if len(tokens) > 1 and tokens[0].text in _FUNCTIONS and tokens[1].is_operator("("):
            require(is_so=tokens[-1].is_operator(")"))
            function, argument = _FUNCTIONS[tokens[0].text], tokens[2:-1]
            if len(argument) == 1 and argument[0].is_operator("*"):
                require(is_so=function == "count")
                return Aggregate("count")
            return Aggregate(function, self._column(argument))
        return self._column(tokens)

    def _column(self, tokens: Sequence[Token]) -> str:
        *qualifier, column = _dotted(tokens, self.query)
        if not qualifier:
            self.bare.add(column)
            return column
        items = [self.item] if self.join is None else [self.item, self.join.item]
        called = [item for item in items if tuple(qualifier) in item.qualifiers]
        require(is_so=len(called) == 1)
        require(is_so=self.sides.setdefault(column, called[0]) == called[0])
        return column

    def _name(self, aggregate: Aggregate, tokens: Sequence[Token]) -> str:
        """Return what the engine calls an aggregate."""
        if aggregate.column is None:
            return "count(*)"
        return f"{tokens[0].text.lower()}({self.item.shown}.{aggregate.column})"
