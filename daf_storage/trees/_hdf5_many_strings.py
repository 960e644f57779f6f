"""Read the strings of a large dataset from the bytes of an HDF5 file, many at a time with numpy.

HDF5 asks for each string by itself, and h5py makes a Python object of it.  `_hdf5_heaps` says where
the strings lie; what it finds wrong is an error, whoever reads them afterwards.  Strings that are
not in order otherwise are left to HDF5, which says why.

Pure: bytes in, strings out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage.base import one_array
from daf_storage.errors import CorruptDataError
from daf_storage.trees._hdf5_heaps import WalkedHeaps, locate_strings

_BLOCK_BYTES: Final = 1 << 20
"""How many bytes of strings are gathered at once; there are 8 of places for each."""

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def read_many(
    file: Bytes,
    blocks: Iterable[tuple[int | None, npt.NDArray[Any]]],
    size: int,
    *,
    base: int,
    what: str,
    walked: WalkedHeaps,
) -> Any:
    """Return the strings that blocks of elements refer to, after a check of all of them.

    Parameters
    ----------
    blocks
        Elements, and the place of the first of them; those of a last chunk may lie beyond the end.
    size
        How many elements there are.

    Returns
    -------
    pyarrow.StringArray or pyarrow.LargeStringArray or None
        None if there are NUL characters, where HDF5 ends a string, or they are not UTF-8; or if
        the blocks do not follow each other.

    Raises
    ------
    CorruptDataError
        The heaps are damaged, or the strings have more bytes together than the file.
    """
    total = count = 0
    found: list[pa.Array | None] = []
    for start, references in blocks:
        places, lengths = locate_strings(file, references, base=base, what=what, walked=walked)
        total += int(lengths.sum())
        if total > file.size:
            raise CorruptDataError(
                f"{what}: its strings are said to have {total:,} bytes together, more than the file"
            )
        if start != count or None in found:  # HDF5 reads them; the others are checked only
            found.append(None)
            continue
        rows = slice(0, size - count)
        found += [_gathered(file, *piece) for piece in _pieces(places[rows], lengths[rows])]
        count += min(lengths.size, size - count)
    if count != size or None in found:
        return None
    return one_array(pa.chunked_array(found, pa.string()))


def _pieces(places: Numbers, lengths: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Cut strings into ranges of so many bytes, unless one string alone has more."""
    ends = np.cumsum(lengths)
    first = 0
    while first < lengths.size:
        before = int(ends[first - 1]) if first else 0
        stop = max(int(np.searchsorted(ends, before + _BLOCK_BYTES, "right")), first + 1)
        yield places[first:stop], lengths[first:stop]
        first = stop


def _gathered(file: Bytes, places: Numbers, lengths: Numbers) -> pa.Array | None:
    """Return strings that lie at some places; None if HDF5 had better read them."""
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if lengths.size == 1:
        data = file[places[0] : places[0] + lengths[0]].copy()
    else:
        data = file[np.repeat(places - offsets[:-1], lengths) + np.arange(offsets[-1])]
    if offsets[-1] > np.iinfo(np.int32).max or not data.all():
        return None
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    strings = pa.Array.from_buffers(pa.string(), lengths.size, buffers)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return strings
