"""Arithmetic that the engine would do in integers of few bits, or without a sign, as plans show it.

The engine adds, subtracts and multiplies two columns in their own type: 2 - 3 is 255 in UInt8.
Which of the columns these are is seen in the text of the optimised plan, where all conversions are
written down.  The query is planned again with tables that have these columns in 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from daf_query.syntax import Token, bracketed, tokens_of
from daf_query.table import TableDataset, is_of_few_bits

FEW_BITS: Final = frozenset({"Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32", "UInt64"})
"""The engine's names of the types in which sums or differences of counts may wrap around."""

_OPERATOR: Final = re.compile(r"[-+/%]|<<|\babs\b|\*(?!\s*(?:[),;]|from\b|$))", re.IGNORECASE)
"""What a query has that computes; also more."""
_COMPUTES: Final = re.compile(r" [-+*/%] | << |(?:^|\()- |\babs\(")
"""The same in an expression of a plan."""
_GENERATED: Final = re.compile(
    r"(?:\b__common_expr_\d+|\b__unnest_placeholder\(.*?,depth=\d+\)) AS "
)
"""A column that the optimiser made of an expression, before what that was called."""
_NO_BITS: Final = re.compile("Float|Decimal|Utf8|Boolean")
"""How types begin that are computed with exactly, or not at all."""
_STRING: Final = re.compile(r'(?:Utf8|Utf8View|LargeUtf8)\("[^"]*"\)')
_WIDE_CAST: Final = re.compile(r" AS (?:Int64|Float32|Float64|Decimal\d+\([^()]*\)|Utf8\w*)$")
_CAST: Final = re.compile(r" AS \w+(?:\([^()]*\))?$")
_FIELD: Final = re.compile(
    r"(?:^|, )(.+?):(\w+)(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?(?:;N)?(?=, |$)"
)
_FEW_BITS_WITHIN: Final = re.compile(r"\b(?:Int8|Int16|Int32|UInt\d+)\b")
_FEW_BITS_FIELD: Final = re.compile(r":(?:Int8|Int16|Int32|UInt\d+)(?:;N)?(?=, |$)")
_CONNECTIVE: Final = re.compile(r" (?:AND|OR|IS (?:NOT )?DISTINCT FROM|=|!=|<=?|>=?) ")
_WHEN: Final = re.compile(r"\bWHEN (.*?) THEN ")
_FRAME: Final = re.compile(
    r" (?:ROWS|RANGE|GROUPS) BETWEEN \S+ (?:PRECEDING|ROW|FOLLOWING)"
    r" AND \S+ (?:PRECEDING|ROW|FOLLOWING)"
)
"""The frame of a window, which is part of the engine's name of what is computed over it."""
_SUBQUERY: Final = "<subquery>"
_UNLIKE_NAMES: Final = re.compile(
    r" AS |\bCASE\b|\bWHEN\b|\bTHEN\b|\bNOT\b" + "|" + _CONNECTIVE.pattern
)
_RANKS: Final = ("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE")


def may_compute(query: str) -> bool:
    """Return whether a query may have arithmetic.

    >>> may_compute("SELECT a - b FROM t"), may_compute("SELECT *, count(*) FROM t")
    (True, False)
    """
    return _OPERATOR.search(query) is not None


def is_negation_of_unsigned(error: Exception) -> bool:
    """Return whether the engine refused to change the sign of a number that has none."""
    return "operator '-' only supports signed" in str(error)


def columns_of_few_bits(tables: Iterable[TableDataset | None]) -> frozenset[str]:
    """Return the columns of some tables in which sums or differences may wrap around."""
    return frozenset(
        field.name
        for table in tables
        if table is not None
        for field in table.schema
        if is_of_few_bits(field.type)
    )


