"""Tests of the import of Matrix Market folders, beside scanpy."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import scanpy

import daf_storage
from daf_query.cli import main
from daf_storage import errors

FEATURES = (
    "ENSG1\tCD8A\tGene Expression\nENSG2\tCD3D\tGene Expression\nENSG3\tCD8A\tAntibody Capture\n"
)
BARCODES = "AAAC-1\nAAAG-1\nTTTG-1\nTTTT-1\n"
ELEMENTS = "1 1 5\n3 1 2\n2 2 7\n1 4 1\n3 4 9\n"
HEAD = "%%MatrixMarket matrix coordinate integer general\n%metadata\n"


def _folder(
    path: Path,
    *,
    elements: str = ELEMENTS,
    sizes: str = "3 4 5",
    features: str = FEATURES,
    prefix: str = "",
    is_old: bool = False,
    old: str = "",
    new: str = "",
) -> Path:
    """Write a folder, gzipped as those of Cell Ranger 3 are, or plain; with other text in places."""
    path.mkdir(exist_ok=True)
    contents = {
        "matrix.mtx": f"{HEAD}{sizes}\n{elements}",
        "barcodes.tsv": BARCODES,
        "genes.tsv" if is_old else "features.tsv": features,
    }
    for name, content in contents.items():
        changed = content.replace(old, new) if old else content
        if is_old:
            (path / f"{prefix}{name}").write_text(changed)
        else:
            (path / f"{prefix}{name}.gz").write_bytes(gzip.compress(changed.encode()))
    return path


def _imported(folder: Path, **options: object) -> daf_storage.DafReader:
    path = folder.parent / "x.daf.zarr"
    daf_storage.import_10x_mtx(folder, path, if_exists="replace", **options)  # type: ignore[arg-type]
    return daf_storage.open_daf(path)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_folder_is_what_scanpy_reads(tmp_path: Path, *, is_old: bool) -> None:
    """Barcodes, ids, symbols, types and counts, of Cell Ranger 2 and 3."""
    features = re.sub(r"\t[^\t]*\n", "\n", FEATURES) if is_old else FEATURES
    folder = _folder(tmp_path / "run", is_old=is_old, features=features)
    expected = scanpy.read_10x_mtx(folder, var_names="gene_ids", gex_only=False)
    daf = _imported(folder)
    assert daf.axis_entries("obs").tolist() == expected.obs_names.tolist()
    assert daf.axis_entries("var").tolist() == expected.var_names.tolist()
    assert daf.vectors_set("var") == set(expected.var.columns)
    for name in expected.var:
        assert daf.get_np_vector("var", name).tolist() == expected.var[name].tolist()
    for axes in (("obs", "var"), ("var", "obs")):
        matrix = daf.get_np_matrix(*axes, "X")
        transposed = matrix if axes[0] == "obs" else matrix.T
        assert np.array_equal(transposed.toarray(), expected.X.toarray())


@pytest.mark.parametrize(
    "elements",
    [
        "3 4 9\n2 2 7\n1 1 5\n1 4 1\n3 1 2\n",
        "3 1 2\n1 1 5\n2 2 7\n1 4 1\n3 4 9\n",
        "1 1 5\n2 2 0.7e1\n3\t1  2\n1 4 1\n3 4 9.0\n",
    ],
)
def test_elements_in_any_order_are_sorted(tmp_path: Path, elements: str) -> None:
    """Also where only the features of one barcode are out of order, and numbers are written as R does."""
    daf = _imported(_folder(tmp_path / "run", elements=elements))
    expected = [[5, 0, 2], [0, 7, 0], [0, 0, 0], [1, 0, 9]]
    assert daf.get_np_matrix("obs", "var", "X").toarray().tolist() == expected
    assert daf.get_np_matrix("var", "obs", "X").indices.tolist() == [0, 2, 1, 0, 2]


def test_fractions_and_no_elements(tmp_path: Path) -> None:
    """Real numbers have 64 bits; a folder of nothing is a matrix of zeros."""
    daf = _imported(
        _folder(tmp_path / "run", old="integer", new="real"), var_is="gene", X_is="UMIs"
    )
    assert daf.get_np_matrix("obs", "gene", "UMIs").dtype == np.float64
    daf = _imported(_folder(tmp_path / "none", elements="", sizes="3 4 0"))
    assert daf.get_np_matrix("obs", "var", "X").toarray().tolist() == [[0] * 3] * 4


@pytest.mark.parametrize("is_old", [False, True])
def test_no_barcodes_are_an_empty_axis(tmp_path: Path, *, is_old: bool) -> None:
    """Arrow calls an empty file no table; of a matrix with barcodes it is an error."""
    folder = _folder(
        tmp_path / "run", is_old=is_old, old=BARCODES, new="", sizes="3 0 0", elements=""
    )
    daf = _imported(folder)
    assert daf.axis_entries("var").tolist() == ["ENSG1", "ENSG2", "ENSG3"]
    assert daf.get_np_matrix("obs", "var", "X").shape == (0, 3)
    assert daf_storage.verify(folder.parent / "x.daf.zarr") == []
    _folder(folder, is_old=is_old, old=BARCODES, new="")
    with pytest.raises(errors.FormatError, match="4 columns, but barcodes.tsv.* has 0 lines"):
        _imported(folder)


def test_one_of_several_matrices_is_chosen_by_its_prefix(tmp_path: Path) -> None:
    """As GEO has the samples of a study in one folder."""
    _folder(tmp_path / "study", prefix="GSM1_")
    study = _folder(tmp_path / "study", prefix="GSM2_", elements="1 1 8\n", sizes="3 4 1")
    with pytest.raises(
        errors.InvalidInputError, match="2 matrices; pass prefix=, one of 'GSM1_', 'GSM2_'"
    ):
        _imported(study)
    assert _imported(study, prefix="GSM2_").get_np_matrix("obs", "var", "X").nnz == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3 4 5", "3 4 6", "a damaged one: Truncated file. Expected another 1 lines"),
        ("3 4 5", "3 4 4", "Line 8: Too many lines in file"),
        ("3 4 5", "4 4 5", "has 4 rows, but features.tsv.gz has 3 lines"),
        ("3 4 5", "3 5 5", "has 5 columns, but barcodes.tsv.gz has 4 lines"),
        ("3 4 5", "3 4", "it is no Matrix Market file"),
        ("2 2 7", "4 2 7", "Line 6: Row index out of bounds"),
        ("2 2 7", "0 2 7", "Line 6: Row index out of bounds"),
        ("2 2 7", "2 5 7", "Line 6: Column index out of bounds"),
        ("2 2 7", "9999999999 2 7", "Line 6: Integer out of range"),
        ("2 2 7", "2 2 x", "b'x' in a number"),
        ("2 2 7", "2 2 3000000000", "an element is 3000000000.0, which is no integer of 32 bits"),
        ("2 2 7", "2 2 1.5", "its first line says integer, but an element is 1.5"),
        ("2 2 7", "2 2", "Line 6: Invalid"),
        ("2 2 7", "2 2 7,5", "b',' in a number"),
        ("2 2 7", "2 2 1d2", "b'd' in a number"),
        ("2 2 7", "2 2 7\0", "in a number"),
        ("2 2 7", "1 1 2147483647", "an element is 2147483652.0, which is no integer of 32 bits"),
        ("3 4 5", "3 4 99999999999999", "Unable to allocate"),
        ("integer", "pattern", "its first line says 'coordinate pattern general'"),
        ("general", "symmetric", "says 'coordinate integer symmetric'"),
        ("%%MatrixMarket", "%", "it is no Matrix Market file"),
        ("ENSG2", "ENSG1", "'ENSG1' occurs more than once"),
        ("\tCD3D", "", "no table of tab-separated names"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_so(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """Nothing is left at the destination."""
    folder = _folder(tmp_path / "run", old=old, new=new)
    with pytest.raises(errors.DafError, match=message):
        _imported(folder)
    assert not (tmp_path / "x.daf.zarr").exists()


@pytest.mark.parametrize("stop", [12, -20, None], ids=["at its head", "at its end", "within"])
def test_a_file_that_was_cut_is_damaged(tmp_path: Path, stop: int | None) -> None:
    """A download that broke off: neither an endless wait nor a part of the counts."""
    folder = _folder(tmp_path / "run")
    matrix = folder / "matrix.mtx.gz"
    packed = matrix.read_bytes()[:stop]
    matrix.write_bytes(packed if stop else packed[:10] + b"\xff" + packed[11:])
    with pytest.raises(errors.CorruptDataError, match="matrix.mtx.gz: it cannot be read"):
        _imported(folder)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """With what is there instead."""
    folder = _folder(tmp_path / "run")
    (folder / "barcodes.tsv.gz").unlink()
    with pytest.raises(
        errors.SourceNotFoundError,
        match=r"no barcodes.tsv or barcodes.tsv.gz; it has features.tsv.gz, matrix",
    ):
        _imported(folder)
    with pytest.raises(errors.SourceNotFoundError, match="no such directory"):
        _imported(tmp_path / "nothing")


def test_the_command_line_imports_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options that are for an AnnData are refused."""
    folder, path = _folder(tmp_path / "run"), tmp_path / "x.daf.zarr"
    assert main(["import", str(folder), str(path), "--obs-is", "cell", "--packed"]) == 0
    assert "4 cell x 3 var" in capsys.readouterr().out
    assert daf_storage.open_daf(path).get_np_matrix("cell", "var", "X").nnz == 5
    assert main(["import", str(folder), str(path), "--strict", "--overwrite"]) == 1
    assert "are for an AnnData; leave them out" in capsys.readouterr().err
    assert main(["import", str(tmp_path), str(path), "--overwrite"]) == 1
    assert "there is no matrix.mtx or matrix.mtx.gz" in capsys.readouterr().err
