"""Write a slice that is larger than its budget to a file, one block of rows after the other.

**Nouns.** A *group* is one of an HDF5 file
or of a Zarr directory, into which matrices are written in the encodings of anndata.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._formats import SLICE_FORMATS
from daf_query._provenance import Record
from daf_query._row_files import compressed
from daf_query.slice import _anndata
from daf_query.slice import _export as export
from daf_query.slice._anndata import Companion, companion_slice
from daf_query.slice._base import SliceBase
from daf_query.slice._labels import axis_names
from daf_query.slice._reading import Figures
from daf_storage._lazy import lazy_module
from daf_storage.anndata import AlignedMatrix, write_anndata
from daf_storage.base import optional_import
from daf_storage.stores import open_output
from daf_storage.trees import hdf5_output

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
    import scipy.sparse as sp
    import zarr
else:
    pq = lazy_module("pyarrow.parquet")
    pacsv = lazy_module("pyarrow.csv")
    sp = lazy_module("scipy.sparse")
    zarr = lazy_module("zarr")

_CHUNK_ELEMENTS: Final = 1 << 16
_CHUNK_BYTES: Final = 1 << 20
_LARGEST_INT32: Final = 2**31 - 1


def needs_blocks(figures: Figures, file_format: str, *, max_bytes: int) -> bool:
    """Return whether a slice is too large for a file of it to be written as a whole.

    Those formats that cannot be written otherwise do not need blocks, whatever the size.
    """
    is_cut = SLICE_FORMATS[file_format].in_blocks
    can_be_cut = is_cut and figures.dtype != object and figures.shape[0] > 0
    size = figures.dense_bytes if file_format in _WIDE else figures.result_bytes
    return can_be_cut and size > max_bytes


class Reading:
    """Reads the blocks of a slice, and counts what they have.

    Parameters
    ----------
    block_bytes
        How large a block may be.
    progress
        Called with the number of stored elements that were read since the last call.
    """

    def __init__(self, block_bytes: int, progress: Callable[[int], None] = lambda _: None) -> None:
        self.block_bytes = block_bytes
        self.nnz = 0
        """The number of elements that are stored, or not zero."""
        self.check: Callable[[], None] = lambda: None
        """Called before the next block is read: raises if one could not be written."""
        self._progress = progress

    def blocks(self, part: SliceBase) -> Iterator[SliceBase]:
        """Yield the blocks, one at a time, with their values."""
        self.nnz = 0
        yield from map(self._read, part.blocks(max_bytes=self.block_bytes))

    def wide_blocks(self, part: SliceBase) -> Iterator[SliceBase]:
        """Yield blocks that are no larger as dense ones."""
        self.nnz = 0
        row_bytes = max(part.shape[1] * part.dtype.itemsize, 1)
        yield from map(self._read, part.blocks(max(self.block_bytes // row_bytes, 1)))

    def _read(self, block: SliceBase) -> SliceBase:
        self.check()
        values = block.load(progress=self._progress).values()
        self.nnz += int(values.nnz if sp.issparse(values) else np.count_nonzero(values))
        return block


class _NotNarrowError(Exception):
    """A block has values that the dtype of the import does not hold."""


def save_anndata(
    contents: _anndata.Contents,
    part: SliceBase,
    path: Path,
    file_format: str,
    reading: Reading,
) -> None:
    """Write an AnnData: ``obs``, ``var`` and annotations at once, ``X`` and large layers in blocks.

    Parameters
    ----------
    reading
        Reads the blocks.  A companion that is no larger than one is gathered as a whole.
    """
    with _anndata.anndata_output(path, file_format) as prepared, part.unchanged_axes():
        report = write_anndata(contents.with_annotations(), prepared, file_format=file_format)
        with _opened(prepared, file_format) as (root, reading.check):
            if "X" in root:
                del root["X"]
            _write_matrix(root, "X", part, contents.main, reading)
            for companion in contents.companions:
                if companion.matrix.is_annotation:
                    continue
                group = root.require_group(companion.matrix.part)
                _write_companion(group, companion, contents, reading)
    report.warn()


@contextmanager
def _opened(prepared: Path, file_format: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Open a file for more matrices; Zarr lists them in its consolidated metadata in the end.

    Also hands out what raises if a block could not be written.
    """
    if file_format == export.H5AD:
        with hdf5_output(prepared, "r+") as opened:
            yield opened
        return
    group = zarr.open_group(prepared, mode="r+", use_consolidated=False)
    yield group, lambda: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Zarr v3 does not specify them yet
        zarr.consolidate_metadata(group.store)


def _write_companion(
    group: Any,
    companion: Companion,
    contents: _anndata.Contents,
    reading: Reading,
) -> None:
    matrix = companion.matrix
    if companion.estimated_bytes > reading.block_bytes:
        own = Reading(reading.block_bytes)
        own.check = reading.check
        part = SliceBase(companion_slice(contents.whole, companion)[0])
        _write_matrix(group, matrix.key, part, matrix, own)
        return
    anndata = optional_import("anndata", extra="anndata")
    with anndata.settings.override(allow_write_nullable_strings=True):
        anndata.io.write_elem(group, matrix.key, contents.gathered(companion))
    reading.check()


