"""Groups of the entries of an axis, and the axes that are made of them.

**Nouns.** A *group index* says which group an entry belongs to: 1 to N, or 0 for none.  The
*members* of a group are the positions of its entries, from 0.  An *implicit axis* is one of which
only a vector of another axis tells: the batch of each cell, where there is no axis of batches.

Must not know paths, formats, AnnData or queries.
"""

from daf_storage.groups._group_indices import collect_group_members, compact_groups, group_names
from daf_storage.groups._implicit_axis import reconstruct_axis
