"""Errors of LIMIT and OFFSET, which take a number that is known before rows are read."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from daf_query.syntax import tokens_of, unquoted_name
from daf_storage import errors

_UNKNOWN: Final = re.compile(r"Unsupported (?P<clause>LIMIT|OFFSET) expression")
_OF_TYPE: Final = re.compile(
    r"Expected (?P<clause>LIMIT|OFFSET) to be an integer or null, but got (?P<type>\w+)"
)
_NEGATIVE: Final = re.compile(
    r"(?P<clause>LIMIT|OFFSET) must be >= ?0, '(?P<value>-\d+)' was provided"
)


def limit_error(text: str) -> errors.QueryError | None:
    """Return the error of a LIMIT that is no number; None if the engine says another thing.

    >>> print(limit_error("Expected LIMIT to be an integer or null, but got Utf8"))
    LIMIT takes a whole number, and not a Utf8; write LIMIT 5
    >>> limit_error("No field named age.") is None
    True
    """
    if match := _UNKNOWN.search(text):
        return _not_known(match["clause"])
    if match := _OF_TYPE.search(text):
        clause, given = match.groups()
        return errors.QueryError(
            f"{clause} takes a whole number, and not a {given}; write {clause} 5"
        )
    if match := _NEGATIVE.search(text):
        clause, given = match.groups()
        return errors.QueryError(f"{clause} takes a whole number from 0, and not {given}")
    return None


def column_in_limit(name: str, query: str) -> errors.QueryError | None:
    """Return the error of a column that the engine does not know because it stands after LIMIT.

    >>> print(column_in_limit("age", "SELECT name FROM cell LIMIT age"))
    LIMIT takes a number that is known before rows are read, and no column or subquery; write
    LIMIT 5, or LIMIT $most with a parameter
    """
    tokens = list(tokens_of(query))
    for clause, token in pairwise(tokens):
        if clause.is_word("LIMIT", "OFFSET") and token.kind in ("word", "quoted"):
            written = query[token.start : token.stop]
            if unquoted_name(written) == name:
                return _not_known(clause.text)
    return None


def _not_known(clause: str) -> errors.QueryError:
    return errors.QueryError(
        f"{clause} takes a number that is known before rows are read, and no column or subquery; "
        f"write {clause} 5, or {clause} $most with a parameter"
    )
