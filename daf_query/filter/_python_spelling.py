"""Python's spellings of conditions as SQL.  Pure.

What is SQL keeps its meaning: only what the engine refuses is written differently.  What Python and
pandas read differently from each other is refused with a sentence.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from daf_query.filter._comparisons import (
    EQUALITIES,
    Comparison,
    comparison_of,
    is_chain,
)
from daf_query.filter._operands import (
    Operand,
    ValueType,
    is_call,
    is_single,
    is_unknown_name,
    type_of,
)
from daf_query.filter._refusals import refuse, refuse_methods, refuse_operators, refuse_where
from daf_query.filter._token_tree import (
    Group,
    Item,
    condition_of,
    conjuncts_of,
    disjuncts_of,
    split_at,
    token_tree,
)
from daf_query.syntax import Edit, Token, edited, unopened_bracket, unquoted_name

_NEAR: Final = 0.8
_SEPARATORS: Final = ("WHEN", "THEN", "ELSE", "AS")
_VOLATILE: Final = frozenset({"RANDOM", "RAND", "UUID"})


def python_edits(predicate: str, columns: Mapping[str, ValueType]) -> tuple[Edit, ...]:
    """Return what makes SQL of a predicate with Python's spellings; nothing if it is SQL already.

    Parameters
    ----------
    columns
        The columns of the axis, and what is known of their values.

    Raises
    ------
    QueryError
        It can be read in two ways, or has no counterpart; the message says what to write.
    """
    condition = condition_of(predicate)
    tree = token_tree(condition)
    if not tree:
        _refuse_unopened(predicate)
        return ()
    refuse_where(predicate, tree[0], columns)
    writer = _Writer(predicate, condition, columns)
    writer.part(tree)
    return tuple(_in_order(writer.edits))


def as_sql(predicate: str, columns: Mapping[str, ValueType]) -> str:
    """Return a predicate as SQL.

    >>> as_sql("30 < age <= 60", {"age": "number"})
    '(30 < age AND age <= 60)'
    >>> as_sql('(age > 60) & ~(donor IN ["N1"])', {"age": "number", "donor": "string"})
    "((age > 60) AND (NOT (donor IN ('N1'))))"
    """
    return edited(predicate, python_edits(predicate, columns))


def _refuse_unopened(predicate: str) -> None:
    """Refuse a bracket that would close the one around the predicate: ``a) OR (b``."""
    bracket = unopened_bracket(predicate)
    if bracket is not None:
        refuse(predicate, bracket, "no bracket is open that ) could close")


def _in_order(edits: Sequence[Edit]) -> list[Edit]:
    """Return edits by their places; of those at one, outer brackets open first and close last."""
    numbered = enumerate(edits)
    ranked = [
        ((edit.start, edit.stop > edit.start, opens, -place if opens else place), edit)
        for place, edit in numbered
        for opens in [edit.start == edit.stop and edit.new == "("]
    ]
    return [edit for _, edit in sorted(ranked, key=lambda pair: pair[0])]


class _Writer:
    """Walks the tree of a condition, and notes what to write differently."""

    def __init__(self, written: str, condition: str, columns: Mapping[str, ValueType]) -> None:
        self.edits: list[Edit] = []
        self._written = written
        self._text = condition
        self._columns = columns

    def part(self, items: Sequence[Item]) -> ValueType:
        """Write what stands in a bracket: conditions between commas."""
        parts = split_at(items, _is_separator)
        types = [self._condition(part) for part in parts if part]
        return types[0] if len(parts) == 1 and types else "unknown"

    def _condition(self, items: Sequence[Item]) -> ValueType:
        parts = disjuncts_of(items)
        types = [self._conjunction(part) for part in parts]
        return types[0] if len(parts) == 1 else "boolean"

    def _conjunction(self, items: Sequence[Item]) -> ValueType:
        parts = conjuncts_of(items)
        types = [self._negation(part, is_joined=len(parts) > 1) for part in parts]
        return types[0] if len(parts) == 1 else "boolean"

    def _negation(self, items: Sequence[Item], *, is_joined: bool) -> ValueType:
        count = 0
        while count < len(items) and _is_word(items[count], "NOT"):
            count += 1
        rest = items[count:]
        if not rest:
            return "unknown"
        value_type = self._comparison(rest, is_joined=is_joined, is_negated=count > 0)
        return "boolean" if count else value_type

    def _comparison(self, items: Sequence[Item], *, is_joined: bool, is_negated: bool) -> ValueType:
        comparison = comparison_of(items)
        if comparison is None:
            operand = self._bits(items)
            if operand.has_bits and operand.value_type == "boolean":
                self._refuse_ambiguous_bits(operand, is_joined=is_joined, is_negated=is_negated)
            return operand.value_type
        operands = [self._bits(part) if part else None for part in comparison.operands]
        known = [operand for operand in operands if operand is not None]
        for operand in known:
            if operand.has_bits and operand.value_type == "boolean":
                self._refuse(operand.items[0], "put brackets around each side of this comparison")
        self._lists(items)
        self._missing(items, comparison)
        self._strings(known)
        if is_chain(comparison) and len(known) == len(operands):
            self._chain(comparison, known)
        elif len(comparison.operators) > 1:
            self._refuse_mixed(items, comparison)
        return "boolean"

    def _bits(self, items: Sequence[Item]) -> Operand:
        """Write what is joined by & and |."""
        places = [place for place, item in enumerate(items) if _is_operator(item, "&", "|")]
        if not places:
            return self._operand(items)
        parts = split_at(items, lambda item: _is_operator(item, "&", "|"))
        if not all(parts):
            return Operand(tuple(items), "unknown", has_bits=True)
        operands = [self._operand(part) for part in parts]
        types = {operand.value_type for operand in operands}
        if "boolean" not in types and "string" not in types:
            is_number = types == {"number"}
            return Operand(tuple(items), "number" if is_number else "unknown", has_bits=True)
        for operand in operands:
            is_clear = operand.value_type == "boolean" or (
                operand.value_type == "unknown" and operand.is_single
            )
            if not is_clear:
                self._refuse_unbracketed(items[places[0]])
        self._put(items[0].start, items[0].start, "(")
        for place in places:
            operator = items[place]
            word = "AND" if _is_operator(operator, "&") else "OR"
            self._put(operator.start, operator.stop, _spaced(self._text, operator, word))
        self._put(items[-1].stop, items[-1].stop, ")")
        return Operand(tuple(items), "boolean", has_bits=True)

    def _operand(self, items: Sequence[Item]) -> Operand:
        """Write an operand without & and |."""
        first = items[0]
        if _is_operator(first, "~"):
            return self._inverted(items)
        refuse_methods(self._written, items, self._columns)
        for item in items:
            if isinstance(item, Token):
                self._token(item)
        groups = [item for item in items if isinstance(item, Group)]
        if _is_word(first, "POSITION") and is_call(items):  # its IN is no list
            return Operand(tuple(items), "unknown")
        types = [self.part(group.items) for group in groups if not group.is_subquery]
        joins = [item for item in items if _is_operator(item, "||")]
        if joins and len(items) == len(joins) + len(groups) and set(types) == {"boolean"}:
            self._refuse(joins[0], "|| joins strings; write OR")
        if len(items) == 2 and groups and groups[0].is_bracket("["):
            self._subscript(groups[0])
        if len(items) > 1 or not groups:
            return Operand(tuple(items), type_of(self._text, items, self._columns))
        is_part = groups[0].is_bracket("(") and bool(types)
        return Operand(tuple(items), types[0] if is_part else "unknown")

    def _inverted(self, items: Sequence[Item]) -> Operand:
        """Write each ~ as NOT."""
        count = next((n for n, item in enumerate(items) if not _is_operator(item, "~")), None)
        if count is None:
            return Operand(tuple(items), "unknown")
        signs, rest = items[:count], items[count:]
        operand = self._operand(rest)
        if operand.value_type in ("number", "string") or not is_single(rest):
            self._refuse(signs[0], "~ negates a condition in brackets: write ~(...) or NOT (...)")
        for sign in signs:
            self._put(sign.start, sign.stop, "(NOT ")
            self._put(rest[-1].stop, rest[-1].stop, ")")
        return Operand(tuple(items), "boolean")

    def _token(self, token: Token) -> None:
        refuse_operators(self._written, token, self._columns)
        if token.kind == "number" and "_" in token.text:
            self._put(token.start, token.stop, token.text.replace("_", ""))

    def _subscript(self, group: Group) -> None:
        """Write an entry in double quotes as a string: X["FOXP3"]."""
        if is_unknown_name(group.items, self._columns):
            self._to_string(group.items[0])

    def _chain(self, comparison: Comparison, operands: Sequence[Operand]) -> None:
        """Write each comparison of a chain, a < b < c, for itself."""
        place = comparison.operators[0][0]
        if any(operand.has_bits for operand in operands):
            self._refuse_unbracketed(place)
        symbols = [symbol for _, symbol in comparison.operators]
        types = [operand.value_type for operand in operands]
        has_equality = any(symbol in EQUALITIES for symbol in symbols)
        if "boolean" in types or ("unknown" in types and has_equality):
            if "==" in symbols:
                self._refuse(
                    place, "these comparisons are a chain; write a = b AND b = c, or use brackets"
                )
            return
        if any(_is_volatile(operand) for operand in operands[1:-1]):
            self._refuse(
                place, "a chain would compute its middle twice; write two comparisons with AND"
            )
        self._put(operands[0].start, operands[0].start, "(")
        for operand in operands[1:-1]:
            copy = self._copy(operand)
            self._put(operand.stop, operand.stop, f" AND {copy}")
        self._put(operands[-1].stop, operands[-1].stop, ")")

    def _copy(self, operand: Operand) -> str:
        """Return an operand as it is written by now."""
        inner = [
            Edit(edit.start - operand.start, edit.stop - operand.start, edit.new)
            for edit in _in_order(self.edits)
            if operand.start <= edit.start and edit.stop <= operand.stop
        ]
        return edited(self._text[operand.start : operand.stop], inner)

    def _lists(self, items: Sequence[Item]) -> None:
        """Write the lists after IN."""
        for place, item in enumerate(items[:-1]):
            after = items[place + 1]
            if not _is_word(item, "IN", "IS"):
                continue
            rest = items[place + 1 :]
            if not any(_is_word(each, "DISTINCT") for each in rest):
                self._refuse_bits_after(rest)
            if _is_word(item, "IS"):
                continue
            if isinstance(after, Group) and not after.is_subquery:
                is_negated = place > 0 and _is_word(items[place - 1], "NOT")
                self._list(after, is_negated=is_negated)
            elif isinstance(after, Token) and after.kind in ("word", "quoted"):
                if not after.is_word("UNNEST"):
                    self._refuse(
                        after,
                        "after IN comes a list: write IN ('a', 'b'), or IN $names with params=",
                    )

    def _refuse_bits_after(self, items: Sequence[Item]) -> None:
        sign = next((item for item in items if _is_operator(item, "&", "|")), None)
        if sign is not None:
            self._refuse_unbracketed(sign)

    def _refuse_mixed(self, items: Sequence[Item], comparison: Comparison) -> None:
        """Refuse ``a == b in [c]``, which Python reads as a chain and SQL does not."""
        symbols = [symbol for _, symbol in comparison.operators]
        is_python = "==" in symbols or any(
            (isinstance(item, Group) and item.is_bracket("[") and _is_word(before, "IN"))
            or self._is_none(item)
            for before, item in zip([None, *items], items, strict=False)
        )
        if is_python and ("IN" in symbols or "IS" in symbols):
            self._refuse(
                comparison.operators[-1][0],
                "these comparisons are a chain; put one in brackets, or join them with AND",
            )

    def _list(self, group: Group, *, is_negated: bool) -> None:
        values = [value for value in split_at(group.items, _is_comma) if value]
        if any(len(value) == 1 and self._is_none(value[0]) for value in values):
            self._refuse(group, "None in a list: write IN (...) OR ... IS NULL")
        for value in values:
            if is_unknown_name(value, self._columns) and not self._is_near(value[0]):
                self._to_string(value[0])
        is_square = group.is_bracket("[")
        if not group.items:
            # IN of nothing is false, and NOT IN true, also for NULL; SQL has no empty list.
            end = "IS NOT FALSE" if is_negated else "IS TRUE"
            self._put(group.start, group.stop, f"(NULL) {end}")
            return
        if is_square:
            self._put(group.opening.start, group.opening.stop, "(")
        last = group.items[-1]
        if _is_operator(last, ",") or (isinstance(last, Token) and last.kind == "constants"):
            self._put(last.stop - 1, last.stop, "")
        if is_square:
            self._put(group.closing.start, group.closing.stop, ")")

    def _missing(self, items: Sequence[Item], comparison: Comparison) -> None:
        """Write comparisons with None as IS NULL."""
        for place, item in enumerate(items):
            if not self._is_none(item):
                continue
            before = items[place - 1] if place else None
            if _is_word(before, "IS") or (place > 1 and _is_word(before, "NOT")):
                self._put(item.start, item.stop, "NULL")
            elif _is_operator(before, "=", "==", "!=", "<>") and before is not None:
                if len(comparison.operators) > 1:
                    self._refuse(item, "None in a chain of comparisons: write ... IS NULL")
                negation = "NOT " if _is_operator(before, "!=", "<>") else ""
                self._put(before.start, item.stop, f"IS {negation}NULL")
            else:
                self._refuse(item, "None: write ... IS NULL, or ... IS NOT NULL")

    def _strings(self, operands: Sequence[Operand]) -> None:
        """Write what stands in double quotes, and is no column, as a string beside one."""
        is_compared = any(
            operand.value_type in ("string", "unknown")
            and not operand.is_literal
            and not is_unknown_name(operand.items, self._columns)
            for operand in operands
        )
        for operand in operands:
            is_name = is_unknown_name(operand.items, self._columns)
            if is_name and is_compared and not self._is_near(operand.items[0]):
                self._to_string(operand.items[0])

    def _to_string(self, item: Item) -> None:
        written = self._text[item.start : item.stop]
        if "\\" in written:
            self._refuse(item, "a string with a backslash: write it in single quotes")
        value = unquoted_name(written).replace("'", "''")
        self._put(item.start, item.stop, f"'{value}'")

    def _is_near(self, item: Item) -> bool:
        """Return whether a name is likely a column's, spelled wrongly."""
        name = unquoted_name(self._text[item.start : item.stop]).casefold()
        known = [column.casefold() for column in self._columns]
        return bool(difflib.get_close_matches(name, known, n=1, cutoff=_NEAR))

    def _is_none(self, item: Item) -> bool:
        is_word = isinstance(item, Token) and item.kind == "word"
        written = self._text[item.start : item.stop]
        return is_word and written == "None" and written not in self._columns

    def _put(self, start: int, stop: int, sql: str) -> None:
        self.edits.append(Edit(start, stop, sql))

    def _refuse_unbracketed(self, item: Item) -> None:
        self._refuse(
            item,
            "& and | bind tighter than comparisons in Python: put each condition in brackets, "
            "(...) & (...), or write AND and OR",
        )

    def _refuse_ambiguous_bits(
        self, operand: Operand, *, is_joined: bool, is_negated: bool
    ) -> None:
        """Refuse what Python and pandas.DataFrame.query read differently."""
        has_or = any(_is_operator(item, "|") for item in operand.items)
        if is_negated or (is_joined and has_or):
            self._refuse(
                operand.items[0],
                "Python and pandas read this differently: put brackets around what & or | joins",
            )

    def _refuse(self, item: Item, reason: str) -> None:
        refuse(self._written, item.start, reason)


def _is_separator(item: Item) -> bool:
    return _is_operator(item, ",") or _is_word(item, *_SEPARATORS)


def _is_comma(item: Item) -> bool:
    return _is_operator(item, ",")


def _is_word(item: Item | None, *words: str) -> bool:
    return isinstance(item, Token) and item.is_word(*words)


def _is_operator(item: Item | None, *operators: str) -> bool:
    return isinstance(item, Token) and item.is_operator(*operators)


def _spaced(text: str, operator: Item, word: str) -> str:
    """Return a word in place of an operator, apart from what is around it."""
    before = "" if text[operator.start - 1 : operator.start].isspace() else " "
    after = "" if text[operator.stop : operator.stop + 1].isspace() else " "
    return f"{before}{word}{after}"


def _is_volatile(operand: Operand) -> bool:
    pending = list(operand.items)
    while pending:
        item = pending.pop()
        if isinstance(item, Group):
            pending += item.items
        elif item.is_word(*_VOLATILE):
            return True
    return False
