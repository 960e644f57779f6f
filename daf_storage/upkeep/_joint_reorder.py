"""Reorder the entries of axes that several data sets share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from daf_storage import errors
from daf_storage.base import AnyArray, ShowProgress
from daf_storage.data import DafWriter, check_writer


def reorder_axes(
    data_sets: Sequence[DafWriter],
    orders: Mapping[str, Any],
    *,
    progress: ShowProgress = "auto",
) -> None:
    """Put the entries of axes into other orders, in every data set that has them.

    Everything is prepared in all data sets before the first of them changes.  If the process dies
    between two of them, the same call with the same *entries* goes on: a data set that has the new
    order already is left as it is.

    Parameters
    ----------
    orders
        By axis, all its positions (from 0) or all its entries, each once, in their new order.

    Raises
    ------
    InvalidInputError, LengthError, EntryNotFoundError
        An order does not name each entry once.
    EntryNotFoundError, LengthError
        So it is if a data set has other entries in an axis than the first one that has it.
    AxisNotFoundError
        None of them has an axis.
    AppendOnlyError
        One is an archive, in which nothing can be replaced.

    Examples
    --------
    >>> import daf_storage
    >>> base, more = daf_storage.MemoryDaf(name="base"), daf_storage.MemoryDaf(name="more")
    >>> for daf in (base, more):
    ...     daf.add_axis("cell", ["A", "B"])
    >>> more.set_vector("cell", "age", [1, 2])
    >>> reorder_axes([base, more], {"cell": ["B", "A"]})
    >>> base.axis_entries("cell").tolist(), more.get_np_vector("cell", "age").tolist()
    (['B', 'A'], [2, 1])
    """
    for daf in data_sets:
        check_writer(daf, "reorder_axes")
    wanted = {axis: _entries_in_order(data_sets, axis, order) for axis, order in orders.items()}
    prepared = [(daf, _changed_orders(daf, wanted)) for daf in data_sets]
    with ExitStack() as stack:
        for daf, changed in prepared:
            if changed:
                stack.enter_context(daf.reordered(changed, progress=progress))


def _entries_in_order(data_sets: Sequence[DafWriter], axis: str, order: Any) -> pa.Array:
    """Return the entries of an axis in their new order, by the first data set that has it."""
    for daf in data_sets:
        if daf.has_axis(axis):
            (positions,) = daf.check_orders({axis: order}).values()
            return daf.get_pa_vector(axis, "name").take(pa.array(positions))
    known = {name for daf in data_sets for name in daf.axes_set()}
    raise errors.axis_not_found(f"{len(data_sets):,} data sets", axis, known)


def _changed_orders(daf: DafWriter, wanted: Mapping[str, pa.Array]) -> dict[str, AnyArray]:
    """Return the orders that a data set needs; none for axes that have their order already."""
    changed: dict[str, AnyArray] = {}
    for axis, entries in wanted.items():
        if daf.has_axis(axis) and not daf.get_pa_vector(axis, "name").equals(entries):
            changed |= daf.check_orders({axis: entries})
    return changed
