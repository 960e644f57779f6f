"""A matrix with both of its axes, all kept in memory, which one look at their files confirms."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final
from weakref import ref

from daf_storage.data._stored_matrix import StoredMatrix

MOST_POSITIONS: Final = 1 << 12
"""Of how many names of an axis it is remembered where they are."""


class KnownMatrix:
    """A matrix in one orientation with its axes, as they were when all three were found.

    Parameters
    ----------
    stored
        The matrix.
    states
        The number of entries, and the identity, of its rows axis and its columns axis.
    axis_views
        The views in which their entries are mapped; they are not held.
    view
        The view in which the matrix is mapped, which holds this object.
    positions
        Where names of the columns axis were found; goes with the view of that axis.
    """

    def __init__(
        self,
        stored: StoredMatrix,
        states: tuple[tuple[int, Hashable], tuple[int, Hashable]],
        axis_views: Sequence[Any],
        view: Any,
        positions: dict[str, int],
    ) -> None:
        self.stored = stored
        """The matrix."""
        self.states = states
        """The number of entries, and the identity, of its rows axis and its columns axis."""
        self.positions = positions
        """Where names of the columns axis were found."""
        self._axis_views = [ref(each) for each in axis_views]
        self._view = view

    def is_current(self) -> bool:
        """Return whether axes and matrix are what they were, by a look at each of their files."""
        for each in self._axis_views:
            view = each()
            if view is None or not view.is_unchanged():
                return False
        self._view.release_replaced()
        return bool(self._view.is_unchanged())
