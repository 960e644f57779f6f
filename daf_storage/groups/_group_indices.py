"""Number groups from 1, list their members, and name them by what they hold.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage.base import AnyArray
from daf_storage.data import strings_input

_SUFFIXES = 100


def group_names(
    names_of_entries: Any, entries_of_groups: Sequence[Any], *, prefix: str
) -> list[str]:
    """Return a name for each group: prefix, number from 1, and two digits that its members decide.

    The names are those of the reference implementation.  A group that has the same number and
    other members, since it was computed again, has the same name in one of a hundred cases only.

    Parameters
    ----------
    names_of_entries
        The entries of the axis.
    entries_of_groups
        For each group the positions of its members, from 0, such as `collect_group_members`
        returns.  Their order decides too: let them ascend.
    prefix
        What the names begin with.

    Raises
    ------
    InvalidInputError
        A position is outside the axis, or no integer.

    Examples
    --------
    >>> group_names(["A", "B", "C", "D", "E"], [[1, 3], [2, 4]], prefix="G")
    ['G1.61', 'G2.95']
    """
    names = strings_input(names_of_entries, what="names_of_entries")
    members = [_positions(group, n, len(names)) for n, group in enumerate(entries_of_groups, 1)]
    sizes = [positions.size for positions in members]
    positions = np.concatenate([np.empty(0, np.int64), *members])
    chosen = names.take(pa.array(positions)).cast(pa.large_string())
    bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    _, offsets_buffer, bytes_buffer = chosen.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[chosen.offset :][bounds]
    data = memoryview(bytes_buffer or b"")
    spans = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return [
        f"{prefix}{number}.{_suffix(data[start:stop]):02}"
        for number, (start, stop) in enumerate(spans, 1)
    ]


def compact_groups(group_indices: Any) -> tuple[AnyArray, int]:
    """Return the same groups with the indices 1 to N, in the order in which they occur, and N.

    Parameters
    ----------
    group_indices
        A non-negative integer for each entry; 0 stands for no group, and stays.

    Returns
    -------
    indices : numpy.ndarray
        A new array of the same length and dtype.
    n_groups : int
        How many groups there are.

    Raises
    ------
    InvalidInputError
        These are not non-negative integers.

    Examples
    --------
    >>> compact_groups([0, 30, 10, 30, 10])
    (array([0, 1, 2, 1, 2]), 2)
    """
    given = _group_indices(group_indices)
    groups, first, codes = np.unique(given, return_index=True, return_inverse=True)
    is_group = groups != 0
    by_occurrence = np.argsort(first[is_group], kind="stable")
    numbers = np.zeros(groups.size, np.int64)
    numbers[np.flatnonzero(is_group)[by_occurrence]] = np.arange(1, by_occurrence.size + 1)
    return numbers[codes].astype(given.dtype), int(by_occurrence.size)


def collect_group_members(group_indices: Any) -> list[npt.NDArray[np.int64]]:
    """Return the members of each group: their positions, from 0, ascending.

    Parameters
    ----------
    group_indices
        The group of each entry, 1 to N as of `compact_groups`; 0 stands for no group.  An index
        below N that does not occur is a group without members.

    Raises
    ------
    InvalidInputError
        These are not non-negative integers, or one exceeds the number of entries.

    Examples
    --------
    >>> [members.tolist() for members in collect_group_members([0, 1, 2, 1, 2])]
    [[1, 3], [2, 4]]
    """
    given = _group_indices(group_indices)
    n_groups = int(given.max(initial=0))
    if n_groups > given.size:
        raise errors.InvalidInputError(
            f"group_indices has the group {n_groups:,}, but there are {given.size:,} entries; "
            "number the groups from 1 without gaps with compact_groups"
        )
    order = np.argsort(given, kind="stable").astype(np.int64, copy=False)
    sizes = np.bincount(given.astype(np.int64), minlength=n_groups + 1)
    return np.split(order, np.cumsum(sizes)[:-1])[1:] if given.size else []


def _suffix(members: memoryview) -> int:
    """Return the two digits of the reference: the bytes of a SHA-256, added up."""
    return sum(hashlib.sha256(members).digest()) % _SUFFIXES


def _group_indices(values: Any) -> AnyArray:
    indices = np.asarray(values)
    if not indices.size and indices.ndim == 1:
        indices = indices.astype(indices.dtype if indices.dtype.kind in "iu" else np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise errors.InvalidInputError(
            f"group_indices must be integers in one dimension, not {indices.dtype} of shape "
            f"{list(indices.shape)}"
        )
    if indices.size and int(indices.min()) < 0:
        place = int(np.argmax(indices < 0))
        raise errors.InvalidInputError(
            f"group_indices has {indices[place]} at position {place:,}; groups count from 1, and "
            "0 stands for no group"
        )
    return indices


def _positions(group: Any, number: int, n_entries: int) -> npt.NDArray[np.int64]:
    positions = np.asarray(group)
    if not positions.size:
        return np.empty(0, np.int64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise errors.InvalidInputError(
            f"the members of group {number:,} must be integers in one dimension, not "
            f"{positions.dtype} of shape {list(positions.shape)}"
        )
    low, high = int(positions.min()), int(positions.max())
    if low < 0 or high >= n_entries:
        raise errors.InvalidInputError(
            f"group {number:,} has the position {low if low < 0 else high:,}; the axis has "
            f"{n_entries:,} entries, the first at position 0"
        )
    return positions.astype(np.int64)
