"""Tests of data sets in any mutable mapping."""

from __future__ import annotations

import dbm.dumb
import shelve
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from daf_query import connect
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, open_daf
from daf_storage.stores import MappingStore, WritableStore
from daf_storage.testing import ChangingStoreSuite
from tests.suites import ChangingDafSuite
from tests.support import contents, fill, fill_served


class TestMappingStore(ChangingStoreSuite):
    @pytest.fixture
    def store(self) -> WritableStore:
        """Return an empty store over a dictionary."""
        return MappingStore({})


@pytest.mark.sampled(1)
class TestMappingDaf(ChangingDafSuite):
    @pytest.fixture
    def daf(self) -> DafWriter:
        """Return an empty data set in a dictionary."""
        return ZarrDaf({}, "w")


class StoppedError(Exception):
    """The program ended here."""


class StoppingMapping(UserDict[str, bytes]):
    """A mapping that fails at the n-th change."""

    last = 1000

    def _change(self) -> None:
        self.last -= 1
        if self.last < 0:
            raise StoppedError

    def __setitem__(self, key: str, value: bytes) -> None:
        self._change()
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._change()
        super().__delitem__(key)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_dictionary_reads_as_any_other_data_set(zarr_format: Any) -> None:
    """Every encoding, by us, by SQL, and by zarr-python over the same keys."""
    entries: dict[str, bytes] = {}
    daf = ZarrDaf(entries, "w", zarr_format=zarr_format)
    fill_served(daf)
    expected = contents(fill_served(MemoryDaf()))
    assert contents(daf) == expected
    assert contents(open_daf(entries)) == expected
    assert all(type(value) is bytes for value in entries.values())
    rows = connect(open_daf(entries)).sql("SELECT name FROM cell WHERE type = 'TCell'").to_pydict()
    assert rows == {"name": ["GATA", "CATA"]}
    store = zarr.storage.MemoryStore(
        {
            key: zarr.core.buffer.default_buffer_prototype().buffer.from_bytes(value)
            for key, value in entries.items()
        }
    )
    group = zarr.open_group(store, mode="r", use_consolidated=False, zarr_format=zarr_format)
    assert np.asarray(group["vectors/gene/marker"]).tolist() == [True, False, True, False]


def shelf_at(folder: Path) -> shelve.Shelf[bytes]:
    """Open a database in a folder; the module writes plain files."""
    database: Any = dbm.dumb
    return shelve.Shelf(database.open(str(folder / "daf")))


def test_a_database_is_a_store(tmp_path: Path) -> None:
    """What `shelve` keeps on the disk, written and read again."""
    with shelf_at(tmp_path) as shelf:
        daf = ZarrDaf(shelf, "w", name="shelf")
        fill(daf)
    with shelf_at(tmp_path) as shelf:
        found = ZarrDaf(shelf)
        assert contents(found) == contents(fill(MemoryDaf()))
        assert found.location == "<Shelf>"


def test_a_copy_of_a_directory(tmp_path: Path) -> None:
    """Keys are the paths of the files of a directory, so either can become the other."""
    path = tmp_path / "x.daf.zarr"
    daf = ZarrDaf(path, "w")
    fill(daf)
    files = [file for file in path.rglob("*") if file.is_file()]
    entries = {str(file.relative_to(path)): file.read_bytes() for file in files}
    assert contents(ZarrDaf(entries)) == contents(daf)


def test_a_writer_that_is_stopped_leaves_no_property_without_data() -> None:
    """At each of its steps: what was not touched reads as before, what is listed can be read."""
    start: dict[str, bytes] = {}
    writer = ZarrDaf(start, "w")
    before = contents(fill(writer))
    for last in range(40):
        entries = StoppingMapping(start)
        entries.last = last
        daf = ZarrDaf(entries, "r+")
        try:
            daf.set_vector("cell", "new", [1, 2, 3])
            daf.set_vector("cell", "age", ["a", "b", "c"], if_exists="replace")
            daf.delete_vector("cell", "type")
        except StoppedError:
            found = contents(ZarrDaf(entries.data))
            for part in ("scalars", "axes", "matrices"):
                assert found[part] == before[part]
            continue
        assert last > 8
        return
    raise AssertionError("it never came to the end")
