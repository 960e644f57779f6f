"""Views that queries create: they are planned again whenever they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daf_query.sql._plan_nodes import TableName
from daf_query.syntax import (
    UnparsedError,
    kind_of,
    name_of,
    one_statement,
    parsed,
    quoted_name,
)


@dataclass(frozen=True, slots=True)
class CreatedView:
    """What a statement says that creates a view.

    >>> view = CreatedView.of("CREATE VIEW old AS (SELECT name FROM cell);")
    >>> view.parts, view.query, view.replaces
    (('old',), '(SELECT name FROM cell)', False)
    >>> CreatedView.of("SELECT name FROM cell") is None
    True
    """

    statement: str
    parts: tuple[str, ...]
    """What it is called: with its schema, if that is said."""
    query: str
    """What it is of."""
    replaces: bool
    """Whether it takes the place of another one."""
    name_end: int
    """Where the name ends in the statement."""

    @classmethod
    def of(cls, text: str) -> CreatedView | None:
        """Return the view that a statement creates; None if it creates none."""
        try:
            statement = parsed(text)
        except UnparsedError:  # the engine says what is wrong
            return None
        if [kind_of(each) for each in statement.tree] != ["CreateView"]:
            return None
        view = statement.tree[0]["CreateView"]
        if view["columns"] or view["materialized"] or view["temporary"]:
            return None
        start, (_, name_end) = statement.start_of(view["query"]), statement.span(view["name"])
        query = one_statement(text)[start:]
        return cls(text, name_of(view["name"]), query, view["or_replace"], name_end)

    def with_columns(self, names: Sequence[str]) -> str:
        """Return the statement with a name for each column."""
        columns = ", ".join(map(quoted_name, names))
        return f"{self.statement[: self.name_end]} ({columns}){self.statement[self.name_end :]}"


def named_views(views: Mapping[TableName, str], query: str) -> dict[TableName, str]:
    """Return the views that a query names itself, with their queries.

    >>> views = {("db", "age"): "SELECT name FROM cell"}
    >>> named_views(views, "SELECT age FROM cell"), len(named_views(views, "SELECT * FROM db.age"))
    ({}, 1)
    """
    try:
        tables = {parts[-2:] for parts in parsed(query).tables} if views else ()
    except UnparsedError:  # the engine says what is wrong
        tables = ()
    return {name: sql for name, sql in views.items() if (name in tables or (name[1],) in tables)}


def all_named_views(views: Mapping[TableName, str], query: str) -> dict[TableName, str]:
    """Return the views that a query names, itself or by another of these views.

    >>> views = {("db", "old"): "SELECT * FROM cell", ("db", "older"): "SELECT * FROM old"}
    >>> [name for _, name in all_named_views(views, "SELECT * FROM older")]
    ['older', 'old']
    """
    found: dict[TableName, str] = {}
    queries = [query]
    while queries:
        new = named_views(views, queries.pop())
        queries += [sql for name, sql in new.items() if name not in found]
        found.update(new)
    return found
