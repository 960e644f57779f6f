"""The column of a table: what is stored, and what is made of it, stage by stage.

1. *Stored*: a vector, an entry of a matrix, an array.  Metadata and sizes of files reveal most that
   cannot be read; a damaged chunk shows only when it is decoded.  Such a column is noted with the
   reason, so that the table can be planned again without it.
2. *Recorded*: the type that an AnnData import recorded, of vectors that are stored in another.
   Dates, nullable booleans and large integers are stored as strings, nullable integers as floats.
   A vector may have been replaced since the import: where its values are not what was recorded,
   the column is read as it is stored from then on.
3. *Categories*: strings as an Arrow dictionary, its categories in the noted order.
4. *Shown*: numbers in another type: integers of few bits as Int64, in which arithmetic is exact,
   and whatever a union with other data sets has; with the name that the column has there.

Missing values are those of the stored column; no stage adds or fills any.  Predicates are evaluated
on what is stored, but for recorded types and for numbers that are rounded where they are shown.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from daf_query.scan import (
    INDEX,
    NAME,
    Column,
    DictionaryCodes,
    OpenColumn,
    RowIndex,
    Rows,
    ScanOptions,
    StringColumn,
    Values,
    VectorColumn,
    ZoneMap,
    arrow_type,
    numpy_type,
    plain_array,
    plain_type,
)
from daf_storage import DafReader, errors
from daf_storage._lazy import pc
from daf_storage.anndata import RecordedType, was_float
from daf_storage.base import DecodedCache, StorageType
from daf_storage.errors import CorruptDataError, ReadOnlyError, UnsupportedDataError

_T = TypeVar("_T")

Categoricals: TypeAlias = Literal["string", "dictionary"]
"""How a table shows categoricals."""

CATEGORIES: Final = b"daf.categories"
"""Key of the metadata of a field: the categories, a JSON list.  Engines keep it, not the order."""
ORDERED: Final = b"daf.ordered"
"""Key of the metadata of a field whose categories have an order."""
META: Final = "meta"
"""The group of a Zarr store whose arrays are the columns of a table."""
GEOMETRY: Final = "bbox"
"""The column of a Zarr table that holds geometries, as WKB."""
DATASET: Final = "dataset"
"""The column that says of which data set a row is."""
VALUE: Final = "value"
"""What the column of the values of a matrix is called."""
_SMALL: Final = frozenset(map(StorageType.of, map(np.dtype, ("i1", "i2", "i4", "u1", "u2", "u4"))))


_BITS: Final = 64
_UNREADABLE: Final = (CorruptDataError, UnsupportedDataError, ReadOnlyError)
_UNSETTLED_SECONDS: Final = 2.0
"""How long a column stays broken whose file is too new to tell it from a later one."""


class BrokenColumns:
    """The columns of one table that could not be read, until what is stored changes.

    Parameters
    ----------
    identity
        Returns a value that changes whenever what is stored of a column does.
    """

    def __init__(self, identity: Callable[[str], Hashable] = lambda _: None) -> None:
        self._identity = identity
        self._noted: dict[str, tuple[str | None, Hashable, float]] = {}
        self._lock = threading.Lock()
        self.count = 0
        """How often a column turned out to be broken."""

    def note(self, name: str, reason: str | None) -> None:
        """Note why a column cannot be read; None if it does not hold what was recorded of it."""
        with self._lock:
            self._noted[name] = (reason, self._identity(name), time.monotonic())
            self.count += 1

    def noted(self) -> dict[str, str | None]:
        """Return the columns that are still broken, and why; None for those to be read as stored.

        A column whose file is too new to tell it from a later one counts for a moment.
        """
        if not self._noted:  # of thousands of tables, hardly one has any
            return {}
        new = time.monotonic() - _UNSETTLED_SECONDS
        return {
            name: reason
            for name, (reason, identity, seen_at) in self._noted.copy().items()
            if (reason is not None and seen_at > new) or self._identity(name) == identity
        }


def _coded_field(stored: pa.Field, categories: pa.Array, is_ordered: bool) -> pa.Field:  # noqa: FBT001 - as in Arrow
    """Return the name and Arrow type of the codes of categories."""
    metadata = {CATEGORIES: json.dumps(categories.to_pylist()).encode()}
    if is_ordered:
        metadata[ORDERED] = b"true"
    kind = pa.dictionary(pa.int32(), pa.string(), is_ordered)
    return pa.field(stored.name, kind, nullable=stored.nullable, metadata=metadata)


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column: what is stored, and the stages that its values go through; see the module."""

    stored: Column
    """What is stored."""
    broken: BrokenColumns | None = None
    """Where it is noted that it cannot be read; None if no table would be without it."""
    recorded: pa.DataType | None = None
    """The type that an import recorded of a vector, if it is stored in another."""
    categorical: RecordedType | None = None
    """What its dictionary has, if it is shown as one."""
    shown: pa.Field | None = None
    """Its name, its type and whether it can be null; None if they are those of what is stored."""

    @cached_property
    def own_field(self) -> pa.Field:
        """Its name and Arrow type before it is shown in another."""
        field = self.stored.field
        if self.recorded is not None:
            field = field.with_type(self.recorded)
        if self.categorical is not None:
            shown = self.categorical
            field = _coded_field(field, shown.categories, shown.is_ordered)
        return field

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        return self.own_field if self.shown is None else self.shown

    @property
    def is_converted(self) -> bool:
        """Whether its numbers are shown in another type."""
        return self.shown is not None and self.shown.type != self.own_field.type

    @property
    def is_compared_stored(self) -> bool:
        """Whether predicates are evaluated on what is stored; constants may be of another type."""
        if self.recorded is not None or not self.is_converted:
            return self.recorded is None
        kind, types = self.stored.field.type, pa.types
        is_exact = types.is_integer(self.field.type) or kind.bit_width < _BITS  # else it is rounded
        return bool(types.is_integer(kind) and is_exact)

    @property
    def vector(self) -> VectorColumn | None:
        """The vector whose values it has; None if it has others."""
        is_changed = self.recorded is not None or self.categorical is not None
        return self.stored if isinstance(self.stored, VectorColumn) and not is_changed else None

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return self.stored.chunk_rows

    @property
    def note(self) -> str:
        """What a report of a scan says of it."""
        return str(getattr(self.stored, "note", ""))

    def reading(self, read: Callable[[], _T]) -> _T:
        """Read something of what is stored; note an error that says that it is unreadable."""
        try:
            return read()
        except _UNREADABLE as error:
            self.note_broken(str(error))
            raise

    def note_broken(self, reason: str | None) -> None:
        """Note that it cannot be read, or does not hold what was recorded of it."""
        if self.broken is not None:
            self.broken.note(self.stored.field.name, reason)

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Open it for reading."""
        opened = self.reading(lambda: self.stored.open(cache, options))
        return OpenTableColumn(opened, self, cache)


class OpenTableColumn:
    """A column that is being read; see `TableColumn`.

    Zone map and index are of what is stored: of no use where predicates are evaluated on values
    that were converted.
    """

    def __init__(self, stored: OpenColumn, column: TableColumn, cache: DecodedCache) -> None:
        self._stored = stored
        self._column = column
        self._cache = cache
        vector = column.stored if column.recorded is not None else None
        self._vector = vector if isinstance(vector, VectorColumn) else None
        self._identity = self._vector and self._vector.identity

    @property
    def zones(self) -> ZoneMap | None:
        """The zone map; ``None`` without one."""
        return self._stored.zones if self._column.is_compared_stored else None

    def values(self, rows: Rows) -> Values:
        """Return values to evaluate a predicate on, converted unless they can be as stored."""
        if self._column.recorded is not None:
            values: Values = self._recorded(rows)
        else:
            values = self._column.reading(lambda: self._stored.values(rows))
        if self._column.is_compared_stored:
            return values
        if isinstance(values, pa.Array):
            return self._shown(values)
        return np.asarray(values).astype(numpy_type(self._column.field.type), copy=False)

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as Arrow; NaN as null."""
        array, shown = self._recorded(rows), self._column.categorical
        if shown is not None:
            array = encoded(array, shown.categories, shown.is_ordered)
        return self._shown(array)

    def _recorded(self, rows: Rows) -> pa.Array:
        """Return what is stored, in the type that was recorded; whole spans are cached."""
        vector = self._vector

        def read() -> pa.Array:
            stored = self._column.reading(lambda: self._stored.to_arrow(rows))
            return stored if vector is None else self._as_recorded(vector, plain_array(stored))

        if vector is None or rows.offsets is not None:
            return read()
        key = (*vector.key, "recorded", str(self._column.recorded), rows.span)
        return self._cache.get(key, self._identity, read)

    def _as_recorded(self, vector: VectorColumn, stored: pa.Array) -> pa.Array:
        """Return stored values in the type that was recorded; note where they are others."""
        name, kind = vector.info.name, self._column.recorded
        try:
            return _converted(stored, kind)
        except (pa.ArrowException, ValueError) as error:
            self._column.note_broken(None)
            raise errors.CorruptDataError(
                f"{vector.daf.location}: vector {name!r} of axis {vector.info.axis!r} was {kind} "
                f"when it was imported, and holds other values now ({error}); run the query again "
                f"to read it as it is stored, {stored.type}"
            ) from error

    def _shown(self, array: pa.Array) -> pa.Array:
        if not self._column.is_converted:
            return array
        kind = self._column.field.type
        try:  # floats are rounded beyond 2^53
            return array.cast(kind, safe=pa.types.is_integer(kind))
        except pa.ArrowInvalid:
            name = self._column.stored.field.name
            raise errors.UnsupportedDataError(
                f"the query computes with the column {name!r}, which has values above "
                f"9,223,372,036,854,775,807; write CAST({name} AS DECIMAL(20, 0)) there"
            ) from None


