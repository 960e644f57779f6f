"""Tests of the DBAPI 2.0 connection: what PEP 249 says, and the rows of the session."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from daf_query import DafSession, connect, dbapi
from daf_storage import DafError, MemoryDaf, errors, open_daf

ROWS = 5000
EVERYTHING = "SELECT name, age, donor FROM cell ORDER BY index"


@pytest.fixture(scope="module")
def session() -> Iterator[DafSession]:
    """Yield a session over 5,000 cells."""
    daf = MemoryDaf(name="small")
    daf.add_axis("cell", [f"c{number}" for number in range(ROWS)])
    daf.set_vector("cell", "age", [number % 90 for number in range(ROWS)])
    daf.set_vector("cell", "donor", [f"d{number % 3}" for number in range(ROWS)])
    with connect(daf) as session:
        yield session


@pytest.fixture
def cursor(session: DafSession) -> dbapi.Cursor:
    """Return a cursor."""
    return session.adbc().cursor()


def test_the_module_has_what_pep_249_asks_for(session: DafSession) -> None:
    """Globals, types, constructors, and the tree of exceptions, also on connections."""
    assert (dbapi.apilevel, dbapi.paramstyle, dbapi.threadsafety) == ("2.0", "qmark", 2)
    tree: dict[type[Exception], list[type[Exception]]] = {
        dbapi.Error: [dbapi.InterfaceError, dbapi.DatabaseError],
        dbapi.DatabaseError: [
            dbapi.DataError,
            dbapi.OperationalError,
            dbapi.IntegrityError,
            dbapi.InternalError,
            dbapi.ProgrammingError,
            dbapi.NotSupportedError,
        ],
        DafError: [dbapi.Error, dbapi.Warning],
    }
    connection = dbapi.connect(session)
    for parent, children in tree.items():
        for child in children:
            assert child.__bases__ == (parent,)
            assert getattr(connection, child.__name__) is child
    moment = dt.datetime(2024, 2, 29, 12, 30)  # noqa: DTZ001 - local time
    assert dbapi.TimestampFromTicks(moment.timestamp()) == moment
    assert dbapi.DateFromTicks(moment.timestamp()) == dbapi.Date(2024, 2, 29)
    assert dbapi.TimeFromTicks(moment.timestamp()) == dbapi.Time(12, 30)
    assert dbapi.Binary(b"a") == b"a"
    codes = {
        dbapi.STRING: pa.dictionary(pa.int8(), pa.large_string()),
        dbapi.BINARY: pa.binary_view(),
        dbapi.NUMBER: pa.bool_(),
        dbapi.DATETIME: pa.timestamp("ns"),
    }
    for code, data_type in codes.items():
        assert [other for other in codes if other == data_type] == [code]
    assert pa.int64() != dbapi.ROWID
    assert repr(dbapi.STRING) == "STRING"


def test_rows_are_fetched_one_by_one_some_or_all(cursor: dbapi.Cursor, session: DafSession) -> None:
    """In every way, across the thousands that become Python's at once; and then no more."""
    expected = [tuple(row.values()) for row in session.sql(EVERYTHING).to_pylist()]
    assert cursor.execute(EVERYTHING) is cursor
    described = cursor.description or []
    assert [column[:2] for column in described] == [
        ("name", dbapi.STRING),
        ("age", dbapi.NUMBER),
        ("donor", dbapi.STRING),
    ]
    assert {len(column) for column in described} == {7}
    assert cursor.rowcount == -1
    rows = [cursor.fetchone(), *cursor.fetchmany(), *cursor.fetchmany(1500)]
    cursor.arraysize = 7
    rows += [*cursor.fetchmany(), next(iter(cursor)), *cursor.fetchall()]
    assert rows == expected
    assert cursor.fetchone() is None
    assert cursor.fetchmany(3) == cursor.fetchall() == list(cursor) == []
    assert list(cursor.execute(EVERYTHING)) == expected
    assert cursor.execute("SELECT name FROM cell WHERE age < 0").fetchall() == []
    description = cursor.execute("SELECT CAST(1.5 AS DECIMAL(10, 2)) AS d").description
    assert description is not None
    assert description[0][4:6] == (10, 2)


