"""The completer: what may stand for the word at the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from daf_query.completion._typed import BEGINNINGS, KEYWORDS, Typed, typed_at
from daf_query.scan import NAME
from daf_query.session import DafSession
from daf_query.sql import ListedTable, listed_tables
from daf_query.syntax import quoted_name
from daf_storage import errors

CompletionKind: TypeAlias = Literal[
    "table", "column", "matrix", "entry", "value", "function", "keyword"
]
"""What a completion is."""

_TABLE_FUNCTIONS: Final = ("markers", "matrix", "profile", "totals")
_NEVER_QUOTED: Final = ("function", "keyword")
_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_RESERVED: Final = frozenset({*KEYWORDS, *(word.split()[0] for word in BEGINNINGS)})
_FUNCTIONS: Final = "SELECT DISTINCT routine_name AS name FROM information_schema.routines"
_MOST_ENTRIES: Final = 50


@dataclass(frozen=True, slots=True)
class Completion:
    """Something that may stand for what is typed."""

    text: str
    """What is written, with quotes where it needs them."""
    start: int
    """Where what it replaces begins in the SQL; that ends at the cursor."""
    kind: CompletionKind
    """What it is."""
    name: str
    """What people are shown."""


class _Matrix(NamedTuple):
    """A matrix, from one of its axes."""

    name: str
    """As a query writes it on a table of that axis, without quotes."""
    schema: str
    axis: str
    """The axis whose entries are named in its brackets."""


class SqlCompleter:
    """Completes tables, columns and their values, functions, keywords, and entries of matrices.

    What is connected is looked up once; `forget` makes the next completion look again.  It may be
    used from several threads.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.add_axis("gene", ["CD8A", "CD8B", "LYZ"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> daf.set_matrix("cell", "gene", "X", [[1, 2, 0], [3, 4, 0]])
    >>> completer = SqlCompleter(daf_query.connect(daf))
    >>> [each.text for each in completer.completions("SELECT X['cd8", 13)]
    ["CD8A']", "CD8B']"]
    >>> [(each.text, each.kind) for each in completer.completions("SELECT ag FROM cell", 9)]
    [('age', 'column')]
    >>> [each.text for each in completer.completions("SELECT age FROM cell WHERE name = 'g")]
    ["GATA'"]
    """

    def __init__(self, session: DafSession) -> None:
        self._session = session
        self._connections = session._connections  # noqa: SLF001 - our own
        self._functions: list[str] | None = None
        self.forget()

    def forget(self) -> None:
        """Look the names up again."""
        self._columns: dict[tuple[str, ...], list[str]] = {}
        self._known: dict[tuple[str, ...], ListedTable] | None = None

    def completions(self, sql: str, cursor: int | None = None) -> list[Completion]:
        """Return what may stand for the word before the cursor; by default that is the end.

        What cannot be looked up, as of a file that is gone, has no completions.
        """
        typed = typed_at(sql, len(sql) if cursor is None else cursor)
        if typed is None:
            return []
        completions: list[Completion] = []
        with suppress(errors.DafError, OSError):
            completions.extend(self._of(typed, sql))
        if sql[typed.start : typed.start + 1] == '"':  # only names are quoted
            completions = [each for each in completions if each.kind not in _NEVER_QUOTED]
        return list({each.text: each for each in completions}.values())

    def _of(self, typed: Typed, sql: str) -> Iterator[Completion]:
        tables = self._tables()
        named = typed.tables(tables)
        among = list(named.values()) or [each for each in self._shortest() if tables[each].key]
        if typed.place == "entry":
            matrices = [each for parts in among for each in self._matrices(parts)]
            axes = ((m.schema, m.axis) for m in matrices if m.name == typed.owner)
            yield from self._values(typed, [(*axis, NAME) for axis in axes], sql, "']")
        elif typed.place == "value":
            having = [parts for parts in among if typed.owner in self._columns_of(parts)]
            yield from self._values(typed, [(*parts, typed.owner) for parts in having], sql, "'")
        elif typed.qualifier:
            yield from self._qualified(typed, named)
        elif typed.place == "table":
            for parts in self._shortest():
                if any(_begins(typed, each) for each in (parts[0], parts[-1])):
                    text = ".".join(map(_written, parts))
                    yield Completion(text, typed.start, "table", ".".join(parts))
            yield from _words(typed, _TABLE_FUNCTIONS, "function", "(")
        elif typed.place == "beginning":
            yield from _words(typed, BEGINNINGS, "keyword")
        else:
            yield from self._expressions(typed, named, among)

    def _qualified(self, typed: Typed, named: dict[str, tuple[str, ...]]) -> Iterator[Completion]:
        """Yield the columns of a table, or the tables of a schema."""
        tables, qualifier = self._tables(), typed.qualifier
        table = named.get(".".join(qualifier), qualifier if qualifier in tables else None)
        if table is not None and typed.place != "table":
            yield from _names(typed, self._columns_of(table), "column")
        of_schema = [parts[1] for parts in tables if parts[:-1] == qualifier]
        yield from _names(typed, of_schema, "table")

    def _expressions(
        self, typed: Typed, named: Iterable[str], among: list[tuple[str, ...]]
    ) -> Iterator[Completion]:
        for parts in among:
            yield from _names(typed, self._columns_of(parts), "column")
        for parts in among:
            matrices = list(self._matrices(parts))
            names = [matrix.name for matrix in matrices]
            for name in names:
                if names.count(name) == 1 and _begins(typed, name):
                    text = f"{_written(name)}['"
                    yield Completion(text, typed.start, "matrix", f"{name}['...']")
        yield from _names(typed, named, "table")
        if self._functions is None:
            self._functions = sorted(self._session.sql(_FUNCTIONS).to_pydict()["name"])
        yield from _words(typed, self._functions, "function", "(")
        yield from _words(typed, KEYWORDS, "keyword")

    def _values(
        self, typed: Typed, columns: Iterable[tuple[str, ...]], sql: str, closing: str
    ) -> Iterator[Completion]:
        """Yield the first values of columns, in either case; with what closes their quote."""
        cursor = typed.start + len(typed.prefix) + typed.prefix.count("'")
        closing = "" if sql[cursor : cursor + 1] == "'" else closing
        for *table, column in columns:
            text = f"CAST({quoted_name(column)} AS VARCHAR)"
            query = (
                f"SELECT DISTINCT {text} AS v FROM {'.'.join(map(quoted_name, table))} "  # noqa: S608 - quoted, and it only reads
                f"WHERE starts_with(lower({text}), $prefix) ORDER BY v LIMIT {_MOST_ENTRIES}"
            )
            found = self._session.sql(query, params={"prefix": typed.prefix.lower()})
            kind: CompletionKind = "value" if typed.place == "value" else "entry"
            for value in found.to_pydict()["v"]:
                doubled = value.replace("'", "''")
                yield Completion(doubled + closing, typed.start, kind, value)

    def _tables(self) -> dict[tuple[str, ...], ListedTable]:
        """Return the tables by the parts of each name that they have."""
        if self._known is None:
            known, schemas = dict[tuple[str, ...], ListedTable](), self._connections.schemas
            for table in listed_tables(self._connections):
                known[table.schema, table.name] = table
                if len(schemas) == 1 or table.schema not in schemas:
                    known[table.name,] = table
            self._known = known
        return self._known

    def _shortest(self) -> list[tuple[str, ...]]:
        """Return the tables by the shortest name that each has."""
        return sorted({table: parts for parts, table in self._tables().items()}.values())

    def _columns_of(self, parts: tuple[str, ...]) -> list[str]:
        """Return the columns of a table; none if it cannot be read."""
        if parts not in self._columns:
            self._columns[parts] = []
            table = self._tables()[parts]
            with suppress(errors.DafError):
                if table.key:  # an axis, without the warnings that a query of it may have
                    tables = self._connections.schema(table.schema)
                    self._columns[parts] = list(tables.dataset(table.name).schema.names)
                else:
                    name = f"{quoted_name(table.schema)}.{quoted_name(table.name)}"
                    query = f"SELECT * FROM {name}"  # noqa: S608 - it is planned only
                    self._columns[parts] = self._session.sql(query).column_names
        return self._columns[parts]

    def _matrices(self, parts: tuple[str, ...]) -> Iterator[_Matrix]:
        """Yield the matrices of a table that is an axis, each by both of its names."""
        schema, axis = self._tables()[parts].schema, self._tables()[parts].name
        if not self._tables()[parts].key:
            return
        described = self._connections.schema(schema).description("matrices").to_table().to_pylist()
        pairs = [(each["name"], (each["rows_axis"], each["columns_axis"])) for each in described]
        others = {(name, axes[axes[0] == axis]) for name, axes in pairs if axis in axes}
        for name, other in sorted(others):
            yield _Matrix(name, schema, other)
            yield _Matrix(f"{other}.{name}", schema, other)


def _written(name: str) -> str:
    """Return a name as SQL has it: in quotes only where it needs them.

    >>> _written("age"), _written("n counts"), _written("order")
    ('age', '"n counts"', '"order"')
    """
    is_plain = _PLAIN.fullmatch(name) and name.upper() not in _RESERVED
    return name if is_plain else quoted_name(name)


def _begins(typed: Typed, name: str) -> bool:
    return name.lower().startswith(typed.prefix.lower())


def _names(typed: Typed, names: Iterable[str], kind: CompletionKind) -> Iterator[Completion]:
    """Yield the names that begin with what is typed."""
    for name in names:
        if _begins(typed, name):
            yield Completion(_written(name), typed.start, kind, name)


def _words(
    typed: Typed, words: Iterable[str], kind: CompletionKind, after: str = ""
) -> Iterator[Completion]:
    """Yield the words that begin with what is typed, in its case."""
    is_lower = typed.prefix != "" and typed.prefix.islower()
    for word in words:
        if _begins(typed, word):
            yield Completion((word.lower() if is_lower else word) + after, typed.start, kind, word)
