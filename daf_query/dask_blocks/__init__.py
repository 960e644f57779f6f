"""Dask collections whose tasks read by path: blocks of matrices, partitions of tables.

**Nouns.** A *source* says what is read: a path, the names of axes, a selection, the version of the
data; it has no values, and travels to workers.  *Opened*, it reads *pieces*: the rows of a block,
packed.  A process keeps a bounded number of readers and of opened sources.  A *block* is what a
task returns: CSR or dense.

Must not know slices, tables or sessions: they make sources.
"""

from daf_query.dask_blocks._arrays import BlockKind, block_array
from daf_query.dask_blocks._frames import FrameForm, frame_of_pieces
from daf_query.dask_blocks._opened import (
    InMemorySource,
    OpenedSource,
    Source,
    let_go,
    opened,
    reader_at,
)
from daf_query.dask_blocks._packed_positions import PackedPositions
from daf_query.dask_blocks._tokens import token_of
from daf_query.dask_blocks._unchanged import VersionedData

__all__ = [
    "BlockKind",
    "FrameForm",
    "InMemorySource",
    "OpenedSource",
    "PackedPositions",
    "Source",
    "VersionedData",
    "block_array",
    "frame_of_pieces",
    "let_go",
    "opened",
    "reader_at",
    "token_of",
]
