"""The command ``daf``: a parser, a function for each command, and what they print.

**Nouns.** A *command* opens data sets, asks, and prints or writes the answer.  Exit codes: 0 done,
1 the request failed (one line on stderr says why), 2 wrong usage, 3 repaired, but data was lost.

Must not know DataFusion, stores or trees; nothing imports it.
"""

from daf_query.cli._main import main, run

__all__ = ["main", "run"]
