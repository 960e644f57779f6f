"""Moments of groups of rows: what a matrix is like in each group, column by column.

**Nouns.** The *moments* of a group and a column are how many values are missing and how many are
not zero, their sum, mean, variance, minimum and maximum.  *Grouped rows* are selected rows with the
code of the group of each.  A *block* is a bounded number of elements, which one thread reduces: its
elements are sorted by their group and column, and a *segment* is those of one pair.  The
*accumulator* merges the segments of the blocks.  A *group profile* is the moments with the values
of the groups, a row for each group and column.

Must not know tables, SQL, sessions or the command line.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
