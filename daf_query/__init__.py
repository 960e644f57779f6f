"""SQL over the metadata of Daf data sets, then just the slice of a matrix that was asked for.

**Nouns.** A *session* connects data sets; each of their axes is a SQL table with a row per entry
and a column per vector.  A *matrix slice* is chosen by predicates on two axes and read from the
mapped file when its values are asked for.

>>> import daf_query, daf_storage
>>> daf = daf_storage.MemoryDaf()
>>> daf.add_axis("cell", ["TATA", "GATA", "CATA"])
>>> daf.add_axis("gene", ["FOXA1", "WNT6"])
>>> daf.set_vector("cell", "age", [30, 60, 90])
>>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
>>> db = daf_query.connect(daf)
>>> db.sql("SELECT count(*) AS cells FROM cell WHERE age > 40").to_pydict()
{'cells': [2]}
>>> db.matrix("cell", "gene", "UMIs", rows="age > 40").to_numpy().tolist()
[[2, 3], [4, 5]]
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
