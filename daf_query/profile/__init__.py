"""Group profiles: what a matrix is like in each group of its rows, column by column.

**Nouns.** The *groups* of an axis are the values of one or more expressions of SQL over it, its
*group columns*.  A *profile* has a row for each group and column of the matrix, with the moments of
that group; it is a query result, an AnnData and a dot plot.  *Markers* compare each group with the
rest; *totals* are what each row has of chosen columns.

Must not know sessions or the command line.
"""

from daf_query.profile._plot import ProfilePlots
from daf_query.profile._profile import (
    MarkerTest,
    Profile,
    marker_rows,
    prepared_profile,
    prepared_totals,
)
