"""Attributes of an HDF5 file, by the bytes of their messages.

Pure: bytes in, values out.  Source: HDF5 file format specification, IV.A.2.m "The attribute
message".
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage.base import StorageType
from daf_storage.trees._hdf5_few_strings import MAX_STRINGS, FewStrings
from daf_storage.trees._hdf5_headers import (
    Place,
    UnusualHeaderError,
    datatype_of,
    require,
    shape_of,
)
from daf_storage.trees._hdf5_heaps import REFERENCE
from daf_storage.trees._hdf5_types import usual_types

_PREFIX: Final = struct.Struct("<BBHHH")
"""Version, flags, and the bytes of the name, of the type and of the dataspace."""
_PADDED, _CHARSET = 1, 3


@dataclass(frozen=True, slots=True)
class StoredAttribute:
    """Where the parts of an attribute are."""

    name: str
    datatype: Place
    dataspace: Place
    values: Place


def stored_attributes(data: memoryview, places: tuple[Place, ...]) -> dict[str, StoredAttribute]:
    """Return attributes by their names.

    Raises
    ------
    UnusualHeaderError
        One of them is not read here.
    """
    try:
        stored = [_stored(data, place) for place in places]
    except (struct.error, ValueError):
        raise UnusualHeaderError from None
    named = {attribute.name: attribute for attribute in stored}
    require(len(named) == len(stored))
    return named


def _stored(data: memoryview, place: Place) -> StoredAttribute:
    version, flags, *sizes = _PREFIX.unpack_from(data, place.start)
    require(1 <= version <= _CHARSET and (version == _PADDED or flags == 0))
    at = place.start + _PREFIX.size + (version == _CHARSET)
    parts = []
    for size in sizes:
        parts.append(Place(at, size))
        at += size + (-size % 8 if version == _PADDED else 0)
    stop = place.start + place.size
    require(at <= stop)
    name = bytes(data[parts[0].start : parts[0].start + parts[0].size])
    require(name.endswith(b"\0") and name.count(b"\0") == 1)
    return StoredAttribute(name[:-1].decode(), parts[1], parts[2], Place(at, stop - at))


def attribute_value(data: memoryview, stored: StoredAttribute, strings: FewStrings) -> Any:
    """Return the value of an attribute, as the ``attrs`` of h5py do.

    Raises
    ------
    UnusualHeaderError
        It is of a type that is not read here, or damaged.
    """
    shape = shape_of(data, stored.dataspace)
    datatype, item_bytes = datatype_of(data, stored.datatype)
    known = usual_types().get(datatype)
    count = math.prod(shape)
    if known is None or known.is_bits or count * item_bytes > stored.values.size:
        raise UnusualHeaderError
    start = stored.values.start
    if known.storage_type is StorageType.STRING:
        require(count <= MAX_STRINGS)
        found = strings.read(np.frombuffer(data, REFERENCE, count, start))
        if found is None:
            raise UnusualHeaderError
        return np.array(found, object).reshape(shape) if shape else found[0]
    if known.dtype.kind == "b":
        require(all(value <= 1 for value in data[start : start + count]))
    values = np.frombuffer(data, known.dtype, count, start).reshape(shape)
    return values.copy() if shape else values[()]
