import pydoc
import webbrowser
from importlib import metadata

import pyarrow as pa

import daf_query._provenance as provenance
import daf_query._row_files as row_files
import daf_query._zarr_append as zarr_append
from daf_query import demo, explore, flight_sql, index, matrix, scan, session, sql, syntax, table
from daf_query import slice as slices
from daf_query.cli import _prompt as prompt
from daf_storage import base as storage_base
from daf_storage import data as storage_data
from daf_storage import display, stores

__all__ = [
    "demo",
    "display",
    "explore",
    "flight_sql",
    "index",
    "matrix",
    "metadata",
    "pa",
    "prompt",
    "provenance",
    "pydoc",
    "row_files",
    "scan",
    "session",
    "slices",
    "sql",
    "storage_base",
    "storage_data",
    "stores",
    "syntax",
    "table",
    "webbrowser",
    "zarr_append",
]
