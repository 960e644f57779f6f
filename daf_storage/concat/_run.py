"""One concatenation: the caller's choices, checked, the data sets, and where their entries are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.anndata import Notes, Report, axis_notes, made_unique, read_notes
from daf_storage.base import (
    NAME_VECTOR,
    AnyArray,
    MatrixInfo,
    Span,
    VectorInfo,
    check_choice,
    first_duplicate,
)
from daf_storage.data import (
    Alignment,
    DafReader,
    DafWriter,
    StoredVector,
    layout,
    number_strings,
    relation_of,
    stored_numbers,
)

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

    def fill_of(self, infos: Sequence[VectorInfo | MatrixInfo], *keys: PropertyKey) -> Any:
        """Return the fill value of elements that one of these vectors or matrices lacks."""
        if any(info.storage_type.is_string for info in infos):
            return ""
        empty = self.empty_of(*keys)
        fill = self.fill_value if empty is None else empty
        default = 0 if any(info.is_sparse for info in infos) else np.nan
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
    prefixes = _of_each(
        "prefix", [prefix] * len(axes) if isinstance(prefix, bool) else prefix, axes
    )
    if not all(isinstance(each, bool) for each in prefixes.values()):
        raise errors.InvalidInputError(
            f"prefix={prefix!r} does not say True or False for each axis"
        )
    return prefixes


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
    lists = _of_each("prefixed", [listed] if is_flat else listed, axes)
    return {axis: [n] if isinstance(n, str) else list(n) for axis, n in lists.items()}


def _of_each(argument: str, given: Sequence[Any], axes: tuple[str, ...]) -> dict[str, Any]:
    """Return what is given for each axis."""
    if len(given) != len(axes):
        raise errors.InvalidInputError(
            f"{argument}={given!r} has {len(given):,} parts for the axes {', '.join(axes)}; pass "
            "one for each axis"
        )
    return dict(zip(axes, given, strict=True))


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


_EXACT_FLOAT_BITS: Final = 32


@dataclass(frozen=True)
class Member:
    """A data set, and what it is called in the result."""

    name: str
    daf: DafReader

    @cached_property
    def notes(self) -> Notes:
        """What an import of AnnData noted of it."""
        return read_notes(self.daf)

    def column_rules(self, axis: str) -> dict[str, dict[str, Any]]:
        """Return what an import noted of the vectors of an axis, by their names."""
        columns = axis_notes(self.notes, axis).get("columns", [])
        return {rule["vector"]: rule for rule in columns if "vector" in rule}

    @cached_property
    def axes(self) -> frozenset[str]:
        """The names of its axes."""
        return frozenset(self.daf.axes_set())

    def entries(self, axis: str) -> pa.Array | None:
        """Return the entries of an axis as large strings; None if it has no such axis."""
        if axis not in self.axes:
            return None
        return self.daf.get_pa_vector(axis, NAME_VECTOR).cast(pa.large_string())

    def open_vector(self, axis: str, name: str) -> StoredVector | None:
        """Return a vector; None if it has no such axis, or vector."""
        return self.daf.open_vector(axis, name) if name in self.vectors(axis) else None

    def vectors(self, axis: str) -> set[str]:
        """Return the names of its vectors of an axis; none if it has no such axis."""
        return self._vectors.get(axis, set())

    def matrices(self, rows_axis: str, columns_axis: str) -> set[str]:
        """Return the names of its matrices of two axes, in either orientation."""
        return self._matrices.get((rows_axis, columns_axis), set())

    @cached_property
    def _vectors(self) -> dict[str, set[str]]:
        return {axis: self.daf.vectors_set(axis) for axis in self.axes}

    @cached_property
    def _matrices(self) -> dict[tuple[str, str], set[str]]:
        pairs = itertools.product(self.axes, repeat=2)
        return {(rows, columns): self.daf.matrices_set(rows, columns) for rows, columns in pairs}


@dataclass(frozen=True)
class ResultAxis:
    """An axis of the result."""

    name: str
    entries: pa.Array
    """Large strings."""
    alignments: tuple[Alignment, ...]
    """One for each member."""
    is_concatenated: bool = False
    """Whether it has the entries of all members one after the other."""

    @property
    def length(self) -> int:
        """How many entries it has."""
        return len(self.entries)

    def places(self, number: int) -> AnyArray:
        """Return where the entries of a member are, -1 for those that are left out."""
        places = self.alignments[number].places
        return np.arange(self.length) if places is None else places


@dataclass
class Run:
    """One concatenation, while it is made."""

    daf: DafWriter
    """The result."""
    members: list[Member]
    options: Options
    folder: Path | None
    """Where large arrays are kept while they are needed; None for the system's folder."""
    report: Report = field(default_factory=Report)
    """What was left out."""
    axes: dict[str, ResultAxis] = field(default_factory=dict)
    """Those of the result, by name."""
    add: Callable[[int], None] = lambda _: None
    """Called after each block with its bytes."""

    def vectors(self, axis: ResultAxis) -> list[str]:
        """Return the vectors of an axis that any member has.

        Those that only say which values of another one are missing are no vectors of their own.
        """
        names: set[str] = set()
        for member in self.members:
            rules = member.column_rules(axis.name).values()
            names |= member.vectors(axis.name) - {str(rule.get("is_missing")) for rule in rules}
        return sorted(names)

    def matrices(self, rows: ResultAxis, columns: ResultAxis) -> list[str]:
        """Return the matrices of two axes that any member has."""
        pair = rows.name, columns.name
        return sorted({name for member in self.members for name in member.matrices(*pair)})

    def of_axes(self, *, is_concatenated: bool) -> list[ResultAxis]:
        """Return the concatenated axes, or the shared ones."""
        return [axis for axis in self.axes.values() if axis.is_concatenated == is_concatenated]

    def keeps(self, stored: list[Any], what: str, key: PropertyKey) -> bool:
        """Return whether the result has what some member may lack, and nothing stands for.

        What an inner join leaves out is noted; where all have to be the same it is an error.
        """
        join = self.options.join
        if None not in stored or join == "outer":
            return True
        lacking = self.members[stored.index(None)].name
        if join == "inner":
            self.report.lost(what, f'{lacking!r} has none; join="outer" or empty= keeps it')
            return False
        of_parts = {2: errors.VectorNotFoundError, 3: errors.MatrixNotFoundError}
        error = errors.NotFoundError if isinstance(key, str) else of_parts[len(key)]
        raise error(
            f"{self.daf.location}: {lacking!r} has no {what}, which others have; pass "
            f"empty={{{key!r}: ...}} for a value that stands for it, "
            'join="outer" to fill it, or join="inner" to leave it out'
        )


