"""The axes of a matrix of which a command names only the matrix."""

from __future__ import annotations

from collections.abc import Sequence

from daf_query.matrix import concatenated_of
from daf_query.sql import missing_base
from daf_storage import DafReader, errors


def member_matrix_axes(
    readers: Sequence[DafReader], name: str, rows_axis: str | None, columns_axis: str | None
) -> tuple[str, str]:
    """Return the axes of a matrix of one data set, or of several that are asked as one.

    Of several, those of the first that has it; the axis that is concatenated is that of the rows,
    unless an axis is given.
    """
    if len(readers) == 1:
        return matrix_axes(readers[0], name, rows_axis, columns_axis)
    problems: list[errors.NotFoundError] = []
    for daf in readers:
        try:
            axes = matrix_axes(daf, name, rows_axis, columns_axis)
        except (errors.AxisNotFoundError, errors.MatrixNotFoundError) as problem:
            problems.append(problem)
            continue
        if rows_axis is None and columns_axis is None and axes[0] != axes[1]:
            first = concatenated_of(readers, axes, None, location=daf.location)
            axes = (first, axes[1] if first == axes[0] else axes[0])
        return axes
    raise problems[0]


def matrix_axes(
    daf: DafReader, name: str, rows_axis: str | None, columns_axis: str | None
) -> tuple[str, str]:
    """Return the axes of a matrix of which only the name is known.

    Raises
    ------
    MatrixNotFoundError
        There is none of this name.
    InvalidInputError
        There are several, and the given axes fit more than one.
    """
    for axis in (rows_axis, columns_axis):
        if axis is not None and not daf.has_axis(axis):
            raise errors.axis_not_found(daf.location, axis, daf.axes_set())
    matrices = daf.summary().matrices
    pairs = {(m.info.rows_axis, m.info.columns_axis) for m in matrices if m.info.name == name}
    if not pairs:
        known = {m.info.name for m in matrices}
        has = errors.known_names(known, none="no matrices")
        raise errors.MatrixNotFoundError(
            f"{daf.location}: there is no matrix {name!r}; there are {has}"
            f"{errors.nearest(name, known)}{missing_base(daf)}"
        )
    given = {axis for axis in (rows_axis, columns_axis) if axis is not None}
    fitting = [pair for pair in pairs if given <= set(pair)]
    main = _main_axes(daf)
    if len(fitting) > 1 and set(main) in [set(pair) for pair in fitting]:
        fitting = [main]
    if len(fitting) != 1:
        listed = "; ".join(f"{rows} x {columns}" for rows, columns in sorted(pairs))
        raise errors.InvalidInputError(
            f"{daf.location}: matrix {name!r} exists for the axes {listed}; "
            "say which with --rows-axis and --columns-axis"
        )
    first, second = fitting[0]
    is_turned = rows_axis == second or columns_axis == first
    if not given and second == main[0]:
        is_turned = True
    return (second, first) if is_turned and first != second else (first, second)


def _main_axes(daf: DafReader) -> tuple[str, str]:
    """Return the axes that were obs and var when the data set was imported."""
    obs, var = (
        str(daf.get_scalar(key, default=default))
        for key, default in (("obs_is", "obs"), ("var_is", "var"))
    )
    return obs, var
