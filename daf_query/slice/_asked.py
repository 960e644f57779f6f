"""The selectors of a slice as they were written, for its provenance and where it is empty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from daf_query.matrix import Selection
from daf_query.slice._selector import Selector
from daf_query.sql import QueryResult
from daf_query.syntax import is_select
from daf_storage.base import Span

Written: TypeAlias = str | dict[str, Any] | None
"""SQL, a query and what was built upon it, or how many were listed; None: all."""


@dataclass(frozen=True, slots=True)
class EmptySelection:
    """A predicate of ``rows=`` or ``columns=`` that selects none of some entries."""

    keyword: str
    axis: str
    predicate: str

    def __str__(self) -> str:
        call = f"db.diagnose({self.axis!r}, {self.predicate!r})"
        return f"{self.keyword}= selects no {self.axis}; {call} says why"


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
    block: Span | None = None
    """Which of the chosen rows, if not all: those of a block."""

    def of_rows(self, span: Span) -> Asked:
        """Return the same for some of these rows.

        >>> whole = Asked("pbmc", "age > 60", None, is_described=True)
        >>> whole.of_rows(Span(10, 20)).of_rows(Span(2, 4)).block
        Span(start=12, stop=14)
        """
        first = 0 if self.block is None else self.block.start
        return replace(self, block=Span(first + span.start, first + span.stop))

    def of_some_rows(self, selected: int, count: int) -> Asked:
        """Return the same for some of these rows, of which only the number is described."""
        return replace(self, rows=f"{count:,} of {selected:,}, listed", block=None)

    def described(self, axes: tuple[str, str], name: str, shape: tuple[int, int]) -> dict[str, Any]:
        """Return what a provenance says of a slice of a matrix over two axes."""
        rows_axis, columns_axis = axes
        block = {} if self.block is None else {"block": [self.block.start, self.block.stop]}
        return {
            "matrix": {"name": name, "rows_axis": rows_axis, "columns_axis": columns_axis},
            "rows": self.rows,
            **block,
            "columns": self.columns,
            "shape": list(shape),
        }


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


def empty_selection(
    axis: str, selector: Selector, selection: Selection, *, keyword: str
) -> EmptySelection | None:
    """Return a predicate that selects nothing; None of any other selector."""
    if selection.size or selection.is_all:
        return None
    if not isinstance(selector, str) or is_select(selector):
        return None
    return EmptySelection(keyword, axis, str(selector).strip())