def _write_matrix(
    group: Any, key: str, part: SliceBase, matrix: AlignedMatrix, reading: Reading
) -> None:
    """Write a matrix in the dtype that it had when it was imported, if all values fit that."""
    write = _write_csr if part.is_sparse else _write_array
    for dtype in dict.fromkeys([np.dtype(matrix.note.get("dtype", part.dtype)), part.dtype]):
        try:
            write(group, key, part, dtype, reading)
        except _NotNarrowError:
            del group[key]
        else:
            return


def _write_csr(
    group: Any, key: str, part: SliceBase, dtype: np.dtype[Any], reading: Reading
) -> None:
    rows, columns = part.shape
    own = group.create_group(key)
    own.attrs.update(
        {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [rows, columns]}
    )
    data = _growing(own, "data", dtype)
    indices = _growing(own, "indices", np.dtype(_index_dtype(columns)))
    indptr = np.zeros(rows + 1, np.int64)
    row = 0
    for block in reading.blocks(part):
        values = block.values()
        _append(data, _as_dtype(values.data, dtype))
        _append(indices, values.indices)
        stop = row + values.shape[0]
        np.add(values.indptr[1:], indptr[row], out=indptr[row + 1 : stop + 1])
        row = stop
    pointers = indptr.astype(_index_dtype(max(int(indptr[-1]), columns)), copy=False)
    target = _growing(own, "indptr", pointers.dtype)
    _append(target, pointers)


def _write_array(
    group: Any, key: str, part: SliceBase, dtype: np.dtype[Any], reading: Reading
) -> None:
    rows, columns = part.shape
    height = min(max(_CHUNK_BYTES // max(columns * dtype.itemsize, 1), 1), max(rows, 1))
    target = _created(group, key, (rows, columns), (height, max(columns, 1)), dtype)
    target.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    row = 0
    for block in reading.blocks(part):
        values = block.values()
        target[row : row + len(values)] = _as_dtype(values, dtype)
        row += len(values)


def _index_dtype(largest: int) -> type[np.signedinteger[Any]]:
    return np.int32 if largest <= _LARGEST_INT32 else np.int64


def _as_dtype(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return values in a dtype.

    Raises
    ------
    _NotNarrowError
        That would change one.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(invalid="ignore", over="ignore"):
        cast = values.astype(dtype)
    if not np.array_equal(cast.astype(values.dtype), values, equal_nan=values.dtype.kind == "f"):
        raise _NotNarrowError
    return cast


def _growing(group: Any, name: str, dtype: np.dtype[Any]) -> Any:
    """Create an empty array that can grow."""
    return _created(group, name, (0,), (_CHUNK_ELEMENTS,), dtype)


def _created(
    group: Any, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    if isinstance(group, zarr.Group):
        return group.create_array(name, shape=shape, chunks=chunks, dtype=dtype)
    maxshape = (None,) if len(shape) == 1 else shape
    return group.create_dataset(name, shape=shape, maxshape=maxshape, chunks=chunks, dtype=dtype)


def _append(target: Any, values: npt.NDArray[Any]) -> None:
    start = int(target.shape[0])
    target.resize((start + values.size,))
    target[start : start + values.size] = values


def save_rows(
    part: SliceBase, path: Path, file_format: str, record: Record | None, reading: Reading
) -> None:
    """Write a table, the long form or the wide one, in blocks; the file appears when complete.

    Of the long form, the metadata have a record of the provenance.
    """
    with open_output(path) as file, compressed(file, path) as sink:
        if file_format in _WIDE:
            _write_delimited(_DELIMITERS[file_format], part, sink, reading)
        else:
            new_file = pq.ParquetWriter if file_format == "parquet" else pa.ipc.new_file
            tables = _long_tables(part, record, reading)
            _write_tables(tables, lambda schema: new_file(pa.PythonFile(sink, mode="w"), schema))


def _write_delimited(delimiter: str, part: SliceBase, file: IO[bytes], reading: Reading) -> None:
    options = pacsv.WriteOptions(delimiter=delimiter)
    _write_tables(
        map(export.wide_table, reading.wide_blocks(part)),
        lambda schema: pacsv.CSVWriter(
            pa.PythonFile(file, mode="w"), schema, write_options=options
        ),
    )


def _long_tables(part: SliceBase, record: Record | None, reading: Reading) -> Iterator[pa.Table]:
    """Yield the long form block by block, all with the same dictionaries."""
    names = axis_names(part.whole)
    for block in reading.blocks(part):
        yield export.long_table(block, record, names)


def _write_tables(tables: Iterator[pa.Table], writer_of: Callable[[pa.Schema], Any]) -> None:
    first = next(tables)
    with writer_of(first.schema) as writer:
        writer.write_table(first)
        del first
        for table in tables:
            writer.write_table(table)


_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}

_WIDE: Final = tuple(_DELIMITERS)
"""The formats in which a sparse slice becomes a dense one."""
