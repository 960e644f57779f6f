"""The table of an axis as a DataFrame of Daft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from daf_query.daft._source import DafSource
from daf_query.fragments import AxisTable, Paths
from daf_query.session import DafSession
from daf_storage import errors

ROWS_PER_TASK = 1 << 20
"""The most rows of a task, about, unless it is said."""


def read_daf(
    source: Paths | DafSession,
    axis: str,
    *,
    matrix_columns: Mapping[str, tuple[str, str, str]] | None = None,
    rows_per_task: int = ROWS_PER_TASK,
    schema: str | None = None,
) -> Any:
    """Return the table of an axis as a ``daft.DataFrame``; nothing is read until it is used.

    Daft is given the columns that its query needs, the rows that its filter leaves, and no task
    beyond its limit.

    Parameters
    ----------
    source
        A path or a URL of a data set, a pattern or a list for several as one; or a session.
    matrix_columns
        More columns: entries of matrices, as for `DafSession.table`.
    rows_per_task
        The most rows of a task, about: chunks are not cut, and small data sets are joined.
    schema
        Which data set, where the session has several.

    Returns
    -------
    daft.DataFrame
        Categoricals as strings, NaN as null.

    Raises
    ------
    SourceNotFoundError, AxisNotFoundError, MatrixNotFoundError, EntryNotFoundError
        There is no such data set, axis, matrix or entry.
    InvalidInputError
        The data are in memory, where no task finds them; or a number makes no sense.
    """
    if rows_per_task < 1:
        raise errors.InvalidInputError(
            f"rows_per_task={rows_per_task} is no number; pass 1 or more"
        )
    table = AxisTable(axis, dict(matrix_columns or {}))
    return DafSource(source, table, rows_per_task=rows_per_task, schema=schema).read()
