"""Categoricals of an AnnData import as Arrow dictionaries, their categories in the noted order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import Column, OpenColumn, Rows, ScanOptions
from daf_query.table._wrapped_column import WrappedOpenColumn
from daf_storage.spi import DecodedCache, RecordedType

Categoricals: TypeAlias = Literal["string", "dictionary"]
"""How a table shows categoricals."""

CATEGORIES: Final = b"daf.categories"
"""Key of the metadata of a field: the categories, a JSON list.  Engines keep it, not the order."""
ORDERED: Final = b"daf.ordered"
"""Key of the metadata of a field whose categories have an order."""


def categorical_columns(
    columns: Mapping[str, Column], recorded: Mapping[str, RecordedType]
) -> dict[str, Column]:
    """Return columns, those of categoricals as dictionaries."""
    encoded_columns = dict(columns)
    for name in recorded.keys() & columns.keys():
        categories = recorded[name].categories
        if categories is not None and columns[name].field.type == pa.string():
            encoded_columns[name] = CategoricalColumn(
                columns[name], categories, recorded[name].is_ordered
            )
    return encoded_columns


@dataclass(frozen=True, eq=False)
class CategoricalColumn:
    """A column of strings as dictionary codes; predicates are evaluated on the strings."""

    stored: Column
    """The strings."""
    categories: pa.Array
    """In their order."""
    is_ordered: bool
    """Whether the order has a meaning."""

    @property
    def field(self) -> pa.Field:
        """Its name and Arrow type."""
        stored = self.stored.field
        arrow_type = pa.dictionary(pa.int32(), pa.string(), self.is_ordered)
        metadata = {CATEGORIES: json.dumps(self.categories.to_pylist()).encode()}
        if self.is_ordered:
            metadata[ORDERED] = b"true"
        return pa.field(stored.name, arrow_type, nullable=stored.nullable, metadata=metadata)

    @property
    def chunk_rows(self) -> int:
        """How many rows are stored together."""
        return self.stored.chunk_rows

    @property
    def is_string(self) -> bool:
        """Whether its values are strings."""
        return self.stored.is_string

    def open(self, cache: DecodedCache, options: ScanOptions) -> OpenColumn:
        """Begin to read it."""
        return _OpenCategorical(self.stored.open(cache, options), self)


class _OpenCategorical(WrappedOpenColumn):
    """A categorical column that is being read."""

    def __init__(self, column: OpenColumn, categorical: CategoricalColumn) -> None:
        super().__init__(column)
        self._categorical = categorical

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return values as codes."""
        column = self._categorical
        return encoded(self._column.to_arrow(rows), column.categories, is_ordered=column.is_ordered)


def encoded(strings: pa.Array, categories: pa.Array, *, is_ordered: bool) -> pa.DictionaryArray:
    """Return strings as codes of categories; values that are none of them follow, sorted.

    >>> strings = pa.array(["b", "x", None])
    >>> encoded(strings, pa.array(["b", "a"]), is_ordered=False).indices.to_pylist()
    [0, 2, None]
    """
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
        is_ordered = ORDERED in metadata
        column = encoded(strings, categories, is_ordered=is_ordered)
        new = pa.field(field.name, column.type, field.nullable)
        table = table.set_column(place, new, column)
    return table
