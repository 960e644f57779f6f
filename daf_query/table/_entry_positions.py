"""The position of the entry that each value of a vector names, as a column of the table.

Tables are joined by it where a vector has entries of another axis as its values: comparing
positions is faster than comparing names, and yields the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import Codes, Column, OpenColumn, Rows, ScanOptions
from daf_query.table._wrapped_column import WrappedColumn, WrappedOpenColumn
from daf_storage import DafReader
from daf_storage.spi import DecodedCache, ForkLock, Span

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EntryPosition:
    """A vector whose values are entries of an axis."""

    vector: str
    """The vector, of the axis whose table it is a column of."""
    to_axis: str
    """The axis that its values are entries of."""


def is_of_strings(column: Column) -> bool:
    """Return whether a column is compared as strings: it has strings, or codes of them."""
    kind = column.field.type
    return bool(
        kind == pa.string() or (pa.types.is_dictionary(kind) and kind.value_type == pa.string())
    )


@dataclass(frozen=True, eq=False)
class EntryPositionColumn(WrappedColumn):
    """A column of strings as positions of entries; NULL where a value is no entry, or missing."""

    name: str
    """The name of the column."""
    daf: DafReader
    """The data set."""
    axis: str
    """The axis whose table it is a column of."""
    source: EntryPosition
    """What its values are."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type, which is that of ``index``."""
        return pa.field(self.name, pa.int64())

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        daf, source = self.daf, self.source
        identity = (
            daf.vector_identity(self.axis, source.vector),
            daf.axis_identity(source.to_axis),
        )
        key = (daf.location, self.axis, source.vector, "positions", source.to_axis)

        def remember(part: Hashable, make: Callable[[], Positions]) -> Positions:
            positions: Positions = cache.get((*key, part), identity, make)
            return positions

        return _OpenPositions(
            self.column.open(cache, options),
            (daf.axis_length(self.axis), daf.axis_length(source.to_axis)),
            partial(_positions, daf, source.to_axis),
            remember,
        )


class _OpenPositions(WrappedOpenColumn):
    """A column of positions that is being read.  Zone map and index are of the strings: no use.

    Where there are codes, the position of each distinct string is looked up once.  Else a hash
    table of the entries has to be made to look up some rows: when those tables would cost more than
    all rows do, all are looked up at once.
    """

    def __init__(
        self,
        column: OpenColumn,
        lengths: tuple[int, int],
        positions: Callable[[pa.Array], Positions],
        remember: Callable[[Hashable, Callable[[], Positions]], Positions],
    ) -> None:
        super().__init__(column)
        self._length, self._entries = lengths
        self._hashed = 0
        self._positions = positions
        self._remember = remember
        self._lock = ForkLock()
        self._known: dict[str, Positions] = {}

    @property
    def zones(self) -> None:
        """None: see the class."""
        return

    def row_index(self) -> None:
        """Return nothing: see the class."""
        return

    def values(self, rows: Rows) -> pa.Array:
        """Return values to evaluate a predicate on."""
        return self.to_arrow(rows)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return positions as Arrow."""
        known = self._known.get("rows")
        values: Any = None if known is not None else self._column.values(rows)
        if isinstance(values, Codes):
            strings = values.strings
            positions = self._once("strings", lambda: strings)[values.codes]
        elif values is not None and self._is_cheap(rows):
            positions = self._positions(values)
        else:
            positions = rows.of(self._once("rows", self._all_strings))
        is_null = positions < 0
        return pa.array(positions, pa.int64(), mask=is_null if is_null.any() else None)

    def _is_cheap(self, rows: Rows) -> bool:
        """Return whether to look up these rows by themselves."""
        if rows.offsets is None:
            return False
        with self._lock:
            self._hashed += self._entries + rows.count
            return self._hashed <= self._length

    def _all_strings(self) -> pa.Array:
        values = self._column.values(Rows(Span(0, self._length)))
        return values.strings.take(pa.array(values.codes)) if isinstance(values, Codes) else values

    def _once(self, part: str, strings: Callable[[], pa.Array]) -> Positions:
        """Return the positions of strings, looked up by one thread; the others wait."""
        with self._lock:
            if part not in self._known:
                self._known[part] = self._remember(part, lambda: self._positions(strings()))
            return self._known[part]


def _positions(daf: DafReader, axis: str, strings: pa.Array) -> Positions:
    """Return the positions of entries, which are unique; -1 for what is none."""
    entries = daf.get_pa_vector(axis, "name")
    found = pc.index_in(strings, value_set=entries.cast(strings.type))
    positions: Positions = found.fill_null(-1).to_numpy().astype(np.int64)
    return positions
