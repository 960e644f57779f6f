"""Completion of SQL: what may come next where someone types.

**Nouns.** The *context* is what the SQL before the cursor says of the word that is typed: a table
after FROM, a column, the name of an entry within ``X['``.  The *names* are those of the tables,
columns and matrices that are connected.  A *completion* is what may stand for the word.

What is typed is not finished, so it is read by its tokens.

Must not know terminals, notebooks or pages: whoever shows the completions asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from daf_query.scan import NAME
from daf_query.session import DafSession
from daf_query.sql import USAGES, ListedTable, listed_tables
from daf_query.syntax import KEYWORDS, Token, plain_name, quoted_name, tokens_of, unquoted_name
from daf_storage import errors

Place: TypeAlias = Literal["beginning", "table", "expression", "entry", "value"]
"""What may stand at the cursor."""

BEGINNINGS: Final = ("SELECT", "FROM", "WITH", "EXPLAIN", "DESCRIBE", "SHOW TABLES", "VALUES")
"""What a statement begins with."""

_TABLE_FOLLOWS: Final = ("FROM", "JOIN", "DESCRIBE")
_CLAUSES: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "ON", "LIMIT", "QUALIFY"),
    *("JOIN", "DESCRIBE"),
)
_COMPARING: Final = ("=", "<>", "!=", "IN", "NOT", "LIKE", "ILIKE")
_Word: TypeAlias = tuple[str, str]
"""A token as it is written, words in capitals; and the name that it is, empty for no name."""


@dataclass(frozen=True, slots=True)
class Typed:
    """The word that is typed, and where it stands."""

    place: Place
    prefix: str
    """What of the word is before the cursor, without quotes."""
    start: int
    """Where the word begins in the SQL, with its quote."""
    qualifier: tuple[str, ...]
    """The names before it, each with a dot: ``("cell",)`` of ``cell.ag``."""
    owner: str
    """The matrix of whose entry this is the name, or the column of which it is a value."""
    words: tuple[_Word, ...]
    """The statement around it."""

    def tables(self, available: Collection[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the tables of the statement, by their aliases, or else by their names.

        >>> typed = typed_at("SELECT c. FROM cell AS c, gene", 9)
        >>> typed.tables({("cell",), ("gene",)})
        {'c': ('cell',), 'gene': ('gene',)}
        >>> typed = typed_at("SELECT x FROM a.cell c, gene JOIN s.t.u AS k ON true", 8)
        >>> typed.tables({("a", "cell"), ("gene",), ("s", "t", "u")})
        {'c': ('a', 'cell'), 'gene': ('gene',), 'k': ('s', 't', 'u')}
        """
        found: dict[str, tuple[str, ...]] = {}
        words, clause = (*self.words, *[("", "")] * 3), ""
        for number, (word, _) in enumerate(self.words):
            clause = word if word in _CLAUSES else clause
            if word not in _TABLE_FOLLOWS and not (word == "," and clause in _TABLE_FOLLOWS):
                continue
            parts: tuple[str, ...] = (words[number + 1][1],)
            place = number + 2
            while words[place][0] == ".":
                parts, place = (*parts, words[place + 1][1]), place + 2
            after, alias = words[place + (words[place][0] == "AS")]
            is_alias = alias and after not in (*KEYWORDS, *_CLAUSES)
            if parts in available:
                found[alias if is_alias else parts[-1]] = parts
        return found


