"""Tests of importing sparse matrices: however they are stored, in order or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_storage import MemoryDaf, errors, import_h5ad
from tests import seams
from tests.limits import lower
from tests.support import csc_parts

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
    lower(monkeypatch, copied_bytes=400, thread_bytes=1, decoding_threads=2)


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
        parts = csc_parts(daf, rows, columns, name)
        by_columns = sp.csc_matrix(oriented)
        by_columns.sum_duplicates()
        assert parts.colptr.tolist() == (by_columns.indptr + 1).tolist()
        assert parts.rowval.tolist() == (by_columns.indices + 1).tolist()
        assert parts.nzval.tobytes() == by_columns.data.tobytes()
        assert (parts.rowval.dtype, parts.nzval.dtype) == (np.dtype(index), expected.dtype)


@pytest.mark.sampled(7)
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
        ("indptr", np.arange(41) % 7, "indptr does not rise from 0 to 423 over 40 entries"),
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

    spans = seams.real(seams.BLOCK_SPANS)

    def interrupted(array: Any) -> Any:
        yield from list(spans(array))[:2]
        raise KeyboardInterrupt

    monkeypatch.setattr(seams.BLOCK_SPANS, interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_h5ad(tmp_path / "x.h5ad", tmp_path / "x.daf.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5ad"]
