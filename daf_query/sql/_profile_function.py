"""The table function ``profile``: what a matrix is like in each group of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import datafusion
import pyarrow as pa
from datafusion.catalog import Table

from daf_query.matrix import Selection
from daf_query.moments import PROFILE_MAX_BYTES, PreparedProfile, group_rows
from daf_query.sql._catalog import AxisSchema, DafSchema
from daf_query.sql._group_items import By, group_values
from daf_query.table import ComputedDataset
from daf_storage import errors

_ALL_ROWS: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class ProfilePlace:
    """Which part of which matrix."""

    axes: tuple[str, str]
    name: str
    rows: Selection | None
    """Only these; None for all."""
    columns: Selection | None


def profile_table(
    schema: AxisSchema, place: ProfilePlace, by: By, evaluate: Callable[[str], pa.Table]
) -> Table:
    """Return the table, whose rows are computed when it is scanned; the engine filters them.

    Raises
    ------
    InvalidInputError
        Several data sets are behind the schema, which have no one matrix.
    BudgetError
        There would be too many rows.
    """
    if not isinstance(schema, DafSchema):
        raise errors.InvalidInputError(
            f"{schema.location}: {schema.name!r} is several data sets as one, whose columns may "
            "differ; a profile is of one data set: connect the one that you want"
        )
    daf, axes = schema.daf, place.axes
    rows, columns = (
        Selection.all(daf.axis_length(axis)) if selection is None else selection
        for axis, selection in zip(axes, (place.rows, place.columns), strict=True)
    )
    values = group_values(daf, axes, by, evaluate)
    groups = group_rows(values, rows.positions)
    prepared = PreparedProfile(daf, axes, place.name, groups, columns)
    prepared.check_size(PROFILE_MAX_BYTES)
    dataset = ComputedDataset(
        prepared.schema, lambda: prepared.compute(progress="never").to_table()
    )
    # No filter gets past a limit: the engine evaluates it.
    return Table(datafusion.SessionContext().read_table(Table(dataset)).limit(_ALL_ROWS))
