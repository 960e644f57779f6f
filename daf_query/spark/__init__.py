"""Tables of data sets in Spark: on Sail, which needs no Java, and on Apache Spark.

**Nouns.** The *data source* ``daf`` is what ``spark.read.format("daf")`` and ``CREATE TEMPORARY
VIEW ... USING daf`` read.  Its *partitions* are fragments: planned where the query is planned, by
zone maps and indexes, and read where there is a worker, from a path that all of them see.

Must not know how fragments are read.
"""

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_names

if TYPE_CHECKING:  # these need pyspark
    from daf_query.spark._query import DafDataSource, register, sql

__all__ = ["DafDataSource", "register", "sql"]

__getattr__, __dir__, _ = lazy_names(
    __name__, {"daf_query.spark._query": ("DafDataSource", "register", "sql")}
)
