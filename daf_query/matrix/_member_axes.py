"""Axes of the data sets that are asked together: concatenated, or aligned by name.

A single data set has axes of one member.  Each of them looks like the axis of a data set: it has a
length, and positions of its entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix._layouts import Positions
from daf_storage import DafReader, errors
from daf_storage._lazy import pc
from daf_storage.base import one_array

Join: TypeAlias = Literal["inner", "outer"]
"""Which entries an aligned axis has: those that all data sets have, or those of any."""


Members: TypeAlias = Mapping[str, DafReader]
"""Data sets, by name."""


MemberPart: TypeAlias = tuple[str, DafReader, Positions, Positions]
"""What a data set has of the selected entries: its name, itself, their offsets, and where."""


_DATASET, _NAME, _INDEX = "dataset", "name", "index"

_OBSERVATIONS: Final = ("obs", "cell", "metacell")
"""Axes whose entries are others in each data set, as long as none of them says more."""


@dataclass(frozen=True)
class ConcatenatedAxis:
    """An axis of several data sets, the entries of one after those of the one before.

    Positions count through: they are those of the rows of the union table.
    """

    axis: str
    location: str
    members: Members
    """The data sets that have the axis, in their order."""
    length: int
    """The number of entries of all."""
    is_alone: bool = False
    """Whether it is the axis of a single data set, which no column ``dataset`` names."""

    @cached_property
    def starts(self) -> Positions:
        """Where the entries of each data set begin, and the length of all."""
        lengths = [daf.axis_length(self.axis) for daf in self.members.values()]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the data sets, in their order."""
        return tuple(self.members)

    def sources(self, member: str, selected: Positions) -> Positions:  # noqa: ARG002 - of one data set
        """Return selected positions as they are, of the columns of a single data set."""
        return selected

    def split(self, positions: Positions) -> tuple[npt.NDArray[np.int32], Positions]:
        """Return the number of the data set of each position, and the position within it."""
        owners = np.searchsorted(self.starts, positions, side="right") - 1
        return owners.astype(np.int32), positions - self.starts[owners]

    def keys_of(self, positions: Positions) -> dict[str, pa.Array]:
        """Return the columns that tell entries apart: of several data sets which, and where."""
        owners, own = self.split(positions)
        keys = {_INDEX: pa.array(own)}
        if not self.is_alone:
            keys[_DATASET] = pa.array(self.names, pa.string()).take(owners)
        return keys

    def entries_at(self, positions: Positions) -> pa.Array:
        """Return the names of the entries at some positions."""
        names, places = [pa.array([], pa.string())], [positions[:0]]
        for _, daf, mine, own in self.parts(positions):
            names.append(daf.get_pa_vector(self.axis, _NAME).cast(pa.string()).take(own))
            places.append(mine)
        return pa.concat_arrays(names).take(np.argsort(np.concatenate(places)))

    def parts(
        self,
        selected: Positions,
        having: Collection[str] | None = None,
        what: str = "",
        *,
        keyword: str = "rows",
    ) -> Iterator[MemberPart]:
        """Yield each data set of which something is selected.

        With its name, the offsets of its entries within the selected ones, and their positions.

        Parameters
        ----------
        having
            The data sets that have the matrix, which is described by ``what``; None for any.

        Raises
        ------
        MatrixNotFoundError
            Entries are selected of a data set that lacks the matrix.
        """
        owners, own = self.split(selected)
        for number, (name, daf) in enumerate(self.members.items()):
            mine = np.flatnonzero(owners == number)
            if not mine.size:
                continue
            if having is not None and name not in having:
                raise errors.MatrixNotFoundError(
                    f"{self.location}: {keyword}= has entries of {name!r}, which has no {what}; "
                    f"leave it out: {keyword}=\"dataset <> '{name}'\""
                )
            yield name, daf, mine, own[mine]

    def joined(self, datasets: Any, positions: Positions) -> Positions:
        """Return positions that count through, of names of data sets and positions within them.

        Raises
        ------
        NotFoundError
            There is no such data set.
        EntryNotFoundError
            A position is none of its data set.
        """
        owners = self._owners(datasets)
        lengths = np.diff(self.starts)[owners] if positions.size else positions
        outside = np.flatnonzero((positions < 0) | (positions >= lengths))
        if outside.size:
            first = int(outside[0])
            raise errors.EntryNotFoundError(
                f"{self.location}: axis {self.axis!r} of {self.names[owners[first]]!r} has no "
                f"position {positions[first]:,}; its positions count from 0 to "
                f"{lengths[first] - 1:,}"
            )
        return self.starts[owners] + positions

    def _owners(self, datasets: Any) -> Positions:
        """Return the numbers of data sets, by their names."""
        found = pc.index_in(datasets.cast(pa.string()), value_set=pa.array(self.names, pa.string()))
        if found.null_count:
            missing = datasets.filter(pc.is_null(found))[0].as_py()
            raise errors.NotFoundError(
                f"{self.location}: no data set {missing!r} has the axis {self.axis!r}; those that "
                f"have it are {errors.choices(missing, self.names)}"
            )
        owners: Positions = one_array(found).to_numpy(zero_copy_only=False).astype(np.int64)
        return owners

    def named(self, datasets: Any, entries: Any) -> Positions:
        """Return the positions of entries by the name of their data set and their own.

        Raises
        ------
        NotFoundError
            There is no such data set, or it has no such entry.
        """
        owners = self._owners(datasets)
        plain = one_array(entries)
        positions = np.empty(owners.size, np.int64)
        for number, daf in enumerate(self.members.values()):
            rows = np.flatnonzero(owners == number)
            if rows.size:
                found = daf.axis_indices(self.axis, plain.take(rows))
                positions[rows] = self.starts[number] + found
        return positions

    def axis_indices(self, entries: Iterable[str]) -> Positions:
        """Return the positions of entries by name alone.

        Raises
        ------
        EntryNotFoundError
            No data set has an entry of that name.
        InvalidInputError
            Several have; the message names them.
        """
        if self.is_alone:
            [daf] = self.members.values()
            return daf.axis_indices(self.axis, entries)
        requested = _strings(entries)
        positions = np.full(len(requested), -1, np.int64)
        for number, daf in enumerate(self.members.values()):
            found = _found(daf, self.axis, requested)
            twice = np.flatnonzero((found >= 0) & (positions >= 0))
            if twice.size:
                raise self._ambiguous(requested[int(twice[0])].as_py())
            positions = np.where(found >= 0, self.starts[number] + found, positions)
        missing = np.flatnonzero(positions < 0)
        if missing.size:
            entry = requested[int(missing[0])].as_py()
            raise errors.entry_not_found(self.location, self.axis, entry, ())
        return positions

    def _ambiguous(self, entry: str) -> errors.InvalidInputError:
        having = [n for n, daf in self.members.items() if _found(daf, self.axis, [entry])[0] >= 0]
        return errors.InvalidInputError(
            f"{self.location}: the name {entry!r} of axis {self.axis!r} occurs in "
            f"{len(having):,} data sets ({errors.shown_names(having)}); pass a table "
            "with the columns dataset and name, or a predicate: "
            f"\"dataset = '{having[0]}' AND name = '{entry}'\", or name = '{entry}' for all"
        )

    def check_labels(self, labels: Any, what: str) -> None:
        """Refuse the labels of a mask that are not the entries."""
        for number, daf in enumerate(self.members.values()):
            own = labels[self.starts[number] : self.starts[number + 1]]
            daf.check_labels(self.axis, own, what)


