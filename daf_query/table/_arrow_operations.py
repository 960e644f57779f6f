"""Members of ``pyarrow.dataset.Dataset`` that a table answers from its rows, or refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_storage import errors

_FragmentT_co = TypeVar("_FragmentT_co", covariant=True)


class _HasRows(Protocol):
    """A dataset whose rows can be had as one table."""

    def to_table(self) -> pa.Table:
        """Return all rows."""
        ...


class _HasScanner(Protocol):
    """A dataset whose rows can be had as a stream."""

    def scanner(self) -> ds.Scanner:
        """Return a scanner of all rows."""
        ...


class _HasFragments(Protocol[_FragmentT_co]):
    """A dataset whose rows can be had in parts."""

    def get_fragments(self, filter: pc.Expression | None) -> Iterator[_FragmentT_co]:  # noqa: A002 - pyarrow's name
        """Yield parts that can be scanned side by side."""
        ...


class ArrowOperations:
    """What a table overrides of a Dataset without knowing its own columns.

    It comes before the Dataset among the bases of a table: an inherited member would ask the C++
    dataset behind it, which has no rows.
    """

    @property
    def partition_expression(self) -> pc.Expression:
        """TRUE: nothing is known of all rows."""
        return pc.scalar(True)  # noqa: FBT003 - an Arrow literal

    @property
    def children(self) -> NoReturn:
        """Refuse: a table is one, even if its rows are of several data sets."""
        raise errors.InvalidInputError(f"{self!r} has no children; see get_fragments()")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse: the schema is what the data set stores."""
        raise errors.InvalidInputError(
            f"{self!r}: the schema follows from the stored vectors and cannot be replaced; "
            f"cast the result instead (asked for {schema.names})"
        )

    def sort_by(self: _HasRows, sorting: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return the sorted table, in memory."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **kwargs))

    def join(self: _HasRows, right_dataset: Any, *args: Any, **kwargs: Any) -> ds.InMemoryDataset:
        """Return this table joined with another, in memory; SQL does it in a stream."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join(right, *args, **kwargs))

    def join_asof(
        self: _HasRows, right_dataset: Any, *args: Any, **kwargs: Any
    ) -> ds.InMemoryDataset:
        """Return this table joined to the nearest rows of another, in memory."""
        right = right_dataset.to_table()
        return ds.InMemoryDataset(self.to_table().join_asof(right, *args, **kwargs))

    def __arrow_c_stream__(self: _HasScanner, requested_schema: object = None) -> object:
        """Export all rows as an Arrow stream."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def _get_fragments(
        self: _HasFragments[_FragmentT_co],
        filter: pc.Expression | None,  # noqa: A002 - pyarrow's name
    ) -> Iterator[_FragmentT_co]:
        return self.get_fragments(filter)
