"""The distinct values of a column, of which summaries and descriptions are made."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.session._session import DafSession
from daf_query.syntax import quoted_name


def value_counts(session: DafSession, table: str, column: str) -> tuple[pa.Array, npt.NDArray[Any]]:
    """Return the distinct values of a column, ascending, NULL last, and how often each occurs.

    Parameters
    ----------
    table
        As SQL writes it.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 30])
    >>> value_counts(daf_query.connect(daf), "cell", "age")[1].tolist()
    [2]
    """
    name = quoted_name(column)
    counted = session.sql(
        f"SELECT {name} AS value, count(*) AS n FROM {table} GROUP BY {name}"  # noqa: S608 - quoted
    ).to_arrow_table()
    values = counted.column("value").combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    counts = counted.column("n").to_numpy()
    if pa.types.is_nested(values.type):  # which have no order
        return values, counts
    order = pc.sort_indices(values)
    return values.take(order), counts[order.to_numpy()]
