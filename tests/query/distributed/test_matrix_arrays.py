"""Tests of `MatrixSlice.to_dask`: the values of the slice in blocks, a graph without values."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.distributed import Source
from daf_storage import MemoryDaf, ZarrDaf, convert, copy_all, errors
from daf_storage.base import Packing
from tests.limits import lower
from tests.query.collection.cases import RUNS, daf_of
from tests.support import data_set, dense, recorded_calls

N_CELLS, N_GENES = 23, 7
RNG = np.random.default_rng(5)
COUNTS = RNG.poisson(0.7, (N_CELLS, N_GENES)).astype("float32")
DRAWS = RNG.random((N_CELLS, N_GENES))


def _fill(daf: Any) -> None:
    data_set(daf, cell={"name": N_CELLS, "age": np.arange(N_CELLS) % 10}, gene=N_GENES)
    daf.set_matrix("cell", "gene", "both", sp.csc_array(COUNTS))
    daf.set_matrix("gene", "cell", "by_cell", sp.csc_array(COUNTS.T), relayout=False)
    daf.set_matrix("cell", "gene", "by_gene", sp.csc_array(COUNTS), relayout=False)
    daf.set_matrix("cell", "gene", "dense", DRAWS)
    daf.set_matrix("cell", "gene", "names", np.array([["a", ""]] * N_CELLS).repeat(4, 1)[:, :7])


def _small_chunks(_: Packing, shape: tuple[int, ...], kind: Any) -> tuple[int, ...] | None:
    """Pack arrays of any size, in chunks of four elements."""
    if not shape or 0 in shape or (kind.is_string and len(shape) > 1):
        return None
    return (*(1,) * (len(shape) - 1), min(4, shape[-1]))


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DafSession]:
    """Return sessions over the same data: plain, packed, in an archive, in memory, of runs."""
    folder = tmp_path_factory.mktemp("forms")
    _fill(ZarrDaf(folder / "plain.daf.zarr", "w"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Packing, "chunks", _small_chunks)
        convert(folder / "plain.daf.zarr", folder / "packed.daf.zarr", packed=True)
    convert(folder / "plain.daf.zarr", folder / "zipped.daf.zarr.zip")
    memory = MemoryDaf()
    _fill(memory)
    (folder / "runs").mkdir()
    for name, run in RUNS.items():
        copy_all(daf_of(name, run), ZarrDaf(folder / f"runs/{name}.daf.zarr", "w"))
    named = ("plain.daf.zarr", "packed.daf.zarr", "zipped.daf.zarr.zip")
    opened = {name.partition(".")[0]: connect(folder / name) for name in named}
    runs = [folder / f"runs/{name}.daf.zarr" for name in RUNS if name != "friday"]
    opened["runs"] = connect(runs)
    return opened | {"memory": connect(memory)}


ROWS = st.none() | st.lists(st.integers(0, N_CELLS - 1), max_size=30)
COLUMNS = st.none() | st.lists(st.integers(0, N_GENES - 1), max_size=9)


@settings(max_examples=32, deadline=None)
@given(
    form=st.sampled_from(["plain", "packed", "zipped", "memory"]),
    name=st.sampled_from(["both", "by_cell", "by_gene", "dense", "names"]),
    rows=ROWS,
    columns=COLUMNS,
    size=st.none() | st.integers(1, 12),
    blocks=st.sampled_from([None, "csr", "dense"]),
)
def test_blocks_have_the_values_of_the_slice(
    sessions: dict[str, DafSession],
    form: str,
    name: str,
    rows: list[int] | None,
    columns: list[int] | None,
    size: int | None,
    blocks: Any,
) -> None:
    """Of any selection, in any order, with duplicates, of nothing; and the meta tells the truth."""
    part = sessions[form].matrix("cell", "gene", name, rows=rows, columns=columns)
    if (name == "names" and blocks == "csr") or (name == "by_gene" and size):
        return
    array = part.to_dask(rows_per_block=size, blocks=blocks)
    assert array.shape == part.shape
    assert array.dtype == part.dtype
    if size:
        assert set(array.chunks[0][:-1]) <= {size}
        assert len(array.chunks[1]) == 1
    computed = array.compute()
    expects_csr = blocks == "csr" or (blocks is None and part.is_sparse)
    assert type(computed) is type(array._meta) is (sp.csr_matrix if expects_csr else np.ndarray)
    np.testing.assert_array_equal(dense(computed), part.to_numpy())
    for place in [*np.ndindex(array.numblocks)][-1:]:
        assert array.blocks[place].compute().dtype == part.dtype


@settings(max_examples=15, deadline=None)
@given(
    rows=st.none() | st.lists(st.integers(0, 6), max_size=9),
    columns=st.none() | st.lists(st.integers(0, 2), max_size=4),
    join=st.sampled_from(["inner", "outer"]),
    fill=st.sampled_from([None, 3.5]),
    size=st.integers(1, 8),
)
def test_blocks_of_several_data_sets(
    sessions: dict[str, DafSession],
    rows: list[int] | None,
    columns: list[int] | None,
    join: Any,
    fill: float | None,
    size: int,
) -> None:
    """Aligned and filled as the slice is, whichever data sets a block is of."""
    part = sessions["runs"].matrix(
        "cell", "gene", "X", rows=rows, columns=columns, join=join, fill_value=fill
    )
    array = part.to_dask(rows_per_block=size)
    assert array.dtype == part.dtype
    np.testing.assert_array_equal(dense(array.compute()), part.to_numpy())


def test_names_follow_from_what_is_read(sessions: dict[str, DafSession]) -> None:
    """The same slice has the same keys, also of another session; any other has others."""

    def name(form: str = "plain", matrix: str = "both", size: int = 4, **selected: Any) -> str:
        db = sessions[form] if form != "again" else connect(sessions["plain"].reader().location)
        return str(db.matrix("cell", "gene", matrix, **selected).to_dask(rows_per_block=size).name)

    assert name() == name() == name("again")
    assert name(rows="age > 3") == name(rows="age >= 4")
    names = {
        name(),
        name("packed"),
        name(matrix="by_cell"),
        name(size=5),
        name(rows="age > 3"),
        name(columns=[1]),
        name(columns=[1], rows="age > 3"),
    }
    assert len(names) == 7
    assert name("runs", "X") == name("runs", "X") != name("runs", "X", join="outer")
    assert name("memory") != name("memory")


def test_the_graph_has_no_data(tmp_path: Path) -> None:
    """It grows with the blocks, by a few bytes each, and not with the elements."""
    sizes = {}
    for n_cells, n_blocks in ((1_000, 10), (10_000, 10), (10_000, 100)):
        daf = ZarrDaf(tmp_path / f"{n_cells}_{n_blocks}.daf.zarr", "w")
        daf.add_axis("cell", [str(i) for i in range(n_cells)])
        daf.add_axis("gene", ["a", "b"])
        daf.set_matrix("gene", "cell", "X", sp.random_array((2, n_cells), density=0.9).tocsc())
        part = connect(daf.read_only()).matrix("cell", "gene", "X")
        array = part.to_dask(rows_per_block=n_cells // n_blocks)
        assert len(array.dask) == n_blocks + 1
        sizes[n_cells, n_blocks] = len(pickle.dumps(dict(array.dask)))
    assert sizes[10_000, 10] < sizes[1_000, 10] + 100 < 3_000
    assert sizes[10_000, 100] < sizes[10_000, 10] + 90 * 100


def test_tasks_open_the_path_once(
    sessions: dict[str, DafSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many blocks there are; and the graph outlives the session that made it."""
    opened = recorded_calls(monkeypatch, (Source, "open"), lambda source: source)
    with connect(sessions["plain"].reader().location) as db:
        array = db.matrix("cell", "gene", "both").to_dask(rows_per_block=2)
    travelled = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(dense(travelled.compute()), COUNTS)
    np.testing.assert_array_equal(dense(array.compute()), COUNTS)
    assert len(opened) == 1


