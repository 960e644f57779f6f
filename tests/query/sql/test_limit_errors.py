"""Tests of errors of LIMIT and OFFSET."""

from __future__ import annotations

import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors


@pytest.fixture(scope="module")
def session() -> DafSession:
    """Return cells with a number each."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", ["A", "B", "C"])
    daf.set_vector("cell", "age", [1, 2, 3])
    return connect(daf)


@pytest.mark.parametrize("clause", ["LIMIT", "OFFSET"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("(SELECT 1)", "known before rows are read, and no column or subquery; write {} 5"),
        ("(SELECT max(age) FROM cell)", "known before rows are read, and no column or subquery"),
        ("count(*)", "known before rows are read, and no column or subquery"),
        ("age", "known before rows are read, and no column or subquery"),
        ('"age"', "known before rows are read, and no column or subquery"),
        ("'a'", "{} takes a whole number, and not a Utf8; write {} 5"),
        ("1.5", "{} takes a whole number, and not a Float64; write {} 5"),
        ("-1", "{} takes a whole number from 0, and not -1"),
    ],
)
def test_what_is_no_number_is_said_in_words(
    session: DafSession, clause: str, value: str, expected: str
) -> None:
    """The engine shows its own notation of the expression, or says that there are no columns."""
    said = expected.format(clause, clause)
    for query in (
        f"SELECT * FROM cell {clause} {value}",
        f"SELECT name FROM (SELECT * FROM cell ORDER BY age {clause} {value}) AS a",
    ):
        with pytest.raises(errors.QueryError, match=said):
            session.sql(query).to_arrow_table()


def test_limits_that_are_known_are_taken(session: DafSession) -> None:
    """A parameter and a computed number are known before rows are read."""
    assert session.sql("SELECT * FROM cell LIMIT 1 + 1").count() == 2
    assert session.sql("SELECT * FROM cell LIMIT $most", params={"most": 2}).count() == 2


def test_other_unknown_columns_are_those_of_the_query(session: DafSession) -> None:
    """A name that stands right after the word is a value of it, and no other is."""
    with pytest.raises(errors.VectorNotFoundError, match="has no vector 'sex'"):
        session.sql("SELECT sex FROM cell ORDER BY age LIMIT 5")
