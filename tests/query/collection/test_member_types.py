"""Tests of slices of data sets whose matrices differ in type: dense and sparse, numbers, strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.query.collection.cases import Run, expected_of, same, session_of, session_with
from tests.support import data_set


@pytest.mark.parametrize(
    ("dtypes", "fill", "dtype"),
    [
        (["float32", "float32"], None, "float32"),
        (["int16", "uint8"], None, "float32"),
        (["int32", "uint8"], None, "float64"),
        (["int32", "uint8"], 0, "int32"),
        (["bool", "bool"], 0, "bool"),
        (["uint8", "uint8"], 300, "uint16"),
        (["uint8", "uint8"], -1, "int16"),
        (["float32", "float32"], 1e300, "float64"),
        (["float32", "float32"], np.inf, "float32"),
    ],
)
def test_dense_members(dtypes: list[str], fill: Any, dtype: str) -> None:
    """NaN is what a dense data set lacks; integers become floats where that is filled in."""
    runs = {
        "one": Run(["a", "b"], ["g1", "g2"], dtypes[0], is_sparse=False),
        "two": Run(["c"], ["g2", "g3"], dtypes[1], is_sparse=False),
    }
    part = session_of(runs).matrix("cell", "gene", "X", join="outer", fill_value=fill)
    same(part, expected_of(runs, "outer", np.nan if fill is None else fill))
    assert not part.is_sparse
    assert part.dtype == dtype == part.to_numpy().dtype
    inner = session_of(runs).matrix("cell", "gene", "X")
    assert inner.dtype == np.result_type(*dtypes)
    same(inner, expected_of(runs, "inner", None))


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64"])
@pytest.mark.parametrize("other", ["bool", "uint8"])
def test_booleans_are_numbers_beside_numbers(other: str, dtype: str, *, is_sparse: bool) -> None:
    """In slices, gene columns with any filter, the long form and profiles alike."""
    runs = {
        "one": Run(["a", "b", "c"], ["g1", "g2"], other, is_sparse=is_sparse),
        "two": Run(["d", "e"], ["g1", "g2"], dtype, is_sparse=is_sparse),
    }
    db, whole = session_of(runs), expected_of(runs, "inner", None)
    part = db.matrix("cell", "gene", "X")
    assert part.dtype == (dtype if other == "bool" else np.result_type(other, dtype))
    values = part.to_numpy()
    same(part, whole)
    cells = np.array(list("abcde"))
    column = values[:, 0].tolist()
    query = "SELECT name, X['g1'] AS x FROM cell"
    assert db.sql(f"{query} ORDER BY name").to_pydict() == {"name": [*"abcde"], "x": column}
    for where, chosen in (
        ("= 1", values[:, 0] == 1),
        ("> 0.5", values[:, 0] > 0.5),
        ("IN (0, 3)", np.isin(values[:, 0], [0, 3])),
        ("<> 0", values[:, 0] != 0),
    ):
        selected = db.sql(f"{query} WHERE X['g1'] {where} ORDER BY name").to_pydict()
        assert selected["name"] == cells[chosen].tolist(), where
        long = "SELECT cell FROM matrix('cell', 'gene', 'X') WHERE gene = 'g1' AND value "
        listed = db.sql(f"{long} {where} ORDER BY cell").to_pydict()["cell"]
        stored = chosen & (values[:, 0] != 0) if is_sparse else chosen
        assert listed == cells[stored].tolist(), where
    sums = db.sql("SELECT sum(value) AS n FROM matrix('cell', 'gene', 'X')").to_pydict()
    assert sums == {"n": [values.sum()]}
    profile = db.profile("cell", "gene", "X", by="dataset").statistic("mean")
    np.testing.assert_allclose(profile, [values[:3].mean(axis=0), values[3:].mean(axis=0)])


def test_sparse_and_dense_members_make_a_sparse_slice() -> None:
    """As anndata.concat does; 0 is filled in, and the zeros of the dense one are not stored."""
    runs = {
        "one": Run(["a", "b"], ["g1", "g2"], is_sparse=False),
        "two": Run(["c"], ["g2", "g3"]),
    }
    part = session_of(runs).matrix("cell", "gene", "X", join="outer")
    assert not part.explain().is_exact
    same(part, expected_of(runs, "outer", 0))
    assert part.is_sparse
    assert part.nnz == np.count_nonzero(part.to_numpy())
    assert part.explain().stored_elements == part.nnz


def test_strings_are_filled_with_the_empty_one() -> None:
    """Which is what a data set lacks."""
    calls = {"a": ("g1", "hi"), "b": ("g2", "lo")}
    dafs = {name: data_set(cell=[name], gene=[gene]) for name, (gene, _) in calls.items()}
    for name, (_, call) in calls.items():
        dafs[name].set_matrix("cell", "gene", "call", [[call]])
    part = session_with(dafs).matrix("cell", "gene", "call", join="outer")
    assert part.to_numpy().tolist() == [["hi", ""], ["", "lo"]]
