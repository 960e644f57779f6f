"""Tests of ``to_anndata(lazy=True)``: X and layers are Dask arrays, and scanpy computes on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
import scipy.sparse as sp

from daf_query import DafSession, DuplicateNamesWarning, connect
from daf_storage import AnnDataWarning, ZarrDaf, copy_all, errors, from_anndata
from tests.query.collection.cases import RUNS, daf_of
from tests.support import by_key, dense

N_OBS, N_VAR = 120, 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with layers, sparse and dense, and what else an AnnData may have."""
    rng = np.random.default_rng(1)
    rates = rng.gamma(1, 2, N_VAR) * rng.choice([1, 3], (N_OBS, 1))
    counts = rng.poisson(rates).astype("float32")
    adata = anndata.AnnData(
        sp.csr_matrix(counts),
        obs=pd.DataFrame(
            {"age": np.arange(N_OBS), "type": pd.Categorical(rng.choice(["T", "B"], N_OBS))},
            index=[f"c{i}" for i in range(N_OBS)],
        ),
        var=pd.DataFrame(
            {"is_marker": rng.random(N_VAR) < 0.5}, index=[f"g{i}" for i in range(N_VAR)]
        ),
        layers={"counts": sp.csc_matrix(counts), "dense": counts.copy()},
        obsm={"X_umap": rng.random((N_OBS, 2))},
        varm={"PCs": rng.random((N_VAR, 3))},
        obsp={"near": sp.csr_matrix(np.eye(N_OBS))},
    )
    path = tmp_path_factory.mktemp("lazy") / "x.daf.zarr"
    copy_all(from_anndata(adata), ZarrDaf(path, "w"))
    return path


@pytest.fixture(scope="module")
def db(path: Path) -> DafSession:
    """Return a session over it."""
    return connect(path)


def test_all_but_x_and_layers_is_in_memory(db: DafSession) -> None:
    """The parts are those of an AnnData in memory, in their order, with blocks of the same rows."""
    part = db.matrix("obs", "var", "X", rows="age >= 20 ORDER BY age DESC", columns="is_marker")
    lazy, whole = part.to_anndata(lazy=True, rows_per_block=30), part.to_anndata()
    pd.testing.assert_frame_equal(lazy.obs, whole.obs)
    pd.testing.assert_frame_equal(lazy.var, whole.var)
    assert [*by_key(lazy.layers)] == ["counts", "dense"]
    for mine, theirs in [
        (lazy.X, whole.X),
        *((lazy.layers[k], whole.layers[k]) for k in lazy.layers),
    ]:
        assert isinstance(mine, da.Array)
        assert mine.chunks[0] == (30, 30, 30, 10)
        computed = mine.compute()
        assert isinstance(computed, sp.csr_matrix | np.ndarray)
        assert sp.issparse(computed) == sp.issparse(theirs)
        np.testing.assert_array_equal(np.asarray((computed - theirs).sum()), 0)
    for part_name in ("obsm", "varm", "obsp"):
        mine, theirs = getattr(lazy, part_name), getattr(whole, part_name)
        assert sorted(mine) == sorted(theirs) != []
        assert not any(isinstance(value, da.Array) for value in mine.values())
    in_memory = lazy.to_memory()
    assert (in_memory.X != whole.X).nnz == 0


def test_layers_are_chosen_as_ever(db: DafSession) -> None:
    """All by default, whatever they would take; those that are named; none; one that is missing."""
    part = db.matrix("obs", "var", "X")
    assert [*by_key(part.to_anndata(lazy=True, layers="counts").layers)] == ["counts"]
    assert not by_key(part.to_anndata(lazy=True, layers=False).layers)
    with pytest.warns(AnnDataWarning, match="leaves out obsm"):
        assert len(by_key(part.to_anndata(lazy=True, max_bytes=0).layers)) == 2


