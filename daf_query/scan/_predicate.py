"""Predicates: a tree over the columns of a table, as frozen values; and the rows that match.

The same functions serve whole spans and single rows, given the values of each column, whichever
rows these are of.

Zone maps and indexes leave out rows before these are read.  A zone map has the minimum, maximum and
null count of each 65,536 rows.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import and_, or_
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.scan._arrow_arrays import number_array, numpy_type, plain_array, plain_type
from daf_storage._lazy import lazy_module, pc
from daf_storage.base import DecodedCache, Span

ZONE_ROWS: Final = 1 << 16
"""Rows per zone of the zone maps that are stored; part of their format."""

Positions: TypeAlias = npt.NDArray[np.int64]
"""Row numbers along an axis, from 0."""

ARROW_OPERATORS: Final = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
"""Comparisons by the names of Arrow's functions."""

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparisons as Python's functions, which numpy and expressions of Arrow overload."""

NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""Comparisons with their sides exchanged."""

EXACT_FLOAT: Final = 2.0**53
"""Below this, Float64 holds every integer."""

_MAX_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Compare:
    """A column compared with a value; true for no row in which it is null."""

    column: str
    operator: str
    """One of ``== != < <= > >=``; ``==`` of a column of Bool."""
    value: Any
    """Of the column's own type; never null."""


