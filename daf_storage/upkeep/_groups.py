"""Number groups from 1, list their members, and name them by what they hold.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import AnyArray, VectorInfo, arrow_of
from daf_storage.data import DafWriter, check_writer, number_strings, stored_numbers, strings_input

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
    found = []
    for number, group in enumerate(entries_of_groups, 1):
        positions = pa.array(_positions(group, number, len(names)))
        members = "".join(names.take(positions).to_pylist()).encode()
        digits = sum(hashlib.sha256(members).digest()) % _SUFFIXES  # as the reference has them
        found.append(f"{prefix}{number}.{digits:02}")
    return found


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
    encoded = arrow_of(given).dictionary_encode()
    is_group = np.asarray(encoded.dictionary) != 0
    numbers = np.where(is_group, np.cumsum(is_group), 0)
    return numbers[np.asarray(encoded.indices)].astype(given.dtype), int(is_group.sum())


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


def _group_indices(values: Any) -> AnyArray:
    indices = _integers(values, "group_indices")
    if indices.size and int(indices.min()) < 0:
        place = int(np.argmax(indices < 0))
        raise errors.InvalidInputError(
            f"group_indices has {indices[place]} at position {place:,}; groups count from 1"
        )
    return indices


def _positions(group: Any, number: int, n_entries: int) -> npt.NDArray[np.int64]:
    positions = _integers(group, f"the members of group {number:,}").astype(np.int64)
    wrong = positions[(positions < 0) | (positions >= n_entries)]
    if wrong.size:
        raise errors.InvalidInputError(
            f"group {number:,} has the position {int(wrong[0]):,}; the axis has "
            f"{n_entries:,} entries, the first at position 0"
        )
    return positions


def _integers(values: Any, what: str) -> AnyArray:
    """Return whole numbers in one dimension, which of nothing may have any type.

    >>> [_integers(each, "x").dtype.kind for each in ([1, 2], [], np.zeros(0, "u1"), np.uint8([1]))]
    ['i', 'i', 'u', 'u']
    """
    found = np.asarray(values)
    if not found.size and found.ndim == 1 and found.dtype.kind not in "iu":
        return np.empty(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise errors.InvalidInputError(
            f"{what} must be integers in one dimension, not {found.dtype} of shape "
            f"{list(found.shape)}"
        )
    return found


def reconstruct_axis(  # noqa: PLR0913 - the choices of the reference
    daf: DafWriter,
    *,
    existing_axis: str,
    implicit_axis: str,
    rename_axis: str | None = None,
    empty_implicit: Any = None,
    implicit_properties: Collection[str] | None = None,
    skipped_properties: Collection[str] = (),
    properties_defaults: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make an axis of the values of a vector, and move the vectors there that depend on these only.

    What came from AnnData often has such an axis written out: a batch for each cell, and an age
    for each cell that is the age of its batch.  The values become the entries of a new axis, in
    ascending order, and each vector whose values are the same wherever the batch is the same
    becomes a vector of the new axis, in place of that of the existing one.

    Nothing is changed if an error is raised before the first change, as the errors below are.  A
    crash in the middle leaves each vector in its old place, or in both.

    Parameters
    ----------
    existing_axis
        The axis that has the vector, such as ``"cell"``.
    implicit_axis
        The vector, and the name of the new axis, such as ``"batch"``.  An empty string stands for
        no entry.  Numbers become strings.
    rename_axis
        Another name for the new axis.  If there is an axis of this name, its entries must include
        all values.
    empty_implicit
        A value of the vector that stands for no entry too; it becomes the empty string.
    implicit_properties
        The vectors to move, which must depend on the values only.  By default each one that does.
        NaN is equal to itself here.
    skipped_properties
        Vectors that stay where they are, even if they could be moved.
    properties_defaults
        Values of moved vectors for entries of the new axis that the existing one does not use.

    Returns
    -------
    dict
        For each vector that was moved, its value where there is no entry, None if there is no such
        place.  The new axis has no place for it.

    Raises
    ------
    InvalidInputError
        One of ``implicit_properties`` has different values for the same entry; or a default is
        needed, and missing.
    EntryNotFoundError
        The new axis exists, and lacks a value of the vector.
    ExistsError
        The new axis exists, and has one of the vectors already.
    AppendOnlyError
        The data set is an archive, in which nothing can be moved.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C", "D"])
    >>> daf.set_vector("cell", "batch", ["X", "X", "Y", ""])
    >>> daf.set_vector("cell", "age", [1, 1, 2, 3])
    >>> daf.set_vector("cell", "score", [0.0, 0.5, 1.0, 2.0])
    >>> reconstruct_axis(daf, existing_axis="cell", implicit_axis="batch")
    {'age': 3}
    >>> daf.axis_entries("batch").tolist(), daf.get_np_vector("batch", "age").tolist()
    (['X', 'Y'], [1, 2])
    >>> sorted(daf.vectors_set("cell"))
    ['batch', 'score']
    """
    check_writer(daf, "reconstruct_axis")
    if daf.is_append_only:
        raise errors.append_only(daf.location, f"vectors of axis {existing_axis!r}")
    axis = implicit_axis if rename_axis is None else rename_axis
    defaults = properties_defaults or {}
    strings, unique, rewriting = _implicit(daf, existing_axis, implicit_axis, empty_implicit)
    candidates = _candidates(
        daf, existing_axis, implicit_axis, implicit_properties, skipped_properties
    )
    _check_names(daf, existing_axis, defaults, "properties_defaults")
    entries = _entries(daf, axis, unique)
    places = pc.index_in(strings, value_set=entries.cast(strings.type))
    codes = pc.fill_null(places, len(entries)).to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.full(len(entries) + 1, -1, np.int64)  # the first use of each, and of none
    first[codes[::-1]] = np.arange(codes.size)[::-1]
    moved: dict[str, pa.Array] = {}
    values_of_none: dict[str, Any] = {}
    missing = []
    for name in candidates:
        values, numbers = daf.get_pa_vector(existing_axis, name), _codes(daf, existing_axis, name)
        differs = numbers != numbers[first[codes]]
        if differs.any() and implicit_properties is None:
            continue
        if differs.any():
            place = int(np.argmax(differs))
            entry = "no entry" if not strings[place].as_py() else repr(strings[place].as_py())
            one, other = (values[int(n)].as_py() for n in (first[codes[place]], place))
            raise errors.InvalidInputError(
                f"{daf.location}: vector {name!r} of axis {existing_axis!r} has {one!r} and "
                f"{other!r} for {entry} of {implicit_axis!r}, so it cannot be moved; leave it out "
                "of implicit_properties"
            )
        of_entries = values.take(pa.array(first[:-1], mask=first[:-1] < 0))
        info = daf.vector_info(existing_axis, name)
        moved[name] = _moved(daf, axis, info, of_entries, entries, defaults.get(name))
        values_of_none[name] = values[int(first[-1])].as_py() if first[-1] >= 0 else None
        if info.empty_is_missing:
            missing.append(name)
    with daf.batch():
        if daf.has_axis(axis):
            for name, vector in moved.items():
                daf.set_vector(axis, name, vector, empty_is_missing=name in missing)
        else:
            daf.add_axis(axis, entries, vectors=moved, empty_is_missing=missing)
        if rewriting is not None:
            writing: Any = {"if_exists": "replace", "entries_of": axis, **rewriting}
            daf.set_vector(existing_axis, implicit_axis, strings, **writing)
        for name in moved:
            daf.delete_vector(existing_axis, name)
    return values_of_none


