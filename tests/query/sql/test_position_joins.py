"""Tests of joins over relations by position: the same rows as those of a join by names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.sql import _engine
from daf_query.table import AxisDataset, EntryPosition
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, errors
from tests.support import create

pytestmark = pytest.mark.filterwarnings("ignore::daf_query.DuplicateColumnsWarning")

HIDDEN = "-> "


def sample() -> DafWriter:
    """Return cells with a type, of which some are missing and one is none, and a mate."""
    daf = MemoryDaf(name="joins")
    daf.add_axis("type", ["B", "T", "NK", "é"])
    daf.set_vector("type", "color", ["blue", "teal", "red", "grey"])
    daf.add_axis("cell", ["a", "b", "c", "d", "e"])
    daf.set_vector("cell", "type", ["T", "B", "", "T", "X"])
    daf.set_vector("cell", "type.gaps", ["é", "", "", "B", "B"], empty_is_missing=True)
    daf.set_vector("cell", "cell.mate", ["b", "a", "e", "", "a"])
    daf.set_vector("cell", "age", [1, 2, 3, 4, 5])
    daf.set_vector("cell", "kind", ["T", "T", "B", "B", "B"])
    return daf


@contextmanager
def by_name() -> Iterator[None]:
    """Plan joins as they are written while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_engine, "joined_by_position", lambda rewriting, _: rewriting)
        yield


