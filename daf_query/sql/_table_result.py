"""The rows of a table in memory, with the face of the rows of a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from daf_query.sql._engine import Engine
from daf_query.sql._planned import Planned
from daf_query.sql._result import QueryResult, Statement
from daf_query.sql._user_tables import table_frame


class TableResult(QueryResult):
    """The rows of an Arrow table, which is in memory, asked like those of a query.

    Parameters
    ----------
    title
        What the rows are, for messages.
    asked
        What was asked, for the provenance.
    """

    def __init__(
        self, engine: Engine, table: pa.Table, title: str, asked: Mapping[str, Any]
    ) -> None:
        statement = Statement(engine, title, "read", asked)
        count = engine.connections.broken_count()
        super().__init__(statement, Planned(table_frame(table)), broken_count=count)
        self._table = table

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._table.num_rows)

    def _is_query(self) -> bool:
        """Return False: in the place of the query is a title."""
        return False

    def _first_rows(self, count: int) -> pa.Table:
        return self._table.slice(0, count)

    def to_arrow_table(self, *, provenance: bool = False) -> pa.Table:
        """Return the rows as an Arrow table, which is not copied."""
        return self._described(self._table, is_wanted=provenance)
