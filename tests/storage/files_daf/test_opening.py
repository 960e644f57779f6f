"""Tests of which path, mode and name mean what for data sets of plain files."""

from __future__ import annotations

import json
import pickle
import re
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_query.index import build_index
from daf_storage import DafReader, FilesDaf, chain_reader, errors, open_daf, repair, verify
from daf_storage.files_daf import WritableFilesTree
from tests.limits import lower
from tests.support import contents, data_set, fill, served


def test_names(tmp_path: Path) -> None:
    """The argument, the scalar, or the path; and names whose files would be parts of others."""
    path = tmp_path / "x.daf"
    with FilesDaf(path, "w") as daf:
        assert daf.name.startswith(str(path))
        daf.set_scalar("name", "atlas of names")
        daf.add_axis("cell", ["a"])
        for name in ("x.nzind", "x.colptr.zip"):
            with pytest.raises(errors.InvalidNameError, match="parts of sparse properties"):
                daf.set_vector("cell", name, [1])
        daf.set_vector("cell", "x.json", [1])
        daf.set_vector("cell", "x", ["one"])
        assert daf.vectors_set("cell") == {"x", "x.json"}
    reader = FilesDaf(path)
    assert reader.name.startswith("atlas of names.read_only")
    again = pickle.loads(pickle.dumps(reader))
    assert isinstance(again, DafReader)
    assert again.get_np_vector("cell", "x").tolist() == ["one"]
    assert FilesDaf(path, name="mine!").name == "mine!.read_only"


@pytest.mark.parametrize("name", ["x.daf", "x"])
def test_servers(tmp_path: Path, name: str) -> None:
    """Both files at the root are needed; nothing is written there."""
    path = tmp_path / name
    data_set(FilesDaf(path, "w"), cell={"name": ["a", "b"], "age": [1, 2]}).close()
    with served(path) as server:
        with FilesDaf(server.url) as daf:
            assert daf.get_np_vector("cell", "age").tolist() == [1, 2]
            assert daf.axis_length("cell") == 2
        assert verify(server.url) == []
        with pytest.raises(errors.ReadOnlyError, match=r"data set on a server in mode: r\+"):
            FilesDaf(server.url, "r+")
        for damage, problem in {
            "{": "metadata.json: it is not JSON .*: line 1 column 2",
            "[]": "metadata.json: it holds no JSON object",
            '{"vectors/cell/age": []}': "of 'vectors/cell/age' is no JSON object",
        }.items():
            (path / "metadata.json").write_text(damage)
            with pytest.raises(errors.CorruptDataError, match=problem):
                FilesDaf(server.url)
            [finding] = verify(path)
            assert re.search(problem, finding.problem)
        (path / "metadata.json").unlink()
        with pytest.raises(errors.NotADafError, match="has no metadata.json there, and both"):
            FilesDaf(server.url)


@pytest.mark.parametrize("name", ["x.daf", "x.daf.zip"])
def test_queries_and_indexes(tmp_path: Path, name: str) -> None:
    """SQL, slices and indexes, which lie in a hidden directory and go stale with the vector.

    A session of a chain sees what is set in it, though the axis is that of another member.
    """
    with FilesDaf(tmp_path / name, "w") as daf:
        donors = [f"n{n % 7}" for n in range(100)]
        data_set(daf, cell={"name": 100, "donor": donors}, gene=["g", "h"])
        daf.set_matrix("cell", "gene", "X", np.arange(200).reshape(100, 2))
        build_index(daf, "cell", ["donor"], progress="never")
    assert verify(tmp_path / name) == []
    with connect(tmp_path / name) as db:
        query = "SELECT count(*), sum(X['h']) FROM cell WHERE donor = 'n3'"
        expected = [(14, sum(2 * n + 1 for n in range(3, 100, 7)))]
        assert [tuple(row.values()) for row in db.sql(query).to_pylist()] == expected
        found = db.matrix("cell", "gene", "X", rows="donor = 'n6'", columns=["h"])
        assert found.to_numpy().tolist() == [[2 * n + 1] for n in range(6, 100, 7)]
    if name == "x.daf":
        assert (tmp_path / name / ".daf.indexes").is_dir()
        with open_daf(tmp_path / name, "r+") as daf:
            daf.set_vector("cell", "donor", ["n3"] * 100, if_exists="replace")
        assert [f.level for f in verify(tmp_path / name)] == ["warning"]
        with connect(tmp_path / name) as db:
            rows = db.sql("SELECT count(*) AS n FROM cell WHERE donor = 'n3'")
            assert rows.to_pylist() == [{"n": 100}]
    first = data_set(cell=100)
    with open_daf(tmp_path / name, "r+") as daf, connect(chain_reader([first, daf])) as db:
        assert "age" not in db.sql("SELECT * FROM cell").to_pydict()
        daf.set_vector("cell", "age", np.arange(100))
        assert "age" in db.sql("SELECT * FROM cell").to_pydict()


