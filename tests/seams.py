"""Places within the packages at which tests fail, count or wait: only here is said where they are.

Tests patch them by these names, and get what is there by `real`.
"""

from __future__ import annotations

import pkgutil
from typing import Any, Final

ARRAYS_OF_STRINGS: Final = "daf_query.index._stored.arrays_of_strings"
AXIS_COLUMNS: Final = "daf_query.table.axis_columns"
BLOCK_SPANS: Final = "daf_storage.data._encoding.block_spans"
COMPARE: Final = "daf_storage.upkeep._copy._differences"
COUNTED_BLOCKS: Final = "daf_storage.data._encoding.counted_blocks"
CREATE_SKELETON: Final = "daf_storage.opening._containers.create_skeleton"
READ_BLOCK: Final = "daf_query.slice._parts._read_block"
DIRECTORY_SNAPSHOT_SIZE: Final = "daf_storage.stores._directory.DirectorySnapshot.size"
DIRECTORY_STORE_SNAPSHOT: Final = "daf_storage.stores._directory.DirectoryStore.snapshot"
DIRECTORY_TRANSACTION_REPLACE_FILE: Final = (
    "daf_storage.stores._directory.DirectoryTransaction.replace_file"
)
DECOMPRESS: Final = "daf_storage.stores.mmap_zip._reader.blocks"
EXCHANGE: Final = "daf_storage.stores._directory.exchange"
EXCHANGE_FUNCTION: Final = "daf_storage.stores._directories._exchange_function"
GEOMETRY_BOXES: Final = "daf_query._zarr_append.geometry_boxes"
HDF5_ARRAY: Final = "daf_storage.trees._hdf5_array.Hdf5Array"
HDF5_FLUSH: Final = "daf_storage.trees._hdf5_file.Hdf5File.flush"
HDF5_ARRAY_READ: Final = "daf_storage.trees._hdf5_array.Hdf5Array.read"
HDF5_ARRAY_OBJECTS: Final = "daf_storage.trees._hdf5_array.Hdf5Array._objects"
IMPORT_RUN: Final = "daf_storage.h5ad._import._Import.run"
INDEX_TYPE: Final = "daf_storage.data._assembled.index_type"
IS_STORED_SPARSE: Final = "daf_storage.concat._run.Options.is_worth_sparse"
OPENED: Final = "daf_storage.data._kept.opened"
OPEN_BELOW: Final = (
    "daf_storage.trees._hdf5_tree.open_below",
    "daf_storage.trees._hdf5_array.open_below",
)
PAUSES: Final = (
    "daf_storage.upkeep._copy._differences",
    "daf_storage.h5ad._import._Import._copy_matrix",
    "daf_storage.h5ad._export._Exporter._write",
    "daf_query._row_files.write_rows",
    "daf_storage.data._assembled._write_matrix",
)
PLAIN_ARRAY_READ_STRINGS: Final = "daf_storage.trees._zarr_array.PlainArray.read_strings"
PUBLISH_AXIS: Final = "daf_storage.data._writer.publish_axis"
PUT_BACK: Final = "daf_storage.stores._directories._put_back"
READING_BLOCKS: Final = "daf_query.slice._matrix_slice.Reading.blocks"
READ_WHOLE: Final = "daf_query.slice._matrix_slice.read_whole"
RECOVER: Final = "daf_query._zarr_append._recover"
TEMPORARY_FILE: Final = "daf_storage.trees._file_changes.TemporaryFile"
VECTOR_READER_FIND_VECTOR: Final = "daf_storage.data._layout.open_vector"
VECTOR_READER_OPEN_VECTOR: Final = "daf_storage.data._reader.DafReader.open_vector"
WRITE_ELEMENT: Final = "daf_storage.data._kept.write_element"
WRITE_FLIPPED: Final = "daf_storage.upkeep._sidecar.write_transposed"
WRITE_MATRIX: Final = "daf_storage.data._assembled._write_matrix"
WRITTEN_OPEN: Final = "daf_storage.stores._directory.open"
ZARR_CHUNK_DECODED: Final = "daf_query.table._zarr.OpenZarrColumn._decoded"
ZARR_CHUNK_DECOMPRESSED: Final = "daf_query.table._zarr.OpenZarrColumn._decompressed"
ZARR_TABLE: Final = "daf_query._zarr_append.zarr_table"


def real(place: str) -> Any:
    """Return what is at a place, to be called by what a test puts there."""
    return pkgutil.resolve_name(place)
