"""Plans of fragments: parts of a table that travel by path, so that other processes read them.

**Nouns.** A *fragment* says which rows of which table of which data sets are to be read, which
columns, and with which filter.  It holds no values: it is pickled, and whoever has it opens the
path and reads.  A *fragment plan* is all fragments of a question; zones and indexes have left out
of it what cannot match.

Must not know engines that run fragments.
"""

from daf_query.fragments._plan import (
    AxisTable,
    FragmentPlan,
    MatrixTable,
    NamedTable,
    Paths,
    plan_fragments,
    session_of,
    table_schema,
)
from daf_query.table import ROWS_PER_FRAGMENT, Fragment
