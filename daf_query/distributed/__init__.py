"""Tables and matrices that other processes read by path, for Dask, Spark and training.

**Nouns.** A *source* says how another process opens a table or a matrix: by the paths, options and
views of its data sets, and with the version that they had; it has no values.  A process keeps a
bounded number of readers and of opened sources.  Whoever reads compares the version, and refuses
what was changed since.  A *block* is what a task of a Dask array returns: CSR or dense.

Must not know slices, tables or sessions: they make sources.
"""

from daf_query.distributed._dask import BlockKind, FrameForm, block_array, nullable_types
from daf_query.distributed._source import (
    Pool,
    Source,
    file_state,
    let_go,
    opened,
    reading,
    token_of,
)
