"""Tests of the consolidated metadata: a gap in it is reported, and closed by the next writer."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from daf_storage import RecoveryWarning, ZarrDaf, open_daf, repair, verify
from daf_storage.stores import DirectoryStore
from daf_storage.trees import WritableZarrTree
from tests import seams
from tests.storage.data.test_crashes import CHANGES
from tests.support import contents, filled, reopen, served


@pytest.fixture(params=[2, 3])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return the path of a directory with one of everything, of each version of Zarr."""
    path = tmp_path / "x.daf.zarr"
    filled(path, zarr_format=request.param).close()
    return path


def file_of(folder: Path) -> Path:
    """Return the file with the consolidated metadata."""
    return folder / (".zmetadata" if (folder / ".zmetadata").exists() else "zarr.json")


def is_current(folder: Path) -> bool:
    """Read every document and compare: the slow way to know."""
    tree = WritableZarrTree(DirectoryStore(folder), consolidated=True)
    before = tree.consolidated()
    tree.refresh()
    return tree.consolidated() == before


def fail_to_refresh(monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOSPC) -> None:
    """Let the disk be full whenever the consolidated metadata is written."""

    def full(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(seams.DIRECTORY_TRANSACTION_REPLACE_FILE, full)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "what", ["overwrite a vector", "delete a vector", *(n for n in CHANGES if n.startswith("new "))]
)
def test_a_failed_refresh_is_told_and_mended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The change is in place and servers do not see it: verify says so, the next open mends it."""
    with reopen(folder) as daf, monkeypatch.context() as patch:
        fail_to_refresh(patch)
        with pytest.raises(OSError, match="No space left"):
            CHANGES[what](daf)
    assert [one for one in (folder / ".daf.staging").rglob("*") if one.is_file()] == []
    problems = [str(finding) for finding in verify(folder)]
    assert any("the consolidated metadata; 'daf repair" in problem for problem in problems)
    assert all(problem.startswith("warning: ") for problem in problems)
    reopen(folder).close()
    assert verify(folder) == []
    assert not (folder / ".daf.staging").exists()
    assert is_current(folder)
    with served(folder) as server:
        assert contents(open_daf(server.url)) == contents(ZarrDaf(folder))


def test_other_programs_that_do_not_consolidate(folder: Path) -> None:
    """Verify names an array that was added or deleted; the next change mends it, and so does repair."""
    stale = file_of(folder).read_bytes()
    with reopen(folder) as daf:
        daf.set_vector("gene", "new", [1, 2, 3, 4])
    file_of(folder).write_bytes(stale)
    assert any("not in the consolidated metadata" in str(one) for one in verify(folder))
    with reopen(folder) as daf:
        daf.set_scalar("mended", 1)
    assert is_current(folder)
    shutil.rmtree(folder / "vectors/gene/new")
    assert any("gone, and still in the consolidated" in str(one) for one in verify(folder))
    repair(folder)
    assert is_current(folder)
    assert verify(folder) == []


def test_a_directory_without_any(tmp_path: Path, folder: Path) -> None:
    """One that was unpacked from an archive of ours: verify says so, an open for writing adds it."""
    archive = tmp_path / "x.daf.zarr.zip"
    unpacked = tmp_path / "y.daf.zarr"
    filled(archive, zarr_format=2 if (folder / ".zmetadata").exists() else 3).close()
    shutil.unpack_archive(archive, unpacked)
    (finding,) = verify(unpacked)
    assert finding.level == "warning"
    assert "there is no consolidated metadata, which readers over HTTP need" in finding.problem
    reopen(unpacked).close()
    assert verify(unpacked) == []
    with served(unpacked) as server:
        assert contents(open_daf(server.url)) == contents(ZarrDaf(unpacked))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_nobody_from_opening(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Who wants to delete something has to get in; the warning says what is missing."""
    root = json.loads(file_of(folder).read_bytes())
    root.pop("consolidated_metadata", None)
    file_of(folder).write_text(json.dumps(root) if "node_type" in root else "damaged")
    with monkeypatch.context() as patch:
        fail_to_refresh(patch, code)
        with pytest.warns(RecoveryWarning, match="the disk is full, so the consolidated metadata"):
            daf = reopen(folder)
        assert daf.get_np_vector("cell", "age").tolist() == [30, 60, 90]
    daf.close()
    with monkeypatch.context() as patch:
        fail_to_refresh(patch, errno.EIO)
        with pytest.raises(OSError, match="the disk fails to read or write"):
            reopen(folder)
    reopen(folder).close()
    assert verify(folder) == []


@pytest.mark.parametrize("form", ["x.daf.zarr", "v3.daf.zarr", "x.daf"])
def test_names_that_begin_with_a_dot(tmp_path: Path, form: str) -> None:
    """They are in the consolidated metadata, also when it is written again, and on servers."""
    path = tmp_path / form
    with open_daf(path, "w", zarr_format=3 if form.startswith("v3") else None) as daf:
        for name in (".x", ".zeta", ".zattrs.json"):
            daf.add_axis(name, ["A", "B"], vectors={name: [1, 2]})
            daf.set_scalar(name, name)
            daf.set_matrix(name, name, name, np.eye(2))
        before = contents(daf)
    repair(path)
    assert verify(path) == []
    with served(path) as server, open_daf(server.url) as daf:
        assert contents(daf) == before
