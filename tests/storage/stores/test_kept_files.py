"""Tests of mappings and documents that are kept from one query to the next."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from daf_query.index import StoredIndexes, build_index
from daf_storage import ZarrDaf, errors, open_daf
from daf_storage.base import DecodedCache
from daf_storage.stores import DirectorySnapshot, DirectoryStore
from tests.support import data_set, recorded_calls, there

LONG_AGO = (1_000_000_000, 1_000_000_000)
STABLE_SECONDS = 0.12
LOOKS = 4


def pinned(store: DirectoryStore, prefix: str = "x") -> DirectorySnapshot:
    """Return a snapshot of what is there."""
    return there(store.snapshot(prefix))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the names of files that are opened are added."""
    return recorded_calls(monkeypatch, (os, "open"), lambda path, *_, **__: os.fspath(path))


@pytest.mark.parametrize("change", ["rewritten", "times put back", "replaced", "longer", "cut"])
def test_a_file_that_changed_is_opened_again(tmp_path: Path, change: str) -> None:
    """Whichever way it changed, what was kept of it is not used any more."""
    (tmp_path / "x").mkdir()
    path = tmp_path / "x/0"
    path.write_bytes(b"abc")
    os.utime(path, LONG_AGO)
    time.sleep(STABLE_SECONDS)
    store = DirectoryStore(tmp_path)
    assert (pinned(store).read("0"), bytes(pinned(store).map("0") or b"")) == (b"abc", b"abc")
    assert store.kept.nbytes
    data = {"longer": b"abcdef", "cut": b"a"}.get(change, b"xyz")
    if change == "replaced":
        (tmp_path / "new").write_bytes(data)
        (tmp_path / "new").rename(path)
    else:
        path.write_bytes(data)
    if change == "times put back":
        os.utime(path, LONG_AGO)
    assert (pinned(store).read("0"), bytes(pinned(store).map("0") or b"")) == (data, data)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_readers_see_each_change(tmp_path: Path, zarr_format: Literal[2, 3]) -> None:
    """Of values, axes and matrices, by this program or by another; between them all is kept."""
    path = tmp_path / "x.daf.zarr"
    writer = data_set(open_daf(path, "w", zarr_format=zarr_format), gene=1)
    reader = open_daf(path)
    for number in range(3):
        length = 3 + number
        values = np.eye(length, 1) + number
        if number:
            writer.delete_axis("cell")
        data_set(writer, cell={"name": length, "age": [number] * length})
        writer.set_matrix("cell", "gene", "X", values)
        for look in range(LOOKS):
            assert reader.axis_length("cell") == length
            assert reader.axis_indices("cell", [f"c{length - 1}"]).tolist() == [length - 1]
            assert reader.get_np_matrix("cell", "gene", "X").tolist() == values.tolist()
            assert reader.get_np_vector("cell", "age").tolist() == [number] * length
            time.sleep(STABLE_SECONDS if look == 0 else 0)
    chunks = [each for each in (path / "matrices").rglob("*") if each.is_file()]
    both = [each for each in chunks if each.stat().st_size == np.dtype(float).itemsize * 5]
    for array in both:  # one for each layout, whichever is read
        array.write_bytes(np.arange(5.0).tobytes())
    assert reader.get_np_matrix("cell", "gene", "X").ravel().tolist() == list(range(5))
    for array in both:
        array.write_bytes(b"1234")
    with pytest.raises(errors.CorruptDataError, match="truncated"):
        reader.get_np_matrix("cell", "gene", "X")


def test_an_index_that_somebody_builds_is_found(tmp_path: Path) -> None:
    """By a session that has asked for it in vain, also if another process builds it."""
    path = tmp_path / "x.daf.zarr"
    data_set(ZarrDaf(path, "w"), cell=50).close()
    time.sleep(STABLE_SECONDS)
    reader = open_daf(path)
    indexes, cache = StoredIndexes(reader, "cell"), DecodedCache()
    assert [indexes.strings("name", cache) for _ in range(2)] == [None, None]
    with ZarrDaf(path, "r+") as daf:
        build_index(daf, "cell", "name")
    assert indexes.strings("name", cache) is not None
