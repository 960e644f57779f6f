"""Files of other years and other programs, in place: as an import of them."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from anndata.tests.helpers import assert_equal

from daf_storage import MemoryDaf, errors, import_h5ad, open_daf, to_anndata
from tests.storage.anndata.test_tree import assert_same
from tests.storage.h5ad.test_old_h5ad import (
    CELLS,
    of_0_6,
    of_0_6_sparse,
    of_0_7,
    table,
    with_byte_names,
    without_attributes,
)


@pytest.mark.parametrize(
    "write_file", [of_0_6, of_0_6_sparse, of_0_7, with_byte_names, without_attributes]
)
def test_what_an_import_reads(tmp_path: Path, write_file: Callable[[Any], None]) -> None:
    """Properties and notes are the same."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        write_file(file)
    imported = MemoryDaf()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_h5ad(tmp_path / "old.h5ad", imported, progress="never")
    with open_daf(tmp_path / "old.h5ad") as attached:
        assert_same(attached, imported)
        ours, theirs = (json.loads(daf.get_scalar("anndata_notes")) for daf in (attached, imported))
        for notes in (ours, theirs):
            notes["uns"] = sorted(map(json.dumps, notes["uns"]))
        assert ours == theirs
        assert_equal(to_anndata(attached), to_anndata(imported))


def test_one_is_opened_without_anndata(tmp_path: Path) -> None:
    """A package that takes longer to import than everything else does not open a file of 0.6."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        of_0_6_sparse(file)
    code = """import sys, daf_storage
daf = daf_storage.open_daf(sys.argv[1])
print(daf.get_np_vector("obs", "kind").tolist(), daf.summary().axes[0].length)
assert not {"anndata", "scipy.sparse"} & sys.modules.keys()"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "old.h5ad"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['T', 'B', 'T'] 3\n"


def test_records_that_are_damaged(tmp_path: Path) -> None:
    """The error names the file and the frame."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        of_0_6(file)
        del file["obs"]
        file["obs"] = table(index=[b"\xe9", b"a", b"b"])
    with pytest.raises(errors.CorruptDataError, match=r"old\.h5ad: obs cannot be read"):
        open_daf(tmp_path / "old.h5ad")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("uns/kind_categories", np.array([b"T", b"T"])),
        ("uns/number_categories", np.array([b"T", b"B"])),
        ("obs", np.arange(3)),
        ("obs", table(index=[b"a", b"b", b"c"], wide=np.ones((3, 2)))),
    ],
)
def test_frames_that_cannot_be(tmp_path: Path, path: str, value: Any) -> None:
    """Categories twice, codes of none, and records that are no columns are errors of the file."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        of_0_6(file)
        del file["obs"]
        codes = np.array([0, 1, 0], "i1")
        file["obs"] = table(index=[b"a", b"b", b"c"], kind=codes, number=codes - 2)
        if path in file:
            del file[path]
        file[path] = value
    with pytest.raises(errors.CorruptDataError, match=rf"old\.h5ad: {path} cannot be read"):
        open_daf(tmp_path / "old.h5ad")


def test_what_is_called_as_categories(tmp_path: Path) -> None:
    """A group of that name stays in uns; categories may have any shape."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        of_0_6(file)
        del file["uns/kind_categories"]
        file["uns/kind_categories"] = np.array([[b"T", b"B"]])
        file["uns/n_categories/deep"] = 1
        del file["obs"]
        codes = np.array([0, 1, 0], "i1")
        file["obs"] = table(index=[b"a", b"b", b"c"], kind=codes, n=codes)
    with open_daf(tmp_path / "old.h5ad") as daf:
        adata = to_anndata(daf)
        assert adata.obs["kind"].tolist() == ["T", "B", "T"]
        assert adata.obs["n"].tolist() == [0, 1, 0]
        assert adata.uns["n_categories"]["deep"] == 1


def test_byte_strings_in_columns(tmp_path: Path) -> None:
    """They are text; those that are not UTF-8 are an error of that column, or of the names."""
    with h5py.File(tmp_path / "bytes.h5ad", "w") as file:
        with_byte_names(file)
        for column, values in (("t", CELLS), ("latin", [b"\xe9", b"a", b"b"])):
            file["obs"][column] = np.array(values)
        file["obs"].attrs["column-order"] = ["n", "t", "latin"]
    with open_daf(tmp_path / "bytes.h5ad") as daf:
        assert daf.get_np_vector("obs", "t").tolist() == [name.decode() for name in CELLS]
        with pytest.raises(errors.CorruptDataError, match="latin"):
            daf.get_np_vector("obs", "latin")
