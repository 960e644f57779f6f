"""Tests of matrices out of slices, queries and arrays, compared with what numpy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf
from tests.support import data_set, dense

COUNTS = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0], [4, 5, 6]], "i4")
LOGS = np.array([[0.5, 1, 0], [2, 0, 3], [0, np.nan, 0], [4, 5, 6]], "f4")
MARKS = np.array([["a", "", "b"], ["c", "d", ""], ["", "", ""], ["x", "y", "z"]], object)


def fill(daf: DafWriter) -> DafWriter:
    """Add cells and genes, and matrices of each kind."""
    daf.add_axis("cell", ["a", "b", "c", "d"], vectors={"age": [1, 2, 3, 4]})
    data_set(daf, gene=["x", "y", "z"], matrices={("cell", "gene", "counts"): sp.csr_array(COUNTS)})
    daf.set_matrix("cell", "gene", "logs", LOGS)
    daf.set_matrix("cell", "gene", "marks", MARKS)
    daf.set_matrix("cell", "cell", "distances", sp.csr_array(np.eye(4)))
    return daf


@pytest.fixture
def daf() -> DafWriter:
    """Return a data set in memory."""
    return fill(MemoryDaf())


def values_of(daf: DafWriter, name: str, axes: tuple[str, str] = ("cell", "gene")) -> list[Any]:
    """Return a matrix, after comparing it with its transpose."""
    found = dense(daf.get_np_matrix(*axes, name))
    if axes[0] != axes[1]:
        assert str(dense(daf.get_np_matrix(*axes[::-1], name)).T.tolist()) == str(found.tolist())
    return list(found.tolist())


@given(
    rows=st.lists(st.integers(0, 3), max_size=6),
    columns=st.lists(st.integers(0, 2), max_size=5),
    transposed=st.booleans(),
)
def test_a_slice_is_placed(rows: list[int], columns: list[int], transposed: bool) -> None:  # noqa: FBT001 - hypothesis
    """At the positions of its entries, in any order and with duplicates, as numpy places them."""
    daf = fill(MemoryDaf())
    with connect(daf) as session:
        for name, matrix, fill_value in (
            ("counts", COUNTS, None),
            ("logs", LOGS, -1),
            ("marks", MARKS, "?"),
        ):
            expected: Any = np.full((4, 3), 0 if fill_value is None else fill_value, matrix.dtype)
            expected[np.ix_(rows, columns)] = matrix[np.ix_(rows, columns)]
            part = session.matrix("cell", "gene", name, rows=rows, columns=columns)
            if transposed:
                part = session.matrix("gene", "cell", name, rows=columns, columns=rows)
                expected = expected.T
            session.save_matrix(part, name="new", fill=fill_value, if_exists="replace")
            found = daf.get_np_matrix(part.rows_axis, part.columns_axis, "new")
            assert sp.issparse(found) == (name == "counts")
            assert str(dense(found).tolist()) == str(expected.tolist())
            assert found.dtype == matrix.dtype


def test_a_slice_of_another_data_set_goes_by_name(session: DafSession, daf: DafWriter) -> None:
    """Its axes have other names, another order and fewer entries; the names decide."""
    other = data_set(barcode=["d", "b"], symbol=["z", "x"])
    other.set_matrix("barcode", "symbol", "n", sp.csr_array([[1, 2], [0, 4]]))
    with connect(other) as others:
        session.save_matrix(others.matrix("barcode", "symbol", "n"), "cell", "gene", "new")
        assert values_of(daf, "new") == [[0, 0, 0], [4, 0, 0], [0, 0, 0], [2, 0, 1]]


def test_a_slice_after_its_axis_was_reordered(session: DafSession, daf: DafWriter) -> None:
    """Its positions are those of the new order."""
    daf.reorder_axis("cell", [3, 2, 1, 0])
    session.save_matrix(session.matrix("cell", "gene", "counts", rows=[0]), name="new")
    assert values_of(daf, "new") == [[4, 5, 6], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_rows_of_a_query(session: DafSession, daf: DafWriter) -> None:
    """Sparse where elements are missing, dense where none is or a value is given for them."""
    pairs = "SELECT cell.name AS cell, gene.name AS gene, age * 2 AS v FROM cell CROSS JOIN gene"
    session.save_matrix(f"{pairs} WHERE age > $least", "cell", "gene", "some", params={"least": 3})
    session.save_matrix(f"{pairs} WHERE age > 3", "cell", "gene", "filled", fill=-1)
    session.save_matrix(session.sql(pairs), "cell", "gene", "all")
    assert sp.issparse(daf.get_np_matrix("cell", "gene", "some"))
    assert values_of(daf, "some") == [[0] * 3, [0] * 3, [0] * 3, [8] * 3]
    assert values_of(daf, "filled") == [[-1] * 3, [-1] * 3, [-1] * 3, [8] * 3]
    assert values_of(daf, "all") == [[2] * 3, [4] * 3, [6] * 3, [8] * 3]
    assert not sp.issparse(daf.get_np_matrix("cell", "gene", "all"))
    words = pairs.replace("age * 2 AS v", "'w' || cell.name AS w")
    session.save_matrix(words, "cell", "gene", "words")
    assert values_of(daf, "words")[1] == ["wb"] * 3
    session.save_matrix(f"{words} WHERE age = 1", "cell", "gene", "one", fill="")
    assert values_of(daf, "one") == [["wa"] * 3, *[["", "", ""]] * 3]
    session.save_matrix(f"{pairs} WHERE age > 99", "cell", "gene", "nothing")
    assert values_of(daf, "nothing") == [[0] * 3] * 4


def test_arrays_are_stored_as_they_are(session: DafSession, daf: DafWriter) -> None:
    """With the checks of `set_matrix`; a DataFrame of pandas is a matrix with labels."""
    frame = pd.DataFrame(COUNTS, list("abcd"), list("xyz"))
    arrays = {
        "dense": (LOGS, LOGS),
        "coo": (sp.coo_array(COUNTS), COUNTS),
        "frame": (frame, COUNTS),
    }
    for name, (values, expected) in arrays.items():
        session.save_matrix(values, "cell", "gene", name)
        assert str(values_of(daf, name)) == str(expected.tolist())


def test_a_dense_slice_that_covers_the_axes(session: DafSession, daf: DafWriter) -> None:
    """In another order needs no value for the rest."""
    session.save_matrix(session.matrix("cell", "gene", "logs", rows=[3, 1, 0, 2]), name="new")
    assert str(values_of(daf, "new")) == str(LOGS.tolist())
