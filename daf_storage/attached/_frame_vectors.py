"""The vectors of a frame, under the names that an import gives them."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from daf_storage import errors
from daf_storage.anndata_rules import columns as rules
from daf_storage.anndata_rules import free_name
from daf_storage.attached._columns import BrokenColumn, Column
from daf_storage.attached._frames import Frame
from daf_storage.base import RESERVED_VECTORS, name_problem


@dataclass(frozen=True, slots=True)
class FrameVector:
    """A vector of a frame, and the column that it is."""

    column_name: str
    column: Column
    name: str
    """The name of the vector; empty if Daf has no such vector."""
    companion: str = ""
    """The name of the vector that says what is missing, if there is one."""
    problem: str = ""
    """Why there is no such vector."""
    state: Hashable | None = None
    """The identity of the column before it was looked at; None if nothing is kept of it."""


class FrameVectors:
    """The vectors of a frame; their columns are looked at when they are first asked for.

    The name of a vector may depend on the columns before it.  Nearly always it does not: then a
    vector is found by its name without a look at the other columns.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._names = frame.column_names()
        self._found: dict[int, FrameVector] = {}

    @functools.cached_property
    def every(self) -> tuple[FrameVector, ...]:
        """Those of all columns, in their order."""
        if self._positions is not None:
            return tuple(map(self._plainly_named, self._positions.values()))
        return tuple(self._named_in_order())

    def find(self, name: str) -> FrameVector | None:
        """Return the vector of this name, or whose companion has it; None if there is none."""
        if self._positions is None:
            named = (vector for vector in self.every if name in (vector.name, vector.companion))
            return next(named, None) if name else None
        owner = name if name in self._positions else name.removesuffix(rules.MISSING_SUFFIX)
        position = self._positions.get(owner)
        vector = None if position is None else self._plainly_named(position)
        return vector if vector is not None and name in (vector.name, vector.companion) else None

    @functools.cached_property
    def _positions(self) -> Mapping[str, int] | None:
        """Where each column is, by its name, if all vectors have the names of their columns.

        None if a name cannot be one of a vector, occurs twice, or may be one of a companion.
        """
        names = self._names
        positions = {name: position for position, name in enumerate(names)}
        is_plain = len(positions) == len(names) and not any(map(_is_unusual, names))
        return positions if is_plain else None

    def _plainly_named(self, position: int) -> FrameVector:
        if position not in self._found:
            self._found[position] = self._vector(position, set(RESERVED_VECTORS))
        return self._found[position]

    def _named_in_order(self) -> Iterator[FrameVector]:
        taken = set(RESERVED_VECTORS)
        for position in range(len(self._names)):
            vector = self._vector(position, taken)
            taken |= {vector.name, vector.companion} if vector.name else set()
            yield vector

    def _vector(self, position: int, taken: set[str]) -> FrameVector:
        """Return the vector of a column, by a name that is not taken.

        A column whose metadata cannot be read is a vector that raises when it is used.
        """
        column_name = self._names[position]
        column: Column
        try:
            column = self._frame.column(position)
            problem = column.problem
            has_companion = not problem and column.has_companion()
        except errors.FormatError as error:
            column, problem, has_companion = BrokenColumn(error), "", False
        if problem:
            return FrameVector(column_name, column, "", problem=problem)
        name = free_name(column_name, taken)
        companion = ""
        if has_companion:
            companion = free_name(f"{name}{rules.MISSING_SUFFIX}", {*taken, name})
        return FrameVector(column_name, column, name, companion, state=self._frame.state(position))


def _is_unusual(column_name: Any) -> bool:
    """Return whether the vector of a column, or another one, may have another name for it."""
    return (
        name_problem(column_name) is not None
        or column_name in RESERVED_VECTORS
        or rules.MISSING_SUFFIX in column_name
        or name_problem(f"{column_name}{rules.MISSING_SUFFIX}") is not None
    )
