"""Tests of what is remembered of the queries of a page: their states, and their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from daf_query._row_files import Rows
from daf_query.explore._http import CancelledError, RequestError
from daf_query.explore._remembered import Queries, QueryState


def without_seconds(state: QueryState) -> tuple[str, int, bool]:
    """Return what does not depend on the clock."""
    return state.state, state.rows, state.truncated


def test_the_states_of_a_query() -> None:
    """It runs, until it ends once; what is said of it afterwards changes nothing."""
    queries = Queries()
    queries.sent("a", 5)  # nobody knows it
    with pytest.raises(RequestError, match="no query 'a'") as unknown:
        queries.find("a")
    assert unknown.value.status == 404
    queries.begin("a")
    assert without_seconds(queries.find("a")) == ("running", 0, False)
    with pytest.raises(RequestError, match="'a' runs already") as twice:
        queries.begin("a")
    assert twice.value.status == 409
    queries.sent("a", 5)
    queries.sent("a", 7, truncated=True)
    running = queries.find("a")
    assert without_seconds(running) == ("running", 7, True)
    assert 0 < running.seconds < 60
    queries.end("a", None, "")
    queries.end("a", ValueError(), "")
    queries.sent("a", 9)
    done = queries.find("a")
    assert without_seconds(done) == ("done", 7, True)
    assert running.seconds <= done.seconds == queries.find("a").seconds < 60
    assert done.error is None
    queries.begin("a")  # it may be asked again
    assert without_seconds(queries.find("a")) == ("running", 0, False)
    queries.end("a", CancelledError("gone"), "")
    assert (queries.find("a").state, queries.find("a").error) == ("cancelled", None)
    queries.begin("a")
    queries.end("a", RequestError("wrong"), "")
    failed = queries.find("a")
    assert failed.state == "failed"
    assert failed.error is not None
    assert (failed.error["error"], failed.error["message"]) == ("RequestError", "wrong")


def test_a_thousand_queries_are_remembered() -> None:
    """Those that began last; one that is asked again begins again."""
    queries = Queries()
    for number in range(1000):
        queries.begin(str(number))
        queries.end(str(number), None, "")
    queries.begin("0")
    queries.begin("more")
    assert queries.find("0").state == "running"
    assert queries.find("2").state == "done"
    with pytest.raises(RequestError, match="no query '1'"):
        queries.find("1")
    assert len(queries._queries) == 1000


def batch(count: int = 2) -> pa.RecordBatch:
    """Return rows with keys and a value."""
    return pa.record_batch({"name": ["x"] * count, "index": np.arange(count), "age": [1] * count})


def hold(queries: Queries, name: str, *batches: pa.RecordBatch, sql: str = "sql") -> None:
    """Run a query that sends all of its rows."""
    queries.begin(name)
    rows = Rows(batch().schema if not batches else batches[0].schema, list(batches))
    count = sum(each.num_rows for each in queries.holding(name, sql, rows))
    queries.sent(name, count)
    assert queries.rows(name, sql) is None
    queries.complete(name)
    queries.end(name, None, sql)


def test_rows_of_four_queries_are_held() -> None:
    """Those that began last, each with all of its rows, and their keys; until it is asked again."""
    queries = Queries()
    for name in "01230":
        hold(queries, name, batch(2), batch(3))
    hold(queries, "4")
    assert queries.keys("0").to_pydict() == {"name": ["x"] * 5, "index": [0, 1, 0, 1, 2]}
    assert queries.keys("4").to_pydict() == {"name": [], "index": []}
    found = queries.rows("0", " sql ")
    assert found is not None
    assert sum(each.num_rows for each in found.batches) == 5
    assert queries.rows("0", "other") is None
    with pytest.raises(RequestError, match="of query '1' are not remembered") as forgotten:
        queries.keys("1")
    assert forgotten.value.status == 404
    queries.begin("0")
    with pytest.raises(RequestError, match="run it again|not remembered"):
        queries.keys("0")


def test_keys_are_those_of_the_rows_that_were_sent() -> None:
    """Not of the one more that says that there are more."""
    queries = Queries()
    queries.begin("a")
    assert list(queries.holding("a", "sql", Rows(batch().schema, [batch(3)])))
    queries.sent("a", 2, truncated=True)
    assert queries.keys("a")["index"].to_pylist() == [0, 1]
    assert queries.rows("a", "sql") is None


def test_rows_are_held_within_a_budget() -> None:
    """Of the oldest, only the keys are, and then nothing; so it is of one that is too large."""
    one = pa.record_batch({"index": np.arange(50), "x": np.arange(50), "y": np.arange(50)})
    queries = Queries(3 * one.nbytes)
    for name in ("first", "second", "third"):
        hold(queries, name, one)
    assert all(queries.rows(name, "sql") for name in ("first", "second", "third"))
    hold(queries, "fourth", one)
    assert queries.rows("first", "sql") is None
    assert queries.keys("first").num_rows == 50
    assert queries.rows("fourth", "sql") is not None
    hold(queries, "large", *[one] * 4)
    assert queries.rows("large", "sql") is None
    assert queries.keys("large").num_rows == 200
    hold(queries, "huge", *[one] * 10)
    with pytest.raises(RequestError, match="not remembered"):
        queries.keys("huge")


def test_keys_that_are_there_twice_are_none() -> None:
    """Nobody could tell which is meant."""
    schema = pa.schema([("name", pa.string()), ("index", pa.int64()), ("name", pa.string())])
    queries = Queries()
    hold(queries, "a", pa.RecordBatch.from_arrays([["x"], [1], ["y"]], schema=schema))
    assert queries.keys("a").to_pydict() == {"index": [1]}
