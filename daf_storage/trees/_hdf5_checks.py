"""Check an untrusted HDF5 file before HDF5 reads it: targets of links, and sizes of chunks.

HDF5 follows links into other files, waits for named pipes among them, and decompresses whatever a
chunk expands to.
"""

from __future__ import annotations

import itertools
import math
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage.base import Span
from daf_storage.errors import CorruptDataError, UnsupportedDataError
from daf_storage.trees._decompress import decompress
from daf_storage.trees._hdf5_heaps import REFERENCE
from daf_storage.trees._hdf5_types import h5py

_MAX_LINKS: Final = 16
_FREE_BYTES: Final = 1 << 28
_DEFLATE_RATIO: Final = 1032
_FILTERED_RATIO: Final = 16
_REFERENCE_BLOCK: Final = 1 << 20


def check_links(group: Any, path: str, *, what: str) -> bool:
    """Return whether all links on a path are there; raise if it leads out of the file.

    Parameters
    ----------
    group
        The identifier of the group from which the path begins.

    Raises
    ------
    UnsupportedDataError
        A link on the way leads to another file, or there are too many.
    """
    h5l = h5py().h5l
    at, rest = "", [part for part in path.split("/") if part]
    for _ in range(_MAX_LINKS + 2 * len(rest)):
        if not rest:
            return True
        at = posixpath.join(at, rest.pop(0))
        try:
            kind = group.links.get_info(at.encode()).type
        except (KeyError, RuntimeError, ValueError, OSError):
            return False  # there is nothing, or no group in which it could be looked for
        if kind == h5l.TYPE_HARD:
            continue
        if kind != h5l.TYPE_SOFT:
            raise leads_out(what)
        target = group.links.get_val(at.encode()).decode("utf-8", "surrogateescape")
        full = posixpath.join("/" if target.startswith("/") else posixpath.dirname(at), target)
        if target.startswith("/"):
            group = h5py().h5i.get_file_id(group)
        at, rest = "", [part for part in full.split("/") if part not in ("", ".")] + rest
    raise UnsupportedDataError(f"{what}: it is reached over too many links; replace them")


def leads_out(what: str) -> UnsupportedDataError:
    """Say that a link leads to another file."""
    return UnsupportedDataError(
        f"{what}: it is a link to another file, and no file but this one is read; copy what it "
        "leads to into the file"
    )


def check_source(properties: Any, *, what: str) -> None:
    """Raise if the elements of a dataset are in other files, by how it was created."""
    is_virtual = properties.get_layout() == h5py().h5d.VIRTUAL
    if is_virtual or properties.get_external_count() > 0:
        raise UnsupportedDataError(
            f"{what}: its elements are in other files or datasets, which are not read; copy them "
            "into this dataset"
        )


def has_all_chunks(
    dataset: Any, shape: Sequence[int], chunks: Sequence[int] | None, item_bytes: int
) -> bool:
    """Return whether there is room in the file for all elements of a dataset, an identifier."""
    if 0 in shape:
        return True
    if chunks is None:
        stored_bytes = int(dataset.get_storage_size())
        return stored_bytes >= math.prod(shape) * item_bytes
    grid: int = math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))
    stored_chunks = int(dataset.get_num_chunks())
    return stored_chunks >= grid


def check_expansion(dataset: Any, rows: Span, *, what: str) -> None:
    """Raise if a compressed chunk that holds some of the rows expands beyond its shape.

    Only chunks that could become larger than memory should be are looked at: few, if any.
    """
    if dataset.chunks is None or dataset.id.get_storage_size() * _DEFLATE_RATIO <= _FREE_BYTES:
        return
    filters = _filters(dataset)
    h5z = h5py().h5z
    if not any(number == h5z.FILTER_DEFLATE for number in filters):
        return
    limit = math.prod(dataset.chunks) * dataset.id.get_type().get_size() + 1024
    for offset in _offsets(dataset, rows):
        info = dataset.id.get_chunk_info_by_coord(offset)
        if info.byte_offset is None or info.size * _DEFLATE_RATIO <= max(limit, _FREE_BYTES):
            continue
        _undone(dataset, offset, filters, limit, what)


def references_of(
    dataset: Any, file: npt.NDArray[np.uint8], *, what: str
) -> Iterator[tuple[int | None, npt.NDArray[Any]]]:
    """Yield the elements of a dataset of strings as they are stored: as references to a heap.

    Each block with the place of its first element; None where a block is no range of elements, in
    chunks of several dimensions.  Nothing where they are compressed in a way that only HDF5 knows.
    """
    offset = dataset.id.get_offset()
    if dataset.chunks is None:
        size_bytes = int(dataset.id.get_storage_size())
        if offset is None:
            return
        stored = file[offset : offset + size_bytes // REFERENCE.itemsize * REFERENCE.itemsize]
        references = stored.view(REFERENCE)
        for start in range(0, references.size, _REFERENCE_BLOCK):
            yield start, references[start : start + _REFERENCE_BLOCK]
        return
    filters = _filters(dataset)
    h5z = h5py().h5z
    if set(filters) - {h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE}:
        return
    limit = math.prod(dataset.chunks) * REFERENCE.itemsize
    for number in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(number)
        data = _undone(dataset, info.chunk_offset, filters, limit, what)
        if len(data) != limit:
            raise CorruptDataError(f"{what}: a chunk has {len(data):,} bytes instead of {limit:,}")
        is_range = len(info.chunk_offset) == 1
        yield int(info.chunk_offset[0]) if is_range else None, np.frombuffer(data, REFERENCE)


def _filters(dataset: Any) -> list[int]:
    properties = dataset.id.get_create_plist()
    return [properties.get_filter(n)[0] for n in range(properties.get_nfilters())]


def _offsets(dataset: Any, rows: Span) -> Iterator[tuple[int, ...]]:
    """Return where the chunks begin that hold some of the rows."""
    height = dataset.chunks[0]
    down = range(rows.start // height * height, rows.stop, height)
    across = zip(dataset.shape[1:], dataset.chunks[1:], strict=True)
    return itertools.product(down, *(range(0, n, c) for n, c in across))


def _undone(
    dataset: Any, offset: tuple[int, ...], filters: list[int], limit: int, what: str
) -> bytes:
    """Return the elements of a chunk, whose filters are deflate and shuffle."""
    mask, stored = dataset.id.read_direct_chunk(offset)
    data = bytes(stored)
    h5z = h5py().h5z
    for number in reversed(range(len(filters))):
        if mask >> number & 1:
            continue
        if filters[number] == h5z.FILTER_DEFLATE:
            try:
                data = bytes(decompress({"id": "zlib"}, memoryview(data), limit))
            except Exception as error:  # zlib has errors of its own
                raise CorruptDataError(
                    f"{what}: the chunk at {list(offset)} cannot be decompressed ({error})"
                ) from error
        elif filters[number] == h5z.FILTER_SHUFFLE:
            width = dataset.id.get_type().get_size()
            count = len(data) // width
            rest = data[count * width :]
            data = np.frombuffer(data[: count * width], np.uint8).reshape(width, count).T.tobytes()
            data += rest
        else:
            return b""
    return data
