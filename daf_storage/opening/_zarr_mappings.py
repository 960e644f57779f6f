"""Data sets in mutable mappings of keys to bytes, and in stores of zarr-python."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

from daf_storage import errors, stores
from daf_storage.base import OpenMode
from daf_storage.data import DafReader, DafWriter
from daf_storage.opening._foreign_data_sets import readable_tree
from daf_storage.opening._skeleton import check_group, make_or_check, reader_name, writer_name
from daf_storage.opening._style import Style
from daf_storage.stores import MappingStore
from daf_storage.trees import (
    WritableZarrTree,
    ZarrTree,
    find_version,
)


def path_or_mapping(source: Any) -> Any:
    """Return what a store of zarr-python stands for; anything else is returned as it is."""
    abc = sys.modules.get("zarr.abc.store")  # which whoever has a store has imported
    is_store = abc is not None and isinstance(source, abc.Store)
    return stores.path_or_mapping(source) if is_store else source


def open_mapping(
    mapping: MutableMapping[str, Any], mode: OpenMode, name: str | None, style: Style
) -> DafReader:
    """Open a data set in a mapping; there is no path with which it could be opened again."""
    store = MappingStore(mapping)
    style.check(store.location, mode)
    if mode == "r":
        tree = ZarrTree(store)
        style.check_found(tree)
        readable = readable_tree(tree)
        return DafReader(readable, name=reader_name(readable, name, store.location))
    version = find_version(store)
    if mode == "w":
        if len(mapping) and version is None:
            raise errors.NotADafError(
                f"{store.location}: this mapping is not a Zarr group, so mode 'w' does not empty "
                "it, and nothing was changed; empty it yourself if that is what you want"
            )
        store.change(list(mapping), {})
    writable = WritableZarrTree(
        store,
        consolidated=False,
        zarr_format=(None if mode == "w" else version) or style.version,
        packing=style.packing,
    )
    style.check_found(writable)
    if mode == "r+":
        check_group(writable)
    make_or_check(writable, mode)
    return DafWriter(writable, name=writer_name(writable, name, store.location))
