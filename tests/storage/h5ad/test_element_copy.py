"""Tests of importing sparse matrices on all cores: each chunk is read once, in order or not."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_storage import MemoryDaf, errors, import_h5ad, open_daf
from daf_storage.base import DecodedCache, Span
from daf_storage.data import _blocks, _encoding
from daf_storage.stores import _filled_file as filled_file
from daf_storage.trees import Hdf5File, Hdf5Tree, _chunked_array, _decode_threads, _hdf5_array

STORED: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (50,)},
    "gzip": {"chunks": (64,), "compression": "gzip"},
    "gzip and shuffle": {"chunks": (70,), "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": (33,), "compression": "lzf", "shuffle": True},
}
"""How the elements are stored: in ways that are mapped, decoded here, and decoded by HDF5."""


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many ranges, in several threads, whatever the machine."""
    monkeypatch.setattr(_blocks, "_BLOCK_BYTES", 400)
    monkeypatch.setattr(_blocks, "_THREAD_BYTES", 1)
    monkeypatch.setattr(_decode_threads, "THREADS", 2)


def matrix_of(seed: int, dtype: str, index: str) -> Any:
    """Return a matrix of 40 x 30 in rows, some of which are empty, as are some columns."""
    random = np.random.default_rng(seed)
    mask = random.random((40, 30)) < 0.5
    mask[random.integers(0, 40, 5)] = mask[:, random.integers(0, 30, 5)] = False
    mask[0] = mask[-1] = False
    matrix = sp.csr_matrix(np.where(mask, random.integers(1, 100, (40, 30)), 0).astype(dtype))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    return matrix


def write(path: Path, parts: dict[str, Any], **options: Any) -> None:
    """Write an h5ad file of sparse matrices that are stored in some way, byte by byte as given."""
    shape = next(matrix.shape for part, matrix in parts.items() if "/" not in part)
    adata = anndata.AnnData(
        obs=pd.DataFrame(index=[f"c{n}" for n in range(shape[0])]),
        var=pd.DataFrame(index=[f"g{n}" for n in range(shape[1])]),
    )
    adata.write_h5ad(path)
    with h5py.File(path, "r+") as file:
        for part, matrix in parts.items():
            if part in file:
                del file[part]
            group = file.create_group(part)
            group.attrs.update(
                {
                    "encoding-type": f"{matrix.format}_matrix",
                    "encoding-version": "0.1.0",
                    "shape": matrix.shape,
                }
            )
            group["indptr"] = matrix.indptr
            for name in ("indices", "data"):
                group.create_dataset(name, data=getattr(matrix, name), **options)


def assert_is(daf: Any, axes: tuple[str, str], name: str, expected: Any, index: str) -> None:
    """Compare the stored parts of both layouts with what scipy makes of the matrix."""
    for rows, columns, oriented in ((*axes, expected), (*axes[::-1], expected.T)):
        parts = daf.get_sparse_matrix(rows, columns, name)
        by_columns = sp.csc_matrix(oriented)
        by_columns.sum_duplicates()
        assert parts.colptr.tolist() == (by_columns.indptr + 1).tolist()
        assert parts.rowval.tolist() == (by_columns.indices + 1).tolist()
        assert parts.nzval.tobytes() == by_columns.data.tobytes()
        assert (parts.rowval.dtype, parts.nzval.dtype) == (np.dtype(index), expected.dtype)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize(("dtype", "index"), [("f4", "i4"), ("f8", "i8"), ("i4", "i8")])
def test_both_layouts_are_those_of_scipy(
    tmp_path: Path, stored: str, dtype: str, index: str
) -> None:
    """However the elements are stored, in rows or in columns, also of layers and ``obsp``."""
    by_rows, layer = matrix_of(1, dtype, index), matrix_of(2, dtype, index)
    square = sp.csr_matrix(layer @ layer.T)
    square.sort_indices()
    by_columns = sp.csc_matrix(layer)
    by_columns.indices = by_columns.indices.astype(index)
    by_columns.indptr = by_columns.indptr.astype(index)
    path = tmp_path / "x.h5ad"
    write(path, {"X": by_rows, "layers/c": by_columns, "obsp/s": square}, **STORED[stored])
    daf = MemoryDaf(name=f"both layouts of {stored} {dtype} {index}!")
    import_h5ad(path, daf)
    assert_is(daf, ("obs", "var"), "X", by_rows, index)
    assert_is(daf, ("obs", "var"), "c", by_columns, index)
    found = daf.get_np_matrix("obs", "obs", "s")
    assert found.toarray().tolist() == square.toarray().tolist()


