"""AnnData in and out: what each part of an ``h5ad`` becomes, and how it comes back.

**Nouns.** *obs* and *var* become axes, their columns vectors, ``X`` and the layers matrices.  The
*report* lists what became of each part.  The rules: docs/reference/anndata.md.  Needs the extra
``anndata``.

Must not know formats, SQL or queries.
"""

from daf_storage.anndata_rules import AnnDataWarning, Report, ReportItem
from daf_storage.h5ad._aligned import ANNDATA_PARTS, AlignedMatrix, aligned_matrices, was_float
from daf_storage.h5ad._export import export_h5ad, to_anndata
from daf_storage.h5ad._file_values import write_anndata
from daf_storage.h5ad._frames import axis_frame
from daf_storage.h5ad._import import from_anndata, import_h5ad, undone_on_error
from daf_storage.h5ad._recorded_types import RecordedType, recorded_types
