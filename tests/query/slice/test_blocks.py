"""Tests of slices in blocks of rows: together they are the slice, and none is larger than asked."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DamagedLayoutWarning, MatrixSlice, connect, provenance
from tests.query.slice.test_explanation import slices, sparse_bytes
from tests.support import create, data_set, taken_elements

N_CELLS, N_GENES = 300, 40


def stacked(part: MatrixSlice, blocks: list[MatrixSlice]) -> Any:
    """Return the values of blocks as a dense array."""
    return np.concatenate(
        [np.empty((0, part.shape[1]), part.dtype), *(block.to_numpy() for block in blocks)]
    )


def size_of(values: Any) -> int:
    """Return the memory of the values of a block."""
    return sparse_bytes(values) if sp.issparse(values) else values.nbytes


@given(data=st.data())
def test_blocks_are_the_slice(data: st.DataObject) -> None:
    """Whatever the size, also of a slice whose values were read."""
    part = data.draw(slices())
    if data.draw(st.booleans()):
        part.load()
    if data.draw(st.booleans()):
        rows = data.draw(st.integers(1, 8))
        blocks = list(part.blocks(rows=rows))
        heights = [block.shape[0] for block in blocks]
        assert heights[:-1] == [rows] * (len(blocks) - 1)
    else:
        max_bytes = data.draw(st.integers(1, 200))
        blocks = list(part.blocks(max_bytes=max_bytes))
        for block in blocks:
            assert block.shape[0] == 1 or size_of(block.values()) <= max_bytes
    np.testing.assert_array_equal(stacked(part, blocks), part.to_numpy())
    positions = [position for block in blocks for position in block.row_positions.tolist()]
    assert positions == part.row_positions.tolist()
    for block in blocks:
        assert block.shape[1] == part.shape[1]
        assert (block.rows_axis, block.columns_axis, block.name) == ("r", "c", "m")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a data set with sparse matrices in both layouts, and in one."""
    path = tmp_path_factory.mktemp("blocks") / "x.daf.zarr"
    daf = data_set(create(path), cell=N_CELLS, gene=N_GENES)
    values = sp.random_array(
        (N_CELLS, N_GENES), density=0.3, rng=np.random.default_rng(0), format="csc"
    )
    daf.set_matrix("cell", "gene", "both", values)
    daf.set_matrix("cell", "gene", "by_genes", values, relayout=False)
    return path


def test_blocks_read_their_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a matrix that is stored by rows, every element is read once, whatever the blocks."""
    taken = taken_elements(monkeypatch)
    part = connect(path).matrix("cell", "gene", "both")
    n_elements = part.explain().stored_elements
    blocks = part.blocks(rows=7)
    assert taken == []
    for block in blocks:
        block.load()
    assert sum(each.count for each in taken) == 2 * n_elements
    assert len(list(part.blocks())) == 1


def test_a_damaged_layout_is_read_once(path: Path, tmp_path: Path) -> None:
    """A layout of which a block could not be read is left alone by the later ones."""
    copy = tmp_path / "x.daf.zarr"
    shutil.copytree(path, copy)
    file = copy / "matrices/gene/cell/both/rowval/0"
    file.write_bytes(b"\xff" * file.stat().st_size)
    part = connect(copy).matrix("cell", "gene", "both")
    with warnings.catch_warnings(
        record=True, action="always", category=DamagedLayoutWarning
    ) as caught:
        found = np.concatenate([block.to_numpy() for block in part.blocks(rows=50)])
    assert len(caught) == 1
    expected = connect(path).matrix("cell", "gene", "both").to_numpy()
    np.testing.assert_array_equal(found, expected)


def test_blocks_say_which_rows_they_have(path: Path, tmp_path: Path) -> None:
    """The provenance of a block is that of the slice, with its rows; also of a block of one."""
    part = connect({"pbmc": path}).matrix("cell", "gene", "both", rows=range(10), columns=["g1"])
    whole = part.provenance()
    assert "block" not in whole
    blocks = list(part.blocks(rows=4))
    expected = [([0, 4], 4), ([4, 8], 4), ([8, 10], 2)]
    for block, (rows, height) in zip(blocks, expected, strict=True):
        assert block.provenance() == {**whole, "block": rows, "shape": [height, 1]}
    last = list(blocks[1].blocks(rows=3))[-1]
    assert last.provenance() == {**whole, "block": [7, 8], "shape": [1, 1]}
    blocks[1].save(tmp_path / "x.parquet")
    assert provenance(tmp_path / "x.parquet") == blocks[1].provenance()
