"""Tests of what there is to ask, of who may ask, and of limits."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from daf_query import DafSession, connect
from daf_query.flight_sql import FlightSqlServer, is_loopback
from daf_query.sql import unbound_schemas
from daf_storage import MemoryDaf, errors
from tests.flight_messages import answer
from tests.support import data_set

PATTERNS = st.text(alphabet="ab%_\\", max_size=6)


def _session() -> DafSession:
    one, two = MemoryDaf(name="one"), MemoryDaf(name="two")
    for daf in (one, two):
        data_set(daf, cell={"name": ["a", "b"], "age": [1, 2]})
    two.add_axis("scalars", ["x"])
    session = connect({"one": one, "all": [one, two]})
    session.register(pd.DataFrame({"id": ["N1"]}), "samples")
    session.sql("CREATE VIEW one.old AS SELECT * FROM one.cell WHERE age > 1", allow="write")
    return session


@pytest.fixture(scope="module")
def client() -> Iterator[flight.FlightClient]:
    """Return a client of a server of two data sets, and both as one."""
    with (
        _session() as session,
        FlightSqlServer(session) as server,
        flight.connect(server.uri) as client,
    ):
        yield client


@given(PATTERNS, st.text(alphabet="ab%_\\", min_size=1, max_size=6))
def test_patterns_mean_what_sql_says(pattern: str, value: str) -> None:
    """As a regular expression has it: any string, any character, and either of them escaped."""
    written = re.sub(
        r"\\(.)|(%)|(_)|(.)",
        lambda m: re.escape(m[1] or m[4]) if m[1] or m[4] else ".*" if m[2] else ".",
        pattern,
        flags=re.DOTALL,
    )
    assert (value in _named(value, pattern)) == (
        re.fullmatch(written, value, re.DOTALL) is not None
    )


def test_hostile_patterns_take_no_time() -> None:
    """Many wildcards, which make other matchers try everything; too many are an error."""
    assert not _named("a" * 200, "%a" * 200 + "%b")
    with pytest.raises(pa.ArrowInvalid, match="too long"):
        _named("a", "%a" * 200_000)


def _named(table: str, pattern: str) -> list[str]:
    """Return which of the tables of a server, of which one has a name, are like a pattern."""
    with connect({"one": MemoryDaf(name="one")}) as session:
        session.register(pd.DataFrame({"id": [1]}), table)
        with FlightSqlServer(session) as server, flight.connect(server.uri) as client:
            found = answer(client, "CommandGetTables", table_name_filter_pattern=pattern)
            return [str(name) for name in found["table_name"]]


def test_all_tables_are_listed_with_their_keys() -> None:
    """Of data sets, several as one, those that were brought and views; axes hide descriptions."""
    with _session() as session:
        with FlightSqlServer(session) as server, flight.connect(server.uri) as client:
            listed = answer(client, "CommandGetTables", include_schema=True).to_pylist()
            names = ("db_schema_name", "table_name")
            keys = [
                answer(
                    client, "CommandGetPrimaryKeys", db_schema=row[names[0]], table=row[names[1]]
                )
                for row in listed
            ]
        assert [
            (*(row[name] for name in names), row["table_type"], *of["column_name"].to_pylist())
            for row, of in zip(listed, keys, strict=True)
        ] == [
            ("all", "cell", "TABLE", "dataset", "name"),
            ("all", "matrices", "VIEW"),
            ("all", "relations", "VIEW"),
            ("all", "scalars", "TABLE", "dataset", "name"),
            ("one", "cell", "TABLE", "name"),
            ("one", "matrices", "VIEW"),
            ("one", "old", "VIEW"),
            ("one", "relations", "VIEW"),
            ("one", "scalars", "VIEW"),
            ("public", "samples", "TABLE"),
        ]
        for row in listed:
            columns = pa.ipc.read_schema(pa.py_buffer(row["table_schema"])).names
            table = f'"{row["db_schema_name"]}"."{row["table_name"]}"'
            assert columns == session.sql(f"SELECT * FROM {table}").column_names


@pytest.mark.parametrize(
    "name",
    [
        *("Catalogs", "DbSchemas", "Tables", "TableTypes", "PrimaryKeys", "ExportedKeys"),
        *("ImportedKeys", "CrossReference", "SqlInfo", "XdbcTypeInfo"),
    ],
)
def test_every_answer_has_the_schema_that_it_says(client: flight.FlightClient, name: str) -> None:
    """And is whole; also where nothing is found."""
    assert answer(client, f"CommandGet{name}").combine_chunks().validate(full=True) is None
    nothing = answer(client, "CommandGetTables", catalog="other", include_schema=True)
    assert nothing.num_rows == 0
    assert answer(client, "CommandGetSqlInfo", info=[99]).num_rows == 0


def test_a_query_that_changes_something_is_refused(client: flight.FlightClient) -> None:
    """Without the argument of Python that would allow it."""
    with pytest.raises(flight.FlightUnauthorizedError, match="only read") as caught:
        answer(client, "CommandStatementQuery", query="DROP TABLE one.cell")
    assert "allow=" not in str(caught.value)


def test_types_of_parameters_are_inferred() -> None:
    """From what they are compared with; of nothing known, strings; wrong SQL is an error."""
    with _session() as session:
        for query, types in [
            (
                "SELECT * FROM one.cell WHERE age > ? AND name IN (?, ?)",
                ["int64", "string", "string"],
            ),
            ("SELECT age + $x, upper($y) FROM one.cell", ["int64", "string"]),
            (
                "SELECT name FROM one.cell WHERE age + 1 > $a AND name IN $b AND $c IS NULL",
                ["int64", "string", "string"],
            ),
            ("SELECT 1", []),
            ("SELECT name FROM one.cell WHERE age > ? ORDER BY name", ["int64"]),
        ]:
            _, parameters = unbound_schemas(session._engine.plan, query)
            assert [str(field.type) for field in parameters] == types
        with pytest.raises(errors.AxisNotFoundError):
            unbound_schemas(session._engine.plan, "SELECT * FROM one.nope")
        columns, parameters = unbound_schemas(
            session._engine.plan, "SELECT * FROM one.nope WHERE a = ?"
        )
        assert columns is None
        assert parameters.names == ["1"]


def test_other_machines_need_a_token() -> None:
    """Or the word of whoever starts the server."""
    with connect(MemoryDaf()) as session:
        for host in ("0.0.0.0", "::", "192.0.2.1"):  # noqa: S104 - refused
            assert not is_loopback(host)
            with pytest.raises(errors.InvalidInputError, match="--token-file.*--allow-anyone"):
                FlightSqlServer(session, host=host)
        with pytest.raises(errors.InvalidInputError, match="no address '192.0.2.1'"):
            FlightSqlServer(session, host="192.0.2.1", allow_anyone=True)
        with FlightSqlServer(session, host="localhost") as server:
            assert server.uri == f"grpc://localhost:{server.port}"
