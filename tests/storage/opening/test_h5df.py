"""Tests of data sets in HDF5 files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_storage import (
    DafWriter,
    H5df,
    MemoryDaf,
    OpenMode,
    UnsafeAlignmentWarning,
    errors,
    open_daf,
    repair,
    verify,
)
from daf_storage.base import Span
from daf_storage.trees import Hdf5File, WritableHdf5Tree, WritableTree
from tests.limits import lower
from tests.suites import ChangingDafSuite, ChangingTreeSuite
from tests.suites.examples import copy_written
from tests.support import PBMC, UMIS, contents, data_set, fill, filled, open_descriptors


class TestHdf5Tree(ChangingTreeSuite):
    @pytest.fixture
    def tree(self, tmp_path: Path) -> WritableTree:
        """Return an empty tree at the root of a file."""
        return WritableHdf5Tree(Hdf5File(h5py.File(tmp_path / "x.h5", "w"), location="x.h5"))


class TestInMemory(ChangingTreeSuite):
    """A file that cannot be mapped."""

    @pytest.fixture
    def tree(self) -> WritableTree:
        """Return an empty tree within a group of a file that is on no disk."""
        file = h5py.File("x.h5", "w", driver="core", backing_store=False)
        file.create_group("deep/inside")
        return WritableHdf5Tree(Hdf5File(file, location="x.h5"), "deep/inside")


class TestH5df(ChangingDafSuite):
    location = "x.h5df"


@pytest.mark.sampled(1)
class TestGroup(ChangingDafSuite):
    """One of several data sets of a file, below another one."""

    location = "x.h5dfs#/day/1"
    beside = ("x.h5dfs#/day",)


@pytest.mark.sampled(1)
class TestHandle(ChangingDafSuite):
    """In a file that the caller has open, in memory."""

    @pytest.fixture
    def daf(self) -> Iterator[DafWriter]:
        """Return an empty data set in a group."""
        with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
            with pytest.warns(UnsafeAlignmentWarning, match="unsafe HDF5 file alignment"):
                daf = H5df(file.create_group("mine"), "w+")
            yield daf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file with one of everything."""
    path = tmp_path / "x.h5df"
    filled(path).close()
    return path


def test_plain_h5py_reads_it(path: Path) -> None:
    """Names, types, shapes and values are those of the format."""
    with h5py.File(path) as file:
        assert sorted(file) == ["axes", "daf", "matrices", "scalars", "vectors"]
        assert file["daf"].dtype == np.uint8
        assert file["daf"][:].tolist() == [1, 0]
        assert (file["scalars/n"].shape, file["scalars/n"][()]) == ((), 7)
        assert file["scalars/organism"].asstr()[()] == "human"
        assert file["axes/cell"].asstr()[:].tolist() == ["TATA", "GATA", "CATA"]
        assert file["vectors/cell/age"][:].tolist() == [30, 60, 90]
        marker = file["vectors/gene/marker"]
        assert marker.id.get_type().get_class() == h5py.h5t.BITFIELD
        assert marker[:].tolist() == [1, 0, 1, 0]
        assert sorted(file["vectors/gene/flag"]) == ["nzind"]
        assert file["vectors/gene/flag/nzind"][:].tolist() == [2, 4]
        assert file["matrices/cell/gene/UMIs"][:].T.tolist() == UMIS.tolist()
        group = file["matrices/cell/gene/sparse"]
        found = sp.csc_array(
            (group["nzval"][:], group["rowval"][:] - 1, group["colptr"][:] - 1), shape=(3, 4)
        )
        assert found.toarray().tolist() == UMIS.tolist()
        assert sorted(file["matrices/gene"]) == ["cell", "gene"]
        file.visititems(_check_dataset)


def _check_dataset(name: str, found: Any) -> None:
    if isinstance(found, h5py.Dataset):
        assert len(found.attrs) == 0
        assert (found.chunks, found.compression) == (None, None)
        offset = found.id.get_offset()
        assert offset is None or offset % 8 == 0, name


