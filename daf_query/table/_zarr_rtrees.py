"""R-trees over geometries of a Zarr group: checked before they are used, once for each state.

Other tools write only the bytes of the library geo-index.  Those that are built here have an
attribute beside them: the checksum of the bytes, and the checksum and the state of the chunk files
of the column that they were made of.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from daf_query.index import RTree, UnfitIndexError
from daf_query.table._zarr_chunks import ChunkFiles
from daf_storage import spi
from daf_storage.spi import lazy_module

if TYPE_CHECKING:
    import zarr
else:
    zarr = lazy_module("zarr")

ATTRIBUTE: Final = "daf_index"
"""The attribute of an index that says what it was made of."""

_HELD_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """What came of looking for an index."""

    tree: RTree | None = None
    """The index, if there is one that fits."""
    problem: str = ""
    """Why it cannot be used, if there is one."""

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return _HELD_BYTES if self.tree is None else self.tree.nbytes


def attributes_of(data: npt.NDArray[np.uint8], column: Any) -> dict[str, Any]:
    """Return what is noted beside an index: its checksum, and what it was made of."""
    checksum = crc32(np.ascontiguousarray(data).data)
    return {ATTRIBUTE: {"checksum": checksum, **source_of(column)}}


def source_of(column: Any) -> dict[str, Any]:
    """Return checksum and state of the chunk files of a column; nothing of other stores."""
    files = ChunkFiles.of(column)
    if files is None:
        return {}
    state = files.state()
    return {"source": files.checksum(), **({} if state is None else {"files": state})}


def identity_of(index: Any, column: Any) -> Hashable:
    """Return a value that changes with an index or its column; None if undetectable."""
    if not isinstance(index, zarr.Array):
        return None
    if isinstance(index.store, spi.ZarrArchiveStore):
        return (index.path, index.store.archive.file_state())
    files = [ChunkFiles.of(array) for array in (index, column)]
    states = [None if one is None else one.state() for one in files]
    return None if None in states else tuple(states)


def found_index(index: Any, column: Any, n_rows: int) -> FoundIndex:
    """Return an index after checking all of it."""
    try:
        return _checked(index, column, n_rows)
    except UnfitIndexError as error:
        return FoundIndex(problem=str(error))


def _checked(index: Any, column: Any, n_rows: int) -> FoundIndex:
    if not isinstance(index, zarr.Array) or index.dtype != np.uint8 or index.ndim != 1:
        raise UnfitIndexError("it is no R-tree: it is not a list of bytes")
    try:
        data = np.ascontiguousarray(np.asarray(index[:]))
    except Exception as error:  # zarr raises many kinds for data that it cannot read
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UnfitIndexError(f"it cannot be read ({reason})") from error
    noted = index.attrs.get(ATTRIBUTE, {})
    if not isinstance(noted, Mapping):
        raise UnfitIndexError(f"its attribute {ATTRIBUTE!r} is malformed")
    if noted.get("checksum", crc32(data.data)) != crc32(data.data):
        raise UnfitIndexError("its checksum is wrong")
    tree = RTree.open(data, n_rows)
    if "source" in noted and not _is_of_now(noted, column):
        raise UnfitIndexError("the geometries were changed since it was built")
    return FoundIndex(tree)


def _is_of_now(noted: Mapping[str, Any], column: Any) -> bool:
    """Return whether an index was made of what is stored now; on a server, that is not asked."""
    files = ChunkFiles.of(column)
    if files is None:
        return True
    state = files.state()
    is_same = state is not None and noted.get("files") == state
    return is_same or bool(noted["source"] == files.checksum())
