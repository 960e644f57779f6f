"""Parts of an AnnData that Daf has no place for, kept beside the data in anndata's own encoding.

**Nouns.** A *part* is one value of an AnnData (``uns["paga"]``, ``obsm["mask"]``).  An *image* is a
small HDF5 file that holds it as ``write_h5ad`` would have written it; it is stored as an array of
bytes below the group ``anndata``, which readers of Daf ignore.  A part is *aligned* to the axes of
its first dimensions: it follows when their entries are reordered, and goes when they are deleted.

Knows trees, h5py and anndata; knows neither readers nor which value belongs where.
Source: docs/reference/format.md, "Parts of an AnnData".
"""

from daf_storage.data.kept._image import (
    EARLIER_FORM,
    Writer,
    read_element,
    write_element,
    writer_of,
)
from daf_storage.data.kept._parts import (
    GROUP,
    LEVELS,
    KeptPart,
    aligned_paths,
    arrays,
    check_part,
    delete_part,
    free_name,
    image_of,
    keep,
    make_groups,
    parts,
    paths_of_axis,
    write_reordered,
)
