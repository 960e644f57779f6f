"""Random one-line changes of the code, each of which a test has to notice.

**Nouns.** A *mutation* is a small change of one line that a tired programmer could have made.  A
*mutant* is the code with one mutation.  It is *noticed* if one of the tests that execute the line
fails, and a *survivor* if none does.

``python -m tests.mutants`` (``make mutants``) tries a seeded sample over both packages and prints
the survivors with their line.  Which tests execute which line is measured once, in
``build/mutants``.  The same ``--seed`` tries the same ones again, wherever their lines are by then.
Mutants without effect are listed, with the reason, in ``without_effect.txt``.
"""
