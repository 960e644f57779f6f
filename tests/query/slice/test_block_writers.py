"""Tests of slices that are written in blocks: the files hold what those written at once hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

from daf_query import connect, provenance
from daf_storage import DafWriter, errors, from_anndata
from tests import seams
from tests.query.slice.test_anndata import DAF, PARTS
from tests.support import by_key, data_set, dense

# Dates become strings in an h5ad file; test_anndata.py has what is said of that.
pytestmark = pytest.mark.filterwarnings("ignore:obs.*became text")

READERS = {"h5ad": anndata.read_h5ad, "zarr": anndata.read_zarr}


def assert_same_anndata(found: Any, expected: Any) -> None:
    """Compare everything but the sparse format of matrices, which is CSR in blocks."""
    assert_equal(found.obs, expected.obs, exact=True)
    assert_equal(found.var, expected.var, exact=True)
    assert_equal(found.uns, expected.uns, exact=True)
    assert_equal(dense(found.X), dense(expected.X), exact=True)
    assert sp.issparse(found.X) == sp.issparse(expected.X)
    for part in PARTS:
        mine, theirs = by_key(getattr(found, part)), by_key(getattr(expected, part))
        assert list(mine) == list(theirs)
        for key in theirs:
            values = (v.toarray() if sp.issparse(v) else v for v in (mine[key], theirs[key]))
            assert_equal(*values, exact=True)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the heights of the blocks that are read to be written."""
    heights: list[int] = []
    read = seams.real(seams.READING_BLOCKS)

    def noted(self: Any, whole: Any, file_format: str) -> Any:
        for span, values in read(self, whole, file_format):
            heights.append(values.shape[0])
            yield span, values

    monkeypatch.setattr(seams.READING_BLOCKS, noted)
    return heights


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("file_format", "name", "rows"),
    [
        *(("h5ad", name, None) for name in ("X", "half", "csc", "array")),
        *(("h5ad", name, [7, 2, 3, 9]) for name in ("X", "half", "csc", "array")),
        ("zarr", "X", None),
        ("zarr", "half", [7, 2, 3, 9]),
    ],
)
def test_anndata(
    tmp_path: Path, counted: list[int], file_format: str, name: str, rows: Any
) -> None:
    """Sparse and dense matrices, large companions too, have the values and dtypes of one write."""
    db = connect(DAF)
    paths = [tmp_path / f"{how}.{file_format}" for how in ("whole", "blocks")]
    db.matrix("obs", "var", name, rows=rows).save(paths[0])
    assert counted == []
    part = db.matrix("obs", "var", name, rows=rows)
    nnz = db.matrix("obs", "var", name, rows=rows).nnz
    part.save(paths[1], block_bytes=100 if rows else 1500)
    assert len(counted) > 3
    assert part.nnz == nnz
    expected, found = (READERS[file_format](path) for path in paths)
    assert_same_anndata(found, expected)
    assert found.X.dtype == expected.X.dtype


@pytest.mark.parametrize("file_format", ["h5ad", "zarr"])
def test_sparse_companions(tmp_path: Path, file_format: str) -> None:
    """Small ones stay CSC, as in one write; indexes have 64 bits only where they need them."""
    values = sp.random_array((50, 12), density=0.4, rng=np.random.default_rng(0), format="csr")
    adata = anndata.AnnData(values, layers={"large": values}, varp={"small": values[:12].tocsc()})
    path = tmp_path / f"x.{file_format}"
    connect(from_anndata(adata)).matrix("obs", "var", "X").save(path, block_bytes=1500)
    found = READERS[file_format](path)
    assert (found.layers["large"] != values).nnz == (found.varp["small"] != values[:12]).nnz == 0
    assert found.varp["small"].format == "csc"
    for each in (found.X, found.layers["large"], found.varp["small"]):
        assert each.indptr.dtype == np.int32


def test_a_negative_number_is_none_of_an_unsigned_type(tmp_path: Path) -> None:
    """Also where the dtype of the import has as many bits, from which it would come back."""
    daf = from_anndata(anndata.AnnData(np.ones((4, 3), "u4")), counts_as="uint8")
    daf.set_matrix("obs", "var", "X", np.full((4, 3), -1, "i4"), if_exists="replace")
    connect(daf).matrix("obs", "var", "X").save(tmp_path / "x.h5ad", block_bytes=1)
    assert anndata.read_h5ad(tmp_path / "x.h5ad").X.max() == -1


