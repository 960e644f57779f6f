"""Concatenated AnnData, beside what anndata makes of the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_storage import MemoryDaf, concatenate, copy_all, from_anndata, open_daf, to_anndata
from tests.storage.anndata.example import Form, write
from tests.support import contents

NAMES = ["run0", "run1", "run2"]
GENES = [["g0", "g1", "g2", "g3"], ["g3", "g1", "g4"], ["g5", "g3", "g1", "g0"]]
FORMATS = (".daf.zarr", ".h5df", ".daf.zarr.zip", ".daf", ".daf.zip")
TYPES = [["B", "T"], ["T", "NK"], ["B"]]


def _member(number: int, form: str) -> ad.AnnData:
    random = np.random.default_rng(number)
    n_cells, genes = 5 + 2 * number, GENES[number]
    values = random.poisson(0.6, (n_cells, len(genes))).astype(["f4", "i4", "f8"][number])
    matrix: Any = values if form == "dense" else getattr(sp, f"{form}_matrix")(values)
    labels = [*TYPES[number], None]
    chosen = [labels[code] for code in random.integers(0, len(labels), n_cells).tolist()]
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(chosen, TYPES[number]),
            "grade": pd.Categorical(["low"] * n_cells, ["low", "high"], ordered=True),
            "cluster": pd.Categorical([number] * n_cells, [number, 7]),
            "donor": [f"N{n % 3}" for n in range(n_cells)],
            "age": random.integers(0, 90, n_cells),
            "score": random.normal(size=n_cells).astype("f4"),
            "is_doublet": random.integers(0, 2, n_cells).astype(bool),
            "day": pd.to_datetime(["2024-01-02"] * (n_cells - 1) + [""]),
            "reads": pd.array([None, *range(n_cells - 1)], "Int64"),
        },
        index=[f"c{number}-{n}" for n in range(n_cells)],
    )
    if number == 1:
        obs["site"] = "Ulm"
        obs["depth"] = 3
        obs["is_first"] = True
    var = pd.DataFrame({"length": [len(genes) * 0 + int(g[1]) for g in genes]}, index=genes)
    adata = ad.AnnData(matrix, obs, var, uns={"run": number, "lab": "A", "depth": np.int32(7)})
    adata.layers["raw"] = sp.csr_matrix(random.poisson(1, values.shape).astype("i8"))
    adata.obsm["X_pca"] = random.normal(size=(n_cells, 2))
    adata.obsp["dist"] = sp.random(n_cells, n_cells, 0.4, "csr", random_state=number)
    adata.varm["load"] = np.arange(len(genes) * 2.0).reshape(-1, 2)
    return adata


def _frame(adata: ad.AnnData, layer: str | None) -> pd.DataFrame:
    matrix = adata.X if layer is None else adata.layers[layer]
    values = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
    frame = pd.DataFrame(values, adata.obs_names, adata.var_names)
    return frame.reindex(columns=sorted(frame.columns)).astype(float)


def _objects(values: Any) -> list[Any]:
    return [None if pd.isna(value) else value for value in values]


@pytest.fixture(scope="module")
def members() -> list[ad.AnnData]:
    """Return three AnnData with partly different genes, categories and columns."""
    return [_member(number, form) for number, form in enumerate(("csr", "csc", "dense"))]


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_the_result_is_that_of_anndata(members: list[ad.AnnData], join: Any) -> None:
    """X, layers, obs, obsm and obsp, with the types of the columns and the union of categories."""
    daf = MemoryDaf()
    sources = [from_anndata(member) for member in members]
    concatenate(daf, "obs", sources, names=NAMES, join=join, merge="same")
    found = to_anndata(daf)
    expected = ad.concat(
        dict(zip(NAMES, members, strict=True)), label="dataset", join=join, pairwise=True
    )
    assert found.obs_names.tolist() == expected.obs_names.tolist()
    assert set(found.var_names) == set(expected.var_names)
    for layer in (None, "raw"):
        pd.testing.assert_frame_equal(_frame(found, layer), _frame(expected, layer))
    assert set(found.obs.columns) == set(expected.obs.columns)
    for name in expected.obs.columns:
        assert _objects(found.obs[name]) == _objects(expected.obs[name]), name
    assert found.obs["type"].cat.categories.tolist() == ["B", "T", "NK"]
    assert found.obs["grade"].cat.ordered
    assert found.obs["cluster"].cat.categories.tolist() == [0, 7, 1, 2]
    assert found.obs["day"].dtype == members[0].obs["day"].dtype
    assert found.obs["reads"].dtype == "Int64"
    np.testing.assert_array_equal(found.obsm["X_pca"], expected.obsm["X_pca"])
    np.testing.assert_array_equal(found.obsp["dist"].toarray(), expected.obsp["dist"].toarray())
    assert (found.uns["lab"], found.uns["depth"].dtype) == ("A", np.int32)
    assert "run" not in found.uns
    lengths = found.var["length"].astype(int)
    assert lengths.to_dict() == {gene: int(gene[1]) for gene in found.var_names}


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_files_in_place_are_as_imported_ones(members: list[ad.AnnData], tmp_path: Path) -> None:
    """An h5ad file, compressed or not, and a Zarr one need no import."""
    paths, imported = [], []
    forms: tuple[Form, ...] = ("h5ad", "gzip", "zarr3")
    for name, member, form in zip(NAMES, members, forms, strict=True):
        stored = member.copy()
        stored.obs["day"] = stored.obs["day"].astype(str)
        imported.append(from_anndata(stored))
        (tmp_path / name).mkdir()
        override = ad.settings.override  # each by itself: sharding ends before its format does
        with override(zarr_write_format=3), override(auto_shard_zarr_v3=True):
            paths.append(write(stored, tmp_path / name, form))
    for join in ("inner", "outer"):
        found, expected = MemoryDaf(), MemoryDaf()
        options: Any = {"join": join, "merge": "last", "names": NAMES}
        concatenate(found, "obs", paths, **options)
        concatenate(expected, "obs", imported, **options)
        one, other = contents(found), contents(expected)
        for daf in (one, other):
            daf["scalars"].pop("anndata_notes")
        assert one == other
        assert to_anndata(found).obs["type"].cat.categories.tolist() == ["B", "T", "NK"]


def test_each_format_has_the_same(members: list[ad.AnnData], tmp_path: Path) -> None:
    """Sources in all formats, targets in all formats, and nothing left beside the result."""
    expected = MemoryDaf()
    sources = [from_anndata(member) for member in members]
    options: Any = {"join": "outer", "merge": "same"}
    concatenate(expected, "obs", sources, names=NAMES, **options)
    paths = []
    for name, source, suffix in zip(NAMES, sources, FORMATS[1:4], strict=True):
        paths.append(tmp_path / f"{name}{suffix}")
        with open_daf(paths[-1], "w") as daf:
            copy_all(source, daf)
    for suffix in FORMATS:
        target = tmp_path / f"all{suffix}"
        concatenate(target, "obs", paths, **options)
        with open_daf(target) as daf:
            assert contents(daf) == contents(expected)
    targets = {f"all{suffix}" for suffix in FORMATS}
    assert {path.name for path in tmp_path.iterdir()} == {p.name for p in paths} | targets
