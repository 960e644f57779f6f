"""Entries of matrices as queries name them: ``X['FOXP3']``.  Pure.

Each becomes a column whose name is how it is written, in one spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from daf_query.sql._names import identifier, quoted_name, unquoted_name
from daf_query.sql._tokens import Token, tokens_of
from daf_storage import errors


@dataclass(frozen=True, slots=True)
class EntryReference:
    """One place of a query where something is subscripted."""

    name: str
    """What is subscripted, without quotes: a matrix, perhaps."""
    entry: str | None
    """The entry; None if what is in the brackets is no string."""
    qualifier: tuple[str, ...]
    """The parts of its qualifier, without quotes."""
    start: int
    """Where the name begins, after its qualifier."""
    stop: int
    """Where the brackets end."""
    subscript: str
    """What is in the brackets, as it is written."""

    @property
    def column(self) -> str:
        """The name of the column that stands for it."""
        return column_name(self.name, self.entry or "")


def column_name(matrix: str, entry: str) -> str:
    """Return the name of the column of an entry of a matrix.

    >>> column_name("X", "it's")
    "X['it''s']"
    """
    return f"{matrix}['{_doubled(entry)}']"


def _doubled(entry: str) -> str:
    return entry.replace("'", "''")


def references_in(query: str, tokens: Sequence[Token]) -> Iterator[EntryReference]:
    """Yield what is subscripted in a query.

    >>> query = '''SELECT c."my X" [ 'it''s' ] FROM cell AS c'''
    >>> [(r.name, r.entry, r.qualifier) for r in references_in(query, list(tokens_of(query)))]
    [('my X', "it's", ('c',))]
    """
    for place, token in enumerate(tokens):
        if not token.is_operator("[") or not place:
            continue
        named = tokens[place - 1]
        if named.kind not in ("word", "quoted") or named.is_word("ARRAY"):
            continue
        end = _closing(tokens, place)
        if end is None:
            continue
        qualifier: tuple[str, ...] = ()
        part = place - 2
        while part > 0 and tokens[part].is_operator("."):
            qualifier = (_name(query, tokens[part - 1]), *qualifier)
            part -= 2
        inside = tokens[place + 1 : end]
        yield EntryReference(
            _name(query, named),
            _string(inside),
            qualifier,
            named.start,
            tokens[end].stop,
            query[token.stop : tokens[end].start].strip(),
        )


def with_known_columns(written: str, columns: Sequence[str]) -> str:
    """Return SQL over a result, in which entries that are its columns are written as such.

    >>> print(with_known_columns("X['g'] > 2 AND Y['g'] > 2", ["X['g']"]))
    "X['g']" > 2 AND Y['g'] > 2
    """
    if "[" not in written:
        return written
    references = references_in(written, tuple(tokens_of(written)))
    edits = [
        (reference.start, reference.stop, quoted_name(reference.column))
        for reference in references
        if reference.entry is not None and reference.column in columns
    ]
    return edited(written, edits)


def edited(query: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """Return a query after replacing parts of it, which do not overlap."""
    for start, stop, text in sorted(edits, reverse=True):
        query = query[:start] + text + query[stop:]
    return query


def malformed(reference: EntryReference, matrix: str) -> errors.QueryError:
    """Return an error that says how an entry of a matrix is written."""
    inside = reference.subscript
    shown = matrix if matrix.isidentifier() else quoted_name(matrix)
    if inside.startswith('"') and inside.endswith('"') and len(inside) > 1:
        written = f"{shown}['{_doubled(unquoted_name(inside))}']"
        remedy = f"double quotes are for names, so write {written}"
    else:
        remedy = (
            f"the entry is a string, as in {shown}['name'], or a parameter with a string, "
            f"as in {shown}[$entry]"
        )
    return errors.QueryError(f"{shown}[{inside}] names no entry of the matrix {matrix!r}: {remedy}")


def _name(query: str, token: Token) -> str:
    return identifier(query[token.start : token.stop])


def _string(inside: Sequence[Token]) -> str | None:
    """Return the string that is all there is in brackets; None if something else is."""
    if len(inside) != 1 or inside[0].kind != "string" or not inside[0].text.startswith("'"):
        return None
    return inside[0].text[1:-1].replace("''", "'")


def _closing(tokens: Sequence[Token], place: int) -> int | None:
    depth = 0
    for end in range(place, len(tokens)):
        depth += tokens[end].is_operator("[") - tokens[end].is_operator("]")
        if depth == 0:
            return end
    return None
