"""The table functions of SQL: ``matrix(...)`` and its like are methods of a session, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from daf_query.session._later import engines, layouts, moments, profiles, slices, tables
from daf_query.session._queries import PROFILE_MAX_BYTES


def matrix_table(request: slices.SliceRequest) -> tables.TableDataset:
    """Return the long form of a matrix; see `DafSession.matrix_table`."""
    schema = request.tables
    if request.rows is None and request.columns is None:
        return schema.matrix_table(*request.axes, request.name)
    found = slices.matrix_axes(request)
    rows, columns = (
        layouts.Selection(
            axis.in_each(schema.concatenated(axis.axis), selection.positions), is_all=False
        )
        if isinstance(axis, layouts.AlignedAxis)
        else selection
        for axis, selection in zip((found.rows, found.columns), found.selections, strict=True)
    )
    return schema.matrix_table(*request.axes, request.name, rows=rows, columns=columns)


def _request(engine: engines.Engine, call: engines.TableCall) -> slices.SliceRequest:
    return slices.SliceRequest(engine, join="outer", max_bytes=PROFILE_MAX_BYTES, **call)


def _matrix(engine: engines.Engine, call: engines.TableCall) -> tables.TableDataset:
    return matrix_table(_request(engine, call))


def _profile(engine: engines.Engine, call: engines.TableCall) -> tables.ComputedDataset:
    """Return the moments of groups of rows; these are grouped now, the matrix is read later."""
    prepared, _ = profiles.prepared_profile(_request(engine, call))
    return tables.ComputedDataset(
        prepared.schema, lambda: prepared.compute(progress="never").to_table()
    )


def _markers(engine: engines.Engine, call: engines.TableCall) -> tables.ComputedDataset:
    """Return how groups of rows differ from the rest, by Welch's t-test of logarithms."""
    prepared, _ = profiles.prepared_profile(_request(engine, call))
    groups = {name: values.type for name, values in prepared.groups.columns.items()}
    return tables.ComputedDataset(
        moments.marker_schema(groups, prepared.axes[1].axis),
        lambda: moments.welch_markers(prepared.compute(progress="never"), is_log1p=True),
    )


def _totals(engine: engines.Engine, call: engines.TableCall) -> tables.ComputedDataset:
    """Return what each row has of the chosen columns."""
    prepared, _ = profiles.prepared_totals(_request(engine, call))
    return tables.ComputedDataset(prepared.schema, prepared.compute)


TABLE_FUNCTIONS: Final[Mapping[str, engines.TableFunction]] = {
    "matrix": _matrix,
    "profile": _profile,
    "markers": _markers,
    "totals": _totals,
}
"""By name."""
