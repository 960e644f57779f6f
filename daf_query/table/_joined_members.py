"""Small data sets of a union as one table: their columns are joined once, and then remembered.

To open a column takes longer than to read a thousand values of it.  Of neighbours that are small
and have the same columns, the values are joined when they are first read, and kept by what is
stored of each: once one of them changes, they are joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._cancellation import check_cancelled
from daf_query.scan import (
    INDEX,
    NAME,
    Column,
    DictionaryCodes,
    OpenColumn,
    Rows,
    ScanOptions,
    Values,
    VectorColumn,
    ZoneMap,
    number_array,
    numpy_type,
)
from daf_query.table._broken_columns import GuardedColumn
from daf_query.table._table_columns import TableColumns
from daf_query.table._union_columns import ConstantColumn, NullColumn, UnionColumn
from daf_storage.spi import DecodedCache, Span

_SCRATCH_BYTES = 1 << 16
"""What members decode is joined at once, and not remembered beside it."""


@dataclass(frozen=True, eq=False)
class JoinedRun:
    """Neighbouring members of a union that are scanned as one table."""

    members: Span
    """Which of the members."""
    columns: TableColumns
    """The columns of the union, of the rows of these."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinedRuns:
    """The runs of a union."""

    options: ScanOptions
    """What they follow from, with the members."""
    runs: Sequence[JoinedRun]
    """Ascending."""


def joined_runs(
    members: Sequence[tuple[str, TableColumns]], table: str, options: ScanOptions
) -> list[JoinedRun]:
    """Return the runs of members that are worth joining.

    Parameters
    ----------
    members
        Their names, and their columns as the union has them.
    table
        The name of the table.
    """
    if len(members) < options.min_joined_members:
        return []
    runs = []
    for span in _spans([columns for _, columns in members], options):
        if span.size >= options.min_joined_members:
            chosen = members[span.start : span.stop]
            runs.append(JoinedRun(span, _joined_columns(chosen, table)))
    return runs


def _spans(members: Sequence[TableColumns], options: ScanOptions) -> Iterator[Span]:
    """Yield neighbours that have the same columns, and together not too many rows."""
    start, rows, current = 0, 0, None
    for number, columns in enumerate(members):
        is_small = columns.length <= options.joined_member_rows
        signature = _signature(columns) if is_small else None
        if signature is None or signature != current or rows + columns.length > options.joined_rows:
            yield Span(start, number)
            start, rows, current = number, 0, signature
        rows += columns.length
        if signature is None:
            start = number + 1
    yield Span(start, len(members))


def _signature(columns: TableColumns) -> Hashable | None:
    """Return what members have in common that are joined; ``None`` if this one is not."""
    parts: list[Hashable] = []
    for name, column in columns.columns.items():
        if isinstance(column, NullColumn | ConstantColumn):
            parts.append((name, type(column)))
            continue
        vector = _vector_of(column)
        if vector is None:
            return None
        parts.append((name, vector.info.storage_type, vector.info.empty_is_missing))
    return tuple(parts)


def _vector_of(column: Column) -> VectorColumn | None:
    """Return the vector whose values a column has; ``None`` if it has others."""
    while isinstance(column, GuardedColumn | UnionColumn):
        column = column.column
    return column if isinstance(column, VectorColumn) else None


def _joined_columns(members: Sequence[tuple[str, TableColumns]], table: str) -> TableColumns:
    names = tuple(name for name, _ in members)
    lengths = [columns.length for _, columns in members]
    joined: dict[str, Column] = {}
    for name, column in members[0][1].columns.items():
        if isinstance(column, NullColumn):
            joined[name] = column
            continue
        parts = [columns.columns[name] for _, columns in members]
        joined[name] = JoinedColumn(column.field, (table, names), parts, lengths)
    title = f"{names[0]} to {names[-1]}.{table}"
    return TableColumns(title, sum(lengths), joined, {})


