"""Sidecars: data sets of Daf beside files that are read in place, and on top of these.

**Nouns.** A *source* is a file, or a directory, of another format.  A `SidecarDocument` says of
which state of it a sidecar was made, and which arrays the sidecar has.  `SidecarTree` reads those
in the sidecar, as long as the source is in that state, and all else below.

Must not know what the source is, nor how a sidecar is written.
"""

from daf_storage.sidecars._sidecar_tree import (
    SIDECAR_SCALAR,
    SIDECAR_SUFFIX,
    SIDECARS_VARIABLE,
    RemoteSource,
    SidecarDocument,
    SidecarTree,
    SidecarWarning,
    array_checksums,
    array_types,
    is_sidecar,
    property_problem,
    read_document,
    sidecar_beside,
    source_digest,
    source_state,
    stable_state,
)
