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

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_names

if TYPE_CHECKING:
    from daf_query._provenance import provenance as provenance
    from daf_query._zarr_append import append_rows as append_rows
    from daf_query._zarr_append import build_spatial_index as build_spatial_index
    from daf_query.flight_sql import FlightSqlLimits as FlightSqlLimits
    from daf_query.flight_sql import FlightSqlServer as FlightSqlServer
    from daf_query.index import UnusedIndexWarning as UnusedIndexWarning
    from daf_query.index import rebuild_indexes as rebuild_indexes
    from daf_query.matrix import DamagedLayoutWarning as DamagedLayoutWarning
    from daf_query.notebook import load_ipython_extension as load_ipython_extension
    from daf_query.notebook import unload_ipython_extension as unload_ipython_extension
    from daf_query.profile import Profile as Profile
    from daf_query.profile import ProfilePlots as ProfilePlots
    from daf_query.scan import ScanOptions as ScanOptions
    from daf_query.session import Annotation as Annotation
    from daf_query.session import DafSession as DafSession
    from daf_query.session import SessionPlots as SessionPlots
    from daf_query.session import connect as connect
    from daf_query.slice import DuplicateNamesWarning as DuplicateNamesWarning
    from daf_query.slice import LayoutCost as LayoutCost
    from daf_query.slice import MatrixSlice as MatrixSlice
    from daf_query.slice import SliceExplanation as SliceExplanation
    from daf_query.sql import AlphabeticalOrderWarning as AlphabeticalOrderWarning
    from daf_query.sql import Diagnosis as Diagnosis
    from daf_query.sql import DuplicateColumnsWarning as DuplicateColumnsWarning
    from daf_query.sql import Explanation as Explanation
    from daf_query.sql import NeverNullWarning as NeverNullWarning
    from daf_query.sql import QueryPlan as QueryPlan
    from daf_query.sql import QueryResult as QueryResult
    from daf_query.table import AxisDataset as AxisDataset
    from daf_query.table import TableDataset as TableDataset
    from daf_query.table import UnreadableVectorWarning as UnreadableVectorWarning
    from daf_query.table import ZarrTable as ZarrTable
    from daf_query.table import zarr_table as zarr_table
    from daf_query.training import RowBlocks as RowBlocks
    from daf_query.training import Sampler as Sampler


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "daf_query._provenance": ("provenance",),
        "daf_query._zarr_append": (
            "append_rows",
            "build_spatial_index",
        ),
        "daf_query.flight_sql": ("FlightSqlLimits", "FlightSqlServer"),
        "daf_query.index": (
            "UnusedIndexWarning",
            "rebuild_indexes",
        ),
        "daf_query.matrix": ("DamagedLayoutWarning",),
        "daf_query.notebook": ("load_ipython_extension", "unload_ipython_extension"),
        "daf_query.profile": ("Profile", "ProfilePlots"),
        "daf_query.scan": ("ScanOptions",),
        "daf_query.session": (
            "Annotation",
            "DafSession",
            "SessionPlots",
            "connect",
        ),
        "daf_query.slice": (
            "DuplicateNamesWarning",
            "LayoutCost",
            "MatrixSlice",
            "SliceExplanation",
        ),
        "daf_query.sql": (
            "AlphabeticalOrderWarning",
            "Diagnosis",
            "DuplicateColumnsWarning",
            "Explanation",
            "NeverNullWarning",
            "QueryPlan",
            "QueryResult",
        ),
        "daf_query.table": (
            "AxisDataset",
            "TableDataset",
            "UnreadableVectorWarning",
            "ZarrTable",
            "zarr_table",
        ),
        "daf_query.training": ("RowBlocks", "Sampler"),
    },
)