@dataclass(frozen=True)
class AlignedAxis:
    """An axis of several data sets whose entries are the same where their names are."""

    axis: str
    location: str
    members: Members
    """The data sets that have a matrix over it."""
    join: Join
    entries: pa.Array
    """The names: in the order of the first data set, then those of the second, and so on."""
    positions: Mapping[str, Positions]
    """Of each data set, where its entries are among the names; -1 for those that are left out."""

    @property
    def length(self) -> int:
        """The number of names."""
        return len(self.entries)

    def lacking(self, entry: str) -> list[str]:
        """Return the data sets that have no entry of some name."""
        return [n for n, daf in self.members.items() if _found(daf, self.axis, [entry])[0] < 0]

    def entries_at(self, positions: Positions) -> pa.Array:
        """Return the names at some positions."""
        return self.entries.take(positions)

    def refuse_nothing_in_common(self) -> None:
        """Refuse an inner join of axes that all have entries, but none in common.

        Raises
        ------
        InvalidInputError
            It is one.
        """
        if self.length or self.join == "outer":
            return
        if all(daf.axis_length(self.axis) for daf in self.members.values()):
            raise errors.InvalidInputError(
                f"{self.location}: no entry of axis {self.axis!r} occurs in all "
                f"{len(self.members):,} data sets, so join='inner' leaves nothing; pass "
                f"join='outer', or along={self.axis!r} if this is the axis to concatenate"
            )

    def among(self, union: ConcatenatedAxis, selected: Positions) -> Positions:
        """Return the positions of entries of the concatenated axis, without those left out."""
        positions = np.full(selected.size, -1, np.int64)
        for name, _, mine, own in union.parts(selected):
            if name in self.positions:
                positions[mine] = self.positions[name][own]
        return positions[positions >= 0]

    def sources(self, member: str, selected: Positions) -> Positions:
        """Return the position within a data set of each selected name; -1 if it has none."""
        own = self.positions[member]
        places = np.full(self.length, -1, np.int64)
        is_kept = own >= 0
        places[own[is_kept]] = np.flatnonzero(is_kept)
        return places[selected]

    def parts(self, selected: Positions) -> Iterator[MemberPart]:
        """Yield each data set, the offsets of what it has of the selected, and their positions."""
        for name, daf in self.members.items():
            sources = self.sources(name, selected)
            has = np.flatnonzero(sources >= 0)
            yield name, daf, has, sources[has]

    def axis_indices(self, entries: Iterable[str], *, may_lack: bool = False) -> Positions:
        """Return the positions of names.

        Parameters
        ----------
        may_lack
            Whether those that ``join`` leaves out are left out here, too.

        Raises
        ------
        EntryNotFoundError
            No data set has an entry of that name; or not all have, and ``join`` is ``inner``.
        """
        requested = _strings(entries)
        found = pc.index_in(requested, value_set=self.entries)
        for entry in requested.filter(pc.is_null(found)).unique().to_pylist():
            lacking = self.lacking(entry)
            if len(lacking) == len(self.positions):
                some = self.entries.slice(0, 20_000).to_pylist()
                raise errors.entry_not_found(self.location, self.axis, entry, some)
            if not may_lack:
                raise errors.EntryNotFoundError(
                    f"{self.location}: {errors.shown_names(lacking)} has no entry {entry!r} on "
                    f"axis {self.axis!r}, and join='inner' keeps those that all have; pass "
                    "join='outer'"
                )
        positions: Positions = found.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        return positions

    def check_labels(self, labels: Any, what: str) -> None:
        """Refuse the labels of a mask that are not the names."""
        if not _strings(list(labels)).equals(self.entries):
            raise errors.wrong_labels(self.location, what, self.axis)


