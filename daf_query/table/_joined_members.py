"""Small data sets of a union as one table: their columns are joined once, and then remembered.

To open a column takes longer than to read a thousand values of it.  Of neighbours that are small
and have the same columns, the values are joined when they are first read, and kept by what is
stored of each: once one of them changes, they are joined again.  Strings are decoded many vectors
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, TypeAlias

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
    nulls_for_empty,
    number_array,
    numpy_type,
)
from daf_query.table._columns import DATASET, NullColumn, column_as, reader_of, vector_of
from daf_query.table._member_rows import MemberParts
from daf_query.table._table_columns import TableColumns
from daf_storage.spi import DecodedCache, Span, decode_vlen_chunks, paused_collection

_BATCH_BYTES: Final = 1 << 20
"""About how many stored bytes of strings are decoded together."""


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """The stored strings of a column."""

    data: memoryview
    column: Column
    vector: VectorColumn


class StringBatches:
    """The strings of many columns, one after the other."""

    def __init__(self) -> None:
        self._decoded: list[pa.Array] = []
        self._waiting: list[_Chunk] = []
        self._waiting_bytes = 0

    def add_stored(self, column: Column, identity: Hashable = None) -> bool:
        """Add the vector of a column, decoded sooner or later; False if it cannot be read at once.

        All that are added agree on whether an empty string is a missing value.

        Parameters
        ----------
        identity
            That of the vector, if it has just been looked at.
        """
        read_chunk = reader_of(column, partial(VectorColumn.string_chunk, identity=identity))
        vector = vector_of(column)
        if read_chunk is None or vector is None:
            return False
        data = read_chunk()
        if data is None:
            self.add(_all_of(column))
            return True
        self._waiting.append(_Chunk(data, column, vector))
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _BATCH_BYTES:
            self._decode()
        return True

    def add(self, strings: pa.Array) -> None:
        """Add strings."""
        self._decode()
        self._decoded.append(strings)

    def finished(self) -> list[pa.Array]:
        """Return all strings that were added."""
        self._decode()
        return self._decoded or [pa.array([], pa.string())]

    def _decode(self) -> None:
        """Decode what waits: together, or, where one is damaged, one by one, which says so."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        counts = [chunk.vector.info.length for chunk in waiting]
        strings = decode_vlen_chunks([chunk.data for chunk in waiting], counts)
        if strings is None:
            self._decoded += [_all_of(chunk.column) for chunk in waiting]
            return
        strings = strings if strings.type == pa.string() else strings.cast(pa.string())
        is_missing = waiting[0].vector.info.empty_is_missing
        self._decoded.append(nulls_for_empty(strings) if is_missing else strings)


def _all_of(column: Column) -> pa.Array:
    read_all = reader_of(column, VectorColumn.read_all)
    if read_all is None:
        raise TypeError(f"{column!r} is not of a vector")
    return read_all()


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


def joined_runs(parts: MemberParts, union: TableColumns, options: ScanOptions) -> list[JoinedRun]:
    """Return the runs of members that are worth joining.

    Parameters
    ----------
    parts
        The members.
    union
        The columns of all.
    """
    if len(parts) < options.min_joined_members:
        return []
    members = list(parts.columns.items())
    lengths = [columns.length for _, columns in members]
    return [
        JoinedRun(span, _joined_columns(members[span.slice], union))
        for span in _spans(parts.signatures, lengths, options)
        if span.size >= options.min_joined_members
    ]


def _spans(
    signatures: Sequence[Hashable | None], lengths: Sequence[int], options: ScanOptions
) -> Iterator[Span]:
    """Yield neighbours that have the same columns, and together not too many rows."""
    start, rows, current = 0, 0, None
    for number, (own, length) in enumerate(zip(signatures, lengths, strict=True)):
        signature = own if length <= options.joined_member_rows else None
        if signature is None or signature != current or rows + length > options.joined_rows:
            yield Span(start, number)
            start, rows, current = number, 0, signature
        rows += length
        if signature is None:
            start = number + 1
    yield Span(start, len(lengths))


def _joined_columns(
    members: Sequence[tuple[str, TableColumns]], union: TableColumns
) -> TableColumns:
    names = tuple(name for name, _ in members)
    sources = [columns for _, columns in members]
    joined: dict[str, Column] = {}
    for name, shown in union.columns.items():
        is_null = name != DATASET and name not in sources[0].columns
        joined[name] = NullColumn(shown.field) if is_null else _joined(shown, names, sources, union)
    title = f"{names[0]} to {names[-1]}.{union.table}"
    return TableColumns(title, sum(columns.length for columns in sources), joined, {})


