"""Predicate and columns in, record batches out.

**Nouns.** A *predicate* is a tree of comparisons over columns.  A *column* reads *rows*: a span, or
some offsets within one.  A *partition* is a span that one thread scans, aligned to chunks.  A *zone
map* holds the minimum, maximum and null count of each 65,536 rows; partitions and zones that cannot
match are *pruned*.  A *scan plan* says what will be read; a *scan* executes it: it filters each
partition and reads the other columns late, of the rows that match.

Must not know SQL, DataFusion, data sets beyond a reader's vectors, or where indexes are stored.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
