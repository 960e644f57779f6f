"""The choices of the caller of `concatenate`, checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from daf_storage import errors
from daf_storage.base import MatrixInfo, check_choice
from daf_storage.data import layout

Join: TypeAlias = Literal["exact", "inner", "outer"]
"""Which entries a shared axis has: all members must have the same; those of all; those of any."""

MergeAction: TypeAlias = Literal["skip", "last", "collect", "same"]
"""What becomes of a property that does not run along a concatenated axis: it is left out; it is
that of the last data set that has it; those of all data sets become one with a dimension more; it
is kept if all data sets that have it agree."""

PropertyKey: TypeAlias = str | tuple[str, str] | tuple[str, str, str]
"""A scalar, a vector (axis and name), or a matrix (two axes and name); ``"*"`` means any."""

Merging: TypeAlias = (
    MergeAction | Mapping[PropertyKey, MergeAction] | Iterable[tuple[PropertyKey, MergeAction]]
)
"""A merge action for everything, or for each property; of several that apply, the last one."""

UINT32_MOST: Final = 2**32 - 1


@dataclass(frozen=True)
class Options:
    """How data sets are concatenated."""

    axes: tuple[str, ...]
    """The concatenated axes."""
    dataset_axis: str | None
    dataset_property: bool
    prefixes: Mapping[str, bool]
    """Whether to prefix the entries of each concatenated axis."""
    prefixed: Mapping[str, Collection[str]] | None
    """The vectors of each concatenated axis whose values are prefixed; None to go by names."""
    duplicates: Literal["error", "make_unique"]
    join: Join
    fill_value: Any
    empty: Mapping[PropertyKey, Any]
    merge: tuple[tuple[PropertyKey, MergeAction], ...]
    sparse_if_saves_storage_fraction: float
    relayout: bool

    def empty_of(self, *keys: PropertyKey) -> Any:
        """Return the value that stands for a property where a member lacks it; None if unset."""
        return next((self.empty[key] for key in keys if key in self.empty), None)

    def matrix_fill(self, axes: tuple[str, str], name: str, matrices: list[MatrixInfo]) -> Any:
        """Return the fill value of elements that one of these matrices lacks."""
        if any(info.storage_type.is_string for info in matrices):
            return ""
        empty = self.empty_of((*axes, name), (*axes[::-1], name))
        fill = self.fill_value if empty is None else empty
        default = 0 if any(info.is_sparse for info in matrices) else np.nan
        return default if fill is None else fill

    def is_worth_sparse(self, *, size: int, stored: int, itemsize: int, pointers: int = 0) -> bool:
        """Return whether sparse storage saves enough of the space, as the reference estimates.

        Parameters
        ----------
        size, stored
            How many elements there are, and how many would be stored sparse.
        pointers
            How many pointers to columns a sparse matrix has.
        """
        index_bytes = 4 if size <= UINT32_MOST else 8
        dense_bytes = size * itemsize
        saved_bytes = dense_bytes - stored * (itemsize + index_bytes) - pointers * index_bytes
        least = self.sparse_if_saves_storage_fraction
        return dense_bytes > 0 and saved_bytes / dense_bytes >= least

    def merge_action(self, *keys: PropertyKey) -> MergeAction:
        """Return what becomes of a shared property; a matrix has a key for each orientation."""
        for pattern, action in reversed(self.merge):
            if any(layout.matches(pattern, key) for key in keys):
                return action
        return "skip"


def checked_axes(axis: str | Sequence[str]) -> tuple[str, ...]:
    """Return the axes to concatenate."""
    axes = (axis,) if isinstance(axis, str) else tuple(axis)
    if not axes or len(set(axes)) != len(axes):
        raise errors.InvalidInputError(
            f"cannot concatenate along {list(axes)}; name one axis, or several different ones"
        )
    return axes


def checked_prefixes(
    prefix: bool | Sequence[bool],  # noqa: FBT001 - a value that is checked
    axes: tuple[str, ...],
) -> dict[str, bool]:
    """Return for each axis whether its entries are prefixed."""
    prefixes = (prefix,) * len(axes) if isinstance(prefix, bool) else tuple(prefix)
    if len(prefixes) != len(axes) or not all(isinstance(each, bool) for each in prefixes):
        raise errors.InvalidInputError(
            f"prefix={prefix!r} does not say for each of the axes {', '.join(axes)} whether its "
            "entries are prefixed; pass a bool, or one for each axis"
        )
    return dict(zip(axes, prefixes, strict=True))


def checked_prefixed(
    prefixed: Iterable[str] | Sequence[Iterable[str]] | None, axes: tuple[str, ...]
) -> dict[str, Collection[str]] | None:
    """Return for each axis the names of the vectors whose values are prefixed."""
    if prefixed is None:
        return None
    if isinstance(prefixed, str):
        raise errors.InvalidInputError(f"prefixed={prefixed!r} is a string; pass a list of names")
    listed: list[Any] = list(prefixed)
    is_flat = len(axes) == 1 and all(isinstance(each, str) for each in listed)
    lists = [listed] if is_flat else listed
    if len(lists) != len(axes):
        raise errors.InvalidInputError(
            f"prefixed has {len(lists):,} lists of names for the axes {', '.join(axes)}; pass one "
            "for each axis"
        )
    names = ([each] if isinstance(each, str) else list(each) for each in lists)
    return dict(zip(axes, names, strict=True))


def checked_merge(merge: Merging | None) -> tuple[tuple[PropertyKey, MergeAction], ...]:
    """Return the merge actions by the properties that they are for."""
    if merge is None:
        return ()
    if isinstance(merge, str):
        check_choice(merge, MergeAction, "merge")
        of_matrices: MergeAction = "skip" if merge == "collect" else merge
        return (("*", merge), (("*", "*"), merge), (("*", "*", "*"), of_matrices))
    pairs: Iterable[Any] = merge.items() if isinstance(merge, Mapping) else merge
    checked = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise errors.InvalidInputError(
                f"merge has {pair!r}, which is no pair of a property and an action"
            )
        check_choice(pair[1], MergeAction, "merge")
        layout.check_key(pair[0], "merge")
        checked.append((pair[0], pair[1]))
        is_matrix = not isinstance(pair[0], str) and len(pair[0]) > 2
        if is_matrix and pair[1] == "collect":
            raise errors.InvalidInputError(
                f"merge: the matrices {pair[0]!r} cannot be collected, since there are no arrays "
                "of three dimensions; use 'last', 'same' or 'skip'"
            )
    return tuple(checked)


def checked_empty(empty: Mapping[PropertyKey, Any] | None) -> dict[PropertyKey, Any]:
    """Return the values that stand for missing properties."""
    checked = {}
    for key, value in (empty or {}).items():
        layout.check_key(key, "empty")
        is_matrix = not isinstance(key, str) and len(key) > 2
        if is_matrix or not isinstance(value, str):
            checked_number(value, f"empty of {key!r}")
        checked[key] = value
    return checked


def checked_number(value: Any, argument: str) -> Any:
    """Return a value if it is a number, or None."""
    if value is None or isinstance(value, bool | int | float | np.bool_ | np.number):
        return value
    raise errors.InvalidInputError(f"{argument} is {value!r}, which is no number")


def checked_fraction(value: float) -> float:
    """Return a part of the space that sparse storage has to save."""
    if 0 <= value <= 1:
        return value
    raise errors.InvalidInputError(
        f"sparse_if_saves_storage_fraction={value!r} is no fraction, from 0 to 1"
    )
