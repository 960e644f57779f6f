"""Packed files without an index of their chunks: the directory of the ZIP archive is one.

Each record has the same length and they are in the order of the chunks, so an index of the kind
that packed files otherwise begin with can be made of them at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from daf_storage.base import AnyArray
from daf_storage.errors import CorruptDataError

RangeReader: TypeAlias = Callable[[list[tuple[int, int]]], list[memoryview]]

_TAIL_BYTES: Final = 98
_END64_SIGNATURE: Final = b"PK\6\6"
_CENTRAL_SIGNATURE: Final = b"PK\1\2"
_CENTRAL_BYTES: Final = 46
_LOCAL_BYTES: Final = 30
_LOCAL_EXTRA_BYTES: Final = 20
_CENTRAL_EXTRA_BYTES: Final = 28
_GZIP_HEADER_BYTES: Final = 10
_GZIP_TRAILER_BYTES: Final = 8
_MAX_NAME_BYTES: Final = 64
_METHODS: Final = {"zstd": 93, "gzip": 8}
"""The method of an entry by the codec; others are stored."""


def zip_index(read: RangeReader, size: int, *, count: int, codec: str, what: str) -> AnyArray:
    """Return where the data of each chunk is, as offsets and lengths.

    Parameters
    ----------
    read
        Reads ranges of the file.
    size
        How long it is.
    count
        How many chunks there are.
    codec
        How they are compressed.

    Raises
    ------
    CorruptDataError
        The file, which messages call ``what``, does not end as such an archive does.
    """
    directory = _directory(read, size, what)
    method = _METHODS.get(codec, 0)
    name_bytes = int(directory[28]) + 256 * int(directory[29])
    record_bytes = _CENTRAL_BYTES + name_bytes + _CENTRAL_EXTRA_BYTES
    if name_bytes > _MAX_NAME_BYTES or directory.size < record_bytes * count:
        raise _damaged(what, f"its directory does not list {count:,} chunks")
    rows = directory[: record_bytes * count].reshape(count, record_bytes)
    signature = np.frombuffer(_CENTRAL_SIGNATURE, np.uint8)
    if not bool((rows[:, :4] == signature).all()):
        raise _damaged(what, "its directory has records of several lengths")
    methods = rows[:, 10:12].copy().view("<u2")
    if not bool((methods == method).all()):
        raise _damaged(
            what, f"its chunks have the ZIP method {int(methods[0, 0])} instead of {method}"
        )
    extra = rows[:, _CENTRAL_BYTES + name_bytes :][:, 4:].copy().view("<u8")
    sizes, offsets = extra[:, 1].astype(np.uint64), extra[:, 2].astype(np.uint64)
    if method == _METHODS["gzip"]:
        if name_bytes != _GZIP_HEADER_BYTES:
            raise _damaged(what, "the names of its chunks are not the headers of gzip streams")
        around = np.uint64(_GZIP_HEADER_BYTES + _GZIP_TRAILER_BYTES)
        return np.stack([offsets + np.uint64(_LOCAL_BYTES), sizes + around], axis=1)
    header = np.uint64(_LOCAL_BYTES + name_bytes + _LOCAL_EXTRA_BYTES)
    return np.stack([offsets + header, sizes], axis=1)


def _directory(read: RangeReader, size: int, what: str) -> AnyArray:
    """Return the bytes of the directory of the archive."""
    if size < _TAIL_BYTES:
        raise _damaged(what, "it is too short for a ZIP archive")
    tail = read([(size - _TAIL_BYTES, size)])[0]
    if bytes(tail[:4]) != _END64_SIGNATURE:
        raise _damaged(what, "it does not end as a ZIP archive of chunks does")
    length, offset = struct.unpack_from("<QQ", tail, 40)
    if offset + length > size:
        raise _damaged(what, "the directory of the archive lies outside of it")
    directory: AnyArray = np.frombuffer(read([(offset, offset + length)])[0], np.uint8)
    if directory.size < _CENTRAL_BYTES:
        raise _damaged(what, "the directory of the archive is too short")
    return directory


def _damaged(what: str, problem: str) -> CorruptDataError:
    return CorruptDataError(f"{what}: {problem}; write it again")
