"""The rules of Daf data sets, once, whatever the format.

**Nouns.** The *layout* says which array of a tree holds which property.  A *reader* has axes,
vectors, matrices and scalars; a *writer* changes them, each in one atomic step.  *Coercion* turns
what callers pass into what is stored, the values unchanged.

Must not know paths, files, servers or how a format is recognised.
"""

from daf_storage.data import _kept as kept
from daf_storage.data import _layout as layout
from daf_storage.data._assembled import (
    Part,
    aligned_vector,
    entry_positions,
    write_assembled,
    write_transposed,
)
from daf_storage.data._axis_writer import copy_entries
from daf_storage.data._casting import changed_by, numeric_type, plain_values, stored_numbers
from daf_storage.data._coercion import (
    SparseVectorInput,
    VectorInput,
    check_string_dtype,
    strings_input,
)
from daf_storage.data._conversions import (
    arrow_of,
    ascend,
    checked_indices,
    is_same_scalar,
    number_strings,
    ordered,
    scipy_index_dtype,
)
from daf_storage.data._damage import (
    Damage,
    damage_of,
    incomplete_properties,
    listed,
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
from daf_storage.data._encoding import copy_stored, size_bytes, write_vector
from daf_storage.data._layout import (
    ENTRIES_OF,
    MAJOR_VERSION,
    MINOR_VERSION,
    Convention,
    ConventionWarning,
    PartsNode,
    Relation,
    RelationSource,
    SparseVectorParts,
    StoredMatrix,
    StoredVector,
    read_conventions,
    relation_of,
    required_array,
    values_without_entry,
)
from daf_storage.data._layout import attributes_of as convention_attributes
from daf_storage.data._page import axis_section, data_set_section, vector_previews
from daf_storage.data._property_reader import REQUIRED
from daf_storage.data._reader import (
    DafReader,
    Origin,
    check_reader,
    is_in_place,
    stored_properties,
    writing_remedy,
)
from daf_storage.data._summary import axes_in_order
from daf_storage.data._transpose import (
    Alignment,
    EmptySparse,
    EntrySelection,
    HeldArray,
    Picks,
    Positions,
    RunPicks,
    SubsetArray,
    block_spans,
    check_rows,
    column_blocks,
    subset_vector,
)
from daf_storage.data._writer import DafWriter, check_writer, new_property
from daf_storage.stores import RecoveryWarning
