"""Tests of data sets of plain files: the suites of all formats, and what is this one's alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import scipy.sparse as sp

from daf_storage import DafReader, open_daf
from daf_storage.files_daf import WritableFilesTree
from daf_storage.stores import DirectoryStore
from daf_storage.trees import WritableTree
from tests.suites import AppendOnlyDafSuite, ChangingDafSuite, ChangingTreeSuite, ReadOnlyDafSuite
from tests.suites.examples import fill_served
from tests.support import data_set, filled, served, there


class TestTree(ChangingTreeSuite):
    @pytest.fixture
    def tree(self, tmp_path: Path) -> WritableTree:
        """Return a tree over an empty directory."""
        tree = WritableFilesTree(DirectoryStore(tmp_path))
        with tree.transaction() as changes:
            changes.mark("daf", (1, 0))
        return tree


class TestDirectory(ChangingDafSuite):
    location = "x.daf"


@pytest.mark.sampled(1)
class TestSharedArchive(AppendOnlyDafSuite):
    location = "x.dafs.zip#/new"
    beside = ("x.dafs.zip#/old",)


class TestReading(ReadOnlyDafSuite):
    @pytest.fixture(params=["local", "served", "served archive"])
    def daf(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DafReader]:
        """Return a data set that is read."""
        name = "x.daf.zip" if "archive" in request.param else "x.daf"
        path = tmp_path / name
        filled(path, fill_served).close()
        is_served = "served" in request.param
        with served(path) as server, open_daf(server.url if is_served else path) as daf:
            yield daf


@pytest.mark.parametrize("name", ["x.daf", "x.daf.zip"])
def test_a_node_is_the_same_as_itself_alone(tmp_path: Path, name: str) -> None:
    """Not as another property of the data set, nor as that of another data set."""
    opened = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        with open_daf(tmp_path / folder / name, "w") as daf:
            data_set(daf, cell={"name": 2, "x": [1, 2], "y": [1, 2]})
        opened.append(open_daf(tmp_path / folder / name))
    tree, other = (daf.tree for daf in opened)
    x = there(tree.node("vectors/cell/x"))
    assert x.place == there(tree.node("vectors/cell/x")).place
    assert x.place != there(tree.node("vectors/cell/y")).place
    assert x.place != there(other.node("vectors/cell/x")).place
    for path in ("vectors/cell", "axes"):
        group = there(tree.node(path))
        assert group.place == there(tree.node(path)).place
        assert group.place not in (there(other.node(path)).place, x.place)
    for each in opened:
        each.close()


@pytest.mark.parametrize("name", ["x.daf", "x.daf.zip"])
def test_sparse_properties_are_groups_and_dense_ones_arrays(tmp_path: Path, name: str) -> None:
    """By their documents on a server, where what is listed are no other files."""
    with open_daf(tmp_path / name, "w") as daf:
        data_set(daf, cell={"name": 3, "dense": [1, 2, 3], "sparse": sp.coo_array([0, 0, 2])})
    with served(tmp_path / name) as server:
        for path in (tmp_path / name, server.url):
            with open_daf(path) as opened:
                kinds = opened.tree.children("vectors/cell")
            assert kinds == {"dense": "array", "sparse": "group"}
