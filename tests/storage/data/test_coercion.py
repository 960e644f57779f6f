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

CELLS = ["a", "b", "c"]
BIG = 2**53 + 1


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set of 3 cells and 2 genes."""
    daf = MemoryDaf()
    daf.add_axis("cell", CELLS)
    daf.add_axis("gene", ["g", "h"])
    return daf


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
