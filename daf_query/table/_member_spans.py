"""The rows of each member of a union that a filter may leave, without opening small members.

To plan the scan of a data set opens the columns of its filter.  Of one that is small, and has no
index, that leaves out nothing but what its name or a lacking column tells, and both are known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import Mask, Predicate, Zones, evaluate, may_match
from daf_query.table._columns import DATASET, vector_of
from daf_query.table._member_rows import MemberParts
from daf_query.table._table_columns import TableColumns
from daf_storage.spi import IndexStorage, Span

MIN_WHOLE_MEMBERS: Final = 64
"""Of fewer members the scan of each is planned."""


@dataclass(frozen=True, slots=True)
class MemberSpans:
    """Spans of rows of a member that belong together: those of one partition."""

    name: str
    """What the column ``dataset`` calls it."""
    table_rows: int
    """How many rows it has."""
    spans: tuple[Span, ...]
    """Which of them are left; none of these is empty."""


def member_spans(parts: MemberParts, filter: pc.Expression | None) -> Iterator[MemberSpans]:  # noqa: A002 - pyarrow's name
    """Yield the rows of each member for which a filter may be true, by partitions."""
    whole = _WholeMembers(parts, filter)
    for number, (name, columns) in enumerate(parts.columns.items()):
        is_left = whole.is_left(number, columns)
        if is_left is None:
            for fragment in parts[number].get_fragments(filter):
                spans = tuple(span for span in fragment.partitions if span.size)
                if spans:
                    yield MemberSpans(name, columns.length, spans)
        elif is_left and columns.length:
            yield MemberSpans(name, columns.length, (Span(0, columns.length),))


class _WholeMembers:
    """Decides for small members whether a filter may be true for a row of them."""

    def __init__(self, parts: MemberParts, filter: pc.Expression | None) -> None:  # noqa: A002 - pyarrow's name
        self._parts = parts
        self._filter = filter
        self._masks: dict[Hashable, Mask] = {}
        options = parts[0].options if parts else None
        is_worth_it = parts.is_uniform and len(parts) >= MIN_WHOLE_MEMBERS
        if options is None or not is_worth_it:
            self._max_rows = -1
        else:
            self._max_rows = min(options.joined_member_rows, options.partition_rows)

    def is_left(self, number: int, columns: TableColumns) -> bool | None:
        """Return whether all rows of a member are left, or none; None if its scan decides."""
        signature = None if columns.length > self._max_rows else self._parts.signatures[number]
        if signature is None or _has_index(columns):
            return None
        mask = self._masks.get(signature)
        if mask is None:
            predicate = self._parts[number].own_predicate_of(self._filter)
            mask = self._masks[signature] = _may_match_by_name(predicate, self._parts.names)
        return bool(mask[number])


def _has_index(columns: TableColumns) -> bool:
    """Return whether a column of a data set has an index, fit or not."""
    vectors = (vector_of(column) for column in columns.columns.values())
    vector = next((each for each in vectors if each is not None), None)
    return vector is not None and IndexStorage(vector.daf).has_any(vector.info.axis)


def _may_match_by_name(predicate: Predicate | None, names: list[str]) -> Mask:
    """Return for which members a filter may be true, by their names alone.

    ``None`` is a filter that Arrow evaluates.  A member is a zone, whose name is all that is known.
    """
    count = len(names)
    if predicate is None:
        return np.ones(count, np.bool_)
    strings = pa.array(names, pa.string())
    numbers, known = np.arange(count), np.ones(count, np.bool_)
    zones = Zones(
        numbers,
        numbers,
        is_known=known,
        has_null=~known,
        has_value=known,
        table=lambda part: evaluate(part, lambda _: strings, count),
    )
    return may_match(predicate, {DATASET: zones}.get, count)
