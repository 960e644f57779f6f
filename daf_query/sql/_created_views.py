"""Views that queries create: they are planned again whenever they are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daf_query.syntax import (
    UnparsedError,
    kind_of,
    name_of,
    names_in_text,
    one_statement,
    parsed,
    quoted_name,
)


@dataclass(frozen=True, slots=True)
class CreatedView:
    """What a statement says that creates a view.

    >>> view = CreatedView.of("CREATE VIEW old AS SELECT name FROM cell;")
    >>> view.name, view.query, view.replaces
    ('old', 'SELECT name FROM cell', False)
    >>> CreatedView.of("SELECT name FROM cell") is None
    True
    """

    statement: str
    schema: str | None
    """Where it is created, if that is said."""
    name: str
    """What it is called."""
    query: str
    """What it is of."""
    replaces: bool
    """Whether it takes the place of another one."""
    name_end: int
    """Where the name ends in the statement."""

    @classmethod
    def of(cls, statement: str) -> CreatedView | None:
        """Return the view that a statement creates; None if it creates none."""
        try:
            found = parsed(statement)
        except UnparsedError:  # the engine says what is wrong
            return None
        node = found.tree[0]["CreateView"] if kind_of(found.tree[0]) == "CreateView" else None
        if node is None or node["columns"] or node["temporary"] or node["materialized"]:
            return None
        schema, name = ("", *name_of(node["name"]))[-2:]
        query = one_statement(statement)[found.start_of(node["query"]) :]
        name_end = found.span(node["name"])[1]
        return cls(statement, schema or None, name, query, node["or_replace"], name_end)

    def with_columns(self, names: Sequence[str]) -> str:
        """Return the statement with a name for each column."""
        columns = ", ".join(map(quoted_name, names))
        return f"{self.statement[: self.name_end]} ({columns}){self.statement[self.name_end :]}"


def names_table(name: str, query: str) -> bool:
    """Return whether a query names a table; of what is no SELECT, whether it has the word.

    >>> names_table("old", "SELECT 1 AS old FROM cell"), names_table("old", "DESCRIBE old")
    (False, True)
    """
    try:
        statement = parsed(query)
    except UnparsedError:  # the engine may know it
        return name.lower() in names_in_text(query)
    if not statement.queries:
        return name.lower() in names_in_text(query)
    return any(source.parts[-1:] == (name,) for source in statement.sources)
