"""The rules of Daf data sets, once, whatever the format.

**Nouns.** The *layout* says which array of a tree holds which property.  A *reader* has axes,
vectors, matrices and scalars; a *writer* changes them, each in one atomic step.  *Coercion* turns
what callers pass into what is stored, the values unchanged.

Must not know paths, files, servers or how a format is recognised.
"""

from daf_storage.data import _archive_recovery as archive_recovery
from daf_storage.data import _layout as layout
from daf_storage.data._archive_recovery import (
    incomplete_properties,
    lost_entries,
    recover_archive,
    take_out_consolidated,
    warn_of_lost,
)
from daf_storage.data._assembled import Alignment, Part, aligned_vector, write_assembled
from daf_storage.data._blocks import block_spans
from daf_storage.data._casting import numeric_type, stored_numbers
from daf_storage.data._coercion import (
    SparseVectorInput,
    VectorInput,
    check_string_dtype,
    strings_input,
)
from daf_storage.data._containers import plain_values
from daf_storage.data._convention import (
    ENTRIES_OF,
    Convention,
    ConventionWarning,
    read_convention,
    read_entries_axis,
)
from daf_storage.data._convention import attributes_of as convention_attributes
from daf_storage.data._conversions import arrow_of, number_strings, scipy_index_dtype
from daf_storage.data._counts import (
    CountsAs,
    CountType,
    changed_by,
    count_types,
    refused_value,
)
from daf_storage.data._damage import Damage, damage_of, listed, one_each
from daf_storage.data._digest import check_bools, contents_of, digest
from daf_storage.data._encoding import (
    EmptySparse,
    Stored,
    copy_array,
    copy_stored,
    size_bytes,
    write_transposed,
    write_vector,
)
from daf_storage.data._entry_selection import (
    EntrySelection,
    Picks,
    Positions,
    RangePicks,
    RunPicks,
)
from daf_storage.data._layout import (
    MAJOR_VERSION,
    MINOR_VERSION,
    StoredVector,
)
from daf_storage.data._new_axis import copy_entries
from daf_storage.data._ordered import ascend, checked_indices, ordered
from daf_storage.data._page import axis_section, data_set_section, vector_previews
from daf_storage.data._reader import DafReader, Origin, check_reader, is_in_place, writing_remedy
from daf_storage.data._relations import (
    Relation,
    RelationSource,
    relation_of,
    values_without_entry,
)
from daf_storage.data._sparse_checks import required_array
from daf_storage.data._sparse_parts import SparseMatrixParts, SparseVectorParts
from daf_storage.data._stored_matrix import StoredMatrix
from daf_storage.data._subset_arrays import HeldArray, SubsetArray, subset_vector
from daf_storage.data._summary import axes_in_order
from daf_storage.data._transpose import (
    DEFAULT_MEMORY_BYTES,
    LEAST_MEMORY_BYTES,
    check_memory,
    column_blocks,
)
from daf_storage.data._vector_reader import REQUIRED
from daf_storage.data._versions import matrix_version, vectors_version
from daf_storage.data._writer import DafWriter, check_writer, new_property
from daf_storage.stores import RecoveryWarning
