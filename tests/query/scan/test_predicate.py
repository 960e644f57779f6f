"""Tests of looking into filters, and of evaluating them: numpy against Arrow, SQL against DuckDB."""

from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from daf_query.scan import (
    COMPARISONS,
    NEGATED,
    And,
    Codes,
    Compare,
    Constant,
    DictionaryCodes,
    In,
    IsNull,
    Opaque,
    Or,
    ZoneMap,
    evaluate,
    may_match,
    parse,
)
from daf_storage.base import Span
from tests.support import OPERATORS, data_set

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("u", pa.uint8()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("a) and (b", pa.int64()),
        ("day", pa.date32()),
        ("t", pa.timestamp("s")),
        ("add", pa.int64()),
        ("add_checked", pa.int64()),
    ]
)


def is_known(expression: Any, schema: pa.Schema) -> bool:
    """Return whether nothing of a filter is left to Arrow."""
    return "Opaque(" not in repr(parse(expression, schema))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (pc.field("i") > 5, Compare("i", ">", 5)),
        (pc.scalar(5) >= pc.field("i"), Compare("i", "<=", 5)),
        (pc.field("u") == pa.scalar(3, pa.uint8()), Compare("u", "==", 3)),
        (pc.field("s") != "x", Compare("s", "!=", "x")),
        (pc.field("a) and (b") < 3, Compare("a) and (b", "<", 3)),
        (~(pc.field("i") > 5), Compare("i", "<=", 5)),
        (pc.field("s").isin(["a", "b"]), In("s", ("a", "b"))),
        (~pc.field("i").isin([1]), In("i", (1,), is_negated=True)),
        (pc.field("u").isin([3, 300, -1]), In("u", (3,))),
        (pc.field("f").is_null(), IsNull("f")),
        (pc.field("f").is_valid(), IsNull("f", is_negated=True)),
        (~pc.field("f").is_null(), IsNull("f", is_negated=True)),
        (pc.field("b"), Compare("b", "==", True)),
        (~pc.field("b"), Compare("b", "==", False)),
        (pc.scalar(value=True), Constant(value=True)),
        (
            ~((pc.field("i") > 5) | pc.field("b")),
            And((Compare("i", "<=", 5), Compare("b", "==", False))),
        ),
        (
            (pc.field("i") > 5) & ((pc.field("i") < 9) & pc.field("b")),
            And((Compare("i", ">", 5), Compare("i", "<", 9), Compare("b", "==", True))),
        ),
        (
            ~((pc.field("i") > 5) & pc.field("b")),
            Or((Compare("i", "<=", 5), Compare("b", "==", False))),
        ),
        (None, Constant(value=True)),
        (pc.scalar(pa.scalar(None, pa.bool_())), Constant(value=False)),
        (~((pc.field("i") == 4) | pa.scalar(None, pa.bool_())), Constant(value=False)),
        ((pc.field("i") == 4) | pa.scalar(None, pa.bool_()), Compare("i", "==", 4)),
        (
            (pc.field("i") == 4) | (pc.field("i") == 5),
            Or((Compare("i", "==", 4), Compare("i", "==", 5))),
        ),
    ],
)
def test_what_a_filter_says(expression: Any, expected: Any) -> None:
    """Negations are at the columns, and nested conditions of one kind are one."""
    assert parse(expression, SCHEMA) == expected


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("u") > pa.scalar(5, pa.uint64()),  # another type: Arrow's rules, not numpy's
        pc.field("i") > pa.scalar(5.0, pa.float32()),
        pc.field("i") > pc.field("u"),
        pc.field("i") + 1 > 5,
        pc.starts_with(pc.field("s"), "x"),
        pc.field("i").isin([1, None]),
        pc.field("s") > pa.scalar(None, pa.string()),
        pc.field("nope") > 5,
        pc.field("i"),
        (pc.field("i") > 5) & (pc.field("u") > pa.scalar(5, pa.uint64())),
        (pc.field("i") + 1).is_null(),  # there are columns that are called like the function
        (pc.field("i") + 1).is_valid(),
        (pc.field("i") + 1).isin([1]),
        pc.field("t").isin([pa.scalar(0, pa.timestamp("s"))]),
        pc.field("s").isin(pa.array([1, 2])),
        pc.field("i").isin(pa.array(["1", "2"])),
        pc.field("day") == pa.scalar(0, pa.date32()),
        pc.field("day").is_null(),
        pc.field("day").isin(pa.array([0], pa.date32())),
        pc.field("s"),
        pc.scalar(1),
    ],
)
def test_what_is_not_known_is_left_to_arrow(expression: Any) -> None:
    """Functions, types and lists that only look known, too: rather no answer than a wrong one."""
    assert not is_known(expression, SCHEMA)