def converted(values: AnyArray, dtype: np.dtype[Any], *, what: str) -> AnyArray:
    """Return numbers in another dtype, or an error that names the first that does not fit."""
    if values.dtype == dtype:
        return values
    is_rounding = dtype.kind == "f" and values.dtype.itemsize * 8 > _EXACT_FLOAT_BITS
    if values.dtype.kind in "iu" and (is_rounding or dtype.kind != "f"):
        return stored_numbers(values, dtype, what=what)
    return values.astype(dtype)


def string_of(value: Any) -> str:
    """Return a scalar as a string."""
    return value if isinstance(value, str) else str(number_strings(np.asarray([value]))[0].as_py())


_SEPARATOR: Final = "."


def with_prefix(name: str, strings: pa.Array) -> pa.Array:
    """Return strings with the name of a data set before each, but empty ones as they are."""
    before = pa.scalar(f"{name}{_SEPARATOR}", strings.type)
    prefixed = pc.binary_join_element_wise(before, strings, pa.scalar("", strings.type))
    return pc.if_else(pc.equal(strings, ""), strings, prefixed)


def concatenated_axis(run: Run, axis: str) -> ResultAxis:
    """Return the entries of all members, one after the other."""
    members = run.members
    parts: list[Any] = [member.entries(axis) for member in members]
    if run.options.prefixes[axis]:
        parts = [with_prefix(m.name, part) for m, part in zip(members, parts, strict=True)]
    entries = pa.concat_arrays(parts)
    twice = first_duplicate(entries)
    if twice is not None:
        if run.options.duplicates == "error":
            having = [
                member.name
                for member, part in zip(members, parts, strict=True)
                if pc.any(pc.equal(part, twice), min_count=0).as_py()
            ]
            raise errors.DuplicateEntriesError(
                f"{run.daf.location}: the entry {twice!r} of axis {axis!r} occurs more than once, "
                f"in {' and '.join(map(repr, having[:2]))}; pass prefix=True to write the name of "
                'the data set before each entry, or duplicates="make_unique" to append -1, -2 and '
                "so on"
            )
        entries = made_unique(entries)
    bounds = np.cumsum([0, *map(len, parts)]).tolist()
    spans = [Span(start, stop) for start, stop in itertools.pairwise(bounds)]
    alignments = tuple(Alignment.block(span, len(entries)) for span in spans)
    return ResultAxis(axis, entries, alignments, is_concatenated=True)


