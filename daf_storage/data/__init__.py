"""The rules of Daf data sets, once, whatever the format.

**Nouns.** The *layout* says which array of a tree holds which property.  A *reader* has axes,
vectors, matrices and scalars; a *writer* changes them, each in one atomic step.  *Coercion* turns
what callers pass into what is stored, the values unchanged.

Must not know paths, files, servers or how a format is recognised.
"""

from daf_storage.data import _kept as kept
from daf_storage.data import _layout as layout
from daf_storage.data._assembled import Part, aligned_vector, entry_positions, write_assembled
from daf_storage.data._coercion import (
    SparseVectorParts,
    changed_by,
    check_string_dtype,
    numeric_type,
    plain_values,
    promoted,
    stored_numbers,
    strings_input,
)
from daf_storage.data._damage import (
    Damage,
    damage_of,
    incomplete_properties,
    lost_entries,
    one_each,
    recover_zarr_archive,
    remove_lost,
)
from daf_storage.data._digest import (
    check_bools,
    contents_of,
    digest,
    matrix_version,
    vectors_version,
)
from daf_storage.data._encoding import (
    EmptySparse,
    block_spans,
    copy_stored,
    size_bytes,
    write_vector,
)
from daf_storage.data._entries import (
    Alignment,
    EntrySelection,
    Picks,
    Positions,
    SubsetArray,
    subset_vector,
)
from daf_storage.data._layout import (
    ENTRIES_OF,
    MAJOR_VERSION,
    MINOR_VERSION,
    Convention,
    ConventionWarning,
    MadeNode,
    Relation,
    RelationSource,
    StoredMatrix,
    StoredVector,
    check_rows,
    checked_indices,
    relation_of,
    required_array,
    values_without_entry,
    with_arrays,
)
from daf_storage.data._layout import attributes_of as convention_attributes
from daf_storage.data._reader import (
    REQUIRED,
    DafReader,
    Origin,
    check_reader,
    is_in_place,
    is_same_scalar,
    number_strings,
    ordered,
    scipy_index_dtype,
    stored_properties,
    writing_remedy,
)
from daf_storage.data._summary import (
    axes_in_order,
    axis_section,
    data_set_section,
    vector_previews,
)
from daf_storage.data._writer import DafWriter, check_writer, copy_entries, write_transposed
from daf_storage.stores import RecoveryWarning
