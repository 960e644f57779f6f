"""Tests of Cell Ranger's HDF5 files in place and imported, beside scanpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scanpy
import scipy.sparse as sp

import daf_query
import daf_storage
from daf_storage import errors

SYMBOLS = ["CD8A", "CD3D", "CD8A", "GNLY", "CD4"]
IDS = [f"ENSG{number}" for number in range(5)]


def _counts(seed: int = 0) -> sp.csc_array:
    """Return features x barcodes, as Cell Ranger has them."""
    random = np.random.default_rng(seed)
    return sp.csc_array(
        sp.random(5, 12, density=0.4, random_state=random, format="csc") * 10
    ).astype(np.int32)


def _write_matrix(group: Any, counts: sp.csc_array, index_type: type = np.int64) -> None:
    for name, values in (
        ("data", counts.data),
        ("indices", counts.indices.astype(index_type)),
        ("indptr", counts.indptr.astype(index_type)),
        ("shape", np.array(counts.shape, np.int32)),
        ("barcodes", np.array([f"AAAC{number}-1" for number in range(counts.shape[1])], "S")),
    ):
        group.create_dataset(name, data=values, chunks=True, compression="gzip")


def _write(path: Path, **changes: Any) -> Path:
    """Write a file of Cell Ranger 3: features of two types and two genomes, and lists of probes."""
    with h5py.File(path, "w") as file:
        matrix = file.create_group("matrix")
        _write_matrix(matrix, _counts())
        matrix["filtered_barcodes"] = np.arange(12) % 2 == 0
        features = matrix.create_group("features")
        lists = {
            "id": IDS,
            "name": SYMBOLS,
            "feature_type": ["Gene Expression"] * 4 + ["Antibody Capture"],
            "genome": ["GRCh38", "GRCh38", "mm10", "mm10", ""],
            "_all_tag_keys": ["genome"],
        } | changes
        for name, values in lists.items():
            features[name] = np.array(values, "S")
        features["filtered_probes"] = np.arange(5) > 2
        features.create_group("target_sets")["all"] = np.arange(5)
    return path


def _write_old(path: Path, *genomes: str) -> Path:
    """Write a file of Cell Ranger 2, with a group for each genome."""
    with h5py.File(path, "w") as file:
        for seed, genome in enumerate(genomes):
            group = file.create_group(genome)
            _write_matrix(group, _counts(seed))
            group["genes"] = np.array(IDS, "S")
            group["gene_names"] = np.array(SYMBOLS, "S")
    return path


def _check(daf: daf_storage.DafReader, expected: Any) -> None:
    """Compare a data set with what scanpy reads."""
    assert daf.axis_entries("obs").tolist() == expected.obs_names.tolist()
    assert daf.axis_entries("var").tolist() == expected.var["gene_ids"].tolist()
    assert daf.get_np_vector("var", "gene_symbols").tolist() == expected.var_names.tolist()
    for name in set(expected.var) - {"gene_ids"}:
        assert daf.get_np_vector("var", name).tolist() == expected.var[name].tolist()
    for name in expected.obs:
        assert daf.get_np_vector("obs", name).tolist() == expected.obs[name].tolist()
    assert np.array_equal(daf.get_np_matrix("obs", "var", "X").toarray(), expected.X.toarray())


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
@pytest.mark.parametrize("is_old", [False, True])
def test_a_file_is_what_scanpy_reads(tmp_path: Path, *, is_old: bool) -> None:
    """In place, and imported: barcodes, ids, symbols, types, lists of probes and counts."""
    path = tmp_path / "filtered_feature_bc_matrix.h5"
    path = _write_old(path, "hg19") if is_old else _write(path)
    expected = scanpy.read_10x_h5(path, gex_only=False)
    with daf_storage.open_daf(path) as daf:
        _check(daf, expected)
    daf_storage.import_h5ad(path, tmp_path / "x.daf.zarr")
    with daf_storage.open_daf(tmp_path / "x.daf.zarr") as daf:
        _check(daf, expected)
        assert daf.get_np_matrix("var", "obs", "X").shape == (5, 12)


PEAKS = ["chr1:9772-10660", "chr1:180712-181178", "KI270728.1:231300-232176"]


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_genes_and_peaks_of_one_file(tmp_path: Path) -> None:
    """Cell Ranger ARC: a peak is its own id, name and interval; a gene without a place has NA."""
    path = _write(
        tmp_path / "filtered_feature_bc_matrix.h5",
        id=[*IDS[:2], *PEAKS],
        name=["CD8A", "CD3D", *PEAKS],
        feature_type=["Gene Expression"] * 2 + ["Peaks"] * 3,
        genome=["GRCh38"] * 5,
        interval=["chr2:86784604-86808396", "NA", *PEAKS],
        _all_tag_keys=["genome", "interval"],
    )
    with h5py.File(path, "r+") as file:
        del file["matrix/filtered_barcodes"], file["matrix/features/filtered_probes"]
    expected = scanpy.read_10x_h5(path, gex_only=False)
    with daf_storage.open_daf(path) as daf:
        _check(daf, expected)
        assert daf.vectors_set("var") == set(expected.var) - {"gene_ids"} | {"gene_symbols"}
    daf_storage.import_h5ad(path, tmp_path / "x.daf.zarr")
    query = "SELECT name FROM obs WHERE X['CD8A'] > 0 OR X['chr1:9772-10660'] > 0"
    counts = expected.X.toarray()
    for each in (path, tmp_path / "x.daf.zarr"):
        with daf_query.connect(each) as db:
            found = db.sql(query).to_pydict()["name"]
            assert found == expected.obs_names[(counts[:, 0] > 0) | (counts[:, 2] > 0)].tolist()
            peaks = db.matrix("obs", "var", "X", columns="feature_types = 'Peaks'").to_anndata()
            assert peaks.var["interval"].tolist() == PEAKS
            assert np.array_equal(peaks.X.toarray(), counts[:, 2:])


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_one_of_several_genomes_is_named(tmp_path: Path) -> None:
    """Each is a data set of its own; the file itself is an error that says so."""
    path = _write_old(tmp_path / "filtered_gene_bc_matrices_h5.h5", "hg19", "mm10")
    for genome in ("hg19", "mm10"):
        with daf_storage.open_daf(f"{path}#/{genome}") as daf:
            _check(daf, scanpy.read_10x_h5(path, genome=genome))
    with pytest.raises(
        errors.NotADafError, match=r"2 genomes, hg19, mm10; open one of them: .*#/hg19"
    ):
        daf_storage.open_daf(path)


def test_a_gene_is_found_by_a_symbol_that_is_unique(tmp_path: Path) -> None:
    """Of a symbol that several features have, the error names their ids."""
    path = _write(tmp_path / "x.h5")
    with daf_query.connect(path) as db:
        rows = db.sql("SELECT X['GNLY'] = X['ENSG3'] AS same FROM obs").to_pydict()["same"]
        assert rows == [True] * 12
        with pytest.raises(
            errors.DafError,
            match="2 entries of axis 'var' have the gene_symbols 'CD8A'; write one of ENSG0, ENSG2",
        ):
            db.sql("SELECT X['CD8A'] FROM obs").to_pydict()
        with pytest.raises(errors.EntryNotFoundError, match="no entry 'GNLX'"):
            db.sql("SELECT X['GNLX'] FROM obs").to_pydict()


@pytest.mark.parametrize("mode", ["r+", "w", "w+"])
def test_it_is_never_written(tmp_path: Path, mode: Any) -> None:
    """A mode that writes is refused, and the file stays."""
    path = _write(tmp_path / "x.h5")
    before = path.read_bytes()
    with pytest.raises(errors.DafError):
        daf_storage.open_daf(path, mode)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda matrix: matrix.__delitem__("shape"), "not a daf data set"),
        (
            lambda matrix: matrix["shape"].__setitem__(1, 11),
            r"the shape \[5, 11\], and 12 barcodes",
        ),
        (lambda matrix: matrix["shape"].__setitem__(0, 6), "its axes have 12 and 5 entries"),
        (lambda matrix: matrix["features"].__delitem__("id"), "index .* is missing"),
        (lambda matrix: matrix["indices"].__setitem__(0, 77), "X|indices|row"),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, damage: Any, message: str) -> None:
    """Not a traceback of h5py, and no wrong counts."""
    path = _write(tmp_path / "x.h5")
    with h5py.File(path, "r+") as file:
        damage(file["matrix"])
    with pytest.raises(errors.DafError, match=message), daf_storage.open_daf(path) as daf:
        daf.get_np_matrix("obs", "var", "X")
