"""Slices, profiles, and rows with an entry of either axis, stored as matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.profile import Profile
from daf_query.session._stored_columns import one_array, repeated, storable
from daf_query.slice import MatrixSlice
from daf_query.sql import STRINGS
from daf_storage import DafReader, errors
from daf_storage._lazy import pc, sp

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a matrix is to be stored, and the value of elements that are not given."""

    daf: DafReader
    axes: tuple[str, str]
    """The axis of its rows, and that of its columns."""
    name: str
    fill: Any = None

    @property
    def what(self) -> str:
        """The matrix as messages name it."""
        return f"matrix {self.name!r} of axes {self.axes[0]!r} and {self.axes[1]!r}"

    @property
    def shape(self) -> tuple[int, int]:
        """Lengths of the two axes."""
        return self.daf.axis_length(self.axes[0]), self.daf.axis_length(self.axes[1])

    def placed(
        self, shape: tuple[int, int], values: Any, rows: Positions, columns: Positions
    ) -> npt.NDArray[Any]:
        """Return a dense matrix with values at some rows and columns, and elsewhere ``fill``."""
        counts = np.unique(rows).size, np.unique(columns).size
        if counts != shape and self.fill is None:
            listed = " x ".join(
                f"{count:,} of {length:,} {axis}"
                for count, length, axis in zip(counts, shape, self.axes, strict=True)
            )
            raise errors.InvalidInputError(
                f"there are values for {listed}, and a dense matrix has one for each; pass fill= "
                "for the others"
            )
        matrix = self.empty(shape, values.dtype, is_filled=counts != shape)
        matrix[np.ix_(rows, columns)] = values
        return matrix

    def empty(self, shape: tuple[int, int], dtype: Any, *, is_filled: bool) -> npt.NDArray[Any]:
        """Return an array, filled with ``fill`` if it is not about to be set as a whole."""
        if not is_filled:
            return np.empty(shape, dtype, order="F")
        filled = None
        if isinstance(self.fill, str) == (dtype.kind == "O"):
            filled = _as_scalar(self.fill, dtype)
        if filled is None:
            stored = "strings" if dtype.kind == "O" else dtype
            raise errors.InvalidInputError(
                f"fill={self.fill!r} does not fit {self.what}, whose values are {stored}; pass a "
                "value of that type"
            )
        return np.full(shape, filled, dtype, order="F")


def _as_scalar(fill: Any, dtype: Any) -> Any:
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


def matrix_of_slice(place: Place, part: MatrixSlice) -> Any:
    """Return the elements of a slice at the positions of its rows and columns.

    All others are zero where the slice is sparse, and else ``fill``.
    """
    if part.of_several:
        raise errors.InvalidInputError(
            f"{part.whole.location}: this slice of {part.name!r} is of several data sets, whose "
            "entries may have the same names; daf_storage.concatenate() and daf concat write them "
            "as one data set"
        )
    with part.whole.unchanged_axes():
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
    if not sp.issparse(values):
        return place.placed(place.shape, values, rows, columns)
    if place.fill is not None:
        raise errors.InvalidInputError(
            f"fill= is for dense values, and the slice of {part.name!r} is sparse: what is not in "
            "it is zero; leave fill= out, or pass the to_numpy() of a slice of all entries"
        )
    elements = values.tocoo()
    indices = rows[elements.row], columns[elements.col]
    return sp.csc_array((elements.data, indices), shape=place.shape)


def _positions(place: Place, part: MatrixSlice, number: int) -> Positions:
    """Return where the rows or the columns of a slice are along the axis of the new matrix."""
    axis = place.axes[number]
    if part.daf is place.daf and (part.rows_axis, part.columns_axis)[number] == axis:
        return (part.row_positions, part.column_positions)[number]
    return place.daf.axis_indices(axis, (part.rows, part.columns)[number])


