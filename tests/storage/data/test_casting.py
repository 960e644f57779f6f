"""Tests of numbers in another dtype: exact, or an error that names the first that does not fit."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daf_storage.base import StorageType
from daf_storage.data import stored_numbers
from daf_storage.errors import UnsupportedInputError
from tests.support import data_set

KINDS = [kind for kind in StorageType if not kind.is_string]
EDGES = [2**n + d for n in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64) for d in (-1, 0, 1)]
INTEGERS = st.one_of(
    st.integers(-3, 3), st.sampled_from(EDGES + [-n for n in EDGES]), st.integers(-(2**70), 2**70)
)
SPECIAL = [0.5, -0.5, -0.0, 3.4e38, 3.5e38, 1e300, -1e300, 2.0**63 * 1.5, math.inf, -math.inf]
FLOATS = st.one_of(
    st.floats(), st.sampled_from([*SPECIAL, *map(float, EDGES)]), st.integers(-300, 300).map(float)
)

NUMBERS = st.one_of(INTEGERS, FLOATS, st.booleans())


def expected(value: Any, kind: StorageType) -> Any:
    """Return what a type holds of a Python number, by Python's arithmetic; None if it cannot."""
    if kind.value.startswith("Float"):
        try:
            with np.errstate(all="ignore"):
                held = float(kind.dtype.type(float(value)))
        except OverflowError:
            return None
        if isinstance(value, float):
            return None if math.isinf(held) and not math.isinf(value) else held
        return held if math.isfinite(held) and int(held) == value else None
    if not math.isfinite(value) or value != int(value):
        return None
    if kind is StorageType.BOOL:
        return int(value) if value in (0, 1) else None
    limits = np.iinfo(kind.dtype)
    return int(value) if limits.min <= value <= limits.max else None


def same(found: Any, wanted: Any) -> bool:
    """Return whether two numbers are equal, NaN being itself."""
    return bool(found == wanted or (found != found and wanted != wanted))  # noqa: PLR0124 - NaN


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.sampled_from(KINDS))
@example([1, 2**100], StorageType.FLOAT32)
@example([0.1, 1e-300], StorageType.FLOAT32)
@example([1, 0, True], StorageType.BOOL)
def test_a_list_is_stored_exactly_or_its_first_bad_value_is_named(
    values: list[float], kind: StorageType
) -> None:
    """Python's numbers are the oracle, for lists that mix integers and floats."""
    daf = data_set(cell=[f"c{n}" for n in range(len(values))])
    wanted = [expected(value, kind) for value in values]
    if None in wanted:
        with pytest.raises(UnsupportedInputError, match=f"position {wanted.index(None)}, which"):
            daf.set_vector("cell", "v", values, dtype=kind.dtype)
        assert daf.vectors_set("cell") == set()
        return
    daf.set_vector("cell", "v", values, dtype=kind.dtype)
    found = daf.get_np_vector("cell", "v").tolist()
    assert all(map(same, found, wanted)), (values, found)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
@example([2**64 - 1, 1])
def test_without_a_dtype_a_list_is_stored_exactly_or_refused(values: list[float]) -> None:
    """Nobody asked for rounding: each stored value equals the one that was given."""
    try:
        found = _stored(values)
    except UnsupportedInputError as error:
        assert "does not fit" in str(error)  # noqa: PT017 - either way is right
        assert any(abs(v) > 2**53 for v in values if isinstance(v, int))
        return
    assert all(map(same, found, values)), (values, found)


def _stored(values: Any, dtype: Any = None) -> list[Any]:
    daf = data_set(cell=[f"c{n}" for n in range(len(values))])
    daf.set_vector("cell", "v", values, dtype=dtype)
    return list(daf.get_np_vector("cell", "v").tolist())


