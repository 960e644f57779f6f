"""Convert a matrix slice to Arrow, pandas and polars."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import Record, described
from daf_query.scan import number_array
from daf_query.slice._base import SliceBase
from daf_query.slice._labels import AxisNames, Labels, axis_names, labels_of
from daf_query.table import check_column_names
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import optional_import

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

VALUE = "value"


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
