"""A table that has a schema and no rows, and notes what an engine would have read of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query.table._filter_expressions import as_expression
from daf_query.table._table_scanner import TableScanner
from daf_query.table._unscannable import unscannable


@dataclass(frozen=True, slots=True, eq=False)
class AskedScan:
    """One scan that a plan has of a table."""

    columns: tuple[str, ...]
    """What it reads."""
    filter: pc.Expression | None
    """What it was given to evaluate."""


class SchemaOnlyDataset(ds.UnionDataset):
    """The columns of a table without its rows; an engine plans queries on it.

    Examples
    --------
    >>> table = SchemaOnlyDataset(pa.schema([("age", pa.int64()), ("name", pa.string())]))
    >>> _ = table.scanner(columns=["name"], filter=pc.field("age") > 60)
    >>> [(scan.columns, str(scan.filter)) for scan in table.scans]
    [(('name',), '(age > 60)')]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.scans: list[AskedScan] = []
        """The scans of all plans so far."""
        # A C++ dataset behind this object, lest pyarrow follow a null pointer.
        ds.UnionDataset.__init__(self, schema, [unscannable(schema)])

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self._schema

    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002, ARG002 - pyarrow's signature
    ) -> Iterator[Any]:
        """Yield one fragment, since some plans need to know of one; it has no rows."""
        yield self

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: Any,
    ) -> Any:
        """Note what is asked for, and return a scanner of no rows."""
        names = tuple(self._schema.names if columns is None else columns)
        self.scans.append(AskedScan(names, as_expression(filter)))
        projected = pa.schema([self._schema.field(name) for name in names])
        return TableScanner(projected, iter(()), 1)
