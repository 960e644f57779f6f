"""Tests of every door through which values come in: what is stored is what was given."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_storage import DafWriter, errors
from daf_storage.data import plain_values
from tests.support import data_set

TEXT, BIG = ["x\0", "", "\0"], 2**53 + 1
LARGE = [BIG, 1, 2]


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set of 3 cells and 2 genes."""
    return data_set(cell=["a", "b", "c"], gene=["g", "h"])


@pytest.mark.parametrize("value", ["x\0", 2**64 - 1, 2**53 + 1, True, 0.1, "", -(2**63)])
def test_a_single_value_is_stored_and_filled_as_it_is(daf: DafWriter, value: Any) -> None:
    """As a scalar, all along a vector, and in each place of a matrix; as a default too."""
    daf.set_scalar("s", value)
    daf.set_vector("cell", "v", value)
    daf.set_matrix("cell", "gene", "m", value)
    assert daf.get_scalar("s") == value
    assert daf.get_np_vector("cell", "v").tolist() == [value] * 3
    assert daf.get_np_matrix("cell", "gene", "m").tolist() == [[value] * 2] * 3
    assert daf.get_np_vector("cell", "no", default=value).tolist() == [value] * 3
    found = daf.get_np_matrix("cell", "gene", "no", default=value)
    assert found.tolist() == [[value] * 2] * 3


def test_numpy_scalars_and_arrow_scalars_convert_exactly(daf: DafWriter) -> None:
    """Wide floats round to the float that is asked for, and to nothing else."""
    daf.set_scalar("half", np.float16(0.5), dtype="float32")
    daf.set_scalar("arrow", pa.scalar(5))
    daf.set_scalar("rounded", 0.1, dtype="float32")
    daf.set_vector("cell", "zeros", 0.0, dtype=np.int32)
    daf.set_vector("cell", "decimals", pa.array(map(Decimal, LARGE)), dtype="int64")
    assert daf.get_np_vector("cell", "decimals").tolist() == LARGE
    assert daf.get_np_vector("cell", "zeros").dtype == np.int32
    assert daf.get_scalar("half") == 0.5
    assert daf.get_scalar("arrow") == 5
    assert daf.get_scalar("rounded") == float(np.float32(0.1))


@pytest.mark.parametrize(
    "entries",
    [
        pd.Index(["x\0", "x"]),
        np.array(["x\0", "x"], object),
        pa.array(["x\0", "x"]),
        dict.fromkeys(["x\0", "x"]),
        pd.Categorical.from_codes([0, 1], pd.Index(["x\0", "x"])),
        (name for name in ["x\0", "x"]),
    ],
)
def test_entries_keep_their_nul(daf: DafWriter, entries: Any) -> None:
    """They are different entries, and are found."""
    daf.add_axis("new", entries)
    assert daf.axis_entries("new").tolist() == ["x\0", "x"]
    assert daf.axis_indices("new", ["x", "x\0"]).tolist() == [1, 0]
    daf.reorder_axis("new", ["x", "x\0"])
    assert daf.axis_entries("new").tolist() == ["x", "x\0"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"g": [BIG, 1, 2], "h": pd.array([1, 2, 3], dtype="Int64")}),
        pd.DataFrame({"g": [BIG, 1, 2], "h": np.array([1, 2, 3], np.int8)}),
        pd.DataFrame({"g": np.array([BIG, 1, 2]), "h": pd.arrays.SparseArray([1, 2, 3])}),
        pd.DataFrame({"g": [BIG, 1, 2], "h": pd.Categorical([1, 2, 3])}),
        pl.DataFrame({"g": [BIG, 1, 2], "h": pl.Series([1, 2, 3], dtype=pl.UInt8)}),
    ],
)
def test_columns_of_different_types_are_joined_exactly(daf: DafWriter, frame: Any) -> None:
    """Side by side in the type that holds both."""
    daf.set_matrix("cell", "gene", "m", frame)
    assert daf.get_np_matrix("cell", "gene", "m").tolist() == [[BIG, 1], [1, 2], [2, 3]]


def test_frames_of_strings_are_stored(daf: DafWriter) -> None:
    """Of nullable strings too, if none is missing, and of mixed widths."""
    frame = pd.DataFrame({"g": ["x\0", "", "z"], "h": pd.array(["u", "v", "w"], dtype="string")})
    wanted = [["x\0", "u"], ["", "v"], ["z", "w"]]
    for value in (frame, wanted, np.array(wanted, dtype=object)):
        daf.set_matrix("cell", "gene", "m", value, if_exists="replace")
        assert daf.get_np_matrix("cell", "gene", "m").tolist() == wanted
        assert daf.get_np_matrix("gene", "cell", "m").T.tolist() == wanted


def test_defaults_keep_their_values(daf: DafWriter) -> None:
    """Lists, labelled and sparse ones."""
    lists: list[Any] = [["x\0", "", "y"], [2**64 - 1, 1, 2], [1, 0, 0]]
    for default in [*lists, pd.Series([BIG, 1, 2], dtype="Int64"), np.array([1, 2, 3])]:
        wanted = default if isinstance(default, list) else [int(n) for n in default]
        assert daf.get_np_vector("cell", "no", default=default).tolist() == wanted
    found = daf.get_np_vector("cell", "no", default=sp.csr_array(np.array([[0, 5, 0]])))
    assert found.tolist() == [0, 5, 0]
    found = daf.get_np_matrix("cell", "gene", "no", default=[[1, 2]] * 3)
    assert found.tolist() == [[1, 2]] * 3


