"""The table function ``profile``: what a matrix is like in each group of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import datafusion
import numpy as np
import pyarrow as pa
from datafusion.catalog import Table

from daf_query.matrix import Selection, aligned_axis, concatenated_of
from daf_query.moments import (
    PROFILE_MAX_BYTES,
    PreparedProfile,
    group_rows,
)
from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._collection_schema import CollectionSchema
from daf_query.sql._data_set_schema import DafSchema
from daf_query.sql._group_items import (
    By,
    group_values,
    grouped_axis,
    grouped_member_axis,
    in_all,
)
from daf_query.table import ComputedDataset
from daf_storage import DafReader, errors

_ALL_ROWS: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class MatrixPlace:
    """Which part of which matrix."""

    axes: tuple[str, str]
    name: str
    rows: Selection | None
    """Only these; None for all."""
    columns: Selection | None


def _of_one(
    daf: DafReader, place: MatrixPlace, by: By, evaluate: Callable[[str], pa.Table]
) -> PreparedProfile:
    axes = place.axes
    rows, columns = (
        Selection.all(daf.axis_length(axis)) if selection is None else selection
        for axis, selection in zip(axes, (place.rows, place.columns), strict=True)
    )
    values = group_values(grouped_axis(daf, axes[0]), axes[1], by, evaluate)
    groups = group_rows(values, rows.positions)
    return PreparedProfile(daf, axes, place.name, groups, columns)


def _of_several(
    schema: CollectionSchema, place: MatrixPlace, by: By, evaluate: Callable[[str], pa.Table]
) -> PreparedProfile:
    """Return the profile of all data sets; what one of them lacks is missing there."""
    axes = place.axes
    having = schema.matrix_readers(axes, place.name)
    first = concatenated_of(having.values(), axes, None, location=schema.location)
    if first != axes[0]:
        raise errors.InvalidInputError(
            f"{schema.location}: a profile groups the entries of all data sets, which are those of "
            f"axis {first!r}; write profile('{first}', '{axes[0]}', '{place.name}', ...)"
        )
    concatenated = schema.concatenated(axes[0])
    aligned = aligned_axis(having, axes[1], "outer", location=schema.location)
    rows = np.arange(concatenated.length) if place.rows is None else place.rows.positions
    columns = np.arange(aligned.length)
    if place.columns is not None:
        columns = np.unique(aligned.among(schema.concatenated(axes[1]), place.columns.positions))
    values = group_values(
        grouped_member_axis(concatenated),
        axes[1],
        by,
        lambda text: in_all(concatenated, evaluate(text)),
    )
    return PreparedProfile(
        aligned,
        axes,
        place.name,
        group_rows(values, rows),
        Selection(columns, is_all=False),
        concatenated,
        np.nan,
    )


def profile_table(
    schema: AxisSchema, place: MatrixPlace, by: By, evaluate: Callable[[str], pa.Table]
) -> Table:
    """Return the table, whose rows are computed when it is scanned; the engine filters them.

    Raises
    ------
    InvalidInputError
        Of several data sets as one, the rows are of the aligned axis.
    BudgetError
        There would be too many rows.
    """
    if isinstance(schema, CollectionSchema):
        prepared = _of_several(schema, place, by, evaluate)
    elif isinstance(schema, DafSchema):
        prepared = _of_one(schema.daf, place, by, evaluate)
    else:
        raise TypeError(f"{type(schema).__name__} has no matrices")
    prepared.check_size(PROFILE_MAX_BYTES)
    dataset = ComputedDataset(
        prepared.schema, lambda: prepared.compute(progress="never").to_table()
    )
    # No filter gets past a limit: the engine evaluates it.
    return Table(datafusion.SessionContext().read_table(Table(dataset)).limit(_ALL_ROWS))