@pytest.mark.parametrize("symbol", ["<", "<=", "!=", "==", ">=", ">"])
def test_nan_is_larger_than_any_number(symbol: str) -> None:
    """As in SQL; what is stored as NaN is null, and compares with nothing."""
    nan = pa.scalar(math.nan)
    is_true = Constant(value=symbol in ("<", "<=", "!="))
    found = parse(COMPARISONS[symbol](pc.field("i"), nan), SCHEMA)
    assert found in (is_true, IsNull("i", is_negated=True))
    expected = IsNull("f", is_negated=True) if is_true.value else is_true
    assert parse(COMPARISONS[symbol](pc.field("f"), nan), SCHEMA) == expected
    assert parse(~COMPARISONS[NEGATED[symbol]](pc.field("f"), nan), SCHEMA) == expected


CONSTANTS = {
    "f": st.sampled_from([-1.5, 0.0, 1.0, math.inf]),
    "i": st.integers(-3, 3),
    "s": st.sampled_from(["", "a", "é", "zz", "q"]),
}
LEAVES = st.one_of(
    *(
        st.builds(Compare, st.just(name), st.sampled_from(list(OPERATORS)), constants)
        for name, constants in CONSTANTS.items()
    ),
    *(
        st.builds(In, st.just(name), st.lists(constants, max_size=4).map(tuple), st.booleans())
        for name, constants in CONSTANTS.items()
    ),
    st.builds(IsNull, st.sampled_from(["f", "i", "s"]), st.booleans()),
    st.builds(Compare, st.just("b"), st.just("=="), st.booleans()),
    st.builds(Constant, st.booleans()),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda p: And(tuple(p))),
        st.lists(inner, min_size=1, max_size=3).map(lambda p: Or(tuple(p))),
    ),
    max_leaves=6,
)


def holds(predicate: Any, row: dict[str, Any]) -> bool:
    """Return whether a predicate is true for one row: the slow, obvious way."""
    if isinstance(predicate, Constant):
        return predicate.value
    if isinstance(predicate, And | Or):
        return (all if isinstance(predicate, And) else any)(holds(p, row) for p in predicate.parts)
    value = row[predicate.column]
    is_null = isinstance(value, float) and math.isnan(value)
    if isinstance(predicate, IsNull):
        return is_null != predicate.is_negated
    if is_null:
        return False
    if isinstance(predicate, In):
        return (value in predicate.values) != predicate.is_negated
    ours = value.encode() if isinstance(value, str) else value
    theirs = predicate.value.encode() if isinstance(predicate.value, str) else predicate.value
    return bool(OPERATORS[predicate.operator](ours, theirs))


