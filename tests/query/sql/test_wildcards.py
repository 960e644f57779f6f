"""Tests of wildcards that leave columns out."""

from __future__ import annotations

import pytest

from daf_query.sql._entry_references import edited
from daf_query.sql._from_items import FromItem, selects_of
from daf_query.sql._tokens import tokens_of
from daf_query.sql._wildcards import wildcard_edits
from daf_storage import errors


def written(query: str) -> str:
    """Return a query whose wildcards leave ``x`` out of the table ``cell``, which has it."""
    tokens = tuple(tokens_of(query))
    exposing = {token.start for token in tokens if token.text == '"x"'}

    def columns_of(item: FromItem) -> list[str]:
        return ["x"] if item.is_table and item.parts[-1:] == ("cell",) else []

    return edited(query, list(wildcard_edits(selects_of(tokens, query, exposing), columns_of)))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM cell", 'SELECT * EXCLUDE ("x") FROM cell'),
        ("SELECT * FROM gene", "SELECT * FROM gene"),
        (
            "SELECT c.*, d.* FROM cell c, gene d",
            'SELECT c.* EXCLUDE ("x"), d.* FROM cell c, gene d',
        ),
        (
            "SELECT * FROM cell JOIN gene USING (a)",
            'SELECT * EXCLUDE ("x") FROM cell JOIN gene USING (a)',
        ),
        (
            "SELECT * FROM cell a, cell b",
            'SELECT a.* EXCLUDE ("x"), b.* EXCLUDE ("x") FROM cell a, cell b',
        ),
        (
            'SELECT * FROM cell, (SELECT "x" FROM cell) s',
            'SELECT cell.* EXCLUDE ("x"), s.* FROM cell, (SELECT "x" FROM cell) s',
        ),
        ("SELECT * EXCLUDE (a) FROM cell", 'SELECT * EXCLUDE ("x", a) FROM cell'),
        ("SELECT * EXCEPT (a) FROM cell", 'SELECT * EXCEPT ("x", a) FROM cell'),
        ('SELECT * EXCLUDE ("x") FROM cell', 'SELECT * EXCLUDE ("x") FROM cell'),
        ("SELECT * EXCLUDE a FROM cell", 'SELECT * EXCLUDE ("x", a) FROM cell'),
        (
            "SELECT * REPLACE (1 AS a) FROM cell",
            'SELECT * EXCLUDE ("x") REPLACE (1 AS a) FROM cell',
        ),
        (
            "SELECT * FROM gene LEFT SEMI JOIN cell ON true",
            "SELECT * FROM gene LEFT SEMI JOIN cell ON true",
        ),
        (
            "SELECT * FROM cell EXCEPT SELECT * FROM cell",
            'SELECT * EXCLUDE ("x") FROM cell EXCEPT SELECT * EXCLUDE ("x") FROM cell',
        ),
        (
            "WITH cell AS (SELECT * FROM cell) SELECT * FROM cell",
            'WITH cell AS (SELECT * EXCLUDE ("x") FROM cell) SELECT * FROM cell',
        ),
    ],
)
def test_columns_are_left_out(query: str, expected: str) -> None:
    """Of the tables that have them, wherever a wildcard is."""
    assert written(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM cell a JOIN cell b USING (a)",
        "SELECT a.n FROM cell a NATURAL JOIN cell b",
        'SELECT a.n FROM cell a NATURAL JOIN (SELECT "x" FROM cell) b',
        "SELECT * EXCLUDE (a) FROM cell a, cell b",
        'SELECT * FROM cell, (SELECT "x" FROM cell)',
        "SELECT * FROM cell AS c (a, b)",
        "SELECT c.* FROM cell AS c (a, b)",
    ],
)
def test_what_cannot_be_written_is_refused(query: str) -> None:
    """The message says what to write instead."""
    with pytest.raises(errors.QueryError, match="write|give"):
        written(query)
