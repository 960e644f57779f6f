"""AnnData in and out: an import, and an export.

What each part becomes is `daf_storage.anndata`'s: docs/reference/anndata.md.  Needs the extra
``anndata``.

Must not know formats, SQL or queries.
"""

from daf_storage.h5ad._export import export_h5ad, to_anndata
from daf_storage.h5ad._import import from_anndata, import_h5ad, undone_on_error
