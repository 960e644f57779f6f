"""Small data sets of a union as one table: their columns are joined once, and then remembered.

To open a column takes longer than to read a thousand values of it.  Of neighbours that are small
and have the same columns, the values are joined when they are first read, and kept by what is
stored of each: once one of them changes, they are joined again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._runs import check_cancelled
from daf_query.scan import (
    INDEX,
    NAME,
    Column,
    DictionaryCodes,
    NumberColumn,
    OpenColumn,
    Rows,
    ScanOptions,
    StringColumn,
    VectorColumn,
    ZoneMap,
    numpy_type,
    plain_array,
)
from daf_query.table._columns import DATASET, ConstantColumn, column_as, vector_of
from daf_query.table._table_columns import TableColumns, signature_of
from daf_storage.base import DecodedCache, Span, paused_collection

_T = TypeVar("_T")

_SCRATCH_BYTES = 1 << 16
"""What members decode is joined at once, and not remembered beside it."""


@dataclass(frozen=True, eq=False)
class JoinedRun:
    """Neighbouring members of a union that are scanned as one table."""

    members: Span
    """Which of the members."""
    columns: TableColumns
    """The columns of the union, of the rows of these."""


def joined_runs(
    of: Mapping[str, TableColumns], union: TableColumns, options: ScanOptions
) -> list[JoinedRun]:
    """Return the runs of members that are worth joining.

    Parameters
    ----------
    of
        The columns of the members.
    union
        The columns of all.
    """
    if len(of) < options.min_joined_members:
        return []
    members = list(of.items())
    signatures = [signature_of(columns) for columns in of.values()]
    lengths = [columns.length for columns in of.values()]
    return [
        JoinedRun(span, _joined_columns(members[span.slice], union))
        for span in _spans(signatures, lengths, options)
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
    length = sum(columns.length for columns in sources)
    joined: dict[str, Column] = {
        name: JoinedColumn(shown.field, (union.table, names), names, sources)
        if name == DATASET or name in sources[0].columns
        else ConstantColumn(shown.field, None, length)
        for name, shown in union.columns.items()
    }
    return TableColumns(f"{names[0]} to {names[-1]}.{union.table}", length, joined, {})


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
        sources = [] if name == DATASET else self.sources
        return [column_as(each.columns[name], self.field, each.length) for each in sources]

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

        def cached(part: str, make: Callable[[], _T]) -> _T:
            with paused_collection(len(self.sources)):
                found: _T = cache.get((key, part), identity, make)
                return found

        values = partial(self._joined, options)
        if not self.is_string:
            dtype, length = numpy_type(self.field.type), sum(each.length for each in self.sources)
            return NumberColumn(
                lambda: partial(_part_of, cached("values", values)),
                cached("zones", lambda: ZoneMap.unknown(length, dtype, options.zone_rows)),
            )
        known = cache.peek((key, "values"), identity)

        def codes() -> DictionaryCodes:
            strings = values() if known is None else known
            is_missing = strings.null_count > 0
            of = iter([strings])
            return DictionaryCodes.of(of, len(strings), options, empty_is_missing=is_missing)

        return StringColumn(
            partial(cached, "values", values),
            None if self.field.name == NAME else partial(cached, "codes", codes),
            cache.peek((key, "codes"), identity),
            known,
        )

    def _joined(self, options: ScanOptions) -> Any:
        """Return the values of all data sets: numbers, or strings of Arrow."""
        if self.field.name == DATASET:
            lengths = [source.length for source in self.sources]
            return pa.array(self.names).take(pa.array(np.repeat(np.arange(len(lengths)), lengths)))
        values = self._values(options)
        if self.is_string:
            return pa.concat_arrays([pa.array([], pa.string()), *values])
        dtype = numpy_type(self.field.type)
        return np.concatenate([np.empty(0, dtype), *map(np.asarray, values)], dtype=dtype)

    def _values(self, options: ScanOptions) -> Iterator[Any]:
        """Yield the values of each data set."""
        scratch = DecodedCache(max_bytes=_SCRATCH_BYTES)
        for column, source in zip(self.parts, self.sources, strict=True):
            check_cancelled()
            if source.length:
                opened, rows = column.open(scratch, options), Rows(Span(0, source.length))
                is_string = self.is_string
                yield plain_array(opened.to_arrow(rows)) if is_string else opened.values(rows)


def _part_of(values: npt.NDArray[Any], span: Span) -> npt.NDArray[Any]:
    return values[span.slice]
