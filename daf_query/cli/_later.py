"""Modules that commands need when they run, imported then: most take longer than a command."""

from typing import TYPE_CHECKING

from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    import json
    import pydoc
    import webbrowser
    from importlib import metadata

    import numpy as np
    import pyarrow as pa

    import daf_query._provenance as provenance
    import daf_query._row_files as row_files
    import daf_query._zarr_append as zarr_append
    from daf_query import (
        completion,
        demo,
        explore,
        flight_sql,
        index,
        matrix,
        session,
        sql,
        syntax,
        table,
    )
    from daf_query import slice as slices
    from daf_storage import base as storage_base
    from daf_storage import data as storage_data
    from daf_storage import display, stores
else:
    json, metadata = map(lazy_module, ("json", "importlib.metadata"))
    pydoc, webbrowser = map(lazy_module, ("pydoc", "webbrowser"))
    np, pa = map(lazy_module, ("numpy", "pyarrow"))
    provenance = lazy_module("daf_query._provenance")
    row_files = lazy_module("daf_query._row_files")
    zarr_append = lazy_module("daf_query._zarr_append")
    demo, explore = map(lazy_module, ("daf_query.demo", "daf_query.explore"))
    completion, matrix = map(lazy_module, ("daf_query.completion", "daf_query.matrix"))
    flight_sql, index = map(lazy_module, ("daf_query.flight_sql", "daf_query.index"))
    session, sql = map(lazy_module, ("daf_query.session", "daf_query.sql"))
    syntax, table = map(lazy_module, ("daf_query.syntax", "daf_query.table"))
    slices = lazy_module("daf_query.slice")
    storage_base = lazy_module("daf_storage.base")
    storage_data = lazy_module("daf_storage.data")
    display, stores = map(lazy_module, ("daf_storage.display", "daf_storage.stores"))
