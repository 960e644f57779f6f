"""The tests of every tree; its test class inherits `TreeSuite` and supplies a tree."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_storage.base import Span, StorageType
from daf_storage.trees import WritableTree
from tests.suites.examples import array_of, there

NUMBERS = [kind for kind in StorageType if not kind.is_string]


class TreeSuite:
    """The contract of `Tree` and `WritableTree`."""

    @pytest.fixture
    def tree(self) -> WritableTree:
        """Return a tree with an empty root group; overridden by each tree's tests."""
        raise AssertionError("a tree's tests override this")

    def put(self, tree: WritableTree, path: str, values: Any, *, replace: bool = False) -> None:
        """Store an array of numbers or strings."""
        with tree.transaction() as changes:
            if isinstance(values, np.ndarray):
                changes.write_array(path, values)
            else:
                changes.write_strings(path, pa.array(values, pa.string()), (len(values),))
            changes.publish(path, replace=replace)

    def test_an_empty_tree(self, tree: WritableTree) -> None:
        """Nothing is there, and asking says so without an error."""
        assert tree.kind("a") is None
        assert tree.node("a/b") is None
        assert tree.children("a") == {}

    @pytest.mark.parametrize("kind", NUMBERS)
    def test_numbers(self, tree: WritableTree, kind: StorageType) -> None:
        """Every type and two dimensions; read whole, read in part, and read-only."""
        values = np.array([[0, 1, 1], [1, 0, 1]]).astype(kind.dtype)
        self.put(tree, "a", values)
        array = array_of(tree, "a")
        assert (array.info.shape, array.info.storage_type, array.info.size) == ((2, 3), kind, 6)
        assert array.read().tolist() == values.tolist()
        assert array.read_rows(Span(1, 2)).tolist() == values[1:].tolist()
        assert array.read_rows(Span(1, 1)).shape == (0, 3)
        spans = [Span(1, 2), Span(0, 2), Span(1, 1)]
        for within in (None, Span(0, 3), Span(1, 3), Span(1, 2)):
            columns = slice(None) if within is None else within.slice
            parts = [part.tolist() for part in array.read_spans(spans, within)]
            assert parts == [values[span.slice, columns].tolist() for span in spans]
        assert array.read_spans([]) == []
        assert array.read().dtype == kind.dtype
        assert not array.read().flags.writeable

    @pytest.mark.parametrize("strings", [[], [""], ["a", "é", "", "x" * 300]])
    def test_strings(self, tree: WritableTree, strings: list[str]) -> None:
        """Strings of any length, and none."""
        self.put(tree, "a", strings)
        array = array_of(tree, "a")
        assert array.info.storage_type is StorageType.STRING
        assert array.read_strings().to_pylist() == strings

    @pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
    def test_emptiness(self, tree: WritableTree, shape: tuple[int, ...]) -> None:
        """Arrays without elements keep their shape."""
        self.put(tree, "a", np.zeros(shape, np.int16))
        assert array_of(tree, "a").read().shape == shape

    def test_groups_and_their_children(self, tree: WritableTree) -> None:
        """A group with an array and a group below it appears at once."""
        with tree.transaction() as changes:
            changes.create_group("g")
            changes.write_array("g/x", np.arange(3))
            changes.create_group("g/h")
            assert tree.kind("g") is None
            changes.publish("g", replace=False)
        assert tree.kind("g") == "group"
        assert tree.children("g") == {"h": "group", "x": "array"}
        node = there(tree.node("g"))
        assert node.kind == "group"
        part = there(node.array("x"))
        assert part.read().tolist() == [0, 1, 2]
        assert node.array("nope") is None
        assert node.array() is None

    def test_filling_in_place(self, tree: WritableTree) -> None:
        """A reserved array is zeros until it is filled."""
        with tree.transaction() as changes:
            values = changes.reserve_array("a", (2, 2), StorageType.FLOAT32)
            assert values.tolist() == [[0, 0], [0, 0]]
            values[1] = 5
            changes.publish("a", replace=False)
        assert array_of(tree, "a").read().tolist() == [[0, 0], [5, 5]]

    def test_attributes(self, tree: WritableTree) -> None:
        """Of an array and of the group of a property; what was not annotated has none."""
        group = "vectors/cell/age"
        with tree.transaction() as changes:
            for above in ("axes", "vectors", "vectors/cell"):
                changes.create_group(above)
                changes.publish(above, replace=False)
            changes.write_strings("axes/cell", pa.array(["A", "B", "C"]), (3,))
            changes.publish("axes/cell", replace=False)
            changes.annotate("a", {"word": "é"})
            changes.write_strings("a", pa.array(["x", ""]), (2,))
            changes.annotate(group, {"word": "group", "other": "more"})
            changes.create_group(group)
            changes.write_array(f"{group}/nzind", np.arange(3))
            changes.annotate("z", {"word": "reserved"})
            changes.reserve_array("z", (2,), StorageType.INT8)[:] = 1
            for path in ("a", group, "z"):
                changes.publish(path, replace=False)
        found = {path: tree.node(path) for path in ("a", group, "vectors/cell", "z")}
        words = {p: None if node is None else node.attribute("word") for p, node in found.items()}
        assert words == {"a": "é", group: "group", "vectors/cell": None, "z": "reserved"}
        assert there(found[group]).attribute("other") == "more"
        assert array_of(tree, "a").read_strings().to_pylist() == ["x", ""]

    def test_what_is_not_published_is_dropped(self, tree: WritableTree) -> None:
        """An exception before the publication leaves nothing."""

        def fail() -> None:
            with tree.transaction() as changes:
                changes.write_array("a", np.arange(3))
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert tree.kind("a") is None


class ChangingTreeSuite(TreeSuite):
    """The contract of trees in which nodes can be replaced and removed."""

    def test_replacing_and_removing(self, tree: WritableTree) -> None:
        """Only on request; what was pinned before stays as it was."""
        self.put(tree, "a", np.arange(3))
        old = there(tree.node("a"))
        with pytest.raises(FileExistsError):
            self.put(tree, "a", np.arange(5))
        self.put(tree, "a", ["now", "text"], replace=True)
        pinned = there(old.array())
        assert pinned.read().tolist() == [0, 1, 2]
        assert array_of(tree, "a").read_strings().to_pylist() == ["now", "text"]
        new = there(tree.node("a"))
        assert new.identity != old.identity
        with tree.transaction() as changes:
            changes.remove("a")
            changes.remove("a")
        assert tree.kind("a") is None

    def test_attributes_go_with_what_has_them(self, tree: WritableTree) -> None:
        """What replaces a node has none of its attributes; a pinned node keeps them."""
        with tree.transaction() as changes:
            changes.annotate("a", {"word": "old"})
            changes.write_array("a", np.arange(3))
            changes.publish("a", replace=False)
        old = tree.node("a")
        self.put(tree, "a", np.arange(3), replace=True)
        new = tree.node("a")
        assert old is not None
        assert new is not None
        assert (old.attribute("word"), new.attribute("word")) == ("old", None)

    def test_an_identity_changes_with_the_children(self, tree: WritableTree) -> None:
        """Adding, replacing and removing below a group shows in its identity."""
        with tree.transaction() as changes:
            changes.create_group("g")
            changes.publish("g", replace=False)
        seen = [tree.identity("g")]
        for change in ("add", "replace", "remove"):
            if change == "remove":
                with tree.transaction() as changes:
                    changes.remove("g/x")
            else:
                self.put(tree, "g/x", np.arange(2), replace=change == "replace")
            seen.append(tree.identity("g"))
        assert all(a != b for a, b in itertools.pairwise(seen))
