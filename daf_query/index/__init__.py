"""Secondary indexes: they may return false positives, never false negatives.

**Nouns.** A *sorted index* lists the rows of each value, or of each hash of a string, as *posting
lists*; an *R-tree* finds the rows whose box meets another one.  An index is *stored* beside the
data with the *fingerprint* of what it was built from, checked before it is used, and not used, with
one warning, if it is stale or damaged.

Must not know tables, SQL or DataFusion.
"""

from daf_query.index._build import (
    accelerated,
    build_index,
    build_point_index,
    rebuild_indexes,
    refreshed,
)
from daf_query.index._faults import UnfitIndexError, UnusedIndexWarning, list_of, warn_once
from daf_query.index._rtree import PointIndex, RTree, rtree_of
from daf_query.index._sorted_index import hashes_of
from daf_query.index._stored import StoredIndexes
