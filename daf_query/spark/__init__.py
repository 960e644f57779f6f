"""Tables of data sets in Spark: on Sail, which needs no Java, and on Apache Spark.

**Nouns.** The *data source* ``daf`` is what ``spark.read.format("daf")`` and ``CREATE TEMPORARY
VIEW ... USING daf`` read.  Its *partitions* are fragments: planned where the query is planned, by
zone maps and indexes, and read where there is a worker, from a path that all of them see.

Must not know how fragments are read.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