def test_replaced_data_stays_with_its_holders(path: Path) -> None:
    """The space of what was replaced is not used again while it is held."""
    daf = H5df(path, "r+")
    daf.set_vector("cell", "v", np.array([1, 2, 3]))
    held = daf.get_np_vector("cell", "v")
    for i in range(50):
        daf.set_vector("cell", "v", np.full(3, 10 + i), if_exists="replace")
        daf.set_vector("cell", f"w{i}", np.full(3, 99))
        daf.delete_vector("cell", f"w{i}")
    assert held.tolist() == [1, 2, 3]
    assert daf.get_np_vector("cell", "v").tolist() == [59, 59, 59]


def test_a_group_is_emptied_alone(tmp_path: Path) -> None:
    """Mode ``w`` on a group leaves the other groups."""
    path = f"{tmp_path}/x.h5dfs"
    for group in ("a", "b"):
        fill(H5df(f"{path}#/{group}", "w+")).close()
    H5df(f"{path}#/a", "w").close()
    assert H5df(f"{path}#/a").axes_set() == set()
    assert H5df(f"{path}#/b").axes_set() == {"cell", "gene"}


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EROFS, errors.ReadOnlyError), (errno.EIO, errors.StorageError)]
)
def test_a_file_that_the_system_refuses_to_open_is_not_called_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[errors.DafError]
) -> None:
    """Such as one on a read-only file system: its content is not to blame."""
    H5df(path, "w").close()
    text = f"Unable to synchronously open file (unable to open file: name = 'x', errno = {number})"

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, text)

    monkeypatch.setattr(h5py, "File", refused)
    with pytest.raises(kind) as caught:
        H5df(path, "r+")
    assert not isinstance(caught.value, errors.CorruptDataError)


# What others wrote


def test_other_types_and_layouts_are_read(path: Path) -> None:
    """Chunked, compressed, big-endian, h5py's own Bool, fixed strings; in SQL and slices, too."""
    matrix = np.arange(12.0).reshape(4, 3)
    with h5py.File(path, "r+") as file:
        group = file["vectors/cell"]
        group.create_dataset("zipped", data=[1.5, 2.5, 3.5], chunks=(2,), compression="gzip")
        group["big"] = np.array([1, 2, 3], ">i4")
        group["bool"] = np.array([True, False, True])
        group["fixed"] = np.array([b"a", b"bc", b""])
        file["scalars/fixed"] = np.bytes_(b"text")
        group = file["matrices/cell/gene"]
        group.create_dataset("zipped", data=matrix, chunks=(2, 3), compression="lzf")
        group["big"] = matrix.astype(">f4")
    daf = H5df(path)
    assert daf.get_np_vector("cell", "big").dtype == np.dtype("<i4")
    assert daf.get_np_vector("cell", "fixed").tolist() == ["a", "bc", ""]
    assert daf.get_scalar("fixed") == "text"
    assert daf.get_np_matrix("cell", "gene", "big").dtype == np.dtype("<f4")
    for name in ("zipped", "big"):
        assert daf.get_np_matrix("cell", "gene", name).tolist() == matrix.T.tolist()
    rows = connect(daf).sql("SELECT name, big, bool FROM cell WHERE zipped > 2").to_pydict()
    assert rows == {"name": ["GATA", "CATA"], "big": [2, 3], "bool": [False, True]}
    part = connect(daf).matrix("cell", "gene", "zipped", columns=["WNT6"]).to_numpy()
    assert part.ravel().tolist() == [6, 7, 8]
    assert verify(path) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3, "c8"), "has the type complex64"),
        (np.zeros(3, "f2"), "has the type float16"),
        (np.zeros(3, [("a", "i4")]), "has the type"),
        (h5py.Empty("f4"), "not even a shape"),
        (h5py.h5t.UNIX_D32LE, "No NumPy equivalent"),
    ],
)
def test_types_without_a_place_are_named(path: Path, value: Any, message: str) -> None:
    """The vector is refused by name; the others stay usable."""
    with h5py.File(path, "r+") as file:
        if isinstance(value, h5py.h5t.TypeID):
            shape = h5py.h5s.create_simple((3,))
            h5py.h5d.create(file.id, b"vectors/cell/bad", value, shape)
        else:
            file["vectors/cell/bad"] = value
    daf = H5df(path)
    with pytest.raises(errors.FormatError, match=message):
        daf.get_np_vector("cell", "bad")
    assert daf.get_np_vector("cell", "age").tolist() == [30, 60, 90]


@pytest.fixture
def sparse_path(tmp_path: Path) -> Path:
    """Return the path of strings of which most are empty."""
    copy_written("sparse strings", tmp_path, _write_sparse)
    return tmp_path / "x.h5df"


