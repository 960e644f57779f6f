"""A check that the positions of a slice mean the entries that they meant when it was made."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from daf_storage import DafReader, errors
from daf_storage.spi import StoredMatrix


class CurrentAxes:
    """The axes of a slice as they were; nothing of them is open.

    Parameters
    ----------
    states
        The number of entries and the identity of each, if they have just been looked at.
    """

    def __init__(
        self,
        daf: DafReader,
        axes: tuple[str, str],
        states: Sequence[tuple[int, Hashable]] | None = None,
    ) -> None:
        self._daf = daf
        self._axes = axes
        if states is None:
            states = [daf.axis_state(axis) for axis in axes]
        self.lengths = {axis: length for axis, (length, _) in zip(axes, states, strict=True)}
        """How many entries each axis has."""
        self._identities = [identity for _, identity in states]

    def _are_same(self) -> bool:
        try:
            now = [self._daf.axis_state(axis)[1] for axis in self._axes]
        except errors.DafError:  # one was deleted, or is damaged
            return False
        return self._identities == now

    @contextmanager
    def unchanged(self, stored: StoredMatrix) -> Iterator[None]:
        """Refuse what is read meanwhile by positions, if they may mean other entries by now.

        Parameters
        ----------
        stored
            The matrix of the slice: it is replaced whenever one of its axes is.

        Raises
        ------
        InvalidInputError
            An axis was replaced or reordered since the slice was made.
        """
        self._check(stored)
        yield
        self._check(stored)

    def check_matrix(self, stored: StoredMatrix) -> None:
        """Refuse a matrix that is not the stored one any more, if it is to be opened again.

        Raises
        ------
        InvalidInputError
            It was replaced or deleted since the slice was made.
        """
        if not self._is_there(stored):
            raise errors.InvalidInputError(
                f"{self._daf.location}: the matrix {stored.info.name!r} was replaced since this "
                "slice of it was made; make the slice again"
            )

    def _check(self, stored: StoredMatrix) -> None:
        # Another identity need not mean another axis: an HDF5 file has one for all that is in it,
        # and what was written a moment ago has none that lasts.
        if self._are_same() or self._is_there(stored):
            return
        raise errors.InvalidInputError(
            f"{self._daf.location}: one of the axes {self._axes[0]!r} and {self._axes[1]!r} was "
            f"replaced or reordered since this slice of {stored.info.name!r} was made; make the "
            "slice again"
        )

    def _is_there(self, stored: StoredMatrix) -> bool:
        """Return whether the matrix of the slice is still the stored one."""
        info = stored.info
        try:
            now = self._daf.open_matrix(info.rows_axis, info.columns_axis, info.name)
        except errors.NotFoundError:
            return False
        return stored.is_same(now)
