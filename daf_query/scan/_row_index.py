"""The protocols of secondary indexes, as scans use them; the room ``index`` implements them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa

from daf_query.scan._options import ScanOptions
from daf_query.scan._predicate import Predicate
from daf_query.scan._rows import Positions
from daf_query.scan._zone_map import ZoneMap
from daf_storage.base import DecodedCache

MAX_SINGLE_STRINGS: Final = 1 << 11
"""The strings of more rows are not read one by one."""


class RowIndex(Protocol):
    """Finds rows by the values of a column, or of two; of numbers, strings or points.

    May return false positives, never false negatives: the caller applies the filter again.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is of."""
        ...

    def divisor(self, options: ScanOptions) -> int:
        """Return how selective it has to be: it is used if it names one row in so many at most."""
        ...

    def find(self, conditions: Sequence[Predicate], max_rows: int) -> Positions | None:
        """Return the rows for which all conditions may be true, ascending.

        Parameters
        ----------
        conditions
            Of the columns of the index.

        Returns
        -------
        numpy.ndarray or None
            ``None`` if there are more than ``max_rows``, or no condition restricts the rows.
        """
        ...


class StringRowIndex(RowIndex, Protocol):
    """An index of strings, which knows where each of them is stored."""

    def settled(self, conditions: Sequence[Predicate], max_rows: int) -> list[Predicate]:
        """Return the conditions that hold for each row that `find` returns for all of them.

        The caller need not apply these again.
        """
        ...

    def strings(self, positions: Positions) -> pa.Array | None:
        """Return the strings of up to `MAX_SINGLE_STRINGS` rows; ``None`` for others."""
        ...


def settled_by(
    index: RowIndex, conditions: Sequence[Predicate], max_rows: int
) -> Sequence[Predicate]:
    """Return the conditions that need not be applied to what an index found.

    Indexes of numbers and of points have no ``settled``: to compare numbers costs little.
    """
    settle = getattr(index, "settled", None)
    settled: Sequence[Predicate] = () if settle is None else settle(conditions, max_rows)
    return settled


class Indexes(Protocol):
    """The indexes of the columns of a table."""

    def numbers(self, column: str, cache: DecodedCache) -> RowIndex | None:
        """Return the sorted index of a column of numbers, if there is one."""
        ...

    def strings(self, column: str, cache: DecodedCache) -> StringRowIndex | None:
        """Return the sorted index of a column of strings, if there is one."""
        ...

    def zone_map(self, column: str, cache: DecodedCache) -> ZoneMap | None:
        """Return the stored zone map of a column of numbers, if there is one."""
        ...
