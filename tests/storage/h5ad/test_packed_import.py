"""Tests of imports that are packed, with narrow indices, and with counts as whole numbers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

import daf_storage
from daf_query import connect
from daf_query.cli import main
from daf_storage import (
    MemoryDaf,
    Packing,
    convert,
    errors,
    from_anndata,
    import_h5ad,
    open_daf,
    verify,
)
from daf_storage.h5ad import export_h5ad
from daf_storage.trees import ChunkedArray
from tests.limits import lower
from tests.support import data_set, recorded_calls

CELLS, GENES = 3000, 40


@pytest.fixture(scope="module")
def counts() -> sp.csr_array:
    """Whole numbers as floats, of which some columns are empty."""
    rng = np.random.default_rng(3)
    dense = rng.poisson(rng.gamma(0.3, 3, GENES), (CELLS, GENES)).astype(np.float32)
    return sp.csr_array(dense)


@pytest.fixture(scope="module")
def h5ad(counts: sp.csr_array, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an AnnData with counts, fractions and a dense layer."""
    path = tmp_path_factory.mktemp("packed") / "x.h5ad"
    half = counts.copy()
    half.data = half.data / 2
    adata = anndata.AnnData(sp.csr_matrix(counts))
    adata.layers["half"] = sp.csc_matrix(half)
    adata.layers["dense"] = counts.toarray()
    adata.obs["age"] = np.arange(CELLS) % 90
    adata.write_h5ad(path)
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("x.daf.zarr", Packing("blosc-zstd-shuffle", chunk_kb=8)),
        ("x.daf.zarr.zip", True),
        ("x.h5df", Packing("gzip")),
    ],
)
def test_what_was_imported_packed_is_exported_as_it_was(
    tmp_path: Path, h5ad: Path, counts: sp.csr_array, name: str, packed: Any
) -> None:
    """Types, sparse formats and values are those of the file; slices have the type stored."""
    types: Any = {"X": "uint16", "dense": "uint8"}
    import_h5ad(h5ad, tmp_path / name, packed=packed, counts_as=types, progress="never")
    with open_daf(tmp_path / name) as daf:
        for axes in (("obs", "var"), ("var", "obs")):
            matrix = daf.open_matrix(*axes, "X")
            assert str(matrix.info.storage_type.dtype) == "uint16"
            for part in ("rowval", "colptr"):
                info = matrix.arrays()[part].info
                assert info.storage_type.value == "UInt16"
            assert not matrix.arrays()["rowval"].info.is_mappable
        assert str(daf.get_np_matrix("obs", "var", "dense").dtype) == "uint8"
        picked = connect(daf).matrix("obs", "var", "X", rows="age >= 88")
        assert picked.to_scipy().dtype == np.uint16
        rows = np.flatnonzero(np.arange(CELLS) % 90 >= 88)
        assert np.array_equal(picked.to_scipy().toarray(), counts.toarray()[rows])
        assert picked.to_anndata().X.dtype == np.float32
        export_h5ad(daf, tmp_path / "back.h5ad", progress="never")
    assert verify(tmp_path / name) == []
    back = anndata.read_h5ad(tmp_path / "back.h5ad")
    expected = anndata.read_h5ad(h5ad)
    for uns in ("obs_is", "var_is", "X_is"):
        back.uns.pop(uns, None)
    assert_equal(back, expected, exact=True)
    assert back.X.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "packed", "chunk_bytes"),
    [
        (["--packed"], True, 64 << 10),
        (["--codec", "gzip"], Packing("gzip", chunk_kb=64), 64 << 10),
        (["--codec", "gzip", "--chunk-kb", "8"], Packing("gzip"), 8 << 10),
    ],
)
def test_chunks_of_an_import(
    tmp_path: Path, h5ad: Path, options: list[str], packed: Any, chunk_bytes: int
) -> None:
    """They have 64 KiB unless something else is asked for; by command and in Python alike."""
    main(["import", str(h5ad), str(tmp_path / "a.daf.zarr"), "--quiet", *options])
    import_h5ad(h5ad, tmp_path / "b.daf.zarr", packed=packed, progress="never")
    for name in ("a", "b"):
        with open_daf(tmp_path / f"{name}.daf.zarr") as daf:
            info = daf.open_matrix("var", "obs", "X").arrays()["nzval"].info
            assert info.chunks == (min(chunk_bytes // 4, info.shape[0]),)


NO_COUNTS = [(value, "f4") for value in (-1, 0.5, np.nan, np.inf, 65_536, 2.0**32, -0.0)]


@pytest.mark.parametrize(("value", "dtype"), [*NO_COUNTS, (-1, "i2"), (-1, "i8"), (65_536, "u4")])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, np.asarray])
def test_what_is_no_count_is_refused(value: float, dtype: str, form: Any) -> None:
    """With its row and its column, and nothing is left of the import."""
    dense = np.ones((3, 4), dtype)
    dense[1, 2] = 7
    matrix = form(dense)
    if sp.issparse(matrix):
        matrix.data[matrix.data == 7] = value
    else:
        matrix[1, 2] = value
    adata = anndata.AnnData(matrix)
    daf = MemoryDaf(name="no counts")
    with pytest.raises(
        errors.UnsupportedInputError, match="of row '1' and column '2' is no uint16"
    ):
        from_anndata(adata, daf, counts_as="uint16")
    assert daf.axes_set() == set()


