"""Groups of Zarr arrays that other programs wrote, and the arrays in them.

Consolidated metadata are not looked at where a group can be listed: one array whose metadata are
malformed would take all others with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import zarr
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from daf_query.table._raw_bits import register_raw_bits
from daf_query.table._zarr_columns import reason_of
from daf_storage import errors
from daf_storage.stores import ZarrArchiveStore, is_remote, open_access, open_regular

_MAX_DOCUMENT_BYTES: Final = 1 << 24
_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs")


class RegularFilesStore(zarr.storage.LocalStore):
    """A directory as a store of zarr-python, of which only regular files are opened."""

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the bytes of a key.

        Raises
        ------
        CorruptDataError
            It is a named pipe or a device, or metadata that are larger than any are.
        """
        path = self.root / key
        descriptor = open_regular(path, what=str(path))
        if descriptor is None:
            return None
        try:
            size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if path.name in _DOCUMENTS and size_bytes > _MAX_DOCUMENT_BYTES:
            raise errors.CorruptDataError(
                f"{path}: it has {size_bytes:,} bytes, and metadata have no more than "
                f"{_MAX_DOCUMENT_BYTES:,}"
            )
        return await super().get(key, prototype, byte_range)


def open_group(path: str | Path, location: str) -> Any:
    """Return the root group of a directory, an archive, or what is on a server.

    Parameters
    ----------
    location
        The path as messages name it.

    Raises
    ------
    SourceNotFoundError
        There is nothing.
    FormatError
        There is something else.
    """
    register_raw_bits()
    if is_remote(path):
        return _open_remote(str(path), location)
    if not Path(location).exists():
        raise errors.SourceNotFoundError(f"no such file or directory: {location}")
    try:
        store: Any
        if location.endswith(".zip"):
            store = ZarrArchiveStore(location, read_only=True)
        else:
            store = RegularFilesStore(location, read_only=True)
        return zarr.open_group(store, mode="r", use_consolidated=False)
    except Exception as error:  # zarr raises many kinds for what is no group
        raise errors.FormatError(f"{location}: not a zarr group ({reason_of(error)})") from error


def _open_remote(url: str, location: str) -> Any:
    """Open a group on a server; its own errors have the whole URL in them, secrets too."""
    try:
        store = zarr.storage.ObjectStore(open_access(url), read_only=True)
        return zarr.open_group(store, mode="r")
    except errors.DafError:
        raise
    except Exception as error:  # noqa: BLE001 - zarr and obstore raise many kinds
        raise errors.FormatError(
            f"{location}: no zarr group can be opened there ({type(error).__name__})"
        ) from None


def arrays_of(group: Any, what: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arrays directly below a group, and why others cannot be opened.

    Parameters
    ----------
    what
        The group as messages name it.
    """
    arrays: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name in _names_below(group):
        try:
            found = group.get(name)
        except Exception as error:  # noqa: BLE001 - zarr raises many kinds for malformed metadata
            problems[name] = (
                f"{what}/{name}: its metadata cannot be read ({reason_of(error)}); "
                "the other columns can be used"
            )
            continue
        if isinstance(found, zarr.Array):
            arrays[name] = found
    return arrays, problems


def groups_of(group: Any) -> list[str]:
    """Return the names of the groups directly below a group; what is malformed is none."""
    try:
        return sorted(group.group_keys())
    except Exception:  # noqa: BLE001 - zarr raises many kinds for malformed metadata
        return []


def _names_below(group: Any) -> list[str]:
    """Return the names of what may be arrays below a group."""
    store = group.store
    if isinstance(store, ZarrArchiveStore):
        return store.archive.subdirs(group.path)
    if isinstance(store, RegularFilesStore):
        with os.scandir(store.root / group.path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    return sorted(name for name, _ in group.arrays())  # of a server, that is consolidated