def sparse_daf() -> DafWriter:
    """Return a data set with a sparse and a dense matrix."""
    daf = data_set(cell=50, gene=12)
    values = sp.random_array((50, 12), density=0.4, rng=np.random.default_rng(0), format="csc")
    daf.set_matrix("cell", "gene", "s", values)
    daf.set_matrix("cell", "gene", "d", np.round(values.toarray() * 10).astype(np.int32))
    daf.set_matrix("cell", "gene", "t", values.toarray() > 0.5)
    return daf


TABLES = sparse_daf()


ROWS: list[Any] = [None, [3, 3, 40, 1, 0], range(10, 30)]


@pytest.mark.parametrize(
    ("suffix", "name", "rows"),
    [
        (suffix, name, ROWS[(place + other) % 3])
        for place, suffix in enumerate(["parquet", "arrow", "csv", "tsv", "csv.gz"])
        for other, name in enumerate(["s", "d", "t"])
    ],
)
def test_tables(tmp_path: Path, counted: list[int], suffix: str, name: str, rows: Any) -> None:
    """The rows are those of one write, in the same order; text is the same to the byte."""
    db = connect(TABLES)
    paths = [tmp_path / f"{how}.{suffix}" for how in ("whole", "blocks")]
    db.matrix("cell", "gene", name, rows=rows).save(paths[0])
    part = db.matrix("cell", "gene", name, rows=rows)
    part.save(paths[1], block_bytes=30)
    assert len(counted) > 2
    if suffix in ("parquet", "arrow"):
        expected = part.to_arrow()
        for path in paths:
            found = (
                pq.read_table(path) if suffix == "parquet" else pa.ipc.open_file(path).read_all()
            )
            assert found.to_pylist() == expected.to_pylist()
            assert found.schema.field("value") == expected.schema.field("value")
            assert pa.types.is_dictionary(found.schema.field("cell").type)
    else:
        assert len(counted) == -(-part.shape[0] // (2 if name == "t" else 1))
        assert paths[1].read_bytes() == paths[0].read_bytes()


def tree(path: Path) -> dict[Path, bytes]:
    """Return the bytes of a file, or of the files of a directory."""
    return {p: p.read_bytes() for p in (path, *path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("suffix", ["h5ad", "zarr", "parquet", "arrow", "csv"])
def test_a_failed_save_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """A block that cannot be read half-way leaves the old file, and nothing beside it."""
    path = tmp_path / f"x.{suffix}"
    db = connect(TABLES)
    db.matrix("cell", "gene", "d", rows=[1]).save(path)
    before = tree(path)
    calls: list[int] = []
    read_whole = seams.real(seams.READ_WHOLE)

    def fail(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise errors.CorruptDataError("damaged")
        return read_whole(*arguments)

    monkeypatch.setattr(seams.READ_WHOLE, fail)
    with pytest.raises(errors.CorruptDataError, match="damaged"):
        db.matrix("cell", "gene", "s").save(path, block_bytes=100)
    assert tree(path) == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suffix", ["h5ad", "zarr", "parquet", "arrow"])
@pytest.mark.parametrize("block_bytes", [0, 100, 10_000_000])
def test_provenance(tmp_path: Path, suffix: str, block_bytes: int) -> None:
    """What is written in blocks says where it comes from, and so do Zarr directories."""
    db = connect(TABLES)
    for is_said in (True, False):
        part = db.matrix("cell", "gene", "s", rows=range(40))
        part.save(tmp_path / f"x.{suffix}", block_bytes=block_bytes, provenance=is_said)
        expected = part.provenance() if is_said else None
        assert provenance(tmp_path / f"x.{suffix}") == expected


def test_a_directory_of_an_anndata_is_replaced(tmp_path: Path) -> None:
    """An older one, and an empty directory."""
    part = connect(TABLES).matrix("cell", "gene", "d", rows=[1])
    (tmp_path / "x.zarr").mkdir()
    part.save(tmp_path / "x.zarr")
    part.save(tmp_path / "x.zarr")
    assert anndata.read_zarr(tmp_path / "x.zarr").shape == (1, 12)
