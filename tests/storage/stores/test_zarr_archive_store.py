"""Tests of the store that lets zarr-python read and add to archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.testing.store import StoreTests

from daf_storage import errors
from daf_storage.stores import MmapZipStore, ZarrArchiveStore
from tests.support import filled


class TestZarrArchiveStore(StoreTests[ZarrArchiveStore, cpu.Buffer]):
    """zarr's own suite."""

    store_cls = ZarrArchiveStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        """Return how to open a store; the archive exists."""
        MmapZipStore(tmp_path / "x.zip", "w").close()
        return {"path": tmp_path / "x.zip"}

    async def set(self, store: ZarrArchiveStore, key: str, value: Buffer) -> None:
        """Put bytes where the store will find them."""
        store.archive.append(key, value.to_bytes())

    async def get(self, store: ZarrArchiveStore, key: str) -> Buffer:
        """Return the bytes that the store has put."""
        data = store.archive.get(key)
        assert data is not None
        return self.buffer_cls.from_bytes(bytes(data))

    def test_store_repr(self, store: ZarrArchiveStore) -> None:
        """It names the archive."""
        assert repr(store) == f"ZarrArchiveStore({str(store.path)!r}, read_only=False)"
        assert str(store) == f"zip://{store.path}"

    def test_store_supports_writes(self, store: ZarrArchiveStore) -> None:
        """It can be added to."""
        assert store.supports_writes

    def test_store_supports_listing(self, store: ZarrArchiveStore) -> None:
        """It knows its keys."""
        assert store.supports_listing

    async def test_serializable_store(self, store: ZarrArchiveStore) -> None:
        """Does not apply as it is: zarr's test has two writers of one archive at a time.

        A copy opens the archive itself, which it can once the first one has let go.
        """
        import pickle

        copy = pickle.loads(pickle.dumps(store))
        assert copy == store
        assert hash(copy) == hash(store)
        assert copy.read_only == store.read_only
        await store.set("foo", self.buffer_cls.from_bytes(b"\1\2"))
        store.close()
        found = await copy.get("foo", prototype=default_buffer_prototype())
        assert found.to_bytes() == b"\1\2"

    async def test_with_read_only_store(self, open_kwargs: dict[str, Any]) -> None:
        """Does not apply as it is: zarr's test deletes what it wrote.

        The rest of it: a store of the other kind, of the same archive.
        """
        reader = await self.store_cls.open(**{**open_kwargs, "read_only": True})
        value = self.buffer_cls.from_bytes(b"bar")
        with pytest.raises(ValueError, match="was opened in read-only mode"):
            await reader.set("foo", value)
        writer = reader.with_read_only(read_only=False)
        assert not writer._is_open
        assert not writer.read_only
        await writer.set("foo", value)
        await writer.delete("not there")
        with pytest.raises(errors.AppendOnlyError):
            await writer.delete("foo")
        again = reader.with_read_only(read_only=True)
        with pytest.raises(ValueError, match="was opened in read-only mode"):
            await again.delete("foo")

    async def test_clear(self, store: ZarrArchiveStore) -> None:
        """Does not apply: an archive is append-only.  An empty one may be cleared."""
        await store.clear()
        await self.set(store, "key", self.buffer_cls.from_bytes(b"1"))
        with pytest.raises(errors.AppendOnlyError, match="append-only"):
            await store.clear()
        assert not await store.is_empty("")

    async def test_delete(self, store: ZarrArchiveStore) -> None:
        """Does not apply: an archive is append-only."""
        await store.set("foo", self.buffer_cls.from_bytes(b"1"))
        with pytest.raises(errors.AppendOnlyError, match="can't delete or overwrite 'foo'"):
            await store.delete("foo")
        assert await store.exists("foo")

    async def test_delete_dir(self, store: ZarrArchiveStore) -> None:
        """Does not apply: an archive is append-only."""
        await store.set("foo/bar", self.buffer_cls.from_bytes(b"1"))
        await store.delete_dir("fo")
        with pytest.raises(errors.AppendOnlyError):
            await store.delete_dir("foo")

    async def test_overwriting(self, store: ZarrArchiveStore) -> None:
        """Other bytes are refused, the same bytes are no change."""
        await store.set("foo", self.buffer_cls.from_bytes(b"1"))
        size = store.path.stat().st_size
        await store.set("foo", self.buffer_cls.from_bytes(b"1"))
        assert store.path.stat().st_size == size
        with pytest.raises(errors.AppendOnlyError):
            await store.set("foo", self.buffer_cls.from_bytes(b"2"))


def test_stores_of_other_archives_differ(tmp_path: Path) -> None:
    """Two stores are equal if they open the same archive in the same way, and only then."""
    one = ZarrArchiveStore(tmp_path / "x.zip", read_only=True)
    assert one == ZarrArchiveStore(f"{tmp_path}/x.zip", read_only=True)
    for other in (
        ZarrArchiveStore(tmp_path / "y.zip", read_only=True),
        ZarrArchiveStore(tmp_path / "x.zip"),
        zarr.storage.ZipStore(tmp_path / "x.zip", mode="w"),
        tmp_path / "x.zip",
    ):
        assert one != other
        assert other != one
    assert len({one, ZarrArchiveStore(tmp_path / "x.zip"), one.with_read_only(True)}) == 2


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_writes_and_appends(tmp_path: Path, zarr_format: Any) -> None:
    """Groups and arrays, chunked and compressed, are created, filled and read back."""
    path = tmp_path / "x.zip"
    store = ZarrArchiveStore(path)
    group = zarr.open_group(store, mode="a", zarr_format=zarr_format)
    array = group.create_array("a", shape=(10, 4), chunks=(3, 2), dtype="i4")
    array[:] = np.arange(40).reshape(10, 4)
    store.close()
    again = zarr.open_group(ZarrArchiveStore(path), mode="a", zarr_format=zarr_format)
    again.create_array("b", data=np.arange(5))
    with zarr.storage.ZipStore(path, mode="r") as other:
        found = zarr.open_group(other, mode="r", zarr_format=zarr_format)
        assert np.asarray(found["a"]).tolist() == np.arange(40).reshape(10, 4).tolist()
        assert np.asarray(found["b"]).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(errors.AppendOnlyError):
        again["b"][0] = 7  # type: ignore[index]


def test_zarr_reads_our_data_sets(tmp_path: Path) -> None:
    """What `ZarrDaf` wrote is a hierarchy as any other."""
    path = tmp_path / "x.daf.zarr.zip"
    filled(path).close()
    group = zarr.open_group(ZarrArchiveStore(path, read_only=True), mode="r", zarr_format=2)
    assert np.asarray(group["vectors/cell/age"]).tolist() == [30, 60, 90]
    assert sorted(group.group_keys()) == ["axes", "matrices", "scalars", "vectors"]
