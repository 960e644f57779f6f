"""Predicates that select nothing, and what is known of that without reading anything."""

from __future__ import annotations

from dataclasses import dataclass

from daf_query.matrix import Selection
from daf_query.slice._selector import Selector
from daf_query.sql import Engine, cached_hints
from daf_query.syntax import is_select


@dataclass(frozen=True, slots=True)
class EmptySelection:
    """A predicate of ``rows=`` or ``columns=`` that selects none of some entries."""

    keyword: str
    axis: str
    predicate: str
    hints: tuple[str, ...]
    """Which conditions no entry satisfies, as far as the session's cache shows it."""

    @property
    def reason(self) -> str:
        """What is empty, and why, as far as that is known."""
        return "; ".join([f"selects no {self.axis}", *self.hints])

    def __str__(self) -> str:
        call = f"db.diagnose({self.axis!r}, {self.predicate!r})"
        return f"{self.keyword}= {self.reason}; {call} says why"


def empty_selection(
    engine: Engine,
    schema: str,
    axis: str,
    selector: Selector,
    selection: Selection,
    *,
    keyword: str,
) -> EmptySelection | None:
    """Return a predicate that selects nothing; None of any other selector.

    Nothing is read: distinct strings and ranges are those that evaluating it left in the cache.
    """
    if selection.size or selection.is_all:
        return None
    if not isinstance(selector, str) or is_select(selector):
        return None
    predicate = str(selector).strip()
    table = engine.connections.schemas[schema].dataset(axis)
    hints = cached_hints(table, schema, axis, predicate)
    return EmptySelection(keyword, axis, predicate, tuple(hints))