EntryAxis: TypeAlias = ConcatenatedAxis | AlignedAxis
"""An axis of a matrix, of one data set or of several."""


def concatenated_of(
    readers: Iterable[DafReader], axes: tuple[str, str], along: str | None, *, location: str
) -> str:
    """Return the axis whose entries are put one after the other.

    Parameters
    ----------
    along
        That axis, if the caller names it.  By default that of the observations: what the scalar
        ``obs_is`` of an imported AnnData says, or ``obs``, ``cell`` or ``metacell``, also of a
        modality (``prot.obs``); if neither axis is, that of the rows.

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
    for daf in readers:
        obs, var = (str(daf.get_scalar(name, default="")) for name in ("obs_is", "var_is"))
        if obs and obs in axes:
            return obs
        if var and var in axes:
            return axes[1] if axes[0] == var else axes[0]
    present = (axis for name in _OBSERVATIONS for axis in axes if axis.rpartition(".")[2] == name)
    return next(present, axes[0])


def aligned_axis(members: Members, axis: str, join: Join, *, location: str) -> AlignedAxis:
    """Align an axis that several data sets have, by the names of its entries, which are read."""
    entries = {
        name: daf.get_pa_vector(axis, _NAME).cast(pa.string()) for name, daf in members.items()
    }
    return AlignedAxis(axis, location, members, join, *aligned(entries, join))


def aligned(entries: Mapping[str, pa.Array], join: Join) -> tuple[pa.Array, dict[str, Positions]]:
    """Return the names of an aligned axis, and where those of each data set are among them.  Pure.

    >>> runs = {"a": pa.array(["x", "y"]), "b": pa.array(["z", "y"])}
    >>> names, positions = aligned(runs, "outer")
    >>> names.to_pylist(), positions["b"].tolist()
    (['x', 'y', 'z'], [2, 1])
    >>> names, positions = aligned(runs, "inner")
    >>> names.to_pylist(), positions["b"].tolist()
    (['y'], [-1, 0])
    """
    first = next(iter(entries.values()), pa.array([], pa.string()))
    if all(each is first or each.equals(first) for each in entries.values()):
        return first, {name: np.arange(len(first)) for name in entries}
    encoded = one_array(pa.chunked_array(list(entries.values()))).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    names = encoded.dictionary
    if join == "inner":
        is_common = np.bincount(codes, minlength=len(names)) == len(entries)
        places = np.where(is_common, np.cumsum(is_common) - 1, -1)
        codes, names = places[codes], names.filter(pa.array(is_common))
    ends = np.cumsum([len(each) for each in entries.values()])
    parts = np.split(codes, ends[:-1])
    return names, dict(zip(entries, parts, strict=True))


def _found(daf: DafReader, axis: str, entries: Any) -> Positions:
    """Return the positions of entries, -1 of those that are not there."""
    return daf.axis_indices(axis, entries, allow_missing=True, allow_empty=True)


def _strings(entries: Iterable[str]) -> pa.Array:
    if isinstance(entries, pa.Array | pa.ChunkedArray):
        return one_array(entries).cast(pa.string())
    return pa.array([str(entry) for entry in entries], pa.string())
