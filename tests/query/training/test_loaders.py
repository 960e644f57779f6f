"""Samplers for annbatch and scDataset, with these packages.  Skipped where they are missing."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import pytest

from daf_query import DafSession, connect
from daf_query.training._loaders import _annbatch_class
from daf_storage import ZarrDaf, errors
from tests.query.training.test_row_blocks import COUNT, GENE_NAMES, filled, matrix

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def annbatch() -> Any:
    """Return annbatch."""
    return pytest.importorskip("annbatch", reason="annbatch is not installed; it needs Python 3.12")


@pytest.fixture(scope="module")
def atlas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of an AnnData in Zarr."""
    path = tmp_path_factory.mktemp("annbatch") / "atlas.zarr"
    obs = pd.DataFrame({"n": range(COUNT)}, index=[f"cell_{n}" for n in range(COUNT)])
    ad.AnnData(matrix(0), obs=obs, var=pd.DataFrame(index=GENE_NAMES)).write_zarr(path)
    return path


@pytest.mark.parametrize("where", ["n % 3 <> 1", None])
def test_annbatch_reads_the_entries_of_a_split(annbatch: Any, atlas: Path, where: Any) -> None:
    """Of the AnnData that is queried in place: each once an epoch, in the order of `blocks`."""
    db = connect(str(atlas))
    sampler = db.sampler("obs", where=where, split={"train": 0.75, "val": 0.25})["train"]
    requests = sampler.to_annbatch(batch_rows=6, block_rows=3, fetch_batches=2)
    assert isinstance(requests, annbatch.abc.Sampler)
    loader = annbatch.Loader(batch_sampler=requests, return_index=True, preload_to_gpu=False)
    import zarr

    group = zarr.open_group(atlas, mode="r")
    loader.add_adata(
        ad.AnnData(X=ad.io.sparse_dataset(group["X"]), obs=ad.io.read_elem(group["obs"]))
    )
    whole = matrix(0).toarray()
    blocks = sampler.blocks(
        db.matrix("obs", "var", "X"), batch_rows=6, block_rows=3, fetch_batches=2
    )
    for epoch in (0, 1):
        requests.set_epoch(epoch)
        blocks.set_epoch(epoch)
        batches = list(loader)
        assert len(batches) == len(loader) == len(blocks)
        for batch, ours in zip(batches, blocks, strict=True):
            assert batch["index"].tolist() == ours["index"].tolist()
            assert np.array_equal(batch["X"].toarray(), whole[batch["index"]])
            assert batch["obs"]["n"].tolist() == ours["index"].tolist()
    assert len(pickle.loads(pickle.dumps(requests)).indices) == len(sampler)


def test_a_sampler_that_is_pickled_keeps_its_epoch(
    db: DafSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is spawned shuffles as the loader does."""
    package = ModuleType("annbatch")
    package.abc = SimpleNamespace(Sampler=object)  # type: ignore[attr-defined] # of the real one
    monkeypatch.setitem(sys.modules, "annbatch", package)
    _annbatch_class.cache_clear()
    requests = db.sampler("cell").to_annbatch(batch_rows=8)
    requests.set_epoch(5)
    again = pickle.loads(pickle.dumps(requests))
    _annbatch_class.cache_clear()
    assert again.epoch == 5


def test_annbatch_draws_by_weight(annbatch: Any, atlas: Path) -> None:
    """An entry that is drawn twice for a fetch is read once."""
    db = connect(str(atlas))
    sampler = db.sampler("obs", weights="CASE WHEN n < 5 THEN 1 ELSE 0 END")
    requests = sampler.to_annbatch(batch_rows=8, rows_per_epoch=40)
    loader = annbatch.Loader(batch_sampler=requests, return_index=True, preload_to_gpu=False)
    import zarr

    group = zarr.open_group(atlas, mode="r")
    loader.add_adata(ad.AnnData(X=ad.io.sparse_dataset(group["X"])))
    whole = matrix(0).toarray()
    index = []
    for batch in loader:
        assert np.array_equal(batch["X"].toarray(), whole[batch["index"]])
        index += batch["index"].tolist()
    assert len(index) == 40
    assert set(index) <= set(range(5))


def test_annbatch_over_other_data_is_refused(annbatch: Any, atlas: Path) -> None:
    """A loader of half of the cells would read other ones."""
    requests = connect(str(atlas)).sampler("obs").to_annbatch()
    with pytest.raises(
        errors.InvalidInputError, match="the loader has 7 observations, the axis .* 90"
    ):
        requests.n_batches(7)
    assert annbatch


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> DafSession:
    """Return a session over cells on disk."""
    path = tmp_path_factory.mktemp("scdataset") / "cells.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        filled(daf, 0, matrix(0), GENE_NAMES)
    return connect(path)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("weights", [None, "CASE WHEN is_odd THEN 2 ELSE 0 END"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_scdataset_reads_the_entries(
    db: DafSession, workers: int, weights: Any, shuffle: Any
) -> None:
    """Each once an epoch, or by weight; rows and labels are those of the entries."""
    pytest.importorskip("scdataset", reason="scdataset is not installed")
    data = pytest.importorskip("torch.utils.data")
    sampler = db.sampler("cell", where="index > 9", weights=weights)
    dataset = sampler.to_scdataset(
        db.matrix("cell", "gene", "X"),
        labels="type",
        batch_rows=5,
        block_rows=3,
        fetch_batches=2,
        shuffle=shuffle,
    )
    whole = matrix(0).toarray()
    index: list[int] = []
    loader = data.DataLoader(
        dataset, batch_size=None, num_workers=workers, timeout=60 * (workers > 0)
    )
    for batch in loader:
        assert np.array_equal(batch["x"].numpy(), whole[batch["index"]])
        assert batch["type"].tolist() == np.array([0, 2, 1])[batch["index"] % 7 % 3].tolist()
        index += batch["index"].tolist()
    if weights is None:
        assert sorted(index) == list(range(10, COUNT))
    else:
        assert len(index) == COUNT - 10
        assert {n % 2 for n in index} == {1}
