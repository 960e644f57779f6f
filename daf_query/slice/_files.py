"""Write slices to files; one that is larger than its budget one block of rows after the other.

**Nouns.** A *group* is one of an HDF5 file or of a Zarr directory, into which matrices are written
in the encodings of anndata.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from daf_query._formats import COMPRESSED, SLICE_FORMATS
from daf_query._provenance import Record
from daf_query._row_files import Rows, compressed, format_of, write_batches
from daf_query._runs import checked
from daf_query.slice import _anndata
from daf_query.slice._anndata import companion_slice
from daf_query.slice._blocks import row_spans
from daf_query.slice._parts import Whole, figures_of, read_whole
from daf_query.slice._tables import Labels, labels_of, long_table, wide_table
from daf_storage import errors
from daf_storage._lazy import lazy_module, sp, zarr
from daf_storage.anndata import AlignedMatrix, narrowed, write_anndata
from daf_storage.base import Span, optional_import
from daf_storage.stores import find_output, open_output, output_directory, output_path
from daf_storage.trees import hdf5_output

_SCIPY_IO: Final = lazy_module("scipy.io")

H5AD: Final = "h5ad"
"""AnnData in an HDF5 file."""

ZARR: Final = "zarr"
"""AnnData in a Zarr directory."""

ANNDATA: Final = (H5AD, ZARR)
"""The formats of AnnData."""

WIDE: Final = ("csv", "tsv")
"""The formats in which a sparse slice becomes a dense one."""
_DATA_SETS: Final = (".daf.zarr", ".dafs.zarr")


def check_format(path: Path, given: str | None = None) -> str:
    """Return the format of the file of a slice; refuse a path where it cannot be written."""
    file_format: str = format_of(path, given, SLICE_FORMATS)
    if file_format == ZARR:
        _check_directory(path)
    return file_format


def _check_directory(path: Path) -> None:
    """Refuse to write a Zarr directory where something else is, or would be expected."""
    if path.name.endswith(_DATA_SETS):
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: this is the name of a Daf data set; name the AnnData of "
            "a slice otherwise, such as 'slice.zarr'"
        )
    if path.is_dir():
        if any(path.iterdir()) and not _is_anndata(path):
            raise errors.InvalidInputError(
                f"cannot write {str(path)!r}: this is a directory, and not an AnnData, which "
                "would be replaced; remove it, or choose another name"
            )
    elif path.exists() or not find_output(path).is_regular:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: zarr is a directory; name one that is not there yet"
        )


def _is_anndata(path: Path) -> bool:
    """Return whether a directory is an AnnData in Zarr, by the metadata of its root."""
    try:
        return bool(zarr.open_group(path, mode="r").attrs.get("encoding-type") == "anndata")
    except (OSError, ValueError, KeyError, TypeError):
        return False


class Reading:
    """Reads a slice to be written: as a whole, or in blocks.

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
        """The number of elements of the last slice that are stored, or not zero."""
        self.check: Callable[[], None] = lambda: None
        """Called before the next block is read: raises if one could not be written."""
        self._progress = checked(progress)

    def needs_blocks(self, whole: Whole, file_format: str) -> bool:
        """Return whether a slice is to be read in blocks for a file of some format."""
        figures = figures_of(whole)
        size = figures.dense_bytes if file_format in WIDE else figures.result_bytes
        can_be_cut = SLICE_FORMATS[file_format].in_blocks and whole.dtype != object
        return can_be_cut and whole.shape[0] > 0 and size > self.block_bytes

    def blocks(self, whole: Whole, values: Any, file_format: str) -> Iterator[tuple[Span, Any]]:
        """Yield the rows and the values of each block; of values that were read all of them."""
        self.nnz = 0
        spans: Iterable[Span] = [Span(0, whole.shape[0])]
        if values is None and whole.shape[0]:
            figures, rows = figures_of(whole), None
            if file_format in WIDE:  # no larger as dense ones
                rows = max(self.block_bytes // (whole.shape[1] * figures.item_bytes), 1)
            spans = row_spans(figures, rows, None if rows else self.block_bytes)
        for span in spans:
            self.check()
            block = values
            if values is None:
                block = read_whole(whole.of_rows(span), self._progress)
            self.nnz += int(block.nnz if sp.issparse(block) else np.count_nonzero(block))
            yield span, block


def save_rows(
    whole: Whole, values: Any, path: Path, file_format: str, record: Record | None, reading: Reading
) -> None:
    """Write a slice, but for AnnData; an old file is replaced when the new one is complete.

    The metadata of the long form have a record of the provenance.

    Parameters
    ----------
    values
        Those of the slice; None to read them in blocks.
    """
    rows, columns = labels_of(whole)  # so that all blocks have the same dictionaries
    if file_format == "mtx" and not find_output(path).is_regular:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: mtx is a file with two more beside it, for the names; "
            "choose a format that has all of it in one"
        )
    with open_output(path) as file, compressed(file, path) as sink:
        blocks = reading.blocks(whole, values, file_format)
        if file_format in ("npz", "mtx"):
            matrix = sp.csr_array(next(blocks)[1])
            if file_format == "npz":
                _write_npz(rows, columns, matrix, sink)
            else:
                _SCIPY_IO.mmwrite(sink, matrix)
        else:
            table_of = wide_table if file_format in WIDE else partial(long_table, record=record)
            tables = (table_of(block, (rows.part(span), columns)) for span, block in blocks)
            first = next(tables)
            batches = (batch for each in chain([first], tables) for batch in each.to_batches())
            write_batches(Rows(first.schema, batches), file_format, sink)
    if file_format == "mtx":
        _save_names((rows, columns), path)


