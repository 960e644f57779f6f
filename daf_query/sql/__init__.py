"""SQL over tables; the only package that imports DataFusion.

**Nouns.** The *connections* are data sets and tables by name.  The *catalog* shows them to
DataFusion: each data set as a schema, each axis as a table.  The *engine* plans queries, each in a
*planning context*.  A *residual filter* is one that DataFusion evaluates above the scan; an
*inferred predicate* is what it implies for single columns, so that zones are pruned all the same.
A *query result* is a planned query, executed when its rows are asked for.

Must not know matrix slices or sessions.
"""

from datafusion import SessionContext as SessionContext

from daf_query.sql._conditions import BOX_SIDES as BOX_SIDES
from daf_query.sql._conditions import QueryRequirements as QueryRequirements
from daf_query.sql._conditions import TableRequirements as TableRequirements
from daf_query.sql._conditions import geometry_boxes as geometry_boxes
from daf_query.sql._conditions import requirements_of as requirements_of
from daf_query.sql._connections import AxisSchema as AxisSchema
from daf_query.sql._connections import Collection as Collection
from daf_query.sql._connections import Connections as Connections
from daf_query.sql._connections import ListedTable as ListedTable
from daf_query.sql._connections import listed_tables as listed_tables
from daf_query.sql._diagnose import Diagnosis as Diagnosis
from daf_query.sql._diagnose import diagnose as diagnose
from daf_query.sql._direct_scan import direct_rows as direct_rows
from daf_query.sql._engine import Allow as Allow
from daf_query.sql._engine import DuplicateColumnsWarning as DuplicateColumnsWarning
from daf_query.sql._engine import Engine as Engine
from daf_query.sql._engine import NeverNullWarning as NeverNullWarning
from daf_query.sql._engine import TableFunction as TableFunction
from daf_query.sql._matrix_entries import entry_columns as entry_columns
from daf_query.sql._messages import ErrorPlace as ErrorPlace
from daf_query.sql._messages import error_place as error_place
from daf_query.sql._messages import strip_prefixes as strip_prefixes
from daf_query.sql._missing_names import missing_base as missing_base
from daf_query.sql._parameters import Params as Params
from daf_query.sql._parameters import bind as bind
from daf_query.sql._parameters import bind_all as bind_all
from daf_query.sql._parameters import unbound as unbound
from daf_query.sql._parameters import unbound_schemas as unbound_schemas
from daf_query.sql._planning import CATALOG as CATALOG
from daf_query.sql._planning import ENGINE as ENGINE
from daf_query.sql._planning import computed_table as computed_table
from daf_query.sql._planning import is_ordered as is_ordered
from daf_query.sql._planning import is_out_of_memory as is_out_of_memory
from daf_query.sql._planning import reporting as reporting
from daf_query.sql._result import QueryResult as QueryResult
from daf_query.sql._result import TableResult as TableResult
from daf_query.sql._result import pandas_frame as pandas_frame
from daf_query.sql._result import query_result as query_result
from daf_query.sql._rules import AlphabeticalOrderWarning as AlphabeticalOrderWarning
from daf_query.sql._shown import PLAN_COLUMNS as PLAN_COLUMNS
from daf_query.sql._shown import Explanation as Explanation
from daf_query.sql._shown import QueryPlan as QueryPlan
from daf_query.sql._shown import rows_page as rows_page
from daf_query.sql._table_functions import USAGES as USAGES
from daf_query.sql._table_functions import By as By
from daf_query.sql._table_functions import TableCall as TableCall
from daf_query.sql._table_functions import written_items as written_items
