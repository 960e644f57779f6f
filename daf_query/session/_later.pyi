from daf_query import dataframes, moments, syntax, training
from daf_query import index as indexing
from daf_query import matrix as layouts
from daf_query import profile as profiles
from daf_query import slice as slices
from daf_query import sql as engines
from daf_query import table as tables
from daf_query.session import _plots as plots
from daf_query.session import _stored as stored
from daf_storage import combined

__all__ = [
    "combined",
    "dataframes",
    "engines",
    "indexing",
    "layouts",
    "moments",
    "plots",
    "profiles",
    "slices",
    "stored",
    "syntax",
    "tables",
    "training",
]