@dataclass(frozen=True, eq=False)
class JoinedColumn:
    """A column of several data sets, one after the other."""

    field: pa.Field
    key: Hashable
    """What its values are cached by, with its name."""
    parts: Sequence[Column]
    """That of each data set."""
    lengths: Sequence[int]
    """How many rows each has."""
    chunk_rows = 0

    @property
    def is_string(self) -> bool:
        """Whether its values are strings."""
        return bool(pa.types.is_string(self.field.type))

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading; values that were joined count while what is stored is the same."""
        identity = tuple(map(_identity, self.parts))
        shown = (self.field.name, str(self.field.type), self.field.nullable)
        key = (self.key, shown, options.zone_rows, options.max_distinct_strings)
        join = partial(self._strings if self.is_string else self._numbers, options)
        return _OpenJoined(lambda: cache.get(key, identity, join), cache.peek(key, identity))

    def _numbers(self, options: ScanOptions) -> _JoinedNumbers:
        values = [np.asarray(part) for part in self._values(options)]
        dtype = numpy_type(self.field.type)
        joined = np.concatenate([np.empty(0, dtype), *values], dtype=dtype)
        return _JoinedNumbers(joined, ZoneMap.unknown(len(joined), dtype, options.zone_rows))

    def _strings(self, options: ScanOptions) -> _JoinedStrings | DictionaryCodes:
        strings = pa.concat_arrays(list(self._values(options)))
        if self.field.name == NAME or not len(strings):
            return _JoinedStrings(strings)
        codes = DictionaryCodes.of(
            iter([strings]), len(strings), options, empty_is_missing=strings.null_count > 0
        )
        return codes if codes.is_useful else _JoinedStrings(strings)

    def _values(self, options: ScanOptions) -> Iterator[Any]:
        """Yield the values of each data set: strings as Arrow, others as numpy."""
        scratch = DecodedCache(max_bytes=_SCRATCH_BYTES)
        for column, length in zip(self.parts, self.lengths, strict=True):
            check_cancelled()
            read_all = _reader_of(column)
            if read_all is not None:
                yield read_all()
                continue
            opened, rows = column.open(scratch, options), Rows(Span(0, length))
            if self.is_string:
                yield opened.to_arrow(rows)
            elif length:
                yield opened.values(rows)


def _reader_of(column: Column) -> Callable[[], Any] | None:
    """Return what reads the vector of a column at once; None if its values are converted."""
    if isinstance(column, UnionColumn):
        is_converted = column.field.type != column.column.field.type
        return None if is_converted else _reader_of(column.column)
    if isinstance(column, GuardedColumn):
        read = _reader_of(column.column)
        return None if read is None else partial(column.broken.reading, column.name, read)
    is_vector = isinstance(column, VectorColumn) and column.info.name not in (NAME, INDEX)
    return column.read_all if isinstance(column, VectorColumn) and is_vector else None


def _identity(column: Column) -> Hashable:
    """Return what changes whenever the values of a column of a member do."""
    vector = _vector_of(column)
    if vector is None or vector.info.name == INDEX:
        return None
    return vector.daf.vector_identity(vector.info.axis, vector.info.name)


@dataclass(frozen=True, eq=False)
class _JoinedNumbers:
    """Numbers of several data sets."""

    joined: npt.NDArray[Any]
    zones: ZoneMap | None

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.joined.nbytes)

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""
        return rows.of(self.joined)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow, NaN as null."""
        return number_array(rows.of(self.joined))


@dataclass(frozen=True, eq=False)
class _JoinedStrings:
    """Strings of several data sets, too many of them distinct for codes."""

    strings: pa.Array
    zones = None

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.strings.nbytes)

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""
        return self.to_arrow(rows)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return strings."""
        if rows.offsets is None:
            return self.strings.slice(rows.span.start, rows.span.size)
        return self.strings.take(pa.array(rows.positions))


_Joined: TypeAlias = _JoinedNumbers | _JoinedStrings | DictionaryCodes
"""The values of a column of several data sets."""


class _OpenJoined:
    """A joined column that is being read: joined when values are first asked for."""

    def __init__(
        self,
        join: Callable[[], _Joined],
        joined: _Joined | None,
    ) -> None:
        self._join = join
        self._joined = joined

    @property
    def zones(self) -> ZoneMap | None:
        """The zone map, once values were joined."""
        return None if self._joined is None else self._joined.zones

    def row_index(self) -> None:
        """Return nothing: the indexes are of single data sets."""
        return

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on."""
        return self._read().values(rows)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow."""
        return self._read().to_arrow(rows)

    def _read(self) -> _Joined:
        joined = self._joined
        if joined is None:
            joined = self._joined = self._join()
        return joined
