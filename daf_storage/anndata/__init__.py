"""The one mapping between AnnData and Daf: in place, and back.

**Nouns.** *obs* and *var* are axes, their columns vectors, ``X`` and the layers matrices.  Each
column becomes a vector and a *rule* that restores it, each value of ``obsm`` and ``varm`` a matrix
and a note; the *notes* are all of these in a scalar.  `AnnDataTree` presents a file of AnnData as
the tree of a data set, whose properties are views of what is stored; an import copies them.
`axis_frame` and `aligned_matrices` lead back.  The *report* lists what became of each part.  The
rules: docs/reference/anndata.md.

Must not know paths, how a file is opened, SQL or queries.
"""

from daf_storage.anndata._encoding import narrowed
from daf_storage.anndata._file_values import (
    writable_frame,
    write_anndata,
    write_parts,
    write_value,
)
from daf_storage.anndata._forms import FORMS, ForeignForm, form_of
from daf_storage.anndata._mudata import MuDataParts
from daf_storage.anndata._parts import MISSING_SUFFIX, EntryNames, made_unique
from daf_storage.anndata._report import (
    AXIS_KEYS,
    NOTES,
    AnnDataWarning,
    Notes,
    Report,
    ReportItem,
    axis_notes,
    note_categories,
    part_label,
    raw_axis_of,
    read_notes,
)
from daf_storage.anndata._restored import (
    ANNDATA_PARTS,
    COLOR,
    AlignedMatrix,
    RecordedType,
    aligned_matrices,
    axis_frame,
    imported_label,
    recorded_types,
    unstructured,
    vector_rules,
    was_float,
)
from daf_storage.anndata._tree import AnnDataTree, kept_image, tree_of_object
