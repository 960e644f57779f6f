"""Tests of every door through which values come in: what is stored is what was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_storage import DafWriter, MemoryDaf, errors
from daf_storage.errors import UnsupportedInputError

CELLS = ["a", "b", "c"]
BIG = 2**53 + 1


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set of 3 cells and 2 genes."""
    daf = MemoryDaf()
    daf.add_axis("cell", CELLS)
    daf.add_axis("gene", ["g", "h"])
    return daf


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (300, "uint8", "holds 300, which does not fit into UInt8"),
        (float("nan"), "int32", "holds nan, which"),
        (2**64, None, "holds 18446744073709551616, which"),
        (None, None, "None of type NoneType"),
        (np.ma.masked, None, "masked value"),
        (pa.scalar(None, pa.int8()), None, "None of type NoneType"),
        ([1, 2], None, r"shape \(2,\); pass a single value"),
        ("5", "int64", "strings, which are not converted"),
        ("\ud800", None, "cannot be stored as UTF-8"),
        (b"x", None, "has dtype"),
    ],
)
def test_scalars_fit_or_are_refused(daf: DafWriter, value: Any, dtype: Any, message: str) -> None:
    """The scalar itself, and the same value that shall fill a vector or a matrix."""
    with pytest.raises(UnsupportedInputError, match=f"scalar 's'.*{message}"):
        daf.set_scalar("s", value, dtype=dtype)
    assert daf.scalars_set() == set()
    if not isinstance(value, list):
        with pytest.raises(UnsupportedInputError, match=f"vector 'v' of axis 'cell'.*{message}"):
            daf.set_vector("cell", "v", value, dtype=dtype)
        with pytest.raises(UnsupportedInputError, match=f"matrix 'm' of axes.*{message}"):
            daf.set_matrix("cell", "gene", "m", value, dtype=dtype)


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
    assert daf.get_scalar("half") == 0.5
    assert daf.get_scalar("arrow") == 5
    assert daf.get_scalar("rounded") == float(np.float32(0.1))
    with pytest.raises(UnsupportedInputError, match="holds 16777217, which"):
        daf.set_scalar("s", 2**24 + 1, dtype="float32")


@pytest.mark.parametrize(
    "entries",
    [
        pd.Index(["x\0", "x"]),
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
    ("entries", "message"),
    [
        (np.ma.array(["p", "q"], mask=[False, True]), "masked value at position 1"),
        (np.array([1, 2]), "holds 1 of type int at position 0"),
        (pa.array([1, 2]), "holds 1 of type int at position 0"),
        (["p", "\ud800"], r"holds '\\ud800' at position 1"),
        (["p", None], "holds None of type NoneType at position 1"),
        ("pq", "a single string, 'pq'"),
        ([["p"], ["q"]], "2 dimensions"),
    ],
)
def test_entries_are_strings(daf: DafWriter, entries: Any, message: str) -> None:
    """Anything else is named."""
    with pytest.raises(UnsupportedInputError, match=f"entries of axis 'new'.*{message}"):
        daf.add_axis("new", entries)
    assert daf.axes_set() == {"cell", "gene"}


def test_lookups_of_what_is_no_unicode_are_errors(daf: DafWriter) -> None:
    """Of ours, not of the codec."""
    with pytest.raises(UnsupportedInputError, match=r"'\\ud800' at position 0"):
        daf.axis_indices("cell", ["\ud800"])


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


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"g": [BIG, 1, 2], "h": [0.5, 1, 2]}), f"column 'g' of.*holds {BIG} at"),
        (
            pd.DataFrame({"g": [1, 2, 3], "h": pd.array([1, None, 3], dtype="Int64")}),
            "column 'h' of.*missing value at position 1",
        ),
        (pd.DataFrame({"g": [1, 2, 3], "h": ["x", "y", "z"]}), "column 'h' of.*holds strings"),
        (pl.DataFrame({"g": [1, 2, 3], "h": [1, None, 3]}), "column 'h' of.*missing value"),
    ],
)
def test_columns_that_do_not_fit_are_named(daf: DafWriter, frame: Any, message: str) -> None:
    """A common float would round one of them."""
    with pytest.raises(UnsupportedInputError, match=message):
        daf.set_matrix("cell", "gene", "m", frame)


