"""Sessions: data sets that are connected, and all that can be asked of them.

**Nouns.** A *session* is some *sources* (data sets, several as one, tables of your own) behind one
engine.  What it offers is in parts by subject: SQL, matrices, writing.  Its methods are thin: they
say what is asked, and call the package that answers.

Must not know the command line.
"""

from daf_query.session._plots import SessionPlots
from daf_query.session._session import DafSession, connect, value_counts
from daf_query.session._sources import (
    is_pattern,
    matching_paths,
    named_sources,
    usable,
)
from daf_query.session._stored_columns import Annotation
from daf_query.session._stored_matrices import group_axis_of
