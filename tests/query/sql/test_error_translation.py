"""Tests of errors of queries: what they say, what they carry, and what is printed above them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from daf_query import DafSession, connect
from daf_storage import errors
from tests.support import data_set


@pytest.fixture
def session() -> DafSession:
    """Return a session over two axes."""
    daf = data_set(
        name="x",
        cell={"name": ["a", "b"], "age": [1, 2], "donor": ["N1", "it's"]},
        gene={"name": ["x", "y", "z"], "is_marker": [True, False, True]},
        matrices={("cell", "gene", "UMIs"): [[1, 2, 3], [4, 5, 6]]},
    )
    return connect(daf)


def test_a_syntax_error_carries_its_place(session: DafSession) -> None:
    """Line, column and reason, of the SQL that the caller wrote; also after pickling."""
    with pytest.raises(errors.QueryError) as caught:
        session.sql("SELECT name\nFROM cell WHERE age > > 3")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.line, error.column) == (2, 23)
    assert error.reason
    assert error.reason in str(error)
    assert str(error).endswith("FROM cell WHERE age > > 3\n" + " " * 24 + "^")
    attempts: list[tuple[Callable[[], Any], tuple[int | None, int | None]]] = [
        (lambda: session.matrix("cell", "gene", "UMIs", rows="age\n> > 3"), (2, 3)),
        (lambda: session.save_vector("cell", "old", "age >"), (1, 6)),
        (lambda: session.sql("SELECT name + 1 FROM cell").to_pydict(), (None, None)),
    ]
    for attempt, place in attempts:
        with pytest.raises(errors.QueryError) as caught:
            attempt()
        assert (caught.value.line, caught.value.column) == place


def test_an_unknown_column_carries_the_axes_that_have_it(session: DafSession) -> None:
    """So the message about a slice says which keyword was meant."""
    for query, axes in (("SELECT is_marker FROM cell", ("gene",)), ("SELECT agee FROM cell", ())):
        with pytest.raises(errors.VectorNotFoundError) as caught:
            session.sql(query)
        assert caught.value.other_axes == axes
    with pytest.raises(errors.VectorNotFoundError, match="pass this predicate as columns="):
        session.matrix("cell", "gene", "UMIs", rows="is_marker")


ATTEMPTS: list[Callable[[DafSession], Any]] = [
    lambda db: db.sql("SELECT agee FROM cell"),
    lambda db: db.sql("SELECT name FROM cel"),
    lambda db: db.sql("SELECT name FROM"),
    lambda db: db.sql("SELECT 1 / (age - age) FROM cell").to_pydict(),
    lambda db: db.sql("SELECT name FROM cell").filter("agee > 3"),
    lambda db: db.matrix("cell", "gene", "UMIs", rows="agee > 3"),
    lambda db: db.matrix("cell", "gene", "UMIs", rows="age > "),
    lambda db: db.matrix("cell", "gene", "UMIs", rows="SELECT 1 / (age - age) AS index FROM cell"),
    lambda db: db.reorder_axis("cell", "agee"),
    lambda db: db.save_vector("cell", "x", "agee + 1"),
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_typo_prints_one_error(session: DafSession, attempt: Callable[[DafSession], Any]) -> None:
    """Without the engine's own above it, which stays there for those who look (`__context__`)."""
    with pytest.raises(errors.DafError) as caught:
        attempt(session)
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.count("Traceback (most recent call last)") == 1
    assert "DataFusion" not in printed.rsplit("daf_storage.errors.", 1)[1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT CAST('{}' AS BIGINT)",
        "SELECT DATE '{}'",
        "SELECT count(*) FROM cell WHERE age = '{}'",
        "{}",
        "SELECT 1 /* {}",
        "SELECT '{}",
        "SELECT 1 FROM cell WHERE {} WHERE",
    ],
)
def test_messages_are_short_however_long_a_value_is(session: DafSession, query: str) -> None:
    """The engine repeats a value, and the parser the line; the place in it stays the one."""
    written = query.format("x " * 5_000)
    with pytest.raises(errors.QueryError) as raised:
        session.sql(written).to_arrow_table()
    assert len(str(raised.value)) < 1500
    if raised.value.line and raised.value.column:
        _, line, mark = str(raised.value).split("\n")
        shown = line[len(mark) - 1 :].removesuffix("...")
        assert written[raised.value.column - 1 :].startswith(shown)
