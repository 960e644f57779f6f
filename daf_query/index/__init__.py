"""Secondary indexes: they may return false positives, never false negatives.

**Nouns.** A *sorted index* lists the rows of strings by their hashes; an *R-tree* finds the rows
whose box meets another one.  An index is *stored* beside the data with the *fingerprint* of what it
was built from, verified before it is used, and not used if it is stale or, with one warning,
damaged.

Must not know tables, SQL or DataFusion.
"""

from daf_query.index._build import (
    accelerated,
    build_index,
    build_point_index,
    rebuild_indexes,
    refreshed,
)
from daf_query.index._rtree import PointIndex, RTree, UnfitIndexError, rtree_of
from daf_query.index._stored import StoredIndexes, UnusedIndexWarning, hashes_of, warn_once
