"""Daf data sets on disk and in memory.

**Nouns.** A data set has named *axes*, each an ordered list of unique *entries*; *vectors* along
one axis; *matrices* along two; and *scalars*.  A reader hands out views of mapped files; a writer
puts each property in place in one atomic step.

>>> import daf_storage
>>> daf = daf_storage.MemoryDaf()
>>> daf.add_axis("cell", ["TATA", "GATA", "CATA"])
>>> daf.add_axis("gene", ["FOXA1", "WNT6"])
>>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
>>> daf.get_np_matrix("gene", "cell", "UMIs").tolist()
[[0, 2, 4], [1, 3, 5]]
"""

from daf_storage import errors as errors
from daf_storage import settings as settings
from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
