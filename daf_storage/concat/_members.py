"""The data sets that are concatenated, and where their entries are in the result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from daf_storage.anndata import Notes, read_notes
from daf_storage.data import Alignment, DafReader, StoredVector


@dataclass(frozen=True)
class Member:
    """A data set, and what it is called in the result."""

    name: str
    daf: DafReader

    @cached_property
    def notes(self) -> Notes:
        """What an import of AnnData noted of it."""
        return read_notes(self.daf)

    def column_rules(self, axis: str) -> dict[str, dict[str, object]]:
        """Return what an import noted of the vectors of an axis, by their names."""
        columns = self.notes.get("axes", {}).get(axis, {}).get("columns", [])
        return {str(rule["vector"]): rule for rule in columns if "vector" in rule}

    @cached_property
    def axes(self) -> frozenset[str]:
        """The names of its axes."""
        return frozenset(self.daf.axes_set())

    def open_vector(self, axis: str, name: str) -> StoredVector | None:
        """Return a vector; None if it has no such axis, or vector."""
        key = (axis, name)
        if key not in self._opened:
            has_vector = name in self.vectors(axis)
            self._opened[key] = self.daf.open_vector(axis, name) if has_vector else None
        return self._opened[key]

    def vectors(self, axis: str) -> set[str]:
        """Return the names of its vectors of an axis; none if it has no such axis."""
        if axis not in self._vectors:
            self._vectors[axis] = self.daf.vectors_set(axis) if axis in self.axes else set()
        return self._vectors[axis]

    def matrices(self, rows_axis: str, columns_axis: str) -> set[str]:
        """Return the names of its matrices of two axes, in either orientation."""
        pair = (rows_axis, columns_axis)
        if pair not in self._matrices:
            has_axes = self.axes.issuperset(pair)
            self._matrices[pair] = self.daf.matrices_set(*pair) if has_axes else set()
        return self._matrices[pair]

    @cached_property
    def _opened(self) -> dict[tuple[str, str], StoredVector | None]:
        return {}

    @cached_property
    def _vectors(self) -> dict[str, set[str]]:
        return {}

    @cached_property
    def _matrices(self) -> dict[tuple[str, str], set[str]]:
        return {}


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

    def member_length(self, number: int) -> int:
        """Return how many entries it has in a member."""
        places = self.alignments[number].places
        return self.length if places is None else int(places.size)
