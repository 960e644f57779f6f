"""Positions along an axis that SQL chooses: by a predicate, or by the rows of a whole query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query._runs import Interruptible
from daf_query.explore._axis_rows import AxisRows, Positions, batches_of
from daf_query.scan import INDEX, NAME
from daf_query.slice import predicate_query
from daf_query.sql import interruptible_rows
from daf_query.syntax import is_select, python_edits, quoted_name
from daf_query.table import DATASET
from daf_storage import errors


def chosen(rows: AxisRows, sql: str, interruptible: Interruptible) -> Positions:
    """Return the positions that SQL chooses, ascending, each once.

    Parameters
    ----------
    sql
        A predicate, also in Python's spellings, or a SELECT that yields ``name`` or ``index``.

    Raises
    ------
    QueryError
        It is wrong, or its rows are not of this axis.
    """
    if not sql.strip():
        raise errors.QueryError("the predicate is empty")
    if is_select(sql):
        return _of_query(rows, sql, interruptible)
    wrapped, _ = predicate_query(rows.schema, rows.axis, sql, python_edits(sql), rows.key)
    batches = batches_of(rows.session, wrapped, interruptible, what="predicate")
    return _joined([rows.positions(batch) for batch in batches])


def _of_query(rows: AxisRows, sql: str, interruptible: Interruptible) -> Positions:
    """Return the positions of the rows of a query; where both are there, name and index agree."""
    result = rows.session.sql(sql)
    wanted = _wanted(rows, result.column_names)
    keyed = interruptible_rows(result.select(*map(quoted_name, wanted)), interruptible)
    return _joined([_of_batch(rows, _without_null(batch), wanted) for batch in keyed.batches])


def positions_of(rows: AxisRows, batch: pa.RecordBatch) -> Positions:
    """Return the positions of rows by their keys, ascending, each once.

    Raises
    ------
    QueryError
        They are not of this axis, or lack the names that show that they are.
    """
    wanted = _wanted(rows, batch.schema.names)
    if NAME not in wanted:
        raise _of_another_axis(rows, f"without {NAME!r} nobody can tell")
    return _joined([_of_batch(rows, _without_null(batch.select(wanted)), wanted)])


def _wanted(rows: AxisRows, names: Sequence[str]) -> list[str]:
    """Return the columns that say which rows they are."""
    keys = [INDEX] if rows.joined is None else [DATASET, INDEX]
    has_index, has_name = set(keys) <= set(names), NAME in names
    if not has_index and (rows.joined is not None or not has_name):
        has = errors.known_names(names, none="none")
        raise errors.QueryError(
            f"the rows are none of axis {rows.axis!r}: a query has to yield "
            f"{' and '.join(keys)}{'' if rows.joined else f' or {NAME}'}, and this yields {has}"
        )
    return [*(keys if has_index else []), *([NAME] if has_name else [])]


def _of_batch(rows: AxisRows, batch: pa.RecordBatch, wanted: list[str]) -> Positions:
    names = batch.column(NAME).cast(pa.large_string()) if NAME in wanted else None
    if INDEX not in wanted:
        return _named(rows, names)
    if not pa.types.is_integer(batch.column(INDEX).type):
        raise _of_another_axis(rows, f"{INDEX} is {batch.column(INDEX).type}")
    positions = rows.positions(batch)
    if positions.size and not 0 <= positions.min() <= positions.max() < rows.length:
        raise _of_another_axis(rows, f"{INDEX} goes beyond the {rows.length:,} entries")
    if names is not None and not rows.names(positions).equals(names):
        raise _of_another_axis(rows, f"{NAME} and {INDEX} are of another axis")
    return positions


def _named(rows: AxisRows, names: Any) -> Positions:
    """Return the positions of entries."""
    positions: Positions = rows.session.reader(rows.schema).axis_indices(
        rows.axis, names, allow_missing=True, allow_empty=True
    )
    is_missing = positions < 0
    if is_missing.any():
        missing = names.filter(pa.array(is_missing))[0].as_py()
        raise _of_another_axis(rows, f"axis {rows.axis!r} has no entry {missing!r}")
    return positions


def _of_another_axis(rows: AxisRows, why: str) -> errors.QueryError:
    return errors.QueryError(f"the rows are none of axis {rows.axis!r}: {why}")


def _without_null(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows whose keys are all there: an outer join lacks some."""
    for column in batch.columns:
        if column.null_count:
            return batch.filter(_all_valid(batch))
    return batch


def _all_valid(batch: pa.RecordBatch) -> pa.Array:
    valid = pc.is_valid(batch.column(0))
    for column in batch.columns[1:]:
        valid = pc.and_(valid, pc.is_valid(column))
    return valid


def _joined(parts: list[Positions]) -> Positions:
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))