def test_blocks_may_be_changed(sessions: dict[str, DafSession]) -> None:
    """A range of a dense matrix is a view of the file in a slice, and a copy in a block."""
    array = sessions["plain"].matrix("cell", "gene", "dense").to_dask(rows_per_block=10)
    doubled = array.map_blocks(lambda block: np.multiply(block, 2, out=block))
    np.testing.assert_array_equal(doubled.compute(), 2 * DRAWS)
    np.testing.assert_array_equal(array.compute(), DRAWS)


@pytest.mark.parametrize(
    ("form", "name", "first", "blocks", "shape"),
    [
        ("plain", "both", 0, "csr", (9, 7)),
        ("plain", "both", 0, "dense", (10, 7)),
        ("plain", "by_gene", 0, "csr", (23, 2)),
        ("plain", "dense", 0, "dense", (5, 7)),
        ("packed", "dense", 0, "dense", (4, 7)),  # which are whole chunks
        ("packed", "dense", 1, "dense", (5, 7)),  # which cannot be
    ],
)
def test_blocks_have_a_size(
    sessions: dict[str, DafSession],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    name: str,
    first: int,
    blocks: Any,
    shape: tuple[int, int],
) -> None:
    """By default as many rows as fit; columns, where these are what is stored together."""
    lower(monkeypatch, dask_block_bytes=300)
    part = sessions[form].matrix("cell", "gene", name, rows=slice(first, None))
    assert part.to_dask(blocks=blocks).blocks[0, 0].shape == shape


def test_one_block_of_what_is_stored_by_columns(sessions: dict[str, DafSession]) -> None:
    """Which reads everything, once."""
    part = sessions["plain"].matrix("cell", "gene", "by_gene")
    assert part.to_dask(rows_per_block=N_CELLS).numblocks == (1, 1)


@pytest.mark.parametrize("what", ["matrix", "axis"])
def test_replaced_meanwhile(tmp_path: Path, what: str) -> None:
    """An error, also after some blocks were read; whoever makes the graph again gets the new values."""
    path = tmp_path / "x.daf.zarr"
    writer = ZarrDaf(path, "w")
    _fill(writer)
    array = connect(path).matrix("cell", "gene", "both").to_dask(rows_per_block=5)
    np.testing.assert_array_equal(dense(array.blocks[0].compute()), COUNTS[:5])
    if what == "matrix":
        writer.set_matrix("cell", "gene", "both", sp.csc_array(2 * COUNTS), if_exists="replace")
        expected = 2 * COUNTS
    else:
        writer.reorder_axis("cell", np.arange(N_CELLS)[::-1])
        expected = COUNTS[::-1]
    with pytest.raises(errors.InvalidInputError, match=r"x\.daf\.zarr: the matrix 'both' or one"):
        array.blocks[1].compute()
    again = connect(path).matrix("cell", "gene", "both").to_dask(rows_per_block=5)
    assert again.name != array.name
    np.testing.assert_array_equal(dense(again.compute()), expected)
