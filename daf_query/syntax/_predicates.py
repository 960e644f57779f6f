"""Predicates, conditions on the rows of one table, maybe with ORDER BY and LIMIT.

They are SQL, with four of Python's spellings beside it.

Those of Spark have names in backticks and strings in either quotes, with backslashes; here names
are in double quotes, strings in single ones, and a quote within is doubled.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from daf_query.syntax._statement import Node, Statement, parsed
from daf_query.syntax._tokens import (
    Brackets,
    Edit,
    Token,
    error_at,
    pairs_of,
    quoted_string,
    tokens_of,
    unopened_bracket,
)

_WHERE: Final = "in the predicate"
_WORDS: Final = {"&": "AND", "|": "OR"}
_JOINS: Final = ("AND", "OR")


def is_condition(text: str) -> bool:
    """Return whether SQL is what can stand after WHERE.

    >>> is_condition("a IN (1, 2) ORDER BY a, b"), is_condition("a, b")
    (True, False)
    """
    statement = parsed(f"SELECT 1 WHERE {text}")
    return statement is not None and bool(statement.queries)


def clauses_of(predicate: str) -> list[Token]:
    """Return the first tokens of ORDER BY, LIMIT and OFFSET, outside of brackets."""
    clauses = []
    depth = 0
    tokens = tokens_of(predicate)
    for token, after in itertools.pairwise(tokens):
        depth += token.is_operator("(") - token.is_operator(")")
        is_order = token.is_word("ORDER") and after.is_word("BY")
        is_limit = token.is_word("LIMIT", "OFFSET") and after.kind == "number"
        if depth == 0 and (is_order or is_limit):
            clauses.append(token)
    return clauses


def condition_of(predicate: str) -> str:
    """Return a predicate without its ORDER BY, LIMIT and OFFSET.

    >>> condition_of("age > 60 ORDER BY age")
    'age > 60 '
    """
    clauses = clauses_of(predicate)
    return predicate[: clauses[0].start] if clauses else predicate


def python_edits(predicate: str) -> tuple[Edit, ...]:
    """Return what makes SQL of ``) & (``, ``) | (``, ``~(`` and ``in [...]``.

    What is SQL stays as it is: only a bracket that is a condition by itself is joined or negated.

    Raises
    ------
    QueryError
        A bracket closes that is not open, there is a WHERE, or ``|`` and AND are mixed, which
        Python and SQL read differently.

    Examples
    --------
    >>> from daf_query.syntax import edited
    >>> edited("~(a) & (b in [1])", python_edits("~(a) & (b in [1])"))
    'NOT (a) AND (b in (1))'
    """
    condition = condition_of(predicate)
    tokens = tokens_of(condition)
    if (bracket := unopened_bracket(predicate)) is not None:
        raise error_at("no bracket is open that ) could close", predicate, bracket, where=_WHERE)
    if len(tokens) > 1 and tokens[0].is_word("WHERE") and tokens[1].kind != "operator":
        reason = "leave out WHERE; the condition is what comes after it"
        raise error_at(reason, predicate, tokens[0].start, where=_WHERE)
    if not any(character in condition for character in "&|~["):
        return ()
    return tuple(sorted(_edits(predicate, tokens)))


def _edits(predicate: str, tokens: Sequence[Token]) -> Iterator[Edit]:
    pairs = pairs_of(tokens)
    places = {token.start: number for number, token in enumerate(tokens)}
    alone = {p.opening: p for p in pairs if _is_alone(tokens, places[p.opening], places[p.closing])}
    closed = {pair.closing for pair in alone.values()}
    for pair in pairs:
        if pair.before == "IN" and tokens[places[pair.opening]].is_operator("["):
            yield Edit(pair.opening, pair.opening + 1, "(")
            yield Edit(pair.closing, pair.closing + 1, ")")
    for place, token in enumerate(tokens):
        follows = place > 0 and tokens[place - 1].start in closed
        operand = next((t.start for t in tokens[place + 1 :] if not t.is_operator("~")), None)
        if operand not in alone:
            continue
        if token.is_operator("~") and _begins(tokens, place):
            yield Edit(token.start, token.stop, "NOT ")
        elif token.is_operator("&", "|") and follows:
            if token.text == "|" and _has_and(tokens, pairs, token.start):
                reason = "Python and SQL read | beside AND differently: put brackets around each"
                raise error_at(reason, predicate, token.start, where=_WHERE)
            before = "" if predicate[token.start - 1].isspace() else " "
            after = "" if predicate[token.stop].isspace() else " "
            yield Edit(token.start, token.stop, f"{before}{_WORDS[token.text]}{after}")


def _is_alone(tokens: Sequence[Token], opening: int, closing: int) -> bool:
    """Return whether nothing but conditions is around a bracket: no operand, no function."""
    after = tokens[closing + 1] if closing + 1 < len(tokens) else None
    ends = after is None or after.is_operator("&", "|", ")", ",") or after.is_word(*_JOINS)
    while tokens[opening - 1].is_operator("~") and opening:
        opening -= 1
    is_negated = opening > 0 and tokens[opening - 1].is_word("NOT")
    # Python's "not" takes all that & joins, SQL's the first of it.
    is_loose = is_negated and after is not None and after.is_operator("&", "|")
    return tokens[closing].is_operator(")") and ends and _begins(tokens, opening) and not is_loose


def _begins(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a condition begins at a token, as nothing before it is an operand."""
    if place == 0:
        return True
    before = tokens[place - 1]
    return before.is_operator("(", ",", "&", "|", "~") or before.is_word(*_JOINS, "NOT")


def _has_and(tokens: Sequence[Token], pairs: Sequence[Brackets], place: int) -> bool:
    """Return whether an AND is between the same brackets as a place."""

    def around(place: int) -> Brackets | None:
        return max((p for p in pairs if p.opening < place < p.closing), default=None)

    return any(each.is_word("AND") and around(each.start) == around(place) for each in tokens)


def conjuncts_of(statement: Statement, condition: Node) -> Iterator[tuple[str, Node]]:
    """Yield what AND joins in the condition of a WHERE, within brackets around several too."""
    pending = [(condition, *statement.item(condition))]
    while pending:
        node, start, stop = pending.pop()
        match node:
            case {"Nested": inner}:
                pair = next(pair for pair in statement.brackets if pair.opening >= start)
                pending.append((inner, pair.opening + 1, pair.closing))
            case {"BinaryOp": {"op": "And", "left": left, "right": right}}:
                first, last = statement.span(left)[1], statement.span(right)[0]
                between = (t for t in statement.tokens if first <= t.start < last)
                joint = next(token for token in between if token.is_word("AND"))
                pending += [(right, joint.stop, stop), (left, start, joint.start)]
            case _:
                yield statement.text[start:stop].strip(), node


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
