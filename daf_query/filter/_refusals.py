"""Python that has no counterpart in a condition: refused, with what to write in SQL.  Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, NoReturn

from daf_query.filter._token_tree import Group, Item
from daf_query.sql import syntax_error
from daf_query.syntax import Token, unquoted_name

_METHODS: Final = {
    "startswith": "starts_with({column}, {arguments})",
    "endswith": "ends_with({column}, {arguments})",
    "contains": "{column} ~ {arguments}, a regular expression, or contains({column}, {arguments})",
    "match": "{column} ~ '^...', a regular expression",
    "fullmatch": "{column} ~ '^(...)$', a regular expression",
    "lower": "lower({column})",
    "upper": "upper({column})",
    "strip": "trim({column})",
    "len": "length({column})",
    "replace": "replace({column}, {arguments})",
    "isin": "{column} IN (...)",
    "isna": "{column} IS NULL",
    "isnull": "{column} IS NULL",
    "notna": "{column} IS NOT NULL",
    "notnull": "{column} IS NOT NULL",
    "between": "{column} BETWEEN ... AND ...",
    "abs": "abs({column})",
    "round": "round({column})",
}
"""Methods of pandas and Python, and what to write."""
_OPERATORS: Final = {
    "**": "for a power write power(x, y)",
    "//": "for a whole quotient write floor(x / y)",
    "&&": "write AND",
    "!": "write NOT",
}


def refuse(written: str, place: int, reason: str) -> NoReturn:
    """Raise an error that shows a place of a predicate."""
    line = written.count("\n", 0, place) + 1
    column = place - written.rfind("\n", 0, place)
    raise syntax_error(reason, written, line, column, where="in the predicate")


def refuse_where(written: str, first: Item, columns: Container[str]) -> None:
    """Refuse a condition that begins with WHERE, unless a column has that name.

    Raises
    ------
    QueryError
        It does.
    """
    if isinstance(first, Token) and first.is_word("WHERE") and "where" not in columns:
        refuse(written, first.start, "leave out WHERE; the condition is what comes after it")


def refuse_methods(written: str, items: Sequence[Item], columns: Container[str]) -> None:
    """Refuse a method of a column: ``donor.str.startswith('N')``.

    Raises
    ------
    QueryError
        There is one; the message has the function of SQL.
    """
    if len(items) < 4 or not isinstance(items[-1], Group) or not items[-1].is_bracket("("):
        return
    names = items[:-1:2]
    has_dots = all(isinstance(dot, Token) and dot.is_operator(".") for dot in items[1:-1:2])
    first, last = items[0], items[-2]
    column = written[first.start : first.stop]
    if not has_dots or len(names) * 2 != len(items) or unquoted_name(column) not in columns:
        return
    method = written[last.start : last.stop]
    arguments = written[items[-1].start + 1 : items[-1].stop - 1] or "..."
    advice = _METHODS.get(method, "a function of SQL: method({column})")
    instead = advice.format(column=column, arguments=arguments)
    refuse(written, first.start, f"columns have no methods here; write {instead}")


def refuse_operators(written: str, token: Token, columns: Container[str]) -> None:
    """Refuse an operator that SQL does not have.

    Raises
    ------
    QueryError
        It is one; the message says what to write.
    """
    if token.kind != "operator":
        return
    if token.text in _OPERATORS:
        refuse(written, token.start, f"{token.text} is not SQL; {_OPERATORS[token.text]}")
    after = written[token.stop : token.stop + 1]
    if token.text == "@" and (after.isalpha() or after == "_"):
        end = token.stop + 1
        while end < len(written) and (written[end].isalnum() or written[end] == "_"):
            end += 1
        name = written[token.stop : end]
        if f"@{name}" not in columns:
            refuse(
                written,
                token.start,
                f"@{name} is a variable of Python: write ${name}, and pass "
                f"params={{{name!r}: ...}}",
            )