def _save_names(both: tuple[Labels, Labels], path: Path) -> None:
    """Write the names of the rows and of the columns beside a matrix in Matrix Market."""
    plain = path.with_suffix("") if path.suffix == COMPRESSED else path
    for labels, suffix in zip(both, (".rows.tsv", ".columns.tsv"), strict=True):
        columns = [labels.strings]
        if labels.datasets is not None:
            columns.append(labels.datasets.to_pylist())
        with open_output(plain.with_suffix(suffix)) as file:
            lines = ("\t".join(map(str, line)) for line in zip(*columns, strict=True))
            file.write("".join(f"{line}\n" for line in lines).encode())


def _write_npz(rows: Labels, columns: Labels, matrix: Any, file: IO[bytes]) -> None:
    """Write what ``scipy.sparse.load_npz`` reads, and the names beside it."""
    datasets: dict[str, Any] = {
        name: _fixed_width(labels.datasets.to_pylist())
        for name, labels in (("row_datasets", rows), ("column_datasets", columns))
        if labels.datasets is not None
    }
    np.savez_compressed(
        file,
        format=np.array(b"csr"),
        shape=np.array(matrix.shape),
        data=matrix.data,
        indices=matrix.indices,
        indptr=matrix.indptr,
        _is_array=np.array(True),  # noqa: FBT003 - scipy's own mark
        row_names=_fixed_width(rows.strings),
        column_names=_fixed_width(columns.strings),
        **datasets,
    )


def _fixed_width(names: Iterable[str]) -> npt.NDArray[np.str_]:
    """Return names as numpy stores them without pickling, which takes NULs at the end off."""
    listed = list(names)
    for name in listed:
        if name.endswith("\0"):
            raise errors.UnsupportedInputError(
                f"a file of numpy cannot hold the name {name!r}, which ends in a NUL character; "
                "write another form, such as .parquet, or select other entries"
            )
    return np.array(listed, str)


def save_anndata(
    whole: Whole,
    values: Any,
    path: Path,
    file_format: str,
    choice: _anndata.AnnDataChoice,
    record: Record | None,
    reading: Reading,
) -> None:
    """Write what `to_anndata` returns; a large ``X`` and large layers in blocks.

    A companion that is no larger than a block is gathered as a whole.

    Parameters
    ----------
    values
        Those of the slice; None to read them in blocks.
    """
    if values is not None:
        [_] = reading.blocks(whole, values, file_format)
        adata = _anndata.to_anndata(whole, lambda: values, choice, record)
    else:
        with whole.unchanged_axes():
            adata, main, companions = _anndata.annotated(whole, choice, record)
            large = []
            for companion in companions:
                part, _ = companion_slice(whole, companion)
                if companion.matrix.is_annotation or not reading.needs_blocks(part, file_format):
                    _anndata.add_companion(adata, whole, companion)
                else:
                    large.append((part, companion.matrix))
    output = output_directory(path) if file_format == ZARR else output_path(path)
    with output as prepared:
        report = write_anndata(adata, prepared, file_format=file_format)
        if values is None:
            with whole.unchanged_axes(), _opened(prepared, file_format) as (root, reading.check):
                _write_matrix(root, "X", whole, main, reading)
                for part, matrix in large:
                    own = Reading(reading.block_bytes)
                    own.check = reading.check
                    _write_matrix(root.require_group(matrix.part), matrix.key, part, matrix, own)
    report.warn()


@contextmanager
def _opened(prepared: Path, file_format: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Open a file for more matrices; Zarr lists them in its consolidated metadata in the end.

    Also hands out what raises if a block could not be written.
    """
    if file_format == H5AD:
        with hdf5_output(prepared, "r+") as opened:
            yield opened
        return
    group = zarr.open_group(prepared, mode="r+", use_consolidated=False)
    yield group, lambda: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Zarr v3 does not specify them yet
        zarr.consolidate_metadata(group.store)


def _write_matrix(
    group: Any, key: str, whole: Whole, matrix: AlignedMatrix, reading: Reading
) -> None:
    """Write a matrix in the dtype that it had when it was imported, if all values fit that."""
    for dtype in (np.dtype(matrix.note.get("dtype", whole.dtype)), whole.dtype):
        if key in group:
            del group[key]
        if _is_written(group, key, whole, dtype, reading):
            return


def _is_written(group: Any, key: str, whole: Whole, dtype: np.dtype[Any], reading: Reading) -> bool:
    """Write a matrix in a dtype, as far as all values fit that; return whether they do."""
    anndata = optional_import("anndata", extra="anndata")
    is_hdf5, is_sparse = not isinstance(group, zarr.Group), whole.is_sparse
    growing = {"maxshape": (None, whole.shape[1])} if is_hdf5 and not is_sparse else {}
    indptr_dtype = np.dtype(f"i{figures_of(whole).index_bytes}")  # for as many as in the end
    for span, values in reading.blocks(whole, None, H5AD):
        written = narrowed(values.data if is_sparse else values, dtype)
        if written.dtype != dtype:
            return False
        if is_sparse:
            values.data, values.indptr = written, values.indptr.astype(indptr_dtype)
            written = values
        if not span.start:
            anndata.io.write_elem(group, key, written, dataset_kwargs=growing)
        elif is_sparse:
            anndata.io.sparse_dataset(group[key]).append(sp.csr_matrix(written))
        else:
            group[key].resize((span.stop, whole.shape[1]))
            group[key][span.slice] = written
    return True
