"""Tests of data sets in a Zarr directory: modes, names, bytes, and zarr-python's view of them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from daf_storage import OpenMode, ZarrDaf, errors, open_daf
from tests.suites import ChangingDafSuite
from tests.support import (
    CELLS,
    GENES,
    UMIS,
    contents,
    create,
    fill,
    filled,
    mapped_ranges,
    recorded_reads,
    reopen,
)

GOLDEN_CHUNKS = {
    "daf/0": "0100",
    "scalars/organism/0": "01000000 05000000 68756d616e",
    "scalars/n/0": "0700000000000000",
    "axes/cell/0": "03000000 04000000 54415441 04000000 47415441 04000000 43415441",
    "axes/gene/0": "04000000 05000000 5253504f33 05000000 464f584131 04000000 574e5436 "
    "05000000 544e4e4931",
    "vectors/gene/marker/0": "01000100",
    "vectors/gene/flag/nzind/0": "02000000 04000000",
    "matrices/cell/gene/UMIs/0.0": UMIS.astype("<i8").tobytes(order="F").hex(),
    "matrices/cell/gene/sp/colptr/0": "01000000 03000000 06000000 08000000 0a000000",
    "matrices/cell/gene/sp/rowval/0": np.array([2, 3, 1, 2, 3, 1, 2, 1, 3], "<i4").tobytes().hex(),
    "matrices/cell/gene/sp/nzval/0": np.array([1, 2, 1, 2, 3, 2, 3, 3, 1], "<i8").tobytes().hex(),
}
"""The reference data set, chunk by chunk: what every implementation writes for it."""

GOLDEN_GROUPS = [
    *("", "axes", "matrices", "matrices/cell", "matrices/cell/cell", "matrices/cell/gene"),
    *("matrices/cell/gene/sp", "matrices/gene", "matrices/gene/cell", "matrices/gene/gene"),
    *("scalars", "vectors", "vectors/cell", "vectors/gene", "vectors/gene/flag"),
]


class TestZarrDirectory(ChangingDafSuite):
    location = "x.daf.zarr"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_closed_data_set_lets_go_of_its_files(tmp_path: Path, mode: OpenMode) -> None:
    """Of their mappings, though the object is still there."""
    path = tmp_path / "x.daf.zarr"
    with create(path) as written:
        written.add_axis("cell", np.arange(100_000).astype(str))
        written.set_vector("cell", "age", np.arange(100_000.0))
    time.sleep(0.15)  # of a file that is younger, nothing is kept
    chunk = path / "vectors/cell/age/0"
    daf = open_daf(path, mode)
    ages = daf.get_np_vector("cell", "age")
    daf.close()
    assert mapped_ranges(chunk)
    assert ages[-1] == 99_999
    del ages
    assert not mapped_ranges(chunk)


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """Return the path of the reference data set, written by us."""
    path = tmp_path / "golden.daf.zarr"
    daf = create(path)
    daf.add_axis("cell", CELLS)
    daf.add_axis("gene", GENES)
    daf.set_scalar("organism", "human")
    daf.set_scalar("n", 7)
    daf.set_vector("gene", "marker", [True, False, True, False])
    flag = sp.csr_array(np.array([[False, True, False, True]]))
    flag.indices = flag.indices.astype(np.int32)
    daf.set_vector("gene", "flag", flag)
    daf.set_matrix("cell", "gene", "UMIs", UMIS, relayout=False)
    daf.set_matrix("cell", "gene", "sp", sp.csc_array(UMIS), relayout=False)
    return path


def test_the_reference_data_set_is_written_byte_for_byte(golden: Path) -> None:
    """Every chunk, every group, and nothing else."""
    for key, expected in GOLDEN_CHUNKS.items():
        assert (golden / key).read_bytes().hex() == expected.replace(" ", ""), key
    found = {str(p.relative_to(golden)) for p in golden.rglob("*") if p.is_file()}
    groups = {f"{g}/{f}".lstrip("/") for g in GOLDEN_GROUPS for f in (".zgroup", ".zattrs")}
    arrays = {
        f"{key.rsplit('/', 1)[0]}/{f}" for key in GOLDEN_CHUNKS for f in (".zarray", ".zattrs")
    }
    assert found == groups | arrays | set(GOLDEN_CHUNKS) | {".zmetadata"}
    for group in GOLDEN_GROUPS:
        assert (golden / group / ".zgroup").read_bytes() == b'{"zarr_format":2}'
        assert (golden / group / ".zattrs").read_bytes() == b"{}"


def test_array_metadata_have_exactly_the_eight_keys(golden: Path) -> None:
    """One chunk, no compressor, no fill value; matrices with their shape reversed."""
    expected: dict[str, Any] = {
        "zarr_format": 2,
        "shape": [4, 3],
        "chunks": [4, 3],
        "dtype": "<i8",
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": None,
    }
    assert json.loads((golden / "matrices/cell/gene/UMIs/.zarray").read_bytes()) == expected
    strings = json.loads((golden / "axes/gene/.zarray").read_bytes())
    assert (strings["dtype"], strings["filters"]) == ("|O", [{"id": "vlen-utf8"}])
    dtypes = {"daf": "|u1", "vectors/gene/marker": "|b1", "scalars/n": "<i8"}
    for path, dtype in dtypes.items():
        assert json.loads((golden / path / ".zarray").read_bytes())["dtype"] == dtype


def test_empty_arrays_have_chunks_of_one_and_no_chunk_file(tmp_path: Path) -> None:
    """The recipe that other implementations can open."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("none", [])
    daf.add_axis("two", ["a", "b"])
    daf.set_matrix("none", "two", "m", sp.csc_array((0, 2)), relayout=False)
    root = tmp_path / "x.daf.zarr"
    document = json.loads((root / "axes/none/.zarray").read_bytes())
    assert (document["shape"], document["chunks"]) == ([0], [1])
    assert not (root / "axes/none/0").exists()
    group = root / "matrices/none/two/m"
    assert (group / "colptr/0").read_bytes() == np.ones(3, np.int32).tobytes()
    assert not (group / "rowval/0").exists()


