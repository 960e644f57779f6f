"""Completion of SQL: what may come next where someone types.

**Nouns.** The *context* is what the SQL before the cursor says of the word that is typed: a table
after FROM, a column, the name of an entry within ``X['``.  The *names* are those of the tables,
columns and matrices that are connected.  A *completion* is what may stand for the word.

Must not know terminals, notebooks or pages: whoever shows the completions asks for them.
"""

from daf_query.completion._completer import Completion, CompletionKind, SqlCompleter
