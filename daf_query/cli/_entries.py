"""Parse ``--rows`` and ``--columns``: SQL, or names of entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.cli._query_text import read_text
from daf_query.syntax import is_condition, is_select, list_items
from daf_storage import DafReader, errors

_FILE: Final = "@"


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
    parts = [part.strip() for part in list_items(given)]
    if len(parts) == 1 or is_condition(given):
        return None
    return [_unquoted(part) for part in parts if part]


def _unquoted(name: str) -> str:
    is_quoted = len(name) > 1 and name[0] == name[-1] == "'"
    return name[1:-1].replace("''", "'") if is_quoted else name


def _is_entry(daf: AnyOf, axis: str, given: str) -> bool:
    if daf.has_vector(axis, given) or given.upper() in ("TRUE", "FALSE") or " " in given:
        return False
    return daf.has_entry(axis, given)


def _lines(path: str) -> list[str]:
    names = [line for line in read_text(path).splitlines() if line]
    if not names:
        raise errors.InvalidInputError(f"{path or 'the file'}: there is no name in it, one a line")
    return names