def _joined(
    shown: Column, names: tuple[str, ...], sources: Sequence[TableColumns], union: TableColumns
) -> JoinedColumn:
    return JoinedColumn(shown.field, (union.table, names), names, sources)


@dataclass(frozen=True, eq=False)
class JoinedColumn:
    """A column of several data sets, one after the other."""

    field: pa.Field
    key: Hashable
    """What its values are cached by, with its name."""
    names: Sequence[str]
    """What the data sets are called."""
    sources: Sequence[TableColumns]
    """The columns of each data set."""
    chunk_rows = 0

    @cached_property
    def parts(self) -> Sequence[Column]:
        """That of each data set, as the union has it; of ``dataset``, none."""
        name = self.field.name
        columns = [] if name == DATASET else [source.columns[name] for source in self.sources]
        return [column_as(column, self.field) for column in columns]

    @cached_property
    def vectors(self) -> Sequence[VectorColumn | None]:
        """What is stored of each data set; nothing of columns without values that may change."""
        is_fixed = self.field.name == INDEX
        return [None if is_fixed else vector_of(column) for column in self.parts]

    @property
    def is_string(self) -> bool:
        """Whether its values are strings."""
        return bool(pa.types.is_string(self.field.type))

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading; values that were joined count while what is stored is the same."""
        with paused_collection(len(self.sources)):
            identity = tuple(
                vector and vector.daf.vector_identity(vector.info.axis, vector.info.name)
                for vector in self.vectors
            )
        shown = (self.field.name, str(self.field.type), self.field.nullable)
        key = (self.key, shown, options.zone_rows, options.max_distinct_strings)
        join = partial(self._strings if self.is_string else self._numbers, options, identity)
        return _OpenJoined(
            partial(self._joined, cache, key, identity, join), cache.peek(key, identity)
        )

    def _joined(
        self, cache: DecodedCache, key: Hashable, identity: Hashable, join: Callable[[], _Joined]
    ) -> _Joined:
        """Return the values, joined unless they are in the cache."""
        with paused_collection(len(self.sources)):
            joined: _Joined = cache.get(key, identity, join)
            return joined

    def _numbers(self, options: ScanOptions, identities: Sequence[Hashable]) -> _JoinedNumbers:
        values = [np.asarray(part) for part in self._values(options, identities)]
        dtype = numpy_type(self.field.type)
        joined = np.concatenate([np.empty(0, dtype), *values], dtype=dtype)
        return _JoinedNumbers(joined, ZoneMap.unknown(len(joined), dtype, options.zone_rows))

    def _strings(
        self, options: ScanOptions, identities: Sequence[Hashable]
    ) -> _JoinedStrings | DictionaryCodes:
        strings = pa.concat_arrays(self._string_arrays(options, identities))
        if self.field.name == NAME or not len(strings):
            return _JoinedStrings(strings)
        codes = DictionaryCodes.of(
            iter([strings]), len(strings), options, empty_is_missing=strings.null_count > 0
        )
        return codes if codes.is_useful else _JoinedStrings(strings)

    def _string_arrays(
        self, options: ScanOptions, identities: Sequence[Hashable]
    ) -> list[pa.Array]:
        """Return the strings of all data sets, in their order."""
        if self.field.name == DATASET:
            lengths = [source.length for source in self.sources]
            return [
                pa.array(self.names).take(pa.array(np.repeat(np.arange(len(lengths)), lengths)))
            ]
        strings = StringBatches()
        scratch = DecodedCache(max_bytes=_SCRATCH_BYTES)
        for column, source, identity in zip(self.parts, self.sources, identities, strict=True):
            check_cancelled()
            if not strings.add_stored(column, identity):
                opened = column.open(scratch, options)
                strings.add(opened.to_arrow(Rows(Span(0, source.length))))
        return strings.finished()

    def _values(self, options: ScanOptions, identities: Sequence[Hashable]) -> Iterator[Any]:
        """Yield the numbers of each data set."""
        scratch = DecodedCache(max_bytes=_SCRATCH_BYTES)
        for column, source, identity in zip(self.parts, self.sources, identities, strict=True):
            check_cancelled()
            read_all = reader_of(column, partial(VectorColumn.read_all, identity=identity))
            if read_all is not None:
                yield read_all()
            elif source.length:
                yield column.open(scratch, options).values(Rows(Span(0, source.length)))


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
