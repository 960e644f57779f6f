"""The answers of other engines over the same columns: plain DataFusion, and DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import datafusion
import duckdb
import pyarrow as pa

from tests.conformance.cases import Case, cases_of
from tests.conformance.forms import entries, long_form, tables
from tests.conformance.values import Row, comparable, in_any_order, rows_of

_ENTRY = re.compile(r"""(?<!")\b(X|counts)\['((?:[^']|'')*)'\]""")
_LONG = re.compile(r"matrix\('cell', 'gene', '(\w+)'\)")


@dataclass(frozen=True)
class Answer:
    """What an engine says."""

    rows: tuple[Row, ...] = ()
    names: tuple[str, ...] = ()
    error: str = ""

    def is_like(self, other: Answer, *, ordered: bool) -> bool:
        """Return whether both have the same rows; errors are like nothing."""
        if self.error or other.error:
            return False
        if ordered:
            return self.rows == other.rows
        return in_any_order(self.rows) == in_any_order(other.rows)


def answer_of(table: pa.Table) -> Answer:
    """Return the rows of a table and the names of its columns."""
    return Answer(tuple(rows_of(table)), tuple(table.column_names))


class Oracles:
    """Both engines, over the tables of a kind of path.

    Parameters
    ----------
    path
        The path whose tables are asked; those of a collection differ from all others.
    subject
        The file whose views are there.
    """

    def __init__(self, path: str, subject: str) -> None:
        # Names keep their case, as they do in sessions.
        config = datafusion.SessionConfig(
            {"datafusion.sql_parser.enable_ident_normalization": "false"}
        )
        self.engine = datafusion.SessionContext(config.with_target_partitions(2))
        self.duckdb = duckdb.connect()
        self._answers: dict[tuple[str, str], Answer] = {}
        for name, table in self._tables(path, subject).items():
            self.engine.register_table(name, self.engine.from_arrow(table))
            self.duckdb.register(name, table)

    @staticmethod
    def _tables(path: str, subject: str) -> Mapping[str, pa.Table]:
        if any(case.text != _renamed(case.text) for case in cases_of(subject)):
            return {**entries(path), **long_form(path)}
        return tables(path)

    def execute(self, statement: str) -> None:
        """Execute a statement that creates something in both; DuckDB may refuse it."""
        self.engine.sql(_renamed(statement)).collect()
        try:
            self.duckdb.execute(_renamed(statement))
        except duckdb.Error:
            return

    def answer(self, case: Case, oracle: str) -> Answer:
        """Return the answer of ``datafusion`` or ``duckdb``."""
        query = case.theirs or case.text
        if (oracle, query) not in self._answers:
            ask = self._by_duckdb if oracle == "duckdb" else self._by_engine
            self._answers[oracle, query] = _attempt(ask, query)
        return self._answers[oracle, query]

    def expected(self, case: Case) -> Answer:
        """Return the rows that are right."""
        if case.rows is not None:
            return Answer(tuple(map(comparable, case.rows)))
        return self.answer(case, case.oracle or "datafusion")

    def names(self, case: Case) -> tuple[str, ...] | None:
        """Return how the engine calls the columns, unless two have one name."""
        if case.theirs or case.rows is not None:
            return None
        names = self.answer(case, "datafusion").names
        is_renamed = case.text != _renamed(case.text) or len({*names}) < len(names)
        return names if names and not is_renamed else None

    def _by_engine(self, query: str) -> pa.Table:
        return self.engine.sql(_renamed(query)).to_arrow_table()

    def _by_duckdb(self, query: str) -> pa.Table:
        return self.duckdb.sql(_renamed(query)).arrow().read_all()


def _renamed(query: str) -> str:
    """Return a query whose entries of matrices and long forms are columns and tables."""
    query = _LONG.sub(lambda found: f"long_{found[1].lower()}", query)
    return _ENTRY.sub(
        lambda found: "\"{}['{}']\"".format(found[1], found[2].replace("''", "'")), query
    )


def _attempt(ask: Any, query: str) -> Answer:
    try:
        return answer_of(ask(query))
    except Exception as error:  # noqa: BLE001 - whatever an engine raises, it has no answer
        return Answer(error=str(error).splitlines()[0][:200])
