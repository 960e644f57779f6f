"""Tests of the Zarr tree, over each store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

from daf_storage import errors
from daf_storage.stores import DirectoryStore, MemoryStore, WritableStore
from daf_storage.trees import WritableTree, WritableZarrTree, ZarrTree
from tests.limits import lower
from tests.suites import ChangingTreeSuite
from tests.suites.examples import array_of


def new_tree(store: WritableStore, root: str = "", *, consolidated: bool) -> WritableTree:
    """Return a tree whose root is a group."""
    tree = WritableZarrTree(store, root, consolidated=consolidated)
    with tree.transaction() as changes:
        if root:
            changes.create_group("")
            changes.publish("", replace=False)
        else:
            changes.mark_group("")
    return tree


class TestOverDirectory(ChangingTreeSuite):
    @pytest.fixture
    def tree(self, tmp_path: Path) -> WritableTree:
        """Return an empty tree with consolidated metadata."""
        return new_tree(DirectoryStore(tmp_path), consolidated=True)


class TestOverMemory(ChangingTreeSuite):
    @pytest.fixture
    def tree(self) -> WritableTree:
        """Return an empty tree."""
        return new_tree(MemoryStore(), consolidated=False)


class TestBelowAPrefix(ChangingTreeSuite):
    """A tree need not be the whole store."""

    @pytest.fixture
    def tree(self) -> WritableTree:
        """Return an empty tree within a larger store."""
        return new_tree(MemoryStore(), "deep/inside", consolidated=False)


@pytest.mark.parametrize("compressors", [None, ZstdCodec()])
def test_chunks_that_are_too_short_for_their_elements(tmp_path: Path, compressors: Any) -> None:
    """Of what is stored as it is, their length alone tells."""
    array = zarr.create_array(
        tmp_path / "a", shape=(40,), chunks=(20,), dtype="u1", zarr_format=3,
        compressors=compressors,
    )  # fmt: skip
    array[...] = np.ones(40, np.uint8)
    chunk = tmp_path / "a/c/1"
    assert (chunk.stat().st_size == 20) == (compressors is None)

    def check() -> None:
        tree = ZarrTree(DirectoryStore(tmp_path), zarr_format=3)
        array_of(tree, "a").check_stored(is_complete=True)

    check()
    chunk.write_bytes(chunk.read_bytes()[:19])
    if compressors is not None:
        check()
        return
    with pytest.raises(errors.CorruptDataError, match="'c/1' is truncated: it has 19 bytes"):
        check()


@pytest.mark.parametrize(
    ("shape", "start", "separator", "is_noticed"),
    [
        ((40,), "", "/", True),
        ((40,), "", ".", True),
        ((4, 10), "", ".", True),
        ((4, 10), "", "/", False),
        ((40,), "c/", "/", True),
    ],
)
def test_chunks_that_are_missing_in_the_middle(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    start: str,
    separator: str,
    *,
    is_noticed: bool,
) -> None:
    """Of many chunks in one folder, their number tells; in nested ones, the first and the last."""
    lower(monkeypatch, chunks_in_a_folder=30)
    version: Any = 3 if start else 2
    array = zarr.create_array(
        tmp_path / "a", shape=shape, chunks=(1,) * len(shape), dtype="<i8", compressors=None,
        zarr_format=version,
        chunk_key_encoding={"name": "default" if start else "v2", "separator": separator},
    )  # fmt: skip
    array[...] = np.arange(1, 41).reshape(shape)
    stored = array_of(ZarrTree(DirectoryStore(tmp_path), zarr_format=version), "a")
    stored.check_stored(is_complete=True)
    for number in (6, 7, 8):  # of the files that are counted, two have the metadata
        key = str(number) if len(shape) == 1 else f"1{separator}{number}"
        (tmp_path / "a" / f"{start}{key}").unlink()
    if is_noticed:
        with pytest.raises(errors.CorruptDataError, match="40 chunks are needed, .* at most"):
            stored.check_stored(is_complete=True)
    else:
        stored.check_stored(is_complete=True)


def test_elements_that_zarr_python_cannot_read(tmp_path: Path) -> None:
    """What is stored with a codec that it does not know, and what is not there."""
    zarr.create_array(tmp_path / "a", shape=(3,), dtype="u1", zarr_format=3)
    document = (tmp_path / "a/zarr.json").read_text()
    (tmp_path / "a/zarr.json").write_text(document.replace('"zstd"', '"unheard-of"'))
    tree = ZarrTree(DirectoryStore(tmp_path), zarr_format=3)
    with pytest.raises(errors.UnsupportedDataError, match="a: zarr-python cannot read it"):
        tree.element("a").__enter__()
    with pytest.raises(errors.CorruptDataError, match="b is missing"):
        tree.element("b").__enter__()