def _implicit(
    daf: DafWriter, axis: str, name: str, empty: Any
) -> tuple[pa.Array, pa.Array, dict[str, bool] | None]:
    """Return the vector that becomes an axis.

    As strings, empty where there is no entry; the different ones in the order of the values that
    they were; and how it is to be written again, None if it is stored so.
    """
    info = daf.open_vector(axis, name).info
    encoded = daf.get_pa_vector(axis, name).dictionary_encode()
    values, is_string = encoded.dictionary, info.storage_type.is_string
    plain = values.to_numpy(zero_copy_only=False)
    named = values if is_string else number_strings(plain)
    is_none = pc.equal(named, "")
    if empty is not None:
        is_none = pc.or_(is_none, pa.array(plain == (str(empty) if is_string else empty)))
    strings = pc.if_else(is_none, pa.scalar("", named.type), named).take(encoded.indices)
    order = pc.sort_indices(values)
    unique = named.take(order).filter(pc.invert(is_none.take(order)))
    if is_string and (empty is None or empty == ""):
        return strings, unique, None
    has_none = pc.any(is_none, min_count=0).as_py()
    is_missing = info.empty_is_missing if is_string else has_none
    return strings, unique, {"empty_is_missing": is_missing}


def _codes(daf: DafWriter, axis: str, name: str) -> AnyArray:
    """Return numbers that are equal where values are; NaN is equal to itself, 0 to -0."""
    if daf.open_vector(axis, name).info.storage_type.is_string:
        strings = daf.get_pa_vector(axis, name)
        codes: AnyArray = strings.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        return codes
    return np.unique(daf.get_np_vector(axis, name), return_inverse=True)[1]


