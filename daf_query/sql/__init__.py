"""SQL over tables; the only room that imports DataFusion.

**Nouns.** The *engine* holds one DataFusion context; the *catalog* shows each data set as a schema
and each axis as a table.  A *residual filter* is one that the engine evaluates above the scan; an
*inferred predicate* is what it implies for single columns, so that zones are pruned all the same.
A *query result* is a planned query, executed when its rows are asked for.

Must not know matrix slices or sessions.
"""

from datafusion import SessionContext

from daf_query.sql._catalog import AxisSchema, DafSchema
from daf_query.sql._engine import Allow, Collection, Engine
from daf_query.sql._engine_fork import ENGINE
from daf_query.sql._error_translation import (
    strip_prefixes,
    syntax_error,
    translate_execution_error,
    translate_planning_error,
)
from daf_query.sql._explain import Explanation, QueryPlan
from daf_query.sql._geometry_boxes import BOX_SIDES, geometry_boxes
from daf_query.sql._names import quoted_name
from daf_query.sql._never_null import NeverNullWarning
from daf_query.sql._parameters import Params, bind, bind_all
from daf_query.sql._planning import reporting
from daf_query.sql._result import QueryResult, query_result
from daf_query.sql._statements import one_statement
from daf_query.sql._tokens import Token, tokens_of
from daf_query.sql._unique_columns import DuplicateColumnsWarning

__all__ = [
    "BOX_SIDES",
    "ENGINE",
    "Allow",
    "AxisSchema",
    "Collection",
    "DafSchema",
    "DuplicateColumnsWarning",
    "Engine",
    "Explanation",
    "NeverNullWarning",
    "Params",
    "QueryPlan",
    "QueryResult",
    "SessionContext",
    "Token",
    "bind",
    "bind_all",
    "geometry_boxes",
    "one_statement",
    "query_result",
    "quoted_name",
    "reporting",
    "strip_prefixes",
    "syntax_error",
    "tokens_of",
    "translate_execution_error",
    "translate_planning_error",
]
