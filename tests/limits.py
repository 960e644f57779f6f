"""Limits that tests lower, so that little data comes to them: the only place that knows where they are."""

from __future__ import annotations

from typing import Final

import pytest

LIMITS: Final = {
    "anndata_bytes": "daf_query.slice._anndata.ANNDATA_MAX_BYTES",
    "archive_bytes": "daf_storage.stores.mmap_zip._archive._RESERVED_IN_FILE_BYTES",
    "checked_bytes": "daf_storage.sidecars._CHECKED_BYTES",
    "chunk_bytes": "daf_storage.trees._metadata._MAX_CHUNK_BYTES",
    "chunks_in_a_folder": "daf_storage.trees._zarr_array._MANY_CHUNKS",
    "coded_strings": "daf_storage.trees._chunked_array._CODED_STRINGS",
    "copied_bytes": "daf_storage.data._encoding._BLOCK_BYTES",
    "dask_block_bytes": "daf_query.slice._blocks.DASK_BLOCK_BYTES",
    "decoding_threads": "daf_storage.base._threads.THREADS",
    "deflate_ratio": "daf_storage.trees._hdf5_chunks._DEFLATE_RATIO",
    "dense_block_bytes": "daf_query.matrix._layouts._BLOCK_BYTES",
    "digest_bytes": "daf_storage.sidecars._MAX_DIGEST_BYTES",
    "dots": "daf_query.profile._profile._MAX_DOTS",
    "download_seconds": "daf_storage.base._optional._DOWNLOAD_SECONDS",
    "free_bytes": "daf_storage.trees._hdf5_chunks._FREE_BYTES",
    "gathered_elements": "daf_query.matrix._layouts._BLOCK_ELEMENTS",
    "hashed_bytes": "daf_query.index._stored._BLOCK_BYTES",
    "held_part": "daf_storage.data._encoding._HELD_PART",
    "held_per_element": "daf_storage.data._assembled._HELD_PER_ELEMENT",
    "least_transposed_elements": "daf_storage.data._encoding._LEAST_BLOCK_ELEMENTS",
    "moment_elements": "daf_query.moments._group_moments.BLOCK_ELEMENTS",
    "moment_threads": "daf_query.moments._group_moments.THREADS",
    "moment_window": "daf_query.moments._group_moments.WINDOW_ELEMENTS",
    "part_bytes": "daf_query.slice._parts.READ_BYTES",
    "part_threads": "daf_query.slice._parts.THREADS",
    "read_strings": "daf_storage.trees._hdf5_array.STRING_BLOCK",
    "remote_block_bytes": "daf_storage.stores._remote._BLOCK_BYTES",
    "remote_first_bytes": "daf_storage.stores._remote.FIRST_BYTES",
    "request_bytes": "daf_storage.stores._remote._MAX_REQUEST_BYTES",
    "retries": "daf_storage.stores._remote.RETRIES",
    "scratch_bytes": "daf_storage.trees._file_changes._SCRATCH_BYTES",
    "server_connections": "daf_storage.upkeep._web._CONNECTIONS",
    "server_idle_seconds": "daf_storage.upkeep._web._IDLE_SECONDS",
    "silent_seconds": "daf_storage.stores._remote.SILENT_SECONDS",
    "small_file_bytes": "daf_storage.stores._directory._SMALL_BYTES",
    "stalled_seconds": "daf_query._runs._STALLED_SECONDS",
    "statements_download_bytes": "daf_query.session._queries.PROFILE_MAX_BYTES",
    "string_bytes": "daf_storage.base._model.MAX_STRING_BYTES",
    "thread_bytes": "daf_storage.data._encoding._THREAD_BYTES",
    "transposed_elements": "daf_storage.data._encoding._BLOCK_ELEMENTS",
    "unsettled_seconds": "daf_query.table._columns._UNSETTLED_SECONDS",
    "whole_file_bytes": "daf_storage.stores._remote._MAX_WHOLE_BYTES",
    "written_strings": "daf_storage.trees._hdf5_tree.STRING_BLOCK",
}


def lower(patch: pytest.MonkeyPatch, **limits: float) -> None:
    """Set limits by their names, as long as the patch lasts."""
    for name, value in limits.items():
        patch.setattr(LIMITS[name], value)


def without_exchange(patch: pytest.MonkeyPatch) -> None:
    """Let directories be replaced in two steps, as where the file system cannot exchange two names."""
    patch.setattr("daf_storage.stores._directories._exchange_function", lambda: None)
