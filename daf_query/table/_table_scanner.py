"""Scanners of a table: what they are given, and batches with the face of pyarrow's scanner.

It is given filters as pyarrow passes them, and a view: which rows are wanted, and how they are
read.  It answers with batches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.scan import (
    DEFAULT_OPTIONS,
    PLAIN_TYPES,
    And,
    Constant,
    IsNull,
    Or,
    Positions,
    Predicate,
    Scan,
    ScanOptions,
    ScanReport,
    cast_to,
    until_interpreter_ends,
)
from daf_storage.base import DecodedCache, Span

_MISSING_FIELD: Final = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ", re.DOTALL)


def as_expression(filter: Any) -> pc.Expression | None:  # noqa: A002 - pyarrow's name
    """Return a filter as an expression: DataFusion passes constants as Arrow scalars."""
    if isinstance(filter, pa.Scalar):
        return pc.scalar(bool(filter.as_py()))
    return filter


def is_same_filter(first: pc.Expression | None, second: pc.Expression | None) -> bool:
    """Return whether two filters are written alike; None is no filter."""
    if first is None or second is None:
        return first is second
    return bool(first.equals(second))


def both(first: pc.Expression | None, second: pc.Expression | None) -> pc.Expression | None:
    """Return what is true where two filters are; None is no filter."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def referenced_columns(
    expression: pc.Expression,
    fields: Mapping[str, pa.Field],
    not_found: Callable[[str], Exception],
) -> set[str]:
    """Return the columns of an expression: those that binding it finds missing.

    All of them if Arrow does not say.

    Parameters
    ----------
    fields
        The columns of the table.
    not_found
        Makes the error that is raised for a column that the table lacks.

    Examples
    --------
    >>> fields = {name: pa.field(name, pa.int64()) for name in ("age", "batch", "score")}
    >>> old = (pc.field("age") > 2) & pc.is_null(pc.field("score"))
    >>> sorted(referenced_columns(old, fields, KeyError))
    ['age', 'score']
    """
    bound: dict[str, pa.Field] = {}
    while True:
        schema = pa.schema(bound.values())
        try:
            ds.Scanner.from_batches(iter(()), schema=schema, filter=expression)
        except pa.ArrowInvalid as error:
            name = _missing_field(str(error), fields)
            if name is None or name in bound:
                return set(fields)
            if name not in fields:
                raise not_found(name) from None
            bound[name] = fields[name]
        except pa.ArrowNotImplementedError:
            return set(fields)
        else:
            return set(bound)


def _missing_field(message: str, columns: Iterable[str]) -> str | None:
    """Return the column that Arrow did not find; names may hold any character."""
    named = [column for column in columns if f"FieldRef.Name({column}) in " in message]
    if named:
        return max(named, key=len)
    match = _MISSING_FIELD.search(message)
    return match.group(1) if match else None


@dataclass(frozen=True, eq=False)
class TableView:
    """Which rows of a table are wanted, and how they are read."""

    base_filter: pc.Expression | None = None
    """Only the rows for which this is true."""
    rows: Positions | None = None
    """Only these rows, ascending."""
    inferred: Predicate | None = None
    """Other rows may be left out; those for which it is not known are kept."""
    cache: DecodedCache = field(default_factory=DecodedCache)
    """What was decoded by any scan that shares it."""
    reports: list[ScanReport] | None = None
    """Where to leave a report of each scan."""
    options: ScanOptions = DEFAULT_OPTIONS
    """How rows are cut, pruned and read."""

    @property
    def is_filtered(self) -> bool:
        """Whether some rows may be left out."""
        parts = (self.base_filter, self.rows, self.inferred)
        return any(part is not None for part in parts)

    def pickled(self) -> dict[str, Any]:
        """Return the parts that another process gets: all but the cache and the reports."""
        names = ("base_filter", "rows", "inferred", "options")
        return {name: getattr(self, name) for name in names}


class TableScanner:
    """Batches that are filtered and projected already; what engines ask of a ``ds.Scanner``."""

    def __init__(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], batch_rows: int
    ) -> None:
        self.projected_schema = schema
        self.dataset_schema = schema
        self._batches = batches
        self._batch_rows = batch_rows

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, none of them with more rows than was asked for."""
        for batch in self._batches:
            if not batch.num_columns:
                yield batch
                continue
            for start in range(0, batch.num_rows, self._batch_rows):
                yield batch.slice(start, self._batch_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as an Arrow stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Return all rows."""
        if len(self.projected_schema):
            return pa.Table.from_batches(self._batches, self.projected_schema)
        return self._rows().to_table()

    def count_rows(self) -> int:
        """Return how many rows there are."""
        return sum(batch.num_rows for batch in self._batches)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows; reads no more than it has to."""
        return self._rows().head(num_rows)

    def take(self, indices: Any) -> pa.Table:
        """Return rows by their positions among those that are left."""
        return self.to_table().take(pa.array(indices))

    def scan_batches(self) -> Iterator[Any]:
        """Yield the batches as pyarrow's own scanner wraps them."""
        yield from self._rows().scan_batches()

    def _rows(self) -> ds.Scanner:
        return ds.Scanner.from_batches(self.to_batches(), schema=self.projected_schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without views, which Arrow stores and cannot compare."""
    return pa.schema([field.with_type(PLAIN_TYPES.get(field.type, field.type)) for field in schema])


def cast_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches with columns of other types."""
    for batch in batches:
        arrays = [
            column if column.type == field.type else cast_to(column, field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch


def scanned_batches(
    make_scan: Callable[[Predicate | None], Scan],
    predicate: Predicate | None,
    names: Sequence[str],
    partitions: Sequence[Span] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches; nothing is planned or read before the first is asked for."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from make_scan(predicate).batches(names, partitions)

    return until_interpreter_ends(batches())


def without(predicate: Predicate, absent: frozenset[str]) -> Predicate:
    """Return a predicate where some columns are null in all rows.

    >>> without(And((IsNull("age"), IsNull("name"))), frozenset({"age"}))
    And(parts=(Constant(value=True), IsNull(column='name', is_negated=False)))
    """
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(without(part, absent) for part in predicate.parts))
    if isinstance(predicate, Constant) or predicate.column not in absent:
        return predicate
    return Constant(value=isinstance(predicate, IsNull) and not predicate.is_negated)
