"""Tests of obs and var of several data sets: types, what is missing, and what they disagree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd

from daf_query.slice._tables import OwnFrame, joined_colors, joined_frame


def frames(*parts: tuple[dict[str, Any], list[int]]) -> list[OwnFrame]:
    """Return tables with the rows of the whole that they have."""
    return [OwnFrame(pd.DataFrame(columns), np.array(rows), {}) for columns, rows in parts]


def concatenated(*parts: tuple[dict[str, Any], list[int]]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of all, and what is left out."""
    count = sum(len(rows) for _, rows in parts)
    owners = np.zeros(count, np.int32)
    for number, (_, rows) in enumerate(parts):
        owners[rows] = number
    datasets = pd.Categorical.from_codes(owners, pd.Index([f"run{n}" for n in range(len(parts))]))
    index = [f"c{i}" for i in range(count)]
    return joined_frame(frames(*parts), index, {"dataset": datasets})


def test_columns_that_all_have() -> None:
    """Rows go to their places; numbers are promoted, categoricals have the categories of all."""
    frame, conflicts = concatenated(
        ({"n": np.array([1, 2], "i1"), "t": pd.Categorical(["b", "a"], ["b", "a"])}, [2, 0]),
        ({"n": np.array([300], "i2"), "t": pd.Categorical(["c"], ["c", "b"])}, [1]),
    )
    assert conflicts == []
    assert frame["dataset"].tolist() == ["run0", "run1", "run0"]
    assert frame["n"].tolist() == [2, 300, 1]
    assert frame["n"].dtype == "int16"
    assert frame["t"].tolist() == ["a", "c", "b"]
    assert list(frame["t"].cat.categories) == ["b", "a", "c"]
    assert not frame["t"].cat.ordered
    same = pd.CategoricalDtype(["lo", "hi"], ordered=True)
    ordered, _ = concatenated(
        ({"t": pd.Categorical(["hi"], dtype=same)}, [0]),
        ({"t": pd.Categorical(["lo"], dtype=same)}, [1]),
    )
    assert ordered["t"].cat.ordered


def test_columns_that_some_lack(tmp_path: Path) -> None:
    """Are missing there: of booleans and integers as nullable ones; an h5ad can hold them."""
    frame, _ = concatenated(
        (
            {
                "flag": [True],
                "n": np.array([7], "u4"),
                "x": [0.5],
                "s": ["hi"],
                "t": pd.Categorical(["a"]),
                "at": pd.to_datetime(["2024-01-02"]),
            },
            [1],
        ),
        ({"other": [1.0, 2.0]}, [0, 2]),
    )
    assert {
        name: str(dtype) for name, dtype in frame.dtypes.items() if name in ("flag", "n", "x")
    } == {
        "flag": "boolean",
        "n": "UInt32",
        "x": "float64",
    }
    assert frame.drop(columns=["dataset", "other"]).isna().to_numpy().tolist() == [
        [True] * 6,
        [False] * 6,
        [True] * 6,
    ]
    assert frame["other"].tolist()[::2] == [1.0, 2.0]
    adata = anndata.AnnData(obs=frame.drop(columns="at"))
    adata.write_h5ad(tmp_path / "x.h5ad")
    assert anndata.read_h5ad(tmp_path / "x.h5ad").obs["flag"].tolist() == [pd.NA, True, pd.NA]


def test_columns_that_do_not_fit() -> None:
    """Are left out by name: other types, and one that is called dataset."""
    frame, conflicts = concatenated(
        ({"a": [1], "b": ["x"], "dataset": [1], "c": [True]}, [0]),
        ({"a": ["1"], "b": pd.Categorical(["y"]), "c": [2]}, [1]),
    )
    assert list(frame) == ["dataset", "b"]
    assert frame["b"].tolist() == ["x", "y"]
    assert [each.split(" ")[0] for each in conflicts] == ["'a'", "'dataset'", "'c'"]


def test_an_aligned_axis_has_what_all_agree_on() -> None:
    """A value may be missing in one of them; where two differ, the column is left out."""
    frame, conflicts = joined_frame(
        frames(
            ({"id": ["E0", None], "n": [1, 2], "chr": pd.Categorical(["1", "X"])}, [0, 1]),
            ({"id": ["E1", "E2"], "n": [9, 3], "chr": pd.Categorical(["X", "Y"])}, [1, 2]),
            ({"id": ["E1", "E2"], "only": [5, 6]}, [1, 2]),
        ),
        ["g0", "g1", "g2"],
        {},
    )
    assert frame["id"].tolist() == ["E0", "E1", "E2"]
    assert frame["chr"].tolist() == ["1", "X", "Y"]
    assert frame["only"].isna().tolist() == [True, False, False]
    assert conflicts == ["'n' (it differs between the data sets)"]
    same, conflicts = joined_frame(
        frames(({"n": [1.0, np.nan]}, [0, 1]), ({"n": [1.0, np.nan]}, [0, 1])), ["g0", "g1"], {}
    )
    assert same["n"].isna().tolist() == [False, True]
    assert conflicts == []


def test_colours_are_those_of_all() -> None:
    """Unless two data sets contradict each other, or a category has none."""
    parts = [
        OwnFrame(
            pd.DataFrame({"t": pd.Categorical(["a", "b"])}),
            np.arange(2),
            {"t_colors": ["red", "blue"]},
        ),
        OwnFrame(
            pd.DataFrame({"t": pd.Categorical(["b", "c"])}),
            np.arange(2, 4),
            {"t_colors": ["blue", "green"]},
        ),
    ]
    whole = pd.DataFrame({"t": pd.Categorical(["a", "b", "c"]), "s": ["x", "y", "z"]})
    colors = joined_colors(parts, whole)
    assert list(colors["t_colors"]) == ["red", "blue", "green"]
    parts[1] = parts[1]._replace(colors={"t_colors": ["black", "green"]})
    assert joined_colors(parts, whole) == {}
    assert (
        joined_colors(
            [OwnFrame(whole, np.arange(3), {"s_colors": ["red"], "gone_colors": []})], whole
        )
        == {}
    )