class TestConsolidatedMetadata:
    def test_it_follows_every_change(self, tmp_path: Path) -> None:
        """After each kind of change it lists just what is there, sorted."""
        path = tmp_path / "x.daf.zarr"
        daf = create(path)
        changes = [
            lambda: fill(daf),
            lambda: daf.set_vector("cell", "age", [1.0, 2.0, 3.0], if_exists="replace"),
            lambda: daf.delete_vector("cell", "age"),
            lambda: daf.delete_matrix("cell", "gene", "UMIs"),
            lambda: daf.delete_scalar("n"),
            lambda: daf.set_matrix("cell", "gene", "m", 1.0, relayout=False),
            lambda: daf.relayout_matrix("cell", "gene", "m"),
            lambda: daf.delete_axis("gene"),
            lambda: daf.add_axis("cell", ["x"], if_exists="replace"),
        ]
        for change in changes:
            change()
            documents = {p: p.read_bytes() for p in path.rglob(".z*") if p.name != ".zmetadata"}
            listed = json.loads((path / ".zmetadata").read_bytes())["metadata"]
            assert listed == {
                p.relative_to(path).as_posix(): json.loads(text) for p, text in documents.items()
            }
            assert list(listed) == sorted(listed)

    def test_changes_of_others_are_not_lost(self, tmp_path: Path) -> None:
        """Two writers of one directory each list what the other wrote."""
        path = tmp_path / "x.daf.zarr"
        first, second = create(path), reopen(path)
        first.set_scalar("a", 1)
        second.set_scalar("b", 1)
        first.set_scalar("c", 1)
        listed = json.loads((path / ".zmetadata").read_bytes())["metadata"]
        assert {f"scalars/{name}/.zarray" for name in "abc"} <= set(listed)


def test_opening_reads_only_metadata(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the data, only the two bytes of the version, and scalars to describe it."""
    with recorded_reads(monkeypatch) as reads:
        daf = ZarrDaf(tiny_path)
        assert reads.chunks() == ["daf/0"]
        assert len(reads.keys) <= 4
        reads.clear()
        daf.description()
        assert {key.split("/")[0] for key in reads.chunks()} == {"scalars"}


def test_deletion_frees_the_storage(tiny_path: Path) -> None:
    """The files of a deleted property are gone at once."""
    daf = reopen(tiny_path)
    daf.delete_vector("cell", "age")
    daf.delete_axis("gene")
    left = {p.name for p in tiny_path.rglob("*")}
    assert not left & {"age", "gene", "UMIs", ".daf.staging"}


def test_leftovers_of_a_deleted_axis_do_not_come_back(tiny_path: Path) -> None:
    """If a crash leaves vectors of a deleted axis, a new axis of that name starts empty."""
    shutil.rmtree(tiny_path / "axes/gene")
    daf = reopen(tiny_path)
    daf.add_axis("gene", GENES)
    assert daf.vectors_set("gene") == set()
    assert daf.matrices_set("cell", "gene") == set()


@pytest.mark.parametrize("missing", [os.R_OK, os.X_OK])
def test_directories_that_may_not_be_read(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    """To list it, or to open what is in it, is not permitted: said before anything is tried."""
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & missing)
    with pytest.raises(errors.ReadOnlyError, match="no permission to read this directory"):
        ZarrDaf(tiny_path)


def test_a_store_of_zarr_python_is_opened_like_a_path(tmp_path: Path) -> None:
    """Directories and archives by their path, any other store by its keys."""
    store = zarr.storage.MemoryStore()
    writer = fill(ZarrDaf(store, "w"))
    expected = contents(writer)
    assert contents(open_daf(store)) == expected
    assert zarr.open_array(store, path="vectors/cell/age", mode="r").shape == (len(CELLS),)
    writer.delete_vector("cell", "age")
    assert not open_daf(store).has_vector("cell", "age")
    filled(tmp_path / "x.daf.zarr")
    local = open_daf(zarr.storage.LocalStore(tmp_path / "x.daf.zarr"))
    assert contents(local) == expected
    assert local.location == str(tmp_path / "x.daf.zarr")
    with pytest.raises(errors.ReadOnlyError, match="read_only=False"):
        ZarrDaf(store.with_read_only(read_only=True), "r+").set_scalar("n", 1, if_exists="replace")
