"""SQL over tables; the only package that imports DataFusion.

**Nouns.** The *connections* are data sets and tables by name.  The *catalog* shows them to
DataFusion: each data set as a schema, each axis as a table.  The *engine* plans queries, each in a
*planning context*.  A *residual filter* is one that DataFusion evaluates above the scan; an
*inferred predicate* is what it implies for single columns, so that zones are pruned all the same.
A *query result* is a planned query, executed when its rows are asked for.

Must not know matrix slices or sessions.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
