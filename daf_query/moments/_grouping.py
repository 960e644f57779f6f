"""Group rows by the values of one or more columns, in their order.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import PLAIN_TYPES
from daf_storage import errors


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Selected rows of a matrix, each with the code of its group."""

    positions: npt.NDArray[np.int64]
    """0-based positions along the axis of rows; any order, a row that is there twice counts twice.
    """
    codes: npt.NDArray[np.int32]
    """The group of each, from 0."""
    n_groups: int
    """Number of groups; one without rows is allowed."""

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each group.

        >>> GroupedRows(np.array([5, 5, 7]), np.array([1, 1, 2], np.int32), 3).sizes().tolist()
        [0, 2, 1]
        """
        return np.bincount(self.codes, minlength=self.n_groups).astype(np.int64)

    def rounds(self) -> Iterator[GroupedRows]:
        """Yield the rows ascending, each once; then those that are there twice again, and so on.

        >>> rows = GroupedRows(np.array([5, 3, 5]), np.array([0, 1, 0], np.int32), 2)
        >>> [each.positions.tolist() for each in rows.rounds()]
        [[3, 5], [5]]
        """
        order = np.argsort(self.positions, kind="stable")
        positions, codes = self.positions[order], self.codes[order]
        _, first, counts = np.unique(positions, return_index=True, return_counts=True)
        for number in range(max(int(counts.max(initial=1)), 1)):
            chosen = first[counts > number] + number
            yield GroupedRows(positions[chosen], codes[chosen], self.n_groups)


@dataclass(frozen=True, slots=True)
class GroupValues:
    """A column by whose values rows are grouped."""

    name: str
    """What it is called."""
    values: pa.Array
    """The value of each entry of the axis."""
    categories: pa.Array | None = None
    """In which order groups come, if not in that of the values."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that have rows, in order: by the first column, within it by the second..."""

    columns: dict[str, pa.Array]
    """The value of each group, by the names of the group columns."""
    rows: GroupedRows
    """The selected rows, each with its group."""


def group_rows(columns: Sequence[GroupValues], positions: npt.NDArray[np.int64]) -> Groups:
    """Group the rows at some positions of an axis.

    Values are in ascending order, or in that of the categories; NULL and NaN are one group, the
    last.  Without any columns, all rows are one group.

    Raises
    ------
    QueryError
        Values of a type cannot be grouped.

    >>> groups = group_rows([GroupValues("type", pa.array(["T", None, "B"]))], np.array([0, 1, 2]))
    >>> groups.columns["type"].to_pylist(), groups.rows.codes.tolist()
    (['B', 'T', None], [1, 2, 0])
    """
    codes: npt.NDArray[np.int64] = np.zeros(positions.size, np.int64)
    selected = []
    for column in columns:
        values = _without_nan(column.values.take(pa.array(positions)))
        ranks = _ranks(values, column)
        # The codes stay below the number of rows squared, so that they cannot overflow.
        codes = codes * (int(ranks.max(initial=0)) + 1) + ranks
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
        selected.append(values)
    unique, first = np.unique(codes, return_index=True)
    return Groups(
        {
            column.name: values.take(pa.array(first))
            for column, values in zip(columns, selected, strict=True)
        },
        GroupedRows(positions, codes.astype(np.int32), unique.size),
    )


def _without_nan(values: pa.Array) -> pa.Array:
    """Return values of which NaN is NULL, and -0.0 is 0.0."""
    if not pa.types.is_floating(values.type):
        return values
    values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return pc.add(values, pa.scalar(0.0, values.type))


def _ranks(values: pa.Array, column: GroupValues) -> npt.NDArray[np.int64]:
    """Return where the value of each row stands among all values; NULL is last."""
    categories = column.categories
    try:
        if pa.types.is_dictionary(values.type):
            categories = values.dictionary if categories is None else categories
            values = values.dictionary_decode()
        values = values.cast(PLAIN_TYPES.get(values.type, values.type))
        encoded = values.dictionary_encode()
        places = pc.sort_indices(encoded.dictionary)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise errors.QueryError(
            f"{column.name!r} is of type {values.type}, by which rows cannot be grouped; CAST it "
            "to VARCHAR"
        ) from error
    order = places.to_numpy()
    if categories is not None and categories.type == encoded.dictionary.type:
        category_places = pc.index_in(encoded.dictionary, value_set=categories)
        category_places = pc.fill_null(category_places, len(categories)).to_numpy()
        order = order[np.argsort(category_places[order], kind="stable")]
    rank_of_value = np.empty(order.size + 1, np.int64)
    rank_of_value[order] = np.arange(order.size)
    rank_of_value[-1] = order.size  # NULL
    codes = pc.fill_null(encoded.indices, order.size).to_numpy(zero_copy_only=False)
    ranks: npt.NDArray[np.int64] = rank_of_value[codes]
    return ranks