def test_a_document_that_another_program_rewrites_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions see the new type, though no name in the directory came or went."""
    lower(monkeypatch, unsettled_seconds=0)
    path = tmp_path / "x.daf"
    with FilesDaf(path, "w") as daf:
        daf.add_axis("cell", ["A", "B"], vectors={"age": np.array([1, 2])})
    document = path / "vectors/cell/age.json"
    time.sleep(0.11)  # until the times of the files tell versions apart
    with connect(path) as db:
        assert db.sql("SELECT age FROM cell").to_pydict() == {"age": [1, 2]}
        document.write_text(document.read_text().replace("Int64", "Float64"))
        document.with_suffix(".data").write_bytes(np.array([1.5, 2.5]).tobytes())
        assert db.sql("SELECT age FROM cell").to_pydict() == {"age": [1.5, 2.5]}


def test_metadata_file_of_another_program(tmp_path: Path) -> None:
    """What is behind is written again by the next writer; verify says what differs."""
    path = tmp_path / "x.daf"
    data_set(FilesDaf(path, "w"), cell={"name": ["a", "b"], "age": [1, 2]}).close()
    good = (path / "metadata.json").read_bytes()
    for data in (b"{}", b"[", b'{"axes/cell":5}', good.replace(b":2", b":3")):
        (path / "metadata.json").write_bytes(data)
        assert verify(path) != []
        tree: Any = FilesDaf(path, "r+").writable_tree
        assert isinstance(tree, WritableFilesTree)
        if data.startswith(b'{"axes/cell":{'):  # the names are right, so only repair looks closer
            tree.refresh()
        assert (path / "metadata.json").read_bytes() == good


@pytest.mark.parametrize("path", ["x.daf", "x.daf.zip"])
def test_names_that_leave_no_room_for_those_of_files(tmp_path: Path, path: str) -> None:
    """Are refused before anything is written, and not there when they are asked for."""
    sparse = sp.csc_array(np.eye(2))
    with open_daf(tmp_path / path, "w") as daf:
        daf.add_axis("cell", ["a", "b"])
        for length in (244, 245, 250, 251, 255):
            name = "é" + "x" * (length - 2)
            calls: list[tuple[int, Callable[[], None]]] = [
                (244, partial(daf.set_vector, "cell", name, sparse[:, [0]])),
                (244, partial(daf.set_matrix, "cell", "cell", name, sparse)),
                (250, partial(daf.set_scalar, name, 1)),
                (250, partial(daf.add_axis, name, ["a"])),
            ]
            for most, call in calls:
                if length <= most:
                    call()
                else:
                    with pytest.raises(errors.InvalidNameError, match=f"have room for {most}"):
                        call()
            assert daf.has_scalar(name) == daf.has_axis(name) == (length <= 250)
            assert daf.has_vector("cell", name) == (length <= 244)
    assert verify(tmp_path / path) == []


@pytest.mark.parametrize("name", ["x.daf", "x.daf.zarr"])
def test_an_interrupted_reordering_of_the_reference(tmp_path: Path, name: str) -> None:
    """It is neither read nor written: the reference puts back what was there."""
    with open_daf(tmp_path / name, "w") as daf:
        daf.add_axis("cell", ["a", "b", "c"])
    (tmp_path / name / ".reorder.backup").mkdir()
    for call in (open_daf, lambda path: open_daf(path, "r+"), repair):
        with pytest.raises(errors.CorruptDataError, match="do not belong together"):
            call(tmp_path / name)
    open_daf(tmp_path / name, "w").close()


def test_metadata_file_after_something_is_deleted_or_replaced(tmp_path: Path) -> None:
    """It is taken out of the list at once, whatever it was, with all that belonged to it."""
    path = tmp_path / "x.daf"

    def listed() -> set[str]:
        return set(json.loads((path / "metadata.json").read_text()))

    with FilesDaf(path, "w") as daf:
        daf.set_scalar("n", 1)
        data_set(daf, gene=["x"], cell={"name": ["a", "b"], "age": [1, 2]})
        daf.set_matrix("cell", "gene", "m", [[1], [2]], relayout=False)
        assert {"scalars/n", "vectors/cell/age"} < listed()
        daf.delete_scalar("n")
        daf.delete_vector("cell", "age")
        assert listed() == {"axes/cell", "axes/gene", "matrices/cell/gene/m"}
        daf.delete_matrix("cell", "gene", "m")
        assert listed() == {"axes/cell", "axes/gene"}
        daf.add_axis("cell", ["c"], vectors={"n": [3]}, if_exists="replace")
        daf.set_matrix("cell", "gene", "m", [[1]])
        assert listed() > {"axes/cell", "axes/gene", "vectors/cell/n", "matrices/gene/cell/m"}
        daf.add_axis("cell", ["c"], if_exists="replace")
        assert listed() == {"axes/cell", "axes/gene"}
        daf.delete_axis("gene")
        assert listed() == {"axes/cell"}
        assert verify(path) == []


def test_archives_that_another_program_has_compressed(tmp_path: Path) -> None:
    """They read as before."""
    path, compressed = tmp_path / "x.daf.zip", tmp_path / "y.daf.zip"
    with FilesDaf(path, "w") as daf:
        fill(daf).add_axis("more", map(str, range(2000)), vectors={"age": np.arange(2000.0)})
        before = contents(daf)
    with (
        zipfile.ZipFile(path) as old,
        zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert contents(open_daf(compressed)) == before
    assert verify(compressed) == []
