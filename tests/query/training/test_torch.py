"""Datasets of torch: what each worker of each rank reads.  Skipped where torch is not installed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_query import DafSession, Sampler, connect
from daf_storage import ZarrDaf, convert, errors
from tests.query.training.test_row_blocks import GENE_NAMES, filled, matrix

torch = pytest.importorskip("torch", reason="torch is not installed; it is in the extra training")
data = pytest.importorskip("torch.utils.data")

pytestmark = pytest.mark.filterwarnings("ignore:.*([Ss]parse|fork)")


@pytest.fixture(scope="module", params=["plain", "packed.zip"])
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DafSession:
    """Return a session over cells on disk."""
    path = tmp_path_factory.mktemp("torch") / "cells.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        filled(daf, 0, matrix(0), GENE_NAMES)
    if request.param == "plain":
        return connect(path)
    convert(path, f"{path}.zip", packed=True)
    return connect(f"{path}.zip")


@pytest.fixture
def sampler(db: DafSession) -> Sampler:
    """Return the cells of a split."""
    return db.sampler("cell", split={"train": 0.8, "val": 0.2})["train"]


@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_workers_read_each_entry_once(db: DafSession, sampler: Sampler, context: Any) -> None:
    """In this process, in forked and in spawned workers; another order in each epoch."""
    blocks = sampler.to_torch(
        db.matrix("cell", "gene", "X"), labels="type", batch_rows=4, block_rows=2, fetch_batches=2
    )
    assert isinstance(blocks, data.IterableDataset)
    count = {None: 0, "fork": 2, "spawn": 1}[context]
    if context == "spawn" and ".zip" in str(db.reader().location):
        pytest.skip("spawned workers import everything again; one format is enough")
    loader = data.DataLoader(
        blocks,
        batch_size=None,
        num_workers=count,
        multiprocessing_context=context,
        persistent_workers=count > 0,
        timeout=60 if count else 0,
    )
    assert len(loader) == len(blocks) == 18
    whole, orders = matrix(0).toarray(), []
    for epoch in (0, 1):
        blocks.set_epoch(epoch)
        batches = list(loader)
        index = torch.cat([batch["index"] for batch in batches]).numpy()
        assert np.array_equal(torch.cat([b["x"] for b in batches]).numpy(), whole[index])
        assert np.array_equal(np.sort(index), sampler.indices)
        labels = torch.cat([b["type"] for b in batches]).numpy()
        assert np.array_equal(labels, np.array([0, 2, 1])[index % 7 % 3])
        orders.append(index.tolist())
    assert orders[0] != orders[1]
    plain = sampler.blocks(
        db.matrix("cell", "gene", "X"), batch_rows=4, block_rows=2, fetch_batches=2
    )
    if context is None:
        assert orders[0] == np.concatenate([batch["index"] for batch in plain]).tolist()


def test_ranks_share_an_epoch(db: DafSession, sampler: Sampler) -> None:
    """Without overlaps or losses; with drop_last all have equally many batches."""
    part = db.matrix("cell", "gene", "X")
    found = [
        np.concatenate([b["index"] for b in sampler.to_torch(part, rank=r, ranks=3, batch_rows=5)])
        for r in range(3)
    ]
    assert np.array_equal(np.sort(np.concatenate(found)), sampler.indices)
    lengths = {
        len(list(sampler.to_torch(part, rank=r, ranks=5, batch_rows=4, drop_last=True)))
        for r in range(5)
    }
    assert lengths == {3}
    with pytest.raises(errors.InvalidInputError, match="pass both rank= and ranks="):
        sampler.to_torch(part, rank=1)


def test_ranks_of_torch_distributed(db: DafSession, sampler: Sampler, tmp_path: Path) -> None:
    """They are asked for when nothing is given."""
    blocks = sampler.to_torch(db.matrix("cell", "gene", "X"), batch_rows=5)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1
    )
    try:
        assert len(list(blocks)) == 15
    finally:
        torch.distributed.destroy_process_group()


def test_ranks_are_asked_for_late(
    db: DafSession, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the length was asked for, too; spawned workers, which have no group, are of its rank."""
    blocks = sampler.to_torch(db.matrix("cell", "gene", "X"), batch_rows=5)
    assert len(blocks) == 15
    with monkeypatch.context() as patch:
        for name, value in (("is_initialized", True), ("get_rank", 1), ("get_world_size", 3)):
            patch.setattr(torch.distributed, name, lambda value=value: value)
        pickled = pickle.dumps(blocks)
        assert len(blocks) == 5
    assert len(pickle.loads(pickled)) == 5


def test_sparse_batches_are_csr_tensors(db: DafSession, sampler: Sampler) -> None:
    """Their dense form has the rows of the matrix."""
    whole = matrix(0).toarray()
    for batch in sampler.to_torch(db.matrix("cell", "gene", "X"), form="sparse", batch_rows=20):
        assert batch["x"].layout == torch.sparse_csr
        assert np.array_equal(batch["x"].to_dense().numpy(), whole[batch["index"]])


def test_cells_work_with_samplers_of_torch(db: DafSession) -> None:
    """Rows by number, each with its labels; a batch is read at once, also by weight."""
    sampler = db.sampler("cell", where="index < 30", weights="CASE WHEN is_odd THEN 1 ELSE 0 END")
    cells = sampler.to_torch_cells(db.matrix("cell", "gene", "X"), labels=["type", "is_odd"])
    assert isinstance(cells, data.Dataset)
    assert len(cells) == 30
    assert cells[-1]["index"] == 29
    with pytest.raises(IndexError):
        cells[30]
    drawing = data.WeightedRandomSampler(cells.weights, 40)
    loader = data.DataLoader(cells, batch_size=8, sampler=drawing, num_workers=1, timeout=60)
    whole = matrix(0).toarray()
    for batch in loader:
        assert np.array_equal(batch["x"].numpy(), whole[batch["index"]])
        assert batch["is_odd"].all()
    assert pickle.loads(pickle.dumps(cells))[3]["x"].tolist() == whole[3].tolist()
    assert repr(cells) == "TorchCells(30 rows x 12)"