@pytest.mark.parametrize("n_genes", [65_534, 65_535, 65_536, 65_537])
def test_indices_have_the_narrowest_type_that_counts_from_1(n_genes: int) -> None:
    """The last gene has the number of genes; both arrays of a layout have one type."""
    places: npt.NDArray[np.int64] = np.array(
        [0, n_genes - 1, 5, 2]
    )  # the second cell's do not ascend
    matrix = sp.csr_array((np.array([1, 2, 3, 4.0]), places, [0, 2, 4]), shape=(2, n_genes))
    daf = MemoryDaf(packed=Packing(chunk_kb=1))
    from_anndata(anndata.AnnData(matrix), daf, obs_is="cell", var_is="gene")
    stored = daf.open_matrix("gene", "cell", "X")
    kinds = {stored.arrays()[part].info.storage_type.value for part in ("colptr", "rowval")}
    assert kinds == {"UInt16" if n_genes <= 65_535 else "UInt32"}
    assert (daf.get_np_matrix("cell", "gene", "X") != matrix).nnz == 0
    found = connect(daf).matrix("cell", "gene", "X", columns=[f"{n_genes - 1}", "2"]).to_numpy()
    assert found.tolist() == [[2, 0], [0, 4]]


def test_a_slice_decodes_only_its_chunks(
    tmp_path: Path, h5ad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of values and of indices that hold the rows, each once, and none the second time."""
    path = tmp_path / "x.daf.zarr"
    packed = Packing(chunk_kb=8)
    import_h5ad(h5ad, path, packed=packed, counts_as="uint16", progress="never")
    time.sleep(0.15)  # of younger files, nothing is remembered
    with open_daf(path) as daf:
        stored = daf.open_matrix("var", "obs", "X")
        colptr = stored.colptr()
        session = connect(daf)
        decoded = recorded_calls(
            monkeypatch,
            (ChunkedArray, "decode"),
            lambda array, at, _: (array.what.rpartition("/")[2], at),
        )
        rows = [0, 1, CELLS - 1]
        session.matrix("obs", "var", "X", rows=rows).to_scipy()
        per_chunk = 8192 // 2
        needed = {
            (n,)
            for row in rows
            for n in range(int(colptr[row]) // per_chunk, -(-int(colptr[row + 1]) // per_chunk))
        }
        for part in ("rowval", "nzval"):
            assert sorted(p for what, p in decoded if what == part) == sorted(needed)
        decoded.clear()
        session.matrix("obs", "var", "X", rows=rows).to_scipy()
        assert not [what for what, _ in decoded if what in ("rowval", "nzval")]


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_a_copy_refuses_what_is_no_count(tmp_path: Path, form: str) -> None:
    """With its row and its column; there is no copy then."""
    values = np.zeros((3, 4), np.float32)
    values[1, 2] = 0.5
    matrix: Any = sp.csc_array(values) if form == "sparse" else values
    with open_daf(tmp_path / "x.daf.zarr", "w") as daf:
        data_set(
            daf, cell=list("abc"), gene=list("efgh"), matrices={("cell", "gene", "UMIs"): matrix}
        )
    source, copy = tmp_path / "x.daf.zarr", tmp_path / "y.daf.zarr"
    refused = r"value 0\.5 of row '(b|g)' and column '(g|b)' is no uint8"
    with pytest.raises(errors.UnsupportedInputError, match=refused):
        convert(source, copy, counts_as={"UMIs": "uint8"}, progress="never")
    with pytest.raises(errors.MatrixNotFoundError, match="there is no matrix 'X' to store"):
        convert(source, copy, counts_as="uint8", progress="never")
    assert not copy.exists()


def test_copies_have_counts_as_whole_numbers(
    tmp_path: Path, h5ad: Path, counts: sp.csr_array, capsys: pytest.CaptureFixture[str]
) -> None:
    """In both layouts, also by commands; exports have the types of the file that was imported."""
    flat, packed, small, copy, refused = (tmp_path / f"{n}.daf.zarr" for n in range(5))
    import_h5ad(h5ad, flat, progress="never")
    types: Any = {"X": "uint16", "dense": "uint32"}
    convert(flat, packed, packed=True, counts_as=types, progress="never")
    options = ["--codec", "blosc-zstd-shuffle", "--chunk-kb", "16", "--counts-as", "uint16"]
    assert main(["import", str(h5ad), str(small), "--quiet", *options]) == 0
    assert main(["convert", str(small), str(copy), "--quiet", "--counts-as", "X=uint32"]) == 0
    for path, kinds in (
        (packed, ["UInt16", "UInt32"]),
        (small, ["UInt16", "Float32"]),
        (copy, ["UInt32", "Float32"]),
    ):
        with open_daf(path) as daf:
            for axes in (("obs", "var"), ("var", "obs")):
                infos = [daf.open_matrix(*axes, name).info for name in ("X", "dense")]
                assert [info.storage_type.value for info in infos] == kinds
            assert (sp.csr_array(daf.get_np_matrix("obs", "var", "X")) != counts).nnz == 0
            assert np.array_equal(daf.get_np_matrix("obs", "var", "dense"), counts.toarray())
            back = daf_storage.to_anndata(daf)
        assert (back.X.dtype, back.layers["dense"].dtype) == (np.float32, np.float32)
        assert_equal(back.X, sp.csr_matrix(counts), exact=True)
    assert main(["import", str(h5ad), str(refused), "--counts-as", "half=uint16"]) != 0
    assert "is no uint16, so the matrix is not stored as counts" in capsys.readouterr().err
    assert not refused.exists()


def test_what_is_packed_is_transposed_in_ranges(
    tmp_path: Path, h5ad: Path, counts: sp.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large matrix the first layout is never in memory as a whole."""
    lower(monkeypatch, held_part=1 << 40)
    lower(monkeypatch, transposed_elements=1 << 13)
    ranges: list[int] = []
    read_rows = ChunkedArray.read_rows

    def reading(self: Any, span: Any) -> Any:
        if self.info.size == counts.nnz:
            ranges.append(span.size)
        return read_rows(self, span)

    monkeypatch.setattr(ChunkedArray, "read_rows", reading)
    import_h5ad(h5ad, tmp_path / "x.daf.zarr", packed=True, progress="never")
    monkeypatch.undo()
    assert ranges
    assert max(ranges) <= 1 << 13 < counts.nnz
    with open_daf(tmp_path / "x.daf.zarr") as daf:
        by_genes: Any = daf.get_np_matrix("obs", "var", "X")
        assert abs(by_genes - counts).nnz == 0


def test_what_is_mapped_is_not_decoded(tmp_path: Path, h5ad: Path, counts: sp.csr_array) -> None:
    """Mapped numbers take no memory, packed ones their size."""
    import_h5ad(h5ad, tmp_path / "flat.daf.zarr", progress="never")
    import_h5ad(h5ad, tmp_path / "packed.daf.zarr", packed=True, progress="never")
    with open_daf(tmp_path / "flat.daf.zarr") as flat:
        assert flat.open_matrix("var", "obs", "X").decoded_bytes() == 0
    with open_daf(tmp_path / "packed.daf.zarr") as packed:
        found = packed.open_matrix("var", "obs", "X").decoded_bytes()
        assert found - counts.nnz * (2 + 4) in (0, 2 * (CELLS + 1))
