"""The archives that are open in this process, and the data sets in them."""

from __future__ import annotations

from pathlib import Path

from daf_storage import settings
from daf_storage.base import OpenMode
from daf_storage.data import layout
from daf_storage.opening._handle_registry import Lease, Registry
from daf_storage.stores import MmapZipStore
from daf_storage.trees import ZarrTree

REGISTRY: Registry[MmapZipStore] = Registry("zip file")


def lease(path: Path, mode: OpenMode, location: str) -> Lease[MmapZipStore]:
    """Return a lease of the store of an archive, opening it if no other handle has done so.

    Raises
    ------
    InUseError
        It is open for reading only here, or open for writing in another process.
    """
    return REGISTRY.lease(
        path,
        mode,
        location,
        lambda: MmapZipStore(
            path,
            mode,
            max_file_size=settings.DAF_ZARR_ZIP_MAX_FILE_SIZE,
            sync=settings.DAF_ZARR_ZIP_SYNC,
            location=location,
        ),
    )


def groups_of(store: MmapZipStore) -> list[str]:
    """Return the groups of an archive that are data sets; an empty name for the root."""
    groups = set()
    for key in store:
        for marker in (f"/{layout.DAF}/.zarray", f"/{layout.AXES}/zarr.json"):
            if f"/{key}".endswith(marker):
                groups.add(key[: -len(marker) + 1].rstrip("/"))
    return sorted(group for group in groups if layout.is_daf(ZarrTree(store, group)))
