"""Tests of gathering: equal to numpy's indexing, in a bounded part of memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.matrix import Selection, SlicePlan, gather_sparse
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, errors
from tests.limits import lower

MIB = 1 << 20
N_CELLS, N_GENES = 6000, 400


def regular(n_rows: int, n_columns: int, step: int = 2) -> Any:
    """Return a CSR array with an element in each ``step``-th column of each row."""
    per_row = n_columns // step
    indices = np.tile(np.arange(per_row, dtype=np.int32) * step, n_rows)
    indptr = np.arange(n_rows + 1, dtype=np.int64) * per_row
    values = (np.arange(indices.size) % 7 + 1).astype(np.float32)
    return sp.csr_array((values, indices, indptr), shape=(n_rows, n_columns))


def write(path: Path, matrix: Any, **options: Any) -> None:
    """Write a data set with one matrix, in both layouts."""
    daf = ZarrDaf(path, "w", **options)
    assert isinstance(daf, DafWriter)
    daf.add_axis("cell", [f"c{i}" for i in range(matrix.shape[0])])
    daf.add_axis("gene", [f"g{i}" for i in range(matrix.shape[1])])
    daf.set_matrix("cell", "gene", "m", matrix)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> DafSession:
    """Return a session with a mapped matrix of 1.2 million elements, 9.6 MB in each layout."""
    path = tmp_path_factory.mktemp("gather") / "x.daf.zarr"
    write(path, regular(N_CELLS, N_GENES))
    return connect(path)


def peak_bytes(run: Callable[[], Any]) -> tuple[Any, int]:
    """Return a result, and how much memory numpy held at most while it was computed."""
    tracemalloc.start()
    try:
        result = run()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def size_of(values: Any) -> int:
    """Return the bytes of a CSR array."""
    return int(values.data.nbytes + values.indices.nbytes + values.indptr.nbytes)


@st.composite
def selections(draw: st.DrawFn, length: int) -> Selection:
    """Return all entries, or any positions in any order, duplicates too."""
    if draw(st.booleans()):
        return Selection.all(length)
    positions = draw(st.lists(st.integers(0, length - 1), max_size=2 * length))
    return Selection.of(np.array(positions, np.int64), length)


@given(data=st.data())
def test_gathering_is_indexing(data: st.DataObject) -> None:
    """Whatever is selected and however small the blocks, the values are those that numpy picks."""
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 5)))
    dtype = data.draw(st.sampled_from([np.float32, np.int64, np.uint8, np.bool_]))
    numbers = st.lists(st.sampled_from([0, 0, 1, 2]), min_size=shape[0] * shape[1])
    values: Any = np.resize(np.array(data.draw(numbers), dtype), shape)
    daf = MemoryDaf()
    daf.add_axis("r", [f"r{i}" for i in range(shape[0])])
    daf.add_axis("c", [f"c{i}" for i in range(shape[1])])
    daf.set_matrix("r", "c", "m", sp.csc_array(values))
    minor, major = data.draw(selections(shape[0])), data.draw(selections(shape[1]))
    limits = pytest.MonkeyPatch()
    with limits.context() as patch:
        lower(patch, gathered_elements=data.draw(st.integers(1, 4)))
        done: list[int] = []
        plan = SlicePlan(daf.open_matrix("r", "c", "m"), major, minor)
        gathered = gather_sparse(plan, progress=done.append)
    expected = values.T[major.positions][:, minor.positions]
    np.testing.assert_array_equal(gathered.toarray(), expected)
    assert gathered.dtype == dtype
    assert gathered.has_sorted_indices
    gathered.check_format(full_check=True)
    assert sum(done) == np.count_nonzero(values.T[major.positions])


@pytest.mark.parametrize(
    ("rows", "is_damaged"),
    [([1, 1, 4], False), ([4, 1, 2], False), ([0, 1, 2], True), ([1, 2, 9], True)],
)
def test_row_numbers_that_do_not_ascend(
    tmp_path: Path, rows: list[int], *, is_damaged: bool
) -> None:
    """Elements that are stored twice are added up; what leaves the axis is damage."""
    path = tmp_path / "x.daf.zarr"
    write(path, sp.csr_array(np.array([[1, 2], [3, 0], [0, 0], [5, 6]], np.float32)))
    folder = path / "matrices" / "cell" / "gene" / "m"
    chunk = folder / "rowval" / "0"
    numbers = np.frombuffer(chunk.read_bytes(), np.int32).copy()
    numbers[:3] = rows
    chunk.write_bytes(numbers.tobytes())
    db = connect(path)
    shutil.rmtree(path / "matrices" / "gene" / "cell")
    if is_damaged:
        with pytest.raises(errors.CorruptDataError, match="rowval"):
            db.matrix("cell", "gene", "m", columns=["g0"]).to_numpy()
        return
    expected = np.zeros(4, np.float32)
    np.add.at(expected, np.array(rows) - 1, [1, 3, 5])
    assert (
        db.matrix("cell", "gene", "m", columns=["g0"]).to_numpy()[:, 0].tolist()
        == expected.tolist()
    )


SLICES: dict[str, Any] = {
    "rows": {"rows": slice(0, 4500)},
    "filtered": {"columns": range(0, N_GENES, 4)},
    "reversed": {"columns": range(N_GENES - 1, -1, -1), "rows": slice(0, 5000)},
    "repeated": {"columns": [*range(N_GENES), *range(N_GENES)], "rows": slice(0, 3000)},
    "transposed": {"rows": range(0, N_CELLS, 2), "columns": slice(0, 200)},
}


@pytest.mark.parametrize("which", SLICES)
def test_peak_memory_is_twice_the_result(
    session: DafSession, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A slice is gathered in at most two times its bytes and a block."""
    lower(monkeypatch, gathered_elements=1 << 14)
    part = session.matrix("cell", "gene", "m", **SLICES[which])
    values, peak = peak_bytes(part.values)
    assert size_of(values) > 2 * MIB
    assert peak < 2 * size_of(values) + 2 * MIB


