"""Tests of values from numpy, pandas, polars, Arrow and lists: unchanged, or the first bad named."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from daf_storage import MemoryDaf
from daf_storage.data import plain_values
from daf_storage.errors import UnsupportedInputError

BIG = 2**53 + 1


def stored(value: Any, dtype: Any = None) -> list[Any]:
    """Return a vector of three entries as it reads back."""
    daf = MemoryDaf()
    daf.add_axis("cell", ["a", "b", "c"])
    daf.set_vector("cell", "v", value, dtype=dtype)
    return list(daf.get_np_vector("cell", "v").tolist())


@pytest.mark.parametrize(
    "value",
    [
        ["x\0", "", "\0"],
        np.array(["x\0", "", "\0"], dtype=object),
        np.array(["x\0", "", "\0"], dtype=np.dtypes.StringDType()),
        pd.Series(["x\0", "", "\0"]),
        pd.Series(["x\0", "", "\0"], dtype="string"),
        pd.Categorical.from_codes([0, 1, 2], pd.Index(["x\0", "", "\0"])),
        pl.Series(["x\0", "", "\0"]),
        pa.array(["x\0", "", "\0"]),
        pa.array(["x\0", "", "\0"], pa.large_string()),
        pa.array(["x\0", "", "\0"], pa.string_view()),
        pa.array(["x\0", "", "\0"]).dictionary_encode(),
        pa.chunked_array([["x\0"], ["", "\0"]]),
    ],
)
def test_strings_keep_their_nul(value: Any) -> None:
    """Numpy's strings of fixed width would lose it."""
    assert stored(value) == ["x\0", "", "\0"]


@pytest.mark.parametrize(
    "value",
    [
        [BIG, 1, 2],
        (np.int64(BIG), np.uint8(1), 2),
        np.array([BIG, 1, 2]),
        np.array([BIG, 1, 2], dtype=object),
        np.ma.array([BIG, 1, 2], mask=False),
        pd.Series([BIG, 1, 2], dtype="Int64"),
        pd.Series([BIG, 1, 2], dtype="int64[pyarrow]"),
        pd.Series([BIG, 1, 2], dtype=object),
        pd.Categorical([BIG, 1, 2]),
        pd.arrays.SparseArray([BIG, 1, 2]),
        pl.Series([BIG, 1, 2]),
        pa.array([BIG, 1, 2]),
        pa.array([BIG, 1, 2]).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array([BIG, 1, 2])),
        pa.array([Decimal(BIG), Decimal(1), Decimal(2)]),
    ],
)
def test_large_integers_are_not_rounded(value: Any) -> None:
    """None of them becomes a float on the way."""
    assert stored(value, "int64" if isinstance(value, pa.Decimal128Array) else None) == [BIG, 1, 2]


def test_strings_are_not_parsed_as_numbers() -> None:
    """A dtype of numbers does not fit strings, given as a list or to fill with."""
    for value in (["1", "2", "3"], "1", np.array(["1", "2", "3"]), pa.array(["1", "2", "3"])):
        with pytest.raises(UnsupportedInputError, match="strings, which are not converted"):
            stored(value, "int64")
        assert stored(value, object) in (["1", "2", "3"], ["1"] * 3)


def test_lists_of_arrays_keep_their_values() -> None:
    """Rows of different dtypes, and masked ones."""
    rows = [np.array([BIG, 1]), np.array([0.5, 2])]
    assert plain_values(rows, what="x").tolist() == [[BIG, 1], [0.5, 2]]
    with pytest.raises(UnsupportedInputError, match="masked value at position 1"):
        plain_values([rows[1], np.ma.array([1, 2], mask=[True, False])], what="x")


@pytest.mark.parametrize("dtype", ["string", "str", "string[pyarrow]"])
def test_strings_of_pandas_are_taken_as_arrow(dtype: str) -> None:
    """Without an object of Python for each; numbers of pandas' own types are numpy's."""
    values = plain_values(pd.Series(["a", "b"], dtype=dtype), what="x")
    if dtype != "str" or pd.Series(["a"], dtype="str").dtype != object:  # as of pandas 3
        assert isinstance(values, pa.Array | pa.ChunkedArray)
    for plain in ("int64", "uint8", "float32"):
        numbers = plain_values(pd.Series([1, 2], dtype=plain.title().replace("Ui", "UI")), what="x")
        assert isinstance(numbers, np.ndarray)
        assert numbers.dtype == plain
    booleans = plain_values(pd.Series([True], dtype="boolean"), what="x")
    assert isinstance(booleans, np.ndarray)
    assert booleans.dtype == bool
