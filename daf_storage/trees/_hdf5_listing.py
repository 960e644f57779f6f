"""Where the chunks of an HDF5 dataset are in its file: listed, and checked."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daf_storage.errors import CorruptDataError
from daf_storage.trees._chunk_grid import Position
from daf_storage.trees._hdf5_chunk_tree import Numbers, chunks_below, chunks_in_tree
from daf_storage.trees._hdf5_types import h5py
from daf_storage.trees._protocol import ArrayInfo

MAX_LISTED_CHUNKS: Final = 1 << 19
"""Of a dataset of more chunks, HDF5 looks up each chunk itself."""


@dataclass(frozen=True, slots=True)
class ChunkListing:
    """Where the chunks of a dataset are in its file, in the order of the grid."""

    grid: tuple[int, ...]
    """How many chunks there are along each dimension."""
    offsets: Numbers
    """Where they begin; -1 for one that is not stored."""
    sizes: Numbers
    """How many bytes they have."""
    masks: Numbers
    """Which filters each was stored without, as bits."""

    def number(self, position: Position) -> int:
        """Return the number of a chunk in the order of the grid."""
        number = 0
        for at, count in zip(position, self.grid, strict=True):
            number = number * count + at
        return number


def list_chunks(
    dataset: Callable[[], Any],
    info: ArrayInfo,
    file: npt.NDArray[np.uint8],
    *,
    tree: int | None = None,
    is_usual: bool,
    what: str,
) -> ChunkListing | None:
    """Return where the chunks of a dataset are; None if there are too many to be listed.

    Parameters
    ----------
    dataset
        Returns it as h5py has it, where HDF5 has to be asked.
    file
        The bytes of the whole file.
    tree
        Where the B-tree of its chunks is, if that is known.
    is_usual
        Whether its addresses have 8 bytes and count from its beginning.

    Raises
    ------
    CorruptDataError
        A chunk is said to be outside the file or the dataset, or twice.
    """
    grid = tuple(-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True))
    count = math.prod(grid)
    if not 0 < count <= MAX_LISTED_CHUNKS:
        return None
    table = None
    if tree is not None:
        table = chunks_below(file, tree, info.chunks, most=count)
    elif is_usual:
        header = int(h5py().h5o.get_info(dataset().id).addr)
        table = chunks_in_tree(file, header, info.chunks, most=count)
    if table is None:
        if not hasattr(dataset().id, "chunk_iter"):
            return None
        table = _asked_chunks(dataset(), count, len(grid), what)
    return _listing(table, info, grid, file.size, what)


def _asked_chunks(dataset: Any, count: int, rank: int, what: str) -> Numbers:
    """Ask HDF5 where the chunks of a dataset are; a row for each."""
    found = array("q")
    most = count * (rank + 3)

    def note(stored: Any) -> int | None:
        try:
            found.extend(
                (*stored.chunk_offset, stored.byte_offset, stored.size, stored.filter_mask)
            )
        except (OverflowError, TypeError):  # an undefined address
            return 1
        return 1 if len(found) > most else None

    problem = dataset.id.chunk_iter(note)
    if problem is not None:
        raise _damaged(what, "there are more chunks than the dataset has room for, or some nowhere")
    return np.frombuffer(found, np.int64).reshape(-1, rank + 3)


def _listing(
    table: Numbers, info: ArrayInfo, grid: tuple[int, ...], file_bytes: int, what: str
) -> ChunkListing:
    """Return a listing of chunks, after checking that each has a place of its own in the grid."""
    count = math.prod(grid)
    starts, places = table[:, : len(grid)], table[:, len(grid) :]
    numbers, rest = np.divmod(starts, np.array(info.chunks))
    if bool(np.any(rest)) or bool(np.any(starts < 0)) or bool(np.any(numbers >= np.array(grid))):
        raise _damaged(what, "a chunk is said to be outside its shape")
    offsets, sizes = places[:, 0], places[:, 1]
    if bool(np.any(offsets < 0) or np.any(sizes < 0) or np.any(sizes > file_bytes - offsets)):
        raise _damaged(what, f"a chunk is said to be outside the file of {file_bytes:,} bytes")
    flat = np.ravel_multi_index(tuple(numbers.T), grid)
    listing = ChunkListing(grid, *(np.full(count, -1, np.int64) for _ in range(3)))
    for target, column in zip(
        (listing.offsets, listing.sizes, listing.masks), places.T, strict=True
    ):
        target[flat] = column
    if np.count_nonzero(listing.offsets >= 0) != len(table):
        raise _damaged(what, "two chunks are said to be at the same place")
    return listing


def _damaged(what: str, problem: str) -> CorruptDataError:
    return CorruptDataError(
        f"{what}: the list of its chunks is damaged: {problem}; take the file from a backup"
    )