def test_rows_are_fetched_as_arrow_and_frames(cursor: dbapi.Cursor, session: DafSession) -> None:
    """Like those of ADBC's drivers; not after some rows were fetched one by one."""
    expected = session.sql(EVERYTHING)
    table = cursor.execute(EVERYTHING).fetch_arrow_table()
    assert table.equals(expected.to_arrow_table().cast(table.schema))
    assert cursor.fetch_arrow_table().num_rows == 0
    reader = cursor.execute(EVERYTHING).fetch_record_batch()
    assert reader.read_all().num_rows == ROWS
    pd.testing.assert_frame_equal(cursor.execute(EVERYTHING).fetch_df(), expected.to_pandas())
    assert cursor.execute(EVERYTHING).fetch_polars().equals(expected.to_polars())
    cursor.execute(EVERYTHING).fetchone()
    with pytest.raises(dbapi.ProgrammingError, match="fetched one by one"):
        cursor.fetch_arrow_table()


def test_parameters_are_bound(cursor: dbapi.Cursor) -> None:
    """By place and by name, tuples, lists and mappings, also for IN."""
    cases: list[tuple[str, Any]] = [
        ("SELECT count(*) FROM cell WHERE age = ? AND donor = ?", (3, "d0")),
        ("SELECT count(*) FROM cell WHERE age = $1 AND donor = $2", [3, "d0"]),
        ("SELECT count(*) FROM cell WHERE age = $a AND donor IN $d", {"a": 3, "d": ["d0"]}),
    ]
    for operation, parameters in cases:
        assert cursor.execute(operation, parameters).fetchone() == (56,)
    assert cursor.execute("SELECT 1", ()).fetchall() == [(1,)]


def test_pandas_and_polars_read_queries(session: DafSession) -> None:
    """Pandas says that it would like SQLAlchemy, and reads; polars reads rows."""
    query = "SELECT donor, count(*) AS n FROM cell WHERE age > {} GROUP BY donor ORDER BY donor"
    expected = session.sql(query.format(40)).to_pandas()
    connection: Any = session.adbc()  # pandas' types know SQLAlchemy's connections alone
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pd.read_sql(query.format("?"), connection, params=(40,))
    pd.testing.assert_frame_equal(frame, expected)
    read = pl.read_database(query.format(40), connection)
    assert read.rows() == list(expected.itertuples(index=False, name=None))


def test_errors_are_those_of_pep_249_with_our_sentences(
    cursor: dbapi.Cursor, tmp_path: Path
) -> None:
    """Each kind, from the error of ours, which is its cause; also of rows that fail later."""
    cases: list[tuple[str, Any, type[Exception], type[Exception], str]] = [
        ("SELEC", None, dbapi.ProgrammingError, errors.QueryError, "syntax error"),
        ("SELECT x FROM cell", None, dbapi.ProgrammingError, errors.VectorNotFoundError, "'x'"),
        ("SELECT ?", None, dbapi.ProgrammingError, errors.QueryError, "1 parameter "),
        ("SELECT 1", (1,), dbapi.ProgrammingError, errors.QueryError, "no parameters"),
        ("DELETE FROM cell", None, dbapi.NotSupportedError, errors.ReadOnlyError, "only reads"),
    ]
    for operation, parameters, error, cause, message in cases:
        with pytest.raises(error, match=message) as caught:
            cursor.execute(operation, parameters)
        assert isinstance(caught.value.__cause__, cause)
        assert "allow=" not in str(caught.value)
        assert cursor.description is None
    with pytest.raises(dbapi.ProgrammingError, match="Cannot cast"):
        cursor.execute("SELECT CAST(name AS INT) FROM cell").fetchall()
    with pytest.raises(dbapi.ProgrammingError, match="Cannot cast"):
        cursor.execute("SELECT CAST(name AS INT) FROM cell").fetch_arrow_table()
    with open_daf(tmp_path / "broken.daf.zarr", "w+") as daf:
        daf.add_axis("cell", ["a", "b"])
        daf.set_vector("cell", "age", [1.5, 2.5])
    (chunk,) = (path for path in (tmp_path / "broken.daf.zarr").rglob("age/0"))
    chunk.write_bytes(chunk.read_bytes()[:3])
    with connect(tmp_path / "broken.daf.zarr") as broken, pytest.raises(dbapi.DatabaseError):
        broken.adbc().execute("SELECT age FROM cell WHERE age > 1").fetchall()


