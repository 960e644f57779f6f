"""The queries of the table, as they stand in ``queries/*.sql``.

A file is SQL with a ``;`` at the end of each query.  Lines that begin with ``--:`` say something
about the query below them:

``ordered``
    The query orders its rows totally, so their order is compared.
``datafusion REASON``, ``duckdb REASON``
    The two oracles differ, or one refuses; the rows are those of the one that is named.
``rows [[1, null], ...]``
    The rows are these, as JSON, whatever the oracles say; a comment says why.
``error PATTERN``
    Refused with a `DafError` whose message has this regular expression.
``theirs SELECT ...``
    What the oracles are asked instead, for what no other engine knows.
``with {"least": 3}``
    The query has these parameters; the oracles need ``theirs``.
``only PATHS``, ``not PATHS``
    The paths on which the query is asked.
``wrong PATHS: REASON``
    Known to be wrong there.  Who mends it has to take it away.
``file ...``
    What follows is said of all queries of the file.

Paths are separated by ``, ``; ``all`` is every path, ``axes`` all but own tables, ``large`` all of 200,000 rows.  A statement that creates something is executed, here and by the oracles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

QUERIES = Path(__file__).parent / "queries"
AXES = ("directory", "packed", "indexed", "archive", "hdf5", "h5ad", "dictionary", "collection")
LARGE = ("large_directory", "large_indexed", "large_collection")
"""Axes of 200,000 rows, which are asked only the queries that name them."""

PATHS = (*AXES, "own", *LARGE)
TURNS = (
    ("collection", "own"),
    ("directory", "packed", "indexed", "archive", "h5ad", "hdf5", "dictionary"),
    LARGE,
)
"""Of each of these the ordinary suite asks a query on one path."""

_GROUPS = {"all": PATHS, "axes": AXES, "large": LARGE}


@dataclass(frozen=True)
class Case:
    """A query, and what is expected of it."""

    subject: str
    line: int
    text: str = ""
    ordered: bool = False
    oracle: str = ""
    """``datafusion`` or ``duckdb`` where they differ."""
    reason: str = ""
    rows: tuple[tuple[Any, ...], ...] | None = None
    error: str = ""
    theirs: str = ""
    params: Any = None
    only: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)
    """Why it is wrong, by path."""

    @property
    def creates(self) -> bool:
        """Whether this is a statement that later queries need."""
        return self.text.upper().startswith(("CREATE ", "DROP "))

    def is_requested(self, path: str) -> bool:
        """Return whether the query is asked on a path."""
        if path in self.excluded:
            return False
        return path in self.only if self.only or path in LARGE else True

    def is_in_turn(self, path: str) -> bool:
        """Return whether the ordinary suite asks the query on a path."""
        return path == self.in_turn(next((paths for paths in TURNS if path in paths), (path,)))

    def in_turn(self, paths: Sequence[str]) -> str:
        """Return one of some paths, which stays the same as long as the query does."""
        requested = [path for path in paths if self.is_requested(path)]
        return requested[crc32(self.text.encode()) % len(requested)]

    def known_wrong(self, path: str) -> str:
        """Return why the rows are wrong on a path, or nothing."""
        return self.wrong.get(path, "")


def subjects() -> list[str]:
    """Return the names of the files."""
    return sorted(path.stem for path in QUERIES.glob("*.sql"))


@cache
def cases_of(subject: str) -> tuple[Case, ...]:
    """Return the queries of a file, in their order."""
    return tuple(_read(subject, (QUERIES / f"{subject}.sql").read_text()))


def _read(subject: str, text: str) -> Iterator[Case]:
    common = Case(subject, 0)
    case, lines = common, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("--: file "):
            case = common = _said(common, line.removeprefix("--: file "))
        elif line.startswith("--: "):
            case = _said(case, line.removeprefix("--: "))
        elif lines or (line and not line.startswith("--")):
            lines.append(line)
            if line.endswith(";"):
                query = "\n".join(lines).removesuffix(";")
                yield replace(case, text=query, line=number - len(lines) + 1)
                case, lines = common, []
    assert not lines, f"{subject}.sql ends within a query"


def _said(case: Case, line: str) -> Case:
    word, _, rest = line.partition(" ")
    match word:
        case "ordered":
            return replace(case, ordered=True)
        case "datafusion" | "duckdb":
            assert rest, f"{case.subject}.sql does not say why {word} is right"
            return replace(case, oracle=word, reason=rest)
        case "rows":
            return replace(case, rows=tuple(map(tuple, json.loads(rest))))
        case "error":
            re.compile(rest)
            return replace(case, error=rest)
        case "theirs":
            return replace(case, theirs=rest)
        case "with":
            return replace(case, params=json.loads(rest))
        case "only":
            return replace(case, only=_paths(rest))
        case "not":
            return replace(case, excluded=(*case.excluded, *_paths(rest)))
        case "wrong":
            paths, _, reason = rest.partition(": ")
            return replace(case, wrong={**case.wrong, **dict.fromkeys(_paths(paths), reason)})
    raise ValueError(f"{case.subject}.sql says {word!r}, which means nothing")


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(path for word in text.split(", ") for path in _GROUPS.get(word, (word,)))
    assert set(paths) <= set(PATHS), f"{text!r} are not all paths"
    return paths
