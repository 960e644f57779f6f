"""The tokens of a SQL text, words, literals, quoted names and operators; edits of it, and errors.

Errors show the place.

Strings of SQL that are no statement are read by them: what is not finished, or has other things
around it, has no tree.  They are parts of a statement, as people pass them, or several statements.

*Predicates* are conditions on the rows of one table, maybe with ORDER BY and LIMIT: SQL, with four
of Python's spellings beside it.

Queries of Spark have names in backticks and strings in either quotes, with backslashes; here names
are in double quotes, strings in single ones, and a quote within is doubled.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from daf_storage import errors

_TOKEN: Final = re.compile(
    r"""
      (?P<space> \s+ | --[^\n]* )
    | (?P<comment> /\* )
    | (?P<string> [eE]'(?:[^'\\]|\\.|'')*' | (?:[nNxXbB]|[uU]&)?'(?:[^']|'')*'
                | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
    | (?P<parameter> \$\w+ | \? )
    | (?P<quoted> "(?:[^"]|"")*" | `(?:[^`]|``)*` )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<number> \d[\w.]* )
    | (?P<operator> \^@ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS: Final = re.compile(r"(?:\s*+(?:-?\d[\d.]*+|'(?:[^']|'')*+')\s*+,){16,}+")
_COMMENT_ENDS: Final = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a query."""

    kind: Literal["word", "string", "quoted", "number", "parameter", "constants", "operator"]
    """What it is; a character of an operator is a token each.

    A ``parameter`` stands for a value; ``constants`` are many at the beginning of a bracket, with
    their commas.
    """
    text: str
    """As it is written; words in capitals."""
    start: int
    """Where it begins in the query."""
    stop: int
    """Where it ends."""

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of some words, given in capitals."""
        return self.kind == "word" and self.text in words

    def is_operator(self, *operators: str) -> bool:
        """Return whether it is one of some operators or brackets."""
        return self.kind == "operator" and self.text in operators


class Brackets(NamedTuple):
    """A pair of brackets: ``()``, ``[]`` or ``{}``."""

    opening: int
    """Where the first one stands."""
    closing: int
    """Where the second one stands."""
    before: str
    """The word or operator before the first one, in capitals; empty at the beginning."""


def tokens_of(query: str) -> tuple[Token, ...]:
    """Return the tokens of a query.

    >>> [token.text for token in tokens_of("SELECT 'a b' /* OR */ FROM t -- AND")]
    ['SELECT', "'a b'", 'FROM', 'T']
    """
    return tuple(read_tokens(query))


def read_tokens(query: str) -> Iterator[Token]:
    """Yield the tokens of a query, each as it is asked for."""
    place = 0
    while match := _TOKEN.match(query, place):
        place = match.end()
        group = match.lastgroup
        if group == "comment":
            place = _after_comment(query, place)
        elif group != "space":
            text = match.group()
            kind: Any = group
            yield Token(kind, text.upper() if kind == "word" else text, match.start(), place)
            if text == "(" and (constants := _CONSTANTS.match(query, place)):
                yield Token("constants", "", place, constants.end())
                place = constants.end()


def pairs_of(tokens: Iterable[Token]) -> list[Brackets]:
    """Return the pairs of brackets, by where they open.

    >>> [(pair.opening, pair.closing) for pair in pairs_of(tokens_of("f(a[1])"))]
    [(1, 6), (3, 5)]
    """
    pairs, opened, before = [], list[tuple[int, str]](), ""
    for token in tokens:
        if token.is_operator("(", "[", "{"):
            opened.append((token.start, before))
        elif token.is_operator(")", "]", "}") and opened:
            opening, word = opened.pop()
            pairs.append(Brackets(opening, token.start, word))
        before = token.text
    return sorted(pairs)


def _after_comment(query: str, place: int) -> int:
    """Return where a comment ends; comments may be nested, and need not end."""
    depth = 1
    while depth:
        match = _COMMENT_ENDS.search(query, place)
        if match is None:
            return len(query)
        depth += 1 if match.group() == "/*" else -1
        place = match.end()
    return place


def quoted_name(name: str) -> str:
    """Return a name as SQL quotes it.

    >>> quoted_name('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


KEYWORDS: Final = tuple(
    (  # noqa: SIM905 - a word a line would be a page
        """
        ALL AND ANTI ANY AS ASC BETWEEN BY CASE CAST CROSS CURRENT DESC DISTINCT ELSE END EXCEPT
        EXCLUDE EXISTS EXPLAIN EXTRACT FALSE FILTER FIRST FOLLOWING FROM FULL GROUP HAVING ILIKE IN
        INNER INTERSECT INTERVAL IS JOIN LAST LATERAL LEFT LIKE LIMIT NATURAL NOT NULL NULLS OFFSET
        ON OR ORDER OUTER OVER PARTITION PRECEDING QUALIFY RANGE RECURSIVE RIGHT ROWS SELECT SEMI
        SIMILAR SOME THEN TO TRUE UNBOUNDED UNION UNNEST USING VALUES WHEN WHERE WINDOW WITH WITHIN
        """
    ).split()
)
"""Words of SQL, which are no names without quotes."""


def plain_name(name: str) -> str:
    """Return a name as people write it: in quotes only where it has to be.

    >>> plain_name("age"), plain_name("n counts"), plain_name("order")
    ('age', '"n counts"', '"order"')
    """
    is_plain = name.isascii() and name.isidentifier() and name.upper() not in KEYWORDS
    return name if is_plain else quoted_name(name)


def quoted_string(value: object) -> str:
    """Return a string as SQL writes it.

    >>> quoted_string("it's")
    "'it''s'"
    """
    return "'" + str(value).replace("'", "''") + "'"


def unquoted_name(name: str) -> str:
    """Return a name without the quotes that SQL may have around it: double quotes or backticks.

    >>> [unquoted_name(name) for name in ('"a ""b"" c"', "`a ``b``", "age", '""', '"')]
    ['a "b" c', 'a `b`', 'age', '', '"']
    """
    quote = name[:1]
    is_quoted = len(name) > 1 and quote in ('"', "`") and name.endswith(quote)
    return name[1:-1].replace(quote * 2, quote) if is_quoted else name


class Edit(NamedTuple):
    """A part of a text, and what stands there instead; an insertion where both places are one."""

    start: int
    stop: int
    new: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text after some edits.

    Of insertions at one place, those given first come first.

    Raises
    ------
    ValueError
        Two edits overlap: a rule is wrong.

    Examples
    --------
    >>> edited("a - b", [Edit(0, 0, "("), Edit(4, 5, "c"), Edit(5, 5, ")")])
    '(a - c)'
    >>> edited("abc", [Edit(0, 2, "x"), Edit(1, 3, "y")])
    Traceback (most recent call last):
    ValueError: edits overlap at 1 of 'abc'
    """
    pieces, done = [], 0
    for first, last, new in sorted(edits, key=lambda edit: (edit.start, edit.stop)):
        if first < done:
            raise ValueError(f"edits overlap at {first} of {text!r}")
        pieces += [text[done:first], new]
        done = last
    return "".join([*pieces, text[done:]])


def place_before(edits: Iterable[Edit], place: int) -> int | None:
    """Return where a place of an edited text was in the original; None if it was inserted.

    Of what stands instead of something else, it is where that began.

    >>> [place_before([Edit(0, 0, "("), Edit(4, 5, "cd")], place) for place in (0, 1, 4, 6, 7)]
    [None, 0, 3, 4, 5]
    """
    shift = 0
    for start, stop, new in sorted(edits, key=lambda edit: (edit.start, edit.stop)):
        if place < start + shift:
            break
        if place < start + shift + len(new):
            return start if stop > start else None
        shift += len(new) - (stop - start)
    return place - shift


_MOST_NAMES: Final = 4
_JOINT: Final = re.compile("[-./]")
_JOINED: Final = re.compile(rf"\w+(?:{_JOINT.pattern}\w+)*")
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


class Placeholder(NamedTuple):
    """One place of a text where a value is missing: ``$name``, ``$1`` or ``?``."""

    name: str
    """As in ``$name``; of ``?``, its number."""
    written: str
    """As it is written."""
    start: int
    """Where it begins: with the bracket of IN, if it is alone in that."""
    stop: int
    """Where it ends."""
    of_list: bool
    """Whether it stands for the values of a list, those of IN."""
    is_bracketed: bool
    """Whether that list has its brackets already."""
    is_negated: bool
    """Whether it is a list of NOT IN."""


def placeholders(text: str) -> list[Placeholder]:
    """Return the places of a text where values are missing.

    >>> found = placeholders("age > $least AND donor NOT IN ($donors) -- $no")
    >>> [(each.name, each.of_list, each.is_negated) for each in found]
    [('least', False, False), ('donors', True, True)]
    >>> found = placeholders("? < 1 AND a IN ? AND b IN (?) AND c IN (?, 1) AND (?)")
    >>> [(each.name, each.of_list, each.is_bracketed) for each in found[:3]]
    [('1', False, False), ('2', True, False), ('3', True, True)]
    >>> [(each.name, each.of_list, each.start, each.stop) for each in found[2:]]
    [('3', True, 26, 29), ('4', False, 40, 41), ('5', False, 51, 52)]
    """
    tokens = tokens_of(text) if "$" in text or "?" in text else ()
    written = ["", "", "", *(token.text for token in tokens), ""]
    found: list[Placeholder] = []
    number = 0
    for place, token in enumerate(tokens):
        if token.kind != "parameter":
            continue
        number += token.text == "?"
        is_bracketed = (
            written[place + 1 : place + 5 : 3] == ["IN", ")"] and written[place + 2] == "("
        )
        negation, before = written[place + 1 - is_bracketed : place + 3 - is_bracketed]
        found.append(
            Placeholder(
                str(number) if token.text == "?" else token.text[1:],
                token.text,
                tokens[place - is_bracketed].start,
                tokens[place + is_bracketed].stop,
                before == "IN",
                is_bracketed,
                (negation, before) == ("NOT", "IN"),
            )
        )
    return found


def runs_of(tokens: Iterable[Token], separator: str) -> list[list[Token]]:
    """Return the tokens between separators outside of brackets."""
    runs, depth = [list[Token]()], 0
    for token in tokens:
        depth += token.is_operator(*_OPENING) - token.is_operator(*_CLOSING)
        if depth == 0 and token.is_operator(separator):
            runs.append([])
        else:
            runs[-1].append(token)
    return runs


def list_items(text: str) -> list[str]:
    """Return what is between the commas outside of brackets.

    >>> list_items("donor, coalesce(a, b), X['a, b'] > 2")
    ['donor', 'coalesce(a, b)', "X['a, b'] > 2"]
    """
    runs = runs_of(tokens_of(text), ",")
    return [text[run[0].start : run[-1].stop] if run else "" for run in runs]


def without_name(item: str) -> tuple[str, str | None]:
    """Return an expression, and the name that it has after AS; None if it has none.

    >>> without_name('age > 60 AS "is old"'), without_name("age AS")
    (('age > 60 ', 'is old'), ('age AS', None))
    """
    tokens = tokens_of(item)
    if len(tokens) < 3 or not tokens[-2].is_word("AS") or tokens[-1].kind not in ("word", "quoted"):
        return item, None
    return item[: tokens[-2].start], unquoted_name(item[tokens[-1].start : tokens[-1].stop])


def without_direction(item: str) -> tuple[str, bool, bool]:
    """Return an expression of ORDER BY, whether it ascends, and whether NULLs come first.

    >>> without_direction("age % 2 desc nulls last"), without_direction("age")
    (('age % 2', False, False), ('age', True, False))
    >>> [without_direction(each) for each in ("x ASC NULLS FIRST", "x NULLS", "asc")]
    [('x', True, True), ('x NULLS', True, False), ('asc', True, False)]
    """
    tokens, place, is_ascending = list(tokens_of(item)), "", True
    if len(tokens) > 2 and tokens[-2].is_word("NULLS") and tokens[-1].is_word("FIRST", "LAST"):
        place, _ = tokens.pop().text, tokens.pop()
    if len(tokens) > 1 and tokens[-1].is_word("ASC", "DESC"):
        is_ascending = tokens.pop().is_word("ASC")
    expression = item[: tokens[-1].stop] if tokens else item
    return expression, is_ascending, place == "FIRST" if place else not is_ascending


def real_divisions(text: str) -> tuple[Edit, ...]:
    """Return what makes the divisions of a text those of real numbers.

    >>> from daf_query.syntax import edited
    >>> edited("1 / count(*) -- a / b", real_divisions("1 / count(*) -- a / b"))
    '1 * 1.0 / count(*) -- a / b'
    """
    signs = (token for token in tokens_of(text) if token.is_operator("/"))
    return tuple(Edit(sign.start, sign.stop, "* 1.0 /") for sign in signs)


def unopened_bracket(text: str) -> int | None:
    """Return where a bracket closes without one that is open; None if none does.

    Within brackets that are put around it, it would close those.

    >>> unopened_bracket("(a) OR b"), unopened_bracket("a) OR (b")
    (None, 1)
    """
    depth = 0
    for token in tokens_of(text):
        depth += token.is_operator("(") - token.is_operator(")")
        if depth < 0:
            return token.start
    return None


def statements(text: str) -> list[str]:
    """Return the statements of a text, without their semicolons.

    >>> statements("SELECT ';'; SELECT 2; -- done")
    ["SELECT ';'", 'SELECT 2']
    """
    return [text[slice(*span)] for span in _spans(text)]


def is_ended(text: str) -> bool:
    """Return whether a text ends in a semicolon, in no string or comment; or has no SQL at all.

    >>> is_ended("SELECT ';'"), is_ended("SELECT 1; -- done"), is_ended("SELECT ' ;")
    (False, True, False)
    """
    tokens = tokens_of(text)
    is_open = any(token.is_operator("'", '"') for token in tokens)
    return not tokens or (tokens[-1].is_operator(";") and not is_open)


def one_statement(text: str, *, source: str = "the query") -> str:
    """Return a text without the semicolon at its end; places in it stay the same.

    Parameters
    ----------
    source
        What messages call it: a file.

    Raises
    ------
    QueryError
        There are several statements, or none; the message says where the second begins.

    Examples
    --------
    >>> one_statement("SELECT 1; -- the end")
    'SELECT 1'
    >>> one_statement("SELECT 1; SELECT 2")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    daf_storage.errors.QueryError: the query has several statements, the second begins at ...
    """
    spans = _spans(text)
    if not spans:
        raise errors.QueryError(f"{source} has no SQL; write a SELECT")
    if len(spans) > 1:
        line, column = line_and_column(text, spans[1][0])
        raise errors.QueryError(
            f"{source} has several statements, the second begins at line {line}, column {column}; "
            "run one at a time"
        )
    return text[: spans[0][1]]


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where each statement begins and ends."""
    return [(run[0].start, run[-1].stop) for run in runs_of(tokens_of(text), ";") if run]


def line_and_column(text: str, place: int) -> tuple[int, int]:
    r"""Return the line and the column of a place in a text, each from 1.

    >>> line_and_column("SELECT name,\n  agee FROM cell", 15)
    (2, 3)
    """
    before = text[:place]
    return before.count("\n") + 1, place - before.rfind("\n")


def place_of(text: str, line: int, column: int) -> int:
    r"""Return the place of a line and a column, each from 1; what is behind the end is at it.

    >>> place_of("SELECT name,\n  agee FROM cell", 2, 3)
    15
    """
    lines = text.split("\n")
    return min(sum(len(each) + 1 for each in lines[: line - 1]) + column - 1, len(text))


def span_at(text: str, place: int) -> tuple[int, int]:
    """Return where the word, or whatever stands at a place, begins and ends."""
    spans = ((each.start, each.stop) for each in tokens_of(text))
    return next((span for span in spans if span[0] == place), (place, place + 1))


def words_at(text: str, place: int) -> tuple[str, str]:
    """Return the token before a place, and the one at it; words in capitals, names ``quoted``.

    >>> words_at('SELECT a is none, "b" FROM t', 12), words_at('SELECT "b"', 7)
    (('IS', 'NONE'), ('SELECT', 'quoted'))
    """
    tokens = tokens_of(text)
    words = ["", *(each.kind if each.kind == "quoted" else each.text for each in tokens), ""]
    number = sum(token.start < place for token in tokens)
    return words[number], words[number + 1]


def span_of_name(text: str, name: str) -> tuple[int, int] | None:
    r"""Return where a name, or a string that is one, first stands; None if it does not.

    >>> span_of_name("SELECT '\"a' AS x, \"a\" FROM cell", "a")
    (18, 21)
    """
    for token in tokens_of(text):
        written = text[token.start : token.stop]
        is_string = token.kind == "string" and written.startswith("'")
        if name == (written[1:-1].replace("''", "'") if is_string else unquoted_name(written)):
            return token.start, token.stop
    return None


def joined_names(text: str, name: str) -> list[str]:
    """Return what may be meant by a name, longest first.

    >>> joined_names("WHERE HLA-DRB1 > 1", "HLA"), joined_names("1 > HLA - DRB1", "HLA")
    (['HLA-DRB1', 'HLA'], ['HLA'])
    """
    start, stop = span_of_name(text, name) or (0, 0)
    match = _JOINED.match(text, start) if text[start:stop] == name else None
    if match is None:
        return [name]
    ends = [place.start() for place in _JOINT.finditer(match[0])]
    return [match[0][:end] for end in (*ends, None)][: -_MOST_NAMES - 1 : -1]


_SYNTAX: Final = "SQL syntax error"
_LONGEST: Final = 1000
_LONGEST_LINE: Final = 300
_BEFORE: Final = 100


def error_at(
    reason: str, written: str, place: int, *, where: str = "", title: str = _SYNTAX
) -> errors.QueryError:
    """Return an error that shows a line of SQL, with a mark below a place of it.

    Parameters
    ----------
    written
        The SQL as its author knows it.
    where
        How the message calls the place; by default by its line and column.
    title
        What it is.
    """
    line, column = line_and_column(written, place)
    where = where or f"at line {line}, column {column}"
    shown, mark = _around(written.split("\n")[line - 1], column - 1)
    error = errors.QueryError(f"{title} {where}: {shortened(reason)}\n  {shown}\n  {' ' * mark}^")
    error.line, error.column, error.reason = line, column, reason
    return error


@dataclass(frozen=True, slots=True)
class WrappedSql:
    """SQL that a caller wrote, and what is written around it, or differently in it."""

    written: str
    """What the caller wrote."""
    edits: tuple[Edit, ...]
    """What stands around it, and in place of parts of it; in their order at one place."""

    @classmethod
    def between(
        cls, before: str, written: str, after: str, edits: Iterable[Edit] = ()
    ) -> WrappedSql:
        """Return what a caller wrote, with something before it and after it."""
        end = len(written)
        return cls(written, (Edit(0, 0, before), *edits, Edit(end, end, after)))

    @property
    def query(self) -> str:
        """The whole query."""
        return edited(self.written, self.edits)

    def error(self, error: errors.DafError, what: str) -> errors.DafError:
        """Return an error of the whole query with its place in what the caller wrote.

        A place around that is its end.

        Parameters
        ----------
        what
            How the message calls what was written.
        """
        if not isinstance(error, errors.QueryError) or not (error.line and error.column):
            return error
        place = place_before(self.edits, place_of(self.query, error.line, error.column))
        place = len(self.written) if place is None else min(place, len(self.written))
        title = str(error).partition(" at line ")[0]
        reason = error.reason or str(error)
        if place == len(self.written):  # the bracket around what was written
            reason = reason.replace("found: )", "found: the end")
        return error_at(reason, self.written, place, where=f"in the {what}", title=title)


def shortened(text: str) -> str:
    """Return a message of the engine, without its middle where it repeats a long value.

    >>> short = shortened(f"Cannot cast string '{'x' * 10_000}' to Int64")
    >>> short[:25], short[745:780], short[-15:]
    ("Cannot cast string 'xxxxx", 'xxxxx ... (9,030 characters) ... xx', "xxxxx' to Int64")
    """
    if len(text) <= _LONGEST:
        return text
    end = _LONGEST // 4
    left = len(text) - _LONGEST
    return f"{text[: _LONGEST - end]} ... ({left:,} characters) ... {text[-end:]}"


def _around(line: str, place: int) -> tuple[str, int]:
    """Return the part of a long line that is around a place, and the place in it."""
    start = max(0, place - _BEFORE) if len(line) > _LONGEST_LINE else 0
    part = line[start : start + _LONGEST_LINE]
    before, after = "..." * (start > 0), "..." * (start + len(part) < len(line))
    return f"{before}{part}{after}", place - start + len(before)


def clauses_of(predicate: str) -> list[Token]:
    """Return the first tokens of ORDER BY, LIMIT and OFFSET, outside of brackets.

    >>> given = "(x ORDER BY y LIMIT 2) > 1 order by z LIMIT 3 OFFSET 1 LIMIT x"
    >>> [(token.text, token.start) for token in clauses_of(given)]
    [('ORDER', 27), ('LIMIT', 38), ('OFFSET', 46)]
    """
    clauses = []
    depth = 0
    tokens = tokens_of(predicate)
    for token, after in itertools.pairwise(tokens):
        depth += token.is_operator("(") - token.is_operator(")")
        is_order = token.is_word("ORDER") and after.is_word("BY")
        is_limit = token.is_word("LIMIT", "OFFSET") and after.kind == "number"
        if depth == 0 and (is_order or is_limit):
            clauses.append(token)
    return clauses


def condition_of(predicate: str) -> str:
    """Return a predicate without its ORDER BY, LIMIT and OFFSET.

    >>> condition_of("age > 60 ORDER BY age")
    'age > 60 '
    """
    clauses = clauses_of(predicate)
    return predicate[: clauses[0].start] if clauses else predicate


_SKIPPED: Final = r"--[^\n]*|/\*.*?\*/"
_OF_SPARK: Final = re.compile(
    rf"""{_SKIPPED}|(?P<raw>\b[rR])?(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"|(?P<name>`(?:[^`]|``)*`)",
    re.DOTALL,
)
_OURS: Final = re.compile(
    rf"""{_SKIPPED}|(?P<string>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*")""", re.DOTALL
)
_WITH: Final = re.compile(rf"(?:\s|{_SKIPPED})*WITH(\s+RECURSIVE)?\b", re.IGNORECASE | re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def to_local(query: str) -> str:
    r"""Return a query of Spark with the quotes that are used here.

    >>> to_local('SELECT `my X` FROM cell WHERE donor = "it\'s" -- `x`')
    'SELECT "my X" FROM cell WHERE donor = \'it\'\'s\' -- `x`'
    """
    return _OF_SPARK.sub(_local, query)


def to_spark(query: str) -> str:
    r"""Return a query with the quotes of Spark.

    >>> to_spark('''SELECT "X['CD8A']" FROM cell WHERE donor = 'it''s' ''')
    "SELECT `X['CD8A']` FROM cell WHERE donor = 'it\\'s' "
    """
    return _OURS.sub(_spark, query)


def with_definitions(query: str, definitions: str) -> str:
    """Return a query of Spark with more tables that WITH defines, before its own.

    >>> with_definitions("WITH a AS (SELECT 1) SELECT * FROM a", "b AS (SELECT 2)")
    'WITH b AS (SELECT 2),  a AS (SELECT 1) SELECT * FROM a'
    """
    match = _WITH.match(query)
    if match is None:
        return f"WITH {definitions} {query}"
    return f"WITH{match[1] or ''} {definitions}, {query[match.end() :]}"


def backticked(name: str) -> str:
    """Return a name as Spark quotes it.

    >>> backticked("it's `odd`")
    "`it's ``odd```"
    """
    return "`" + name.replace("`", "``") + "`"


def _local(match: re.Match[str]) -> str:
    name, string = match["name"], match["string"]
    if name is not None:
        return '"' + name[1:-1].replace("``", "`").replace('"', '""') + '"'
    if string is None:
        return match.group()
    quote, value = string[0], string[1:-1]
    if match["raw"] is None:
        value = _ESCAPE.sub(_unescaped, value.replace(quote * 2, "\\" + quote))
    return quoted_string(value)


def _unescaped(match: re.Match[str]) -> str:
    written = match[1]
    if written.startswith("u") and len(written) > 1:
        return chr(int(written[1:], 16))
    if len(written) > 1:
        return chr(int(written, 8))
    if written in "%_":
        return f"\\{written}"
    return _ESCAPED.get(written, written)


def _spark(match: re.Match[str]) -> str:
    name, string = match["name"], match["string"]
    if name is not None:
        return backticked(name[1:-1].replace('""', '"'))
    if string is None:
        return match.group()
    value = string[1:-1].replace("''", "'")
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