def matrix_of_rows(place: Place, table: pa.Table) -> Any:
    """Return the values of rows that name an entry of either axis.

    Dense if there is a row for every element, or a value to fill the others with; else sparse.
    """
    rows_axis, columns_axis = place.axes
    keys = rows_axis, f"{rows_axis}_2" if rows_axis == columns_axis else columns_axis
    others = [name for name in table.column_names if name not in keys]
    if len(table.column_names) != 3 or len(others) != 1:
        raise errors.QueryError(
            f"{place.what} needs the columns {keys[0]!r} and {keys[1]!r}, which name the entries, "
            f"and one of values; the query yields {', '.join(table.column_names)}"
        )
    rows, columns = (
        _of_names(place, axis, key, table.column(key))
        for axis, key in zip(place.axes, keys, strict=True)
    )
    numbers = rows * place.shape[1] + columns
    order = np.argsort(numbers, kind="stable")
    is_repeated = np.diff(numbers[order]) == 0
    if is_repeated.any():
        first = int(order[1:][is_repeated].min())
        pair = ", ".join(repr(table.column(key)[first].as_py()) for key in keys)
        raise errors.QueryError(
            f"the query has more than one row for {int(is_repeated.sum()):,} elements of "
            f"{place.what}, the first is ({pair}); GROUP BY {keys[0]}, {keys[1]}"
        )
    values = storable(table.column(others[0]), place.what, f"elements of {place.what}")
    if values.null_count:
        raise errors.QueryError(
            f"the query yields NULL for {values.null_count:,} elements of {place.what}, and a "
            "matrix has no missing strings; use coalesce()"
        )
    elements: Any = values.to_numpy(zero_copy_only=False)
    size = place.shape[0] * place.shape[1]
    if place.fill is None and table.num_rows < size:
        if values.type in STRINGS:
            raise errors.InvalidInputError(
                f"the query yields {table.num_rows:,} of the {size:,} strings of {place.what}, and "
                "none can be left out; pass fill='' for the others"
            )
        return sp.csc_array((elements, (rows, columns)), shape=place.shape)
    matrix = place.empty(place.shape, elements.dtype, is_filled=table.num_rows < size)
    matrix[rows, columns] = elements
    return matrix


def _of_names(place: Place, axis: str, key: str, column: pa.ChunkedArray) -> Positions:
    """Return the positions of the entries that a column names; each name is looked up once."""
    if column.null_count:
        raise errors.QueryError(
            f"the query yields NULL as {key!r} in {column.null_count:,} rows; every element of "
            f"{place.what} needs an entry of axis {axis!r}"
        )
    plain = one_array(column)
    if plain.type not in STRINGS:
        raise errors.QueryError(
            f"the column {key!r} holds {plain.type}, and has to name entries of axis {axis!r}"
        )
    encoded = plain.dictionary_encode()
    places = place.daf.axis_indices(axis, encoded.dictionary.cast(pa.large_string()))
    positions: Positions = places[encoded.indices.to_numpy(zero_copy_only=False)]
    return positions


def group_axis_of(profile: Profile) -> str | None:
    """Return what the axis of the groups is called by default: as the only group column."""
    groups = list(profile.content.groups)
    return groups[0] if len(groups) == 1 else None


def group_names(profile: Profile) -> pa.Array:
    """Return a name for each group of a profile: its values, joined.

    Raises
    ------
    InvalidInputError
        A group is NULL; or two groups have one name.
    """
    groups = profile.content.groups
    if not groups:
        return pa.array(["all"])
    strings = []
    for column, values in groups.items():
        if values.null_count:
            raise errors.InvalidInputError(
                f"the profile has a group whose {column!r} is NULL, which is no name of an entry; "
                f'leave it out with rows="... IS NOT NULL", or name it with coalesce()'
            )
        strings.append(one_array(values).cast(pa.string()))
    names = pc.binary_join_element_wise(*strings, "_")
    twice = repeated(names)
    if len(twice):
        raise errors.InvalidInputError(
            f"two groups of the profile would be called {twice[0].as_py()!r}, which are the "
            f"values of {', '.join(groups)}; group by one expression that tells them apart"
        )
    return names


def group_vectors(profile: Profile) -> dict[str, pa.Array]:
    """Return the vectors of an axis of groups: their sizes, and what the names do not say."""
    groups = profile.content.groups
    vectors: dict[str, pa.Array] = {"count": pa.array(profile.content.sizes)}
    for column, values in groups.items():
        plain = one_array(values)
        if len(groups) > 1 or plain.type not in STRINGS:
            what = f"vector {column!r} of the groups"
            vectors[column] = storable(plain, what, f"values of {what}")
    return vectors
