"""Group profiles: what a matrix is like in each group of its rows, column by column.

**Nouns.** The *groups* of an axis are the values of one or more expressions of SQL over it, its
*group columns*.  A *profile* has a row for each group and column of the matrix, with the moments of
that group; it is a query result, an AnnData and a dot plot.  *Markers* compare each group with the
rest; *totals* are what each row has of chosen columns.

Must not know sessions or the command line.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