@dataclass(frozen=True, slots=True)
class In:
    """Whether a column is one of some values; true for no row in which it is null."""

    column: str
    values: tuple[Any, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is null."""

    column: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A condition that Arrow evaluates; true for no row for which it is null."""

    expression: pc.Expression
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All parts are true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A part is true."""

    parts: tuple[Predicate, ...]


Comparison: TypeAlias = Compare | In | IsNull
"""A condition on one column, whose values answer it."""
Predicate: TypeAlias = Comparison | Constant | Opaque | And | Or


def columns_of(predicate: Predicate) -> list[str]:
    """Return the columns of a predicate, in the order in which they first occur."""
    if isinstance(predicate, And | Or):
        return list(dict.fromkeys(name for part in predicate.parts for name in columns_of(part)))
    if isinstance(predicate, Opaque):
        return list(predicate.columns)
    return [] if isinstance(predicate, Constant) else [predicate.column]


def describe(predicate: Predicate) -> str:
    """Return a predicate as SQL.

    >>> describe(And((Compare("age", ">", 4), In("donor", ("a", "b"), is_negated=True))))
    "age > 4 AND donor NOT IN ('a', 'b')"
    >>> describe(Opaque(pc.field("age") > 4, ("age",)))
    '(age > 4)'
    """
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        inner = [
            f"({describe(part)})" if isinstance(part, And | Or) else describe(part)
            for part in predicate.parts
        ]
        return word.join(inner)
    if isinstance(predicate, Constant):
        return str(predicate.value).upper()
    if isinstance(predicate, Opaque):
        return str(predicate.expression)
    negation = "NOT " if getattr(predicate, "is_negated", False) else ""
    if isinstance(predicate, IsNull):
        return f"{predicate.column} IS {negation}NULL"
    if isinstance(predicate, In):
        shown = ", ".join(repr(value) for value in predicate.values[:_MAX_SHOWN])
        more = len(predicate.values) - _MAX_SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        return f"{predicate.column} {negation}IN ({shown}{rest})"
    if isinstance(predicate.value, bool):
        return f"{'' if predicate.value else 'NOT '}{predicate.column}"
    return f"{predicate.column} {predicate.operator} {predicate.value!r}"


def conjuncts(predicate: Predicate | None) -> Sequence[Predicate]:
    """Return what a predicate joins by AND; a constant TRUE is nothing.

    >>> conjuncts(And((IsNull("a"), IsNull("b"))))
    (IsNull(column='a', is_negated=False), IsNull(column='b', is_negated=False))
    """
    if predicate is None or predicate == Constant(value=True):
        return ()
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def conjunction(predicates: Iterable[Predicate | None]) -> Predicate | None:
    """Return the AND of predicates; ``None`` if there is none.

    >>> conjunction([Constant(value=True), Compare("age", ">", 4), None])
    Compare(column='age', operator='>', value=4)
    """
    given = [predicate for predicate in predicates if predicate is not None]
    return joined(And, given) if given else None


def joined(kind: type[And | Or], parts: Iterable[Predicate]) -> Predicate:
    """Join predicates, flat, each once, without those that change nothing.

    >>> joined(And, [Constant(value=True), Compare("age", ">", 4)])
    Compare(column='age', operator='>', value=4)
    >>> joined(Or, [IsNull("age"), IsNull("age", is_negated=True)])
    Constant(value=True)
    """
    levels = (part.parts if isinstance(part, kind) else (part,) for part in parts)
    given = dict.fromkeys(part for level in levels for part in level)
    tests = {(each.column, each.is_negated) for each in given if isinstance(each, IsNull)}
    decisive = Constant(value=kind is Or)
    if decisive in given or len({column for column, _ in tests}) < len(tests):
        return decisive
    needed = tuple(each for each in given if not isinstance(each, Constant))
    if len(needed) > 1:
        return kind(needed)
    return needed[0] if needed else Constant(value=kind is And)


def comparison(field: pa.Field, operator: str, value: Any) -> Predicate | None:
    """Return the comparison of a column with a constant, numbers as numbers, whatever their types.

    With a number that the column cannot hold, it is compared by the neighbours of that.  NaN is
    larger than any number, as in SQL; a stored one is null.  None where engines do not agree,
    because one rounds the column or the constant.

    >>> comparison(pa.field("n", pa.int32()), ">", 2.5)
    Compare(column='n', operator='>', value=2)
    >>> comparison(pa.field("x", pa.float32()), "==", 0.1)
    Constant(value=False)
    """
    kind, name = field.type, field.name
    is_bool = bool(pa.types.is_boolean(kind))
    if (is_bool, kind == pa.string()) != (isinstance(value, bool), isinstance(value, str)):
        return None
    if is_bool:
        is_equality = operator in ("==", "!=")
        return Compare(name, "==", value == (operator == "==")) if is_equality else None
    is_nan = isinstance(value, float) and math.isnan(value)
    near = value if is_nan or isinstance(value, str) else _near(kind, value)
    if near is None or near == value:
        return None if near is None else Compare(name, operator, near)
    if is_nan or operator in ("==", "!="):
        if operator not in (("<", "<=", "!=") if is_nan else "!="):
            return Constant(value=False)
        return IsNull(name, is_negated=True) if field.nullable else Constant(value=True)
    if operator in (">", ">="):
        return Compare(name, ">" if near < value else ">=", near)
    return Compare(name, "<=" if near < value else "<", near)


def _near(kind: pa.DataType, value: float) -> float | None:
    """Return the number of a type that is next to another; None where engines may round."""
    is_whole = isinstance(value, int)
    if pa.types.is_integer(kind):
        limits = np.iinfo(numpy_type(kind))
        is_known = is_whole or abs(value) < EXACT_FLOAT
        return min(max(math.floor(value), limits.min), limits.max) if is_known else None
    if kind not in (pa.float32(), pa.float64()):
        return None
    with np.errstate(over="ignore"):
        near = float(numpy_type(kind).type(value))
    is_known = not is_whole or (near == value and abs(value) < EXACT_FLOAT)
    return near if is_known else None


def membership(field: pa.Field, values: Iterable[Any], *, is_negated: bool = False) -> In | None:
    """Return whether a column has one of some values; None where engines do not agree on one.

    >>> membership(pa.field("n", pa.uint8()), [3, 300])
    In(column='n', values=(3,), is_negated=False)
    """
    found = [comparison(field, "==", value) for value in values]
    if None in found:
        return None
    held = tuple(each.value for each in found if isinstance(each, Compare))
    return In(field.name, held, is_negated)


Mask: TypeAlias = npt.NDArray[np.bool_]

_ARROW: Final = {symbol: function for function, symbol in ARROW_OPERATORS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Dictionary codes of strings."""

    codes: npt.NDArray[Any]
    """Unsigned integers, one per row."""
    strings: pa.Array
    """The distinct strings, sorted."""
    table: Callable[[Predicate], Mask]
    """Returns for which of them a predicate on the column is true."""

    def matches(self, predicate: Predicate) -> Mask:
        """Return for which rows a predicate is true; for most, their codes are a range."""
        is_true = self.table(predicate)
        codes = self.codes.view(f"u{self.codes.itemsize}")
        true = np.flatnonzero(is_true).astype(codes.dtype)
        if not true.size or int(true[-1]) - int(true[0]) >= true.size:
            return is_true.take(self.codes)
        mask: Mask = codes - true[0] <= true[-1] - true[0]  # unsigned: below the first they wrap
        return mask


Values: TypeAlias = npt.NDArray[Any] | Codes | pa.Array
"""Numbers (NaN is null), dictionary codes, or strings."""


def evaluate(
    predicate: Predicate,
    values: Callable[[str], Values],
    count: int,
    arrays: Callable[[str], pa.Array] | None = None,
) -> Mask:
    """Return for which rows a predicate is true: not those for which it is null.

    Parameters
    ----------
    values
        Returns the values of a column.
    count
        How many rows there are.
    arrays
        Returns the same as Arrow, for what Arrow evaluates; by default ``values`` does.

    >>> evaluate(Compare("x", "!=", 2.0), lambda _: np.array([1.0, 2.0, np.nan]), 3).tolist()
    [True, False, False]
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, Opaque):
        read = {name: (arrays or values)(name) for name in predicate.columns}
        return _by_arrow(predicate.expression, read, count)
    names = columns_of(predicate)
    column: Any = values(names[0]) if len(names) == 1 else None
    if isinstance(column, Codes):
        return column.matches(predicate)
    if isinstance(predicate, And | Or):
        parts = (evaluate(part, values, count, arrays) for part in predicate.parts)
        return functools.reduce(and_ if isinstance(predicate, And) else or_, parts)
    of_type = _of_numbers if isinstance(column, np.ndarray) else evaluate_strings
    return of_type(predicate, column)


def _by_arrow(expression: pc.Expression, arrays: Mapping[str, Any], count: int) -> Mask:
    """Return for which rows Arrow finds an expression true."""
    plain: dict[str, pa.Array] = {}
    for name, values in arrays.items():
        array = number_array(values) if isinstance(values, np.ndarray) else values
        plain[name] = plain_array(array)
    number = max(plain, key=len, default="") + "_"
    rows = pa.table({**plain, number: np.arange(count)}).filter(expression)
    mask = np.zeros(count, np.bool_)
    mask[rows[number].to_numpy()] = True
    return mask


def evaluate_strings(predicate: Comparison, strings: pa.Array) -> Mask:
    """Return for which strings a predicate on them is true: for a null, only that it is one.

    The same goes for integers, booleans and times of Arrow, which may be null.
    """
    if isinstance(predicate, IsNull):
        is_true = pc.is_valid(strings) if predicate.is_negated else pc.is_null(strings)
    elif isinstance(predicate, In):
        is_true = pc.is_in(strings, value_set=pa.array(predicate.values, strings.type))
        if predicate.is_negated:
            is_true = pc.and_(pc.invert(is_true), pc.is_valid(strings))
    else:
        value = pa.scalar(predicate.value, strings.type)
        is_true = pc.call_function(_ARROW[predicate.operator], [strings, value])
    is_true = is_true.fill_null(False)  # noqa: FBT003 - an Arrow literal
    mask: Mask = is_true.to_numpy(zero_copy_only=False)
    return mask


def _of_numbers(predicate: Comparison, values: npt.NDArray[Any]) -> Mask:
    is_float = values.dtype.kind == "f"
    if isinstance(predicate, IsNull):
        null: Mask = np.isnan(values) if is_float else np.zeros(len(values), np.bool_)
        return ~null if predicate.is_negated else null
    if isinstance(predicate, In):
        # Above 2^63 numpy 2.0.0 fails in the table that it makes of a few integers.
        way: Literal["sort"] | None = "sort" if values.dtype == np.uint64 else None
        members = values_of_type(predicate.values, values.dtype)
        is_true: Mask = np.isin(values, members, kind=way) != predicate.is_negated
    else:
        is_true = COMPARISONS[predicate.operator](values, predicate.value)
        if is_float and predicate.operator != "!=":  # NaN is equal to nothing, nor less
            return is_true
    return is_true & ~np.isnan(values) if is_float else is_true


def values_of_type(values: Sequence[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return those values of a list that a stored type has; a column may be shown as a wider one.

    >>> values_of_type((1, 2.5, 300, -1), np.dtype(np.uint8)).tolist()
    [1]
    """
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = [each for each in values if limits.min <= each <= limits.max and each == int(each)]
    return np.array(values, dtype)


class ZoneMap:
    """The minimum, maximum and null count of each zone, as far as its values were read.

    Parameters
    ----------
    low, high
        By zone; of strings, dictionary codes.
    length
        Number of rows of the column.
    zone_rows
        Rows per zone; the last one may have fewer.
    is_known
        Whether the bounds are those of the column already.
    nulls
        How many nulls each zone has; by default none.
    table
        Returns for which of the distinct strings a predicate is true.
    """

    def __init__(
        self,
        low: npt.NDArray[Any],
        high: npt.NDArray[Any],
        length: int,
        *,
        zone_rows: int,
        is_known: bool = True,
        nulls: npt.NDArray[np.int64] | None = None,
        table: Callable[[Predicate], Mask] | None = None,
    ) -> None:
        self.low, self.high = low, high
        self._length = length
        self.zone_rows = zone_rows
        self.is_known = np.full(len(low), is_known)
        self.nulls = np.zeros(len(low), np.int64) if nulls is None else nulls
        self.sizes = np.minimum(length - zone_rows * np.arange(len(low)), zone_rows)
        self.table = table

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that are stored."""
        rows = np.array([self.zone_rows], np.int64)
        return {"low": self.low, "high": self.high, "null": self.nulls, "zone": rows}

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.low.nbytes + self.high.nbytes) + 17 * len(self.low) + 256

    @classmethod
    def unknown(cls, length: int, dtype: np.dtype[Any], zone_rows: int = ZONE_ROWS) -> ZoneMap:
        """Return the zone map of a column of which nothing was read yet."""
        count = -(-length // zone_rows)
        bounds = np.zeros((2, count), dtype.newbyteorder("="))
        return cls(bounds[0], bounds[1], length, zone_rows=zone_rows, is_known=False)

    @classmethod
    def of_positions(cls, length: int, zone_rows: int) -> ZoneMap:
        """Return the zone map of the positions along an axis."""
        low = np.arange(0, length, zone_rows)
        high = np.minimum(low + zone_rows, length) - 1
        return cls(low, high, length, zone_rows=zone_rows)

    @classmethod
    def of_codes(
        cls, codes: npt.NDArray[Any], table: Callable[[Predicate], Mask], zone_rows: int
    ) -> ZoneMap:
        """Return the zone map of strings, whose bounds are dictionary codes."""
        starts = np.arange(0, len(codes), zone_rows)
        low = np.minimum.reduceat(codes, starts)
        high = np.maximum.reduceat(codes, starts)
        return cls(low, high, len(codes), zone_rows=zone_rows, table=table)

    def record(self, span: Span, values: npt.NDArray[Any]) -> None:
        """Update the zones that lie in a range that was read; idempotent, so needs no lock."""
        zone_rows = self.zone_rows
        for zone in range(-(-span.start // zone_rows), len(self.low)):
            start, stop = zone * zone_rows, min((zone + 1) * zone_rows, self._length)
            if stop > span.stop:
                return
            if not self.is_known[zone]:
                self._note(zone, values[start - span.start : stop - span.start])

    def _note(self, zone: int, part: npt.NDArray[Any]) -> None:
        low, high = part.min(), part.max()
        if low != low:  # noqa: PLR0124 - NaN, which is null here
            valid = part[~np.isnan(part)]
            self.nulls[zone] = part.size - valid.size
            low, high = (valid.min(), valid.max()) if valid.size else (0, 0)
        self.low[zone], self.high[zone] = low, high
        self.is_known[zone] = True  # last: others may be reading


def may_match(predicate: Predicate, zones: Callable[[str], ZoneMap | None], count: int) -> Mask:
    """Return which zones may have a row for which a predicate is true.

    Parameters
    ----------
    zones
        Returns the zone map of a column; ``None`` without one.
    count
        Number of zones.
    """
    if isinstance(predicate, Constant):
        return np.full(count, predicate.value)
    if isinstance(predicate, And | Or):
        parts = (may_match(part, zones, count) for part in predicate.parts)
        return functools.reduce(and_ if isinstance(predicate, And) else or_, parts)
    if isinstance(predicate, Opaque) or (bounds := zones(predicate.column)) is None:
        return np.ones(count, np.bool_)
    possible: Mask = ~bounds.is_known | _possible(predicate, bounds)
    return possible


def _possible(predicate: Comparison, zones: ZoneMap) -> Mask:
    low, high, has_value = zones.low, zones.high, zones.nulls < zones.sizes
    if zones.table is not None:
        counts = np.concatenate([[0], np.cumsum(zones.table(predicate))])
        some: Mask = counts[high.astype(np.int64) + 1] > counts[low.astype(np.int64)]
        return some & has_value
    if isinstance(predicate, IsNull):
        return has_value if predicate.is_negated else zones.nulls > 0
    if isinstance(predicate, In):
        if predicate.is_negated:
            return has_value
        wanted = np.sort(values_of_type(predicate.values, low.dtype))
        first = np.searchsorted(wanted, low, side="left")
        inside: Mask = first < np.searchsorted(wanted, high, side="right")
        return has_value & inside
    value, operator = predicate.value, predicate.operator
    possible: Mask
    if operator == "==":
        possible = (low <= value) & (high >= value)
    elif operator == "!=":
        possible = (low != value) | (high != value)
    else:
        possible = COMPARISONS[operator](high if operator in (">", ">=") else low, value)
    return has_value & possible


class RowIndex(Protocol):
    """Finds rows by the values of a column, or of two; of numbers, strings or points.

    May return false positives, never false negatives: the caller applies the filter again.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is of."""

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true, ascending.

        Parameters
        ----------
        conditions
            Of the columns of the index.

        Returns
        -------
        numpy.ndarray or None
            ``None`` if there are more than ``max_rows``, or no condition restricts the rows.
        """


class StringRowIndex(RowIndex, Protocol):
    """An index of strings, which knows where each of them is stored."""

    def strings(self, positions: Positions) -> pa.Array | None:
        """Return the strings of a few rows; ``None`` for many."""


class Indexes(Protocol):
    """The indexes of the vectors of an axis."""

    def strings(self, column: str, cache: DecodedCache) -> StringRowIndex | None:
        """Return the sorted index of a column of strings, if there is one."""

    def zone_map(self, column: str, cache: DecodedCache) -> ZoneMap | None:
        """Return the stored zone map of a column of numbers, if there is one."""

    def find(self, columns: Sequence[str], cache: DecodedCache) -> Sequence[RowIndex]:
        """Return the indexes of some columns: of one of them, or over two."""


nanoarrow: Any = lazy_module("nanoarrow")

_OPERATORS: Final[dict[str, Any]] = {
    "and_kleene": operator.and_,
    "or_kleene": operator.or_,
    **{name: COMPARISONS[symbol] for name, symbol in ARROW_OPERATORS.items()},
}
_FLOATS: Final = (pa.float32(), pa.float64())
_KNOWN_TYPES: Final = (pa.float16(), *_FLOATS, pa.bool_(), pa.string(), pa.binary())


def parse(expression: pc.Expression | None, schema: pa.Schema) -> Predicate:
    """Return an expression as a predicate, with parts that Arrow evaluates where need be.

    A comparison of different types is recognised only where it follows Arrow's rules for certain.

    >>> schema = pa.schema([("age", pa.int64())])
    >>> parse(~(pc.field("age") == 9), schema)
    Compare(column='age', operator='!=', value=9)
    """
    if expression is None:
        return Constant(value=True)
    try:
        tokens, literals = _serialised(expression)
    except pa.ArrowException:
        return Opaque(expression, tuple(schema.names))
    try:
        return _Parser(iter(tokens), literals, schema).parse()
    except _UNKNOWN:
        return Opaque(expression, _fields(tokens))


def field_names(expression: pc.Expression | None) -> frozenset[str] | None:
    """Return the names of columns in an expression; ``None`` if Arrow does not tell them.

    >>> sorted(field_names((pc.field("age") > 40) & pc.field("donor").isin(["d1"])) or ())
    ['age', 'donor']
    """
    if expression is None:
        return frozenset()
    try:
        return frozenset(_fields(_serialised(expression)[0]))
    except pa.ArrowException:
        return None


def _fields(tokens: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for role, value in tokens if role == "field_ref"))


