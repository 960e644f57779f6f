"""Operations on whole data sets: verify, repair, copy and convert, reorder, index, serve.

**Nouns.** A *finding* is something that `verify` objects to; a *repair report* lists what `repair`
did and what was lost.

Must not know AnnData, SQL or queries.
"""

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_names
from daf_storage.upkeep._copy import convert, copy_all
from daf_storage.upkeep._copy_properties import (
    CopyIfExists,
    copy_axis,
    copy_matrix,
    copy_scalar,
    copy_vector,
)
from daf_storage.upkeep._counts import CountsAs, count_types, counted_matrix
from daf_storage.upkeep._groups import (
    collect_group_members,
    compact_groups,
    group_names,
    reconstruct_axis,
)
from daf_storage.upkeep._index_storage import (
    IndexKind,
    IndexPlace,
    IndexSource,
    IndexStorage,
    StoredIndex,
)
from daf_storage.upkeep._repair import RepairReport, repair
from daf_storage.upkeep._sidecar import (
    SidecarStatus,
    can_have_sidecar,
    refresh_sidecar,
    remove_sidecar,
    sidecar_indexes,
    sidecar_status,
    write_sidecar,
)
from daf_storage.upkeep._verify import Finding, data_set_paths, verify

if TYPE_CHECKING:
    from daf_storage.upkeep._serve import DafServer, cannot_listen

__getattr__, __dir__, _ = lazy_names(
    __name__, {"daf_storage.upkeep._serve": ("DafServer", "cannot_listen")}
)
"""The server needs modules of HTTP, which nothing else does."""
