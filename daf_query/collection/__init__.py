"""Several data sets as one in matrices: slices of all of them, with their columns aligned by name.

**Nouns.** A *member* is a data set of a collection.  Of the two axes of a matrix, one is
*concatenated*: its entries are those of the first member, then those of the second, and so on.  The
other is *aligned*: its entries are the same where their names are.  A *join* says which names an
aligned axis has: those that all members have (``inner``), or those of any (``outer``); what a
member lacks is *filled*.

Must not know sessions, profiles or the command line.
"""

from daf_query.collection._collection_slice import CollectionSlice, DuplicateNamesWarning
from daf_query.collection._explanation import CollectionExplanation
from daf_query.collection._make import (
    Axes,
    CollectionRequest,
    collection_axes,
    collection_slice,
    resolve_both,
)
from daf_query.collection._selectors import resolve_concatenated
from daf_query.collection._var import aligned_axis_frame

__all__ = [
    "Axes",
    "CollectionExplanation",
    "CollectionRequest",
    "CollectionSlice",
    "DuplicateNamesWarning",
    "aligned_axis_frame",
    "collection_axes",
    "collection_slice",
    "resolve_both",
    "resolve_concatenated",
]
