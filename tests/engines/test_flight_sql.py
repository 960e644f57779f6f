"""Flight SQL with the driver of ADBC: what tools ask for, and what they must not get."""

from __future__ import annotations

import base64
import datetime as dt
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from google.protobuf import any_pb2
from pyarrow import flight

from daf_query import DafSession, connect
from daf_query.flight_sql import FlightSqlLimits, FlightSqlServer
from daf_storage import MemoryDaf, errors, open_daf
from tests.engines.conftest import CELLS, FORMS
from tests.flight_messages import answer, bound, packed, prepared
from tests.support import data_set, wait_until, write_certificate

QUERIES = [
    "SELECT * FROM obs ORDER BY name",
    "SELECT donor, count(*) AS n, avg(age) AS age FROM obs GROUP BY donor ORDER BY donor",
    "SELECT name, \"var.X\"['gene_3'] AS g FROM obs WHERE \"var.X\"['gene_3'] > 2 ORDER BY name",
    "SELECT count(*) AS n FROM obs WHERE score IS NULL OR is_doublet",
]
ENDLESS = "SELECT sum(sin(a.index * b.index + c.index)) AS s FROM cell a, cell b, cell c, cell d"
TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of this test alone


@contextmanager
def _driver(server: FlightSqlServer, **options: str) -> Iterator[Any]:
    """Yield a connection of ADBC."""
    connection = dbapi.connect(server.uri, db_kwargs=options, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _cursor(server: FlightSqlServer, **options: str) -> Iterator[Any]:
    """Yield a cursor of a connection of its own."""
    with _driver(server, **options) as connection, connection.cursor() as cursor:
        yield cursor


@contextmanager
def _flight(server: FlightSqlServer, **options: Any) -> Iterator[flight.FlightClient]:
    with flight.connect(server.uri, **options) as client:
        yield client


def _ask(client: flight.FlightClient, query: str, **options: Any) -> flight.FlightInfo:
    command = packed("CommandStatementQuery", query=query)
    return client.get_flight_info(flight.FlightDescriptor.for_command(command), **options)


@pytest.fixture(scope="module")
def session() -> Iterator[DafSession]:
    """Yield a session over a small data set."""
    daf = data_set(name="small", cell=[f"cell_{number}" for number in range(3000)])
    daf.set_vector("cell", "age", np.arange(3000) % 90)
    daf.set_vector("cell", "donor", [f"d{number % 3}" for number in range(3000)])
    daf.add_axis("two words", ["a"])
    with connect({"small": daf}) as session:
        yield session


@pytest.fixture(scope="module")
def server(session: DafSession) -> Iterator[FlightSqlServer]:
    """Yield a server without limits but those of every server."""
    with FlightSqlServer(session) as server:
        yield server


@pytest.fixture
def cursor(server: FlightSqlServer) -> Iterator[Any]:
    """Yield a cursor of ADBC."""
    with _cursor(server) as cursor:
        yield cursor


@pytest.mark.parametrize("form", FORMS)
def test_the_driver_gets_the_rows_of_the_session(forms: dict[str, str], form: str) -> None:
    """In every form of a data set, with columns, groups, genes and nulls; parameters too."""
    with connect(forms[form]) as session, FlightSqlServer(session) as server:
        schema = next(iter(session._connections.schemas))
        with _driver(server) as connection, connection.cursor() as cursor:
            for query in QUERIES:
                cursor.execute(query)
                expected = session.sql(query).to_arrow_table()
                assert cursor.fetch_arrow_table().to_pylist() == expected.to_pylist()
            cursor.execute("SELECT count(*) AS n FROM obs WHERE age > ? AND donor = ?", (40, "d1"))
            query = "SELECT count(*) AS n FROM obs WHERE age > 40 AND donor = 'd1'"
            expected_count = session.sql(query).to_pylist()[0]["n"]
            assert cursor.fetchone() == (expected_count,)
            objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
            tables = objects[0]["catalog_db_schemas"][0]
            assert tables["db_schema_name"] == schema
            columns = {
                table["table_name"]: [column["column_name"] for column in table["table_columns"]]
                for table in tables["db_schema_tables"]
            }
            assert columns["obs"] == session.table("obs").schema.names
            assert {"obs", "var", "matrices", "relations"} <= columns.keys()
            assert cursor.execute(f'SELECT count(*) FROM daf."{schema}".obs').fetchone() == (CELLS,)


def test_tools_read_frames(server: FlightSqlServer, session: DafSession) -> None:
    """Pandas and polars get what the session gives, also with parameters."""
    query = "SELECT name, age, donor FROM cell WHERE age > {} ORDER BY name"
    with _driver(server) as connection:
        expected = session.sql(query.format(80))
        frame = pd.read_sql(query.format(80), connection)
        pd.testing.assert_frame_equal(frame, expected.to_pandas(), check_dtype=False)
        assert pl.read_database(
            query.format("?"), connection, execute_options={"parameters": (80,)}
        ).equals(expected.to_polars())
        with connection.cursor() as cursor:
            cursor.execute(query.format(80))
            assert cursor.fetch_df().equals(expected.to_arrow_table().to_pandas())
            assert [column[0] for column in cursor.description] == ["name", "age", "donor"]


def test_queries_are_described_and_read_in_partitions(
    server: FlightSqlServer, session: DafSession
) -> None:
    """The columns without the rows, and the rows by a descriptor that others may read."""
    query = "SELECT name, age FROM cell WHERE age > 88"
    with _driver(server) as connection, connection.cursor() as cursor:
        assert cursor.adbc_execute_schema(query) == session.sql(query).schema
        partitions, schema = cursor.adbc_execute_partitions(query)
        assert schema == session.sql(query).schema
    with _driver(server) as other, other.cursor() as cursor:
        tables = []
        for partition in partitions:
            cursor.adbc_read_partition(partition)
            tables.append(cursor.fetch_arrow_table())
    assert pa.concat_tables(tables).num_rows == session.sql(query).count()


@pytest.mark.filterwarnings("ignore::daf_query.UnreadableVectorWarning")
def test_a_column_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """Of all columns, as the session does it; asked for by name, it is an error without a path."""
    path = tmp_path / "secret_place.daf.zarr"
    with open_daf(path, "w+") as daf:
        data_set(daf, cell={"name": ["a", "b"], "age": [1.5, 2.5], "score": [1.5, 2.5]})
    (chunk,) = path.rglob("age/0")
    chunk.write_bytes(chunk.read_bytes()[:3])
    with FlightSqlServer({"broken": path}) as server, _cursor(server) as cursor:
        assert "secret_place" not in _refused(cursor, "SELECT age FROM cell", "broken")
        rows = cursor.execute("SELECT * FROM cell").fetch_arrow_table()
        assert rows.column_names == ["name", "index", "score"]


def test_parameters_arrive_as_they_are(cursor: Any) -> None:
    """Of every type of Python that a driver sends, in every place, also for IN and names."""
    values = (1, -2.5, "it's ; -- ?", True, None, b"\x00\xff", dt.date(2024, 2, 29))
    cursor.execute(f"SELECT {', '.join('?' for _ in values)}", values)
    assert cursor.fetchone() == values
    ages = "SELECT count(*) FROM cell WHERE age IN (?, ?)"
    assert cursor.execute(ages, (1, 2)).fetchone() == (68,)
    assert cursor.execute("SELECT $2 - $1", (1, 5)).fetchone() == (4,)
    assert cursor.execute("SELECT ?", ("'; DROP TABLE cell; --",)).fetchone()[0].endswith("--")
    prepared = cursor.adbc_prepare("SELECT name FROM cell WHERE age > ? AND donor LIKE ?")
    assert prepared.types == [pa.int64(), pa.string()]
    cursor.adbc_prepare("SELECT count(*) AS n FROM cell WHERE age IN $ages AND donor = $donor")
    parameters = pa.record_batch({"donor": ["d1"], "ages": [[1, 2, 4]]})
    cursor.adbc_statement.bind(parameters)
    stream, _ = cursor.adbc_statement.execute_query()
    found = pa.RecordBatchReader._import_from_c(stream.address).read_all().to_pylist()
    assert found == [{"n": len([i for i in range(3000) if i % 90 in (1, 2, 4) and i % 3 == 1])}]


def test_parameters_that_do_not_fit_are_refused(cursor: Any) -> None:
    """Too few, too many, none: each with a sentence; test_bound_values.py has several rows."""
    query = "SELECT name FROM cell WHERE age > ?"
    for values, message in [((1, 2), "1 parameter "), ((), "none were bound|no row|1 parameter ")]:
        with pytest.raises(dbapi.Error, match=message):
            cursor.execute(query, values)
    with pytest.raises(dbapi.Error, match="only reads"):
        cursor.executemany(query, [(1,), (2,)])


def test_what_there_is_can_be_listed(server: FlightSqlServer, session: DafSession) -> None:
    """Catalogs, schemas, tables, types, columns, and what the server is."""
    with _driver(server) as connection:
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
        schema = connection.adbc_get_table_schema("cell", db_schema_filter="small")
        assert schema == session.sql("SELECT * FROM cell").schema
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "daf-query"
        assert info["vendor_arrow_version"] == pa.__version__

        def listed(**options: Any) -> list[str]:
            rows = connection.adbc_get_objects(depth="tables", **options).read_all().to_pylist()
            return [
                table["table_name"]
                for catalog in rows
                for schema in catalog["catalog_db_schemas"] or []
                for table in schema["db_schema_tables"] or []
            ]

        assert listed() == ["cell", "matrices", "relations", "scalars", "two words"]
        assert listed(table_types_filter=["TABLE"]) == ["cell", "two words"]
        assert listed(table_name_filter="c%l_") == ["cell"]
        assert listed(db_schema_filter="smal_") == listed()
        assert listed(catalog_filter="other") == listed(db_schema_filter="other") == []


def test_metadata_commands_answer_as_published(server: FlightSqlServer) -> None:
    """SqlInfo, which the driver does not ask for; test_catalog.py has the keys and the schemas."""
    with _flight(server) as client:
        table = partial(answer, client)
        info = table("CommandGetSqlInfo")
        values = dict(zip(info["info_name"].to_pylist(), info["value"].to_pylist(), strict=True))
        assert (values[0], values[3], values[4], values[9]) == ("daf-query", True, True, True)
        assert values.keys() == {*range(12), 100, 101, *range(500, 577)} - {6, 7}
        assert table("CommandGetSqlInfo", info=[8])["value"].to_pylist() == [0]


def test_types_become_those_that_all_drivers_know() -> None:
    """Dictionaries and views are sent as what they stand for, also within lists."""
    daf = data_set(name="types", cell=["a", "b", "c"])
    session = connect({"types": daf})
    table = pa.table(
        {
            "kind": pa.array(["x", None, "y"]).dictionary_encode(),
            "view": pa.array(["x" * 20, None, "y"], pa.string_view()),
            "lists": pa.array([["x"], [], None], pa.list_(pa.string_view())),
            "time": pa.array([1, None, 3], pa.timestamp("us", "UTC")),
        }
    )
    session.register(table, "kinds")
    with session, FlightSqlServer(session) as server, _cursor(server) as cursor:
        answer = cursor.execute("SELECT * FROM kinds").fetch_arrow_table()
    assert answer.to_pylist() == table.to_pylist()
    assert answer.schema.field("kind").type == answer.schema.field("view").type == pa.string()
    assert answer.schema.field("lists").type == pa.list_(pa.string())


REFUSED = [
    "CREATE TABLE mine AS SELECT 1",
    "CREATE VIEW mine AS SELECT 1",
    "CREATE EXTERNAL TABLE passwd STORED AS CSV LOCATION '/etc/passwd'",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION f() RETURNS INT RETURN 1",
    "INSERT INTO cell VALUES (1)",
    "DELETE FROM cell",
    "UPDATE cell SET age = 1",
    "DROP TABLE cell",
    "COPY (SELECT 1) TO '/tmp/daf-flight-copied.csv'",
    "COPY cell TO '/tmp/daf-flight-copied.parquet'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/daf-flight-copied.csv'",
    "SET datafusion.execution.batch_size = 1",
    "RESET datafusion.execution.batch_size",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM 'file:///etc/passwd'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT 1; DROP TABLE cell",
]


def test_nothing_is_changed_and_no_file_is_read(cursor: Any) -> None:
    """Statements that change something, or name files, are refused with one sentence."""
    for statement in REFUSED:
        assert "root:" not in _refused(cursor, statement, "."), statement
    assert not list(Path("/tmp").glob("daf-flight-copied*"))  # noqa: S108 - what was asked for
    cursor.adbc_statement.set_sql_query("DELETE FROM cell")
    with pytest.raises(dbapi.Error, match="only reads"):
        cursor.adbc_statement.execute_update()
    with pytest.raises(dbapi.Error):
        cursor.adbc_ingest("mine", pa.table({"a": [1]}), mode="create")
    assert cursor.execute("SELECT count(*) FROM cell").fetchone() == (3000,)


def _refused(cursor: Any, query: str, message: str, error: type[Exception] = dbapi.Error) -> str:
    """Check that a query is refused with a sentence, and return that."""
    with pytest.raises(error, match=message) as caught:
        cursor.execute(query).fetchall()
    _check_message(str(caught.value))
    return str(caught.value)


def _check_message(message: str) -> None:
    """Check that a message to a client has nothing of the server."""
    assert "Traceback" not in message
    assert ".py" not in message
    assert "daf_query" not in message


def test_errors_are_sentences_without_paths_of_the_server(tmp_path: Path) -> None:
    """A data set is called by its schema; gRPC says what is wrong with the request."""
    path = tmp_path / "secret_place" / "cells.daf.zarr"
    path.parent.mkdir()
    daf = open_daf(path, "w+")
    data_set(daf, cell={"name": ["a", "b"], "age": [1, 2]})
    daf.close()
    with FlightSqlServer(path) as server, _cursor(server) as cursor:
        for query, error, message in [
            ("SELECT nope FROM cell", dbapi.ProgrammingError, "cells: axis 'cell' has no vector"),
            ("SELECT * FROM nope", dbapi.ProgrammingError, "cells: there is no table 'nope'"),
            ("SELEC", dbapi.ProgrammingError, "syntax error at line 1"),
            ("SELECT CAST(name AS INT) FROM cell", dbapi.Error, "Cannot cast string 'a'"),
        ]:
            assert "secret_place" not in _refused(cursor, query, message, error)
        for query in (
            "EXPLAIN VERBOSE SELECT * FROM cell WHERE age > 1",
            "SELECT * FROM information_schema.df_settings",
            "SELECT * FROM information_schema.tables",
            "SELECT * FROM matrices",
            "SHOW ALL",
        ):
            rows = cursor.execute(query).fetch_arrow_table().to_pylist()
            assert "secret_place" not in str(rows), query


def test_a_fault_of_the_server_says_nothing_of_it(
    server: FlightSqlServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An exception that nobody expected is logged by the server; the client learns that it failed."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("at /secret/place.py")

    with _flight(server) as client:
        monkeypatch.setattr(DafSession, "sql", fail)
        with pytest.raises(flight.FlightInternalError, match="its own log says why") as caught:
            _ask(client, "SELECT 1")
        _check_message(str(caught.value))
        assert "secret" not in str(caught.value)
    assert "/secret/place.py" in capfd.readouterr().err


def test_random_bytes_are_refused(server: FlightSqlServer) -> None:
    """As commands, tickets, actions and parameters: an error each, and the server goes on."""
    rng = np.random.default_rng(0)
    valid = packed("CommandStatementQuery", query="SELECT 1")
    with _flight(server) as client:
        for number in range(60):
            data = rng.bytes(number) if number % 2 else valid[:number] + rng.bytes(3)
            for call in _calls(client, data):
                with pytest.raises((flight.FlightError, pa.ArrowException)) as caught:
                    call()
                _check_message(str(caught.value))
        assert client.do_get(_ask(client, "SELECT 1 AS one").endpoints[0].ticket).read_all()
        huge = packed("CommandStatementQuery", query=f"SELECT '{'x' * (3 << 20)}'")
        for call in _calls(client, huge):
            with pytest.raises((flight.FlightError, pa.ArrowException), match="max-query-bytes"):
                call()


def _calls(client: flight.FlightClient, data: bytes) -> list[Callable[[], Any]]:
    descriptor = flight.FlightDescriptor.for_command(data)

    def put() -> None:
        writer, _ = client.do_put(descriptor, pa.schema([("a", pa.int64())]))
        with writer:
            writer.write_batch(pa.record_batch({"a": [1]}))

    return [
        lambda: client.get_flight_info(descriptor),
        lambda: client.get_schema(descriptor),
        lambda: client.do_get(flight.Ticket(data)).read_all(),
        lambda: list(client.do_action(flight.Action("CreatePreparedStatement", data))),
        lambda: list(client.do_action(flight.Action("CancelQuery", data))),
        put,
    ]


def test_other_calls_are_refused_or_empty(server: FlightSqlServer) -> None:
    """Paths, unknown actions, transactions and exchanges; there is nothing to list."""
    with _flight(server) as client:
        assert list(client.list_flights()) == []
        assert "CancelFlightInfo" in [action.type for action in client.list_actions()]
        with pytest.raises(pa.ArrowInvalid, match="no paths"):
            client.get_flight_info(flight.FlightDescriptor.for_path("etc", "passwd"))
        with pytest.raises(NotImplementedError, match="no action 'Nothing'"):
            list(client.do_action(flight.Action("Nothing", b"")))
        with pytest.raises(NotImplementedError, match="no transactions"):
            list(client.do_action(flight.Action("BeginTransaction", b"")))
        name = "type.googleapis.com/arrow.flight.protocol.sql.CommandStatementSubstraitPlan"
        substrait = any_pb2.Any(type_url=name).SerializeToString()
        with pytest.raises(NotImplementedError, match="SubstraitPlan"):
            client.get_flight_info(flight.FlightDescriptor.for_command(substrait))
        closed = list(client.do_action(flight.Action("CloseSession", b"")))
        assert closed[0].body.to_pybytes() == b"\x08\x01"


def test_deep_and_long_queries_do_not_end_the_server(cursor: Any) -> None:
    """Brackets, operators and lists by the thousand give an answer or an error."""
    for query in (
        f"SELECT {'(' * 5000}1{')' * 5000}",
        f"SELECT {'NOT ' * 5000}TRUE",
        f"SELECT {'-' * 1}{'+'.join(['1'] * 3000)}",
        f"SELECT count(*) FROM cell WHERE {' OR '.join(['age = 1'] * 3000)}",
        f"SELECT {'abs(' * 3000}1{')' * 3000}",
        "SELECT * FROM " + "(SELECT * FROM " * 2000 + "cell" + ")" * 2000,
    ):
        try:
            cursor.execute(query).fetchall()
        except dbapi.Error as error:
            _check_message(str(error))
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_queries_are_cancelled_and_their_work_ends(server: FlightSqlServer) -> None:
    """By ADBC, by what was answered, by the older action, and by a client that goes."""
    with _driver(server) as connection, connection.cursor() as cursor:
        threading.Timer(1.0, cursor.adbc_cancel).start()
        with pytest.raises(dbapi.Error, match="(?i)cancel"):
            cursor.execute(ENDLESS).fetchall()
    wait_until(lambda: server.running_queries == 0)
    request = {
        "CancelFlightInfo": lambda info: b"\x0a" + _varint(len(info)) + info,
        "CancelQuery": lambda info: packed("ActionCancelQueryRequest", info=info),
    }
    for name, body in request.items():
        with _flight(server) as client:
            info = _ask(client, ENDLESS)
            reading, failed = _reading(client, info)
            wait_until(lambda: server.running_queries == 1)
            action = flight.Action(name, body(info.serialize()))
            assert next(iter(client.do_action(action))).body.to_pybytes().endswith(b"\x08\x01")
            reading.join(20)
            assert "cancelled" in str(failed[0])
            wait_until(lambda: server.running_queries == 0)
            unread = _ask(client, "SELECT 1")
            list(client.do_action(flight.Action(name, body(unread.serialize()))))
            with pytest.raises(flight.FlightCancelledError, match="before it began"):
                client.do_get(unread.endpoints[0].ticket).read_chunk()
    client = flight.connect(server.uri)
    reader = client.do_get(_ask(client, "SELECT a.name FROM cell a, cell b").endpoints[0].ticket)
    reader.read_chunk()
    assert server.running_queries == 1
    reader.cancel()
    client.close()
    del reader, client
    wait_until(lambda: server.running_queries == 0)
    wait_until(_nothing_computes, seconds=60)


def _nothing_computes() -> bool:
    """Return whether this process idles; the engine goes on for a while with what was cancelled."""
    started = time.process_time()
    time.sleep(0.5)
    return time.process_time() - started < 0.1


def _reading(
    client: flight.FlightClient, info: flight.FlightInfo
) -> tuple[threading.Thread, list[BaseException]]:
    """Begin to read in a thread; return that, and the list that gets its error."""
    failed: list[BaseException] = []

    def read() -> None:
        try:
            client.do_get(info.endpoints[0].ticket).read_chunk()
        except BaseException as error:  # noqa: BLE001 - it is looked at
            failed.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    return reading, failed


def _varint(number: int) -> bytes:
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def test_limits_are_kept_and_named(session: DafSession) -> None:
    """Rows, bytes, seconds, queries and bytes of SQL: the sentence says which, and how to raise it."""
    limits = FlightSqlLimits(
        max_rows=2000, max_bytes=100_000, max_seconds=3.0, max_queries=1, max_query_bytes=2000
    )
    with FlightSqlServer(session, limits=limits) as server, _cursor(server) as cursor:
        for query, message in (
            ("SELECT age FROM cell", "more than 2,000 rows.*--max-rows.*max_rows="),
            ("SELECT repeat(name, 50) FROM cell LIMIT 1000", "more than 100,000 bytes.*--max-b"),
            (f"SELECT '{'x' * 4000}'", "more than 2,000, .*--max-query-bytes"),
            (ENDLESS, "not ended after 3 seconds.*--max-seconds"),
        ):
            _refused(cursor, query, message)
        wait_until(lambda: server.running_queries == 0)
        with _flight(server) as client:
            handle = prepared(client, "SELECT ? + 1")
            info = _ask(client, ENDLESS)
            reading, _ = _reading(client, info)
            wait_until(lambda: server.running_queries == 1)
            with pytest.raises(flight.FlightUnavailableError, match="--max-queries"):
                _ask(client, "SELECT 1")
            with pytest.raises(pa.ArrowInvalid, match="none were bound"):  # without planning it
                _rows(
                    client,
                    packed("CommandPreparedStatementQuery", prepared_statement_handle=handle),
                )
            reading.join(20)
        wait_until(lambda: server.running_queries == 0)
        assert cursor.execute("SELECT 1").fetchone() == (1,)
        assert cursor.execute(f"SELECT length('{'x' * 1900}')").fetchone() == (1900,)


@pytest.mark.parametrize("most", [None, 64 << 20])
def test_no_files_are_read(session: DafSession, tmp_path: Path, most: int | None) -> None:
    """Neither in FROM, nor in a condition that a table function is given; the session itself may."""
    path = tmp_path / "sheet.csv"
    path.write_text("name\nC0\n")
    inner = f"SELECT name FROM '{path}'"
    assert session.sql(inner).to_pydict() == {"name": ["C0"]}
    limits = FlightSqlLimits(max_memory_bytes=most)
    message = "a service reads no files but its data sets"
    with FlightSqlServer(session, limits=limits) as server, _cursor(server) as cursor:
        for query in (inner, f"SELECT name FROM cell WHERE name IN ({inner})"):
            _refused(cursor, query, message)
        assert cursor.execute("SELECT count(*) FROM cell").fetchall()


def test_the_memory_of_a_query_is_limited(session: DafSession) -> None:
    """A sort, a join, groups and a window beyond it are refused; each query has all of it."""
    limits = FlightSqlLimits(max_memory_bytes=2 << 20, max_queries=4)
    pairs = "SELECT a.name || b.name AS n FROM cell a, cell b WHERE b.index < 100"
    with FlightSqlServer(session, limits=limits) as server, _cursor(server) as cursor:
        for query in (
            f"SELECT n FROM ({pairs}) ORDER BY n",
            f"SELECT count(DISTINCT n) FROM ({pairs})",
            f"SELECT n, count(*) FROM ({pairs}) GROUP BY n",
            f"SELECT count(*) FROM ({pairs}) p JOIN ({pairs}) q ON p.n = q.n",
            f"SELECT row_number() OVER (ORDER BY n) FROM ({pairs})",
        ):
            message = r"more than 2,097,152 bytes of memory, .*--max-memory-bytes, or max_memory_b"
            _refused(cursor, query, message)
        for query in (
            "SELECT name FROM cell ORDER BY age DESC, name LIMIT 3",
            "SELECT donor, count(*) AS n FROM cell WHERE age > 40 GROUP BY donor ORDER BY donor",
            "SELECT count(*) AS n FROM cell a JOIN cell b ON a.name = b.name",
        ):
            rows = cursor.execute(query).fetch_arrow_table().to_pylist()
            assert rows == session.sql(query).to_pylist()
    query = f"SELECT count(DISTINCT n) AS n FROM ({pairs})"
    assert session.sql(query).to_pydict() == {"n": [300000]}


def test_a_server_with_a_limit_of_memory_has_the_views_of_its_session() -> None:
    """Also those that are created while it runs; and the tables of the session."""
    daf = MemoryDaf(name="views_with_limit")
    daf.add_axis("cell", ["A", "B"], vectors={"age": [30, 60]})
    limits = FlightSqlLimits(max_memory_bytes=8 << 20)
    with connect(daf) as session, FlightSqlServer(session, limits=limits) as server:
        session.sql("CREATE VIEW old AS SELECT * FROM cell WHERE age > 40", allow="write").count()
        session.register(pa.table({"n": [7]}), "other")
        with _cursor(server) as cursor:
            assert cursor.execute("SELECT name FROM old").fetchall() == [("B",)]
            assert cursor.execute("SELECT n FROM other").fetchall() == [(7,)]
            cursor.execute("SELECT name FROM old WHERE age > ?", (70,))
            assert cursor.fetchall() == []


def test_a_client_that_reads_nothing_is_not_waited_for(session: DafSession) -> None:
    """Its rows are computed a few batches ahead, and its place is free when its time is over."""
    limits = FlightSqlLimits(max_seconds=1.5, max_queries=1)
    with FlightSqlServer(session, limits=limits) as server, _flight(server) as client:
        everything = "SELECT a.name || b.name AS n FROM cell a, cell b"
        reader = client.do_get(_ask(client, everything).endpoints[0].ticket)
        reader.read_chunk()
        wait_until(lambda: server.running_queries == 0)
        assert client.do_get(_ask(client, "SELECT 1").endpoints[0].ticket).read_all().num_rows == 1
        with pytest.raises(flight.FlightTimedOutError, match="--max-seconds"):
            sum(1 for _ in reader)


def test_large_results_are_streamed(session: DafSession) -> None:
    """Nine million rows of 200 MB pass in messages that clients take; most is never held."""
    with FlightSqlServer(session) as server, _flight(server) as client:
        info = _ask(client, "SELECT a.name, b.age FROM cell a, cell b")
        before = pa.total_allocated_bytes()
        rows = most = largest = 0
        for chunk in client.do_get(info.endpoints[0].ticket):
            rows += chunk.data.num_rows
            largest = max(largest, chunk.data.nbytes)
            most = max(most, pa.total_allocated_bytes() - before)
            if rows > 2_000_000:
                break
        assert largest < 4 << 20
        assert most < 64 << 20


def test_a_string_of_many_bytes_is_one_message_of_its_own(cursor: Any) -> None:
    """Rows are cut where messages would be too large for the driver, which takes 16 MiB."""
    cursor.execute("SELECT name, repeat('x', 1000000) AS x FROM cell WHERE index < 40")
    table = cursor.fetch_arrow_table()
    assert table.num_rows == 40
    assert table["x"].nbytes > 40_000_000


def test_prepared_statements_are_bound_again(server: FlightSqlServer) -> None:
    """Bound again and again, each with its own values; what is not of this server is refused."""
    values = [pa.record_batch({"p": [age]}) for age in (88, 89)]
    with _flight(server) as client:
        handle = prepared(client, "SELECT count(*) AS n FROM cell WHERE age >= ?")
        command = "CommandPreparedStatementQuery"
        with pytest.raises(pa.ArrowInvalid, match="none were bound"):
            _rows(client, packed(command, prepared_statement_handle=handle))
        first = bound(client, handle, values[0])
        again = bound(client, first, values[1])
        counts = [
            answer(client, command, prepared_statement_handle=each)["n"].to_pylist()
            for each in (first, again)
        ]
        assert counts == [[66], [33]]
        for place in range(0, len(handle), 7):
            changed = handle[:place] + bytes([handle[place] ^ 1]) + handle[place + 1 :]
            with pytest.raises(pa.ArrowInvalid, match="not one that this server gave"):
                bound(client, changed, values[0])


def _rows(client: flight.FlightClient, command: bytes) -> pa.Table:
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
    return client.do_get(info.endpoints[0].ticket).read_all()


def test_tokens_let_in_and_keep_out(session: DafSession) -> None:
    """Bearer, basic and JDBC's handshake; a ticket is nothing without a token."""
    with FlightSqlServer(session, tokens=[TOKEN, secrets.token_urlsafe()]) as server:
        with pytest.raises(dbapi.Error, match="needs a token"), _driver(server) as connection:
            connection.cursor().execute("SELECT 1")
        header = {"adbc.flight.sql.authorization_header": f"Bearer {TOKEN}"}
        with _cursor(server, **header) as cursor:
            assert cursor.execute("SELECT count(*) FROM cell").fetchone() == (3000,)
        login = {"username": "anyone", "password": TOKEN}
        with _cursor(server, **login) as cursor:
            assert cursor.execute("SELECT ?", (1,)).fetchone() == (1,)
        login["password"] = "wrong"  # noqa: S105 - it is
        with pytest.raises(dbapi.Error, match="needs a token"), _driver(server, **login):
            pass
        with _flight(server) as client:
            first, second = (
                flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
                for token in (TOKEN, "wrong")
            )
            info = _ask(client, "SELECT 1 AS one", options=first)
            ticket = info.endpoints[0].ticket
            assert client.do_get(ticket, first).read_all().num_rows == 1
            with pytest.raises(flight.FlightUnauthenticatedError, match="needs a token"):
                client.do_get(ticket, second).read_all()
            changed = flight.Ticket(ticket.ticket[:-1] + b"2")
            with pytest.raises(pa.ArrowInvalid, match="ticket"):
                client.do_get(changed, first).read_all()
            scheme, token = client.authenticate_basic_token("anyone", TOKEN)
            assert (scheme, token) == (b"authorization", f"Bearer {TOKEN}".encode())
            odd = b"Basic " + base64.b64encode(b"\xff")
            for value in (b"Bearer", b"Basic !", odd, b"", b"x y"):
                refused = flight.FlightCallOptions(headers=[(b"authorization", value)])
                with pytest.raises(flight.FlightUnauthenticatedError, match="needs a token"):
                    _ask(client, "SELECT 1", options=refused)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate of this machine, and its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"))


def test_connections_are_encrypted_with_a_certificate(
    session: DafSession, certificate: tuple[Path, Path]
) -> None:
    """Who trusts it can ask; who does not, cannot, and nothing is answered in clear."""
    with FlightSqlServer(session, tls=certificate, tokens=[TOKEN]) as server:
        assert server.uri.startswith("grpc+tls://")
        options = {
            "adbc.flight.sql.client_option.tls_root_certs": certificate[0].read_text(),
            "adbc.flight.sql.authorization_header": f"Bearer {TOKEN}",
        }
        with _cursor(server, **options) as cursor:
            assert cursor.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(dbapi.Error, match="certificate"), _driver(server) as connection:
            connection.cursor().execute("SELECT 1")
        clear = dbapi.connect(server.uri.replace("+tls", ""), autocommit=True)
        with pytest.raises(dbapi.Error), clear as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")


def test_the_server_ends_in_the_middle_of_queries(session: DafSession) -> None:
    """Whoever waits gets a sentence; it takes no longer than a few seconds."""
    server = FlightSqlServer(session)
    with _flight(server) as client:
        reading, failed = _reading(client, _ask(client, ENDLESS))
        wait_until(lambda: server.running_queries == 1)
        server.close()
        server.close()
        reading.join(20)
        assert "closing" in str(failed[0])
    in_use = pytest.raises(errors.InUseError, match="in use by another program")
    with FlightSqlServer(session) as taken, in_use:
        FlightSqlServer(session, port=taken.port)
