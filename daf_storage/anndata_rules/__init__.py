"""The rules by which parts of an AnnData become those of a Daf data set and back; no file is read.

**Nouns.** Each *column* of obs and var becomes a vector and a *rule* that restores it; each value
of ``obsm`` and ``varm``, an *annotation*, a matrix and a note.  The *notes* are all rules of a data
set, in a scalar.  The *report* lists what became of each part.  An import and an AnnData that is
read in place follow the same rules: docs/reference/anndata.md.

Must not know files of AnnData, formats, SQL or queries.
"""

from daf_storage.anndata_rules import _annotations as annotations
from daf_storage.anndata_rules import _columns as columns
from daf_storage.anndata_rules import _notes as notes
from daf_storage.anndata_rules._naming import free_name, part_label, scalar_value
from daf_storage.anndata_rules._notes import Notes
from daf_storage.anndata_rules._report import AnnDataWarning, Report, ReportItem
