"""Tables as pyarrow datasets: an axis, the union of several, a matrix, or a group of Zarr arrays.

**Nouns.** A *table* has a schema and columns of one length; DataFusion, DuckDB and polars scan it
through the protocol of ``pyarrow.dataset``.  A *union* joins the tables of several data sets row
by row.  A *Zarr table* is any group of aligned one-dimensional Zarr arrays.  The *long form* of a
matrix is a table with a row for each of its elements.

Must not know SQL or DataFusion.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