@pytest.mark.parametrize("dtype", [*(kind.dtype for kind in KINDS), np.dtype("f2")], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_at_an_edge_is_converted_exactly_or_named(
    dtype: np.dtype[Any], kind: StorageType
) -> None:
    """From any type into any other, one by one, against Python's numbers."""
    with np.errstate(all="ignore"):
        wide = [np.array(EDGES, object) % 2**64, -np.array(EDGES, object) % 2**64]
        integers = np.concatenate(wide).astype(np.uint64).astype(dtype)
        array = np.concatenate(
            [
                integers,
                np.array([math.nan, *SPECIAL, *EDGES], float).astype(dtype),
                np.arange(300).astype(dtype),
            ]
        )
    for value in np.unique(array):
        wanted, one = expected(value.item(), kind), np.array([value])
        if wanted is None:
            with pytest.raises(UnsupportedInputError, match="position 0, which does not fit into"):
                stored_numbers(one, kind.dtype, what="x")
        else:
            found = stored_numbers(one, kind.dtype, what="x")
            assert found.dtype == kind.dtype
            assert same(found[0].item(), wanted), value


def test_the_last_value_of_a_long_array_is_named() -> None:
    """Long ones are checked in blocks; the position is that in the whole."""
    values = np.zeros(1 << 21)
    assert stored_numbers(values, "int8", what="x").dtype == np.int8
    values[-1] = 0.5
    with pytest.raises(UnsupportedInputError, match="holds 0.5 at position 2,097,151"):
        stored_numbers(values, "int8", what="x")


def test_wide_floats_round_by_request_and_do_not_overflow() -> None:
    """Of long double numbers too; without a dtype they are refused."""
    values = np.array([1.5, 0.1], np.longdouble)
    assert stored_numbers(values, "float64", what="x").tolist() == [1.5, 0.1]
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        with pytest.raises(UnsupportedInputError, match=r"holds 1e\+4000 at position 0"):
            stored_numbers(np.array(["1e4000"]).astype(np.longdouble), "float64", what="x")
        with pytest.raises(
            UnsupportedInputError, match=r"holds 9\.223372036854775809e\+18 at position 0"
        ):
            stored_numbers(np.array([np.longdouble(2**63) + 1]), "int64", what="x")
        exact = stored_numbers(np.array([np.longdouble(2**63) + 1]), "uint64", what="x")
        assert exact.tolist() == [2**63 + 1]
    with pytest.raises(UnsupportedInputError, match="dtype float16"):
        stored_numbers(np.array([1.5], np.float16), None, what="x")


@pytest.mark.parametrize(
    ("item", "dtype", "wanted"),
    [
        (Decimal("1.5"), "float64", 1.5),
        (Decimal("0.1"), "float64", None),
        (Decimal("NaN"), "float64", None),
        (Decimal(300), "uint8", None),
        (Fraction(1, 2), "float32", 0.5),
        (Fraction(1, 3), "float64", None),
        (np.uint64(2**63), "int64", None),
        (np.float32(0.5), "float64", 0.5),
        (np.bool_(True), "int8", 1),
        (1 + 0j, "float64", None),
        (10**400, "float64", None),
    ],
)
def test_objects_fit_exactly_or_are_named(item: Any, dtype: str, wanted: Any) -> None:
    """Decimals and fractions are not rounded: that takes a float."""
    values = np.array([1, item], dtype=object)
    if wanted is None:
        with pytest.raises(UnsupportedInputError, match=r"holds .* at position 1"):
            stored_numbers(values, dtype, what="x")
    else:
        assert stored_numbers(values, dtype, what="x").tolist() == [1, wanted]


def test_positions_in_a_matrix_are_rows_and_columns() -> None:
    """In either memory order the first one by rows is named."""
    values = np.zeros((5, 4))
    values[3, 1] = values[4, 0] = 0.5
    for array in (values, np.asfortranarray(values)):
        with pytest.raises(UnsupportedInputError, match=r"holds 0.5 at row 3, column 1, which"):
            stored_numbers(array, "int32", what="m")


def test_values_that_need_no_change_are_not_copied() -> None:
    """Arrays of the wanted dtype are taken as they are."""
    values = np.arange(5, dtype="<i4")
    assert stored_numbers(values, "int32", what="x") is values