def test_what_is_decoded_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk of indices and values is needed once: what queries need is left in memory."""
    cache = DecodedCache(max_bytes=1 << 20)
    monkeypatch.setattr(_chunked_array, "_process_cache", lambda: cache)
    matrix = matrix_of(3, "f4", "i4")
    path = tmp_path / "x.h5ad"
    write(path, {"X": matrix}, **STORED["gzip and shuffle"])
    settled = time.time_ns() - 10**9
    os.utime(path, ns=(settled, settled))
    time.sleep(0.15)
    daf = MemoryDaf(name="nothing of the source is remembered!")
    import_h5ad(path, daf)
    assert cache.nbytes == 0
    with h5py.File(path) as file:
        node = Hdf5Tree(Hdf5File(file, location="x.h5ad")).node("X/data")
        array = None if node is None else node.array()
        assert array is not None
        array.read_rows(Span(0, matrix.nnz))
    assert cache.nbytes >= matrix.nnz * 4


@pytest.mark.parametrize("stored", ["contiguous", "gzip and shuffle", "lzf"])
def test_elements_out_of_order_and_twice(tmp_path: Path, stored: str) -> None:
    """Also where a row reaches from one range into the next one."""
    for seed in range(4):
        matrix = matrix_of(seed, "f4", "i4")
        random = np.random.default_rng(seed)
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            order = start + random.permutation(stop - start)
            matrix.indices[start:stop] = matrix.indices[order]
            matrix.data[start:stop] = matrix.data[order]
        if seed % 2:
            row = int(np.argmax(np.diff(matrix.indptr)))
            matrix.indices[matrix.indptr[row]] = matrix.indices[matrix.indptr[row] + 3]
        path = tmp_path / f"{seed}.h5ad"
        write(path, {"X": matrix}, **STORED[stored])
        daf = MemoryDaf(name=f"{stored} out of order {seed}!")
        report = import_h5ad(path, daf)
        assert len(report.items) == seed % 2
        expected = sp.csr_matrix(matrix)
        expected.sum_duplicates()
        assert_is(daf, ("obs", "var"), "X", expected, "i4")


def test_each_chunk_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For both layouts together, though rows do not end where chunks do; indices are looked at."""
    matrix = matrix_of(5, "f8", "i4")
    path = tmp_path / "x.h5ad"
    options = {"compression": "gzip", "shuffle": True}
    write(path, {"X": matrix}, chunks=(64,), **options)
    with h5py.File(path, "r+") as file:
        del file["X/indices"]
        file["X"].create_dataset("indices", data=matrix.indices, chunks=(48,), **options)
    decoded: Counter[tuple[str, tuple[int, ...]]] = Counter()
    lock = threading.Lock()
    decode = _hdf5_array.Hdf5Chunks.decode

    def counting(self: Any, position: Any, stored: Any) -> Any:
        with lock:
            decoded[self.what.rsplit("/", 1)[-1], position] += 1
        return decode(self, position, stored)

    def refuse(*_: Any) -> Any:
        raise AssertionError("h5py read the elements")

    monkeypatch.setattr(_hdf5_array.Hdf5Chunks, "decode", counting)
    getitem = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset,
        "__getitem__",
        lambda self, *args: (refuse if self.name in ("/X/data", "/X/indices") else getitem)(
            self, *args
        ),
    )
    daf = MemoryDaf(name="each chunk once!")
    import_h5ad(path, daf)
    expected = {("indices", (n,)) for n in range(-(-matrix.nnz // 48))}
    expected |= {("data", (n,)) for n in range(-(-matrix.nnz // 64))}
    assert set(decoded) == expected
    assert all(count == 1 for (part, _), count in decoded.items() if part == "data")
    assert all(count <= 3 for count in decoded.values())  # where rows end within a chunk
    assert_is(daf, ("obs", "var"), "X", matrix, "i4")


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_the_first_value_that_is_no_count_is_named(tmp_path: Path, layout: str) -> None:
    """Whichever thread comes upon it, by its row and column; values that add up to counts pass."""
    matrix = matrix_of(4, "f4", "i4").asformat(layout)
    for at in (150, 151, 390):
        matrix.data[at] += 0.5
    first = matrix.copy()
    first.data[:] = np.arange(matrix.nnz)
    row, column = (int(place[0]) for place in np.nonzero(first.toarray() == 150))
    write(tmp_path / "x.h5ad", {"X": matrix}, **STORED["gzip"])
    with pytest.raises(
        errors.UnsupportedInputError, match=f"of row 'c{row}' and column 'g{column}' is no uint8"
    ):
        import_h5ad(tmp_path / "x.h5ad", tmp_path / "x.daf.zarr", counts_as="uint8")
    twice = sp.csr_matrix(([0.5, 2, 0.5], [1, 0, 1], [0, 3, 3]), shape=(2, 2))
    write(tmp_path / "twice.h5ad", {"X": twice})
    daf = MemoryDaf(name=f"halves that add up {layout}!")
    import_h5ad(tmp_path / "twice.h5ad", daf, counts_as="uint8")
    assert daf.get_np_matrix("obs", "var", "X").toarray().tolist() == [[2, 1], [0, 0]]


@pytest.mark.parametrize(
    ("part", "values", "problem"),
    [
        ("indices", np.zeros(3, "i4"), r"nzval: the stored shape is \[423\], but rowval needs"),
        ("data", np.zeros(3, "f4"), r"nzval: the stored shape is \[3\], but rowval needs"),
        ("indptr", np.arange(41) % 7, "colptr does not rise from 1 to 424 over 40 columns"),
        ("indptr", np.zeros(9, "i4"), "colptr is not a list of 41 positions"),
        ("indices", np.full(423, -1), "rowval leaves the range 0 to 29"),
        ("indices", np.full(10_000, -1), "has no room for so many"),
    ],
)
def test_damaged_matrices_are_errors(tmp_path: Path, part: str, values: Any, problem: str) -> None:
    """That say which part it is, and leave nothing behind."""
    write(tmp_path / "x.h5ad", {"X": matrix_of(3, "f4", "i4")})
    with h5py.File(tmp_path / "x.h5ad", "r+") as file:
        del file[f"X/{part}"]
        file[f"X/{part}"] = values
    with pytest.raises(errors.CorruptDataError, match=problem):
        import_h5ad(tmp_path / "x.h5ad", tmp_path / "x.daf.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5ad"]


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread goes on, and there is no part of a data set."""
    write(tmp_path / "x.h5ad", {"X": matrix_of(3, "f4", "i4")})

    def interrupted(array: Any, memory_bytes: int) -> Any:
        yield from list(_blocks.block_spans(array, memory_bytes))[:2]
        raise KeyboardInterrupt

    monkeypatch.setattr(_encoding, "block_spans", interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_h5ad(tmp_path / "x.h5ad", tmp_path / "x.daf.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5ad"]


@pytest.mark.parametrize("memory_bytes", [0, (1 << 24) - 1, True, "1GiB", None])
def test_too_little_memory_is_refused(tmp_path: Path, memory_bytes: Any) -> None:
    """Before anything is read or written."""
    with pytest.raises(errors.InvalidInputError, match=r"16 MiB.* or more"):
        import_h5ad(tmp_path / "none", tmp_path / "x.daf.zarr", memory_bytes=memory_bytes)
    assert not list(tmp_path.iterdir())


def test_elements_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of the file, each byte of its elements once: no page of them is cleared."""
    monkeypatch.setattr(filled_file, "_LEAST_WRITE_BYTES", 1)
    counted: list[int] = []
    pwrite = os.pwrite

    def counting(descriptor: int, data: Any, offset: int) -> int:
        counted.append(len(data))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", counting)
    matrix = matrix_of(6, "f8", "i4")
    write(tmp_path / "x.h5ad", {"X": matrix}, **STORED["gzip"])
    import_h5ad(tmp_path / "x.h5ad", tmp_path / "x.daf.zarr")
    assert sum(counted) == matrix.nnz * 12 + 41 * 4
    with open_daf(tmp_path / "x.daf.zarr") as daf:
        assert_is(daf, ("obs", "var"), "X", matrix, "i4")
