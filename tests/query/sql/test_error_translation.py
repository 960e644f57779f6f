"""Tests of errors of queries: what they say, what they carry, and what is printed above them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors


@pytest.fixture
def session() -> DafSession:
    """Return a session over two axes."""
    daf = MemoryDaf(name="x")
    daf.add_axis("cell", ["a", "b"])
    daf.add_axis("gene", ["x", "y", "z"])
    daf.set_vector("cell", "age", [1, 2])
    daf.set_vector("cell", "donor", ["N1", "it's"])
    daf.set_vector("gene", "is_marker", [True, False, True])
    daf.set_matrix("cell", "gene", "UMIs", [[1, 2, 3], [4, 5, 6]])
    return connect(daf)


def test_what_is_no_unicode(session: DafSession) -> None:
    """A command line hands on bytes that are no UTF-8 as halves of surrogate pairs."""
    expected = r"the query has '\\udc80', which is no Unicode"
    with pytest.raises(errors.QueryError, match=expected):
        session.sql("SELECT '\udc80', age + 1 FROM cell")
    with pytest.raises(errors.QueryError, match=expected):
        session.sql('SELECT * FROM "\udc80"')


@pytest.mark.parametrize(
    ("query", "place", "reason"),
    [
        ("SELECT\n 'abc FROM cell", (2, 2), "Unterminated string literal"),
        ("SELECT UMIs['x'] FROM cell WHERE 'x", (1, 34), "Unterminated string literal"),
    ],
)
def test_what_is_not_closed(
    session: DafSession, query: str, place: tuple[int, int], reason: str
) -> None:
    """The message shows where a string or a name begins, as of any error of syntax."""
    with pytest.raises(errors.QueryError, match=f"SQL syntax error.*{reason}") as raised:
        session.sql(query)
    assert (raised.value.line, raised.value.column) == place


def test_a_syntax_error_carries_its_place(session: DafSession) -> None:
    """Line, column and reason, of the SQL that the caller wrote; also after pickling."""
    with pytest.raises(errors.QueryError) as caught:
        session.sql("SELECT name\nFROM cell WHERE age > > 3")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.line, error.column) == (2, 23)
    assert error.reason
    assert error.reason in str(error)
    assert str(error).endswith("FROM cell WHERE age > > 3\n" + " " * 24 + "^")
    with pytest.raises(errors.QueryError) as caught:
        session.matrix("cell", "gene", "UMIs", rows="age\n> > 3")
    assert (caught.value.line, caught.value.column) == (2, 3)
    with pytest.raises(errors.QueryError) as caught:
        session.save_vector("cell", "old", "age >")
    assert (caught.value.line, caught.value.column) == (1, 6)
    with pytest.raises(errors.QueryError) as caught:
        session.sql("SELECT name + 1 FROM cell").to_pydict()
    assert caught.value.line is None


def test_an_unknown_column_carries_the_axes_that_have_it(session: DafSession) -> None:
    """So the message about a slice says which keyword was meant."""
    with pytest.raises(errors.VectorNotFoundError) as caught:
        session.sql("SELECT is_marker FROM cell")
    assert caught.value.other_axes == ("gene",)
    with pytest.raises(
        errors.VectorNotFoundError, match="pass this predicate as columns="
    ) as caught:
        session.matrix("cell", "gene", "UMIs", rows="is_marker")
    assert caught.value.other_axes == ("gene",)
    with pytest.raises(errors.VectorNotFoundError) as caught:
        session.sql("SELECT agee FROM cell")
    assert caught.value.other_axes == ()


@pytest.mark.parametrize(
    ("condition", "literal"),
    [
        ('donor = "N1"', "'N1'"),
        ('donor IN ("N1")', "'N1'"),
        ("donor IN ('N2', \"N1\")", "'N1'"),
        ('donor LIKE "N%"', "'N%'"),
        ('donor <> "it\'s"', "'it''s'"),
    ],
)
def test_a_string_in_double_quotes(session: DafSession, condition: str, literal: str) -> None:
    """They are for names, and the message shows the string; in ``rows=`` too."""
    message = f"double quotes are for names, so write a string as {literal}"
    with pytest.raises(errors.VectorNotFoundError) as caught:
        session.sql(f"SELECT name FROM cell WHERE {condition}")
    assert str(caught.value).endswith(message)
    with pytest.raises(errors.VectorNotFoundError) as caught:
        session.matrix("cell", "gene", "UMIs", rows=condition)
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("donor = N1", "; a string is written in single quotes: 'N1'"),
        ("donor == N1", "; a string is written in single quotes: 'N1'"),
        ("age > 1 AND donor <> N1", "; a string is written in single quotes: 'N1'"),
        ("age > agee", "; did you mean 'age'?"),
        ("N1 = donor", "it has age, donor, index, name"),
    ],
)
def test_a_string_without_quotes(session: DafSession, condition: str, hint: str) -> None:
    """The message shows how to write it, unless a column has nearly that name."""
    with pytest.raises(errors.VectorNotFoundError) as caught:
        session.sql(f"SELECT name FROM cell WHERE {condition}")
    assert str(caught.value).endswith(hint)
    with pytest.raises(errors.VectorNotFoundError) as caught:
        session.matrix("cell", "gene", "UMIs", rows=condition)
    assert str(caught.value).endswith(hint)


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
    ("condition", "advice"),
    [
        ("0 < age < 3", "write a < b AND b < c"),
        ("age > 3 & donor == 'N1'", "join conditions by AND and OR"),
        ("age > 3 & age > 1", "join conditions by AND and OR"),
        ("(age > 1) & donor = 'N1'", "join conditions by AND and OR"),
        ("NOT (age > 1) & (age < 2)", "join conditions by AND and OR"),
        ("~age > 3", "write NOT"),
        ("~(age) > 3", "write NOT"),
        ("age is None", "write IS NULL, or IS NOT NULL"),
        ("age is not None", "write IS NULL, or IS NOT NULL"),
        ("age == None", "write IS NULL, or IS NOT NULL"),
        ("donor in []", "at least one value"),
        ("donor in ['N1',]", "does not end in a comma"),
        ('donor in ["N1"]', "write a string as 'N1'"),
        ("donor in donors", r"IN \$names with params="),
        ("'N' in donor", r"IN \$names with params="),
        ("@limit < age", r"write \$limit, and pass params=\{'limit': ...\}"),
        ("donor.str.startswith('N')", r"write starts_with\(donor, 'N'\)"),
        ("donor.str.contains('N')", r"donor ~ 'N', a regular expression"),
        ("age.between(1, 61) and age > 3", "write age BETWEEN"),
        ("donor.isin(['N1'])", r"write donor IN \(...\)"),
        ("donor.str.swapcase() = 'N1'", "a function of SQL"),
        ("age ** 2 > 3", r"power\(x, y\)"),
        ("age // 2 > 3", r"floor\(x / y\)"),
        ("age > 1 && age < 3", "write AND"),
        ("(age > 1) || (age < 3)", "write OR"),
        ("!(age > 1)", "write NOT"),
    ],
)
def test_what_else_is_python(session: DafSession, condition: str, advice: str) -> None:
    """The message says how SQL writes it, and most show where; in a whole query too."""
    with pytest.raises((errors.QueryError, errors.VectorNotFoundError), match=advice) as caught:
        session.matrix("cell", "gene", "UMIs", rows=condition)
    assert str(caught.value).startswith("rows= on axis 'cell': ")
    if " in [" not in condition:
        with pytest.raises((errors.QueryError, errors.VectorNotFoundError), match=advice):
            session.sql(f"SELECT name FROM cell WHERE {condition}").to_pydict()


def test_a_view_has_no_matrices(session: DafSession) -> None:
    """The message says why an entry of a matrix is no column there; a second view of a name, how."""
    session.sql("CREATE VIEW v AS SELECT name, age FROM cell", allow="write")
    with pytest.raises(errors.VectorNotFoundError, match="not the table of an axis, and only an"):
        session.sql("SELECT UMIs['x'] FROM v")
    with pytest.raises(errors.QueryError, match="already exists; write CREATE OR REPLACE, or DROP"):
        session.sql("CREATE VIEW v AS SELECT name FROM cell", allow="write")
    session.sql("CREATE OR REPLACE VIEW v AS SELECT name FROM cell", allow="write")


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
    written = query.format("x " * 20_000)
    with pytest.raises(errors.QueryError) as raised:
        session.sql(written).to_arrow_table()
    assert len(str(raised.value)) < 1500
    error = raised.value
    if error.line and error.column:
        _, line, mark = str(error).split("\n")
        shown = line[len(mark) - 1 :].removesuffix("...")
        assert written[error.column - 1 :].startswith(shown)
