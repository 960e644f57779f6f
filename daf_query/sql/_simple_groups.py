"""Queries that aggregate groups of rows of one table, as they are written.  Pure.

``SELECT keys and aggregates FROM axis WHERE condition GROUP BY keys ORDER BY ... LIMIT ...``, where
keys and arguments are columns by their names.  Whatever is not certain is left to the engine.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from daf_query.scan import Aggregate, Function
from daf_query.sql._simple_condition import UncertainError, name_of, names_in, simple_tokens
from daf_query.sql._tokens import Token

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
class SimpleGroups:
    """A query of groups of one table, as it is written."""

    outputs: tuple[GroupOutput, ...]
    schema: str | None
    """The schema that it names."""
    table: str
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
                _require(is_so=1 <= key <= len(self.outputs))
                expression = self.outputs[key - 1].expression
            elif key not in columns:
                expression = self._output_called(key).expression
            _require(is_so=isinstance(expression, str))
            keys.append(str(expression))
        _require(is_so=len(set(keys)) == len(keys))
        plain = (each.expression for each in self.outputs if isinstance(each.expression, str))
        _require(is_so=all(name in keys for name in plain))
        return tuple(keys)

    def sorted_by(self, key: SortKey, columns: Container[str]) -> int:
        """Return the output that rows are sorted by; raise `UncertainError` as above."""
        by = key.by
        if isinstance(by, int):
            _require(is_so=1 <= by <= len(self.outputs))
            return by - 1
        for place, output in enumerate(self.outputs):
            if isinstance(by, str) and output.name == by:
                _require(is_so=by not in columns or output.expression == by)
                return place
        expressions = [output.expression for output in self.outputs]
        _require(is_so=by in expressions)
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
    _require(is_so=tokens[0].is_word("SELECT"))
    is_distinct = tokens[1].is_word("DISTINCT")
    parts = _parts(tokens[1 + is_distinct :])
    schema, table = _table(parts["FROM"], query)
    reader = _Reader(query, schema, table)
    outputs = tuple(reader.output(part) for part in _listed(parts["SELECT"]))
    names = [output.name for output in outputs]
    _require(is_so=len(set(names)) == len(names))
    keys: tuple[str | int, ...] = ()
    if is_distinct:
        plain = [each.expression for each in outputs if isinstance(each.expression, str)]
        _require(is_so="GROUP" not in parts and len(plain) == len(outputs))
        keys = tuple(plain)
    elif "GROUP" in parts:
        keys = tuple(map(reader.key, _listed(_after_by(parts["GROUP"]))))
    else:
        _require(is_so=all(isinstance(each.expression, Aggregate) for each in outputs))
    order = parts.get("ORDER")
    return SimpleGroups(
        outputs=outputs,
        schema=schema,
        table=table,
        condition=tuple(parts.get("WHERE", ())),
        keys=keys,
        order=() if order is None else tuple(map(reader.sort_key, _listed(_after_by(order)))),
        limit=_whole(parts["LIMIT"]) if "LIMIT" in parts else None,
        offset=_whole(parts["OFFSET"]) if "OFFSET" in parts else 0,
        used=names_in(tokens, query),
    )


def _parts(tokens: Sequence[Token]) -> dict[str, Sequence[Token]]:
    """Return the tokens after SELECT and after each word that begins a part."""
    places = [place for place, token in enumerate(tokens) if token.is_word(*_CLAUSES)]
    words = [tokens[place].text for place in places]
    _require(is_so=words == [word for word in _CLAUSES if word in words] and words[:1] == ["FROM"])
    stops = [*places, len(tokens)]
    parts = {"SELECT": tokens[: places[0]]}
    for word, (start, stop) in zip(words, itertools.pairwise(stops), strict=True):
        parts[word] = tokens[start + 1 : stop]
    _require(is_so=all(parts.values()))
    return parts


def _table(tokens: Sequence[Token], query: str) -> tuple[str | None, str]:
    """Return the schema and the name of a table."""
    names = _dotted(tokens, query)
    _require(is_so=len(names) in (1, 2))
    return (names[0] if names[1:] else None), names[-1]


def _dotted(tokens: Sequence[Token], query: str) -> list[str]:
    _require(is_so=len(tokens) % 2 == 1 and all(each.is_operator(".") for each in tokens[1::2]))
    return [name_of(token, query) for token in tokens[::2]]


def _listed(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield what commas separate; those in brackets would be of other functions."""
    commas = [place for place, token in enumerate(tokens) if token.is_operator(",")]
    for start, stop in itertools.pairwise([-1, *commas, len(tokens)]):
        _require(is_so=stop > start + 1)
        yield tokens[start + 1 : stop]


def _after_by(tokens: Sequence[Token]) -> Sequence[Token]:
    _require(is_so=tokens[0].is_word("BY"))
    return tokens[1:]


def _whole(tokens: Sequence[Token]) -> int:
    _require(is_so=len(tokens) == 1 and _WHOLE.fullmatch(tokens[0].text) is not None)
    return int(tokens[0].text)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads expressions over the columns of a table."""

    query: str
    schema: str | None
    table: str

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
            _require(is_so=tokens[-1].is_word("FIRST", "LAST"))
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
            _require(is_so=tokens[-1].is_operator(")"))
            function, argument = _FUNCTIONS[tokens[0].text], tokens[2:-1]
            if len(argument) == 1 and argument[0].is_operator("*"):
                _require(is_so=function == "count")
                return Aggregate("count")
            return Aggregate(function, self._column(argument))
        return self._column(tokens)

    def _column(self, tokens: Sequence[Token]) -> str:
        *qualifier, column = _dotted(tokens, self.query)
        full_name = [*([] if self.schema is None else [self.schema]), self.table]
        _require(is_so=not qualifier or qualifier in (full_name, [self.table]))
        return column

    def _name(self, aggregate: Aggregate, tokens: Sequence[Token]) -> str:
        """Return what the engine calls an aggregate."""
        if aggregate.column is None:
            return "count(*)"
        table = self.table if self.schema is None else f"{self.schema}.{self.table}"
        return f"{tokens[0].text.lower()}({table}.{aggregate.column})"


def _require(*, is_so: bool) -> None:
    if not is_so:
        raise UncertainError
