"""Tables as lazy data frames of other engines, which push columns, filters and limits down.

**Nouns.** A *source* is a table as an engine asks for its rows: which columns, which filter, how
many rows.  What a filter says that the scan evaluates alike is *pushed*; the rest is evaluated by
the engine, on the rows that are left.

Must not know SQL, sessions, or where a table comes from.
"""

from daf_query.dataframes._polars import scan_polars
