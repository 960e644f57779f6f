"""Translate names of h5py: kinds of objects, element types, errors."""

from __future__ import annotations

from typing import Any

from daf_storage.base import (
    STAGING_NAME,
    StorageType,
    optional_import,
)
from daf_storage.errors import (
    UnsupportedDataError,
)
from daf_storage.trees._protocol import NodeKind

STAGING = STAGING_NAME
"""Group in which changes are prepared; exists only while a writer works."""

ALIGNMENT = (1, 8)
"""Every object begins at a multiple of 8 bytes, so that what is mapped is aligned."""

H5PY_ERRORS = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    AttributeError,
    NotImplementedError,
)
"""What h5py raises for data that it cannot read."""

STRING_BLOCK = 1 << 18  # h5py makes an object of each string


def h5py() -> Any:
    """Return the package h5py."""
    return optional_import("h5py", extra="hdf5")


def node_kind(item: Any) -> NodeKind | None:
    """Return what an object of h5py is; None for what is neither group nor dataset."""
    if isinstance(item, h5py().Group):
        return "group"
    return "array" if isinstance(item, h5py().Dataset) else None


def hdf5_type(storage_type: StorageType) -> Any:
    """Return the HDF5 type of the stored elements; Bool is a bit field of one byte."""
    h5t = h5py().h5t
    return h5t.NATIVE_B8 if storage_type is StorageType.BOOL else h5t.py_create(storage_type.dtype)


def storage_type_of(dataset: Any, what: str) -> StorageType:
    """Return the element type of a dataset, or refuse one that Daf has no place for."""
    h5 = h5py()
    stored = dataset.id.get_type()
    if dataset.shape is None:
        raise UnsupportedDataError(f"{what}: the dataset is empty: it has not even a shape")
    if stored.get_class() == h5.h5t.BITFIELD and stored.get_size() == 1:
        return StorageType.BOOL
    dtype = dataset.dtype  # made once more each time
    if h5.check_string_dtype(dtype) is not None:
        return StorageType.STRING
    storage_type = None if dtype.kind not in "biuf" else StorageType.from_numpy(dtype)
    if storage_type is None:
        raise UnsupportedDataError(
            f"{what}: the dataset has the type {dtype}; Daf has Bool, Int8 to Int64, "
            "UInt8 to UInt64, Float32, Float64 and strings"
        )
    return storage_type


def is_native(dataset: Any) -> bool:
    """Return whether h5py's dtype of some numbers says all of how they are stored, bit by bit."""
    h5t = h5py().h5t
    stored = dataset.id.get_type()
    if stored.get_class() == h5t.BITFIELD:
        return bool(stored.get_size() == 1)
    return bool(stored == h5t.py_create(dataset.dtype, logical=True))


def is_plain(dataset: Any, storage_type: StorageType) -> bool:
    """Return whether the elements lie in the file as they are in memory, in one piece."""
    if storage_type.is_string or dataset.id.get_offset() is None:
        return False
    return bool(storage_type is StorageType.BOOL or dataset.dtype == storage_type.dtype)


def reason_of(error: BaseException) -> str:
    """Return the message of an error in one line; h5py wraps some."""
    return " ".join(str(error).split()) or type(error).__name__
