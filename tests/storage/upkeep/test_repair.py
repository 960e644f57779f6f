"""Tests of mending data sets."""

from __future__ import annotations

import os
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from daf_storage import RecoveryWarning, RepairReport, ZarrDaf, errors, open_daf, repair, verify
from daf_storage.stores import MmapZipStore
from tests.storage.stores.test_zip_crashes import reference_append
from tests.support import contents, edited_bytes, fill, filled


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an archive with one of everything."""
    path = tmp_path / "x.daf.zarr.zip"
    filled(path).close()
    return path


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_nothing_to_repair(tmp_path: Path, name: str) -> None:
    """What is in order is left as it is."""
    filled(tmp_path / name).close()
    before = (tmp_path / name).read_bytes() if name.endswith("zip") else b""
    assert repair(tmp_path / name) == RepairReport((), (), ())
    if before:
        assert (tmp_path / name).read_bytes() == before


def test_a_half_added_property(path: Path) -> None:
    """It is taken away, with what else the crash left."""
    before = path.read_bytes()
    reference_append(path, "vectors/cell/new/.zarray", b"{}")
    reference_append(path, "vectors/cell/new/0", b"123", stop="header")
    done = repair(path).done
    assert "dropped vectors/cell/new/0, which was not complete" in done
    assert "took away vectors/cell/new, of which a part was missing" in done
    assert verify(path)[0].level == "warning"  # the bytes of its metadata
    assert repair(path).done[0].startswith("gave back") or path.read_bytes() == before
    assert repair(path).done == ()


def test_bytes_behind_the_end(path: Path) -> None:
    """They are cut off."""
    clean = path.read_bytes()
    path.write_bytes(clean + b"\0" * 5000)
    assert repair(path).done == ("gave back 5,000 bytes that belonged to no entry",)
    assert path.read_bytes() == clean


@pytest.mark.parametrize(
    ("lost", "missing", "ages"),
    [
        (["vectors/cell", "matrices/gene/gene"], ["vectors/cell", "matrices/gene/gene"], None),
        (
            ["vectors/cell/.zgroup", "matrices/cell/gene/.zgroup", "matrices/cell/gene/.zattrs"],
            ["vectors/cell"],
            [30, 60, 90],
        ),
    ],
)
def test_missing_groups_are_added(
    tmp_path: Path, lost: list[str], missing: list[str], ages: list[int] | None
) -> None:
    """Other programs depend on them; what is below one that lost its metadata shows that it was one."""
    folder, path = tmp_path / "x.daf.zarr", tmp_path / "x.daf.zarr.zip"
    filled(folder).close()
    for name in lost:
        (shutil.rmtree if (folder / name).is_dir() else os.unlink)(folder / name)
    with MmapZipStore(path, "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file() and file.name != ".zmetadata":
                archive.append(file.relative_to(folder).as_posix(), file.read_bytes())
    for one in (folder, path):
        done = repair(one).done
        assert {f"added the group {group}, which was missing" for group in missing} <= set(done)
        assert verify(one) == []
        assert contents(ZarrDaf(one))["vectors"].get(("cell", "age")) == ages


def test_leftovers_and_metadata_of_a_directory(tmp_path: Path) -> None:
    """What crashed writers left is cleared away, and the metadata is written again."""
    folder = tmp_path / "x.daf.zarr"
    filled(folder).close()
    before = (folder / ".zmetadata").read_bytes()
    (folder / ".daf.staging" / "dead" / "new").mkdir(parents=True)
    assert repair(folder).done == ("cleared away what a crashed writer had left",)
    (folder / ".zmetadata").write_text("{}")
    assert repair(folder).done == ("wrote the consolidated metadata again",)
    assert (folder / ".zmetadata").read_bytes() == before
    assert verify(folder) == []


def test_a_living_writer_is_not_disturbed(path: Path) -> None:
    """An archive that is being written to elsewhere is not repaired."""
    with MmapZipStore(path, "r+"), pytest.raises(errors.InUseError):
        repair(path)


def test_damaged_data_is_left_to_the_user(path: Path) -> None:
    """Repair mends the container; damaged data in the middle stays, and is named."""
    damage_archive(path)
    data = path.read_bytes()
    report = repair(path)
    assert (report.done, report.lost, report.is_whole) == ((), (), False)
    (damage,) = report.damaged
    assert damage.what == "vector 'age' of axis 'cell'"
    assert damage.path == "vectors/cell/age"
    assert "not the recorded size and CRC" in damage.problem
    (finding,) = verify(path)
    assert finding.path == "vectors/cell/age/0"
    assert ZarrDaf(path).get_np_vector("cell", "age").tolist() == [31, 60, 90]
    assert path.read_bytes() == data


def wreck(path: Path, *names: str) -> None:
    """Overwrite the headers and the data of entries with zeros, as a failing disk does."""
    with MmapZipStore(path) as store:
        found = {e.name: (e.offset, store.data_start(e) + e.size_bytes) for e in store.entries()}
    with edited_bytes(path) as data:
        for name in names:
            start, stop = found[name]
            data[start:stop] = bytes(stop - start)


def test_broken_properties_in_the_middle_are_taken_out_and_named(path: Path) -> None:
    """They are no longer listed, whichever of their entries is gone; their names are free again."""
    wreck(path, "vectors/cell/age/0", "matrices/cell/gene/sparse/rowval/.zarray", "scalars/n/0")
    report = repair(path)
    assert sorted(damage.what for damage in report.lost) == [
        "matrix 'sparse' of axes 'cell' and 'gene'",
        "scalar 'n'",
        "vector 'age' of axis 'cell'",
    ]
    assert {damage.path for damage in report.lost} == {
        "matrices/cell/gene/sparse",
        "scalars/n",
        "vectors/cell/age",
    }
    assert report.damaged == ()
    assert [finding.level for finding in verify(path)] == ["warning"]  # unnamed bytes
    with ZarrDaf(path, "r+") as daf:
        assert "age" not in daf.vectors_set("cell")
        assert not daf.has_matrix("cell", "gene", "sparse", relayout=False)
        assert daf.get_np_matrix("gene", "cell", "sparse").shape == (4, 3)
        daf.set_vector("cell", "age", [1, 2, 3])
    assert ZarrDaf(path).get_np_vector("cell", "age").tolist() == [1, 2, 3]
    assert repair(path).is_whole
    assert zipfile.ZipFile(path).testzip() is None


def test_a_writable_open_names_what_is_lost(path: Path) -> None:
    """The warning has the properties in words; nothing that is listed is broken afterwards."""
    wreck(path, "vectors/cell/age/0", "axes/gene/.zarray")
    with pytest.warns(RecoveryWarning) as caught, ZarrDaf(path, "r+"):
        pass
    (message,) = [str(one.message) for one in caught]
    assert "axis 'gene', vector 'age' of axis 'cell' could not be read and was taken" in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ZarrDaf(path, "r+").close()


def test_lost_attributes_take_their_property_with_them(tmp_path: Path) -> None:
    """They say how the bytes are meant; those that are known to be empty take nothing."""
    path = tmp_path / "x.daf.zarr.zip"
    with filled(path) as daf, daf.batch(), daf.writable_tree.transaction() as changes:
        changes.annotate("vectors/cell/kind", {"daf_convention": "empty-is-missing"})
        changes.write_strings("vectors/cell/kind", pa.array(["a", "", "b"]), (3,))
        changes.publish("vectors/cell/kind", replace=False)
    wreck(path, "vectors/cell/kind/.zattrs", "vectors/cell/age/.zattrs", "vectors/gene/.zgroup")
    report = repair(path)
    assert [damage.what for damage in report.lost] == ["vector 'kind' of axis 'cell'"]
    assert "added the group vectors/gene, which was missing" in report.done
    assert ZarrDaf(path).get_np_vector("cell", "age").tolist() == [30, 60, 90]


def test_what_is_lost_of_an_archive_of_several_data_sets(tmp_path: Path) -> None:
    """The name of the data set is reported too, and the others are left alone."""
    path = tmp_path / "x.dafs.zarr.zip"
    for group in ("a", "b/c"):
        fill(ZarrDaf(f"{path}#/{group}", "w+")).close()
    wreck(path, "b/c/vectors/cell/age/0")
    with pytest.warns(RecoveryWarning, match="vector 'age' of axis 'cell' of data set 'b/c' could"):
        ZarrDaf(f"{path}#/a", "r+").close()
    assert "age" in ZarrDaf(f"{path}#/a").vectors_set("cell")
    assert "age" not in ZarrDaf(f"{path}#/b/c").vectors_set("cell")
    assert repair(path).is_whole


def damage_archive(path: Path) -> None:
    """Change a bit of a vector."""
    with MmapZipStore(path) as store:
        place = next(e for e in store.entries() if e.name == "vectors/cell/age/0")
        start = store.data_start(place)
    with edited_bytes(path) as data:
        data[start] ^= 1


def test_another_version_is_not_mended(tmp_path: Path) -> None:
    """What a later version means by its files is not known: nothing is changed."""
    path = tmp_path / "x.daf.zarr"
    filled(path).close()
    (path / "daf" / "0").write_bytes(bytes([2, 0]))
    (path / "vectors" / ".zgroup").unlink()
    with pytest.raises(errors.VersionError, match="version"):
        repair(path)
    assert not (path / "vectors" / ".zgroup").exists()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", ["daf", "axes", "vectors", "daf.json"])
@pytest.mark.parametrize(
    "form", ["x.daf.zarr.zip", "x.dafs.zarr.zip#/a", "v3.daf.zarr.zip", "x.daf.zip", "x.daf.zarr"]
)
def test_properties_that_are_called_as_parts_of_a_data_set(
    tmp_path: Path, form: str, name: str
) -> None:
    """They are not taken for data sets within the data set: all is in order, and stays as it is."""
    path = f"{tmp_path}/{form}"
    with open_daf(path, "w+", zarr_format=3 if form.startswith("v3") else None) as daf:
        fill(daf).add_axis(name, ["A", "B"], vectors={name: [1, 2]})
        daf.set_vector("cell", name, ["A", "B", "A"])
        daf.set_scalar(name, 5)
        daf.set_matrix(name, "cell", name, np.ones((2, 3)))
        before = contents(daf)
    for whole in {path, path.partition("#")[0]}:
        assert verify(whole) == []
        assert repair(whole) == RepairReport((), (), ())
    assert contents(open_daf(path)) == before