_UNKNOWN: Final = (pa.ArrowException, LookupError, ValueError, TypeError, StopIteration)
"""What is raised where an expression has a part that is not recognised."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function of an expression, with its arguments."""

    name: str
    arguments: list[Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Parser:
    """Reads the tokens of one expression: ``call``, its arguments, its options, ``end``."""

    tokens: Iterator[tuple[str, str]]
    literals: pa.RecordBatch
    schema: pa.Schema

    def parse(self) -> Predicate:
        return self._predicate(self._node(next(self.tokens)), negated=False)

    def _node(self, token: tuple[str, str]) -> Any:
        role, value = token
        if role == "field_ref":
            return value
        if role == "literal":
            return self.literals.column(int(value))[0]
        arguments: list[Any] = []
        options: dict[str, Any] = {}
        for each in self.tokens if role == "call" else ():
            if each[0] == "end":
                return Call(value, arguments, options)
            if each[0] == "options":
                scalar = self.literals.column(int(each[1]))[0]
                options = {name: scalar[name] for name in scalar}
            else:
                arguments.append(self._node(each))
        raise LookupError

    def _predicate(self, node: Any, *, negated: bool) -> Predicate:
        """Return a node as a predicate; negations move down to the columns."""
        if isinstance(node, str):
            if self._field(node).type != pa.bool_():
                raise LookupError
            return Compare(node, "==", not negated)
        if isinstance(node, pa.Scalar):
            if not pa.types.is_boolean(node.type):
                raise LookupError
            return Constant(value=node.is_valid and node.as_py() != negated)
        if node.name == "invert":
            return self._predicate(node.arguments[0], negated=not negated)
        if node.name in ("and_kleene", "or_kleene"):
            parts = [self._predicate(argument, negated=negated) for argument in node.arguments]
            is_conjunction = (node.name == "and_kleene") != negated
            return joined(And if is_conjunction else Or, parts)
        try:
            return self._leaf(node, negated=negated)
        except _UNKNOWN:
            expression = _expression(node)
            found = ~expression if negated else expression
            return Opaque(found, _fields(_serialised(found)[0]))

    def _leaf(self, node: Call, *, negated: bool) -> Predicate:
        if node.name in ("is_null", "is_valid"):
            field = self._field(node.arguments[0])
            if not _is_known(field.type):
                raise LookupError
            is_negated = (node.name == "is_valid") != negated
            return IsNull(field.name, is_negated) if field.nullable else Constant(value=is_negated)
        if node.name == "is_in":
            field = self._field(node.arguments[0])
            return In(
                field.name, _listed(field, plain_array(node.options["value_set"].values)), negated
            )
        symbol = ARROW_OPERATORS[node.name]
        left, right = node.arguments
        if isinstance(right, str):
            left, right, symbol = right, left, FLIPPED[symbol]
        field = self._field(left)
        if not isinstance(right, pa.Scalar) or not right.is_valid:
            raise LookupError
        return _compared(field, NEGATED[symbol] if negated else symbol, right)

    def _field(self, node: Any) -> pa.Field:
        if not isinstance(node, str):
            raise TypeError
        field = self.schema.field(node)
        return field.with_type(plain_type(field.type))


def _is_known(kind: pa.DataType) -> bool:
    """Return whether a column of a type can be compared with constants of it."""
    is_time = pa.types.is_timestamp(kind) and kind.tz is None
    return kind in _KNOWN_TYPES or bool(pa.types.is_integer(kind)) or is_time


def _compared(field: pa.Field, operator: str, scalar: pa.Scalar) -> Predicate:
    """Compare a column with a constant as Arrow does, where it rounds neither of them."""
    kind, of_column = plain_type(scalar.type), field.type
    value = scalar.value if pa.types.is_timestamp(kind) else scalar.as_py()
    if kind == of_column and _is_known(kind) and value == value:  # noqa: PLR0124 - no NaN
        return Compare(field.name, operator, value)
    is_rounded = pa.types.is_integer(of_column) and kind == pa.float32()
    is_rounded |= pa.uint64() in (of_column, kind) and not math.isnan(value)
    is_number = all(each in _FLOATS or pa.types.is_integer(each) for each in (of_column, kind))
    found = comparison(field, operator, value) if is_number and not is_rounded else None
    if found is None:
        raise LookupError
    return found


def _listed(field: pa.Field, values: pa.Array) -> tuple[Any, ...]:
    """Return the values of a list that a column of its type can have at all.

    Engines pass integers as Int64 and floats as Float64, whatever the column is.
    """
    kind, listed = values.type, values.to_pylist()
    if values.null_count or pa.types.is_timestamp(kind):
        raise LookupError
    if kind == field.type and _is_known(kind):
        return tuple(listed)
    found = membership(field, listed)
    if found is None:
        raise LookupError
    return found.values


def _expression(node: Any) -> pc.Expression:
    """Return a part as an expression, in which membership of null, or in a list with it, is null.

    Its constants are plain, as the columns are: Arrow cannot compare views.

    Raises
    ------
    LookupError
        It has a function that engines do not hand over, such as arithmetic.
    """
    if isinstance(node, str):
        return pc.field(node)
    if isinstance(node, pa.Scalar):
        return pc.scalar(node.cast(plain_type(node.type)))
    if node.name == "is_in":
        values = plain_array(node.options["value_set"].values)
        return _membership(_expression(node.arguments[0]), values)
    arguments = [_expression(argument) for argument in node.arguments]
    if node.name == "invert":
        return ~arguments[0]
    if node.name == "is_valid":
        return arguments[0].is_valid()
    if node.name == "is_null":
        nan_is_null = node.options.get("nan_is_null")
        return arguments[0].is_null(nan_is_null=nan_is_null is not None and nan_is_null.as_py())
    if node.name not in _OPERATORS:
        raise LookupError
    return functools.reduce(_OPERATORS[node.name], arguments)


def _membership(field: pc.Expression, values: pa.Array) -> pc.Expression:
    null = pa.scalar(None, pa.bool_())
    is_member = field.isin(values.drop_null())
    if values.null_count:
        is_member = pc.if_else(is_member, True, null)  # noqa: FBT003 - an Arrow literal
    return pc.if_else(field.is_valid(), is_member, null)


def _serialised(expression: pc.Expression) -> tuple[list[tuple[str, str]], pa.RecordBatch]:
    """Return the tokens that spell an expression, and the batch of its literals."""
    reader = pa.ipc.open_file(expression.__reduce__()[1][0])
    batch = reader.get_batch(0)
    metadata: Any = nanoarrow.c_schema(reader.schema).metadata  # in a dictionary keys occur once
    return [(key.decode(), value.decode()) for key, value in metadata.items()], batch
