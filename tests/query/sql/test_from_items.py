"""Tests of what each SELECT of a query reads from, and of its wildcards."""

from __future__ import annotations

import time

import pytest

from daf_query.sql._from_items import Select, is_exposing, selects_of
from daf_query.sql._tokens import tokens_of


def selects(query: str, views: frozenset[str] = frozenset()) -> list[Select]:
    """Return the SELECTs of a query; ``"x"`` is exposed by what selects it."""
    tokens = tuple(tokens_of(query))
    exposing = {token.start for token in tokens if token.text == '"x"'}
    return selects_of(tokens, query, exposing, views)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM cell", ["cell"]),
        ("SELECT a FROM m.cell AS c, gene g", ["c", "g"]),
        ("SELECT a FROM cell c LEFT OUTER JOIN gene ON c.a = gene.a WHERE b", ["c", "gene"]),
        ("SELECT a FROM (cell c JOIN (gene g CROSS JOIN donor) ON true)", ["c", "g", "donor"]),
        ('SELECT a FROM "my cell" "c c"', ["c c"]),
        ("SELECT a FROM cell WHERE a IS DISTINCT FROM b", ["cell"]),
        ("SELECT extract(year FROM a) FROM cell", ["cell"]),
        ("SELECT a FROM generate_series(1, 2) AS s, cell", ["s", "cell"]),
        ("FROM cell SELECT a", ["cell"]),
        ("SELECT a FROM cell USING (b)", ["cell"]),
        ("SELECT a FROM LATERAL (SELECT 1) s, ONLY cell", ["s", "cell"]),
        ("SELECT a FROM 'cells.csv', cell", ["cell"]),
        ("SELECT 1", []),
    ],
)
def test_tables_and_aliases(query: str, expected: list[str]) -> None:
    """By their alias, or the last part of their name."""
    assert [item.name for item in selects(query)[-1].items] == expected


def test_names_of_with_are_no_tables() -> None:
    """But what is in a definition is, also of its own name."""
    query = "WITH cell AS (SELECT * FROM cell), b AS (SELECT * FROM cell) SELECT * FROM cell, b, c"
    items = [[(i.name, i.is_table) for i in select.items] for select in selects(query)]
    assert items == [
        [("cell", True)],
        [("cell", False)],
        [("cell", False), ("b", False), ("c", True)],
    ]
    recursive = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n FROM r"
    assert [[i.is_table for i in s.items] for s in selects(recursive)] == [[], [False], [False]]
    kept = "WITH c (n) AS NOT MATERIALIZED (SELECT a FROM cell) SELECT n FROM c, d"
    assert [[i.is_table for i in s.items] for s in selects(kept)] == [[True], [False, True]]
    zone = "SELECT CAST(a AS timestamp with time zone) FROM cell"
    assert [i.name for i in selects(zone)[0].items] == ["cell"]


@pytest.mark.parametrize(
    ("query", "exposes"),
    [
        ('SELECT * FROM (SELECT "x" FROM cell) s', True),
        ("SELECT * FROM (SELECT y FROM cell) s", False),
        ('WITH c AS (SELECT "x" FROM cell), d AS (SELECT * FROM c) SELECT * FROM d', True),
        ("WITH c AS (SELECT y FROM cell), d AS (SELECT * FROM c) SELECT * FROM d", False),
        ("SELECT * FROM v", True),
        ('SELECT * FROM (SELECT a, c."x" FROM cell c) s', True),
        ('SELECT * FROM (SELECT "x" AS y FROM cell) s', False),
        ('SELECT * FROM (SELECT max("x") FROM cell WHERE "x" > 1) s', False),
        ('SELECT * FROM (SELECT y FROM (SELECT "x", y FROM cell) t) s', False),
        ('SELECT * FROM (SELECT * FROM (SELECT "x", y FROM cell) t) s', True),
        ('SELECT * FROM ((SELECT y FROM cell) UNION ALL (SELECT "x" FROM cell)) s', True),
        ("SELECT * FROM (SELECT * FROM v) s", True),
        ('SELECT "x" FROM cell', False),
    ],
)
def test_what_a_subquery_may_expose(query: str, exposes: bool) -> None:  # noqa: FBT001 - a parameter of a test
    """A column that is named within it, or within what it reads from."""
    assert selects(query, frozenset({"v"}))[-1].items[0].exposes == exposes


@pytest.mark.parametrize(
    ("query", "stars"),
    [
        ("SELECT * FROM cell", ["*"]),
        ("SELECT a, c.*, b FROM cell c", ["c.*"]),
        ("SELECT m.cell.* FROM m.cell", ["m.cell.*"]),
        ("SELECT DISTINCT ON (a) * FROM cell", ["*"]),
        ("SELECT a * b, (a) * b, count(*), 2 * 3 FROM cell", []),
        ("SELECT * EXCLUDE (a), c.* FROM cell c", ["*", "c.*"]),
    ],
)
def test_wildcards(query: str, stars: list[str]) -> None:
    """Not products, and no ``count(*)``."""
    [select] = selects(query)
    assert [query[star.start : star.stop] for star in select.stars] == stars


def test_joins_that_merge_or_hide() -> None:
    """USING and NATURAL merge columns; a semi-join hides those of its other side."""
    [select] = selects("SELECT * FROM a JOIN b USING (c)")
    assert (select.is_merged, select.is_natural) == (True, False)
    [select] = selects("SELECT * FROM a NATURAL JOIN b")
    assert (select.is_merged, select.is_natural) == (True, True)
    [select] = selects("SELECT * FROM a LEFT ANTI JOIN b ON true JOIN c ON true")
    assert [item.is_hidden for item in select.items] == [False, True, False]
    [select] = selects("SELECT * FROM a RIGHT SEMI JOIN b ON true")
    assert [item.is_hidden for item in select.items] == [True, False]


def test_deep_and_broken_queries_are_read_in_time() -> None:
    """Brackets without end are left to the engine."""
    started = time.monotonic()
    for query in (
        "SELECT * FROM " + "(" * 5000,
        "(SELECT * FROM " * 200 + ")" * 200,
        "SELECT * FROM",
        "WITH",
        "WITH a",
        "WITH a AS",
        "WITH a AS (",
        "SELECT * FROM a JOIN",
        ")]([",
        "FROM (",
    ):
        selects(query)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(("depth", "exposes"), [(3, False), (500, True)])
def test_a_query_that_is_too_deep_may_expose_anything(depth: int, exposes: bool) -> None:  # noqa: FBT001 - a parameter of a test
    """It is not read; the engine refuses it."""
    query = f"SELECT {'(' * depth}1{')' * depth} FROM cell"
    assert is_exposing(tuple(tokens_of(query)), query, frozenset()) == exposes
