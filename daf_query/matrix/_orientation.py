"""Choose which of the two axes of a matrix is concatenated; the other is aligned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from daf_storage import DafReader, errors

_OBSERVATIONS: Final = ("obs", "cell", "metacell")
"""Axes whose entries are others in each data set, as long as none of them says more."""


def concatenated_of(
    readers: Iterable[DafReader], axes: tuple[str, str], along: str | None, *, location: str
) -> str:
    """Return the axis whose entries are put one after the other.

    Parameters
    ----------
    along
        That axis, if the caller names it.  By default that of the observations: what the scalar
        ``obs_is`` of an imported AnnData says, or ``obs``, ``cell`` or ``metacell``; if neither
        axis is, that of the rows.

    Raises
    ------
    InvalidInputError
        It is none of the two; or they are one axis.
    """
    if axes[0] == axes[1]:
        raise errors.InvalidInputError(
            f"{location}: a matrix of axis {axes[0]!r} with itself has no element for two entries "
            "of different data sets; connect the data set whose matrix you want"
        )
    if along is not None:
        if along not in axes:
            raise errors.InvalidInputError(
                f"along={along!r} is none of the axes {axes[0]!r} and {axes[1]!r}"
            )
        return along
    noted = [
        (str(daf.get_scalar("obs_is", default="")), str(daf.get_scalar("var_is", default="")))
        for daf in readers
    ]
    for obs, var in noted:
        if obs in axes and obs:
            return obs
        if var in axes and var:
            return axes[1] if axes[0] == var else axes[0]
    return next((axis for axis in _OBSERVATIONS if axis in axes), axes[0])
