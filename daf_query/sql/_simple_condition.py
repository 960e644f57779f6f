"""Conditions that mean the same to the engine and to a scan for certain, as predicates.  Pure.

Comparisons of a column with a constant, IN, BETWEEN, IS NULL and columns of Bool, joined by AND, OR
and NOT.  Whatever is not certain is left to the engine: other expressions, constants that it would
convert, NULL, words that begin something else in SQL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    EXACT_FLOAT,
    FLIPPED,
    NEGATED,
    And,
    Compare,
    In,
    IsNull,
    IsTrue,
    Or,
    Predicate,
    compared,
    flat,
    numpy_type,
)
from daf_query.syntax import Token, tokens_of

_NO_NAME: Final = re.compile(
    "ALL|ANALYZE|AND|ANY|AS|BETWEEN|BY|CASE|CAST|CLUSTER|CURRENT_DATE|CURRENT_TIME|"
    "CURRENT_TIMESTAMP|DISTINCT|DISTRIBUTE|END|EXCEPT|EXCLUDE|EXISTS|EXPLAIN|FALSE|FETCH|FROM|"
    "GROUP|HAVING|IN|INTERSECT|INTERVAL|INTO|IS|LATERAL|LIKE|LIMIT|MINUS|NOT|NULL|OFFSET|ON|OR|"
    "ORDER|RETURNING|SELECT|SOME|SORT|STRUCT|TABLE|TOP|TRIM|TRUE|TRY_CAST|UNION|UNNEST|USING|"
    "VALUES|VIEW|WHERE|WITH"
)
"""Words that the engine does not take for names where they are not quoted."""

_INTEGER: Final = re.compile(r"0|[1-9]\d{0,18}")
_FLOAT: Final = re.compile(r"(?:0|[1-9]\d*)(?:\.\d+(?:[eE]\d{1,3})?|[eE]\d{1,3})")
_MAX_DEPTH: Final = 32
_MAX_TOKENS: Final = 400
_EXACT_FLOAT32: Final = 2**24
_MAX_INT64: Final = 2**63 - 1

_Lower: TypeAlias = Callable[[bool], Predicate]
"""Returns the predicate of a condition, or of its negation."""


class UncertainError(Exception):
    """The engine is to be asked."""


def require(*, is_so: bool) -> None:
    """Leave a query to the engine unless something is so.

    Raises
    ------
    UncertainError
        It is not.
    """
    if not is_so:
        raise UncertainError


def name_of(token: Token, sql: str) -> str:
    """Return the name that a token is; raise `UncertainError` if it may be something else."""
    written = sql[token.start : token.stop]
    if token.kind == "quoted" and written.startswith('"'):
        return written[1:-1].replace('""', '"')
    is_plain = token.kind == "word" and written.isascii() and "$" not in written
    if not is_plain or _NO_NAME.fullmatch(token.text):
        raise UncertainError
    return written


def names_in(tokens: Sequence[Token], sql: str) -> frozenset[str]:
    """Return the names among some tokens, of columns and maybe others."""
    names = set()
    for token in tokens:
        if token.kind in ("word", "quoted"):
            with suppress(UncertainError):
                names.add(name_of(token, sql))
    return frozenset(names)


def simple_tokens(sql: str) -> tuple[Token, ...]:
    """Return the tokens of SQL; raise `UncertainError` if there are too many."""
    tokens = []
    for token in tokens_of(sql):
        tokens.append(token)
        if len(tokens) > _MAX_TOKENS:
            raise UncertainError
    return tuple(tokens)


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """How columns of a table are written in a query that may have another one."""

    qualifiers: frozenset[tuple[str, ...]] = frozenset()
    """What may stand before them."""
    ambiguous: frozenset[str] = frozenset()
    """Those before which it has to."""


def simple_condition(
    sql: str, tokens: Sequence[Token], schema: pa.Schema, names: ColumnNames | None = None
) -> Predicate:
    """Return the predicate of a condition; raise `UncertainError` if the engine is to be asked.

    Parameters
    ----------
    sql
        What the tokens are of.
    names
        How columns are written; by default by their names alone.

    Examples
    --------
    >>> from daf_query.scan._predicate import describe
    >>> schema = pa.schema([("age", pa.int64()), ("donor", pa.string())])
    >>> written = "NOT (age > 60 OR donor = 'N3')"
    >>> describe(simple_condition(written, simple_tokens(written), schema))
    "age <= 60 AND donor != 'N3'"
    """
    parser = _Parser(sql, tokens, schema, names or ColumnNames())
    lower = parser.disjunction(0)
    if parser.token is not None:
        raise UncertainError
    return lower(False)  # noqa: FBT003 - whether it is negated


class _Parser:
    """Reads the tokens of a condition from left to right."""

    def __init__(
        self, sql: str, tokens: Sequence[Token], schema: pa.Schema, names: ColumnNames
    ) -> None:
        self._names = names
        self._sql = sql
        self._tokens = tokens
        self._schema = schema
        self._place = 0

    @property
    def token(self) -> Token | None:
        """The token that is to be read next; None at the end."""
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _next(self) -> Token:
        token = self.token
        if token is None:
            raise UncertainError
        self._place += 1
        return token

    def _takes_word(self, word: str) -> bool:
        is_next = self.token is not None and self.token.is_word(word)
        self._place += is_next
        return is_next

    def _takes_operator(self, operator: str) -> bool:
        is_next = self.token is not None and self.token.is_operator(operator)
        self._place += is_next
        return is_next

    def disjunction(self, depth: int) -> _Lower:
        """Read what OR joins."""
        return self._joined("OR", Or, And, self._conjunction, depth)

    def _conjunction(self, depth: int) -> _Lower:
        return self._joined("AND", And, Or, self._negation, depth)

    def _joined(
        self,
        word: str,
        joined: type[And | Or],
        negated: type[And | Or],
        part: Callable[[int], _Lower],
        depth: int,
    ) -> _Lower:
        parts = [part(depth)]
        while self._takes_word(word):
            parts.append(part(depth))
        if len(parts) == 1:
            return parts[0]
        return lambda is_negated: flat(
            negated if is_negated else joined, [lower(is_negated) for lower in parts]
        )

    def _negation(self, depth: int) -> _Lower:
        if depth > _MAX_DEPTH:
            raise UncertainError
        if self._takes_word("NOT"):
            lower = self._negation(depth + 1)
            return lambda is_negated: lower(not is_negated)
        if self._takes_operator("("):
            lower = self.disjunction(depth + 1)
            require(is_so=self._takes_operator(")"))
            token = self.token  # a bracket with more behind it may be an operand
            if token is not None and not token.is_word("AND", "OR") and not token.is_operator(")"):
                raise UncertainError
            return lower
        return self._comparison()

    def _comparison(self) -> _Lower:
        token = self.token
        is_constant = token is not None and (
            token.kind in ("number", "string") or token.is_operator("-")
        )
        if is_constant:
            value = self._constant()
            operator = self._operator()
            field = self._column()
            if operator is None:
                raise UncertainError
            return _compared_with(field, FLIPPED[operator], value)
        field = self._column()
        operator = self._operator()
        if operator is not None:
            return self._compared(field, operator)
        if self._takes_word("IS"):
            is_valid = self._takes_word("NOT")
            require(is_so=self._takes_word("NULL"))
            return _null(field, is_valid=is_valid)
        is_negated = self._takes_word("NOT")
        if self._takes_word("IN"):
            return self._listed(field, is_negated=is_negated)
        if self._takes_word("BETWEEN"):
            low = self._constant()
            require(is_so=self._takes_word("AND"))
            high = self._constant()
            return _between(field, low, high, is_negated=is_negated)
        if is_negated or not pa.types.is_boolean(field.type):
            raise UncertainError
        return lambda negated: IsTrue(field.name, negated)

    def _column(self) -> pa.Field:
        parts = [name_of(self._next(), self._sql)]
        while self._takes_operator("."):
            parts.append(name_of(self._next(), self._sql))
        *qualifier, name = parts
        names = self._names
        is_known = (
            tuple(qualifier) in names.qualifiers if qualifier else name not in names.ambiguous
        )
        require(is_so=is_known)
        place = self._schema.get_field_index(name)
        if place < 0:
            raise UncertainError
        return self._schema.field(place)

    def _operator(self) -> str | None:
        """Return a comparison; None if there is none."""
        written = ""
        end: int | None = None
        while (token := self.token) is not None and token.is_operator("<", ">", "=", "!"):
            if end is not None and token.start != end:
                raise UncertainError
            written, end = written + token.text, token.stop
            self._place += 1
        if not written:
            return None
        operator = {"=": "==", "<>": "!=", "!=": "!="}.get(written, written)
        if operator not in NEGATED or written == "==":
            raise UncertainError
        return operator

    def _compared(self, field: pa.Field, operator: str) -> _Lower:
        token = self.token
        if token is not None and token.is_word("TRUE", "FALSE"):
            self._place += 1
            if not pa.types.is_boolean(field.type) or operator not in ("==", "!="):
                raise UncertainError
            is_true = token.text == "TRUE"
            is_other = (operator == "!=") == is_true
            return lambda negated: IsTrue(field.name, is_other != negated)
        return _compared_with(field, operator, self._constant())

    def _constant(self) -> int | float | str:
        token = self._next()
        sign = 1
        if token.is_operator("-"):
            number = self._next()
            if number.kind != "number" or number.start != token.stop:
                raise UncertainError
            token, sign = number, -1
        if token.kind == "number":
            if _INTEGER.fullmatch(token.text) and int(token.text) <= _MAX_INT64:
                return sign * int(token.text)
            if _FLOAT.fullmatch(token.text) and math.isfinite(float(token.text)):
                return sign * float(token.text)
        if token.kind == "string" and token.text.startswith("'") and "\\" not in token.text:
            return token.text[1:-1].replace("''", "'")
        raise UncertainError

    def _listed(self, field: pa.Field, *, is_negated: bool) -> _Lower:
        require(is_so=self._takes_operator("("))
        values = [_exact(field, self._constant())]
        while self._takes_operator(","):
            values.append(_exact(field, self._constant()))
        require(is_so=self._takes_operator(")"))
        return lambda negated: In(field.name, tuple(values), is_negated != negated)


def _is_integer(field: pa.Field) -> bool:
    """Return whether the engine compares a column with an Int64 as they are."""
    return bool(pa.types.is_integer(field.type)) and field.type != pa.uint64()


def _exact(field: pa.Field, constant: float | str) -> Any:
    """Return a constant as a value of a column's type, of which it is one without rounding."""
    if isinstance(constant, str):
        if field.type == pa.string():
            return constant
    elif _is_integer(field):
        limits = np.iinfo(numpy_type(field.type))
        if isinstance(constant, int) and limits.min <= constant <= limits.max:
            return constant
    elif field.type == pa.float64():
        if type(constant) is float or abs(constant) < EXACT_FLOAT:
            return float(constant)
    elif (
        field.type == pa.float32()
        and abs(constant) <= _EXACT_FLOAT32
        and float(np.float32(constant)) == constant
    ):
        return float(constant)
    raise UncertainError


