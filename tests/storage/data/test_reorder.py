"""Tests of reordering axes: by SQL, against scipy, and stopped at every point."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from daf_query import connect
from daf_query.cli import main
from daf_storage import DafWriter, RecoveryWarning, ZarrDaf, errors, open_daf, repair, verify
from daf_storage.stores import DirectoryStore
from tests import seams
from tests.limits import lower
from tests.storage.data.test_crashes import Crash
from tests.suites.changing_suite import reordered
from tests.support import contents, data_set, dense, fill_served, filled, reopen


@given(st.data())
def test_sparse_matrices_equal_scipy(data: st.DataObject) -> None:
    """Any shape and density, either axis or both, in blocks of any size."""
    n_rows, n_columns = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    matrix = sp.random_array(
        (n_rows, n_columns),
        density=data.draw(st.sampled_from([0, 0.1, 0.9])),
        rng=rng,
        format="csc",
    )
    is_bool = data.draw(st.booleans())
    daf = data_set(cell=n_rows, gene=n_columns)
    daf.set_matrix("cell", "gene", "m", matrix.astype(bool) if is_bool else matrix)
    expected = dense(daf.get_np_matrix("cell", "gene", "m"))
    with pytest.MonkeyPatch.context() as patch:
        lower(patch, copied_bytes=data.draw(st.sampled_from([1, 700, 1 << 20])), thread_bytes=1)
        for axis, length in (("cell", n_rows), ("gene", n_columns)):
            order = rng.permutation(length)
            daf.reorder_axis(axis, order)
            expected = expected[order] if axis == "cell" else expected[:, order]
    for axes, values in ((("cell", "gene"), expected), (("gene", "cell"), expected.T)):
        found = daf.get_np_matrix(*axes, "m")
        assert sp.issparse(found)
        assert found.has_canonical_format
        assert np.array_equal(dense(found), values)


@pytest.fixture
def daf(tiny_path: Path) -> DafWriter:
    """Return a data set to change."""
    return reopen(tiny_path)


def test_an_sql_order(tiny_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As people sort: by columns; equal entries keep their order; also on the command line."""
    assert main(["reorder", str(tiny_path), "cell", "--by", "type DESC, age DESC"]) == 0
    assert "reordered axis cell of" in capsys.readouterr().out
    assert open_daf(tiny_path).axis_entries("cell").tolist() == ["CATA", "GATA", "TATA"]
    with connect(reopen(tiny_path)) as db:
        db.reorder_axis("cell", "type")
        assert db.sql("SELECT name, age FROM cell").to_pydict() == {
            "name": ["TATA", "CATA", "GATA"],
            "age": [30, 90, 60],
        }
        db.reorder_axis("cell", "SELECT name FROM cell ORDER BY age")
        assert db.sql("SELECT name FROM cell").to_pydict() == {"name": ["TATA", "GATA", "CATA"]}


ORDER = [2, 0, 1]


