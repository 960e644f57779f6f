"""The axes of the result: those that are concatenated, and those that are joined."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import NAME_VECTOR, Span, first_duplicate
from daf_storage.concat._members import Member, ResultAxis
from daf_storage.concat._options import Options
from daf_storage.data import Alignment, relation_of

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_SEPARATOR: Final = "."


def with_prefix(name: str, strings: pa.Array) -> pa.Array:
    """Return strings with the name of a data set before each, but empty ones as they are."""
    before = pa.scalar(f"{name}{_SEPARATOR}", strings.type)
    prefixed = pc.binary_join_element_wise(before, strings, pa.scalar("", strings.type))
    return pc.if_else(pc.equal(strings, ""), strings, prefixed)


def concatenated_axis(
    members: list[Member], options: Options, number: int, *, location: str
) -> ResultAxis:
    """Return the entries of all members, one after the other."""
    axis = options.axes[number]
    parts = [
        member.daf.get_pa_vector(axis, NAME_VECTOR).cast(pa.large_string()) for member in members
    ]
    if options.prefixes[number]:
        parts = [
            with_prefix(member.name, part) for member, part in zip(members, parts, strict=True)
        ]
    entries = pa.concat_arrays(parts)
    twice = first_duplicate(entries)
    if twice is not None:
        if options.duplicates == "error":
            raise _duplicates(members, parts, axis, twice, location)
        entries = made_unique(entries)
    bounds = np.cumsum([0, *map(len, parts)]).tolist()
    spans = [Span(start, stop) for start, stop in itertools.pairwise(bounds)]
    alignments = tuple(Alignment.block(span, len(entries)) for span in spans)
    return ResultAxis(axis, entries, alignments, is_concatenated=True)


def made_unique(entries: pa.Array) -> pa.Array:
    """Return strings of which each repeated one gets ``-1``, ``-2`` and so on, as in anndata.

    The first one stays, and a name that is there already is not made.

    >>> made_unique(pa.array(["a", "b", "a", "a-1", "a"])).to_pylist()
    ['a', 'b', 'a-2', 'a-1', 'a-3']
    """
    codes = entries.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(codes, return_index=True)
    is_repeated = np.ones(codes.size, bool)
    is_repeated[first] = False
    places = np.flatnonzero(is_repeated)
    repeated = entries.take(pa.array(places)).to_pylist()
    counted = set(repeated)
    candidates = pc.match_substring_regex(entries, "-[0-9]+$")
    taken = set(entries.filter(candidates).to_pylist()) | counted
    counts: dict[str, int] = {}
    renamed = []
    for name in repeated:  # of the repeated ones only
        number = counts.get(name, 0) + 1
        while f"{name}-{number}" in taken:
            number += 1
        counts[name] = number
        renamed.append(f"{name}-{number}")
        taken.add(renamed[-1])
    return pc.replace_with_mask(entries, pa.array(is_repeated), pa.array(renamed, entries.type))


def _duplicates(
    members: list[Member], parts: list[pa.Array], axis: str, twice: str, location: str
) -> errors.DuplicateEntriesError:
    having = [
        member.name
        for member, part in zip(members, parts, strict=True)
        if pc.any(pc.equal(part, twice), min_count=0).as_py()
    ]
    where = " and ".join(map(repr, having[:2])) if len(having) > 1 else repr(having[0])
    return errors.DuplicateEntriesError(
        f"{location}: the entry {twice!r} of axis {axis!r} occurs more than once, in {where}; pass "
        "prefix=True to write the name of the data set before each entry, "
        'or duplicates="make_unique" to append -1, -2 and so on'
    )


def shared_axes(members: list[Member], options: Options, *, location: str) -> Iterator[ResultAxis]:
    """Yield the other axes of the members, with joined entries.

    An axis of categories, as an import of AnnData makes them, has the categories of all members;
    and unless all have to be the same, so has any axis that concatenated vectors have entries of.
    """
    categories = category_axes(members, options.axes)
    referred = set(categories)
    if options.join != "exact":
        referred |= set(_referred_axes(members, options.axes))
    names = dict.fromkeys(axis for member in members for axis in sorted(member.axes))
    for axis in names:
        if axis in options.axes:
            continue
        given = [_entries(member, axis) for member in members]
        if axis in referred:
            vectors = categories.get(axis, [])
            listed = [
                entries if entries is not None else _categories(member, vectors)
                for member, entries in zip(members, given, strict=True)
            ]
            yield _aligned(axis, _union(listed), given)
        elif options.join == "exact":
            _check_same(members, axis, given, location)
            yield _aligned(axis, _union(given), given)
        elif options.join == "outer":
            yield _aligned(axis, _union(given), given)
        elif all(entries is not None for entries in given):
            yield _aligned(axis, _intersection(given), given)


def category_axes(members: list[Member], axes: Collection[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the axes that are categories of concatenated vectors: by name, those vectors."""
    referring: dict[str, list[tuple[str, str]]] = {}
    for axis in axes:
        for member in members:
            for name, rule in member.column_rules(axis).items():
                to_axis = rule.get("axis")
                if isinstance(to_axis, str) and to_axis not in axes:
                    vectors = referring.setdefault(to_axis, [])
                    if (axis, name) not in vectors:
                        vectors.append((axis, name))
    return referring


