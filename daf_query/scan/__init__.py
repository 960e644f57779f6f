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
    converted,
    nulls_for_empty,
    number_array,
    numpy_type,
    offsets_of,
    plain_array,
    plain_schema,
    size_bytes,
    without_string_views,
)
from daf_query.scan._arrow_filter import field_names, parse
from daf_query.scan._columns import (
    INDEX,
    NAME,
    CachedParts,
    Column,
    DictionaryCodes,
    NumberColumn,
    Once,
    OpenColumn,
    StringColumn,
    VectorColumn,
    runs_of_chunks,
)
from daf_query.scan._options import (
    DEFAULT_OPTIONS,
    ZONE_ROWS,
    Positions,
    Rows,
    ScanOptions,
)
from daf_query.scan._predicate import (
    COMPARISONS,
    NEGATED,
    And,
    Codes,
    Compare,
    Constant,
    In,
    IsNull,
    Mask,
    Opaque,
    Or,
    Predicate,
    RowIndex,
    Values,
    ZoneMap,
    columns_of,
    comparison,
    conjunction,
    conjuncts,
    describe,
    evaluate,
    joined,
    leaves_of,
    may_match,
    membership,
)
from daf_query.scan._scan import (
    FindIndexes,
    OpenTable,
    Scan,
    ScanPlan,
    ScanReport,
    balanced,
    first_rows,
    plan_scan,
)