def computed_in_few_bits(plan: Any, columns: AbstractSet[str]) -> frozenset[str]:
    """Return the columns with whose values an optimised plan computes in few bits.

    They go by names: of several with one name, all; and of those that a plan computes of others,
    these too.

    Parameters
    ----------
    columns
        Those of the tables that are of such types.
    """
    lines = str(plan.display_indent()).splitlines()
    with_types = str(plan.display_indent_schema()).splitlines()
    names = set(columns)
    if len(lines) != len(with_types) or any(map(_FRAME.search, names)):
        return frozenset(names)
    referred, generated = set(columns), set[str]()
    for number, (line, with_type) in enumerate(zip(lines, with_types, strict=True)):
        text = _FRAME.sub("", with_type[len(line) :].strip()[1:-1])
        types = _FIELD.findall(text)
        fields = [name for name, kind, _ in types if kind in FEW_BITS]
        if len(fields) != len(_FEW_BITS_FIELD.findall(text)):
            return frozenset(names)  # a name that looks like a type
        names.update(fields)
        names.update(name for name, _, inner in types if _FEW_BITS_WITHIN.search(inner))
        referred.update(fields if number else ())  # nothing is above the first line
        generated.update(name for name, kind, _ in types if not _NO_BITS.match(kind))
    is_split = not any(map(_is_unlike_names, referred))
    written = [_FRAME.sub("", _STRING.sub("''", line)) for line in lines]
    return _operands(written, names, generated, is_split=is_split)


def _operands(
    lines: list[str], names: AbstractSet[str], generated: AbstractSet[str], *, is_split: bool
) -> frozenset[str]:
    """Return which of some columns are computed with, or go into what is computed with.

    Parameters
    ----------
    generated
        Columns, of which some are made by the optimiser, whose names hide what is computed of them.
    is_split
        Whether what is only compared is left out: not where names look like what connects.
    """
    if not names:
        return frozenset()
    ordered = sorted(names, key=len, reverse=True)
    named = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in ordered))
    each = [re.compile(rf"(?<!\w){re.escape(name)}(?!\w)") for name in ordered]

    def within(text: str) -> set[str]:
        return {name for name, one in zip(ordered, each, strict=True) if one.search(text)}

    expressions = [part for line in lines for part in _split(line.partition(": ")[2])]
    operands: set[str] = set()
    for expression in expressions:
        atoms = _atoms(expression) if is_split else [expression]
        for part in (part for atom in atoms for part in _without_casts(atom)):
            computed = _computed(part, generated) if is_split else part
            if not _COMPUTES.search(computed):
                continue
            if named.search(computed):
                operands |= within(computed)
            if _SUBQUERY in computed:
                operands |= within("\n".join(_subqueries(lines)))
    while operands:
        ends = tuple(f" AS {name}" for name in operands)
        made = (each for each in expressions if each.rstrip("]").endswith(ends))
        sources = {name for expression in made for name in within(expression)}
        if sources <= operands:
            break
        operands |= sources
    return frozenset(operands)


def _is_unlike_names(name: str) -> bool:
    """Return whether a column is called like what connects expressions, or like half of one.

    >>> _is_unlike_names("sum(cell.age)"), _is_unlike_names("a > b"), _is_unlike_names("a)")
    (False, True, True)
    """
    if _UNLIKE_NAMES.search(name) is not None:
        return True
    depth = 0
    for character in name:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return True
    return depth > 0


