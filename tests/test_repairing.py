"""Tests of mending data sets."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from daf_storage import MmapZipStore, ZarrDaf, errors, repair, verify
from tests.support import contents, create, fill
from tests.test_zip_crashes import reference_append


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an archive with one of everything."""
    path = tmp_path / "x.daf.zarr.zip"
    fill(create(path)).close()
    return path


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_nothing_to_repair(tmp_path: Path, name: str) -> None:
    """What is in order is left as it is."""
    fill(create(tmp_path / name)).close()
    before = (tmp_path / name).read_bytes() if name.endswith("zip") else b""
    assert repair(tmp_path / name) == []
    if before:
        assert (tmp_path / name).read_bytes() == before


def test_a_half_added_property(path: Path) -> None:
    """It is taken away, with what else the crash left."""
    before = path.read_bytes()
    reference_append(path, "vectors/cell/new/.zarray", b"{}")
    reference_append(path, "vectors/cell/new/0", b"123", stop="header")
    done = repair(path)
    assert "dropped vectors/cell/new/0, which was not complete" in done
    assert "took away vectors/cell/new, of which a part was missing" in done
    assert verify(path)[0].level == "warning"  # the bytes of its metadata
    assert repair(path)[0].startswith("gave back") or path.read_bytes() == before
    assert repair(path) == []


def test_bytes_behind_the_end(path: Path) -> None:
    """They are cut off; those behind an archive of another program only on request."""
    clean = path.read_bytes()
    path.write_bytes(clean + b"\0" * 5000)
    assert repair(path) == ["gave back 5,000 bytes that belonged to no entry"]
    assert path.read_bytes() == clean
    foreign = path.with_name("y.daf.zarr.zip")
    with zipfile.ZipFile(foreign, "w") as archive, zipfile.ZipFile(path) as source:
        for name in source.namelist():
            archive.writestr(name, source.read(name), zipfile.ZIP_DEFLATED)
    clean = foreign.read_bytes()
    foreign.write_bytes(clean + b"junk" * 50_000)
    assert repair(foreign) == ["cut off 200,000 bytes behind the end of the archive"]
    assert foreign.read_bytes() == clean
    assert contents(ZarrDaf(foreign)) == contents(ZarrDaf(path))


def test_an_archive_that_was_cut_short(path: Path) -> None:
    """An interrupted copy: the entries that are whole become an archive again."""
    data = path.read_bytes()
    with MmapZipStore(path) as store:
        entries = store.entries()
    cut = entries[30].offset + 25
    path.write_bytes(data[:cut])
    with pytest.raises(errors.CorruptDataError, match=f"daf repair {path}"):
        ZarrDaf(path)
    done = repair(path)
    assert done[0] == "rebuilt the directory from 30 entries that are whole"
    lost = cut - entries[30].offset
    assert done[1] == f"cut off {lost} bytes of an entry, which is not; what came later is lost"
    assert zipfile.ZipFile(path).testzip() is None
    assert not [finding for finding in verify(path) if finding.level == "error"]
    with ZarrDaf(path, "r+") as daf:
        assert daf.has_axis("cell")


def test_the_entry_that_was_cut_is_named(path: Path) -> None:
    """If its header is there."""
    with MmapZipStore(path) as store:
        last = next(e for e in store.entries() if e.name == "axes/gene/0")
        start = store.data_start(last)
    path.write_bytes(path.read_bytes()[: start + 3])
    assert "bytes of axes/gene/0, which is not" in repair(path)[1]


def test_a_cut_and_damaged_archive(path: Path) -> None:
    """An entry that is damaged is dropped when a directory is rebuilt, and named."""
    data = bytearray(path.read_bytes())
    with MmapZipStore(path) as store:
        entries = store.entries()
        place = next(e for e in entries if e.name == "axes/cell/0")
        data[store.data_start(place) + 5] ^= 1
    path.write_bytes(data[: entries[-1].offset + 40])
    assert "dropped axes/cell/0, which is damaged" in repair(path)


def test_what_cannot_be_rebuilt(tmp_path: Path) -> None:
    """A file without any entry is refused and left alone."""
    path = tmp_path / "x.daf.zarr.zip"
    path.write_bytes(b"no archive at all" * 100)
    with pytest.raises(errors.CorruptDataError, match="nothing at its beginning to rebuild"):
        repair(path)
    assert path.read_bytes() == b"no archive at all" * 100
    with pytest.raises(errors.SourceNotFoundError):
        repair(tmp_path / "y.daf.zarr.zip")
    with pytest.raises(errors.SourceNotFoundError):
        repair(tmp_path / "y.daf.zarr")


def test_missing_groups_are_added(tmp_path: Path) -> None:
    """Other programs depend on them; ours does not."""
    folder = tmp_path / "x.daf.zarr"
    fill(create(folder)).close()
    shutil.rmtree(folder / "matrices/gene/gene")
    shutil.rmtree(folder / "vectors/cell")
    path = tmp_path / "x.daf.zarr.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    for one in (folder, path):
        done = repair(one)
        assert "added the group vectors/cell, which was missing" in done
        assert "added the group matrices/gene/gene, which was missing" in done
        assert verify(one) == []


def test_groups_that_lost_their_metadata(tmp_path: Path) -> None:
    """What is below a group shows that it was one."""
    folder, path = tmp_path / "x.daf.zarr", tmp_path / "x.daf.zarr.zip"
    fill(create(folder)).close()
    (folder / "vectors/cell/.zgroup").unlink()
    (folder / "matrices/cell/gene/.zgroup").unlink()
    (folder / "matrices/cell/gene/.zattrs").unlink()
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file():
                archive.write(file, file.relative_to(folder))
    for one in (folder, path):
        assert "added the group vectors/cell, which was missing" in repair(one)
        assert verify(one) == []
        assert contents(ZarrDaf(one))["vectors"]["cell", "age"] == [30, 60, 90]


def test_leftovers_and_metadata_of_a_directory(tmp_path: Path) -> None:
    """What crashed writers left is cleared away, and the metadata is written anew."""
    folder = tmp_path / "x.daf.zarr"
    fill(create(folder)).close()
    before = (folder / ".zmetadata").read_bytes()
    (folder / ".daf.staging" / "dead" / "new").mkdir(parents=True)
    assert repair(folder) == ["cleared away what a crashed writer had left"]
    (folder / ".zmetadata").write_text("{}")
    assert repair(folder) == ["wrote the consolidated metadata anew"]
    assert (folder / ".zmetadata").read_bytes() == before
    assert verify(folder) == []


def test_a_living_writer_is_not_disturbed(path: Path) -> None:
    """An archive that is being written to elsewhere is not repaired."""
    with MmapZipStore(path, "r+"), pytest.raises(errors.InUseError):
        repair(path)


def test_damage_is_left_to_the_user(path: Path) -> None:
    """Repair mends the container; damaged data in the middle stays, and verify names it."""
    with MmapZipStore(path) as store:
        place = next(e for e in store.entries() if e.name == "vectors/cell/age/0")
        start = store.data_start(place)
    data = bytearray(path.read_bytes())
    data[start] ^= 1
    path.write_bytes(data)
    assert repair(path) == []
    (finding,) = verify(path)
    assert finding.path == "vectors/cell/age/0"
    assert ZarrDaf(path).get_np_vector("cell", "age").tolist() == [31, 60, 90]
    assert np.array_equal(np.frombuffer(data, "u1"), np.fromfile(path, "u1"))