def _write_sparse(folder: Path) -> None:
    """Check that strings of which most are empty are stored sparse."""
    path = folder / "x.h5df"
    daf = data_set(H5df(path, "w"), batch=[f"B{i}" for i in range(20)], cell=["a", "b", "c"])
    labels = [""] * 20
    labels[1] = "foo"
    daf.set_vector("batch", "label", labels)
    daf.set_vector("batch", "full", ["x" * 9] * 20)
    daf.set_vector("batch", "empty", [""] * 20)
    matrix = np.full((20, 3), "", object)
    matrix[2, 1], matrix[19, 2] = "bar", "é"
    daf.set_matrix("batch", "cell", "labels", matrix)
    for reader in (H5df(path), daf):
        assert reader.get_np_vector("batch", "label").tolist() == labels
        assert reader.get_np_vector("batch", "empty").tolist() == [""] * 20
        assert reader.get_np_matrix("batch", "cell", "labels").tolist() == matrix.tolist()
        assert reader.get_np_matrix("cell", "batch", "labels").tolist() == matrix.T.tolist()
        found = connect(reader).sql("SELECT name FROM batch WHERE label = 'foo'").to_pydict()
        assert found == {"name": ["B1"]}
        reader.close()
    with h5py.File(path) as file:
        assert sorted(file["vectors/batch/label"]) == ["nzind", "nztxt"]
        assert file["vectors/batch/label/nzind"][:].tolist() == [2]
        assert file["vectors/batch/label/nzind"].dtype == np.uint32
        assert isinstance(file["vectors/batch/full"], h5py.Dataset)
        assert file["vectors/batch/empty/nztxt"].shape == (0,)
        group = file["matrices/batch/cell/labels"]
        assert group["colptr"][:].tolist() == [1, 1, 2, 3]
        assert group["rowval"][:].tolist() == [3, 20]
        assert group["nztxt"].asstr()[:].tolist() == ["bar", "é"]


def test_slices_of_strings_that_are_stored_sparse(sparse_path: Path) -> None:
    """Each layout gives the same cells; so does each range of a stored vector or matrix."""
    assert verify(sparse_path) == []
    daf = H5df(sparse_path)
    whole = daf.get_np_matrix("batch", "cell", "labels")
    for rows, columns in (([2], [1, 0]), ([19, 2, 3], [2]), (list(range(20)), [0, 1, 2])):
        part = connect(daf).matrix("batch", "cell", "labels", rows=rows, columns=columns)
        assert part.to_numpy().tolist() == whole[np.ix_(rows, columns)].tolist()
    matrix = daf.open_matrix("batch", "cell", "labels").dense()
    by_columns = whole.T.tolist()
    assert matrix.read().tolist() == by_columns
    assert matrix.read_rows(Span(1, 3)).tolist() == by_columns[1:]
    spans = [Span(2, 3), Span(0, 2)]
    assert [part.tolist() for part in matrix.read_spans(spans)] == [by_columns[2:], by_columns[:2]]
    within = [part.tolist() for part in matrix.read_spans(spans, Span(2, 20))]
    assert within == [[row[2:] for row in by_columns[2:]], [row[2:] for row in by_columns[:2]]]


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("vectors/batch/label/nztxt", ["foo", "bar"], "nzind is not a list of 2 positions"),
        ("vectors/batch/label/nztxt", [], "nzind is not a list of 0 positions"),
        ("vectors/batch/label/nztxt", ["x"] * 21, r"nztxt has 21 strings, but the shape \[20\]"),
        ("vectors/batch/label/nztxt", [["foo"]], "nztxt is not a list of strings"),
        ("vectors/batch/label/nztxt", [5], "nztxt is not a list of strings"),
        ("matrices/batch/cell/labels/nztxt", ["bar"], "rowval is not a list of 1 positions"),
        ("matrices/batch/cell/labels/nztxt", ["x"] * 61, "nztxt has 61 strings"),
        ("matrices/batch/cell/labels/colptr", [1, 2, 3], "colptr is not a list of 4 positions"),
        ("matrices/batch/cell/labels/colptr", [1, 1, 2, 2], "do not fit together"),
        ("matrices/batch/cell/labels/colptr", [1, 2, 1, 3], "do not fit together"),
        ("matrices/batch/cell/labels/rowval", [3, 21], "leaves the range 1 to 20"),
        ("vectors/batch/label/nzind", [21], "nzind does not rise"),
    ],
)
def test_damaged_sparse_strings(
    sparse_path: Path, part: str, values: list[object], message: str
) -> None:
    """Other lengths, and places outside of the axis, are errors; other properties are readable."""
    is_string = part.endswith("nztxt") and values != [5]
    with h5py.File(sparse_path, "r+") as file:
        del file[part]
        file.create_dataset(part, data=values, dtype=h5py.string_dtype() if is_string else "u4")
    assert any(re.search(message, finding.problem) for finding in verify(sparse_path))
    daf = H5df(sparse_path)
    read: Any = daf.get_np_vector if part.startswith("vectors") else daf.get_np_matrix
    with pytest.raises(errors.CorruptDataError, match=message):
        read(*part.split("/")[1:-1])
    assert daf.get_np_vector("batch", "full").tolist() == ["x" * 9] * 20


