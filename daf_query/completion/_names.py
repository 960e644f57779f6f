"""Names of what is connected: tables, their columns, matrices and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from daf_query.completion._keywords import BEGINNINGS, KEYWORDS
from daf_query.session import DafSession
from daf_query.sql import listed_tables
from daf_query.syntax import quoted_name
from daf_storage import errors

_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_RESERVED: Final = frozenset({*KEYWORDS, *(word.split()[0] for word in BEGINNINGS)})
_FUNCTIONS: Final = "SELECT DISTINCT routine_name AS name FROM information_schema.routines"
_MOST_ENTRIES: Final = 50


def written(name: str) -> str:
    """Return a name as SQL has it: in quotes only where it needs them.

    >>> written("age"), written("n counts"), written("order")
    ('age', '"n counts"', '"order"')
    """
    is_plain = _PLAIN.fullmatch(name) and name.upper() not in _RESERVED
    return name if is_plain else quoted_name(name)


@dataclass(frozen=True, slots=True)
class NamedMatrix:
    """A matrix, from one of its axes."""

    name: str
    """As a query writes it on a table of that axis, without quotes."""
    entries_schema: str
    entries_axis: str
    """The axis whose entries are named in its brackets."""
    is_ambiguous: bool = False
    """Whether other matrices have the name, too."""


class Names:
    """The names at one moment, each asked for once."""

    def __init__(self, session: DafSession) -> None:
        self._session = session
        self._connections = session._connections  # noqa: SLF001 - our own
        self._columns: dict[tuple[str, ...], list[str]] = {}
        self._tables: dict[tuple[str, ...], tuple[str, str]] | None = None

    def tables(self) -> Mapping[tuple[str, ...], tuple[str, str]]:
        """Return the tables by the parts of each name that they have, with schema and table."""
        if self._tables is None:
            listed = listed_tables(self._connections)
            schemas = self._connections.schemas
            self._tables = {}
            for table in listed:
                key = (table.schema, table.name)
                self._tables[key] = key
                if len(schemas) == 1 or table.schema not in schemas:
                    self._tables[(table.name,)] = key
        return self._tables

    def shortest(self) -> list[tuple[str, ...]]:
        """Return the tables by the shortest name that each has."""
        shortest = {table: parts for parts, table in self.tables().items()}
        return sorted(shortest.values())

    def schemas(self) -> list[str]:
        """Return the schemas."""
        return list(self._connections.schemas)

    def columns(self, parts: tuple[str, ...]) -> list[str]:
        """Return the columns of a table; none if it cannot be read."""
        if parts not in self._columns:
            self._columns[parts] = []
            with suppress(errors.DafError):
                self._columns[parts] = self._read_columns(*self.tables()[parts])
        return self._columns[parts]

    def axes(self) -> list[tuple[str, ...]]:
        """Return the tables that are axes."""
        return [parts for parts in self.shortest() if self._is_axis(*self.tables()[parts])]

    def matrices(self, parts: tuple[str, ...]) -> Iterator[NamedMatrix]:
        """Yield the matrices of a table that is an axis."""
        schema, axis = self.tables()[parts]
        if not self._is_axis(schema, axis):
            return
        described = self._connections.schema(schema).description("matrices").to_table().to_pylist()
        others = {
            (row["name"], row["columns_axis"] if row["rows_axis"] == axis else row["rows_axis"])
            for row in described
            if axis in (row["rows_axis"], row["columns_axis"])
        }
        named = [name for name, _ in others]
        for name, other in sorted(others):
            yield NamedMatrix(name, schema, other, is_ambiguous=named.count(name) > 1)
            yield NamedMatrix(f"{other}.{name}", schema, other)

    def entries(self, matrix: NamedMatrix, prefix: str) -> list[str]:
        """Return the first entries that begin with something, in either case."""
        table = f"{quoted_name(matrix.entries_schema)}.{quoted_name(matrix.entries_axis)}"
        query = (
            f"SELECT DISTINCT name FROM {table} WHERE starts_with(lower(name), $prefix) "  # noqa: S608 - quoted, and it only reads
            f"ORDER BY name LIMIT {_MOST_ENTRIES}"
        )
        rows = self._session.sql(query, params={"prefix": prefix.lower()})
        return [str(name) for name in rows.to_pydict()["name"]]

    def functions(self) -> list[str]:
        """Return the functions of the dialect."""
        return sorted(str(name) for name in self._session.sql(_FUNCTIONS).to_pydict()["name"])

    def _is_axis(self, schema: str, name: str) -> bool:
        tables = self._connections.schemas.get(schema)
        return tables is not None and name in tables.axes_set() and not tables.has_added(name)

    def _read_columns(self, schema: str, name: str) -> list[str]:
        if self._is_axis(schema, name):  # without the warnings that a query of it may have
            return list(self._connections.schema(schema).dataset(name).schema.names)
        table = f"{quoted_name(schema)}.{quoted_name(name)}"
        return self._session.sql(f"SELECT * FROM {table}").column_names  # noqa: S608 - it is planned only