def _compared_with(field: pa.Field, operator: str, constant: float | str) -> _Lower:
    def lower(is_negated: bool) -> Predicate:  # noqa: FBT001 - as the others
        meant = NEGATED[operator] if is_negated else operator
        try:
            return Compare(field.name, meant, _exact(field, constant))
        except UncertainError:
            if not isinstance(constant, float) or field.type == pa.float64():
                raise
        if not _is_integer(field) and field.type != pa.float32():
            raise UncertainError
        predicate = compared(field, meant, constant)
        if not isinstance(predicate, Compare):  # a constant would be true where the column is NULL
            raise UncertainError
        return predicate

    return lower


def _between(field: pa.Field, low: float | str, high: float | str, *, is_negated: bool) -> _Lower:
    above, below = _compared_with(field, ">=", low), _compared_with(field, "<=", high)

    def lower(negated: bool) -> Predicate:  # noqa: FBT001 - as the others
        is_outside = is_negated != negated
        return flat(Or if is_outside else And, [above(is_outside), below(is_outside)])

    return lower


def _null(field: pa.Field, *, is_valid: bool) -> _Lower:
    is_known = field.type in (pa.float32(), pa.float64(), pa.string(), pa.bool_())
    if not field.nullable or not (is_known or pa.types.is_integer(field.type)):
        raise UncertainError
    return lambda negated: IsNull(field.name, is_valid != negated)
