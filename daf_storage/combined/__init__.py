"""Data sets that are made of other data sets, without a copy: chains of several, views of one.

**Nouns.** A *chain* is several data sets as one, of which the last that has a property counts; its
*bases* are all but the last, which alone is written.  A *view* is a part of its *base* under other
names; *rules* say which properties it shows, a *selection* which entries of an axis.

Must not know paths, files or formats: it is given open data sets.
"""

from daf_storage.combined._chain_tree import ChainTree
from daf_storage.combined._readers import (
    ChainReader,
    ChainWriter,
    ViewReader,
    chain_reader,
    chain_writer,
    stored_members,
    view,
)
from daf_storage.combined._view_rules import ViewAxis, parse_view
from daf_storage.combined._view_tree import ViewTree
