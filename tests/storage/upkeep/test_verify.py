"""Tests of reading a whole data set to see whether it is as it should be."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import DafWriter, ZarrDaf, verify
from daf_storage.data import digest
from daf_storage.stores import MmapZipStore
from tests.storage.stores.test_zip_crashes import reference_append
from tests.support import UMIS, create, data_set, fill, filled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the path of a directory with one of everything."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    return path


def found(path: str | Path) -> list[tuple[str, str, str]]:
    """Return what is found, as plain values."""
    return [(f.level, f.path, f.problem) for f in verify(path, progress="never")]


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_what_we_write_is_in_order(tmp_path: Path, name: str) -> None:
    """One of everything, also empty axes and odd names."""
    daf = filled(tmp_path / name)
    daf.add_axis("none", [])
    daf.add_axis("1", ["é"])
    daf.set_vector("cell", "text", ["", "a", "b"])
    daf.set_matrix("cell", "gene", "labels", np.full((3, 4), "x"))
    daf.set_matrix("cell", "cell", "square", np.eye(3))
    daf.set_matrix("cell", "gene", "nan", np.full((3, 4), np.nan))
    daf.set_matrix("cell", "gene", "mask", sp.csc_array(UMIS % 2 == 1))
    daf.close()
    assert verify(tmp_path / name) == []


def test_the_pbmc_data_set_is_in_order(pbmc_path: Path) -> None:
    """Real data, imported."""
    assert verify(pbmc_path) == []


def with_types(path: Path) -> DafWriter:
    """Return a data set with cells and types."""
    return data_set(create(path), type=["B", "T"], cell=4)


def test_values_of_a_relation_that_are_no_entries(tmp_path: Path) -> None:
    """By its name it is a warning: the name may mean something else.  Empty values are missing."""
    with with_types(tmp_path / "x.daf.zarr") as daf:
        daf.set_vector("cell", "type", ["B", "", "T", "B"])
        daf.set_vector("cell", "type.manual", ["B", "Z", "Y", "Z"])
        daf.set_vector("cell", "type.gaps", ["", "T", "", ""], empty_is_missing=True)
        daf.set_vector("cell", "type.number", [1, 2, 3, 4])
    problem = (
        "its name says that its values are entries of the axis 'type', but 3 of 4 are not, "
        "first 'Z'; add such entries, or give the vector another name"
    )
    path = "vectors/cell/type.manual"
    assert found(tmp_path / "x.daf.zarr") == [("warning", path, problem)]


def test_names_that_nothing_can_have(folder: Path) -> None:
    """Of a scalar, a vector and both layouts of a matrix: an error each, and nothing else about them."""
    name = "a\udcff"
    paths = ["scalars/n", "vectors/cell/age", "matrices/cell/gene/UMIs", "matrices/gene/cell/UMIs"]
    renamed = [(folder / path).rename((folder / path).with_name(name)) for path in paths]
    shown = [str(path.relative_to(folder)) for path in renamed]
    said = [each for each in found(folder) if each[0] == "error"]
    assert said == [("error", path, "its name is not valid Unicode") for path in shown]


@pytest.mark.parametrize("entries", [None, ["B", "X"]])
def test_a_recorded_relation_to_an_axis_that_was_replaced(
    tmp_path: Path, entries: list[str] | None
) -> None:
    """Recorded values that are no entries are an error; an axis that is gone, a warning."""
    with with_types(tmp_path / "x.daf.zarr") as daf:
        daf.set_vector("cell", "kind", ["B", "", "T", "T"], entries_of="type")
        daf.delete_axis("type")
        if entries is not None:
            daf.add_axis("type", entries)
    why = "it is recorded that its values are entries of the axis 'type', "
    gone = f"{why}which is not there; add that axis, or set the vector again"
    others = f"{why}but 2 of 4 are not, first 'T'; add such entries, or set the vector again"
    level, problem = ("warning", gone) if entries is None else ("error", others)
    assert found(tmp_path / "x.daf.zarr") == [(level, "vectors/cell/kind", problem)]


def test_a_record_that_is_no_axis_name(tmp_path: Path) -> None:
    """It is ignored, and listed."""
    path = tmp_path / "x.daf.zarr"
    with with_types(path) as daf:
        daf.set_vector("cell", "kind", ["B", "", "T", "T"], entries_of="type")
    (path / "vectors/cell/kind/.zattrs").write_text('{"daf_entries_of": 7}')
    problem = "its attribute daf_entries_of is 7, and not the name of an axis; it is ignored"
    assert ("warning", "vectors/cell/kind", f"{problem}: write the property again") in found(path)


def test_relations_to_a_broken_axis_are_not_looked_at(tmp_path: Path) -> None:
    """What is broken is found once, where it is."""
    path = tmp_path / "x.daf.zarr"
    with with_types(path) as daf:
        daf.set_vector("cell", "type", ["B", "X", "T", "T"])
    (path / "axes/type/0").write_bytes(b"\x05")
    assert [(level, where) for level, where, _ in found(path)] == [("error", "axes/type")]


def edit(path: Path, **changes: Any) -> None:
    """Change a JSON document."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def ints(*numbers: int, dtype: str = "<i4") -> bytes:
    """Return the bytes of a chunk."""
    return np.array(numbers, dtype).tobytes()


