"""Columns in the type that an AnnData import noted, of vectors that are stored in another.

Dates, nullable booleans and large integers are stored as strings, nullable integers as floats.  A
vector may have been replaced since the import: where its values are not what was noted, the column
is read as it is stored from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import Column, OpenColumn, Positions, Predicate, ScanOptions, Values, ZoneMap
from daf_query.table._broken_columns import BrokenColumns
from daf_storage import DafReader
from daf_storage.errors import CorruptDataError
from daf_storage.spi import DecodedCache, RecordedType, Span

_TRUTH: Final = pa.array(["false", "true"])


def recorded_columns(
    columns: Mapping[str, Column],
    recorded: Mapping[str, RecordedType],
    daf: DafReader,
    axis: str,
    broken: BrokenColumns,
) -> dict[str, Column]:
    """Return columns, in the types that were noted where the vectors are stored otherwise."""
    found = dict(columns)
    for name in recorded.keys() & columns.keys():
        target = recorded[name].type
        if _is_convertible(columns[name].field.type, target):
            key = (daf.location, axis, name, "recorded", str(target))
            found[name] = RecordedColumn(
                columns[name],
                target,
                key,
                partial(daf.vector_identity, axis, name),
                partial(broken.note_mismatch, name),
                f"{daf.location}: vector {name!r} of axis {axis!r}",
            )
    return found


def _is_convertible(stored: pa.DataType, target: pa.DataType) -> bool:
    if target == pa.string() or stored == target:
        return False
    is_number = stored == pa.float64() and pa.types.is_integer(target)
    return bool(stored == pa.string() or is_number)


@dataclass(frozen=True, eq=False)
class RecordedColumn:
    """A column of which the values are converted when they are read."""

    stored: Column
    """As it is stored."""
    type: pa.DataType
    """What it is converted to."""
    key: tuple[Hashable, ...]
    """What the converted values are cached by."""
    identity: Callable[[], Hashable]
    """Returns a value that changes with what is stored."""
    note_mismatch: Callable[[], None]
    """Notes that the values are not what was recorded."""
    what: str
    """The vector, for messages."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        stored = self.stored.field
        return pa.field(stored.name, self.type, nullable=stored.nullable)

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return self.stored.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are expensive to compare: strings have to be converted first."""
        return self.stored.is_string

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it."""
        identity = self.identity()

        def remember(span: Span, make: Callable[[], pa.Array]) -> pa.Array:
            return cache.get((*self.key, span.start, span.stop), identity, make)

        return _OpenRecorded(self.stored.open(cache, options), self._converted, remember)

    def _converted(self, stored: pa.Array) -> pa.Array:
        try:
            return _converted(stored, self.type)
        except (pa.ArrowException, ValueError) as error:
            self.note_mismatch()
            raise CorruptDataError(
                f"{self.what} was {self.type} when it was imported, and holds other values now "
                f"({error}); run the query again to read it as it is stored, {stored.type}"
            ) from error


class _OpenRecorded:
    """A recorded column that is being read.  Zones and indexes are of what is stored: no use."""

    zones: ZoneMap | None = None

    def __init__(
        self,
        stored: OpenColumn,
        convert: Callable[[pa.Array], pa.Array],
        remember: Callable[[Span, Callable[[], pa.Array]], pa.Array],
    ) -> None:
        self._stored = stored
        self._convert = convert
        self._remember = remember

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> None:  # noqa: ARG002
        """Return nothing: no index is of the converted values."""
        return

    def load(self) -> None:
        """Get ready to be read."""
        self._stored.load()

    def values(self, span: Span) -> Values:
        """Return the values of a range."""
        return _values(self.array(span))

    def array(self, span: Span) -> pa.Array:
        """Return a range."""
        return self._remember(span, lambda: self._convert(self._stored.array(span)))

    def pick(self, span: Span, places: Positions) -> Values:
        """Return the values of some rows."""
        return _values(self.take(span, places))

    def take(self, span: Span, places: Positions) -> pa.Array:
        """Return some rows."""
        return self._convert(self._stored.take(span, places))


def _converted(stored: pa.Array, target: pa.DataType) -> pa.Array:
    """Return strings or floats as another type.

    >>> _converted(pa.array(["true", None, "false"]), pa.bool_()).to_pylist()
    [True, None, False]
    """
    if pa.types.is_floating(stored.type):
        return stored.cast(target)
    if pa.types.is_boolean(target):
        codes = pc.index_in(stored, value_set=_TRUTH)
        if codes.null_count != stored.null_count:
            raise ValueError("neither true nor false")
        return pc.equal(codes, 1)
    if pa.types.is_timestamp(target) and target.tz is not None:
        local = stored.cast(pa.timestamp(target.unit))
        return pc.assume_timezone(local, "UTC").cast(target)
    return stored.cast(target)


def _values(array: pa.Array) -> Any:
    """Return what predicates are evaluated on: of times without a zone numpy's, else Arrow's."""
    if pa.types.is_timestamp(array.type) and array.type.tz is None:
        return array.to_numpy(zero_copy_only=False)
    return array
