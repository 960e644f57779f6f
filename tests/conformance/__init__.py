"""One table of queries that holds on every path: what is asked, over which data, and the rows.

**Nouns.** A *case* is a query of a file of ``queries/`` and what is expected of it; a *path* is a form
in which the same data stand; an *oracle* is another engine over the same columns as Arrow tables.
It must not know how the package that it asks is built inside.
"""
