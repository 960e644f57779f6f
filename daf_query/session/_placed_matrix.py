"""Values that become a matrix: those of a slice, or of rows with an entry of either axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.session._storable import is_any_string, one_array, storable
from daf_query.slice import MatrixSlice
from daf_storage import DafReader, errors
from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a matrix is to be stored."""

    daf: DafReader
    axes: tuple[str, str]
    """The axis of its rows, and that of its columns."""
    name: str

    @property
    def shape(self) -> tuple[int, int]:
        """Lengths of the two axes."""
        return self.daf.axis_length(self.axes[0]), self.daf.axis_length(self.axes[1])

    @property
    def what(self) -> str:
        """The matrix as messages name it."""
        return f"matrix {self.name!r} of axes {self.axes[0]!r} and {self.axes[1]!r}"


def of_slice(place: Place, part: MatrixSlice, fill: Any) -> Any:
    """Return the elements of a slice at the positions of its rows and columns.

    All others are zero where the slice is sparse, and else ``fill``.
    """
    _check_current(part)
    positions = [_positions(place, part, number) for number in (0, 1)]
    values = part.values()
    # An entry that was selected twice has the same elements both times.
    (rows, first_rows), (columns, first_columns) = (
        np.unique(each, return_index=True) for each in positions
    )
    if rows.size < positions[0].size or columns.size < positions[1].size:
        values = values[first_rows][:, first_columns]
    else:
        rows, columns = positions
    if sp.issparse(values):
        if fill is not None:
            raise errors.InvalidInputError(
                f"fill= is for dense values, and the slice of {part.name!r} is sparse: what is not "
                "in it is zero; leave fill= out, or pass the to_numpy() of a slice of all entries"
            )
        elements = values.tocoo()
        indices = rows[elements.row], columns[elements.col]
        return sp.csc_array((elements.data, indices), shape=place.shape)
    return placed(place, place.shape, values, (rows, columns), fill)


def of_rows(place: Place, table: pa.Table, fill: Any) -> Any:
    """Return the values of rows that name an entry of either axis.

    Dense if there is a row for every element, or a value to fill the others with; else sparse.
    """
    keys, value = _columns(place, table)
    indices = [
        _of_names(place, axis, key, table.column(key))
        for axis, key in zip(place.axes, keys, strict=True)
    ]
    _check_unique(place, table, keys, indices)
    values = storable(table.column(value), place.what, f"elements of {place.what}")
    if values.null_count:
        raise errors.QueryError(
            f"the query yields NULL for {values.null_count:,} elements of {place.what}, and a "
            "matrix has no missing strings; use coalesce()"
        )
    elements: Any = values.to_numpy(zero_copy_only=False)
    is_complete = table.num_rows == place.shape[0] * place.shape[1]
    if fill is None and not is_complete:
        if is_any_string(values.type):
            raise errors.InvalidInputError(
                f"the query yields {table.num_rows:,} of the "
                f"{place.shape[0] * place.shape[1]:,} strings of {place.what}, and none can be "
                "left out; pass fill='' for the others"
            )
        return sp.csc_array((elements, tuple(indices)), shape=place.shape)
    empty = _empty(place, place.shape, elements.dtype, None if is_complete else fill)
    empty[indices[0], indices[1]] = elements
    return empty


def _check_current(part: MatrixSlice) -> None:
    """Refuse a slice whose positions may be of another order of the axes."""
    if part.of_several:
        raise errors.InvalidInputError(
            f"{part.whole.location}: this slice of {part.name!r} is of several data sets, whose "
            "entries may have the same names; daf_storage.concatenate() and daf concat write them "
            "as one data set"
        )
    stored = part.plan.stored
    info = stored.info
    now = part.daf.open_matrix(info.rows_axis, info.columns_axis, info.name)
    if not stored.is_same(now):
        raise errors.InvalidInputError(
            f"{part.daf.location}: the matrix {part.name!r} or one of its axes was replaced or "
            "reordered since this slice was made; make the slice again"
        )


def _positions(place: Place, part: MatrixSlice, number: int) -> npt.NDArray[np.int64]:
    """Return where the rows or the columns of a slice are along the axis of the new matrix."""
    axis = place.axes[number]
    if part.daf is place.daf and (part.rows_axis, part.columns_axis)[number] == axis:
        return (part.row_positions, part.column_positions)[number]
    return place.daf.axis_indices(axis, (part.rows, part.columns)[number])


