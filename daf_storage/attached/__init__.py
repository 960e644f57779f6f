"""Files of others, presented as Daf data sets, in place.

**Nouns.** `AnnDataTree` is a tree over the tree of an h5ad file, or of a Zarr store that anndata
wrote.  Its axes, vectors and matrices have the names that an import gives them, and are views of
what is stored: nothing is copied, and metadata alone are read when it is opened.

Must not know paths, nor how a file is opened.
"""

from daf_storage.attached._frames import EntryNames
from daf_storage.attached._notes import keep_part
from daf_storage.attached._parts import is_anndata
from daf_storage.attached._tree import AnnDataTree, tree_of_object