def _moved(
    daf: DafWriter, axis: str, info: VectorInfo, values: pa.Array, entries: pa.Array, default: Any
) -> pa.Array:
    """Return a vector with a value for the entries of the new axis that are not used."""
    if daf.has_axis(axis) and daf.has_vector(axis, info.name):
        raise errors.ExistsError(
            f"{daf.location}: vector {info.name!r} of axis {axis!r} exists already; delete it, or "
            f"leave that of axis {info.axis!r} there with skipped_properties=[{info.name!r}]"
        )
    if not values.null_count:
        return values
    if default is None:
        entry = entries[int(np.argmax(pc.is_null(values)))].as_py()
        raise errors.InvalidInputError(
            f"{daf.location}: the entry {entry!r} of axis {axis!r} is not used, so there is no "
            f"value of {info.name!r} for it; pass properties_defaults={{{info.name!r}: ...}}"
        )
    value: Any = str(default)
    if not info.storage_type.is_string:
        what = f"{daf.location}: the default of {info.name!r}"
        value = stored_numbers(np.asarray(default), info.storage_type.dtype, what=what)[()]
    return pc.fill_null(values, pa.scalar(value, values.type))


def _entries(daf: DafWriter, axis: str, unique: pa.Array) -> pa.Array:
    """Return the entries of the new axis, which may be there already."""
    if not daf.has_axis(axis):
        return unique
    entries = daf.get_pa_vector(axis, "name")
    is_entry = pc.is_in(unique, value_set=entries.cast(unique.type))
    if not pc.all(is_entry, min_count=0).as_py():
        entry = unique.filter(pc.invert(is_entry))[0].as_py()
        raise errors.entry_not_found(daf.location, axis, entry, daf.axis_entries(axis))
    return entries


def _candidates(
    daf: DafWriter,
    axis: str,
    implicit: str,
    requested: Collection[str] | None,
    skipped: Collection[str],
) -> list[str]:
    """Return the vectors that may be moved."""
    given = {"implicit_properties": requested or (), "skipped_properties": skipped}
    for argument, names in given.items():
        if isinstance(names, str):
            raise errors.InvalidInputError(f"{argument} is a string; pass a list of names")
        _check_names(daf, axis, names, argument)
        if implicit in names:
            raise errors.InvalidInputError(
                f"{daf.location}: {argument} names {implicit!r}, of which the axis is made"
            )
    chosen = daf.vectors_set(axis) - {implicit} if requested is None else set(requested)
    return sorted(chosen - set(skipped))


def _check_names(daf: DafWriter, axis: str, names: Collection[str], argument: str) -> None:
    for name in names:
        with errors.located(argument):
            if name not in daf.vectors_set(axis):
                daf.open_vector(axis, name)