def placed(
    place: Place,
    shape: tuple[int, int],
    values: npt.NDArray[Any],
    positions: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    fill: Any,
) -> npt.NDArray[Any]:
    """Return a matrix with values at some rows and columns, and elsewhere ``fill``.

    Raises
    ------
    InvalidInputError
        There is an elsewhere, and nothing to fill it with.
    """
    counts = tuple(np.unique(each).size for each in positions)
    is_complete = counts == shape
    if not is_complete and fill is None:
        listed = " x ".join(
            f"{count:,} of {length:,} {axis}"
            for count, length, axis in zip(counts, shape, place.axes, strict=True)
        )
        raise errors.InvalidInputError(
            f"there are values for {listed}, and a dense matrix has one for each; pass fill= "
            "for the others"
        )
    matrix = _empty(place, shape, values.dtype, None if is_complete else fill)
    matrix[np.ix_(*positions)] = values
    return matrix


def _empty(place: Place, shape: tuple[int, int], dtype: Any, fill: Any) -> npt.NDArray[Any]:
    """Return an array of the shape of the matrix, filled with a value that fits exactly."""
    if fill is None:
        return np.empty(shape, dtype, order="F")
    if isinstance(fill, str) == (dtype.kind == "O"):
        filled = _filled(fill, dtype)
        if filled is not None:
            return np.full(shape, filled, dtype, order="F")
    stored = "strings" if dtype.kind == "O" else dtype
    raise errors.InvalidInputError(
        f"fill={fill!r} does not fit {place.what}, whose values are {stored}; pass a value of that "
        "type"
    )


def _filled(fill: Any, dtype: Any) -> Any:
    """Return a value in a dtype; None if it does not fit exactly, or is no single value."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            filled = np.asarray(fill).astype(dtype)
    except (OverflowError, TypeError, ValueError):
        return None
    if filled.ndim:
        return None
    both_are_nan = filled != filled and fill != fill  # noqa: PLR0124 - NaN equals nothing
    return filled if both_are_nan or filled == fill else None


def _columns(place: Place, table: pa.Table) -> tuple[tuple[str, str], str]:
    """Return the columns with the entries of the rows and of the columns, and that of values."""
    rows, columns = place.axes
    keys = rows, f"{rows}_2" if rows == columns else columns
    others = [name for name in table.column_names if name not in keys]
    if len(table.column_names) != 3 or len(others) != 1:
        raise errors.QueryError(
            f"{place.what} needs the columns {keys[0]!r} and {keys[1]!r}, which name the entries, "
            f"and one of values; the query yields {', '.join(table.column_names)}"
        )
    return keys, others[0]


def _of_names(place: Place, axis: str, key: str, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the positions of the entries that a column names; each name is looked up once."""
    if column.null_count:
        raise errors.QueryError(
            f"the query yields NULL as {key!r} in {column.null_count:,} rows; every element of "
            f"{place.what} needs an entry of axis {axis!r}"
        )
    encoded = column.unify_dictionaries()
    if not pa.types.is_dictionary(column.type):
        encoded = column.dictionary_encode()
    if not is_any_string(encoded.type.value_type):
        raise errors.QueryError(
            f"the column {key!r} holds {encoded.type.value_type}, and has to name entries of axis "
            f"{axis!r}"
        )
    if not encoded.num_chunks:
        return np.empty(0, np.int64)
    array = encoded.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    codes = array.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    used = np.unique(codes)  # a dictionary may hold values that no row has
    places = np.empty(len(array.dictionary), np.int64)
    names = one_array(array.dictionary.take(pa.array(used)))
    places[used] = place.daf.axis_indices(axis, names.cast(pa.large_string()))
    positions: npt.NDArray[np.int64] = places[codes]
    return positions


def _check_unique(
    place: Place,
    table: pa.Table,
    keys: tuple[str, str],
    indices: list[npt.NDArray[np.int64]],
) -> None:
    numbers = indices[0] * place.shape[1] + indices[1]
    order = np.argsort(numbers, kind="stable")
    is_repeated = np.diff(numbers[order]) == 0
    if is_repeated.any():
        first = int(order[1:][is_repeated].min())
        pair = ", ".join(repr(table.column(key)[first].as_py()) for key in keys)
        raise errors.QueryError(
            f"the query has more than one row for {int(is_repeated.sum()):,} elements of "
            f"{place.what}, the first is ({pair}); GROUP BY {keys[0]}, {keys[1]}"
        )
