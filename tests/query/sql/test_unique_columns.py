"""Tests of results with several columns of one name: none is lost, in any form."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pytest

from daf_query import DafSession, DuplicateColumnsWarning, QueryResult, connect
from daf_storage import MemoryDaf, errors

JOIN = "SELECT * FROM cell c JOIN louvain l ON c.cluster = l.name ORDER BY c.index"
EXPECTED = {
    "name": ["A", "B", "C"],
    "index": [0, 1, 2],
    "cluster": ["t", "u", "t"],
    "name_1": ["x", "y", "z"],
    "name_2": ["t", "u", "t"],
    "index_1": [0, 1, 0],
    "color": ["red", "blue", "red"],
}


def fill_joined(daf: Any) -> None:
    """Add two axes that can be joined, and a vector that is called like a renamed column."""
    daf.add_axis("cell", ["A", "B", "C"])
    daf.set_vector("cell", "cluster", ["t", "u", "t"])
    daf.set_vector("cell", "name_1", ["x", "y", "z"])
    daf.add_axis("louvain", ["t", "u"])
    daf.set_vector("louvain", "color", ["red", "blue"])
    daf.set_matrix("cell", "louvain", "m", [[1, 2], [3, 4], [5, 6]])


@pytest.fixture
def session() -> DafSession:
    """Return a session with two tables that share names of columns."""
    daf = MemoryDaf(name="joined")
    fill_joined(daf)
    return connect({"joined": daf})


@pytest.fixture
def result(session: DafSession) -> QueryResult:
    """Return the result of a join of which columns have the same names."""
    with pytest.warns(DuplicateColumnsWarning):
        return session.sql(JOIN)


@pytest.mark.parametrize("allow", ["read", "write"])
def test_one_warning_says_what_was_renamed(
    session: DafSession, allow: Literal["read", "write"]
) -> None:
    """However many columns were; and it points to who asked, whatever the query may do."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session.sql(JOIN, allow=allow)
    assert len(caught) == 1
    assert str(caught[0].message) == (
        "the query yields more than one column named 'name', 'index': l.name is 'name_2', "
        "l.index is 'index_1'; name them with AS"
    )
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "form",
    [
        lambda r: r.to_pydict(),
        lambda r: r.to_arrow_table().to_pydict(),
        lambda r: r.to_pandas().to_dict("list"),
        lambda r: r.to_pandas(arrow_backed=True).to_dict("list"),
        lambda r: r.to_polars().to_dict(as_series=False),
        lambda r: {k: [row[k] for row in r.to_pylist()] for k in r.to_pylist()[0]},
        lambda r: pa.Table.from_batches(r.collect()).to_pydict(),
        lambda r: pa.Table.from_batches(list(r.batches())).to_pydict(),
        lambda r: pa.table(r).to_pydict(),
        lambda r: pl.DataFrame(r).to_dict(as_series=False),
        lambda r: {n: list(v) for n, v in zip(r.to_duckdb().columns, zip(*r.to_duckdb().fetchall(), strict=True), strict=True)},
        lambda r: r.limit(9).to_pydict(),
    ],
)  # fmt: skip
def test_no_form_loses_a_column(result: QueryResult, form: Any) -> None:
    """Each has all columns, with names of their own and the right values."""
    assert form(result) == EXPECTED


def test_a_view_names_its_columns(session: DafSession) -> None:
    """Two of one name are refused, as of a table, with what to write."""
    for created in ("VIEW", "TABLE"):
        with pytest.raises(errors.QueryError, match="two columns called 'name'; name them with AS"):
            session.sql(f"CREATE {created} v AS {JOIN}", allow="write").collect()
    session.sql("CREATE VIEW v AS SELECT c.name, l.name AS l FROM cell c, louvain l", allow="write")
    assert session.sql("SELECT * FROM v").column_names == ["name", "l"]
