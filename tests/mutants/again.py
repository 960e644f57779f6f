"""Finds mutations in the code that were printed before, wherever their lines have moved to.

Pure: what was printed and the mutations of today in, mutations out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.mutants.mutations import Mutation

_PLACE: Final = re.compile(
    r"^(?:SURVIVED|noticed ) (?P<path>\S+\.py):(?P<line>\d+)(?: \((?P<function>[^)]*)\))?"
)


@dataclass(frozen=True, slots=True)
class Again:
    """What became of mutations that were printed before."""

    mutations: tuple[Mutation, ...]
    """Those that can still be made, each once."""
    gone: tuple[str, ...]
    """The keys of those whose line is no longer in the code."""


def printed(text: str) -> Iterator[Mutation]:
    r"""Yield each mutation of a list that was printed, survivors and others.

    Examples
    --------
    >>> [one] = printed("SURVIVED a/b.py:7 (f)\n    - return 1\n    + return 2\n")
    >>> one.line, one.function, one.key
    (7, 'f', 'a/b.py: return 1 -> return 2')
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        place = _PLACE.match(line)
        before, after = (*(one.strip() for one in lines[number + 1 : number + 3]), "", "")[:2]
        if place is not None and before.startswith("- ") and after.startswith("+ "):
            function = place["function"] or ""
            yield Mutation(place["path"], int(place["line"]), before[2:], after[2:], function)


def find_again(text: str, every: list[Mutation]) -> Again:
    """Return the mutations of a printed list, as they are in the code now.

    They are matched by file, function and changed line.  Where a list does not name the function,
    or a function has several lines that are alike, the nearest line is taken.  A line that is gone
    from its file is looked for in the others, and taken where only one has it.

    Parameters
    ----------
    text
        Lines as ``python -m tests.mutants`` prints them; all others are left out.
    every
        Each mutation that can be made today.
    """
    by_change: dict[str, list[Mutation]] = {}
    for mutation in every:
        by_change.setdefault(mutation.change, []).append(mutation)
    found: dict[tuple[str, int, str], Mutation] = {}
    gone: dict[str, None] = {}
    for old in printed(text):
        alike = by_change.get(old.change, [])
        if old.function:
            alike = [one for one in alike if one.function == old.function]
        in_file = [one for one in alike if one.path == old.path]
        if in_file or len(alike) == 1:
            nearest = min(in_file or alike, key=lambda one: abs(one.line - old.line))
            found[nearest.path, nearest.line, nearest.after] = nearest
        else:
            gone[old.key] = None
    return Again(tuple(found.values()), tuple(gone))