def test_frames_of_strings_are_stored(daf: DafWriter) -> None:
    """Of nullable strings too, if none is missing, and of mixed widths."""
    frame = pd.DataFrame({"g": ["x\0", "", "z"], "h": pd.array(["u", "v", "w"], dtype="string")})
    wanted = [["x\0", "u"], ["", "v"], ["z", "w"]]
    for value in (frame, wanted, np.array(wanted, dtype=object)):
        daf.set_matrix("cell", "gene", "m", value, if_exists="replace")
        assert daf.get_np_matrix("cell", "gene", "m").tolist() == wanted
        assert daf.get_np_matrix("gene", "cell", "m").T.tolist() == wanted


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1, 2], [3, "x"], [5, 6]], "holds 1 of type int at row 0, column 0"),
        ([["p", "q"], ["r", 1], ["s", "t"]], "holds 1 of type int at row 1, column 1"),
        ([[1, 2], [3, None], [5, 6]], "holds None of type NoneType at row 1, column 1"),
        (
            np.ma.array(np.ones((3, 2)), mask=[[False] * 2, [False, True], [False] * 2]),
            "at row 1, column 1",
        ),
        ([[1, 2], [3, 2**64], [0.5, 6]], "holds 18446744073709551616|does not fit"),
        ([[1, 2], [3]], "is no array"),
    ],
)
def test_lists_of_lists_are_stored_or_their_first_bad_value_is_named(
    daf: DafWriter, value: Any, message: str
) -> None:
    """With its row and its column."""
    if message.endswith("does not fit"):
        daf.set_matrix("cell", "gene", "m", value)
        assert daf.get_np_matrix("cell", "gene", "m").tolist()[1] == [3, 2.0**64]
        return
    with pytest.raises(UnsupportedInputError, match=message):
        daf.set_matrix("cell", "gene", "m", value)


def test_defaults_keep_their_values(daf: DafWriter) -> None:
    """Lists, labelled and sparse ones; and a missing value is not made up."""
    lists: list[Any] = [["x\0", "", "y"], [2**64 - 1, 1, 2], [1, 0, 0]]
    for default in [*lists, pd.Series([BIG, 1, 2], dtype="Int64"), np.array([1, 2, 3])]:
        wanted = default if isinstance(default, list) else [int(n) for n in default]
        assert daf.get_np_vector("cell", "no", default=default).tolist() == wanted
    found = daf.get_np_vector("cell", "no", default=sp.csr_array(np.array([[0, 5, 0]])))
    assert found.tolist() == [0, 5, 0]
    for bad in ([1, None, 3], np.ma.array([1, 2, 3], mask=[False, True, False])):
        with pytest.raises(UnsupportedInputError, match="the default for vector 'no'.*position 1"):
            daf.get_np_vector("cell", "no", default=bad)
    with pytest.raises(UnsupportedInputError, match="the default for matrix 'no'"):
        daf.get_np_matrix("cell", "gene", "no", default=[[1, None]] * 3)
    assert daf.get_np_matrix("cell", "gene", "no", default=lists[:2][:0] or [[1, 2]] * 3).tolist()
    with pytest.raises(errors.LengthError, match="the rows of the default for matrix 'no'"):
        daf.get_np_matrix("cell", "gene", "no", default=[[1, 2]])


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
    "value",
    [[1, 2, 3], ["a", "b", "c"], np.zeros(3), np.zeros((3, 2, 1)), sp.coo_array(np.ones(3))],
    ids=["list", "strings", "vector", "cube", "sparse vector"],
)
def test_matrices_have_two_dimensions(daf: DafWriter, value: Any) -> None:
    """Anything else is refused, and said what it has."""
    count = 3 if np.ndim(value) == 3 else 1
    with pytest.raises(UnsupportedInputError, match=f"has {count} dimensions; a matrix has two"):
        daf.set_matrix("cell", "gene", "m", value)
    assert not daf.has_matrix("cell", "gene", "m")


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (range(3), "int64"),
        ([True, False, True], "bool"),
        (np.array([True, np.False_, True], object), "bool"),
        (np.array([1, True, 2], object), "int64"),
        (np.array([1, 2.5, 3], object), "float64"),
        (np.array([1, 2**63 - 1, -(2**63)], object), "int64"),
        (np.array([1, 2**63, 2**64 - 1], object), "uint64"),
        (pa.array([1, 2, 3], pa.uint8()), "uint8"),
        (pd.array([True, False, True], dtype="boolean"), "bool"),
        (pd.Series([1, 2, 3], dtype="Int16"), "int16"),
        (pd.arrays.SparseArray([0.0, 0.0, 1.5]), "float64"),
    ],
)
def test_types_of_what_comes_in(daf: DafWriter, values: Any, dtype: str) -> None:
    """Containers of every kind have the type of their elements, and these."""
    daf.set_vector("cell", "v", values)
    found = daf.get_np_vector("cell", "v")
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == [np.dtype(dtype).type(one).item() for one in values]


@pytest.mark.parametrize("value", [["a", "b"], [], np.zeros((1, 1)), np.zeros(2)])
def test_scalars_are_single_values(daf: DafWriter, value: Any) -> None:
    """Anything else is refused, strings and numbers."""
    with pytest.raises(UnsupportedInputError, match="pass a single"):
        daf.set_scalar("s", value)
    assert not daf.has_scalar("s")
