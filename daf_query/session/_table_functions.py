"""The table functions of SQL: ``matrix(...)`` and its like are methods of a session, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from daf_query.matrix import AlignedAxis, Selection
from daf_query.moments import marker_schema, welch_markers
from daf_query.profile import prepared_profile, prepared_totals
from daf_query.session._queries import PROFILE_MAX_BYTES
from daf_query.slice import SliceRequest, matrix_axes
from daf_query.sql import Engine, TableCall, TableFunction
from daf_query.table import ComputedDataset, TableDataset


def matrix_table(request: SliceRequest) -> TableDataset:
    """Return the long form of a matrix; see `DafSession.matrix_table`."""
    tables = request.engine.connections.schemas[request.schema]
    if request.rows is None and request.columns is None:
        return tables.matrix_table(*request.axes, request.name)
    found = matrix_axes(request)
    rows, columns = (
        Selection(axis.in_each(tables.concatenated(axis.axis), selection.positions), is_all=False)
        if isinstance(axis, AlignedAxis)
        else selection
        for axis, selection in zip((found.rows, found.columns), found.selections, strict=True)
    )
    return tables.matrix_table(*request.axes, request.name, rows=rows, columns=columns)


def _request(engine: Engine, call: TableCall) -> SliceRequest:
    return SliceRequest(
        engine,
        call.schema,
        call.axes,
        call.name,
        call.rows,
        call.columns,
        join="outer",
        by=call.by or (),
        max_bytes=PROFILE_MAX_BYTES,
    )


def _matrix(engine: Engine, call: TableCall) -> TableDataset:
    return matrix_table(_request(engine, call))


def _profile(engine: Engine, call: TableCall) -> ComputedDataset:
    """Return the moments of groups of rows; these are grouped now, the matrix is read later."""
    prepared, _ = prepared_profile(_request(engine, call))
    return ComputedDataset(prepared.schema, lambda: prepared.compute(progress="never").to_table())


def _markers(engine: Engine, call: TableCall) -> ComputedDataset:
    """Return how groups of rows differ from the rest, by Welch's t-test of logarithms."""
    prepared, _ = prepared_profile(_request(engine, call))
    groups = {name: values.type for name, values in prepared.groups.columns.items()}
    return ComputedDataset(
        marker_schema(groups, prepared.axes[1].axis),
        lambda: welch_markers(prepared.compute(progress="never"), is_log1p=True),
    )


def _totals(engine: Engine, call: TableCall) -> ComputedDataset:
    """Return what each row has of the chosen columns."""
    prepared, _ = prepared_totals(_request(engine, call))
    return ComputedDataset(prepared.schema, prepared.compute)


TABLE_FUNCTIONS: Final[Mapping[str, TableFunction]] = {
    "matrix": _matrix,
    "profile": _profile,
    "markers": _markers,
    "totals": _totals,
}
"""By name."""
