"""Concatenation: data sets along an axis, out of core, with a record of what came from where.

**Nouns.** A *member* is one of the data sets and its name in the result.  The *concatenated* axes
have the entries of all members, one after the other; every other axis is *shared*, and its entries
are *joined*.  An *alignment* says where the entries of a member are on an axis of the result.  A
*merge action* says what becomes of what does not run along a concatenated axis.

Must not know SQL, queries, or how a format stores anything.
"""

from daf_storage.concat._concatenate import concatenate
from daf_storage.concat._run import Join, MergeAction, Merging
