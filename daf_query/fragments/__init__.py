"""Fragments: parts of a table that travel by path, so that other processes read them.

**Nouns.** A *fragment* says which rows of which table of which data sets are to be read, which
columns, and with which filter.  It holds no values: it is pickled, and whoever has it opens the
path and reads.  A *fragment plan* is all fragments of a question; zones and indexes have left out
of it what cannot match.  A *piece* is the rows of a fragment that are of one data set.  *Open
sessions* are those that a process keeps for the next fragment of the same data set.

Must not know engines that run fragments.
"""

from daf_query.fragments._fragment import Fragment, Piece, file_state, source_version
from daf_query.fragments._open_sessions import CACHE_BYTES, OPEN_SESSIONS, OpenSessions
from daf_query.fragments._plan import (
    ROWS_PER_FRAGMENT,
    FragmentPlan,
    Paths,
    leased_session,
    packed_selection,
    plan_fragments,
    table_schema,
)
from daf_query.fragments._tables import AxisTable, BlockTable, MatrixTable, NamedTable

__all__ = [
    "CACHE_BYTES",
    "OPEN_SESSIONS",
    "ROWS_PER_FRAGMENT",
    "AxisTable",
    "BlockTable",
    "Fragment",
    "FragmentPlan",
    "MatrixTable",
    "NamedTable",
    "OpenSessions",
    "Paths",
    "Piece",
    "file_state",
    "leased_session",
    "packed_selection",
    "plan_fragments",
    "source_version",
    "table_schema",
]
