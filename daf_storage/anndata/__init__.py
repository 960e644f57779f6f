"""The one mapping between AnnData and Daf: in place, and back.

**Nouns.** *obs* and *var* are axes, their columns vectors, ``X`` and the layers matrices.  Each
column becomes a vector and a *rule* that restores it, each value of ``obsm`` and ``varm`` a matrix
and a note; the *notes* are all of these in a scalar.  `AnnDataTree` presents a file of AnnData as
the tree of a data set, whose properties are views of what is stored; an import copies them.
`axis_frame` and `aligned_matrices` lead back.  The *report* lists what became of each part.  The
rules: docs/reference/anndata.md.

Must not know paths, how a file is opened, SQL or queries.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
