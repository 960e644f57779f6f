"""Views that queries create: they are planned again whenever they are used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.syntax import quoted_name, unquoted_name

_NAME: Final = r'[^\s."]+|"(?:[^"]|"")*"'
_CREATE_VIEW: Final = re.compile(
    rf"\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?:(?:{_NAME})\.(?=(?:{_NAME})\.))?(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})\s+"
    rf"AS\s+(?P<query>.*?)\s*;?\s*$",
    re.IGNORECASE | re.DOTALL,
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
        match = _CREATE_VIEW.match(statement)
        if match is None:
            return None
        schema = None if match["schema"] is None else unquoted_name(match["schema"])
        name, query = unquoted_name(match["name"]), match["query"]
        return cls(statement, schema, name, query, match["replace"] is not None, match.end("name"))

    def with_columns(self, names: Sequence[str]) -> str:
        """Return the statement with a name for each column."""
        columns = ", ".join(map(quoted_name, names))
        return f"{self.statement[: self.name_end]} ({columns}){self.statement[self.name_end :]}"


def is_named(name: str, query: str) -> bool:
    """Return whether a query has a name, or something that looks like it."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", query) is not None