def test_statements_that_write_are_not_executed_many_times(cursor: dbapi.Cursor) -> None:
    """And sizes, commits and rollbacks do nothing."""
    with pytest.raises(dbapi.NotSupportedError, match="2 sets of parameters"):
        cursor.executemany("SELECT ?", [(1,), (2,)])
    cursor.setinputsizes([1])
    cursor.setoutputsize(1)
    cursor.connection.commit()
    cursor.connection.rollback()
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_what_is_closed_refuses(session: DafSession) -> None:
    """Cursors, connections, and cursors of closed connections; the session stays open."""
    with session.adbc() as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        with pytest.raises(dbapi.InterfaceError, match="the cursor is closed"):
            cursor.fetchone()
        with pytest.raises(dbapi.InterfaceError, match="the cursor is closed"):
            cursor.execute("SELECT 1")
        other = connection.execute("SELECT 1")
        with pytest.raises(dbapi.ProgrammingError, match="execute a query first"):
            connection.cursor().fetchall()
        with pytest.raises(dbapi.ProgrammingError, match="execute a query first"):
            iter(connection.cursor())
    calls: list[Callable[[], object]] = [
        *(connection.cursor, connection.commit, connection.rollback),
        *(other.fetchone, other.fetchmany, other.fetchall, other.__iter__),
        *(other.fetch_record_batch, other.fetch_df, other.fetch_polars),
        *(connection.adbc_get_table_types, lambda: connection.adbc_get_table_schema("cell")),
        lambda: other.execute("SELECT 1"),
    ]
    for call in calls:
        with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
            call()
    assert session.sql("SELECT 1").count() == 1


def test_tables_are_described(session: DafSession) -> None:
    """As by ADBC's drivers."""
    connection = session.adbc()
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
    schema = connection.adbc_get_table_schema("cell")
    assert schema.names == session.table("cell").schema.names
    name = next(iter(session.schemas))
    assert connection.adbc_get_table_schema("cell", db_schema_filter=name) == schema
    with pytest.raises(dbapi.ProgrammingError, match="no table 'nope'"):
        connection.adbc_get_table_schema("nope")


def test_rows_are_computed_as_they_are_fetched(session: DafSession) -> None:
    """Of 25 million rows, the first are there at once."""
    cursor = session.adbc().execute("SELECT a.name FROM cell a, cell b")
    assert len(cursor.fetchmany(10)) == 10
    cursor.close()


def test_every_public_name_is_documented() -> None:
    """The door exports exactly what it lists."""
    public = {
        name
        for name, value in vars(dbapi).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public - {"Final"} == set(dbapi.__all__)


def test_type_objects_are_equal_to_themselves_alone() -> None:
    """And to the types of Arrow that they stand for."""
    objects = (dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME)
    for one in objects:
        assert [one == other for other in objects] == [one is other for other in objects]
        assert [hash(one) == hash(other) for other in objects] == [one is o for o in objects]
    for data_type, same in (
        (pa.dictionary(pa.int8(), pa.string()), dbapi.STRING),
        (pa.string_view(), dbapi.STRING),
        (pa.large_binary(), dbapi.BINARY),
        (pa.float16(), dbapi.NUMBER),
        (pa.bool_(), dbapi.NUMBER),
        (pa.date32(), dbapi.DATETIME),
        (pa.timestamp("us"), dbapi.DATETIME),
    ):
        assert [other for other in objects if data_type == other] == [same]
    assert dbapi.NUMBER != "NUMBER"