IMPORTED_TYPES: Final = (pa.string(), pa.float64())
"""The types of columns that an import may have recorded more of than what is stored."""


def imported_column(
    column: TableColumn, noted: RecordedType, categoricals: Categoricals
) -> TableColumn:
    """Return a column of one of these types with that, or the categories, which was recorded."""
    is_string = column.field.type == pa.string()
    if noted.type != pa.string() if is_string else pa.types.is_integer(noted.type):
        return replace(column, recorded=noted.type)
    if categoricals == "dictionary" and noted.categories is not None and is_string:
        return replace(column, categorical=noted)
    return column


def _converted(stored: pa.Array, target: pa.DataType) -> pa.Array:
    """Return strings or floats as another type.

    >>> _converted(pa.array(["true", None, "false"]), pa.bool_()).to_pylist()
    [True, None, False]
    """
    if pa.types.is_boolean(target) and not pa.types.is_floating(stored.type):
        codes = pc.index_in(stored, value_set=pa.array(["false", "true"]))  # a cast takes "1", too
        if codes.null_count != stored.null_count:
            raise ValueError("neither true nor false")
        return pc.equal(codes, 1)
    if pa.types.is_timestamp(target) and target.tz is not None:
        local = stored.cast(pa.timestamp(target.unit))
        return pc.assume_timezone(local, "UTC").cast(target)
    return stored.cast(target)


