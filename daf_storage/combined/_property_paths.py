"""Paths in a tree as those of properties, with the axes that these have.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from daf_storage.data import layout
from daf_storage.data.kept import GROUP as PARTS

_DEPTHS: Final[dict[str, int]] = {layout.SCALARS: 0, layout.VECTORS: 1, layout.MATRICES: 2}
"""Of how many axes the properties are that a group has."""


@dataclass(frozen=True, slots=True)
class PropertyPath:
    """Where one property is."""

    path: str
    """Its path in the tree."""
    axes: tuple[str, ...]
    """The axes to which its dimensions belong; none of an axis itself."""

    @property
    def flipped(self) -> str | None:
        """Where the other orientation of a matrix is; None if it has none."""
        group, *names = self.path.split("/")
        if group != layout.MATRICES or self.axes[0] == self.axes[1]:
            return None
        return layout.matrix_path(names[1], names[0], names[2])


def property_of(path: str) -> PropertyPath | None:
    """Return the property at or above a path; None for the groups that properties are in.

    >>> property_of("vectors/cell/age/nzind")
    PropertyPath(path='vectors/cell/age', axes=('cell',))
    >>> property_of("vectors/cell") is None
    True
    """
    group, *names = path.split("/")
    above = group
    if group == PARTS and names:
        above, names = f"{group}/{names[0]}", names[1:]
    level = above.rsplit("/", 1)[-1]
    if above == layout.DAF:
        return PropertyPath(above, ())
    if above == layout.AXES and names:
        return PropertyPath(f"{above}/{names[0]}", ())
    depth = _DEPTHS.get(level)
    if depth is None or len(names) <= depth:
        return None
    return PropertyPath("/".join([above, *names[: depth + 1]]), tuple(names[:depth]))


def axes_of_group(path: str) -> tuple[str, ...]:
    """Return the axes of the properties that a group has; those that its path names so far.

    >>> axes_of_group("matrices/cell/gene")
    ('cell', 'gene')
    """
    group, *names = path.split("/")
    if group == PARTS and names:
        group, *names = names
    return tuple(names[: _DEPTHS.get(group, 0)])
