"""The condition of a predicate or of a SELECT of one table, in conjuncts.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.filter._operands import ValueType
from daf_query.filter._python_spelling import as_sql
from daf_query.filter._token_tree import (
    Group,
    Item,
    condition_of,
    conjuncts_of,
    disjuncts_of,
    token_tree,
)
from daf_query.syntax import Token, one_statement, quoted_name, unquoted_name
from daf_storage import errors

_ENDS: Final = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "WINDOW", "QUALIFY")
_SETS: Final = ("UNION", "INTERSECT", "EXCEPT")


@dataclass(frozen=True, slots=True)
class Question:
    """Conditions on the rows of one table."""

    table: str
    """The table as SQL, maybe with an alias."""
    conjuncts: tuple[str, ...]
    """The conditions as SQL."""


def question_of_predicate(
    schema: str, axis: str, predicate: str, columns: Mapping[str, ValueType]
) -> Question:
    """Return the conditions of a predicate, without its ORDER BY and LIMIT."""
    condition = as_sql(condition_of(predicate), columns)
    return Question(f"{quoted_name(schema)}.{quoted_name(axis)}", _conjuncts(condition))


def question_of_select(schema: str, axis: str, query: str) -> Question:
    """Return the conditions of the WHERE of a SELECT of one table.

    Raises
    ------
    QueryError
        It is of several tables, of another one, or has no WHERE.
    """
    query = one_statement(query)
    items = token_tree(query) or ()
    while len(items) == 1 and isinstance(items[0], Group):
        items = items[0].items
    table, where = _clauses(items)
    parts = [item for item in table if not _is_operator(item, ".") and not _is_word(item, "AS")]
    names = [unquoted_name(query[item.start : item.stop]) for item in parts]
    dots = sum(_is_operator(item, ".") for item in table)
    is_plain = all(isinstance(p, Token) and p.kind in ("word", "quoted") for p in parts)
    if not where or not is_plain or dots > 1 or len(names) not in (dots + 1, dots + 2):
        raise errors.QueryError(
            "a diagnosis is of a predicate, or of a SELECT of one table with a WHERE; write the "
            "predicate alone"
        )
    if names[dots] != axis or (dots and names[0] != schema):
        raise errors.QueryError(
            f"the SELECT is of {'.'.join(names[: dots + 1])!r}, and the diagnosis was asked of "
            f"{axis!r}"
        )
    alias = "".join(f" AS {quoted_name(name)}" for name in names[dots + 1 :])
    source = f"{quoted_name(schema)}.{quoted_name(axis)}{alias}"
    return Question(source, _conjuncts(query[where[0].start : where[-1].stop]))


def _clauses(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Return what is between FROM and WHERE, and what comes after WHERE."""
    table: list[Item] = []
    where: list[Item] = []
    part: list[Item] | None = None
    for item in items:
        if _is_word(item, *_SETS, "WITH"):
            return [], []
        if _is_word(item, "FROM") and part is None:
            part = table
        elif _is_word(item, "WHERE") and part is table:
            part = where
        elif _is_word(item, *_ENDS):
            break
        elif part is not None:
            part.append(item)
    return table, where


def _conjuncts(condition: str) -> tuple[str, ...]:
    tree = token_tree(condition)
    if not tree:
        return (condition.strip(),) if condition.strip() else ()
    return tuple(condition[part[0].start : part[-1].stop] for part in _flattened(tree))


def _flattened(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield what is joined by AND, within brackets around several too."""
    parts = conjuncts_of(items) if len(disjuncts_of(items)) == 1 else [tuple(items)]
    for part in parts:
        first = part[0] if len(part) == 1 else None
        is_bracket = isinstance(first, Group) and first.is_bracket("(") and not first.is_subquery
        if isinstance(first, Group) and is_bracket and first.items:
            yield from _flattened(first.items)
        elif part:
            yield part


def _is_word(item: Item, *words: str) -> bool:
    return isinstance(item, Token) and item.is_word(*words)


def _is_operator(item: Item, *operators: str) -> bool:
    return isinstance(item, Token) and item.is_operator(*operators)
