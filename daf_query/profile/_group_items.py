"""What the rows are grouped by: expressions of SQL with names.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from daf_query.sql import Token, quoted_name, tokens_of, unquoted_name
from daf_storage import errors

By: TypeAlias = str | Sequence[str]
"""A vector, an expression of SQL, or several; each may end in ``AS name``."""


@dataclass(frozen=True, slots=True)
class GroupItem:
    """An expression whose values are groups."""

    expression: str
    """In SQL."""
    name: str
    """What its column is called."""
    vector: str | None
    """The vector that it is, if it is nothing else."""


def written_items(by: By) -> list[str]:
    """Return what is passed as ``by=`` as a list of SQL.

    Raises
    ------
    InvalidInputError
        It is something else.
    """
    items: object = [by] if isinstance(by, str) else by
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise errors.InvalidInputError(
            f"by= is a vector, an expression of SQL or a list of such, not {by!r}"
        )
    return list(items)


def group_items(by: By, vectors: Collection[str], reserved: Collection[str]) -> list[GroupItem]:
    """Return what to group by.

    Parameters
    ----------
    vectors
        Those of the axis; a name of one is that vector, whatever it looks like.
    reserved
        Names that no group column may have.

    Raises
    ------
    InvalidInputError
        Two columns would have one name.

    >>> items = group_items("donor, age > 60 AS old", ["donor"], [])
    >>> [(item.expression, item.name) for item in items]
    [('"donor"', 'donor'), (' age > 60 ', 'old')]
    """
    texts: list[str] = []
    for text in written_items(by):
        texts += [text] if text in vectors else split_items(text)
    items = [_item(text, vectors) for text in texts]
    names: list[str] = []
    for item in items:
        if item.name in reserved or item.name in names:
            what = "another column" if item.name in reserved else "another group column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {item.name!r}; "
                f"rename the group column: by={f'{item.expression.strip()} AS group_1'!r}"
            )
        names.append(item.name)
    return items


def split_items(text: str) -> list[str]:
    """Return what is between the commas outside of brackets.

    >>> split_items("donor, coalesce(a, b), X['a, b'] > 2")
    ['donor', ' coalesce(a, b)', " X['a, b'] > 2"]
    """
    parts: list[str] = []
    start = depth = 0
    for token in tokens_of(text):
        depth += token.is_operator("(", "[", "{") - token.is_operator(")", "]", "}")
        if depth == 0 and token.is_operator(","):
            parts.append(text[start : token.start])
            start = token.stop
    return [*parts, text[start:]]


def _item(text: str, vectors: Collection[str]) -> GroupItem:
    tokens = tuple(tokens_of(text))
    if not tokens:
        raise errors.QueryError("by= is empty; pass a vector, or an expression of SQL")
    expression, name = _without_name(text, tokens)
    vector = expression.strip()
    if vector not in vectors:
        vector = unquoted_name(vector)
    if vector in vectors:
        return GroupItem(quoted_name(vector), name or vector, vector)
    return GroupItem(expression, name or text.strip(), None)


def _without_name(text: str, tokens: tuple[Token, ...]) -> tuple[str, str | None]:
    """Return an expression, and the name that it has after AS."""
    if len(tokens) < 3 or not tokens[-2].is_word("AS") or tokens[-1].kind not in ("word", "quoted"):
        return text, None
    last = tokens[-1]
    return text[: tokens[-2].start], unquoted_name(text[last.start : last.stop])
