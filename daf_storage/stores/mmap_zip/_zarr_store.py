"""A ``zarr.abc.store.Store`` over an archive, so that zarr-python reads and adds to it directly."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Self

from zarr.core.buffer import Buffer

from daf_storage import errors
from daf_storage.stores._zarr_adapter import BytesZarrStore
from daf_storage.stores.mmap_zip._archive import MAX_FILE_SIZE, MmapZipStore


class ZarrArchiveStore(BytesZarrStore):
    """A memory-mapped archive as zarr-python wants it.

    Arrays and groups can be created and chunks be written once; nothing can be replaced or
    deleted, except that writing the very same bytes again is no error.

    Parameters
    ----------
    path
        The archive; created if it is missing, unless ``read_only``.
    read_only
        Whether to open it for reading.
    max_file_size, sync
        As for `MmapZipStore`.

    Examples
    --------
    >>> import tempfile, pathlib, numpy, zarr
    >>> store = ZarrArchiveStore(pathlib.Path(tempfile.mkdtemp()) / "x.zip")
    >>> array = zarr.create_array(store, name="a", data=numpy.arange(3), zarr_format=2)
    >>> zarr.open_array(store, path="a")[:].tolist()
    [0, 1, 2]
    """

    supports_writes = True
    supports_deletes = False

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        max_file_size: int = MAX_FILE_SIZE,
        sync: bool = False,
    ) -> None:
        super().__init__(read_only=read_only)
        self.path = Path(os.path.abspath(path))
        self._options: dict[str, Any] = {"max_file_size": max_file_size, "sync": sync}
        self._archive: MmapZipStore | None = None

    @property
    def archive(self) -> MmapZipStore:
        """The archive, opened when it is first needed."""
        if self._archive is None:
            mode: Any = "r" if self.read_only else "w+"
            self._archive = MmapZipStore(self.path, mode, **self._options)
            self._is_open = True
        return self._archive

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ZarrArchiveStore)
            and other.path == self.path
            and other.read_only == self.read_only
        )

    def __hash__(self) -> int:
        return hash((self.path, self.read_only))

    def __str__(self) -> str:
        return f"zip://{self.path}"

    def __repr__(self) -> str:
        return f"ZarrArchiveStore({str(self.path)!r}, read_only={self.read_only})"

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to open the archive itself."""
        return {"path": self.path, "read_only": self.read_only, **self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = state.pop("path")
        self.__init__(path, **state)  # type: ignore[misc] # a new object of the same options

    async def _open(self) -> None:
        if self._is_open:
            raise ValueError("store is already open")
        self.archive  # noqa: B018 - opens it

    def close(self) -> None:
        """Close the archive, so that others can write."""
        if self._archive is not None:
            self._archive.close()
            self._archive = None
        super().close()

    def with_read_only(self, read_only: bool = False) -> Self:  # noqa: FBT001, FBT002 - zarr's signature
        """Return another store of the same archive."""
        return type(self)(self.path, read_only=read_only, **self._options)

    def find_bytes(self, key: str) -> memoryview | None:
        """Return the bytes of ``key``."""
        return self.archive.get(key)

    async def exists(self, key: str) -> bool:
        """Return whether there is an entry of this name."""
        return key in self.archive

    async def set(self, key: str, value: Buffer) -> None:
        """Add an entry.

        Raises
        ------
        AppendOnlyError
            There is one, and its bytes are others.
        """
        self._check_writable()
        if not isinstance(value, Buffer):
            raise TypeError(f"{key} can be set to a zarr Buffer, not to a {type(value).__name__}")
        data = value.as_numpy_array().view("u1").data
        found = self.archive.get(key)
        if found is None:
            self.archive.append(key, data)
        elif found != data:
            raise errors.append_only(self.archive.location, repr(key))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Add an entry unless there is one."""
        self._check_writable()
        if key not in self.archive:
            await self.set(key, value)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        """Add several entries at once."""
        with self.archive.batch():
            for key, value in values:
                await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Refuse to delete what is there."""
        self._check_writable()
        if key in self.archive:
            raise errors.append_only(self.archive.location, repr(key))

    async def delete_dir(self, prefix: str) -> None:
        """Refuse to delete what is there."""
        self._check_writable()
        if self.archive.count_below(prefix.rstrip("/")):
            raise errors.append_only(self.archive.location, repr(prefix))

    async def clear(self) -> None:
        """Refuse to delete what is there."""
        await self.delete_dir("")

    async def list(self) -> AsyncIterator[str]:
        """Yield every key."""
        for key in self.archive:
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield every key that begins with ``prefix``."""
        for key in self.archive:
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below ``prefix``."""
        for name in self.archive.children(prefix.rstrip("/")):
            yield name