# What is refused


def test_files_of_other_things_are_left_alone(tmp_path: Path) -> None:
    """No mode wipes or mixes with what is no data set, be it an h5ad file, which is only read."""
    path = tmp_path / "x.h5ad.h5df"
    shutil.copy(PBMC, path)
    before = path.read_bytes()
    open_daf(path).close()
    for mode in ("r+", "w+", "w"):
        with pytest.raises((errors.NotADafError, errors.ReadOnlyError), match="x.h5ad.h5df"):
            H5df(path, mode)  # type: ignore[call-overload] # each in turn
    assert path.read_bytes() == before
    with h5py.File(tmp_path / "g.h5dfs", "w") as file:
        file["a/data"] = 1
        file["b"] = 2
    for group, message in (("a", "not empty: it holds data"), ("b", "no such group")):
        for mode in ("w+", "w"):
            with pytest.raises(errors.NotADafError, match=message):
                H5df(f"{tmp_path}/g.h5dfs#/{group}", mode)  # type: ignore[call-overload] # each in turn


def test_a_reader_handle_cannot_write(path: Path) -> None:
    """An open file decides what is possible; an aligned one gives no warning."""
    with h5py.File(path, alignment_threshold=1, alignment_interval=8) as file:
        with pytest.raises(errors.ReadOnlyError, match="opened for reading"):
            H5df(file, "r+")
        assert H5df(file).get_scalar("n") == 7
    with h5py.File(path, "r+", alignment_threshold=1, alignment_interval=8) as file:
        daf = H5df(file, "r+")
        daf.close()
        assert file.id.valid


@pytest.mark.parametrize("mode", ["r", "r+", "w+"])
def test_a_handle_without_alignment_is_warned_of(path: Path, mode: OpenMode) -> None:
    """In every mode, since what it says of the file concerns readers too."""
    with (
        h5py.File(path, "r" if mode == "r" else "r+") as file,
        pytest.warns(UnsafeAlignmentWarning, match=r"\(1, 1\).*\(1, 8\)"),
    ):
        H5df(file, mode)


def test_any_hdf5_file_is_opened_by_its_suffix(tmp_path: Path) -> None:
    """``.h5`` and ``.hdf5``, at the root and in a group."""
    for name in ("a.h5", "b.hdf5", "c.h5#/day/1", "d.hdf5#/day"):
        fill(open_daf(tmp_path / name, "w+")).close()
        assert contents(open_daf(tmp_path / name)) == contents(fill(MemoryDaf()))


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize(
    "group", ["axes", "vectors", "matrices", "scalars", "vectors/cell", "matrices/cell/gene"]
)
def test_a_dataset_in_the_place_of_a_group(path: Path, group: str, mode: OpenMode) -> None:
    """It is no group without anything in it: it is refused at opening, or by who lists it."""
    with h5py.File(path, "r+") as file:
        del file[group]
        file[group] = [1, 2]
    said = f"{group} is a dataset" if "/" in group else f"{group}' is a dataset.* has a group there"
    with pytest.raises(errors.CorruptDataError, match=said), H5df(path, mode) as daf:
        contents(daf)