def shared_axes(run: Run) -> Iterator[ResultAxis]:
    """Yield the other axes of the members, with joined entries.

    An axis of categories, as an import of AnnData makes them, has the categories of all members;
    and unless all have to be the same, so has any axis that concatenated vectors have entries of.
    """
    members, join = run.members, run.options.join
    categories = _category_axes(run)
    referred = set(categories)
    if join != "exact":
        referred |= set(_referred_axes(run))
    names = dict.fromkeys(axis for member in members for axis in sorted(member.axes))
    for axis in names:
        if axis in run.options.axes:
            continue
        given = [member.entries(axis) for member in members]
        if axis in referred:
            listed = [
                _categories(member, categories.get(axis, [])) if entries is None else entries
                for member, entries in zip(members, given, strict=True)
            ]
            yield _aligned(axis, _union(listed), given)
        elif join != "inner":
            if join == "exact":
                _check_same(run, axis, given)
            yield _aligned(axis, _union(given), given)
        elif all(entries is not None for entries in given):
            common: Any = given[0]
            for entries in given[1:]:
                common = common.filter(pc.is_in(common, value_set=entries))
            yield _aligned(axis, common, given)


def _category_axes(run: Run) -> dict[str, list[tuple[str, str]]]:
    """Return the axes that are categories of concatenated vectors: by name, those vectors."""
    referring: dict[str, dict[tuple[str, str], None]] = {}
    for axis, member in itertools.product(run.options.axes, run.members):
        for name, rule in member.column_rules(axis).items():
            to_axis = rule.get("axis")
            if to_axis is not None and to_axis not in run.options.axes:
                referring.setdefault(to_axis, {})[axis, name] = None
    return {axis: list(vectors) for axis, vectors in referring.items()}


def _referred_axes(run: Run) -> Iterator[str]:
    """Yield the axes that concatenated vectors have entries of."""
    for member, axis in itertools.product(run.members, run.options.axes):
        for name in sorted(member.vectors(axis)):
            relation = relation_of(member.axes, member.daf.open_vector(axis, name).info)
            if relation is not None and relation.to_axis not in run.options.axes:
                yield relation.to_axis


def _categories(member: Member, vectors: list[tuple[str, str]]) -> pa.Array:
    """Return the categories of a member that has no axis of them."""
    names: list[pa.Array | None] = []
    for axis, name in vectors:
        listed = member.column_rules(axis).get(name, {}).get("categories")
        stored = member.open_vector(axis, name)
        if listed is not None:
            names.append(pa.array(listed, pa.large_string()))
        elif stored is not None and stored.info.storage_type.is_string:
            used = pc.unique(stored.read_strings()).cast(pa.large_string())
            names.append(used.filter(pc.not_equal(used, "")))
    return _union(names)


def _check_same(run: Run, axis: str, given: list[pa.Array | None]) -> None:
    having = [(m, e) for m, e in zip(run.members, given, strict=True) if e is not None]
    first, entries = having[0]
    for member, other in having[1:]:
        if not other.equals(entries):
            raise errors.LabelsError(
                f"{run.daf.location}: the axis {axis!r} has other entries, or another order, in "
                f"{member.name!r} ({len(other):,}) than in {first.name!r} ({len(entries):,}); pass "
                'join="inner" for the entries that all have, or join="outer" for those of any'
            )


def _union(given: Iterable[pa.Array | None]) -> pa.Array:
    """Return all entries, each where it occurs first."""
    arrays = [entries for entries in given if entries is not None]
    return pc.unique(pa.concat_arrays([pa.array([], pa.large_string()), *arrays]))


def _aligned(axis: str, entries: pa.Array, given: list[pa.Array | None]) -> ResultAxis:
    alignments = (
        Alignment.of(entries.slice(0, 0) if own is None else own, entries) for own in given
    )
    return ResultAxis(axis, entries, tuple(alignments))
