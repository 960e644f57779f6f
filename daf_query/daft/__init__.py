"""Tables of Daf data sets in Daft, in one process or on its cluster.

**Nouns.** A *source* is a table as Daft plans it; each of its *tasks* is a fragment, which travels
by path.  What a filter of Daft says that the scan evaluates alike is *pushed*; Daft evaluates all
of it again.

Must not know SQL.  Imports Daft (the extra ``daft``).
"""

from daf_query.daft._read import read_daf

__all__ = ["read_daf"]
