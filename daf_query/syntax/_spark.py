r"""Quotes of Spark's SQL and of ours: what quotes names there, and what quotes strings.

Spark has names in backticks and strings in either quotes, with backslashes; here names are in
double quotes, strings in single ones, and a quote within is doubled.
"""

from __future__ import annotations

import re
from typing import Final

from daf_query.syntax._tokens import quoted_string

_SKIPPED: Final = r"--[^\n]*|/\*.*?\*/"
_OF_SPARK: Final = re.compile(
    rf"""{_SKIPPED}|(?P<raw>\b[rR])?(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"|(?P<name>`(?:[^`]|``)*`)",
    re.DOTALL,
)
_OURS: Final = re.compile(
    rf"""{_SKIPPED}|(?P<string>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*")""", re.DOTALL
)
_WITH: Final = re.compile(rf"(?:\s|{_SKIPPED})*WITH(\s+RECURSIVE)?\b", re.IGNORECASE | re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def to_local(query: str) -> str:
    r"""Return a query of Spark with the quotes that are used here.

    >>> to_local('SELECT `my X` FROM cell WHERE donor = "it\'s" -- `x`')
    'SELECT "my X" FROM cell WHERE donor = \'it\'\'s\' -- `x`'
    """
    return _OF_SPARK.sub(_local, query)


def to_spark(query: str) -> str:
    r"""Return a query with the quotes of Spark.

    >>> to_spark('''SELECT "X['CD8A']" FROM cell WHERE donor = 'it''s' ''')
    "SELECT `X['CD8A']` FROM cell WHERE donor = 'it\\'s' "
    """
    return _OURS.sub(_spark, query)


def with_definitions(query: str, definitions: str) -> str:
    """Return a query of Spark with more tables that WITH defines, before its own.

    >>> with_definitions("WITH a AS (SELECT 1) SELECT * FROM a", "b AS (SELECT 2)")
    'WITH b AS (SELECT 2),  a AS (SELECT 1) SELECT * FROM a'
    """
    match = _WITH.match(query)
    if match is None:
        return f"WITH {definitions} {query}"
    return f"WITH{match[1] or ''} {definitions}, {query[match.end() :]}"


def backticked(name: str) -> str:
    """Return a name as Spark quotes it.

    >>> backticked("it's `odd`")
    "`it's ``odd```"
    """
    return "`" + name.replace("`", "``") + "`"


def _local(match: re.Match[str]) -> str:
    name, string = match["name"], match["string"]
    if name is not None:
        return '"' + name[1:-1].replace("``", "`").replace('"', '""') + '"'
    if string is None:
        return match.group()
    quote, value = string[0], string[1:-1]
    if match["raw"] is None:
        value = _ESCAPE.sub(_unescaped, value.replace(quote * 2, "\\" + quote))
    return quoted_string(value)


def _unescaped(match: re.Match[str]) -> str:
    written = match[1]
    if written.startswith("u") and len(written) > 1:
        return chr(int(written[1:], 16))
    if len(written) > 1:
        return chr(int(written, 8))
    if written in "%_":
        return f"\\{written}"
    return _ESCAPED.get(written, written)


def _spark(match: re.Match[str]) -> str:
    name, string = match["name"], match["string"]
    if name is not None:
        return backticked(name[1:-1].replace('""', '"'))
    if string is None:
        return match.group()
    value = string[1:-1].replace("''", "'")
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
