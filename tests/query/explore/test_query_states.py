"""Tests of what is remembered of the queries of a page: their states, and the keys of their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from daf_query.explore._http import CancelledError, RequestError
from daf_query.explore._remembered import _MOST_KEY_BYTES, Queries, QueryState, SentKeys


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
    assert len(queries._begun) == 1000


def rows(count: int = 2) -> pa.RecordBatch:
    """Return rows with keys and a value."""
    return pa.record_batch({"name": ["x"] * count, "index": np.arange(count), "age": [1] * count})


def test_keys_of_four_queries_are_remembered() -> None:
    """Those that began last, each with all of its rows, by their keys alone."""
    keys = SentKeys()
    keys.add("0", rows())  # of none that began
    for name in "0123":
        keys.begin(name, rows().schema)
    keys.begin("0", rows().schema)
    keys.begin("4", rows().schema)
    keys.add("0", rows(2))
    keys.add("0", rows(3))
    keys.add("1", rows())
    assert keys.batch_of("0").to_pydict() == {"name": ["x"] * 5, "index": [0, 1, 0, 1, 2]}
    assert keys.batch_of("4").to_pydict() == {"name": [], "index": []}
    assert keys.batch_of("2").num_rows == 0
    with pytest.raises(RequestError, match="of query '1' are not remembered") as forgotten:
        keys.batch_of("1")
    assert forgotten.value.status == 404
    keys.begin("0", rows().schema)
    assert keys.batch_of("0").num_rows == 0
    assert len(keys._sizes) == 4


def test_keys_of_very_many_rows_are_not() -> None:
    """Up to 64 MiB of them are, together."""
    keys = SentKeys()
    half = pa.record_batch({"index": np.zeros(_MOST_KEY_BYTES // 16, np.int64)})
    keys.begin("a", half.schema)
    keys.add("a", half)
    keys.add("a", half)
    assert keys.batch_of("a").nbytes == _MOST_KEY_BYTES == 64 << 20
    keys.add("a", half.slice(0, 1))
    with pytest.raises(RequestError, match="run it again|not remembered"):
        keys.batch_of("a")
    keys.add("a", half.slice(0, 1))
    with pytest.raises(RequestError):
        keys.batch_of("a")


def test_keys_that_are_there_twice_are_none() -> None:
    """Nobody could tell which is meant."""
    schema = pa.schema([("name", pa.string()), ("index", pa.int64()), ("name", pa.string())])
    keys = SentKeys()
    keys.begin("a", schema)
    keys.add("a", pa.RecordBatch.from_arrays([["x"], [1], ["y"]], schema=schema))
    assert keys.batch_of("a").to_pydict() == {"index": [1]}
