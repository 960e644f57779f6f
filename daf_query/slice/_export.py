"""Convert a matrix slice to Arrow, pandas, polars and files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._formats import COMPRESSED, SLICE_FORMATS
from daf_query._provenance import Record, described
from daf_query._row_files import compressed
from daf_query.scan import number_array
from daf_query.slice._base import SliceBase
from daf_query.slice._labels import AxisNames, Labels, axis_names, labels_of
from daf_query.table import check_column_names
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import optional_import
from daf_storage.stores import find_output, open_output

if TYPE_CHECKING:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
    import scipy.io as scipy_io
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")
    scipy_io = lazy_module("scipy.io")
    pq = lazy_module("pyarrow.parquet")
    pacsv = lazy_module("pyarrow.csv")

VALUE = "value"
_DATA_SETS: Final = (".daf.zarr", ".dafs.zarr")


def long_table(
    part: SliceBase,
    record: Record | None = None,
    names: tuple[AxisNames, AxisNames] | None = None,
) -> pa.Table:
    """Return a row for each non-zero element, row by row.

    Parameters
    ----------
    record
        What its metadata say of its provenance.
    names
        The dictionaries; those of this slice by default.
    """
    values = part.values()
    row_names, column_names = axis_names(part.whole) if names is None else names
    if sp.issparse(values):
        counts = np.diff(values.indptr)
        row = np.repeat(np.arange(part.shape[0]), counts)
        column, data = values.indices, values.data
    else:
        row, column = np.nonzero(values)
        data = values[row, column]
    datasets = row_names.dataset(part.row_positions, row)
    datasets |= column_names.dataset(part.column_positions, column)
    axes = (part.rows_axis, part.columns_axis)
    first, second = (f"{axis}_2" if axis in datasets else axis for axis in axes)
    if second == first:
        second = f"{second}_2"
    # As in the table of the whole matrix: an axis may be called "value".
    value = f"{VALUE}_2" if VALUE in (first, second) else VALUE
    columns = {
        **datasets,
        first: row_names.column(part.row_positions, row),
        second: column_names.column(part.column_positions, column),
        value: _strings(data) if data.dtype == object else number_array(data),
    }
    table = pa.table(columns)
    return table if record is None else described(table, record)


def _strings(values: Any) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.string())


def wide_pandas(part: SliceBase) -> Any:
    """Return a pandas DataFrame; sparse columns for a sparse matrix."""
    pandas = optional_import("pandas", extra="pandas")
    values = part.values()
    rows, columns = (_pandas_index(pandas, labels) for labels in labels_of(part.whole))
    if sp.issparse(values):
        return pandas.DataFrame.sparse.from_spmatrix(values, index=rows, columns=columns)
    return pandas.DataFrame(values, index=rows, columns=columns, copy=True)


def _pandas_index(pandas: Any, labels: Labels) -> Any:
    """Return an index; of several data sets one of two levels, that of the data set first."""
    if labels.datasets is None:
        return labels.unique
    columns = labels.as_columns()
    arrays = [column.to_numpy(zero_copy_only=False) for column in columns.values()]
    return pandas.MultiIndex.from_arrays(arrays, names=list(columns))


def wide_polars(part: SliceBase) -> Any:
    """Return a polars DataFrame; the row entries come first."""
    table = wide_table(part)
    check_column_names(table.column_names, "a frame of polars", "to_pandas() or to_arrow()")
    return optional_import("polars", extra="polars").from_arrow(table)


def as_dense(values: Any) -> npt.NDArray[Any]:
    """Return values as a dense array."""
    dense: npt.NDArray[Any] = values.toarray() if sp.issparse(values) else values
    return dense


def wide_table(part: SliceBase) -> pa.Table:
    """Return an Arrow table: the row entries, then a column per column entry."""
    values = part.values()
    dense = np.asfortranarray(as_dense(values))
    rows, columns = labels_of(part.whole)
    names = list(columns.unique)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise errors.DuplicateEntriesError(
            f"a table cannot have two columns named {repeated[0]!r}; "
            "select each column once, or use to_arrow() or to_scipy()"
        )
    array = _strings if dense.dtype == object else pa.array
    arrays = [array(dense[:, position]) for position in range(len(names))]
    leading = rows.as_columns(names)
    return pa.table([*leading.values(), *arrays], names=[*leading, *names])


def save(part: SliceBase, path: Path, file_format: str, record: Record | None) -> None:
    """Write the slice, but for AnnData; an old file is replaced when the new one is complete."""
    if file_format == "mtx":
        _save_names(part, path)
    with open_output(path) as file, compressed(file, path) as sink:
        if file_format in _DESCRIBED_WRITERS:
            _DESCRIBED_WRITERS[file_format](part, record, sink)
        else:
            _WRITERS[file_format](part, sink)


def check_format(path: Path, file_format: str | None = None) -> str:
    """Return the format that is given, or else that of the suffix; refuse an unknown one."""
    name = _uncompressed(path)
    file_format = name.suffix.removeprefix(".") if file_format is None else file_format
    is_compressed = name != path
    if file_format not in (*SLICE_FORMATS, name.suffix.removeprefix(".")):
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: the format {file_format!r} is not one of "
            f"{', '.join(SLICE_FORMATS)}"
        )
    known = SLICE_FORMATS.get(file_format)
    if known is None or (is_compressed and not known.is_text):
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: the suffix {path.suffix!r} is not one of "
            f"{', '.join(f'.{known}' for known in SLICE_FORMATS)} (those of text also with "
            f"{COMPRESSED}), and no format is given"
        )
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
    for name in (".zattrs", "zarr.json"):
        with suppress(OSError, ValueError, AttributeError):
            attributes = json.loads((path / name).read_bytes())
            attributes = attributes.get("attributes", attributes)
            if attributes.get("encoding-type") == "anndata":
                return True
    return False


def _uncompressed(path: Path) -> Path:
    """Return the path without the suffix of compression."""
    return path.parent / path.name.removesuffix(COMPRESSED)


def _save_names(part: SliceBase, path: Path) -> None:
    """Write the names of the rows and of the columns beside a matrix in Matrix Market."""
    if not find_output(path).is_regular:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: mtx is a file with two more beside it, for the names; "
            "choose a format that has all of it in one"
        )
    for labels, suffix in zip(labels_of(part.whole), (".rows.tsv", ".columns.tsv"), strict=True):
        columns = [labels.names]
        if labels.datasets is not None:
            columns.append(labels.datasets.to_pylist())
        with open_output(_uncompressed(path).with_suffix(suffix)) as file:
            lines = ("\t".join(map(str, line)) for line in zip(*columns, strict=True))
            file.write("".join(f"{line}\n" for line in lines).encode())


def _write_npz(part: SliceBase, file: IO[bytes]) -> None:
    """Write what ``scipy.sparse.load_npz`` reads, and the names beside it."""
    matrix = sp.csr_array(part.values())
    rows, columns = labels_of(part.whole)
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
        row_names=_fixed_width(rows.names),
        column_names=_fixed_width(columns.names),
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


def _write_mtx(part: SliceBase, file: IO[bytes]) -> None:
    scipy_io.mmwrite(file, sp.csr_array(part.values()))


def _write_delimited(delimiter: str, part: SliceBase, file: IO[bytes]) -> None:
    options = pacsv.WriteOptions(delimiter=delimiter)
    pacsv.write_csv(wide_table(part), pa.PythonFile(file, mode="w"), options)


def _write_parquet(part: SliceBase, record: Record | None, file: IO[bytes]) -> None:
    pq.write_table(long_table(part, record), pa.PythonFile(file, mode="w"))


def _write_arrow(part: SliceBase, record: Record | None, file: IO[bytes]) -> None:
    table = long_table(part, record)
    with pa.ipc.new_file(pa.PythonFile(file, mode="w"), table.schema) as writer:
        writer.write_table(table)


_WRITERS: Final[dict[str, Callable[[SliceBase, IO[bytes]], None]]] = {
    "npz": _write_npz,
    "mtx": _write_mtx,
    "csv": partial(_write_delimited, ","),
    "tsv": partial(_write_delimited, "\t"),
}
_DESCRIBED_WRITERS: Final[dict[str, Callable[[SliceBase, Record | None, IO[bytes]], None]]] = {
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}

H5AD: Final = "h5ad"
"""AnnData in an HDF5 file."""

ZARR: Final = "zarr"
"""AnnData in a Zarr directory."""

ANNDATA: Final = (H5AD, ZARR)
"""The formats that `daf_query.slice._anndata` writes."""
