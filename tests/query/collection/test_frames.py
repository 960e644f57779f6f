"""Tests of obs and var of several data sets: types, what is missing, and what they disagree on."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd

from daf_query import connect
from daf_storage import AnnDataWarning, from_anndata


def of_all(*members: Any) -> tuple[Any, str]:
    """Return what a slice of AnnData is as one, with its rows in reverse, and what is said of it."""
    dafs = []
    for number, adata in enumerate(members):
        adata.obs_names = [f"{number}{name}" for name in adata.obs_names]
        adata.X = np.ones(adata.shape, np.float32)
        dafs.append(from_anndata(adata, name=f"run{number}"))
    part = connect(dafs).matrix("obs", "var", "X", join="outer", rows=slice(None, None, -1))
    with warnings.catch_warnings(record=True, action="always", category=AnnDataWarning) as caught:
        made = part.to_anndata()
    return made, " ".join(str(each.message) for each in caught)


def cells(**columns: Any) -> Any:
    """Return an AnnData of one gene with these columns of cells."""
    frame = pd.DataFrame(columns)
    return anndata.AnnData(
        obs=frame.set_index(frame.index.astype(str)), var=pd.DataFrame(index=["g0"])
    )


def genes(names: list[str], **columns: Any) -> Any:
    """Return an AnnData of one cell with these columns of genes."""
    return anndata.AnnData(obs=pd.DataFrame(index=["c"]), var=pd.DataFrame(columns, index=names))


def test_columns_that_all_have() -> None:
    """Rows go to their places; numbers are promoted, categoricals have the categories of all."""
    adata, said = of_all(
        cells(n=np.array([1, 2], "i1"), t=pd.Categorical(["b", "a"], ["b", "a"])),
        cells(n=np.array([300], "i2"), t=pd.Categorical(["c"], ["c", "b"])),
    )
    assert said == ""
    # Of data sets of one name in a process, later ones are called run1#2 and so on.
    assert [each[:4] for each in adata.obs["dataset"]] == ["run1", "run0", "run0"]
    assert (adata.obs["n"].tolist(), adata.obs["n"].dtype) == ([300, 2, 1], "int16")
    assert adata.obs["t"].tolist() == ["c", "a", "b"]
    assert list(adata.obs["t"].cat.categories) == ["b", "a", "c"]
    assert not adata.obs["t"].cat.ordered
    same = pd.CategoricalDtype(["lo", "hi"], ordered=True)
    parts = (cells(t=pd.Categorical([each], dtype=same)) for each in ("hi", "lo"))
    assert of_all(*parts)[0].obs["t"].cat.ordered


def test_columns_that_some_lack(tmp_path: Path) -> None:
    """Are missing there: of booleans and integers as nullable ones; an h5ad can hold them."""
    kinds = {"flag": [True], "n": np.array([7], "u4"), "x": [0.5], "s": ["hi"]}
    others = {"t": pd.Categorical(["a"]), "at": pd.to_datetime(["2024-01-02"])}
    adata, _ = of_all(cells(**kinds, **others), cells(other=[1.0, 2.0]))
    types = {name: str(adata.obs[name].dtype) for name in ("flag", "n", "x")}
    assert types == {"flag": "boolean", "n": "UInt32", "x": "float64"}
    missing = adata.obs[[*kinds, *others]].isna().to_numpy().tolist()
    assert missing == [[True] * 6, [True] * 6, [False] * 6]
    assert adata.obs["other"].tolist()[:2] == [2.0, 1.0]
    anndata.AnnData(obs=adata.obs.drop(columns="at")).write_h5ad(tmp_path / "x.h5ad")
    assert anndata.read_h5ad(tmp_path / "x.h5ad").obs["flag"].tolist() == [pd.NA, pd.NA, True]


def test_columns_that_do_not_fit() -> None:
    """Are left out by name: other types, and one that is called dataset."""
    adata, said = of_all(
        cells(a=[1], b=["x"], dataset=[1], c=[True]), cells(a=["1"], b=pd.Categorical(["y"]), c=[2])
    )
    assert list(adata.obs) == ["dataset", "b"]
    assert adata.obs["b"].tolist() == ["y", "x"]
    assert all(name in said for name in ("'a'", "'dataset'", "'c'"))


def test_an_aligned_axis_has_what_all_agree_on() -> None:
    """A value may be missing in one of them; where two differ, the column is left out."""
    chromosomes = (pd.Categorical(["1", "X"]), pd.Categorical(["X", "Y"]))
    adata, said = of_all(
        genes(["g0", "g1"], id=["E0", None], n=[1, 2], x=[1.0, np.nan], chr=chromosomes[0]),
        genes(["g1", "g2"], id=["E1", "E2"], n=[9, 3], x=[np.nan, 2.0], chr=chromosomes[1]),
        genes(["g1", "g2"], id=["E1", "E2"], only=[5, 6]),
    )
    assert adata.var["id"].tolist() == ["E0", "E1", "E2"]
    assert adata.var["chr"].tolist() == ["1", "X", "Y"]
    assert adata.var["x"].isna().tolist() == [False, True, False]
    assert adata.var["only"].isna().tolist() == [True, False, False]
    assert "'n' (it differs between the data sets)" in said
    assert "n" not in adata.var


def test_colours_are_those_of_all() -> None:
    """Unless two data sets contradict each other."""
    for green, colours in (("blue", ["red", "blue", "green"]), ("black", None)):
        parts = [cells(t=pd.Categorical(["a", "b"])), cells(t=pd.Categorical(["b", "c"]))]
        parts[0].uns["t_colors"] = ["red", "blue"]
        parts[1].uns["t_colors"] = [green, "green"]
        found = of_all(*parts)[0].uns.get("t_colors")
        assert (found if found is None else list(found)) == colours
