"""Predicate and columns in, record batches out.

**Nouns.** A *predicate* is a tree of comparisons over columns.  A *column* reads *rows*: a span, or
some offsets within one.  A *partition* is a span that one thread scans, aligned to chunks.  A *zone
map* holds the minimum, maximum and null count of each 65,536 rows; partitions and zones that cannot
match are *pruned*.  A *scan plan* says what will be read; a *scan* executes it: it filters each
partition and reads the other columns late, of the rows that match.

Must not know SQL, DataFusion, data sets beyond a reader's vectors, or where indexes are stored.
"""

from daf_query.scan._arrow_arrays import (
    PLAIN_TYPES,
    arrow_type,
    cast_to,
    number_array,
    numpy_type,
    size_bytes,
)
from daf_query.scan._arrow_filter import field_names, parse
from daf_query.scan._column import (
    INDEX,
    NAME,
    Column,
    OpenColumn,
    VectorColumn,
    note_of,
    stored_matches,
)
from daf_query.scan._dictionary_codes import DictionaryCodes
from daf_query.scan._evaluate import Codes, Mask, Values, evaluate
from daf_query.scan._interpreter_end import until_interpreter_ends
from daf_query.scan._membership import with_sql_membership
from daf_query.scan._missing_strings import nulls_for_empty, offsets_of
from daf_query.scan._number_column import CachedSpans, NumberColumn, ReadSpan, runs_of_chunks
from daf_query.scan._open_table import FindPointIndexes, OpenTable
from daf_query.scan._options import DEFAULT_OPTIONS, ScanOptions
from daf_query.scan._partition import balanced
from daf_query.scan._plan import ScanPlan
from daf_query.scan._planner import plan_scan
from daf_query.scan._predicate import (
    COMPARISONS,
    EXACT_FLOAT,
    FLIPPED,
    NEGATED,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Or,
    Predicate,
    columns_of,
    compared,
    conjunction,
    conjuncts,
    describe,
    flat,
    joined,
)
from daf_query.scan._prune import Zones, may_match
from daf_query.scan._report import ScanReport
from daf_query.scan._row_index import MAX_SINGLE_STRINGS, RowIndex
from daf_query.scan._rows import LastOfThreads, Positions, Rows
from daf_query.scan._scanner import Scan
from daf_query.scan._string_column import StringColumn
from daf_query.scan._zone_map import ZoneMap

__all__ = [
    "COMPARISONS",
    "DEFAULT_OPTIONS",
    "EXACT_FLOAT",
    "FLIPPED",
    "INDEX",
    "MAX_SINGLE_STRINGS",
    "NAME",
    "NEGATED",
    "PLAIN_TYPES",
    "And",
    "CachedSpans",
    "Codes",
    "Column",
    "Compare",
    "Constant",
    "DictionaryCodes",
    "FindPointIndexes",
    "In",
    "IsNull",
    "IsTrue",
    "LastOfThreads",
    "Mask",
    "NumberColumn",
    "OpenColumn",
    "OpenTable",
    "Or",
    "Positions",
    "Predicate",
    "ReadSpan",
    "RowIndex",
    "Rows",
    "Scan",
    "ScanOptions",
    "ScanPlan",
    "ScanReport",
    "StringColumn",
    "Values",
    "VectorColumn",
    "ZoneMap",
    "Zones",
    "arrow_type",
    "balanced",
    "cast_to",
    "columns_of",
    "compared",
    "conjunction",
    "conjuncts",
    "describe",
    "evaluate",
    "field_names",
    "flat",
    "joined",
    "may_match",
    "note_of",
    "nulls_for_empty",
    "number_array",
    "numpy_type",
    "offsets_of",
    "parse",
    "plan_scan",
    "runs_of_chunks",
    "size_bytes",
    "stored_matches",
    "until_interpreter_ends",
    "with_sql_membership",
]
