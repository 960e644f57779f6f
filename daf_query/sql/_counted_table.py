"""Queries for the number of rows of one table."""

from __future__ import annotations

import re
from typing import Final

from daf_query.syntax import unquoted_name

_WORD: Final = r'[^\W\d]\w*|"(?:[^"]|"")*"'
_COUNT: Final = re.compile(
    rf"\s*SELECT\s+count\(\s*(?:\*|\d+)\s*\)(?:\s+(?:AS\s+)?(?:{_WORD}))?\s+"
    rf"FROM\s+(?:(?P<schema>{_WORD})\.)?(?P<table>{_WORD})\s*;?\s*$",
    re.IGNORECASE,
)


def counted_table(query: str, default: str) -> tuple[str, str] | None:
    """Return the schema and the table whose rows a query counts; None if it does more.

    >>> counted_table("SELECT count(*) AS n FROM cell", "pbmc")
    ('pbmc', 'cell')
    >>> counted_table("SELECT count(*) FROM cell WHERE age > 60", "pbmc") is None
    True
    """
    match = _COUNT.match(query)
    if match is None:
        return None
    schema = default if match["schema"] is None else unquoted_name(match["schema"])
    return schema, unquoted_name(match["table"])