def encoded(strings: pa.Array, categories: pa.Array, is_ordered: bool) -> pa.DictionaryArray:  # noqa: FBT001 - as in Arrow
    """Return strings as codes of categories; values that are none of them follow, sorted.

    >>> strings = pa.array(["b", "x", None])
    >>> encoded(strings, pa.array(["b", "a"]), False).indices.to_pylist()
    [0, 2, None]
    >>> encoded(strings.dictionary_encode(), pa.array(["b", "a"]), False).indices.to_pylist()
    [0, 2, None]
    """
    if pa.types.is_dictionary(strings.type):
        distinct = encoded(strings.dictionary, categories, is_ordered)
        codes, categories = distinct.indices.take(strings.indices), distinct.dictionary
        return pa.DictionaryArray.from_arrays(codes, categories, ordered=is_ordered)
    codes = pc.index_in(strings, value_set=categories)
    if codes.null_count != strings.null_count:
        others = strings.filter(pc.and_(pc.is_null(codes), pc.is_valid(strings))).unique()
        categories = pa.concat_arrays([categories, others.take(pc.sort_indices(others))])
        codes = pc.index_in(strings, value_set=categories)
    return pa.DictionaryArray.from_arrays(codes, categories, ordered=is_ordered)


def category_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a table that have categories."""
    return [field.name for field in schema if CATEGORIES in (field.metadata or {})]


def with_categories(table: pa.Table) -> pa.Table:
    """Return the rows of a query with each categorical in the order of its categories.

    Engines keep the values and the metadata of a column, and may list the categories otherwise.
    """
    for place, field in enumerate(table.schema):
        metadata = field.metadata or {}
        if CATEGORIES not in metadata or not pa.types.is_dictionary(field.type):
            continue
        categories = pa.array(json.loads(metadata[CATEGORIES]), pa.string())
        strings = table.column(place).cast(pa.string()).combine_chunks()
        column = encoded(strings, categories, ORDERED in metadata)
        new = pa.field(field.name, column.type, field.nullable)
        table = table.set_column(place, new, column)
    return table


def value_type(
    daf: DafReader, axes: tuple[str, str], name: str, storage_type: StorageType
) -> pa.DataType:
    """Return the Arrow type in which tables have the values of a matrix.

    Counts are often stored in 8, 16 or 32 bits, in which sums of two genes wrap around and
    differences become large numbers.  Tables have them in 64 bits: as floats if that is what they
    were before they were stored as counts, so that a query answers the same, and else as integers.
    """
    if storage_type not in _SMALL:
        return arrow_type(storage_type)
    return pa.float64() if was_float(daf, *axes, name) else pa.int64()


def long_names(axes: tuple[str, str], *, has_dataset: bool) -> tuple[str, str, str]:
    """Return what the columns of the long form of a matrix are called: both axes, and the values.

    >>> long_names(("cell", "cell"), has_dataset=False)
    ('cell', 'cell_2', 'value')
    """
    rows, columns = (f"{axis}_2" if has_dataset and axis == DATASET else axis for axis in axes)
    second = f"{columns}_2" if columns == rows else columns
    return rows, second, f"{VALUE}_2" if VALUE in (rows, second) else VALUE


def is_of_few_bits(kind: pa.DataType) -> bool:
    """Return whether sums or differences of a type may wrap around where counts do not."""
    return bool(pa.types.is_integer(kind)) and kind != pa.int64()


def wide_columns(
    columns: Mapping[str, TableColumn], names: AbstractSet[str]
) -> dict[str, TableColumn]:
    """Return columns, of which those of some names that are integers of few bits are Int64."""
    return {
        name: replace(column, shown=column.field.with_type(pa.int64()))
        if name in names and is_of_few_bits(column.field.type)
        else column
        for name, column in columns.items()
    }


@dataclass(frozen=True, eq=False)
class ConstantColumn:
    """A column with the same string in all rows, or null in all."""

    field: pa.Field
    value: str | None
    length: int
    chunk_rows = 0

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:  # noqa: ARG002 - nothing is decoded
        """Open it for reading."""
        values = pa.array([self.value], plain_type(self.field.type))
        zeros = np.broadcast_to(np.uint8(0), self.length)
        codes = DictionaryCodes(zeros, values, options.zone_rows)
        return StringColumn(lambda: values, codes=codes)


@dataclass(frozen=True, slots=True)
class MatrixEntry:
    """An entry of a matrix: which matrix over the axis of a table, and which of its columns."""

    axis: str
    """The other axis of the matrix."""
    matrix: str
    """Its name."""
    entry: str
    """The entry of the other axis."""


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The columns of a table at one moment, and why some of the data are none."""

    table: str
    """The name of the table: an axis."""
    length: int
    """Number of rows."""
    columns: Mapping[str, TableColumn]
    """By name; of an axis ``name``, ``index``, then the vectors in alphabetical order."""
    problems: Mapping[str, str]
    """What cannot be read, and why."""
    broken: BrokenColumns = dataclasses.field(default_factory=BrokenColumns)
    """The columns that turned out to be unreadable since."""

    def readable(self) -> TableColumns:
        """Return the same without columns that turned out to be unreadable."""
        noted = self.broken.noted()
        if not noted:
            return self
        problems = {name: reason for name, reason in noted.items() if reason is not None}
        columns = {
            name: replace(column, recorded=None) if name in noted else column
            for name, column in self.columns.items()
            if name not in problems
        }
        return replace(self, columns=columns, problems={**self.problems, **problems})

    def with_others(self, other: TableColumns) -> TableColumns:
        """Return the columns of two parts of an axis, each with ``name`` and ``index``."""
        both = {**self.columns, **other.columns}
        names = (NAME, INDEX, *sorted(both.keys() - {NAME, INDEX}))
        problems = {**self.problems, **other.problems}
        return replace(self, columns={name: both[name] for name in names}, problems=problems)

    def indexes(self, names: Sequence[str], cache: DecodedCache) -> Sequence[RowIndex]:
        """Return the indexes of some columns, as far as they have the values that are stored."""
        columns = map(self.columns.__getitem__, names)
        vectors = [each.vector for each in columns if each.vector and each.is_compared_stored]
        return (
            vectors[0].indexes.find([each.info.name for each in vectors], cache) if vectors else ()
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema; engines ask for it several times per query."""
        return pa.schema([column.field for column in self.columns.values()])


def signature_of(columns: TableColumns) -> Hashable | None:
    """Return what tables of the same schema have in common, all of whose columns are vectors.

    ``None`` if one of the columns is none: the table has to be looked at by itself.
    """
    parts: list[Hashable] = []
    for name, column in columns.columns.items():
        vector = column.vector
        if vector is None:
            return None
        parts.append((name, vector.info.storage_type, vector.info.empty_is_missing))
    return tuple(parts)


def check_column_names(names: Iterable[str], where: str, remedy: str) -> None:
    """Raise for a name with a NUL character, where Arrow ends names that it hands to others."""
    for name in names:
        if "\0" in name:
            raise errors.InvalidInputError(
                f"{where} cannot have a column {name!r}, since names of columns end at a NUL "
                f"character; use {remedy}"
            )


class UnreadableVectorWarning(errors.DafWarning):
    """A vector cannot be read, so a table lacks its column."""


def warn_of_problems(columns: TableColumns, owner: object) -> None:
    """Warn of each column that a table lacks, with the reason; once for what has the table."""
    for name, problem in columns.problems.items():
        text = f"the table {columns.table!r} lacks the column {name!r}: {problem}"
        errors.warn(text, UnreadableVectorWarning, once_for=owner)
