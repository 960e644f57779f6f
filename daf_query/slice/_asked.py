"""The selectors of a slice as they were written, for its provenance and where it is empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from daf_query.slice._empty_selection import EmptySelection
from daf_query.slice._selector import Selector
from daf_query.sql import QueryResult

Written: TypeAlias = str | dict[str, Any] | None
"""SQL, a query and what was built upon it, or how many were listed; None: all."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which entries of a data set were asked for, and whether what leaves says so."""

    schema: str
    """What the session calls the data set."""
    rows: Written
    columns: Written
    is_described: bool
    """Whether files and AnnData say where they come from, unless a call says otherwise."""
    empty: tuple[EmptySelection, ...] = ()
    """The predicates that select nothing."""


def written_selector(selector: Selector, count: int, length: int) -> Written:
    """Return a selector as it was written; of a list, only how many it chose.

    >>> written_selector("age > 60", 1, 3), written_selector(["TATA", "GATA"], 2, 3)
    ('age > 60', '2 of 3, listed')
    """
    if selector is None or isinstance(selector, str):
        return selector
    if isinstance(selector, QueryResult):
        record = selector.provenance()
        return {key: record[key] for key in ("sql", "then") if key in record}
    return f"{count:,} of {length:,}, listed"