def typed_at(sql: str, cursor: int) -> Typed | None:
    """Return what is typed at a place; None within comments, strings, numbers and parameters.

    Examples
    --------
    >>> typed = typed_at("SELECT X['CD8 FROM cell", 13)
    >>> typed.place, typed.owner, typed.prefix, typed.start
    ('entry', 'X', 'CD8', 10)
    >>> for sql in ("SELECT 1; SELECT ag", "SELECT a.b.c", 'SELECT "a""b', "x WHERE n = 'it''s"):
    ...     typed = typed_at(sql, len(sql))
    ...     print(typed.place, typed.prefix, typed.start, typed.qualifier, [typed.owner])
    expression ag 17 () ['']
    expression c 11 ('a', 'b') ['']
    expression a"b 7 () ['']
    value it's 13 () ['n']
    >>> [typed_at(sql, len(sql)) for sql in ("SELECT x -- ab", "SELECT 12", "SELECT 'a")]
    [None, None, None]
    """
    text = f"{sql[:cursor]}x"  # the last token shows where the cursor stands
    tokens = tokens_of(text)
    first = max((n for n, token in enumerate(tokens, 1) if token.is_operator(";")), default=0)
    tokens = tokens[first:]
    opened = next((n for n, t in enumerate(tokens) if t.is_operator("'", '"')), None)
    while opened and _touches(tokens, opened):  # 'it'' is not closed yet
        opened -= 1
    number = len(tokens) - 1 if opened is None else opened
    if number < 0 or (opened is None and not _is_word(tokens, cursor)):
        return None
    start = tokens[number].start
    quote = "" if opened is None else sql[start]
    prefix = (
        sql[start + len(quote) : cursor].replace(quote * 2, quote) if quote else sql[start:cursor]
    )
    words = _read_words(text, tokens[:number])
    rest = sql[cursor:].removeprefix(quote)
    after = tokens_of(rest)
    end = next((n for n, token in enumerate(after) if token.is_operator(";")), len(after))
    around = (*words, *_read_words(rest, after[:end]))
    if quote == "'":
        if len(words) > 1 and words[-1][0] == "[":
            return Typed("entry", prefix, start + 1, (), words[-2][1], around)
        column = _compared(words)
        return Typed("value", prefix, start + 1, (), column, around) if column else None
    qualifier: tuple[str, ...] = ()
    while len(words) > 1 and words[-1][0] == "." and words[-2][1]:
        qualifier, words = (words[-2][1], *qualifier), words[:-2]
    return Typed(_place_after(words), prefix, start, qualifier, "", around)


def _compared(words: Sequence[_Word]) -> str:
    """Return the column that a string after some words is compared with; empty if there is none.

    >>> _compared([("AGE", "age"), ("IN", "in"), ("(", ""), ("'1'", ""), (",", "")])
    'age'
    >>> _compared([("FROM", "from"), ("cell", "cell")]), _compared([])
    ('', '')
    """
    is_compared = False
    for word, name in reversed(words):
        if name and word not in _COMPARING:
            return name if is_compared and word not in (*KEYWORDS, *_CLAUSES) else ""
        is_compared = is_compared or word in _COMPARING
    return ""


def _touches(tokens: Sequence[Token], number: int) -> bool:
    before = tokens[number - 1]
    return before.kind in ("string", "quoted") and before.stop == tokens[number].start


def _is_word(tokens: Sequence[Token], cursor: int) -> bool:
    """Return whether the last token is a word that the cursor is in, or may begin."""
    is_last = tokens[-1].kind == "word" and tokens[-1].stop == cursor + 1
    return is_last and not _touches((tokens[0], *tokens), len(tokens))


def _read_words(text: str, tokens: Sequence[Token]) -> tuple[_Word, ...]:
    names = (unquoted_name(text[each.start : each.stop]) for each in tokens)
    return tuple(
        (each.text, name if each.kind in ("word", "quoted") else "")
        for each, name in zip(tokens, names, strict=True)
    )


def _place_after(words: Sequence[_Word]) -> Place:
    """Return what may stand after some words.

    >>> after = ["", "EXPLAIN", "SELECT", "SELECT * FROM", "SELECT * FROM cell ,", "SELECT age ,"]
    >>> after += ["SELECT f ( x ,", "SELECT * FROM f ( ) ,", "SELECT * FROM a JOIN b ,", ","]
    >>> [_place_after([(word, word) for word in each.split()]) for each in after[:6]]
    ['beginning', 'beginning', 'expression', 'table', 'table', 'expression']
    >>> [_place_after([(word, word) for word in each.split()]) for each in after[6:]]
    ['expression', 'table', 'table', 'expression']
    """
    if not words or [word for word, _ in words] == ["EXPLAIN"]:
        return "beginning"
    if words[-1][0] in (*_TABLE_FOLLOWS, "TABLE"):
        return "table"
    depth = 0
    for word, _ in reversed(words if words[-1][0] == "," else ()):
        depth += (word == ")") - (word == "(")
        if depth < 0 or (depth == 0 and word in _CLAUSES and word != "JOIN"):
            return "table" if word == "FROM" else "expression"
    return "expression"


CompletionKind: TypeAlias = Literal[
    "table", "column", "matrix", "entry", "value", "function", "keyword"
]
"""What a completion is."""

