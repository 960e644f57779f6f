"""The elements of a small dataset in chunks, read from the bytes of an HDF5 file.

Such as the categories of a compressed h5ad: HDF5 takes longer to open the dataset than to read it.
Only what is in order is read here; HDF5, and its checks, read the rest and say what is wrong.

Pure: bytes in, bytes out.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from daf_storage.trees._hdf5_chunk_tree import chunks_below
from daf_storage.trees._hdf5_chunks import are_known, undone
from daf_storage.trees._hdf5_headers import DatasetHeader

_MOST_CHUNKS: Final = 16
_MOST_ROWS: Final = 1 << 12
"""Of one chunk: how much is made is known before anything is decompressed."""


def small_chunked(
    file: npt.NDArray[np.uint8], header: DatasetHeader | None, item_bytes: int
) -> memoryview | None:
    """Return the bytes of the elements of a small dataset of one dimension, stored in chunks.

    None where HDF5 had better read it: elements of another size or that were not written, filters
    that are not known here, chunks that reach beyond the end and may be stored without them, and
    whatever is wrong.

    Parameters
    ----------
    header
        What the header of the dataset says, if it was read.
    item_bytes
        The bytes of an element.
    """
    if header is None or header.tree is None or header.chunks is None:
        return None
    if header.item_bytes != item_bytes or len(header.shape) != 1 or not are_known(header.filters):
        return None
    [length], [rows], width = header.shape, header.chunks, header.item_bytes
    count = -(-length // rows)
    if count > _MOST_CHUNKS or rows > _MOST_ROWS:
        return None
    listed = chunks_below(file, header.tree, header.chunks, most=count)
    if listed is None or listed[:, 0].tolist() != list(range(0, count * rows, rows)):
        return None
    elements = bytearray(count * rows * width)
    for start, offset, size, mask in listed.tolist():
        stored = file.data[offset : offset + size]
        may_be_unfiltered = size == rows * width and start + rows > length and header.filters
        data = None if may_be_unfiltered else _decoded(stored, size, header, mask)
        if data is None:
            return None
        elements[start * width : (start + rows) * width] = data
    return memoryview(elements)[: length * width]


def _decoded(stored: memoryview, size: int, header: DatasetHeader, mask: int) -> memoryview | None:
    """Return the elements of a chunk; None if it is cut off, or damaged."""
    chunk_bytes = math.prod(header.chunks or ()) * header.item_bytes
    if len(stored) != size:
        return None
    try:
        data = undone(stored, header.filters, mask, header.item_bytes, chunk_bytes)
    except Exception:  # noqa: BLE001 - each codec raises its own, and HDF5 says what is wrong
        return None
    return data if len(data) == chunk_bytes else None
