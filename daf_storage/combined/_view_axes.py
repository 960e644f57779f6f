"""The axes of a view: which axis of the base each is, and which of its entries it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.base import name_problem
from daf_storage.combined._view_names import ANY, SAME, in_order
from daf_storage.data import DafReader, EntrySelection, Positions, layout, plain_values
from daf_storage.trees import Node

ViewAxes: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""By its name in the view: what each axis is."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewAxis:
    """One axis of a view."""

    name: str
    """Its name in the view."""
    base: str
    """Its name in the base."""
    entries: EntrySelection | None
    """The entries that are shown; None for all, in their order."""
    node: Node | None
    """The entries of the base that the positions are of; None where all are shown."""

    @property
    def is_as_it_is(self) -> bool:
        """Whether it has the same name and the same entries as in the base."""
        return self.name == self.base and self.entries is None


def view_axes(daf: DafReader, axes: ViewAxes | None) -> dict[str, ViewAxis]:
    """Return the axes of a view by name.

    Raises
    ------
    AxisNotFoundError, EntryNotFoundError
        The base has no such axis or entry.
    LengthError, DuplicateEntriesError, InvalidInputError
        A mask is not as long as its axis; an entry is chosen twice; or a value makes no sense.
    """
    known = sorted(daf.axes_set())
    is_default = axes is None or isinstance(axes, Mapping)
    shown: dict[str, Any] = dict.fromkeys(known, SAME) if is_default else {}
    for name, value in in_order(axes):
        if not isinstance(name, str):
            raise errors.InvalidInputError(f"a view's axes= has the key {name!r}, which is no name")
        if name == ANY:
            if value is not None and not (isinstance(value, str) and value == SAME):
                raise errors.InvalidInputError(
                    f"a view's axes= has {value!r} for '*'; that is '=' to show all axes, or None "
                    "to hide all"
                )
            shown = dict.fromkeys(known, SAME) if value is not None else {}
        elif value is None:
            if isinstance(axes, Mapping) and name not in known:
                raise errors.axis_not_found(daf.location, name, known)
            shown.pop(name, None)
        else:
            shown[name] = value
    return {name: _axis(daf, name, value) for name, value in shown.items()}


def _axis(daf: DafReader, name: str, value: Any) -> ViewAxis:
    problem = name_problem(name)
    if problem is not None:
        raise errors.InvalidNameError(f"a view's axis {name!r} {problem}")
    base, chosen = name, value
    if isinstance(value, str):
        base, chosen = (name if value == SAME else value), None
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        base, chosen = value
    if not daf.has_axis(base):
        error = errors.axis_not_found(daf.location, base, daf.axes_set())
        if isinstance(value, str) and not value.isidentifier():
            text = f"{error}; a predicate is for the view of a session: connect(daf).view(...)"
            raise errors.with_message(error, text)
        raise error
    if chosen is None:
        return ViewAxis(name, base, None, None)
    node = daf.tree.node(layout.axis_path(base))
    entries = EntrySelection(_positions(daf, base, chosen), daf.axis_length(base))
    return ViewAxis(name, base, None if entries.is_all else entries, node)


def _positions(daf: DafReader, axis: str, chosen: Any) -> Positions:
    """Return the positions of entries: a range, positions, names, or a mask."""
    length = daf.axis_length(axis)
    what = f"{daf.location}: the entries of axis {axis!r} for a view"
    if isinstance(chosen, slice):
        chosen = range(*chosen.indices(length))
    if isinstance(chosen, range):
        values: Any = np.arange(chosen.start, chosen.stop, chosen.step)
    else:
        values = plain_values(chosen, what=what)
    if isinstance(values, pa.Array):
        positions = daf.axis_indices(axis, values)
    elif values.ndim == 1 and values.dtype == np.bool_:
        if values.size != length:
            raise errors.wrong_length(daf.location, "a mask", values.size, axis, length)
        positions = np.flatnonzero(values)
    elif values.ndim == 1 and (values.dtype.kind in "iu" or not values.size):
        positions = values.astype(np.int64)
    else:
        raise errors.InvalidInputError(
            f"{what} are {chosen!r}; pass positions, names, a mask, a slice, or the name of an axis"
        )
    outside = (positions < 0) | (positions >= length)
    if outside.any():
        raise errors.EntryNotFoundError(
            f"{daf.location}: axis {axis!r} has no entry at position "
            f"{int(positions[np.argmax(outside)])}; it has {length:,} entries, counted from 0"
        )
    _check_once(daf, axis, positions)
    return positions


def _check_once(daf: DafReader, axis: str, positions: Positions) -> None:
    counts = np.bincount(positions, minlength=1)
    if int(counts.max()) > 1:
        twice = int(np.argmax(counts > 1))
        raise errors.DuplicateEntriesError(
            f"{daf.location}: a view of axis {axis!r} cannot have an entry twice, and position "
            f"{twice} is chosen {int(counts[twice])} times"
        )
