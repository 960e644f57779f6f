"""Arrays by name: a tree of groups and arrays over some store.

A tree knows shapes, element types, chunks and codecs; it knows nothing of axes, vectors or
matrices.  `Tree` and its companions are what any format has to offer; `ZarrTree` offers it for
Zarr v2 over any store.
"""

from daf_storage.trees._hdf5 import ALIGNMENT, Hdf5File, Hdf5Tree, WritableHdf5Tree, h5py
from daf_storage.trees._metadata_v2 import ARRAY_FILE, CONSOLIDATED_FILE, GROUP_FILE
from daf_storage.trees._protocol import (
    ArrayInfo,
    Node,
    NodeKind,
    StoredArray,
    Tree,
    TreeTransaction,
    WritableTree,
)
from daf_storage.trees._zarr import WritableZarrTree, ZarrTree

__all__ = [
    "ALIGNMENT",
    "ARRAY_FILE",
    "CONSOLIDATED_FILE",
    "GROUP_FILE",
    "ArrayInfo",
    "Hdf5File",
    "Hdf5Tree",
    "Node",
    "NodeKind",
    "StoredArray",
    "Tree",
    "TreeTransaction",
    "WritableHdf5Tree",
    "WritableTree",
    "WritableZarrTree",
    "ZarrTree",
    "h5py",
]
