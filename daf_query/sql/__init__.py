"""SQL over tables; the only room that imports DataFusion.

**Nouns.** The *connections* are data sets and tables by name.  The *catalog* shows them to
DataFusion: each data set as a schema, each axis as a table.  The *engine* plans queries, each in a
*planning context*.  A *residual filter* is one that DataFusion evaluates above the scan; an
*inferred predicate* is what it implies for single columns, so that zones are pruned all the same.
A *query result* is a planned query, executed when its rows are asked for.

Must not know matrix slices or sessions.
"""

from datafusion import SessionContext

from daf_query.sql._axis_schema import CATALOG, AxisSchema
from daf_query.sql._categories import AlphabeticalOrderWarning
from daf_query.sql._connections import Collection, Connections, ListedTable, listed_tables
from daf_query.sql._diagnose import Diagnosis, cached_hints, diagnose
from daf_query.sql._engine import Allow, Engine
from daf_query.sql._engine_context import ENGINE, computed_table, is_out_of_memory
from daf_query.sql._explain import Explanation, QueryPlan
from daf_query.sql._geometry import BOX_SIDES, geometry_boxes
from daf_query.sql._group_items import (
    By,
    GroupedAxis,
    group_values,
    grouped_axis,
    in_all,
    written_items,
)
from daf_query.sql._matrix_entries import entry_columns
from daf_query.sql._messages import ErrorPlace, error_place, strip_prefixes
from daf_query.sql._missing_names import missing_base
from daf_query.sql._never_null import NeverNullWarning
from daf_query.sql._parameter_types import unbound_schemas
from daf_query.sql._parameters import Params, bind, bind_all, unbound
from daf_query.sql._plan_nodes import is_ordered
from daf_query.sql._planning import reporting
from daf_query.sql._requirements import (
    QueryRequirements,
    TableRequirements,
    requirements_of,
)
from daf_query.sql._result import (
    QueryResult,
    TableResult,
    pandas_frame,
    query_result,
)
from daf_query.sql._result_page import rows_page
from daf_query.sql._unique_columns import DuplicateColumnsWarning

__all__ = [
    "BOX_SIDES",
    "CATALOG",
    "ENGINE",
    "Allow",
    "AlphabeticalOrderWarning",
    "AxisSchema",
    "By",
    "Collection",
    "Connections",
    "Diagnosis",
    "DuplicateColumnsWarning",
    "Engine",
    "ErrorPlace",
    "Explanation",
    "GroupedAxis",
    "ListedTable",
    "NeverNullWarning",
    "Params",
    "QueryPlan",
    "QueryRequirements",
    "QueryResult",
    "SessionContext",
    "TableRequirements",
    "TableResult",
    "bind",
    "bind_all",
    "cached_hints",
    "computed_table",
    "diagnose",
    "entry_columns",
    "error_place",
    "geometry_boxes",
    "group_values",
    "grouped_axis",
    "in_all",
    "is_ordered",
    "is_out_of_memory",
    "listed_tables",
    "missing_base",
    "pandas_frame",
    "query_result",
    "reporting",
    "requirements_of",
    "rows_page",
    "strip_prefixes",
    "unbound",
    "unbound_schemas",
    "written_items",
]
