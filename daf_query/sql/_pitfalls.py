"""SQL that the engine answers wrongly: refused with a reason, or written so that it is right.

Each was compared with DuckDB.  What can be seen in the text of a query is refused here; what
depends on the data is listed in ``docs/reference/limits.md``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Final

import datafusion

from daf_query.sql._in_lists import barriers, may_merge
from daf_query.syntax import Token, bracketed, tokens_of
from daf_storage import errors

_SUSPECT: Final = re.compile(r"\^|similar|distinct|intersect|except|any|all|some", re.IGNORECASE)
_ROUNDING: Final = re.compile(r"\b(?:nvl|ifnull)\s*\(", re.IGNORECASE)
"""Functions that make Float32 of a sum of counts, which is unsigned, and 0, which is not."""
_QUANTIFIED: Final = re.compile(r"\b(?:any|all|some)\s*\(", re.IGNORECASE)
_QUANTIFIED_JOIN: Final = re.compile(r"^ *[\w ]*Join:.*Filter:.*\b(?:ANY|ALL) \(<subquery>\)")
_CLAUSES: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH"),
    *("UNION", "EXCEPT", "INTERSECT", "WINDOW", "QUALIFY"),
    *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ON", "USING"),
    *("AS", "WHEN", "THEN", "ELSE", "ASC", "DESC", "NULLS"),
)
"""Words that end an expression."""


def safe_sql(query: str, *, is_part: bool = False) -> str:
    """Return a query that the engine answers rightly, which is nearly always the same.

    The column of a quantified subquery gets a name of its own, since the engine takes a column of
    the outer query that has the same name for that of the subquery.  Lists of values that it would
    merge wrongly are kept apart, see `in_lists`.  ``nvl`` and ``ifnull`` become ``coalesce``, which
    does not round; how the engine calls their columns is seen in a plan of the query as it was
    written, see `is_renamed`.

    Parameters
    ----------
    is_part
        Conditions of other queries may meet those of this one: it is a view, or names one.

    Raises
    ------
    QueryError
        The engine would answer it wrongly; the message says what to write instead.

    Examples
    --------
    >>> safe_sql("SELECT n FROM t WHERE n >= ALL (SELECT n FROM t)")
    'SELECT n FROM t WHERE n >= ALL (SELECT n AS __quantified_0 FROM t)'
    """
    if _ROUNDING.search(query) is not None:
        query = _without_rounding(query)
    has_lists = may_merge(query, is_part=is_part)
    if not has_lists and _SUSPECT.search(query) is None:
        return query
    tokens = tuple(tokens_of(query))
    for refuse in _REFUSALS:
        refuse(tokens)
    inserted = _names_of_columns(tokens)
    if has_lists:
        inserted += barriers(tokens, is_part=is_part)
    for position, text in sorted(inserted, reverse=True):
        query = query[:position] + text + query[position:]
    return query


def is_renamed(query: str) -> bool:
    """Return whether columns of the safe query may have other names than those of the query.

    >>> is_renamed("SELECT nvl(n, 0) FROM t"), is_renamed("SELECT coalesce(n, 0) FROM t")
    (True, False)
    """
    return _ROUNDING.search(query) is not None


def _without_rounding(query: str) -> str:
    """Return a query with ``coalesce`` for ``nvl`` and ``ifnull``, which mean the same.

    A NULL that changes nothing keeps their columns apart from each other, and from those that the
    query itself calls so.

    >>> _without_rounding("SELECT ifnull(sum(n), 0), 'nvl(' FROM t")
    "SELECT coalesce(NULL, NULL, sum(n), 0), 'nvl(' FROM t"
    """
    pairs = itertools.pairwise(tuple(tokens_of(query)))
    calls = [pair for pair in pairs if pair[1].is_operator("(")]
    for name, opening in reversed([pair for pair in calls if pair[0].is_word("NVL", "IFNULL")]):
        nulls = "NULL, " if name.is_word("NVL") else "NULL, NULL, "
        query = f"{query[: name.start]}coalesce({nulls}{query[opening.stop :]}"
    return query


def check_plan(query: str, frame: datafusion.DataFrame) -> None:
    """Refuse a plan that the engine carries out wrongly.

    Raises
    ------
    QueryError
        A join has a condition with ANY or ALL of a subquery.
    """
    if _QUANTIFIED.search(query) is None:
        return
    plan = str(frame.logical_plan().display_indent())
    if any(_QUANTIFIED_JOIN.search(line) for line in plan.splitlines()):
        raise errors.QueryError(
            "ANY and ALL of a subquery are refused in JOIN ... ON: the engine resolves their "
            "columns wrongly there; put the condition into WHERE"
        )


def _refuse_bags(tokens: Sequence[Token]) -> None:
    for first, second in itertools.pairwise(tokens):
        if first.is_word("INTERSECT", "EXCEPT") and second.is_word("ALL"):
            raise errors.QueryError(
                f"{first.text} ALL is refused: the engine does not count how often a row occurs "
                f"on each side; number equal rows with row_number() OVER (PARTITION BY ...) and "
                f"use {first.text}, see docs/reference/limits.md"
            )


def _refuse_unanchored_patterns(tokens: Sequence[Token]) -> None:
    for place, (first, second) in enumerate(itertools.pairwise(tokens)):
        if first.is_word("SIMILAR") and second.is_word("TO"):
            if not _is_anchored(tokens[place + 2 : place + 4]):
                raise errors.QueryError(
                    "SIMILAR TO is refused: the engine searches its pattern anywhere in the text, "
                    "where SQL compares the whole text; write ~ '^(...)$' for a regular "
                    "expression, or LIKE for % and _"
                )


def _is_anchored(tokens: Sequence[Token]) -> bool:
    """Return whether a pattern is a constant that can match a whole text only."""
    if not tokens or tokens[0].kind != "string" or not tokens[0].text.startswith("'"):
        return False
    if any(token.is_word("ESCAPE") or token.is_operator("|") for token in tokens[1:]):
        return False
    pattern = tokens[0].text[1:-1]
    if re.fullmatch(r"\^\([^()]*\)\$", pattern):
        return True
    return re.fullmatch(r"\^[^|]*(?<!\\)\$", pattern) is not None


def _refuse_powers(tokens: Sequence[Token]) -> None:
    if any(token.is_operator("^") for token in tokens):
        raise errors.QueryError(
            "the operator ^ is refused: the engine takes it for the exclusive or of bits, others "
            "for a power; write power(x, 2), or (a | b) - (a & b)"
        )


def _refuse_loose_distinct(tokens: Sequence[Token]) -> None:
    for place in range(len(tokens) - 1):
        if tokens[place].is_word("DISTINCT") and tokens[place + 1].is_word("FROM"):
            before = tokens[place - 1] if place else None
            is_comparison = before is not None and before.is_word("IS", "NOT")
            joined = _joined_with(tokens[place + 2 :]) if is_comparison else None
            if joined is not None:
                raise errors.QueryError(
                    f"IS DISTINCT FROM ... {joined.text} is refused: the engine takes all that "
                    "follows for the right side of the comparison; write (a IS DISTINCT FROM b) "
                    f"{joined.text} ..."
                )


def _joined_with(tokens: Sequence[Token]) -> Token | None:
    """Return the AND or OR that follows an operand; None if something else does."""
    depth = betweens = 0
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        if token.is_operator("(", "[") or token.is_word("CASE"):
            depth += 1
        elif token.is_operator(")", "]") or token.is_word("END"):
            depth -= 1
            if depth < 0:
                return None
        elif depth:
            continue
        elif token.is_word("BETWEEN"):
            betweens += 1
        elif token.is_word("AND") and betweens:
            betweens -= 1
        elif token.is_word("AND", "OR"):
            return token
        elif token.is_operator(",", ";") or _ends_expression(token, after):
            return None
    return None


def _ends_expression(token: Token, after: Token | None) -> bool:
    if not token.is_word(*_CLAUSES):
        return False
    is_call = after is not None and after.is_operator("(")
    return not (token.is_word("LEFT", "RIGHT") and is_call)


def _names_of_columns(tokens: Sequence[Token]) -> list[tuple[int, str]]:
    """Return what to insert where, so that the column of each quantified subquery is its own."""
    inserted: list[tuple[int, str]] = []
    for place in range(1, len(tokens) - 2):
        compared, word, opening, first = tokens[place - 1 : place + 3]
        if not word.is_word("ANY", "ALL", "SOME") or not compared.is_operator("=", "<", ">"):
            continue
        if opening.is_operator("(") and (first.is_word("SELECT", "WITH") or first.is_operator("(")):
            inside = bracketed(tokens[place + 1 :])
            inserted += _naming(inside, f"__quantified_{len(inserted)}")
    return inserted


def _naming(inside: Sequence[Token], name: str) -> list[tuple[int, str]]:
    """Return what to insert where, so that the only column of a subquery has another name."""
    while inside and inside[0].is_operator("("):
        inside = bracketed(inside)
    selected = _selected(inside)
    if not selected:
        return []
    last = selected[-1]
    if last.is_operator("*"):  # a derived table is of no use where the subquery is correlated
        return [(inside[0].start, "SELECT * FROM ("), (inside[-1].stop, f") AS {name}")]
    is_column = all(
        token.is_operator(".") if place % 2 else token.kind in ("word", "quoted")
        for place, token in enumerate(selected)
    )
    return [(last.stop, f" AS {name}")] if is_column and len(selected) % 2 else []


def _selected(tokens: Sequence[Token]) -> list[Token]:
    """Return what stands between the SELECT of a query and its FROM."""
    depth = 0
    selected: list[Token] | None = None
    for token in tokens:
        if token.is_operator("("):
            depth += 1
        elif token.is_operator(")"):
            depth -= 1
        if depth == 0 and selected is None and token.is_word("SELECT"):
            selected = []
        elif depth == 0 and token.is_word("FROM"):
            break
        elif selected is not None and not (not selected and token.is_word("DISTINCT", "ALL")):
            selected.append(token)
    return selected or []


_REFUSALS: Final[tuple[Callable[[Sequence[Token]], None], ...]] = (
    _refuse_bags,
    _refuse_unanchored_patterns,
    _refuse_powers,
    _refuse_loose_distinct,
)
