"""The completer: what may stand for the word at the cursor."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_query.completion._context import Context, context_of
from daf_query.completion._keywords import BEGINNINGS, KEYWORDS
from daf_query.completion._named_tables import tables_in
from daf_query.completion._names import Names, written
from daf_query.session import DafSession
from daf_storage import errors

CompletionKind: TypeAlias = Literal[
    "table", "schema", "column", "matrix", "entry", "function", "keyword"
]
"""What a completion is."""

_TABLE_FUNCTIONS: Final = ("matrix", "profile")
_NEVER_QUOTED: Final = ("function", "keyword")


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


class SqlCompleter:
    """Completes tables, columns, functions, keywords, and the entries of matrices.

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
    """

    def __init__(self, session: DafSession) -> None:
        self._session = session
        self._names = Names(session)
        self._functions: list[str] | None = None

    def forget(self) -> None:
        """Look the names up again."""
        self._names = Names(self._session)

    def completions(self, sql: str, cursor: int | None = None) -> list[Completion]:
        """Return what may stand for the word before the cursor; by default that is the end.

        What cannot be looked up, as of a file that is gone, has no completions.
        """
        context = context_of(sql, len(sql) if cursor is None else cursor)
        completions: list[Completion] = []
        with suppress(errors.DafError, OSError):
            completions.extend(self._of(context, sql))
        if sql[context.start : context.start + 1] == '"':  # only names are quoted
            completions = [each for each in completions if each.kind not in _NEVER_QUOTED]
        return list({each.text: each for each in completions}.values())

    def _of(self, context: Context, sql: str) -> Iterator[Completion]:
        names = self._names
        if context.place == "nothing":
            return
        start, stop = context.statement
        named = tables_in(sql[start:stop], names.tables().keys())
        if context.place == "entry":
            yield from self._entries(context, named.values(), sql)
        elif context.qualifier:
            yield from self._qualified(context, named)
        elif context.place == "table":
            yield from self._tables(context)
            yield from _matching(context, _TABLE_FUNCTIONS, "function", "(")
        elif context.place == "beginning":
            yield from _matching(context, BEGINNINGS, "keyword")
        else:
            yield from self._expressions(context, named)

    def _entries(
        self, context: Context, tables: Iterable[tuple[str, ...]], sql: str
    ) -> Iterator[Completion]:
        """Yield the entries of a matrix; what closes their brackets too, unless that is there."""
        matrices = [
            matrix
            for table in (list(tables) or self._names.axes())
            for matrix in self._names.matrices(table)
            if matrix.name == context.matrix
        ]
        cursor = context.start + len(context.prefix) + context.prefix.count("'")
        closing = "" if sql[cursor : cursor + 1] == "'" else "']"
        entries = (self._names.entries(matrix, context.prefix) for matrix in matrices)
        for entry in itertools.chain.from_iterable(entries):
            doubled = entry.replace("'", "''")
            yield Completion(doubled + closing, context.start, "entry", entry)

    def _qualified(
        self, context: Context, named: dict[str, tuple[str, ...]]
    ) -> Iterator[Completion]:
        """Yield the columns of a table, or the tables of a schema."""
        names = self._names
        qualifier = context.qualifier
        table = named.get(qualifier[0]) if len(qualifier) == 1 else None
        table = table or (qualifier if qualifier in names.tables() else None)
        if table is not None and context.place != "table":
            yield from _names_in(context, names.columns(table), "column")
        of_schema = [parts[1] for parts in names.tables() if parts[:-1] == qualifier]
        yield from _names_in(context, of_schema, "table")

    def _tables(self, context: Context) -> Iterator[Completion]:
        for parts in self._names.shortest():
            if parts[-1].lower().startswith(context.prefix.lower()) or (
                parts[0].lower().startswith(context.prefix.lower())
            ):
                text = ".".join(map(written, parts))
                yield Completion(text, context.start, "table", ".".join(parts))

    def _expressions(
        self, context: Context, named: dict[str, tuple[str, ...]]
    ) -> Iterator[Completion]:
        names = self._names
        tables = list(named.values()) or names.axes()
        for table in tables:
            yield from _names_in(context, names.columns(table), "column")
        for table in tables:
            for matrix in names.matrices(table):
                is_typed = matrix.name.lower().startswith(context.prefix.lower())
                if is_typed and not matrix.is_ambiguous:
                    text = f"{written(matrix.name)}['"
                    yield Completion(text, context.start, "matrix", f"{matrix.name}['...']")
        yield from _names_in(context, named, "table")
        if self._functions is None:
            self._functions = names.functions()
        yield from _matching(context, self._functions, "function", "(")
        yield from _matching(context, KEYWORDS, "keyword")


def _names_in(context: Context, names: Iterable[str], kind: CompletionKind) -> Iterator[Completion]:
    """Yield the names that begin with what is typed."""
    prefix = context.prefix.lower()
    for name in names:
        if name.lower().startswith(prefix):
            yield Completion(written(name), context.start, kind, name)


def _matching(
    context: Context, words: Iterable[str], kind: CompletionKind, after: str = ""
) -> Iterator[Completion]:
    """Yield the words that begin with what is typed, in its case."""
    prefix = context.prefix
    is_lower = prefix != "" and prefix == prefix.lower()
    for word in words:
        if word.lower().startswith(prefix.lower()):
            text = word.lower() if is_lower else word
            yield Completion(text + after, context.start, kind, word)