def _referred_axes(members: list[Member], axes: Collection[str]) -> Iterator[str]:
    """Yield the axes that concatenated vectors have entries of."""
    for member in members:
        for axis in axes:
            for name in sorted(member.vectors(axis)):
                stored = member.open_vector(axis, name)
                relation = None if stored is None else relation_of(member.axes, stored.info)
                if relation is not None and relation.to_axis not in axes:
                    yield relation.to_axis


def _categories(member: Member, vectors: list[tuple[str, str]]) -> pa.Array:
    """Return the categories of a member that has no axis of them."""
    names: list[pa.Array] = []
    for axis, name in vectors:
        listed = member.column_rules(axis).get(name, {}).get("categories")
        if isinstance(listed, list):
            names.append(pa.array(map(str, listed), pa.large_string()))
        elif name in member.vectors(axis):
            info = member.daf.open_vector(axis, name).info
            if info.storage_type.is_string:
                used = pc.unique(member.daf.get_pa_vector(axis, name)).cast(pa.large_string())
                names.append(used.filter(pc.not_equal(used, "")))
    return _union([*names])


def _entries(member: Member, axis: str) -> pa.Array | None:
    if axis not in member.axes:
        return None
    return member.daf.get_pa_vector(axis, NAME_VECTOR).cast(pa.large_string())


def _check_same(
    members: list[Member], axis: str, given: list[pa.Array | None], location: str
) -> None:
    having = [(m, e) for m, e in zip(members, given, strict=True) if e is not None]
    first, entries = having[0]
    for member, other in having[1:]:
        if not other.equals(entries):
            raise errors.LabelsError(
                f"{location}: the axis {axis!r} has other entries, or another order, in "
                f"{member.name!r} ({len(other):,}) than in {first.name!r} ({len(entries):,}); pass "
                'join="inner" for the entries that all have, or join="outer" for those of any'
            )


def _union(given: Iterable[pa.Array | None]) -> pa.Array:
    """Return all entries, each where it occurs first."""
    arrays = [entries for entries in given if entries is not None]
    return pc.unique(pa.concat_arrays([pa.array([], pa.large_string()), *arrays]))


def _intersection(given: list[pa.Array | None]) -> pa.Array:
    """Return the entries that all have, in the order of the first."""
    common: Any = given[0]
    for entries in given[1:]:
        common = common.filter(pc.is_in(common, value_set=entries))
    return common


def _aligned(axis: str, entries: pa.Array, given: list[pa.Array | None]) -> ResultAxis:
    alignments = []
    for of_member in given:
        if of_member is None:
            alignments.append(Alignment.absent(len(entries)))
        elif of_member.equals(entries):
            alignments.append(Alignment(None, len(entries)))
        else:
            places = pc.fill_null(pc.index_in(of_member, value_set=entries), -1)
            alignments.append(
                Alignment(places.to_numpy(zero_copy_only=False).astype(np.int64), len(entries))
            )
    return ResultAxis(axis, entries, tuple(alignments))