def _subqueries(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a plan that belong to queries within expressions.

    >>> list(_subqueries(["Filter: (<subquery>) > a", "  Subquery:", "    min(b)", "  Scan: a"]))
    ['    min(b)']
    """
    outside: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if outside is not None and indent > outside:
            yield line
        else:
            outside = indent if line.lstrip().startswith("Subquery:") else None


def _computed(expression: str, generated: AbstractSet[str]) -> str:
    """Return an expression without what it is called: the engine's names are expressions.

    Where a name may end is not seen behind a column that the optimiser made: all of it is
    returned.

    >>> _computed("CAST(a AS Int64) + Int64(1) AS t.a + Int64(1)", set())
    'CAST(a'
    >>> _computed("__common_expr_1 AS f(t.a) - t.b", {"__common_expr_1"})
    '__common_expr_1 AS f(t.a) - t.b'
    """
    for match in _GENERATED.finditer(expression):
        if match.group().removesuffix(" AS ") in generated:
            return expression
    return expression.partition(" AS ")[0]


def _split(text: str) -> Iterator[str]:
    """Yield the expressions of a list.

    >>> list(_split("a, f(b, c), d"))
    ['a', 'f(b, c)', 'd']
    """
    depth = start = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0 and text[place + 1 : place + 2] == " ":
            yield text[start:place]
            start = place + 2
    yield text[start:]


def _atoms(expression: str) -> Iterator[str]:
    """Yield what an expression connects, compares or chooses by: each is computed by itself.

    >>> list(_atoms("(a + Int64(1) > b AND NOT c = d) OR f(a > b, c)"))
    ['a + Int64(1)', 'b', 'c', 'd', 'f(a > b, c)']
    >>> list(_atoms("CASE WHEN a > b THEN c ELSE d END - e"))
    ['a', 'b', 'CASE THEN c ELSE d END - e']
    """
    text = expression.strip()
    conditions = _WHEN.findall(text)
    for condition in conditions:
        yield from _atoms(condition)
    if conditions or "CASE" in text:
        yield _WHEN.sub("THEN ", text)
        return
    pieces = _pieces(text)
    if len(pieces) > 1:
        for piece in pieces:
            yield from _atoms(piece)
    elif text.startswith("NOT "):
        yield from _atoms(text.removeprefix("NOT "))
    elif text.startswith("(") and _closing(text, 0) == len(text) - 1:
        yield from _atoms(text[1:-1])
    else:
        yield text


def _pieces(text: str) -> list[str]:
    """Return what stands between the connectives of a text that are not within brackets."""
    start, pieces = 0, []
    for match in _CONNECTIVE.finditer(text):
        before = text[start : match.start()]
        if before.count("(") == before.count(")"):
            pieces.append(before)
            start = match.end()
    return [*pieces, text[start:]]


def _closing(text: str, opening: int) -> int:
    """Return where the bracket is closed that opens at some place."""
    depth = 0
    for place in range(opening, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    return len(text)


def _without_casts(text: str) -> Iterator[str]:
    """Yield an expression without what it converts to wide types; and what is converted.

    >>> list(_without_casts("CAST(a - b AS Int64) * Int64(2)"))
    ['a - b', '0 * Int64(2)']
    """
    while (place := text.find("CAST(")) >= 0:
        depth, stop = 1, place + 5
        while stop < len(text) and depth:
            depth += (text[stop] == "(") - (text[stop] == ")")
            stop += 1
        inside = text[place + 5 : stop - 1]
        cast = _CAST.search(inside)
        if cast is None:  # it is something else that ends so
            text = f"{text[:place]}CAST {text[place + 5 :]}"
            continue
        operand = inside[: cast.start()]
        if _WIDE_CAST.search(inside):
            yield from _without_casts(operand)
            operand = "0"
        text = (
            f"{text[:place]}({operand}){text[stop:]}"
            if operand != "0"
            else (f"{text[:place]}0{text[stop:]}")
        )
    yield text


def source_of(statement: str) -> str | None:
    """Return the query whose rows a statement stores; None if it has none.

    >>> source_of("COPY (SELECT a - b FROM t) TO 'x.parquet'")
    'SELECT a - b FROM t'
    >>> source_of("CREATE TABLE u AS SELECT a - b FROM t;")
    'SELECT a - b FROM t'
    """
    tokens = tuple(tokens_of(statement))
    for place, token in enumerate(tokens):
        if token.is_word("SELECT", "WITH"):
            is_inside = place > 0 and tokens[place - 1].is_operator("(")
            inside = bracketed(tokens[place - 1 :]) if is_inside else tokens[place:]
            while inside and inside[-1].is_operator(";"):
                inside = inside[:-1]
            return statement[token.start : inside[-1].stop] if inside else None
    return None


def with_signed_ranks(query: str) -> str:
    """Return a query whose ranks are signed integers: a difference of two may be negative.

    >>> with_signed_ranks("SELECT rank() OVER (ORDER BY a) - rank() OVER w FROM t")
    'SELECT CAST(rank() OVER (ORDER BY a) AS BIGINT) - CAST(rank() OVER w AS BIGINT) FROM t'
    """
    tokens = tuple(tokens_of(query))
    edits: list[tuple[int, str]] = []
    for place, token in enumerate(tokens):
        if token.is_word(*_RANKS) and (last := _end_of_call(tokens[place:])) is not None:
            edits += [(token.start, "CAST("), (last.stop, " AS BIGINT)")]
    for position, text in sorted(edits, reverse=True):
        query = query[:position] + text + query[position:]
    return query


def _end_of_call(tokens: tuple[Token, ...]) -> Token | None:
    """Return the last token of a call of a window function; None if it is none."""
    if len(tokens) < 2 or not tokens[1].is_operator("("):
        return None
    after = 3 + len(bracketed(tokens[1:]))
    if len(tokens) <= after + 1 or not tokens[after].is_word("OVER"):
        return None
    window = after + 1
    if not tokens[window].is_operator("("):
        return tokens[window]
    closing = window + 1 + len(bracketed(tokens[window:]))
    return tokens[closing] if closing < len(tokens) else None
