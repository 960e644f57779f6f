"""Parse ``--rows`` and ``--columns``: SQL, or names of entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.cli._query_text import read_text
from daf_query.slice import is_select
from daf_query.syntax import Token, tokens_of
from daf_storage import DafReader, errors

_FILE: Final = "@"
_COMPARISONS: Final = ("=", "<", ">", "!")


@dataclass(frozen=True)
class AnyOf:
    """Several data sets that are asked as one; or one."""

    readers: Sequence[DafReader]

    def has_vector(self, axis: str, name: str) -> bool:
        """Return whether an axis of any has a vector."""
        return any(daf.has_axis(axis) and daf.has_vector(axis, name) for daf in self.readers)

    def has_entry(self, axis: str, entry: str) -> bool:
        """Return whether an axis of any has an entry."""
        return any(
            daf.has_axis(axis)
            and daf.axis_indices(axis, [entry], allow_missing=True, allow_empty=True)[0] >= 0
            for daf in self.readers
        )


def entries_or_sql(daf: DafReader | AnyOf, axis: str, given: str | None) -> str | list[str] | None:
    """Return SQL as it is, and names as a list.

    Names are ``A,B``, the lines of ``@FILE``, or a single one that is an entry and no vector.  One
    with a comma is written in single quotes, or stands in a file.
    """
    if given is None or is_select(given):
        return given
    if given.startswith(_FILE):
        return _lines(given.removeprefix(_FILE))
    names = listed_names(given)
    if names is not None:
        return names
    source = daf if isinstance(daf, AnyOf) else AnyOf([daf])
    return [given] if _is_entry(source, axis, given) else given


def listed_names(given: str) -> list[str] | None:
    """Return the names of a comma list; None if it is SQL.

    >>> listed_names("MS4A1, CD8A"), listed_names("'a,b',"), listed_names("age IN (1, 2)")
    (['MS4A1', 'CD8A'], ['a,b'], None)
    """
    tokens = list(tokens_of(given))
    commas = [token.start for token in _outside(tokens) if token.is_operator(",")]
    is_sql = any(
        token.is_operator(*_COMPARISONS) or token.is_word("ORDER", "LIKE", "IN", "BETWEEN", "IS")
        for token in tokens
    )
    if not commas or is_sql:
        return None
    parts = [
        given[start:stop].strip()
        for start, stop in zip([0, *(c + 1 for c in commas)], [*commas, len(given)], strict=True)
    ]
    return [_unquoted(part) for part in parts if part]


def _outside(tokens: list[Token]) -> Iterator[Token]:
    """Yield the tokens that are in no brackets."""
    depth = 0
    for token in tokens:
        depth += token.is_operator("(", "[") - token.is_operator(")", "]")
        if depth == 0:
            yield token


def _unquoted(name: str) -> str:
    tokens = list(tokens_of(name))
    if len(tokens) == 1 and tokens[0].kind == "string" and name.startswith("'"):
        return name[1:-1].replace("''", "'")
    return name


def _is_entry(daf: AnyOf, axis: str, given: str) -> bool:
    if daf.has_vector(axis, given) or given.upper() in ("TRUE", "FALSE") or " " in given:
        return False
    return daf.has_entry(axis, given)


def _lines(path: str) -> list[str]:
    names = [line for line in read_text(path).splitlines() if line]
    if not names:
        raise errors.InvalidInputError(f"{path or 'the file'}: there is no name in it, one a line")
    return names
