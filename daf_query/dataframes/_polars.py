"""Tables as sources of polars: a LazyFrame that reads what its query needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from daf_query.dataframes._polars_filter import pushed_filter
from daf_query.table import CATEGORIES, TableDataset
from daf_storage import errors
from daf_storage.base import optional_import

BATCH_ROWS = 1 << 17


def scan_polars(table: TableDataset) -> Any:
    """Return a table as a ``polars.LazyFrame``; nothing is read until it is collected.

    Columns, predicates and limits are pushed into the scan, and rows come in batches, so that the
    streaming engine need not hold them all.  A predicate, or a part of one, that the scan does not
    know is evaluated by polars; the rows are the same.

    Parameters
    ----------
    table
        Any table: of an axis, of several data sets, the long form of a matrix, of Zarr arrays.

    Returns
    -------
    polars.LazyFrame
        Strings as ``String``, numbers as stored, NaN as null; categoricals of a session with
        ``categoricals="dictionary"`` as ``Categorical``, ordered ones as ``Enum``.  It can be
        serialised: it holds the path of the data set, which the other process opens.

    Examples
    --------
    >>> import daf_storage, polars as pl
    >>> from daf_query import AxisDataset
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> scan_polars(AxisDataset(daf, "cell")).filter(pl.col("age") > 40).collect().to_dicts()
    [{'name': 'GATA', 'index': 1, 'age': 60}]
    """
    plugins = optional_import("polars.io.plugins", extra="polars")
    source = PolarsSource(table)
    return plugins.register_io_source(source, schema=source.schema)


@dataclass(frozen=True)
class PolarsSource:
    """A table as polars asks for its rows."""

    table: TableDataset

    @property
    def schema(self) -> dict[str, Any]:
        """The types of its columns."""
        polars = optional_import("polars", extra="polars")
        return dict(polars.from_arrow(self.table.schema.empty_table()).schema) | self._enums()

    def _enums(self) -> dict[str, Any]:
        """Return the types of ordered categoricals."""
        polars = optional_import("polars", extra="polars")
        return {
            field.name: polars.Enum(json.loads(field.metadata[CATEGORIES]))
            for field in self.table.schema
            if pa.types.is_dictionary(field.type)
            and field.type.ordered
            and CATEGORIES in (field.metadata or {})
        }

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[Any]:
        """Yield data frames.

        Parameters
        ----------
        with_columns
            The columns, in their order; ``None`` for all.
        predicate
            Only rows for which this expression is true; of the first ``n_rows``, if both are given.
        n_rows
            Not more than so many.
        batch_size
            How many at a time, about.
        """
        table = self.table if n_rows is None else self.table.first_rows(n_rows)
        pushed = pushed_filter(predicate if n_rows is None else None, table.schema)
        is_whole = pushed.is_whole and (n_rows is None or predicate is None)
        columns = list(self.table.schema.names if with_columns is None else with_columns)
        needed = columns if is_whole else _joined(columns, predicate.meta.root_names())
        scanner = table.scanner(needed, pushed.expression, batch_size or BATCH_ROWS)
        frames = self._frames(scanner.to_batches(), scanner.projected_schema)
        for frame in frames if n_rows is None else _limited(frames, n_rows):
            yield (frame if is_whole else frame.filter(predicate)).select(columns)

    def _frames(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[Any]:
        """Yield batches as data frames; an empty one if there are none."""
        polars = optional_import("polars", extra="polars")
        enums = {name: enum for name, enum in self._enums().items() if name in schema.names}
        is_empty = True
        for batch in batches:
            is_empty = False
            frame = polars.from_arrow(batch, rechunk=False)
            yield frame.cast(_checked(enums, batch)) if enums else frame
        if is_empty:
            yield polars.from_arrow(schema.empty_table()).cast(enums)


def _checked(enums: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """Return types that have all categories of a batch, or raise."""
    for name, enum in enums.items():
        others = set(batch.column(name).dictionary.to_pylist()) - set(enum.categories.to_list())
        if others:
            raise errors.UnsupportedDataError(
                f"the column {name!r} has the value {min(others)!r}, which is none of its noted "
                f"categories ({errors.known_names(enum.categories.to_list(), none='none')}); "
                'connect with categoricals="string"'
            )
    return enums


def _joined(columns: list[str], others: list[str]) -> list[str]:
    return list(dict.fromkeys([*columns, *others]))


def _limited(frames: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield the first rows of data frames."""
    for frame in frames:
        yield frame.head(rows)
        rows -= frame.height
        if rows <= 0:
            return