@given(PREDICATES, st.integers(0, 1000), st.integers(1, 30), st.booleans())
def test_evaluating_equals_the_obvious_way(
    predicate: Any,
    seed: int,
    count: int,
    coded: bool,  # noqa: FBT001 - both ways
) -> None:
    """And no zone is left out that has a row."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "f": rng.choice([-1.5, 0.0, 1.0, math.inf, -math.inf, math.nan], count),
        "i": rng.integers(-3, 4, count),
        "b": rng.random(count) < 0.5,
    }
    strings = [["", "a", "b", "é", "zz"][n] for n in rng.integers(0, 5, count)]
    rows = [{**{k: v[n].item() for k, v in columns.items()}, "s": strings[n]} for n in range(count)]
    expected = [holds(predicate, row) for row in rows]
    codes = DictionaryCodes.of([pa.array(strings)], count)
    values = {**columns, "s": pa.array(strings)}
    if coded:
        values["s"] = Codes(codes.codes, codes.strings, codes.table)
    assert evaluate(predicate, values.__getitem__, count).tolist() == expected
    daf = data_set(cell=[str(n) for n in range(count)])
    zones: dict[str, Any] = {"s": codes.zones if coded else None}
    for name, column in columns.items():
        daf.set_vector("cell", name, column)
        zone_map = ZoneMap.unknown(count, column.dtype)
        zone_map.record(Span(0, count), column)
        zones[name] = zone_map
    assert may_match(predicate, zones.__getitem__, 1)[0] or not any(expected)


def test_every_choice_of_codes() -> None:
    """One string, neighbours, with gaps, from the first and to the last: the rows that have them."""
    names = ["a", "b", "c", "d", "e", "f"]
    codes = DictionaryCodes.of([pa.array([*names, *reversed(names)])], 12)
    column = Codes(codes.codes, codes.strings, codes.table)
    for size in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, size):
            found = evaluate(In("s", chosen), lambda _: column, 12)
            assert found.tolist() == [name in chosen for name in [*names, *reversed(names)]]


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "null"])
def test_every_small_zone_is_left_out_where_it_may(operator: str) -> None:
    """All zones of three values against all values: none with a row; all that are of one value."""
    numbers = (0.0, 1.0, 2.0, math.nan)
    for rows in itertools.product(numbers, repeat=3):
        column = np.array(rows)
        zone_map = ZoneMap.unknown(3, column.dtype)
        zone_map.record(Span(0, 3), column)
        for value in (-1.0, 0.0, 1.0, 2.0, 3.0):
            predicate: Any = {
                "in": In("f", (value, 9.0)),
                "not in": In("f", (value, 9.0), is_negated=True),
                "null": IsNull("f", is_negated=value > 0),
            }.get(operator, Compare("f", operator, value))
            expected = any(holds(predicate, {"f": row}) for row in rows)
            found = bool(may_match(predicate, {"f": zone_map}.get, 1)[0])
            assert found or not expected, (rows, predicate)
            if len({str(row) for row in rows}) == 1 and operator != "not in":
                assert found == expected, (rows, predicate)


KINDS = ["int8", "uint8", "int32", "int64", "uint64", "float32", "float64"]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("column", KINDS)
@pytest.mark.parametrize("constant", KINDS)
def test_numbers_of_different_types_are_compared_as_arrow_does(column: str, constant: str) -> None:
    """Polars writes all constants as Int64 and Float64, whatever the column is."""
    own, kind = pa.type_for_alias(column), pa.type_for_alias(constant)
    is_float = column.startswith("float")
    numbers = [0, 1, 2, 100, 127] + ([0.1, -0.5, math.nan, math.inf, 1e30] if is_float else [])
    numbers += [] if column.startswith("u") else [-1, -128]
    table = pa.table({"x": pa.array(numbers, own, from_pandas=True)})
    parsed = 0
    values = np.array(
        [math.nan if n is None else n for n in table["x"].to_pylist()], own.to_pandas_dtype()
    )
    for value in (0, 1, 2.5, 0.1, -1, 127, 128, 255, 300, 2**31, 2**53 + 1, 1e300):
        if kind == pa.float32() and abs(value) > 1e38:
            continue
        try:
            scalar = pa.scalar(value if constant.startswith("f") else int(value), kind)
        except (pa.ArrowInvalid, OverflowError):
            continue
        for compare in OPERATORS.values():
            expression = compare(pc.field("x"), scalar)
            for filter_ in (expression, ~expression):
                predicate = parse(filter_, table.schema)
                parsed += not isinstance(predicate, Opaque)
                try:
                    found = evaluate(predicate, {"x": values}.__getitem__, len(values))
                    expected = table.filter(filter_)["x"].to_pylist()
                except pa.ArrowInvalid:  # it does not compare what it has to round
                    continue
                assert table["x"].filter(pa.array(found)).to_pylist() == expected, filter_
    is_left = constant == "float32" or "uint64" in (column, constant)
    assert parsed > 0 or is_left


@pytest.mark.parametrize(("name", "largest"), [("float32", 2**24), ("float64", 2**53)])
def test_integers_that_a_float_cannot_be_are_left_to_arrow(name: str, largest: int) -> None:
    """Rounded, they would be other numbers; one less is what it is."""
    schema = pa.schema([("x", pa.type_for_alias(name))])
    rounded = pa.scalar(largest + 1, pa.int64())
    assert not is_known(pc.field("x") == rounded, schema)
    assert not is_known(pc.field("x") < rounded, schema)
    exact = parse(pc.field("x") == pa.scalar(largest - 1, pa.int64()), schema)
    assert exact == Compare("x", "==", float(largest - 1))