_NEVER_QUOTED: Final = ("function", "keyword")
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
    >>> {each.kind for each in completer.completions('SELECT "a')}  # only names are quoted
    {'column'}
    """

    def __init__(self, session: DafSession) -> None:
        self._session = session
        self._connections = session._connections  # noqa: SLF001 - our own
        self._functions: list[str] | None = None
        self.forget()

    def forget(self) -> None:
        """Look the names up again."""
        self._columns: dict[tuple[str, ...], list[str]] = {}
        self._listed: dict[tuple[str, ...], ListedTable] | None = None

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
            names = [(*axis, NAME) for name, *axis in matrices if name == typed.owner]
            yield from self._values(typed, names, sql, "']")
        elif typed.place == "value":
            having = [parts for parts in among if typed.owner in self._columns_of(parts)]
            yield from self._values(typed, [(*parts, typed.owner) for parts in having], sql, "'")
        elif typed.qualifier:
            yield from self._qualified(typed, named)
        elif typed.place == "table":
            for parts in self._shortest():
                if any(_begins(typed, each) for each in (parts[0], parts[-1])):
                    text = ".".join(map(plain_name, parts))
                    yield Completion(text, typed.start, "table", ".".join(parts))
            yield from _matching(typed, sorted(USAGES), "function")
        elif typed.place == "beginning":
            yield from _matching(typed, BEGINNINGS, "keyword")
        else:
            yield from self._expressions(typed, named, among)

    def _qualified(self, typed: Typed, named: dict[str, tuple[str, ...]]) -> Iterator[Completion]:
        """Yield the columns of a table, or the tables of a schema."""
        tables, qualifier = self._tables(), typed.qualifier
        table = named.get(".".join(qualifier), qualifier if qualifier in tables else None)
        if table is not None and typed.place != "table":
            yield from _matching(typed, self._columns_of(table), "column")
        of_schema = [parts[1] for parts in tables if parts[:-1] == qualifier]
        yield from _matching(typed, of_schema, "table")

    def _expressions(
        self, typed: Typed, named: Iterable[str], among: list[tuple[str, ...]]
    ) -> Iterator[Completion]:
        for parts in among:
            yield from _matching(typed, self._columns_of(parts), "column")
        for parts in among:
            names = [name for name, *_ in self._matrices(parts)]
            for name in names:
                if names.count(name) == 1 and _begins(typed, name):
                    text = f"{plain_name(name)}['"
                    yield Completion(text, typed.start, "matrix", f"{name}['...']")
        yield from _matching(typed, named, "table")
        if self._functions is None:
            self._functions = sorted(self._session.sql(_FUNCTIONS).to_pydict()["name"])
        yield from _matching(typed, self._functions, "function")
        yield from _matching(typed, KEYWORDS, "keyword")

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
        if self._listed is None:
            listed, schemas = dict[tuple[str, ...], ListedTable](), self._connections.schemas
            for table in listed_tables(self._connections):
                listed[table.schema, table.name] = table
                if len(schemas) == 1 or table.schema not in schemas:
                    listed[table.name,] = table
            self._listed = listed
        return self._listed

    def _shortest(self) -> list[tuple[str, ...]]:
        """Return the tables by the shortest name that each has."""
        return sorted({table: parts for parts, table in self._tables().items()}.values())

    def _columns_of(self, parts: tuple[str, ...]) -> list[str]:
        """Return the columns of a table; none if it cannot be read."""
        if parts not in self._columns:
            table = self._tables()[parts]
            self._columns[parts] = list(self._connections.columns((table.schema, table.name)))
            if not self._columns[parts]:
                name = f"{quoted_name(table.schema)}.{quoted_name(table.name)}"
                query = f"SELECT * FROM {name}"  # noqa: S608 - it is planned only
                with suppress(errors.DafError):
                    self._columns[parts] = self._session.sql(query).column_names
        return self._columns[parts]

    def _matrices(self, parts: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
        """Yield the matrices of a table that is an axis, each by both of its names.

        With its schema, and the axis whose entries are named in its brackets.
        """
        table = self._tables()[parts]
        tables = self._connections.schema(table.schema) if table.key else None
        readers = () if tables is None else tables.readers(table.name).values()
        others = {
            (name, other)
            for daf in readers
            for other in daf.axes_set()
            for name in daf.matrices_set(table.name, other)
        }
        for name, other in sorted(others):
            yield from ((written, table.schema, other) for written in (name, f"{other}.{name}"))


def _begins(typed: Typed, name: str) -> bool:
    return name.lower().startswith(typed.prefix.lower())


def _matching(typed: Typed, names: Iterable[str], kind: CompletionKind) -> Iterator[Completion]:
    """Yield the names that begin with what is typed; words of SQL are in its case."""
    for name in names:
        if _begins(typed, name):
            text = name.lower() if typed.prefix.islower() else name
            text = text + "(" * (kind == "function") if kind in _NEVER_QUOTED else plain_name(name)
            yield Completion(text, typed.start, kind, name)
