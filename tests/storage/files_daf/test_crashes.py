"""Tests of changes that are interrupted, and of readers beside a writer."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import (
    DafWriter,
    FilesDaf,
    RecoveryWarning,
    errors,
    open_daf,
    repair,
    verify,
)
from tests.suites.examples import contents

OLD = sp.csc_array(np.array([[0, 1.0, 0], [2.0, 0, 0]]))
NEW = sp.csc_array(np.array([[3.0, 0, 0], [0, 4.0, 5.0]]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a small data set."""
    with FilesDaf(tmp_path / "x.daf", "w") as daf:
        daf.add_axis("cell", ["a", "b"])
        daf.add_axis("gene", ["g", "h", "i"])
        daf.set_vector("gene", "word", ["x", "y", "z"])
        daf.set_matrix("cell", "gene", "m", OLD, relayout=False)
    return tmp_path / "x.daf"


def _batch(daf: DafWriter) -> None:
    """Replace a matrix."""
    with daf.batch():
        daf.set_matrix("cell", "gene", "m", NEW, if_exists="replace", relayout=False)


CHANGES: dict[str, Callable[[DafWriter], None]] = {
    "sparse by dense": lambda daf: daf.set_matrix(
        "cell", "gene", "m", NEW.toarray(), if_exists="replace", relayout=False
    ),
    "sparse by sparse": lambda daf: daf.set_matrix(
        "cell", "gene", "m", NEW, if_exists="replace", relayout=False
    ),
    "new": lambda daf: daf.set_vector("gene", "n", sp.coo_array([0, 1, 2])),
    "delete": lambda daf: daf.delete_matrix("cell", "gene", "m"),
    "axis": lambda daf: daf.add_axis("gene", ["new"], vectors={"v": ["w"]}, if_exists="replace"),
    "batch": _batch,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CHANGES)
def test_a_crash_leaves_the_old_or_the_new(path: Path, name: str, tmp_path: Path) -> None:
    """Wherever a change is interrupted, for whoever opens it for writing after that."""
    with open_daf(path) as daf:
        before = contents(daf)
    reference = FilesDaf(tmp_path / "reference.daf", "w")
    shutil.copytree(path, tmp_path / "reference.daf", dirs_exist_ok=True)
    CHANGES[name](reference)
    after = contents(reference)
    for number in range(200):
        copy = tmp_path / f"{number}.daf"
        shutil.copytree(path, copy)
        if not crashes(copy, CHANGES[name], number):
            break
        try:
            with open_daf(copy) as daf:
                assert contents(daf) in (before, after)
        except errors.SourceNotFoundError:
            assert name == "axis"
        if number % 2:
            repair(copy, progress="never")
            assert verify(copy) == []
        with open_daf(copy, "r+") as daf:
            assert contents(daf) in (before, after)
    assert number > 1
    with open_daf(copy) as daf:
        assert contents(daf) == after


def test_a_reorder_that_goes_on_after_a_crash_lists_everything(path: Path, tmp_path: Path) -> None:
    """Also if it was killed between its last property and the list of all of them."""

    def reorder(daf: DafWriter) -> None:
        daf.reorder_axis("gene", [2, 0, 1], progress="never")

    listed = json.loads((path / "metadata.json").read_text())
    for number in range(200):
        copy = tmp_path / f"{number}.daf"
        shutil.copytree(path, copy)
        was_killed = crashes(copy, reorder, number, calls=("rename", "replace"))
        with open_daf(copy, "r+") as daf:
            if daf.axis_entries("gene")[0] == "g":
                reorder(daf)
            assert daf.get_np_vector("gene", "word").tolist() == ["z", "x", "y"]
        assert json.loads((copy / "metadata.json").read_text()) == listed
        if not was_killed:
            break
    assert number > 1


def crashes(
    path: Path,
    change: Callable[[DafWriter], None],
    number: int,
    *,
    calls: Iterable[str] = ("rename", "replace", "link", "unlink"),
) -> bool:
    """Make a change in another process that is killed before the n-th change of a name; say if it was."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    left = [number]

    def dying(call: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*args: object, **options: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                os._exit(1)
            call(*args, **options)

        return wrapped

    try:
        daf = open_daf(path, "r+")
        for name in calls:
            setattr(os, name, dying(getattr(os, name)))
        change(daf)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the parent counts
        os._exit(2)


def test_what_another_program_left_half_done_in_an_archive(tmp_path: Path) -> None:
    """A document without its data is taken out, of which the next writer is warned."""
    path = tmp_path / "x.daf.zip"
    with FilesDaf(path, "w") as daf:
        daf.add_axis("cell", ["a", "b"])
        daf.set_vector("cell", "age", [1, 2])
        store = daf.writable_tree._store  # type: ignore[attr-defined] # of this implementation
        store.append("vectors/cell/half.json", b'{"format":"dense","eltype":"Int64"}\n')
    assert {f.path for f in verify(path)} == {"vectors/cell/half"}
    other = shutil.copy(path, tmp_path / "y.daf.zip")
    with pytest.warns(RecoveryWarning, match="vector 'half' of axis 'cell' could not be read"):
        open_daf(other, "r+").close()
    assert {found.level for found in verify(other)} == {"warning"}
    found = repair(path, progress="never")
    assert [damage.what for damage in found.lost] == ["vector 'half' of axis 'cell'"]
    assert [f.problem for f in verify(path) if "belong to no entry" not in f.problem] == []
    with open_daf(path) as daf:
        assert daf.get_np_vector("cell", "age").tolist() == [1, 2]
        assert daf.vectors_set("cell") == {"age"}


def test_data_without_its_document_in_an_archive(tmp_path: Path) -> None:
    """The data goes with a document that is damaged, and nothing else does."""
    path = tmp_path / "x.daf.zip"
    document = b'{"format":"dense","eltype":"Int32"}\n'
    with FilesDaf(path, "w") as daf:
        daf.add_axis("cell", ["a", "b"])
        daf.set_vector("cell", "age", [1, 2])
        store = daf.writable_tree._store  # type: ignore[attr-defined] # of this implementation
        store.append("vectors/cell/half.data", bytes(8))
        store.append("vectors/cell/half.json", document)
    data = bytearray(path.read_bytes())
    at = data.index(document)
    data[at : at + len(document)] = bytes(len(document))
    header = data.rindex(b"PK\x03\x04", 0, at)
    data[header : header + 4] = b"lost"
    path.write_bytes(bytes(data))
    found = repair(path, progress="never")
    assert [damage.what for damage in found.lost] == ["vector 'half' of axis 'cell'"]
    assert [f.problem for f in verify(path) if "belong to no entry" not in f.problem] == []
    with zipfile.ZipFile(path) as archive:
        assert [name for name in archive.namelist() if "half" in name] == []
    with open_daf(path) as opened:
        assert opened.get_np_vector("cell", "age").tolist() == [1, 2]
        assert opened.vectors_set("cell") == {"age"}