def test_few_columns_of_a_packed_dense_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunks are decoded block by block: never the whole width of all rows."""
    matrix = np.arange(4000 * 2100, dtype=np.float32).reshape(4000, 2100)
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w", packed=True)
    assert isinstance(daf, DafWriter)
    daf.add_axis("cell", [f"c{i}" for i in range(4000)])
    daf.add_axis("gene", [f"g{i}" for i in range(2100)])
    daf.set_matrix("gene", "cell", "m", matrix.T, relayout=False)  # stored by cells
    lower(monkeypatch, dense_block_bytes=MIB)
    part = connect(tmp_path / "x.daf.zarr").matrix("cell", "gene", "m", columns=[7, 2047, 7])
    values, peak = peak_bytes(part.values)
    np.testing.assert_array_equal(values, matrix[:, [7, 2047, 7]])
    assert peak < 12 * MIB  # of 32


_CHILD = """
import sys
from daf_query import connect
db = connect(sys.argv[1])
warm = db.matrix("cell", "gene", "m", rows=slice(0, 10)).values()
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
part = db.matrix("cell", "gene", "m", rows=slice(0, 19_000), columns=range(1199, -1, -1))
before = peak()  # ru_maxrss of a child begins with that of its parent
values = part.values()
result = values.data.nbytes + values.indices.nbytes + values.indptr.nbytes
print(result, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_peak_memory_of_a_process(tmp_path: Path) -> None:
    """Two times the result, beside the pages of the file that are mapped; 150 MB are promised."""
    write(tmp_path / "x.daf.zarr", regular(20_000, 1200))
    found = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path / "x.daf.zarr")],
        capture_output=True,
        text=True,
        check=True,
    )
    result, growth = map(int, found.stdout.split())
    mapped = 19_000 * 600 * 8
    assert result > 90_000_000
    assert 0 < growth - mapped < 2 * result
