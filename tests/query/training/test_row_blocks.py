"""Rows of a matrix in batches: the rows of the entries, with their labels."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata import AnnData

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, errors
from tests.support import data_set

COUNT, GENES = 90, 12


def matrix(seed: int, rows: int = COUNT) -> Any:
    """Return a sparse matrix."""
    made = sp.random(
        rows, GENES, 0.3, format="csr", dtype="float32", rng=np.random.default_rng(seed)
    )
    made.data = np.ceil(made.data * 9)
    return sp.csr_array(made)


def filled(daf: DafWriter, start: int, values: Any, genes: list[str]) -> DafWriter:
    """Return a data set with cells from a number on, and two matrices."""
    numbers = np.arange(start, start + values.shape[0])
    data_set(daf, cell=[f"cell_{n}" for n in numbers], gene=genes)
    daf.set_vector("cell", "type", np.array(["b", "t", "nk"])[numbers % 7 % 3].tolist())
    daf.set_vector("cell", "score", np.where(numbers % 9 == 0, np.nan, numbers / 4))
    daf.set_vector("cell", "is_odd", numbers % 2 == 1)
    daf.set_matrix("cell", "gene", "X", values)
    daf.set_matrix("cell", "gene", "dense", values.toarray() + 1)
    return daf


GENE_NAMES = [f"g{n}" for n in range(GENES)]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> DafSession:
    """Return a session over cells on disk."""
    path = tmp_path_factory.mktemp("rows") / "cells.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        filled(daf, 0, matrix(0), GENE_NAMES)
    return connect(path)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", ["X", "dense"])
def test_batches_have_the_rows_of_their_entries(db: DafSession, form: Any, name: str) -> None:
    """Compared with the whole matrix; each entry once an epoch, with its labels."""
    whole = db.matrix("cell", "gene", name, columns=["g7", "g2", "g3"]).to_numpy()
    sampler = db.sampler("cell", where="is_odd", split={"train": 0.8, "val": 0.2})["train"]
    part = db.matrix("cell", "gene", name, columns=["g7", "g2", "g3"])
    sizes: Any = {"batch_rows": 5, "block_rows": 4, "fetch_batches": 2}
    blocks = sampler.blocks(part, labels=["type", "score", "is_odd"], form=form, **sizes)
    assert blocks.classes["type"].to_pylist() == ["b", "nk", "t"]
    types = db.sql("SELECT type FROM cell ORDER BY index").to_pydict()["type"]
    orders = []
    for epoch in (0, 1):
        blocks.set_epoch(epoch)
        found = list(blocks)
        assert len(found) == len(blocks)
        for batch in found:
            values = batch["x"] if form == "dense" else batch["x"].toarray()
            assert values.dtype == whole.dtype
            assert np.array_equal(values, whole[batch["index"]])
            labels = [blocks.classes["type"][code].as_py() for code in batch["type"].tolist()]
            assert labels == [types[n] for n in batch["index"]]
            assert np.array_equal(
                batch["score"],
                np.where(batch["index"] % 9, batch["index"] / 4, np.nan),
                equal_nan=True,
            )
            assert batch["is_odd"].all()
        order = np.concatenate([batch["index"] for batch in found])
        assert np.array_equal(np.sort(order), sampler.indices)
        orders.append(order.tolist())
    assert orders[0] != orders[1]


def test_of_several_data_sets() -> None:
    """Genes are aligned by name; missing labels are -1; a data set without the matrix is refused."""
    genes = [*GENE_NAMES[1:], "extra"]
    halves = [
        filled(MemoryDaf(name="rows_early"), 0, matrix(1, 40), GENE_NAMES),
        filled(MemoryDaf(name="rows_late"), 40, matrix(2, 50), genes),
        MemoryDaf(name="rows_bare"),
    ]
    halves[2].add_axis("cell", ["bare_1", "bare_2"])
    db = connect(halves)
    for join in ("inner", "outer"):
        part = db.matrix("cell", "gene", "X", rows="dataset <> 'rows_bare'", join=join)
        whole = part.to_numpy()
        sampler = db.sampler(
            "cell", where="dataset <> 'rows_bare' AND NOT is_odd", weights="index + 1"
        )
        sizes: Any = {"batch_rows": 7, "block_rows": 3, "rows_per_epoch": 100}
        blocks = sampler.blocks(part, labels=["type", "dataset"], **sizes)
        names = [each.rpartition("_")[2] for each in blocks.classes["dataset"].to_pylist()]
        assert [each[:4] for each in names] == ["bare", "earl", "late"]
        sampled_entries = np.concatenate([batch["index"] for batch in blocks])
        assert sampled_entries.size == 100
        assert set(sampled_entries % 2) == {0}
        for batch in blocks:
            assert np.array_equal(batch["x"], whole[batch["index"]])
            assert np.array_equal(batch["dataset"], 1 + (batch["index"] >= 40))
    every = db.sampler("cell")
    with pytest.raises(errors.InvalidInputError, match="lacks 2 of the 92 entries .* 'bare_1'"):
        every.blocks(part)


def test_missing_labels_are_minus_1_or_nan(tmp_path: Path) -> None:
    """As queries have NULL; classes are those of all entries, so that splits agree."""
    daf = filled(MemoryDaf(), 0, matrix(0), GENE_NAMES)
    db = connect(daf)
    db.save_vector(
        "cell", "state", "CASE index WHEN 0 THEN 'z' WHEN 1 THEN 'a' WHEN 2 THEN NULL ELSE 'm' END"
    )
    part = db.matrix("cell", "gene", "X")
    blocks = db.sampler("cell", where="index > 0").blocks(part, labels="state", shuffle=False)
    [batch] = blocks
    assert blocks.classes["state"].to_pylist() == ["a", "m", "z"]
    assert batch["state"][:4].tolist() == [0, -1, 1, 1]
    adata = AnnData(np.eye(2), pd.DataFrame({"flag": pd.array([None, True])}, index=["a", "b"]))
    adata.write_h5ad(tmp_path / "x.h5ad")
    db = connect(tmp_path / "x.h5ad")
    [batch] = db.sampler("obs").blocks(db.matrix("obs", "var", "X"), labels="flag", shuffle=False)
    np.testing.assert_array_equal(batch["flag"], np.array([np.nan, 1.0]), strict=True)


def test_workers_share_an_epoch(db: DafSession) -> None:
    """Those of all ranks together read what one alone reads, also in other processes."""
    part = db.matrix("cell", "gene", "X")
    sizes: Any = {"batch_rows": np.int8(4), "block_rows": np.int64(2), "fetch_batches": 3}
    blocks = db.sampler("cell").blocks(part, **sizes)
    blocks.set_epoch(5)
    parts = [
        pickle.loads(pickle.dumps(blocks.of_worker(rank=r, ranks=2, worker=w, workers=2)))
        for r in range(2)
        for w in range(2)
    ]
    found = {
        int(n): row
        for each in parts
        for b in each
        for n, row in zip(b["index"], b["x"], strict=True)
    }
    assert sorted(found) == list(range(COUNT))
    assert np.array_equal(np.stack([found[n] for n in range(COUNT)]), matrix(0).toarray())


def test_missing_packages_are_named(db: DafSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    sampler, part = db.sampler("cell"), db.matrix("cell", "gene", "X")
    monkeypatch.setitem(sys.modules, "torch", None)
    for call in (sampler.to_torch, sampler.to_torch_cells):
        with pytest.raises(errors.MissingDependencyError, match="'torch'.*pip install"):
            call(part)
