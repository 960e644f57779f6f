"""Columns in the type that an AnnData import recorded, of vectors that are stored in another.

Dates, nullable booleans and large integers are stored as strings, nullable integers as floats.  A
vector may have been replaced since the import: where its values are not what was recorded, the
column is read as it is stored from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import Column, OpenColumn, Rows, ScanOptions, Values
from daf_query.table._broken_columns import BrokenColumns
from daf_query.table._wrapped_column import WrappedColumn, WrappedOpenColumn
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
    """Return columns, in the types that were recorded where the vectors are stored otherwise."""
    converted = dict(columns)
    for name in recorded.keys() & columns.keys():
        target = recorded[name].type
        if _is_convertible(columns[name].field.type, target):
            key = (daf.location, axis, name, "recorded", str(target))
            converted[name] = RecordedColumn(
                columns[name],
                target,
                key,
                partial(daf.vector_identity, axis, name),
                partial(broken.note_mismatch, name),
                f"{daf.location}: vector {name!r} of axis {axis!r}",
            )
    return converted


def _is_convertible(stored: pa.DataType, target: pa.DataType) -> bool:
    if target == pa.string() or stored == target:
        return False
    is_number = stored == pa.float64() and pa.types.is_integer(target)
    return bool(stored == pa.string() or is_number)


@dataclass(frozen=True, eq=False)
class RecordedColumn(WrappedColumn):
    """A column of which the values are converted when they are read.

    It is as expensive to compare as the stored one, which has to be converted first.
    """

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
        stored = self.column.field
        return pa.field(stored.name, self.type, nullable=stored.nullable)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        identity = self.identity()

        def cache_span(span: Span, make: Callable[[], pa.Array]) -> pa.Array:
            return cache.get((*self.key, span.start, span.stop), identity, make)

        return _OpenRecorded(self.column.open(cache, options), self._converted, cache_span)

    def _converted(self, stored: pa.Array) -> pa.Array:
        try:
            return _converted(stored, self.type)
        except (pa.ArrowException, ValueError) as error:
            self.note_mismatch()
            raise CorruptDataError(
                f"{self.what} was {self.type} when it was imported, and holds other values now "
                f"({error}); run the query again to read it as it is stored, {stored.type}"
            ) from error


class _OpenRecorded(WrappedOpenColumn):
    """A recorded column that is being read.  Zone map and index are of what is stored: no use."""

    def __init__(
        self,
        column: OpenColumn,
        convert: Callable[[pa.Array], pa.Array],
        cache_span: Callable[[Span, Callable[[], pa.Array]], pa.Array],
    ) -> None:
        super().__init__(column)
        self._convert = convert
        self._cache_span = cache_span

    @property
    def zones(self) -> None:
        """None: see the class."""
        return

    def row_index(self) -> None:
        """Return nothing: see the class."""
        return

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""
        return _values(self.to_arrow(rows))

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values, converted; whole spans are cached."""
        if rows.offsets is None:
            return self._cache_span(rows.span, lambda: self._convert(self._column.to_arrow(rows)))
        return self._convert(self._column.to_arrow(rows))


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
