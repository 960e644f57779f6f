"""A matrix slice in other people's shapes: Arrow, pandas, polars, AnnData and files."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp

from daf_query.columns import number_array
from daf_storage import DafReader, axis_frame, errors, optional_import

VALUE = "value"


class Slice(Protocol):
    """What an export asks of a matrix slice."""

    daf: DafReader
    rows_axis: str
    columns_axis: str

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        ...

    @property
    def rows(self) -> npt.NDArray[np.object_]:
        """The entries of the rows axis."""
        ...

    @property
    def columns(self) -> npt.NDArray[np.object_]:
        """The entries of the columns axis."""
        ...

    @property
    def row_positions(self) -> npt.NDArray[np.int64]:
        """The positions of the rows along their axis."""
        ...

    @property
    def column_positions(self) -> npt.NDArray[np.int64]:
        """The positions of the columns along their axis."""
        ...

    def values(self) -> Any:
        """Return a CSR array or a dense one."""
        ...


def long_table(part: Slice) -> pa.Table:
    """Return a row for each non-zero element, row by row."""
    values = part.values()
    if sp.issparse(values):
        counts = np.diff(values.indptr)
        row = np.repeat(np.arange(part.shape[0]), counts)
        column, data = values.indices, values.data
    else:
        row, column = np.nonzero(values)
        data = values[row, column]
    second = part.columns_axis
    if second == part.rows_axis:
        second = f"{second}_2"
    is_text = data.dtype == object
    columns = {
        part.rows_axis: _named(part, part.rows_axis, part.row_positions, row),
        second: _named(part, part.columns_axis, part.column_positions, column),
        VALUE: pa.array(data, pa.string()) if is_text else number_array(data),
    }
    return pa.table(columns)


def _named(
    part: Slice, axis: str, positions: npt.NDArray[np.int64], which: npt.NDArray[Any]
) -> pa.DictionaryArray:
    unique, inverse = np.unique(positions, return_inverse=True)
    names = part.daf.get_pa_vector(axis, "name").take(pa.array(unique))
    codes = pa.array(inverse[which].astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, names)


def wide_pandas(part: Slice) -> Any:
    """Return a pandas DataFrame; sparse columns for a sparse matrix."""
    pandas = optional_import("pandas", extra="pandas")
    values = part.values()
    if sp.issparse(values):
        return pandas.DataFrame.sparse.from_spmatrix(values, index=part.rows, columns=part.columns)
    return pandas.DataFrame(values, index=part.rows, columns=part.columns, copy=True)


def wide_polars(part: Slice) -> Any:
    """Return a polars DataFrame; the row entries come first."""
    return optional_import("polars", extra="polars").from_arrow(wide_table(part))


def wide_table(part: Slice) -> pa.Table:
    """Return an Arrow table: the row entries, then a column per column entry."""
    values = part.values()
    dense = np.asfortranarray(values.toarray() if sp.issparse(values) else values)
    names = list(part.columns)
    first = part.rows_axis
    while first in names:
        first = f"{first}_"
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise errors.DuplicateEntriesError(
            f"a table cannot have two columns named {twice[0]!r}; "
            "select each column once, or use to_arrow() or to_scipy()"
        )
    is_text = dense.dtype == object
    arrays = [pa.array(dense[:, j], pa.string() if is_text else None) for j in range(len(names))]
    return pa.table([pa.array(part.rows, pa.string()), *arrays], names=[first, *names])


def to_anndata(part: Slice) -> Any:
    """Return an AnnData with ``obs`` and ``var`` from the axis tables."""
    anndata = optional_import("anndata", extra="anndata")
    obs, uns = axis_frame(part.daf, part.rows_axis, part.row_positions)
    var, more = axis_frame(part.daf, part.columns_axis, part.column_positions)
    values = part.values()
    is_sparse = sp.issparse(values)
    matrix = sp.csr_matrix(values, copy=True) if is_sparse else np.array(values, order="C")
    return anndata.AnnData(X=matrix, obs=obs, var=var, uns={**more, **uns})


def save(part: Slice, path: Path) -> None:
    """Write the slice to a file; what is there is replaced when the new file is complete."""
    writers: dict[str, Callable[[Slice, Path], None]] = {
        ".h5ad": _save_h5ad,
        ".npz": _save_npz,
        ".mtx": _save_mtx,
        ".csv": _save_csv,
        ".parquet": _save_parquet,
        ".arrow": _save_arrow,
    }
    write = writers.get(path.suffix)
    if write is None:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: the suffix {path.suffix!r} is not one of "
            f"{', '.join(writers)}"
        )
    if not path.parent.is_dir():
        raise errors.SourceNotFoundError(
            f"cannot write {str(path)!r}: no such directory: {path.parent}"
        )
    if path.suffix == ".mtx":
        for names, suffix in ((part.rows, ".rows.tsv"), (part.columns, ".columns.tsv")):
            text = "".join(f"{name}\n" for name in names)
            replacing(path.with_suffix(suffix), partial(_save_text, text))
    replacing(path, partial(write, part))


def replacing(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a file beside ``path`` and rename it into place when it is complete."""
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex}{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _save_h5ad(part: Slice, path: Path) -> None:
    to_anndata(part).write_h5ad(path)


def _save_npz(part: Slice, path: Path) -> None:
    """Write what ``scipy.sparse.load_npz`` reads, and the names beside it."""
    matrix = sp.csr_array(part.values())
    np.savez_compressed(
        path,
        format=np.array(b"csr"),
        shape=np.array(matrix.shape),
        data=matrix.data,
        indices=matrix.indices,
        indptr=matrix.indptr,
        _is_array=np.array(True),  # noqa: FBT003 - scipy's own mark
        row_names=part.rows.astype(str),
        column_names=part.columns.astype(str),
    )


def _save_mtx(part: Slice, path: Path) -> None:
    with path.open("wb") as file:
        scipy.io.mmwrite(file, sp.csr_array(part.values()))


def _save_csv(part: Slice, path: Path) -> None:
    pacsv.write_csv(wide_table(part), path)


def _save_parquet(part: Slice, path: Path) -> None:
    pq.write_table(long_table(part), path)


def _save_arrow(part: Slice, path: Path) -> None:
    table = long_table(part)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _save_text(text: str, path: Path) -> None:
    path.write_text(text)
