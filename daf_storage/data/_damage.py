"""Lost and damaged parts of a data set: the property of a stored path, in words.

Knows paths, and neither stores nor trees.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from daf_storage.data import _layout as layout
from daf_storage.data import kept

_INDEXES: Final = "indexes"  # of daf_query, stored beside the data
_DEPTHS: Final = {
    layout.SCALARS: 2,
    layout.AXES: 2,
    layout.VECTORS: 3,
    layout.MATRICES: 4,
    _INDEXES: 3,
}
_DOCUMENTS: Final = frozenset({".zgroup", ".zattrs", ".zarray", "zarr.json"})
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Damage:
    """A property that is lost, or damaged."""

    what: str
    """The property in words, such as ``vector 'age' of axis 'cell'``."""
    path: str
    """Where it is, or was: ``vectors/cell/age``; in an archive of several data sets with the group
    in front."""
    problem: str
    """What is wrong, in a sentence."""

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}"

    @property
    def is_index(self) -> bool:
        """Whether it is only an index, which can be built again from the data."""
        found = property_of(self.path)
        return found is not None and found[1][0] == _INDEXES


def damage_of(path: str, problem: str) -> Damage:
    """Return what is wrong with the property that a path belongs to.

    >>> print(damage_of("vectors/cell/age/0", "it is cut off"))
    vector 'age' of axis 'cell': it is cut off
    >>> damage_of("b/c/axes/cell/0", "it is cut off").path
    'b/c/axes/cell'
    """
    found = property_of(path)
    if found is None:
        return Damage(f"entry {path!r}" if path else "the data set", path, problem)
    group, parts = found
    whole = posixpath.join(group, *parts)
    return Damage(_in_words(parts) + (f" of data set {group!r}" if group else ""), whole, problem)


def property_of(path: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the group of the data set, and the parts of the path, of a stored path's property.

    >>> property_of("vectors/cell/age/0")
    ('', ('vectors', 'cell', 'age'))
    >>> property_of("vectors/cell/.zgroup") is None
    True
    """
    parts = path.split("/")
    for start, name in enumerate(parts):
        is_kept = name == kept.GROUP
        below = parts[start + 1] if is_kept and start + 1 < len(parts) else name
        if below not in _DEPTHS:
            continue
        stop = start + is_kept + _DEPTHS[below]
        if len(parts) < stop or parts[stop - 1] in _DOCUMENTS:
            return None
        return "/".join(parts[:start]), tuple(parts[start:stop])
    return None


def is_group_document(path: str) -> bool:
    """Return whether a stored path only says that there is a group, which anybody can see.

    >>> is_group_document("vectors/cell/.zgroup"), is_group_document("vectors/cell/flag/.zgroup")
    (True, False)
    """
    folder, _, name = path.rpartition("/")
    is_known = any(part in _DEPTHS for part in folder.split("/"))
    return name in _DOCUMENTS and is_known and property_of(path) is None


def one_each(damages: Iterable[Damage]) -> tuple[Damage, ...]:
    """Return the first damage of each property."""
    found: dict[str, Damage] = {}
    for damage in damages:
        found.setdefault(damage.path, damage)
    return tuple(found.values())


def listed(names: Iterable[str]) -> str:
    """Return some of the names, and how many there are besides.

    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    >>> listed("abcde")
    'a, b, c, d, e'
    """
    known = list(names)
    shown = ", ".join(known[:_MOST_SHOWN])
    rest = len(known) - _MOST_SHOWN
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _in_words(parts: tuple[str, ...]) -> str:
    match parts:
        case (layout.SCALARS, name):
            return f"scalar {name!r}"
        case (layout.AXES, name):
            return f"axis {name!r}"
        case (layout.VECTORS, axis, name):
            return f"vector {name!r} of axis {axis!r}"
        case (kept.GROUP, *below):
            return f"part of an AnnData {'/'.join(below)!r}"
        case (_, axis, name):
            return f"index of vector {name!r} of axis {axis!r}"
        case (_, rows, columns, name):
            return f"matrix {name!r} of axes {rows!r} and {columns!r}"
    raise AssertionError(parts)