def test_stored_by_columns_alone(tmp_path: Path) -> None:
    """Scanpy wants blocks of rows, so the other layout has to be stored first."""
    writer = ZarrDaf(tmp_path / "x.daf.zarr", "w")
    copy_all(daf_of("friday", RUNS["friday"]), writer)
    part = connect(tmp_path / "x.daf.zarr").matrix("cell", "gene", "X")
    with pytest.raises(errors.InvalidInputError, match=r"relayout_matrix\(\)$"):
        part.to_anndata(lazy=True, rows_per_block=1)
    writer.relayout_matrix("cell", "gene", "X")
    part = connect(tmp_path / "x.daf.zarr").matrix("cell", "gene", "X")
    assert part.to_anndata(lazy=True, rows_per_block=1).X.numblocks == (2, 1)
    writer.set_matrix("cell", "gene", "Y", part.to_scipy().tocsc(), relayout=False)
    with pytest.raises(errors.InvalidInputError, match=r"'Y' is .*relayout_matrix\(\)$"):
        part.to_anndata(lazy=True, rows_per_block=1)


def test_of_several_data_sets(tmp_path: Path) -> None:
    """X and its blocks are those of the slice, whichever data set they are of."""
    for name in ("monday", "tuesday"):
        copy_all(daf_of(name, RUNS[name]), ZarrDaf(tmp_path / f"{name}.daf.zarr", "w"))
    zero: Any = np.float32(0)
    part = connect(str(tmp_path / "*.daf.zarr")).matrix(
        "cell", "gene", "X", join="outer", fill_value=zero
    )
    assert type(part.provenance()["fill_value"]) is float
    with pytest.warns(DuplicateNamesWarning):
        lazy = part.to_anndata(lazy=True, rows_per_block=3)
    with pytest.warns(DuplicateNamesWarning):
        whole = part.to_anndata()
    pd.testing.assert_frame_equal(lazy.obs, whole.obs)
    assert lazy.X.numblocks == (3, 1)
    np.testing.assert_array_equal(lazy.X.compute().toarray(), whole.X.toarray())


@pytest.fixture(params=["X", "dense"])
def pair(request: pytest.FixtureRequest, db: DafSession) -> tuple[Any, Any]:
    """Return the same cells as Dask arrays and in memory."""
    part = db.matrix("obs", "var", request.param, rows="age >= 10")
    choice: Any = {"layers": False, "obsm": False, "varm": False, "obsp": False}
    return part.to_anndata(lazy=True, rows_per_block=25, **choice), part.to_anndata(**choice)


def test_scanpy_computes_the_same(pair: tuple[Any, Any]) -> None:
    """Normalisation, logarithm, variable genes and components, of CSR blocks and of dense ones."""
    for adata in pair:
        sc.pp.filter_genes(adata, min_cells=1)
        sc.pp.calculate_qc_metrics(adata, inplace=True, percent_top=None)
        sc.pp.normalize_total(adata, target_sum=1e4)
        sc.pp.log1p(adata)
        sc.pp.highly_variable_genes(adata, n_top_genes=15)
        # dask-ml is needed for the other solvers of dense blocks
        sc.pp.pca(adata, n_comps=4, svd_solver="covariance_eigh")
    lazy, whole = pair
    assert isinstance(lazy.X, da.Array)
    np.testing.assert_allclose(dense(lazy.X.compute()), dense(whole.X), rtol=1e-5)
    pd.testing.assert_frame_equal(lazy.obs, whole.obs, check_dtype=False, rtol=1e-4)
    assert lazy.var["highly_variable"].tolist() == whole.var["highly_variable"].tolist()
    assert lazy.var["highly_variable"].sum() == 15
    np.testing.assert_allclose(lazy.var["dispersions"], whole.var["dispersions"], rtol=1e-3)
    mine, theirs = lazy.obsm["X_pca"].compute(), whole.obsm["X_pca"]
    np.testing.assert_allclose(
        np.abs(mine), np.abs(theirs), rtol=0, atol=1e-3 * np.abs(theirs).max()
    )
    # Of Dask arrays, scanpy divides by the number of cells, and not by one less.
    variance = lazy.uns["pca"]["variance"] * lazy.n_obs / (lazy.n_obs - 1)
    np.testing.assert_allclose(variance, whole.uns["pca"]["variance"], rtol=1e-3)
