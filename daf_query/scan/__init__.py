"""Predicate and columns in, record batches out.

**Nouns.** A *predicate* is a tree of comparisons over columns.  A *column* reads a range of its
rows, or some of them.  A *partition* is a range of rows that one thread scans, aligned to chunks.
A *zone map* holds the minimum, maximum and null count of each 65,536 rows; ranges that cannot
match are *pruned*.  A *scan* filters each partition and reads the other columns late, of the rows
that are left.

Must not know SQL, DataFusion, data sets beyond a reader's vectors, or where indexes are stored.
"""

from daf_query.scan._column import (
    INDEX,
    NAME,
    Column,
    OpenColumn,
    VectorColumn,
    cast_to,
    number_array,
    runs_of_chunks,
    size_bytes,
)
from daf_query.scan._evaluate import Positions, Values
from daf_query.scan._membership import with_sql_membership
from daf_query.scan._missing_strings import offsets_of
from daf_query.scan._options import DEFAULT_OPTIONS, ScanOptions
from daf_query.scan._partition import balanced
from daf_query.scan._predicate import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Or,
    Predicate,
    both,
    columns_of,
    compared,
    parse,
)
from daf_query.scan._scanner import FindPoints, Scan, ScanReport
from daf_query.scan._string_column import DictionaryCodes
from daf_query.scan._zone_map import ZoneMap

__all__ = [
    "DEFAULT_OPTIONS",
    "INDEX",
    "NAME",
    "And",
    "Column",
    "Compare",
    "Constant",
    "DictionaryCodes",
    "FindPoints",
    "In",
    "IsNull",
    "OpenColumn",
    "Or",
    "Positions",
    "Predicate",
    "Scan",
    "ScanOptions",
    "ScanReport",
    "Values",
    "VectorColumn",
    "ZoneMap",
    "balanced",
    "both",
    "cast_to",
    "columns_of",
    "compared",
    "number_array",
    "offsets_of",
    "parse",
    "runs_of_chunks",
    "size_bytes",
    "with_sql_membership",
]
