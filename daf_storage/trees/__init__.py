"""Arrays by name: a tree of groups and arrays over some store.

**Nouns.** `Tree` and its companions are what any format offers: shapes, element types, chunks and
codecs.  `ZarrTree` offers it for Zarr v2 and v3 over any store, `Hdf5Tree` for an HDF5 file.

Must not know axes, vectors or matrices.
"""

from daf_storage.trees._chunked_array import (
    ChunkedArray,
    has_equal_bytes,
    limit_of_stored,
    limit_of_strings,
    passing_over,
    undone,
)
from daf_storage.trees._file_changes import Consolidated, FileChanges, FileTree, scratch_array
from daf_storage.trees._hdf5_file import (
    ALIGNMENT,
    INDEXES_SUFFIX,
    Hdf5File,
    RemoteHdf5File,
    check_contained,
    h5py,
    indexes_beside,
)
from daf_storage.trees._hdf5_output import (
    OutputFile,
    hdf5_output,
    open_for_output,
    require_space_in,
)
from daf_storage.trees._hdf5_tree import Hdf5Tree, WritableHdf5Tree
from daf_storage.trees._metadata import (
    ArrayMetadata,
    ChunkEncoding,
    ShardLayout,
    ZarrVersion,
    parse_json,
    read_document,
    shown,
)
from daf_storage.trees._stored_array import (
    ArrayInfo,
    MemoryArray,
    Node,
    NodeKind,
    Ranges,
    Remarked,
    StoredArray,
    StoredTree,
    Tree,
    TreeTransaction,
    WritableTree,
    chunks_of,
    elements_bytes,
    estimate_strings,
    memory_array,
    new_node,
)
from daf_storage.trees._zarr_array import PlainArray, StoreTree, open_zarr_array
from daf_storage.trees._zarr_tree import (
    FORMATS,
    WritableZarrTree,
    ZarrFormat,
    ZarrTree,
    find_version,
)
