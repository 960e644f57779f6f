"""AnnData in and out.

**Nouns.** An *import* copies the data set that an AnnData is presented as; an *export* writes an
AnnData of a data set.  What each part becomes is `daf_storage.anndata`'s:
docs/reference/anndata.md.  Needs the extra ``anndata``.

Must not know formats, SQL or queries.
"""

from daf_storage.h5ad._export import export_h5ad, export_h5mu, to_anndata
from daf_storage.h5ad._import import from_anndata, import_h5ad, undone_on_error
