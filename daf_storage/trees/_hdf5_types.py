"""Translate names of h5py: kinds of objects, element types, errors."""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import numpy as np

from daf_storage.base import (
    STAGING_NAME,
    StorageType,
    optional_import,
)
from daf_storage.errors import (
    CorruptDataError,
    UnsupportedDataError,
)
from daf_storage.trees._protocol import NodeKind

STAGING = STAGING_NAME
"""Group in which changes are prepared; exists only while a writer works."""

RECORD = f"{STAGING}/replaced"
"""Group of what was in the place of nodes that are replaced together, until all of them are."""

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

_ENCODED: Final = 2
"""So many bytes come before a type where HDF5 encodes it."""

_VLEN_KIND, _VLEN_STRING = 0xF, 1
"""Of what a type of variable length is: 0 says a sequence, 1 a string."""

STRING_BLOCK = 1 << 18  # h5py makes an object of each string


@functools.cache
def h5py() -> Any:
    """Return the package h5py."""
    return optional_import("h5py", extra="hdf5")


def node_kind(item: Any) -> NodeKind | None:
    """Return what an identifier of h5py stands for; None for what is neither group nor dataset."""
    if isinstance(item, h5py().h5g.GroupID):
        return "group"
    return "array" if isinstance(item, h5py().h5d.DatasetID) else None


def as_object(found: Any, *, is_writable: bool) -> Any:
    """Return what h5py makes of an identifier."""
    kind = node_kind(found)
    if kind == "group":
        return h5py().Group(found)
    if kind == "array":
        return h5py().Dataset(found, readonly=not is_writable)
    return h5py().Datatype(found)


def hdf5_type(storage_type: StorageType) -> Any:
    """Return the HDF5 type of the stored elements; Bool is a bit field of one byte."""
    h5t = h5py().h5t
    return h5t.NATIVE_B8 if storage_type is StorageType.BOOL else h5t.py_create(storage_type.dtype)


def storage_type_of(known: KnownType, what: str) -> StorageType:
    """Return the element type of a dataset, or refuse one that Daf has no place for."""
    if known.storage_type is None:
        raise UnsupportedDataError(
            f"{what}: the dataset has the type {known.dtype}; Daf has Bool, Int8 to Int64, "
            "UInt8 to UInt64, Float32, Float64 and strings"
        )
    return known.storage_type


class KnownType(NamedTuple):
    """A type of HDF5."""

    dtype: np.dtype[Any]
    """What h5py makes of it; of a bit field of one byte, bool."""
    storage_type: StorageType | None
    """What it is in Daf, if it has a place there."""
    is_native: bool
    """Whether the dtype says all of how numbers are stored, bit by bit."""


def known_type(stored: Any) -> KnownType:
    """Return what there is to know of a type, given by its identifier."""
    return _known_type(stored.encode())


@functools.lru_cache(maxsize=1 << 8)
def _known_type(encoded: bytes) -> KnownType:
    """Return what there is to know of a type as HDF5 encodes it.

    The datasets of a file have few types, and h5py takes as long to translate one as to open a
    dataset.
    """
    h5 = h5py()
    stored = h5.h5t.decode(encoded)
    if stored.get_class() == h5.h5t.BITFIELD and stored.get_size() == 1:
        return KnownType(np.dtype(bool), StorageType.BOOL, is_native=True)
    dtype = stored.dtype
    if h5.check_string_dtype(dtype) is not None:
        return KnownType(dtype, StorageType.STRING, is_native=False)
    storage_type = None if dtype.kind not in "biuf" else StorageType.from_numpy(dtype)
    is_native = storage_type is not None and stored == h5.h5t.py_create(dtype, logical=True)
    return KnownType(dtype, storage_type, is_native=bool(is_native))


def scalar_attribute(attribute: Any, stored: Any, what: str) -> Any:
    """Return what h5py's ``attrs`` do of an attribute that is one number or string.

    None if it is something else.  They take three times as long.

    Parameters
    ----------
    attribute
        Its identifier.
    stored
        That of its type.

    Raises
    ------
    CorruptDataError
        HDF5 cannot convert its type.
    """
    check_type(stored, what)
    known = known_type(stored)
    if attribute.shape != ():
        return None
    if known.is_native and stored.get_class() != h5py().h5t.BITFIELD:
        value = np.zeros((), known.dtype)
        attribute.read(value, mtype=stored)
        return value[()]
    if known.dtype.kind != "O" or known.storage_type is not StorageType.STRING:
        return None
    string: Any = np.empty((), known.dtype)
    attribute.read(string)
    return string[()].decode("utf-8", "surrogateescape")


def check_type(stored: Any, what: str) -> None:
    """Raise if a type is one that HDF5 cannot convert: it ends the process where it tries.

    Parameters
    ----------
    stored
        The identifier of a type that was read from a file.

    Raises
    ------
    CorruptDataError
        A type of variable length, or one within, is neither a sequence nor a string.
    """
    h5t = h5py().h5t
    kind = stored.get_class()
    if kind == h5t.COMPOUND:
        for number in range(stored.get_nmembers()):
            check_type(stored.get_member_type(number), what)
    elif kind in (h5t.VLEN, h5t.ARRAY):
        if kind == h5t.VLEN and stored.encode()[_ENCODED + 1] & _VLEN_KIND > _VLEN_STRING:
            raise CorruptDataError(f"{what} has a type that HDF5 does not have; it was damaged")
        check_type(stored.get_super(), what)


def is_plain(known: KnownType, storage_type: StorageType) -> bool:
    """Return whether elements of a type are stored as they are in memory."""
    return not storage_type.is_string and bool(known.dtype == storage_type.dtype)


def reason_of(error: BaseException) -> str:
    """Return the message of an error in one line; h5py wraps some."""
    return " ".join(str(error).split()) or type(error).__name__