SPARSE, UMI = "matrices/cell/gene/sparse", "matrices/cell/gene/UMIs"
FLAG = "vectors/gene/flag"
ENTRIES = b"\3\0\0\0" + b"\1\0\0\0a" + b"\1\0\0\0b" + b"\1\0\0\0a"
BEYOND = ints(2, 3, 1, 2, 3, 1, 2, 1, 4)
FALLING = ints(3, 2, 1, 2, 3, 1, 2, 1, 3)
OTHERS = ints(1, 2, 1, 2, 3, 2, 3, 3, 2, dtype="<i8")
COUNTED = ints(*range(12), dtype="<i8")
FIVE = {"shape": [5], "chunks": [5]}
DAMAGES: dict[str, tuple[str, Any, str]] = {
    "strings that are cut off": ("vectors/cell/type/0", b"\3\0\0\0\5\0\0\0abc", "is truncated"),
    "strings without a count": ("vectors/cell/type/0", b"\3\0", "it has only 2 bytes"),
    "a Bool that is neither": ("vectors/gene/marker/0", b"\1\2\0\1", "other than 0 and 1"),
    "entries that are not unique": ("axes/cell/0", ENTRIES, "occurs more than once"),
    "positions that do not rise": (f"{FLAG}/nzind/0", ints(4, 2), "nzind does not rise"),
    "positions out of bounds": (f"{FLAG}/nzind/0", ints(2, 5), "does not rise within 1 to 4"),
    "a colptr that falls": (f"{SPARSE}/colptr/0", ints(1, 5, 3, 8, 10), "colptr does not rise"),
    "rows out of bounds": (f"{SPARSE}/rowval/0", BEYOND, "rowval leaves the range 1 to 3"),
    "rows out of order": (f"{SPARSE}/rowval/0", FALLING, "do not rise within each column"),
    "values of another number": (f"{SPARSE}/nzval/.zarray", FIVE, "stored shape is [5]"),
    "two versions of a sparse matrix": (f"{SPARSE}/nzval/0", OTHERS, "are not the same matrix"),
    "two versions of a dense matrix": (f"{UMI}/0.0", COUNTED, "are not the same matrix"),
    "two types of one matrix": (f"{UMI}/.zarray", {"dtype": "<u8"}, "different types"),
    "a scalar that is none": ("scalars/n/.zarray", {"shape": [0], "chunks": [1]}, "0 elements"),
    "vectors without their axis": ("vectors/gone", None, "no axis 'gone'"),
    "a missing group": ("scalars", None, "this group is missing"),
}
"""A file, what it is instead, or which keys are, or a folder that comes or goes; the finding."""
N_PARTS = {"vectors": 3, "matrices": 4}
"""How many parts the path of a property has, if not two."""


@pytest.mark.parametrize("in_archive", [False, True])
@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_found(folder: Path, what: str, *, in_archive: bool) -> None:
    """Each rule of the layout that is broken is one finding at the right place, in an archive too."""
    name, change, problem = DAMAGES[what]
    parts = name.split("/")
    path = "/".join(parts[: N_PARTS.get(parts[0], 2)])
    if isinstance(change, bytes):
        (folder / name).write_bytes(change)
    elif change is not None:
        edit(folder / name, **change)
    elif (folder / name).exists():
        shutil.rmtree(folder / name)
    else:
        shutil.copytree(folder / "vectors/cell", folder / name)
    if in_archive:
        shutil.make_archive(str(folder), "zip", folder)
    problems = found(f"{folder}.zip" if in_archive else folder)
    wanted = [p for p in problems if p[1] == path]
    assert wanted, problems
    assert str(folder) not in str(wanted)
    assert wanted[0][0] == "error" or in_archive
    assert problem in wanted[0][2] or (in_archive and "data is missing" in wanted[0][2])


def test_untidy_directories_are_warned_of(folder: Path) -> None:
    """What only hampers others is a warning, and says what mends it."""
    (folder / ".daf.staging" / "token").mkdir(parents=True)
    shutil.rmtree(folder / "matrices/gene/gene")
    edit(folder / ".zmetadata", metadata={".zgroup": {"zarr_format": 2}})
    problems = found(folder)
    assert {level for level, _, _ in problems} == {"warning"}
    text = "\n".join(str(finding) for finding in verify(folder))
    assert f"'daf repair {folder}' clears it" in text
    assert "warning: matrices/gene/gene: this group is missing" in text
    assert "warning: vectors/cell/age/.zarray: not in the consolidated metadata" in text
    (folder / ".zmetadata").write_text("{")
    expected = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    problem = f"is malformed: {expected}; 'daf repair {folder}' writes it again"
    assert ("error", ".zmetadata", f"the consolidated metadata {problem}") in found(folder)