def test_what_a_crash_left_is_told_and_cleared(
    daf: DafWriter, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verify says so, the data is as before; the next writer, a repair and another order clear it."""
    before = contents(daf)

    for finish in (
        lambda: reopen(tiny_path).close(),
        lambda: repair(tiny_path),
        lambda: daf.reorder_axis("cell", [1, 0, 2]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(seams.WRITE_MATRIX, mock.Mock(side_effect=Crash))
            patch.setattr(shutil, "rmtree", lambda *_, **__: None)
            with pytest.raises(Crash):
                daf.reorder_axis("gene", [3, 2, 1, 0])
        assert list(tmp_path.glob(".tiny.daf.zarr.*"))
        assert contents(ZarrDaf(tiny_path)) == before
        assert "was killed" in str(verify(tiny_path)[0])
        finish()
        assert not list(tmp_path.glob(".tiny.daf.zarr.*"))
        assert verify(tiny_path) == []
    assert contents(daf) == reordered(before, "cell", [1, 0, 2])


def test_an_error_leaves_nothing_behind(
    daf: DafWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, say."""
    before = contents(daf)

    full = OSError(28, "No space left on device")
    monkeypatch.setattr(seams.WRITE_MATRIX, mock.Mock(side_effect=full))
    with pytest.raises(OSError, match="No space left"):
        daf.reorder_axis("cell", ORDER)
    assert contents(daf) == before
    assert not list(tmp_path.glob(".tiny.daf.zarr.*"))


def test_readers_keep_what_they_have(tmp_path: Path) -> None:
    """Arrays stay valid; a reader that is open finds the new order; files are not copied."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path, fill_served)
    reader = ZarrDaf(path)
    ages = reader.get_np_vector("cell", "score")
    pinned = reader.open_matrix("cell", "gene", "sparse_UMIs")
    inode = (path / "vectors/gene/marker/0").stat().st_ino
    daf.reorder_axis("cell", ORDER)
    assert ages.tolist()[:2] == [1, 2]
    assert pinned.entries("nzval").read().size == 9
    assert reader.get_np_vector("cell", "score").tolist()[1:] == [1, 2]
    assert reader.axis_entries("cell").tolist() == ["CATA", "TATA", "GATA"]
    assert (path / "vectors/gene/marker/0").stat().st_ino == inode
    del pinned, ages
    daf.set_scalar("x", 1)
    assert not (path / ".daf.staging").exists()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What the path points to is reordered."""
    path = tmp_path / "real.daf.zarr"
    before = contents(filled(path))
    link = tmp_path / "link.daf.zarr"
    link.symlink_to(path)
    reopen(link).reorder_axis("cell", ORDER)
    assert link.is_symlink()
    assert contents(ZarrDaf(path)) == contents(ZarrDaf(link)) == reordered(before, "cell", ORDER)


def test_other_writers(daf: DafWriter, tiny_path: Path) -> None:
    """Their unfinished work would be lost, so it is refused."""
    with (
        DirectoryStore(tiny_path).transaction(),
        pytest.raises(errors.InUseError, match="another writer"),
    ):
        daf.reorder_axis("cell", ORDER)
    daf.reorder_axis("cell", ORDER)


def test_without_permission_beside_it(daf: DafWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made beside the directory, and the error says so."""
    mkdir = Path.mkdir

    def refuse(self: Path, *args: Any, **kwargs: Any) -> None:
        if self.name.endswith(".daf-tmp"):
            raise PermissionError(13, "Permission denied")
        mkdir(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(errors.ReadOnlyError, match="permission to write in the directory"):
        daf.reorder_axis("cell", ORDER)


def test_without_hard_links(
    daf: DafWriter, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are copied where the file system has none."""
    before = contents(daf)

    monkeypatch.setattr(os, "link", mock.Mock(side_effect=OSError(1, "Operation not permitted")))
    copied = shutil.copyfile
    done: list[int] = []

    def stop(source: Any, target: Any) -> Any:
        done.append(1)
        if len(done) == 3:
            Path(target).write_bytes(Path(source).read_bytes()[:1])
            raise Crash
        return copied(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", stop)
        with pytest.raises(Crash):
            daf.reorder_axis("cell", ORDER)
    daf.reorder_axis("cell", ORDER)
    assert contents(ZarrDaf(tiny_path)) == reordered(before, "cell", ORDER)
    assert verify(tiny_path) == []


def test_permissions_stay(daf: DafWriter, tiny_path: Path) -> None:
    """Those of the directories, which are made again, too: a lab shares them by group."""
    tiny_path.chmod(0o2770)
    (tiny_path / "vectors").chmod(0o750)
    daf.reorder_axis("cell", ORDER)
    assert tiny_path.stat().st_mode & 0o7777 == 0o2770
    assert (tiny_path / "vectors").stat().st_mode & 0o7777 == 0o750


def test_an_hdf5_file_whose_writer_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever HDF5 had written all: it has one order; half an order is not read, but undone."""
    daf, flush = filled(tmp_path / "x.h5df"), seams.real(seams.HDF5_FLUSH)
    before, copies, refused = contents(daf), list[Path](), list[Path]()

    def copied(file: Any) -> None:
        flush(file)
        copies.append(tmp_path / f"{len(copies)}.h5df")
        shutil.copyfile(tmp_path / "x.h5df", copies[-1])

    with monkeypatch.context() as patch:
        patch.setattr(seams.HDF5_FLUSH, copied)
        daf.reorder_axis("cell", ORDER)
    for path in copies:
        try:
            open_daf(path).close()
        except errors.CorruptDataError:
            refused.append(path)
    with pytest.warns(RecoveryWarning, match="a writer was stopped") as warned:
        found = [contents(open_daf(path, "r+")) for path in copies]
    assert len(refused) == len(warned) > 1
    after = reordered(before, "cell", ORDER)
    assert [found[0], found[-1]] == [before, after]
    assert all(each in (before, after) for each in found)
