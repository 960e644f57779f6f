"""The tables of the data sets of a collection, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from daf_query.table._dataset import TableDataset
from daf_query.table._table_columns import TableColumns


class MemberTables(Mapping[str, TableDataset]):
    """Tables by the names of their data sets, of which the columns are known.

    To make a table of each of thousands takes longer than to scan them as one.

    Parameters
    ----------
    columns
        Those of each table.
    make
        Makes a table, by the name of its data set; in each the same rows are wanted: all.
    """

    def __init__(
        self,
        columns: Mapping[str, TableColumns],
        make: Callable[[str, TableColumns], TableDataset],
    ) -> None:
        self.columns = columns
        self._make = make

    def __getitem__(self, name: str) -> TableDataset:
        return self._make(name, self.columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def columns_of_tables(
    tables: Mapping[str, TableDataset],
) -> tuple[Mapping[str, TableColumns], bool]:
    """Return the columns of tables; and whether these are known without making the tables."""
    if isinstance(tables, MemberTables):
        return tables.columns, True
    return {name: table.own_columns for name, table in tables.items()}, False
