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

    Examples
    --------
    >>> import os, tempfile, daf_storage
    >>> from daf_query.fragments import OPEN_SESSIONS
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "pbmc.daf.zarr")
    >>> with daf_storage.open_daf(path, "w") as daf:
    ...     daf.add_axis("cell", ["TATA", "GATA", "CATA"])
    ...     daf.set_vector("cell", "age", [30, 60, 90])
    >>> frame = read_daf(path, "cell")
    >>> frame.where(frame["age"] > 40).select("name").to_pydict()
    {'name': ['GATA', 'CATA']}
    >>> OPEN_SESSIONS.clear()
    >>> folder.cleanup()
    """
    if rows_per_task < 1:
        raise errors.InvalidInputError(
            f"rows_per_task={rows_per_task} is no positive number; pass 1 or more"
        )
    table = AxisTable(axis, dict(matrix_columns or {}))
    return DafSource(source, table, rows_per_task=rows_per_task, schema=schema).read()
