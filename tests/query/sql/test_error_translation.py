"""Tests of errors of queries: what they say, what they carry, and what is printed above them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, errors


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
        ('SELECT name, "age FROM cell', (1, 14), "Expected close delimiter '\"'"),
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


@pytest.mark.parametrize(
    ("query", "remedy"),
    [
        ("SELECT name FROM cell WHERE age", "; a condition is true or false, as in n_genes > 0"),
        (
            "SELECT 'UMIs'['x'] FROM cell",
            "is for a matrix over the axis of the table",
        ),
        ("SELECT name FROM cell WHERE donor = 'N1", "Unterminated string literal\n  SELECT"),
        ("SELECT age['x'] FROM cell", "as in \"gene.X\"['name']"),
    ],
)
def test_what_to_write(session: DafSession, query: str, remedy: str) -> None:
    """The engine says what is wrong, and the message what to write instead."""
    with pytest.raises(errors.QueryError) as caught:
        session.sql(query)
    assert remedy in str(caught.value)


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


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT percent.mito FROM cell", 'quote its name, as in "percent.mito"'),
        (
            "SELECT name FROM cell JOIN gene ON cell.donor = gene.name",
            "cell and gene; write cell.na",
        ),
        ("SELECT average(age) FROM cell", "write avg"),
        ("SELECT strlen(donor) FROM cell", "write length"),
        ("SELECT list(age) FROM cell", "write array_agg"),
        ("SELECT arg_max(name, age) FROM cell", "write first_value"),
        ("SELECT TOP 3 name FROM cell", "write LIMIT at the end"),
        ("SELECT name FROM cell WHERE donor IN (N1, N2)", "single quotes: 'N1'"),
        ("SELECT age + 1 AS more FROM cell WHERE more > 2", "by HAVING.*subquery"),
        ("SUMMARIZE cell", "'daf describe PATH AXIS'"),
    ],
)
def test_what_other_engines_know(session: DafSession, query: str, said: str) -> None:
    """The message says what is written here."""
    daf = session.reader()
    assert isinstance(daf, DafWriter)
    daf.set_vector("cell", "percent.mito", [1.5, 2.5], if_exists="replace")
    with pytest.raises(errors.DafError, match=said):
        session.sql(query)


@pytest.mark.parametrize(
    ("query", "column", "said"),
    [
        ("SELECT name FROM cell WHERE donor = 5", 29, "donor holds strings, and 5 is a number"),
        ("SELECT name FROM cell WHERE age < 5 AND\tdonor IN ('a', 5)", 41, "write '5'"),
        ("SELECT age > 1, age = 'old' FROM cell", 17, "'old' is no number, and age holds int64"),
        ("SELECT name FROM gene WHERE is_marker = 'yes'", 29, "is_marker, or NOT is_marker"),
        ("SELECT age / 2, age / 0 FROM cell", 17, r"nullif\(y, 0\)"),
        ("SELECT 1 / (age - age) FROM cell", 8, r"nullif\(y, 0\)"),
        ("SELECT age / 2, 1 % (age - age) FROM cell", 17, r"nullif\(y, 0\)"),
    ],
)
def test_values_that_do_not_fit_are_shown(
    session: DafSession, query: str, column: int, said: str
) -> None:
    """The column, its place, and what to write; whether it fails in planning or in running."""
    with pytest.raises(errors.QueryError, match=said) as caught:
        session.sql(query).to_pydict()
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_view_has_no_matrices(session: DafSession) -> None:
    """The message says why an entry of a matrix is no column there; a second view of a name, how."""
    session.sql("CREATE VIEW v AS SELECT name, age FROM cell", allow="write")
    with pytest.raises(errors.VectorNotFoundError, match="not the table of an axis, and only an"):
        session.sql("SELECT UMIs['x'] FROM v")
    with pytest.raises(errors.QueryError, match="already exists; write CREATE OR REPLACE, or DROP"):
        session.sql("CREATE VIEW v AS SELECT name FROM cell", allow="write")
    session.sql("CREATE OR REPLACE VIEW v AS SELECT name FROM cell", allow="write")


def test_what_is_not_grouped(session: DafSession) -> None:
    """The remedy is named, and the steps of the engine are not."""
    with pytest.raises(errors.QueryError) as caught:
        session.sql("SELECT donor, avg(age) FROM cell")
    assert "add it to GROUP BY" in str(caught.value)
    assert "wildcard" not in str(caught.value)


def test_functions_of_shapes(session: DafSession) -> None:
    """They come from a package, which has to be registered."""
    message = r"no function 'st_point'.*register_all\(db.context\); install it with: pip install .*\[spatial\]"
    with pytest.raises(errors.QueryError, match=message):
        session.sql("SELECT ST_Point(age, age) FROM cell")


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


def test_brackets_that_are_too_deep_are_an_error_that_says_what_to_do(session: DafSession) -> None:
    """The engine names a limit of its parser alone."""
    with pytest.raises(
        errors.QueryError, match=r"brackets are too deep within each other.*WITH name AS"
    ):
        session.sql("SELECT " + "(" * 60 + "1" + ")" * 60)
