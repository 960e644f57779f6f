"""Scan plans: which partitions are read, and how, decided before any value is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from daf_query.scan._predicate import And, Predicate, columns_of, conjuncts
from daf_query.scan._rows import Positions
from daf_storage.base import Span


@dataclass(frozen=True, slots=True, eq=False)
class ScanPlan:
    """Partitions, candidate rows and conditions of one scan."""

    spans: Sequence[Span]
    """All rows of the table, cut into partitions."""
    partitions: Sequence[Span]
    """Those to be read: in which rows may match, narrowed to the zones in which they may."""
    predicate: Predicate | None = None
    """The filter, as far as it is evaluated here."""
    conditions: Sequence[Predicate] = ()
    """Its parts, joined by AND, in the order in which they are evaluated: cheap ones first."""
    rows: Positions | None = None
    """The only candidates, ascending; ``None`` for all rows of the partitions."""
    indexes: Sequence[str] = ()
    """The columns whose indexes named the candidates."""
    pruned: int = 0
    """How many of the spans are not read."""
    rows_pruned: int = 0
    """How many rows are not read, of those spans and of others."""

    @classmethod
    def unpruned(
        cls, partitions: Sequence[Span], predicate: Predicate | None, rows: Positions | None
    ) -> ScanPlan:
        """Return the plan of a filter by which nothing was pruned.

        >>> ScanPlan.unpruned([Span(0, 9)], None, None).partitions
        [Span(start=0, stop=9)]
        """
        return cls(partitions, partitions, predicate, by_columns(conjuncts(predicate)), rows)


def by_columns(conditions: Iterable[Predicate]) -> list[Predicate]:
    """Return conditions with those on the same columns as one: both bounds of a range read it once.

    >>> from daf_query.scan import Compare
    >>> low, high = Compare("age", ">", 4), Compare("age", "<", 9)
    >>> by_columns([low, Compare("donor", "==", "a"), high])[0] == And((low, high))
    True
    """
    joined: dict[tuple[str, ...], list[Predicate]] = {}
    for condition in conditions:
        joined.setdefault(tuple(columns_of(condition)), []).append(condition)
    return [And(tuple(each)) if len(each) > 1 else each[0] for each in joined.values()]
