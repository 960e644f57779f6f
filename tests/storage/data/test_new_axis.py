"""Tests of axes that are added with their vectors, all of it or nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_query.index import build_index
from daf_storage import DafReader, DafWriter, MemoryDaf, errors, open_daf, verify
from tests import seams
from tests.support import contents, dense, fill, filled

FORMATS = ("memory", "mapping", "daf.zarr", "v3.daf.zarr", "daf.zarr.zip", "h5df")
REPLACING = tuple(name for name in FORMATS if name != "daf.zarr.zip")


@pytest.fixture(params=FORMATS)
def daf(request: pytest.FixtureRequest, tmp_path: Path) -> DafWriter:
    """Return a data set with cells and genes, in each format."""
    return _filled(request.param, tmp_path)


def _filled(name: str, tmp_path: Path) -> DafWriter:
    if name == "memory":
        return fill(MemoryDaf())
    if name == "mapping":
        return fill(open_daf({}, "w"))
    if name == "v3.daf.zarr":
        return filled(tmp_path / "x.daf.zarr", zarr_format=3)
    return filled(tmp_path / f"x.{name}")


def add_cluster(daf: DafWriter, **options: Any) -> None:
    """Add an axis with vectors of every encoding."""
    daf.add_axis(
        "cluster",
        ["B", "T"],
        vectors={
            "n": np.array([3, 5], "i4"),
            "mean": [0.5, np.nan],
            "label": pa.array(["b", ""]),
            "is_rare": sp.csr_array([[False, True]]),
        },
        empty_is_missing=["label"],
        **options,
    )


def check_cluster(daf: DafReader) -> None:
    """Compare what `add_cluster` has stored with what it was given."""
    assert daf.axis_entries("cluster").tolist() == ["B", "T"]
    assert daf.vectors_set("cluster") == {"n", "mean", "label", "is_rare"}
    assert daf.get_np_vector("cluster", "n").tolist() == [3, 5]
    assert str(daf.get_np_vector("cluster", "mean").tolist()) == "[0.5, nan]"
    assert daf.get_np_vector("cluster", "label").tolist() == ["b", ""]
    assert daf.get_np_vector("cluster", "is_rare").tolist() == [False, True]


def test_an_axis_comes_with_its_properties(daf: DafWriter, tmp_path: Path) -> None:
    """Vectors of every encoding; what was there stays."""
    before = contents(daf)
    add_cluster(daf)
    check_cluster(daf)
    for path in tmp_path.iterdir():  # whoever opens the file finds all of it
        with open_daf(path) as found:
            check_cluster(found)
        assert [f for f in verify(path) if f.level == "error"] == []
    daf.delete_axis("cluster") if not daf.is_append_only else None
    assert daf.is_append_only or contents(daf) == before


@pytest.mark.parametrize("daf", REPLACING, indirect=True)
def test_replacing_takes_the_old_properties_away(daf: DafWriter) -> None:
    """An axis of another length with vectors and matrices gives way to the new one as a whole."""
    daf.add_axis("cluster", ["1", "2", "3"], vectors={"n": [1, 2, 3], "old": ["x", "y", "z"]})
    daf.set_matrix("cluster", "gene", "old", 7.5)
    daf.set_matrix("cell", "cluster", "old", np.ones((3, 3)))
    daf.set_matrix("cluster", "cluster", "old", np.ones((3, 3)))
    others = {axis: daf.vectors_set(axis) for axis in ("cell", "gene")}
    counts = daf.get_np_matrix("cell", "gene", "UMIs")
    reader = daf.read_only()
    earlier = reader.get_np_vector("cluster", "n")
    add_cluster(daf, if_exists="replace")
    check_cluster(daf)
    check_cluster(reader)
    assert earlier.tolist() == [1, 2, 3]
    assert not daf.matrices_set("cell", "cluster")
    assert not daf.matrices_set("cluster", "cluster")
    assert not daf.matrices_set("cluster", "gene")
    assert {axis: daf.vectors_set(axis) for axis in others} == others
    assert dense(daf.get_np_matrix("cell", "gene", "UMIs")).tolist() == counts.tolist()


@pytest.mark.sampled(2)
def test_an_error_while_it_is_written_leaves_what_there_was(
    daf: DafWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever property fails to be written, of a new axis and of one that is replaced."""
    assert _failing_at_each_write(monkeypatch, daf) >= 8
    check_cluster(daf)
    if not daf.is_append_only:
        daf.add_axis("cluster", ["1", "2", "3"], vectors={"n": [1, 2, 3]}, if_exists="replace")
        assert _failing_at_each_write(monkeypatch, daf) >= 8
        check_cluster(daf)