def test_every_damaged_entry_of_an_archive_is_found(tmp_path: Path) -> None:
    """A flipped byte anywhere in the data shows, though it may be a fine value."""
    path = tmp_path / "x.daf.zarr.zip"
    filled(path).close()
    clean = path.read_bytes()
    with MmapZipStore(path) as store:
        places = {
            entry.name: store.data_start(entry) for entry in store.entries() if entry.size_bytes
        }
    for name in ("vectors/cell/age/0", "matrices/cell/gene/UMIs/0.0", "daf/0"):
        data = bytearray(clean)
        data[places[name]] ^= 0x10
        path.write_bytes(data)
        assert (
            "error",
            name,
            "its data is damaged: it has not the recorded size and CRC",
        ) in found(path)
    data = bytearray(clean)
    data[places["vectors/cell/age/0"] - 40] ^= 0xFF
    path.write_bytes(data)
    assert any("vectors/cell/age/0" in problem[1] for problem in found(path))


def test_unfinished_archives_are_found(tmp_path: Path) -> None:
    """What a crashed writer left: a directory that is ahead, or bytes behind the end."""
    path = tmp_path / "x.daf.zarr.zip"
    filled(path).close()
    clean = path.read_bytes()
    reference_append(path, "scalars/new/.zarray", b"{}", stop="directory")
    assert "daf repair" in found(path)[0][2]
    path.write_bytes(clean + bytes(1000))
    (problem,) = found(path)
    assert problem[0] == "warning"
    assert "a writer stopped in the middle" in problem[2]
    path.write_bytes(clean[: len(clean) // 2])
    assert "not a complete ZIP archive" in found(path)[0][2]


def test_duplicates_and_unused_bytes(tmp_path: Path) -> None:
    """Two entries of a name, and bytes that belong to none."""
    path = tmp_path / "x.daf.zarr.zip"
    with filled(path) as daf:
        store = daf.tree._store  # type: ignore[attr-defined]
        store.append("junk", b"x" * 1000)
        store.append("more", b"1")
        store.remove_entries(["junk"])
    ((level, _, problem),) = found(path)
    assert (level, "bytes of the archive belong to no entry" in problem) == ("warning", True)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("more", b"2")
    assert (
        "error",
        "more",
        "there are 2 entries of this name; only the last one is used",
    ) in found(path)


def test_all_data_sets_of_an_archive(tmp_path: Path) -> None:
    """The path of the whole archive stands for every data set in it."""
    path = tmp_path / "x.dafs.zarr.zip"
    for group in ("a", "b/c"):
        daf = ZarrDaf(f"{path}#/{group}", "w+")
        fill(daf).close()
    assert found(path) == []
    assert found(f"{path}#/b/c") == []
    reference_append(path, "b/c/vectors/cell/bad/.zarray", b"{")
    assert [p[1] for p in found(path)] == ["b/c/vectors/cell/bad", "b/c/vectors/cell/bad"]
    assert [p[1] for p in found(f"{path}#/a")] == []
    assert [p[1] for p in found(f"{path}#/nope")] == ["daf"]
    empty = tmp_path / "empty.dafs.zarr.zip"
    MmapZipStore(empty, "w").close()
    assert found(empty) == [("error", "", "there is no data set in this archive")]


@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from(["i1", "u8", "f4", "f8", "?"]),
)
def test_the_sum_tells_matrices_apart(shape: tuple[int, int], seed: int, dtype: str) -> None:
    """It is the same for both orientations, dense and sparse, and another for another matrix."""
    random = np.random.default_rng(seed)
    values = (random.integers(0, 3, shape) * random.integers(0, 2, shape)).astype(dtype)
    other = values.copy()
    place = tuple(random.integers(0, n) for n in shape)
    other[place] = other[place] == 0
    matrices = {"dense": values, "sparse": sp.csc_array(values), "other": other}
    daf = data_set(r=shape[0], c=shape[1])
    for name, matrix in matrices.items():
        daf.set_matrix("r", "c", name, matrix)
    sums = {name: digest(daf.open_matrix("r", "c", name), lambda _: None) for name in matrices}
    assert sums["dense"] == sums["sparse"] != sums["other"]
    for name, expected in sums.items():
        assert digest(daf.open_matrix("c", "r", name), lambda _: None, flipped=True) == expected


def test_a_group_of_no_axis_that_cannot_be_listed(tmp_path: Path) -> None:
    """Whether there is something in it is not known, so it is found."""
    path = tmp_path / "x.h5df"
    filled(path).close()
    with h5py.File(path, "r+") as file:
        file.create_group("vectors/gone")
    assert found(path) == []
    data = path.read_bytes()
    place = data.rindex(b"TREE")  # of the group that was made last
    path.write_bytes(data[:place] + b"XXXX" + data[place + 4 :])
    assert ("error", "vectors/gone", "there is no axis 'gone'") in found(path)
