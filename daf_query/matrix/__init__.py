"""Stored matrices: which elements of which layout to read, and how to gather them.

**Nouns.** A *selection* is the chosen positions along one axis.  A *layout* is one of the two
orders in which a matrix may be stored; its *major* axis is the one whose entries are the stored
columns, the *minor* axis the other.  A *slice plan* says what a selection costs in a layout.
*Gathering* reads the elements of a selection from a layout; its *candidates*
are the same elements one major after the other, to be read block by block.  An *estimate* says
before how many there are, and how many bytes and requests that takes.  In a collection,
an axis is *concatenated* (the entries of one after those of another) or *aligned* by name.

Must not know tables, SQL, sessions or the command line.
"""

from daf_query.matrix._elements import ElementPart, Elements
from daf_query.matrix._gather import (
    STRING_BYTES,
    Selection,
    SlicePlan,
    StoredElements,
    as_slice,
    csr_of,
    cut_at,
    gather_dense,
    gather_sparse,
    keep_freed_memory,
    spans_of_length,
)
from daf_query.matrix._layouts import (
    DamagedLayoutWarning,
    ElementCount,
    PlannedLayouts,
    count_elements,
    estimate_read,
    find_layouts,
    major_counts,
    minor_counts,
    open_layouts,
    other_layout_command,
)
from daf_query.matrix._member_axes import (
    AlignedAxis,
    ConcatenatedAxis,
    EntryAxis,
    Join,
    Readers,
    aligned,
    aligned_axis,
    concatenated_axis,
    concatenated_of,
)
