"""The commands `save-vector`, `save-axis` and `save-matrix`."""

from __future__ import annotations

import argparse
from typing import Any

from daf_query.cli._entries import entries_or_sql
from daf_query.cli._matrix_axes import matrix_axes
from daf_query.cli._query_text import named_values, query_of, value_of
from daf_query.cli._summary import progress_of
from daf_query.session import DafSession, connect, group_axis_of
from daf_query.slice import MatrixSlice
from daf_storage import DafReader, IfExists, errors


def save_vector_command(options: argparse.Namespace) -> None:
    """Store a vector and say so."""
    with connect(options.path, mode="r+") as session:
        session.save_vector(
            options.axis,
            options.name,
            query_of(options),
            params=named_values(options.param),
            if_exists=_if_exists(options),
        )
    if not options.quiet:
        print(f"stored vector {options.name} of axis {options.axis} in {options.path}")


def save_axis_command(options: argparse.Namespace) -> None:
    """Store an axis with its vectors and say so."""
    with connect(options.path, mode="r+") as session:
        session.save_axis(
            options.axis,
            query_of(options),
            name=options.name,
            params=named_values(options.param),
            if_exists=_if_exists(options),
        )
        length = session.reader().axis_length(options.axis)
    if not options.quiet:
        print(f"stored axis {options.axis} in {options.path}: {length:,} entries")


def save_matrix_command(options: argparse.Namespace) -> None:
    """Store a matrix and say so."""
    choice: dict[str, Any] = {
        "fill": None if options.fill is None else value_of(options.fill),
        "relayout": not options.one_layout,
        "if_exists": _if_exists(options),
    }
    with connect(options.path, mode="r+") as session:
        if options.matrix is None:
            axes = _given_axes(options)
            query, params = query_of(options), named_values(options.param)
            session.save_matrix(query, *axes, options.name, params=params, **choice)
        elif options.by is not None:
            axes = _save_profile(session, options, choice)
        elif options.source is None:
            part = _slice(session, options, options.rows_axis, options.columns_axis)
            axes = part.rows_axis, part.columns_axis
            session.save_matrix(part, *axes, options.name, **choice)
        else:
            with connect(options.source) as source:
                part = _slice(source, options, None, None)
                axes = (
                    options.rows_axis or part.rows_axis,
                    options.columns_axis or part.columns_axis,
                )
                session.save_matrix(part, *axes, options.name, **choice)
    if not options.quiet:
        print(f"stored matrix {options.name} of axes {axes[0]} and {axes[1]} in {options.path}")


def _save_profile(
    session: DafSession, options: argparse.Namespace, choice: dict[str, Any]
) -> tuple[str, str]:
    """Store a statistic of groups; return the axes of the new matrix."""
    if options.source is not None:
        raise errors.InvalidInputError("--from is for a slice; groups are of PATH itself")
    daf = session.reader()
    axes = matrix_axes(daf, options.matrix, None, options.columns_axis)
    rows, columns = _selectors(daf, axes, options)
    profile = session.profile(
        *axes,
        options.matrix,
        by=options.by,
        rows=rows,
        columns=columns,
        params=named_values(options.param),
        progress=progress_of(options),
    )
    rows_axis = options.rows_axis or group_axis_of(profile)
    if rows_axis is None:
        raise errors.InvalidInputError(
            "several group columns have no name of their own; name the axis with --rows-axis"
        )
    session.save_matrix(
        profile, rows_axis, axes[1], options.name, statistic=options.statistic, **choice
    )
    return rows_axis, axes[1]


def _given_axes(options: argparse.Namespace) -> tuple[str, str]:
    if options.rows_axis is None or options.columns_axis is None:
        raise errors.InvalidInputError(
            "the axes of a matrix out of a query have to be named: --rows-axis and --columns-axis"
        )
    for name in ("rows", "columns", "source", "by"):
        if getattr(options, name) is not None:
            raise errors.InvalidInputError(
                f"--{name.replace('source', 'from')} is for a slice, which --matrix names; write a "
                "WHERE into the query"
            )
    return options.rows_axis, options.columns_axis


def _slice(
    session: DafSession,
    options: argparse.Namespace,
    rows_axis: str | None,
    columns_axis: str | None,
) -> MatrixSlice:
    daf = session.reader()
    axes = matrix_axes(daf, options.matrix, rows_axis, columns_axis)
    rows, columns = _selectors(daf, axes, options)
    return session.matrix(
        *axes, options.matrix, rows=rows, columns=columns, params=named_values(options.param)
    )


def _selectors(
    daf: DafReader, axes: tuple[str, str], options: argparse.Namespace
) -> list[str | list[str] | None]:
    return [
        entries_or_sql(daf, axis, given)
        for axis, given in zip(axes, (options.rows, options.columns), strict=True)
    ]


def _if_exists(options: argparse.Namespace) -> IfExists:
    return "replace" if options.overwrite else "error"