def test_an_anndata_is_read_in_place(tmp_path: Path) -> None:
    """`H5df` reads it as `open_daf` does, by path and as an open file."""
    path = Path(shutil.copy(PBMC, tmp_path / "x.h5df"))
    with h5py.File(path) as file, pytest.warns(UnsafeAlignmentWarning):
        assert "obs" in H5df(file).axes_set()
    for opening in (open_daf, H5df):
        with opening(path) as daf:
            assert "obs" in daf.axes_set()


def test_what_a_crash_left_is_cleared(path: Path) -> None:
    """The staging group of a dead writer goes with the next open for writing."""
    with h5py.File(path, "r+") as file:
        file["/.daf.staging/dead/new/x"] = 1
    with H5df(path) as daf:
        assert sorted(daf.tree.children("")) == ["axes", "daf", "matrices", "scalars", "vectors"]
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        daf.tree.children("")
    H5df(path, "r+").close()
    with h5py.File(path) as file:
        assert ".daf.staging" not in file


def test_a_group_that_is_missing(path: Path) -> None:
    """It is added by a repair, as in a directory."""
    with h5py.File(path, "r+") as file:
        del file["vectors/cell"]
    assert repair(path).done == ("added the group vectors/cell, which was missing",)
    assert H5df(path).vectors_set("cell") == set()


