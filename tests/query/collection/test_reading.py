"""Tests of reading the parts of a slice: memory, threads, progress, damage, names of blocks."""

from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import DafSession, DamagedLayoutWarning
from daf_storage import copy_all, errors, open_daf
from tests import seams
from tests.limits import lower
from tests.query.collection.cases import RUNS, daf_of, expected_of, same, session_with
from tests.support import create, data_set, recorded_calls

CELLS, GENES = 1_500, 400


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of three data sets of 150,000 stored elements each, and a dense one."""
    rng = np.random.default_rng(3)
    dafs = {}
    for number, name in enumerate(("a", "b", "c")):
        cell = {"name": [f"{name}{i}" for i in range(CELLS)], "draw": rng.random(CELLS)}
        daf = data_set(cell=cell, gene=[f"g{i + 20 * number}" for i in range(GENES)])
        matrix = sp.random_array((CELLS, GENES), density=0.25, rng=rng, dtype=np.float64)
        daf.set_matrix("cell", "gene", "X", sp.csc_array(matrix))
        daf.set_matrix("cell", "gene", "D", matrix.toarray())
        dafs[name] = daf
    return session_with(dafs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["X", "D"])
@pytest.mark.parametrize("order", ["", "ORDER BY draw"])
def test_memory_is_the_result_and_a_few_blocks(
    db: DafSession, monkeypatch: pytest.MonkeyPatch, name: str, order: str
) -> None:
    """Also where an order mixes the rows of all: no second copy of the result is ever there."""
    lower(monkeypatch, part_bytes=1 << 16)
    part = db.matrix("cell", "gene", name, rows=f"draw < 0.9 {order}", join="outer")
    whole = part.explain().result_bytes
    db.matrix("cell", "gene", name, rows=[0]).values()  # what is imported for it is no part of it
    tracemalloc.start()
    try:
        values = part.values()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = values.nbytes if name == "D" else values.data.nbytes + values.indices.nbytes
    assert size <= whole
    assert size > 3e6
    assert peak < size + 20 * (1 << 16) + 6 * 8 * part.shape[0]


def test_blocks_are_read_in_threads(db: DafSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """In more than one, and not in that of the caller."""
    lower(monkeypatch, part_bytes=1 << 17, part_threads=3)
    threads: set[int] = set()
    lock = threading.Lock()
    barrier = threading.Barrier(2, timeout=30)

    def spy(*_: Any) -> None:
        with lock:
            is_new = threading.get_ident() not in threads
            threads.add(threading.get_ident())
            waits = is_new and len(threads) <= 2
        if waits:
            barrier.wait()  # two are under way at a time

    recorded_calls(monkeypatch, seams.READ_BLOCK, spy)
    done: list[int] = []
    values = db.matrix("cell", "gene", "X").values(progress=done.append)
    assert 2 <= len(threads) <= 3
    assert threading.get_ident() not in threads
    assert sum(done) == values.nnz
    dense: list[int] = []
    db.matrix("cell", "gene", "D").values(progress=dense.append)
    assert sum(dense) == 3 * CELLS * (GENES - 40)


def test_a_damaged_layout_of_a_member(tmp_path: Path) -> None:
    """Is read from the other one, with a warning; if both are, the error names the file."""
    dafs = {}
    for name in ("monday", "tuesday"):
        with open_daf(tmp_path / f"{name}.daf.zarr", "w") as daf:
            copy_all(daf_of(name, RUNS[name]), daf)
    matrices = tmp_path / "tuesday.daf.zarr" / "matrices"
    for folder, problem in (("gene/cell", DamagedLayoutWarning), ("cell/gene", None)):
        [values] = [path for path in (matrices / folder).rglob("0") if path.parent.name == "rowval"]
        values.write_bytes(b"\xff" * values.stat().st_size)
        dafs = {n: open_daf(tmp_path / f"{n}.daf.zarr") for n in ("monday", "tuesday")}
        part = session_with(dafs).matrix("cell", "gene", "X", join="outer")
        if problem is not None:
            with pytest.warns(problem, match="tuesday"):
                part.values()
            runs = {name: RUNS[name] for name in ("monday", "tuesday")}
            same(part, expected_of(runs, "outer", 0))
        else:
            with pytest.raises(errors.CorruptDataError, match="tuesday"):
                part.values()


@pytest.mark.parametrize("order", ["", "ORDER BY draw"])
@pytest.mark.parametrize("fill", [None, 7])
def test_taken_rows(db: DafSession, order: str, fill: int | None) -> None:
    """As a training loop takes them; the values are those of the whole."""
    ask: Any = {"rows": f"draw < 0.05 {order}", "join": "outer", "fill_value": fill}
    values = db.matrix("cell", "gene", "X", **ask).values().toarray()
    fresh = db.matrix("cell", "gene", "X", **ask)
    rng = np.random.default_rng(5)
    for size in (0, 1, 9, values.shape[0]):
        offsets = np.sort(rng.choice(values.shape[0], size, replace=False))
        block = fresh.take_rows(offsets)
        assert block.shape == (size, values.shape[1])
        if size:
            assert np.array_equal(block.values().toarray(), values[offsets])


def test_the_names_of_blocks_follow_from_every_data_set(tmp_path: Path) -> None:
    """Dask takes equal names for equal values: another data set among them is another array."""

    def write(called: str, version: int) -> Path:
        path = tmp_path / f"{called} {version}.daf.zarr"
        copy_all(daf_of(called, RUNS[called]), create(path), progress="never")
        return path

    def name(paths: dict[str, Path]) -> str:
        dafs = {called: open_daf(path) for called, path in paths.items()}
        part = session_with(dafs).matrix("cell", "gene", "X", join="outer")
        return str(part.to_dask(rows_per_block=3).name)

    paths = {called: write(called, 1) for called in ("monday", "tuesday")}
    first = name(paths)
    assert name(paths) == first
    others = {name({**paths, called: write(called, 2)}) for called in paths}
    assert len({first, *others}) == 3