def _failing_at_each_write(monkeypatch: pytest.MonkeyPatch, daf: DafWriter) -> int:
    """Let each step of putting the axis in place fail in turn; return how many steps there are."""
    publish, before = seams.real(seams.PUBLISH_AXIS), contents(daf)
    for at in range(1, 100):
        steps = itertools.count(1)

        def failing(tree: Any, changes: Any, *args: Any, **kwargs: Any) -> None:
            publish(tree, _FailingChanges(changes, steps, at), *args, **kwargs)  # noqa: B023 - used within this round

        with monkeypatch.context() as patch:
            patch.setattr(seams.PUBLISH_AXIS, failing)
            try:
                add_cluster(daf, if_exists="replace")
            except errors.StorageFullError:
                assert contents(daf) == before, at
            else:
                return at - 1
    return 0


class _FailingChanges:
    """A transaction of which each use is a step, and one of them fails."""

    def __init__(self, changes: Any, steps: Iterator[int], at: int) -> None:
        self._changes = changes
        self._steps = steps
        self._at = at

    def __getattr__(self, name: str) -> Any:
        if next(self._steps) == self._at:
            raise errors.StorageFullError("no space left")
        return getattr(self._changes, name)


@pytest.mark.parametrize("name", ["daf.zarr", "v3.daf.zarr", "h5df"])
def test_a_replaced_axis_on_the_disk(tmp_path: Path, name: str) -> None:
    """Whoever opens it later finds the new one alone, sound, and no index of the old one in use."""
    with _filled(name, tmp_path) as daf:
        daf.add_axis("cluster", ["1", "2"], vectors={"n": [3, 4], "old": ["B", "T"]})
        build_index(daf, "cluster", ["name", "n", "old"], progress="never")
        add_cluster(daf, if_exists="replace")
    (path,) = (file for file in tmp_path.iterdir() if not file.name.endswith(".indexes"))
    with connect(path) as session:
        check_cluster(session.reader())
        assert session.sql("SELECT name FROM cluster WHERE n = 5").to_pydict() == {"name": ["T"]}
        assert session.sql("SELECT n FROM cluster WHERE name = 'B'").to_pydict() == {"n": [3]}
        assert session.sql("SELECT name FROM cluster WHERE n = 4").count() == 0
    assert [finding for finding in verify(path) if finding.level == "error"] == []


@pytest.mark.parametrize("path", ["matrices/gene/new", "matrices/new/gene"])
def test_matrices_that_an_axis_has_left(path: str) -> None:
    """A crash while an axis was deleted may leave some; they are not of the next one of its name."""
    daf = fill(MemoryDaf())
    tree = daf.writable_tree
    with tree.transaction() as changes:
        changes.create_group("matrices/new")
        changes.publish("matrices/new", replace=False)
        changes.create_group(path)
        changes.write_array(f"{path}/left", np.ones((1, 1)))
        changes.publish(path, replace=False)
    assert "left" in tree.children(path)
    daf.add_axis("new", ["a", "b"])
    assert daf.matrices_set("gene", "new") == set()
    assert tree.node(f"{path}/left") is None