@pytest.mark.parametrize("block", [1, 3, 7, 100])
def test_strings_go_in_and_out_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Of vectors and of matrices, however few at a time; and none at all."""
    lower(monkeypatch, read_strings=block, written_strings=block)
    names = [f"naïve {n}" for n in range(10)]
    matrix = np.array([[f"{n}-{m}" for m in range(4)] for n in range(10)], dtype=object)
    daf = H5df(tmp_path / "x.h5df", "w")
    daf.add_axis("cell", names)
    daf.add_axis("gene", list("abcd"))
    daf.add_axis("none", [])
    daf.set_matrix("cell", "gene", "labels", matrix)
    daf.set_matrix("none", "gene", "labels", np.empty((0, 4), dtype=object))
    daf.set_scalar("s", "text")
    assert daf.axis_entries("cell").tolist() == names
    assert daf.axis_entries("none").tolist() == []
    assert daf.get_np_matrix("cell", "gene", "labels").tolist() == matrix.tolist()
    assert daf.get_np_matrix("gene", "cell", "labels").tolist() == matrix.T.tolist()
    assert daf.get_scalar("s") == "text"
    with pytest.raises(errors.UnsupportedInputError, match="end at the first NUL"):
        daf.set_vector("cell", "text", [*names[:9], "a\0b"])
    assert daf.vectors_set("cell") == set()
    daf.set_vector("cell", "text", names)


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_file_that_this_process_changes_meanwhile_is_not_one_that_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shrinks: bool
) -> None:
    """Another thread writes between looking at the length and comparing it."""
    status = Hdf5File.status
    states: list[int] = []

    def overtaken(self: Hdf5File) -> Any:
        found = status(self)
        if not states and found is not None:
            states.append(found.st_size)
            if shrinks:  # as HDF5 does in the middle of a flush
                return os.stat_result((*found[:6], 10, *found[7:]))
            file.create_dataset("large", data=np.ones(100_000))
            shared.flush()
        return found

    with h5py.File(tmp_path / "x.h5df", "w") as file:
        file.create_dataset("small", data=np.ones(1000))
        file.flush()
        shared = Hdf5File(file, location="x.h5df", inode=(1, 1))
        monkeypatch.setattr(Hdf5File, "status", overtaken)
        shared.check_length(what="x.h5df")
        assert states
        monkeypatch.undo()
        os.truncate(tmp_path / "x.h5df", 100)
        with pytest.raises(errors.CorruptDataError, match="another program has cut it"):
            shared.check_length(what="x.h5df")
        os.truncate(tmp_path / "x.h5df", states[0])


def test_a_file_that_another_one_has_replaced(path: Path, tmp_path: Path) -> None:
    """The open one is read on, and nothing stays open of the other."""
    daf = H5df(path)
    expected = daf.get_np_vector("cell", "age").tolist()
    other = tmp_path / "other.h5df"
    shutil.copyfile(path, other)
    with h5py.File(other, "r+") as file:
        file["vectors/cell/age"][...] = [1, 2, 3]
    path.rename(tmp_path / "aside.h5df")
    other.rename(path)
    before = open_descriptors()
    for _ in range(5):
        assert daf.open_vector("cell", "age").read(Span(0, 3)).tolist() == expected
    assert open_descriptors() == before


@pytest.mark.parametrize("chunks", [None, (1,)])
def test_elements_that_another_program_has_taken_away(path: Path, chunks: Any) -> None:
    """An array that was opened before is an error, and not what is there instead."""
    changed = path.with_name("changed.h5df")
    shutil.copyfile(path, changed)
    with h5py.File(changed, "r+") as file:
        del file["vectors/cell/age"]
        if chunks:
            file.create_dataset("vectors/cell/age", data=[1, 2, 3], chunks=chunks)
    with H5df(path) as daf:
        ages = daf.open_vector("cell", "age").dense()
        assert ages.read().tolist() == [30, 60, 90]
        path.write_bytes(changed.read_bytes())
        assert daf.get_scalar("organism") == "human"
        with pytest.raises(errors.DafError, match=r"age.* (any more|open it again)"):
            ages.read()


@pytest.mark.parametrize("mask", [0, 1, 2, 3])
def test_chunks_of_which_filters_were_left_out(
    path: Path, monkeypatch: pytest.MonkeyPatch, mask: int
) -> None:
    """HDF5 may store single chunks without compression, or without shuffling."""
    lower(monkeypatch, free_bytes=1, deflate_ratio=1 << 40)
    values = np.array([30, 60, 90], "<i8")
    data = values.view(np.uint8).reshape(3, 8)
    shuffled = data if mask & 1 else data.T
    raw = shuffled.tobytes() if mask & 2 else zlib.compress(shuffled.tobytes())
    with h5py.File(path, "r+") as file:
        del file["vectors/cell/age"]
        dataset = file.create_dataset(
            "vectors/cell/age", (3,), "<i8", chunks=(3,), compression="gzip", shuffle=True
        )
        dataset.id.write_direct_chunk((0,), raw, filter_mask=mask)
    assert H5df(path).get_np_vector("cell", "age").tolist() == [30, 60, 90]


def test_elements_up_to_the_end_of_the_file(path: Path) -> None:
    """No more than the file has may be said to be there."""
    daf = H5df(path)
    array: Any = daf.open_vector("cell", "age").dense()
    end = path.stat().st_size
    array.check_stored()
    for offset in (0, 100, end):
        array._check_size(offset, end - offset)
        with pytest.raises(errors.CorruptDataError, match="the file is truncated"):
            array._check_size(offset, end - offset + 1)


def test_a_read_that_failed_is_tried_again_if_the_file_was_opened_again(path: Path) -> None:
    """Another thread may do that meanwhile; any other failure is an error at once."""
    daf = H5df(path)
    array: Any = daf.open_vector("cell", "age").dense()
    calls = []

    def interrupted() -> int:
        calls.append(1)
        if len(calls) == 1:
            array.shared.file.close()
            array.shared.file = h5py.File(path)
            raise OSError("interrupted")
        return int(array.held.get()[1])

    def broken() -> int:
        calls.append(1)
        raise OSError("broken")

    assert (array.attempt(interrupted), len(calls)) == (60, 2)
    with pytest.raises(errors.CorruptDataError, match="broken"):
        array.attempt(broken)
    assert len(calls) == 3


def test_reading_strings_leaves_nothing_open(path: Path) -> None:
    """Also not the descriptor by which their heaps are checked."""
    with H5df(path) as daf:
        daf.get_pa_vector("gene", "name")
        before = open_descriptors()
        for _ in range(5):
            assert daf.get_pa_vector("cell", "type").to_pylist() == ["Bcell", "TCell", "TCell"]
            daf.open_vector("cell", "type").read_strings()
        assert open_descriptors() == before


def test_what_was_stored_is_in_the_file(path: Path, tmp_path: Path) -> None:
    """As soon as the call returns, for whoever copies the file, or if the process dies."""
    with H5df(path, "r+") as daf:
        daf.set_vector("cell", "new", [1, 2, 3])
        shutil.copyfile(path, tmp_path / "copy.h5df")
        daf.set_scalar("later", 5)
        shutil.copyfile(path, tmp_path / "later.h5df")
    assert H5df(tmp_path / "copy.h5df").get_np_vector("cell", "new").tolist() == [1, 2, 3]
    assert H5df(tmp_path / "later.h5df").get_scalar("later") == 5