def test_queries_store_large_unsigned_integers(daf: DafWriter) -> None:
    """A vector out of a query has the values that the query has."""
    daf.set_vector("cell", "u", [2**64 - 1, 2**63, 0])
    session = connect(daf)
    session.save_vector("cell", "same", "u")
    session.save_vector("cell", "text", "name || chr(1)")
    assert daf.get_np_vector("cell", "same").tolist() == [2**64 - 1, 2**63, 0]
    assert daf.get_np_vector("cell", "text").tolist() == ["a\1", "b\1", "c\1"]
    with pytest.raises(errors.UnsupportedDataError, match="decimal"):
        session.save_vector("cell", "d", "arrow_cast(u, 'Decimal128(38, 2)')")


@pytest.mark.parametrize(
    ("values", "expected", "dtype"),
    [
        (TEXT, TEXT, "O"),
        (np.array(TEXT, object), TEXT, "O"),
        (np.array(TEXT, np.dtypes.StringDType()), TEXT, "O"),
        (pd.Series(TEXT), TEXT, "O"),
        (pd.Series(TEXT, dtype="string"), TEXT, "O"),
        (pd.Categorical.from_codes([0, 1, 2], pd.Index(TEXT)), TEXT, "O"),
        (pl.Series(TEXT), TEXT, "O"),
        (pa.array(TEXT), TEXT, "O"),
        (pa.array(TEXT, pa.large_string()), TEXT, "O"),
        (pa.array(TEXT, pa.string_view()), TEXT, "O"),
        (pa.array(TEXT).dictionary_encode(), TEXT, "O"),
        (pa.chunked_array([TEXT[:1], TEXT[1:]]), TEXT, "O"),
        (LARGE, LARGE, "int64"),
        ((np.int64(BIG), np.uint8(1), 2), LARGE, "int64"),
        (range(3), [0, 1, 2], "int64"),
        (np.array(LARGE), LARGE, "int64"),
        (np.ma.array(LARGE, mask=False), LARGE, "int64"),
        (np.array([1, 2**63 - 1, -(2**63)], object), [1, 2**63 - 1, -(2**63)], "int64"),
        (np.array([1, 2**63, 2**64 - 1], object), [1, 2**63, 2**64 - 1], "uint64"),
        (np.array([1, True, 2], object), [1, 1, 2], "int64"),
        (np.array([1, 2.5, 3], object), [1, 2.5, 3], "float64"),
        (np.array([True, np.False_, True], object), [True, False, True], "bool"),
        ([True, False, True], [True, False, True], "bool"),
        (pd.array([True, False, True], dtype="boolean"), [True, False, True], "bool"),
        (pd.Series([1, 2, 3], dtype="Int16"), [1, 2, 3], "int16"),
        (pd.Series(LARGE, dtype="Int64"), LARGE, "int64"),
        (pd.Series(LARGE, dtype="int64[pyarrow]"), LARGE, "int64"),
        (pd.Series(LARGE, dtype=object), LARGE, "int64"),
        (pd.Categorical(LARGE), LARGE, "int64"),
        (pd.arrays.SparseArray(LARGE), LARGE, "int64"),
        (pd.arrays.SparseArray([0.0, 0.0, 1.5]), [0, 0, 1.5], "float64"),
        (pl.Series(LARGE), LARGE, "int64"),
        (pa.array([1, 2, 3], pa.uint8()), [1, 2, 3], "uint8"),
        (pa.array(LARGE).dictionary_encode(), LARGE, "int64"),
        (pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array(LARGE)), LARGE, "int64"),
    ],
)
def test_values_of_every_container(
    daf: DafWriter, values: Any, expected: list[Any], dtype: str
) -> None:
    """They have the type of their elements: no string loses its NUL, no integer is rounded."""
    daf.set_vector("cell", "v", values)
    found = daf.get_np_vector("cell", "v")
    assert (found.dtype, found.tolist()) == (np.dtype(dtype), expected)


def test_strings_are_not_parsed_as_numbers(daf: DafWriter) -> None:
    """A dtype of numbers does not fit strings, given as a list or to fill with."""
    for value in (["1", "2", "3"], "1", np.array(["1", "2", "3"]), pa.array(["1", "2", "3"])):
        with pytest.raises(errors.UnsupportedInputError, match="strings, which are not converted"):
            daf.set_vector("cell", "v", value, dtype="int64")
        daf.set_vector("cell", "v", value, dtype=object, if_exists="replace")
        assert daf.get_np_vector("cell", "v").tolist() in (["1", "2", "3"], ["1"] * 3)


def test_lists_of_arrays_keep_their_values() -> None:
    """Rows of different dtypes, and masked ones."""
    rows = [np.array([BIG, 1]), np.array([0.5, 2])]
    assert plain_values(rows, what="x").tolist() == [[BIG, 1], [0.5, 2]]
    with pytest.raises(errors.UnsupportedInputError, match="masked value at position 1"):
        plain_values([rows[1], np.ma.array([1, 2], mask=[True, False])], what="x")


@pytest.mark.parametrize("dtype", ["string", "str", "string[pyarrow]"])
def test_strings_of_pandas_are_taken_as_arrow(dtype: str) -> None:
    """Without an object of Python for each."""
    values = plain_values(pd.Series(["a", "b"], dtype=dtype), what="x")
    if dtype != "str" or pd.Series(["a"], dtype="str").dtype != object:  # as of pandas 3
        assert isinstance(values, pa.Array | pa.ChunkedArray)