def rows_of(session: DafSession, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted, and its columns."""
    table = session.sql(query).to_arrow_table()
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(table.column_names), *sorted(zip(*columns, strict=True), key=str)]


def is_by_position(session: DafSession, query: str) -> bool:
    """Return whether the plan joins by position."""
    return HIDDEN in session.explain(query).logical


BY_POSITION = [
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.name",
    "SELECT c.name, t.color FROM cell c JOIN type t ON t.name = c.type",
    'SELECT c.name, t.color FROM cell AS c INNER JOIN type AS t ON (c."type" = t."name")',
    "SELECT cell.name, color FROM cell JOIN type ON cell.type = type.name",
    "SELECT c.name, t.color FROM cell c LEFT JOIN type t ON c.type = t.name",
    "SELECT c.name, t.color FROM cell c RIGHT JOIN type t ON c.type = t.name",
    "SELECT c.name, t.color FROM cell c FULL JOIN type t ON c.type = t.name",
    "SELECT c.name, t.color FROM type t FULL OUTER JOIN cell c ON c.type = t.name",
    "SELECT c.name FROM cell c LEFT SEMI JOIN type t ON c.type = t.name",
    "SELECT c.name FROM cell c LEFT ANTI JOIN type t ON c.type = t.name",
    "SELECT t.name FROM cell c RIGHT ANTI JOIN type t ON c.type = t.name",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.name AND c.age > 1",
    "SELECT c.name, t.color FROM cell c LEFT JOIN type t ON (c.age > 1 AND (c.type = t.name))",
    'SELECT c.name, t.color FROM cell c LEFT JOIN type t ON c."type.gaps" = t.name',
    'SELECT a.name, b.age FROM cell a LEFT JOIN cell b ON a."cell.mate" = b.name',
    'SELECT * FROM cell a JOIN cell b ON a."cell.mate" = b.name',
    "SELECT * FROM cell c LEFT JOIN type t ON c.type = t.name",
    "SELECT c.*, t.* FROM cell c LEFT JOIN type t ON c.type = t.name",
    "SELECT t.*, c.age FROM cell c JOIN type t ON c.type = t.name WHERE c.age < 4",
    "SELECT * FROM (SELECT * FROM cell c JOIN type t ON c.type = t.name WHERE c.age > 1)",
    "WITH x AS (SELECT c.name AS n, t.color FROM cell c JOIN type t ON c.type = t.name) SELECT * FROM x",
    "SELECT t.name, count(*) AS n FROM cell c JOIN type t ON c.type = t.name GROUP BY t.name",
    "SELECT name, 'x' AS x FROM type UNION SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.name",
    'SELECT c.name, t.color, g.color AS other FROM cell c LEFT JOIN type t ON c.type = t.name LEFT JOIN type g ON c."type.gaps" = g.name',
    "SELECT c.name, t.color FROM joins.cell c JOIN joins.type t ON c.type = t.name",
    "SELECT cell.name, color FROM joins.cell JOIN joins.type ON joins.cell.type = joins.type.name",
    "SELECT joins.cell.name, color FROM daf.joins.cell JOIN joins.type ON joins.cell.type = joins.type.name",
    "SELECT x.name, color FROM cell x JOIN type ON kind = 'T' AND x.type = type.name",
    "SELECT age, color FROM cell JOIN type y ON type = y.name",
    "SELECT 1 AS one FROM cell c JOIN type t ON c.type = t.name, cell d",
]  # fmt: skip


@pytest.mark.parametrize("query", BY_POSITION)
def test_the_rows_are_those_of_a_join_by_names(query: str) -> None:
    """Whatever the kind of join, the order of its sides, and what else is in ON."""
    with connect({"joins": sample()}) as session:
        assert is_by_position(session, query)
        found = rows_of(session, query)
    with by_name(), connect({"joins": sample()}) as session:
        assert not is_by_position(session, query)
        assert found == rows_of(session, query)


FILTERED = [
    "t.index = 1",
    "t.index IN (0, 1)",
    "t.index + 0.5 > 1.2",
    "CAST(t.index AS VARCHAR) LIKE '1%'",
    "t.index BETWEEN 0 AND 0 OR t.index IS NULL",
    "t.index IS NOT NULL AND c.age > 1.5",
    "c.name IN (SELECT name FROM cell WHERE age > 1)",
    "t.color LIKE 'b%' AND c.age * 1.0 < 9",
]


@pytest.mark.parametrize("where", FILTERED)
@pytest.mark.parametrize("kind", ["INNER", "LEFT", "FULL"])
def test_filters_on_either_side(kind: str, where: str) -> None:
    """Also those that the engine infers of the positions, or keeps to itself."""
    query = (
        f"SELECT c.name, t.color FROM cell c {kind} JOIN type t ON c.type = t.name WHERE {where}"
    )
    with connect({"joins": sample()}) as session:
        assert is_by_position(session, query)
        found = rows_of(session, query)
    with by_name(), connect({"joins": sample()}) as session:
        assert found == rows_of(session, query)


AS_WRITTEN = [
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.kind = t.name",  # no relation
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.color",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.name OR c.age = 3",
    "SELECT c.name, t.color FROM cell c LEFT JOIN type t ON NOT (c.type = t.name)",
    "SELECT c.name, t.color FROM cell c LEFT JOIN type t ON (c.type = t.name) IS NOT TRUE",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type <> t.name",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type >= t.name",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type || '' = t.name",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.age BETWEEN 1 AND 2 AND c.type = t.name",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.name = true",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type IS NOT DISTINCT FROM t.name",
    "SELECT c.name, t.color FROM cell c JOIN (SELECT * FROM type) t ON c.type = t.name",
    "SELECT c.name, t.color FROM cell c, type t WHERE c.type = t.name",
    "SELECT c.n, t.color FROM cell c (n, i, age, m, k, type, g) JOIN type t ON c.type = t.name",
    "WITH type AS (SELECT 'T' AS name, 1 AS one) SELECT c.name, one FROM cell c JOIN type ON c.type = type.name",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.name WHERE t.name = 'T'",
    "SELECT c.name, t.color FROM cell c JOIN type t ON c.type = t.name AND c.type > 'B'",
]  # fmt: skip


@pytest.mark.parametrize("query", AS_WRITTEN)
def test_other_conditions_are_left_alone(query: str) -> None:
    """What is no equality by itself, no relation, or better answered by the strings."""
    with connect({"joins": sample()}) as session:
        assert not is_by_position(session, query)
        found = rows_of(session, query)
    with by_name(), connect({"joins": sample()}) as session:
        assert found == rows_of(session, query)


NAMES = st.sampled_from(["", "A", "B", "é", "x y", "Z"])


@given(
    entries=st.lists(NAMES, unique=True, max_size=5),
    values=st.lists(NAMES, max_size=8),
    how=st.sampled_from(["inner", "left", "right", "outer"]),
    has_missing=st.booleans(),
)
def test_joins_against_pandas(
    entries: list[str], values: list[str], how: str, *, has_missing: bool
) -> None:
    """Random entries and values, of which some are no entries, empty or missing."""
    daf = MemoryDaf(name="random")
    daf.add_axis("type", entries)
    daf.add_axis("cell", [str(place) for place in range(len(values))])
    daf.set_vector("cell", "type", pa.array(values, pa.string()), empty_is_missing=has_missing)
    kind = {"outer": "FULL"}.get(how, how.upper())
    query = (
        f"SELECT c.index AS cell, t.index AS type FROM cell c {kind} JOIN type t ON c.type = t.name"
    )
    with connect({"random": daf}) as session:
        assert is_by_position(session, query)
        found = rows_of(session, query)[1:]
    # To pandas missing values equal each other, so they get names that are not there.
    keys = [
        f"missing {place}" if has_missing and value == "" else value
        for place, value in enumerate(values)
    ]
    cells = pd.DataFrame({"key": keys, "cell": range(len(keys))}).astype({"key": object})
    types = pd.DataFrame({"key": entries, "type": range(len(entries))}).astype({"key": object})
    merged = cells.merge(types, on="key", how=how)  # type: ignore[arg-type] # one of the four
    expected = [
        tuple(None if pd.isna(each) else int(each) for each in row)
        for row in merged[["cell", "type"]].itertuples(index=False)
    ]
    assert found == sorted(expected, key=str)


def test_many_distinct_values() -> None:
    """Without dictionary codes, all at once or a few rows by themselves."""
    count = 60_000
    daf = MemoryDaf(name="many")
    daf.add_axis("cell", pa.array([f"c{place}" for place in range(count)]))
    mates = [f"c{(place * 7) % (count + 5)}" for place in range(count)]
    daf.set_vector("cell", "cell.mate", mates)
    query = (
        "SELECT sum(b.index) AS s, count(b.index) AS n, count(*) AS m "
        'FROM cell a LEFT JOIN cell b ON a."cell.mate" = b.name'
    )
    known = [(place * 7) % (count + 5) for place in range(count)]
    matched = [place for place in known if place < count]
    with connect({"many": daf}) as session:
        assert is_by_position(session, query)
        for _ in range(2):
            found = session.sql(query).to_pydict()
            assert found == {"s": [sum(matched)], "n": [len(matched)], "m": [count]}
        few = (
            'SELECT b.index AS i FROM cell a JOIN cell b ON a."cell.mate" = b.name '
            "WHERE a.index IN (3, 59999)"
        )
        assert sorted(session.sql(few).to_pydict()["i"]) == sorted(
            known[place] for place in (3, 59999) if known[place] < count
        )


def test_a_long_axis_is_joined_by_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look up its entries would take longer than it saves."""
    query = "SELECT c.name FROM cell c JOIN type t ON c.type = t.name"
    monkeypatch.setattr("daf_query.sql._position_joins._MAX_ENTRIES", 4)
    with connect({"joins": sample()}) as session:
        assert is_by_position(session, query)
        monkeypatch.setattr("daf_query.sql._position_joins._MAX_ENTRIES", 3)
        assert not is_by_position(session, query)


def test_an_index_spares_the_other_rows(tmp_path: Path) -> None:
    """Rows that an index finds are looked up by themselves."""
    daf = create(tmp_path / "x.daf.zarr")
    count = 20_000
    daf.add_axis("cell", [f"c{place}" for place in range(count)])
    daf.add_axis("donor", ["x", "y"])
    daf.set_vector("cell", "donor", ["y", "z"] * (count // 2))
    daf.close()
    with connect(str(tmp_path / "x.daf.zarr"), mode="r+") as session:
        session.build_index("cell", ["name", "donor"])
        query = (
            "SELECT c.index AS i, d.index AS j FROM cell c LEFT JOIN donor d ON c.donor = d.name "
            "WHERE c.name IN ('c10', 'c11')"
        )
        assert is_by_position(session, query)
        assert rows_of(session, query)[1:] == [(10, 1), (11, None)]
        report = session.explain_analyze(query)
        (scan,) = [scan for scan in report.scans if scan.table == "cell"]
        assert scan.as_dict()["values"]["donor -> donor.index"] == 2, report


def test_categoricals_as_dictionaries(pbmc_path: Path) -> None:
    """They are joined by position, too."""
    query = "SELECT l.name, count(*) AS n FROM cell c JOIN louvain l ON c.louvain = l.name GROUP BY l.name"
    with connect(ZarrDaf(pbmc_path), categoricals="dictionary") as session:
        assert is_by_position(session, query)
        found = rows_of(session, query)
    with by_name(), connect(ZarrDaf(pbmc_path)) as session:
        assert found == rows_of(session, query)


def test_the_column_is_not_seen() -> None:
    """Neither in wildcards, nor in DESCRIBE, nor in the information schema of the same query."""
    with connect({"joins": sample()}) as session:
        names = session.sql("SELECT * FROM cell c JOIN type t ON c.type = t.name").schema.names
        assert not [name for name in names if HIDDEN in name]
        listed = session.sql(
            "SELECT i.column_name FROM information_schema.columns i "
            "LEFT JOIN cell c ON i.column_name = c.name LEFT JOIN type t ON c.type = t.name"
        )
        assert not [name for name in listed.to_pydict()["column_name"] if HIDDEN in name]


def test_genes_and_positions_in_one_query() -> None:
    """Columns of both kinds, and a wildcard that has neither."""
    daf = sample()
    daf.add_axis("gene", ["x", "y"])
    daf.set_matrix("cell", "gene", "X", [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]])
    query = "SELECT *, X['y'] AS y FROM cell c JOIN type t ON c.type = t.name WHERE X['x'] > 2"
    with connect({"joins": daf}) as session:
        assert is_by_position(session, query)
        rows = session.sql(query).to_pylist()
    assert sorted(row["y"] for row in rows) == [4, 8]
    assert not [name for name in rows[0] if HIDDEN in name or "[" in name]


def test_a_vector_of_the_name_of_the_column() -> None:
    """It wins: the join is by names."""
    daf = sample()
    daf.set_vector("cell", "type -> type.index", [9, 9, 9, 9, 9])
    query = "SELECT c.name FROM cell c JOIN type t ON c.type = t.name"
    with connect({"joins": daf}) as session:
        assert not is_by_position(session, query)
        assert len(rows_of(session, query)) == 4


def test_unions_are_joined_by_names() -> None:
    """A position is one in each data set."""
    sources: list[object] = [sample(), sample()]
    query = "SELECT c.name FROM cell c JOIN type t ON c.type = t.name AND c.dataset = t.dataset"
    with connect({"all": sources}) as session:  # type: ignore[dict-item] # a list is a source
        assert not is_by_position(session, query)
        assert len(rows_of(session, query)) == 7


def test_tables_of_two_data_sets_are_joined_by_names() -> None:
    """Their axes have other entries."""
    query = "SELECT c.name FROM one.cell c JOIN two.type t ON c.type = t.name"
    with connect({"one": sample(), "two": sample()}) as session:
        assert not is_by_position(session, query)
        assert is_by_position(session, query.replace("two", "one"))


def test_views_join_by_position() -> None:
    """Also one in another."""
    with connect({"joins": sample()}) as session:
        view = "SELECT c.*, t.color FROM cell c JOIN type t ON c.type = t.name"
        session.sql(f"CREATE VIEW typed AS {view}", allow="write")
        query = "SELECT d.name, d.color, t.color AS c2 FROM typed d JOIN type t ON d.type = t.name"
        assert is_by_position(session, "SELECT * FROM typed")
        assert [row[0] for row in rows_of(session, "SELECT * FROM typed")[1:]] == ["a", "b", "d"]
        assert rows_of(session, query)[1:] == [("a", "teal", "teal"), ("b", "blue", "blue"), ("d", "teal", "teal")]  # fmt: skip


def test_errors_are_those_of_the_query_as_it_is_written() -> None:
    """The column of positions is not among those that a message lists."""
    with (
        connect({"joins": sample()}) as session,
        pytest.raises(errors.VectorNotFoundError) as error,
    ):
        session.sql("SELECT c.nope FROM cell c JOIN type t ON c.type = t.name")
    assert HIDDEN not in str(error.value)


def test_a_replaced_vector_or_axis_is_seen() -> None:
    """Positions are remembered only as long as both are what they were."""
    daf = sample()
    query = "SELECT c.name AS cell, t.color FROM cell c JOIN type t ON c.type = t.name"
    with connect({"joins": daf}) as session:
        assert rows_of(session, query)[1:] == [("a", "teal"), ("b", "blue"), ("d", "teal")]
        daf.set_vector("cell", "type", ["B", "B", "NK", "", ""], if_exists="replace")
        assert rows_of(session, query)[1:] == [("a", "blue"), ("b", "blue"), ("c", "red")]
        daf.reorder_axis("type", ["NK", "é", "T", "B"])
        assert rows_of(session, query)[1:] == [("a", "blue"), ("b", "blue"), ("c", "red")]


def test_entries_that_are_not_unique(tmp_path: Path) -> None:
    """A damaged axis is an error, not one of two rows."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("type", ["AA", "BB"])
    daf.add_axis("cell", ["a"])
    daf.set_vector("cell", "type", ["AA"])
    daf.close()
    chunk = tmp_path / "x.daf.zarr/axes/type/0"
    chunk.write_bytes(chunk.read_bytes().replace(b"BB", b"AA"))
    with connect(str(tmp_path / "x.daf.zarr")) as session:
        query = "SELECT t.index FROM cell c JOIN type t ON c.type = t.name"
        with pytest.raises(errors.DafError, match="more than once"):
            session.sql(query).to_arrow_table()


def test_a_vector_that_holds_no_strings() -> None:
    """The table has no column of positions of it."""
    with pytest.raises(errors.VectorNotFoundError, match="age.none"):
        AxisDataset(sample(), "cell").with_entry_positions({"p": EntryPosition("age.none", "type")})


def test_positions_as_a_column() -> None:
    """NULL where the value is missing or no entry; filters of engines are evaluated on them."""
    table = AxisDataset(sample(), "cell").with_entry_positions(
        {"p": EntryPosition("type", "type"), "g": EntryPosition("type.gaps", "type")}
    )
    found = table.to_table(columns=["p", "g"]).to_pydict()
    assert found == {"p": [1, 0, None, 1, None], "g": [3, None, None, 0, 0]}
    for limit, operator in itertools.product((0, 1), (pc.equal, pc.greater, pc.not_equal)):
        rows = table.to_table(columns=["name"], filter=operator(pc.field("p"), limit))
        expected = pc.filter(pa.array(list("abcde")), operator(pa.array(found["p"]), limit))
        assert rows.to_pydict()["name"] == expected.to_pylist()


@pytest.mark.parametrize(
    "query",
    [
        'SELECT * FROM type t WHERE EXISTS (SELECT 1 FROM cell e JOIN cell m ON e."type" = t.name)',
        "SELECT 1 FROM cell o WHERE name IN (SELECT c.name FROM cell c JOIN type t ON o.type = t.name)",
    ],
)
def test_a_table_of_the_query_around_it(query: str) -> None:
    """What the engine refuses, it refuses in the words of the query."""
    with pytest.raises(errors.DafError) as raised:
        connect({"joins": sample()}).sql(query).to_arrow_table()
    assert HIDDEN not in str(raised.value)
    assert "index" not in str(raised.value)
