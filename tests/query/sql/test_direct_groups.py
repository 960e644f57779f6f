"""Tests of groups that are aggregated without the engine: they are what the engine would give."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.scan import ScanOptions
from daf_query.sql import Engine
from daf_storage import DafWriter, MemoryDaf, errors, from_anndata, open_daf

N = 60
KEYS = ("tiny", "small", "wide", "huge", "is_old", "maybe", "nullable", "donor", "gaps")
NUMBERS = ("tiny", "small", "wide", "large", "huge", "bytes", "single", "double", "nullable")
CONDITIONS = (
    *("", "WHERE small > 3", "WHERE double > 0.5 OR donor = 'a'", "WHERE is_old AND single < 1"),
    *(
        "WHERE donor = 'nobody'",
        "WHERE gaps IS NOT NULL AND nullable <> 2",
        "WHERE NOT wide = 70001",
    ),
)


def with_gaps(values: list[Any], is_gap: npt.NDArray[np.bool_]) -> list[Any]:
    """Return values, some of which are missing."""
    return [None if gap else value for value, gap in zip(values, is_gap, strict=True)]


def filled(seed: int) -> DafWriter:
    """Return a data set with random columns of all kinds, some with gaps."""
    random = np.random.default_rng(seed)

    def some(*values: Any) -> npt.NDArray[Any]:
        return random.choice(np.array(values), N)

    is_gap = random.random(N) < 0.3  # of the nullable columns
    whole = random.integers(0, 4, N)
    obs = pd.DataFrame(
        {
            "nullable": pd.array(with_gaps(whole.tolist(), is_gap), "Int64"),
            "maybe": pd.array(with_gaps((whole > 1).tolist(), is_gap), "boolean"),
            "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(whole, "D"),
        },
        index=[f"c{n}" for n in range(N)],
    )
    daf = MemoryDaf(name="x")
    table = anndata.AnnData(np.ones((N, 1), "f4"), obs, pd.DataFrame(index=["g"]))
    from_anndata(table, daf, obs_is="cell")
    top = 2**63
    columns = {
        "tiny": some(-128, 127, 0).astype("i1"),
        "small": some(0, 3, 4, 300).astype("u2"),
        "wide": some(70_000, 70_001, 70_090),
        "large": some(top - 1, -top, top - 2, 1, -1, 2**53 + 1),
        "huge": (some(0, 1, 5).astype("u8") + np.uint64(2 * top - 6)),
        "bytes": some(0, 255, 7).astype("u1"),
        "single": some(0.1, np.nan, -0.0, 0.0, np.inf, 3.25).astype("f4"),
        "double": some(0.1, np.nan, -0.0, 0.0, -np.inf, 1e300, 1e-3),
        "is_old": some(True, False),
        "donor": some("a", "b", "", "é", "it's"),
    }
    for name, values in columns.items():
        daf.set_vector("cell", name, values)
    daf.set_vector("cell", "gaps", some("", "a", "z"), empty_is_missing=True)
    daf.add_axis("donor", ["é", "a", "z", "", "b"])
    daf.set_vector("donor", "sex", ["f", "m", "f", "", "m"], empty_is_missing=True)
    daf.set_vector("donor", "batch", np.array([7, -1, 7, 2, 7], "i2"))
    daf.set_vector("donor", "small", [1, 2, 3, 4, 5])
    daf.set_vector("donor", "weight", [1.5, 2.5, 1.5, 2.5, 1.5])
    return daf


@pytest.fixture(scope="module")
def sessions() -> Iterator[list[DafSession]]:
    """Return sessions over different rows, some cut into small partitions for two threads."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr("daf_query.scan._side_by_side._MIN_ROWS", 20)
        patch.setattr("daf_query.scan._group_scan._BLOCK_ROWS", 16)
        small = ScanOptions(partition_rows=8, min_partition_rows=8, zone_rows=8, threads=2)
        options = [ScanOptions(), small] * 2
        yield [
            connect({"x": filled(number)}, scan_options=each) for number, each in enumerate(options)
        ]


def is_direct(session: DafSession, query: str) -> bool:
    """Return whether a query is answered without the engine; not if it is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return bool(session.explain(query).direct)
        except errors.DafError:
            return False


def check(session: DafSession, query: str, *, is_sorted: bool = False) -> bool:
    """Compare the answer with the engine's; say whether it was answered without it."""
    if not is_direct(session, query):
        return False
    result = session.sql(query)
    schema, found, frame = result.schema, result.to_arrow_table(), result.frame
    expected = frame.to_arrow_table()
    assert found.schema.equals(expected.schema, check_metadata=True), query
    assert schema.equals(frame.schema(), check_metadata=True)
    rows = [
        [tuple(comparable(value, query) for value in row.values()) for row in each.to_pylist()]
        for each in (found, expected)
    ]
    if not is_sorted:
        rows = [sorted(each, key=repr) for each in rows]
    assert rows[0] == rows[1], query
    return True


def comparable(value: Any, query: str = "") -> Any:
    """Return a value in which the last digits of floats do not matter, nor the sign of zero.

    The engine takes the largest finite number for the minimum of a group that has infinities only.
    Of integers near 2^63 that cancel each other, the last digits of a mean are those of thousands.
    """
    if not isinstance(value, float):
        return value
    if abs(value) in (float(np.finfo("f4").max), float(np.finfo("f8").max)):
        value = float(np.copysign(np.inf, value))
    if "avg(large)" in query and np.isfinite(value):
        return round(value / 2**24)
    return f"{value + 0.0:.10g}".replace("-nan", "nan")


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, bool]:
    """Return a query, and whether it says the order of its rows."""
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))
    aggregates = [
        *(
            f"{function}({column})"
            for function in ("sum", "avg", "min", "max")
            for column in NUMBERS
        ),
        *(f"count({column})" for column in (*NUMBERS, "donor", "gaps", "is_old", "maybe", "name")),
        *("count(*)", "COUNT(*)", "Mean(cell.double)"),
    ]
    chosen = draw(
        st.lists(st.sampled_from(aggregates), min_size=not keys, max_size=4, unique_by=str.lower)
    )
    selected = [*keys, *(f"{each} AS a{n}" if n % 2 else each for n, each in enumerate(chosen))]
    selected = draw(st.permutations(selected))
    order = [
        f"{key} {draw(st.sampled_from(['', 'ASC', 'DESC', 'desc nulls last', 'NULLS FIRST']))}"
        for key in keys
    ]
    is_sorted = bool(keys) and draw(st.booleans())
    query = f"SELECT {', '.join(selected)} FROM cell {draw(st.sampled_from(CONDITIONS))}"
    query += f" GROUP BY {', '.join(keys)}" if keys else ""
    query += f" ORDER BY {', '.join(order)}" if is_sorted else ""
    query += draw(st.sampled_from(["", " LIMIT 3", " LIMIT 2 OFFSET 1"])) if is_sorted else ""
    return query, is_sorted


@given(queries(), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_any_groups_are_those_of_the_engine(
    sessions: list[DafSession], query: tuple[str, bool], number: int
) -> None:
    """Of keys and numbers of all kinds: gaps, NaN, infinities, sums that wrap, no rows."""
    sql, is_sorted = query
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)  # numpy's, of NaN and overflow
        assert check(sessions[number], sql, is_sorted=is_sorted), sql


@pytest.mark.parametrize(
    "query",
    [
        "SELECT donor, avg(wide) FROM cell GROUP BY donor ORDER BY donor",
        "select cell.donor as d, count(*) as n from x.cell group by d order by n desc, d limit 3;",
        "SELECT x.cell.donor, sum(cell.wide) AS s FROM x.cell GROUP BY 1 ORDER BY 2, 1",
        "SELECT count(*) FROM cell GROUP BY donor, is_old ORDER BY count(*) DESC",
        "SELECT donor AS d, min(wide) FROM cell GROUP BY donor ORDER BY donor DESC, min(wide)",
        "SELECT DISTINCT gaps, is_old FROM cell ORDER BY gaps, is_old DESC",
        "SELECT sum(large) AS s, avg(large) AS m FROM cell",
        "SELECT count(*) AS n, count(gaps) FROM cell WHERE donor = 'nobody'",
        "SELECT min(double), max(double), min(single) AS s FROM cell WHERE double >= 0",
        'SELECT "donor", count("gaps") FROM "cell" GROUP BY "donor" ORDER BY "donor"',
        "SELECT avg(double) AS m, donor FROM cell GROUP BY donor ORDER BY m, donor",
        "SELECT sum(double) AS s, tiny FROM cell GROUP BY tiny ORDER BY s DESC NULLS LAST, tiny",
        "SELECT donor FROM cell GROUP BY donor ORDER BY donor LIMIT 0",
        "SELECT c.donor, avg(wide) FROM cell c WHERE c.wide > 1 GROUP BY donor ORDER BY c.donor",
        "SELECT count(*) AS n FROM x.cell AS c WHERE c.small > 1 OR small = 0",
        "SELECT donor, count(*) n FROM cell GROUP BY donor ORDER BY (donor)",
    ],
)
def test_what_is_answered_without_the_engine(sessions: list[DafSession], query: str) -> None:
    """The forms in which it can be written."""
    for session in sessions[:2]:
        assert check(session, query, is_sorted="BY count(*)" not in query and "BY m" not in query)


JOINS = [
    (
        "SELECT sex, count(*) AS n FROM cell JOIN donor ON cell.donor = donor.name "
        "WHERE wide > 70000 GROUP BY sex ORDER BY sex"
    ),
    (
        "SELECT sum(large) AS s, avg(double), d.batch, min(c.tiny), count(gaps) FROM cell c INNER JOIN "
        "x.donor AS d ON d.name = c.donor WHERE c.small >= 3 AND is_old GROUP BY batch ORDER BY batch DESC"
    ),
    (
        "SELECT sex, nullable, max(single) AS m FROM x.cell JOIN x.donor ON x.cell.gaps = donor.name "
        "WHERE cell.nullable > 0 GROUP BY donor.sex, 2 ORDER BY 1, 2 DESC LIMIT 4"
    ),
    (
        "SELECT sex, batch, count(*), sum(double), sum(bytes) FROM cell JOIN donor "
        "ON cell.donor = donor.name GROUP BY sex, batch ORDER BY batch, sex NULLS FIRST"
    ),
    (
        "SELECT donor.name AS n, donor.index AS i, count(maybe) FROM cell JOIN donor "
        "ON cell.donor = donor.name GROUP BY donor.name, donor.index ORDER BY i"
    ),
    "SELECT sex FROM cell JOIN donor ON cell.donor = donor.name WHERE tiny > 127 GROUP BY sex",
    "SELECT DISTINCT sex FROM cell JOIN donor ON cell.donor = donor.name ORDER BY sex",
]


@pytest.mark.parametrize("query", JOINS)
def test_keys_of_a_table_that_is_joined(sessions: list[DafSession], query: str) -> None:
    """By its entries: values that are none, and missing ones, join nothing."""
    for session in sessions:
        assert check(session, query, is_sorted="ORDER" in query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sex, count(*) FROM cell LEFT JOIN donor ON cell.donor = donor.name GROUP BY sex",
        "SELECT sex, count(*) FROM cell JOIN donor ON cell.donor = donor.sex GROUP BY sex",
        "SELECT sex, count(*) FROM cell JOIN donor ON cell.small = donor.small GROUP BY sex",
        "SELECT sex, count(*) FROM cell JOIN donor ON cell.name = donor.name GROUP BY sex",
        "SELECT sex, count(*) FROM cell JOIN donor ON donor = donor.name GROUP BY sex",
        "SELECT sex, count(*) FROM cell JOIN donor USING (name) GROUP BY sex",
        "SELECT sex, count(*) FROM cell JOIN donor ON cell.donor = donor.name AND is_old GROUP BY sex",
        "SELECT sex, count(*) FROM cell JOIN donor ON cell.donor = donor.name WHERE batch > 0 GROUP BY 1",
        "SELECT sex, count(*) FROM cell JOIN donor ON cell.donor = donor.name WHERE small > 0 GROUP BY 1",
        "SELECT small, count(*) FROM cell JOIN donor ON cell.donor = donor.name GROUP BY small",
        "SELECT sex, sum(small) FROM cell JOIN donor ON cell.donor = donor.name GROUP BY sex",
        "SELECT sex, sum(batch) FROM cell JOIN donor ON cell.donor = donor.name GROUP BY sex",
        (
            "SELECT cell.small, donor.small, count(*) FROM cell JOIN donor ON cell.donor = donor.name "
            "GROUP BY cell.small, donor.small"
        ),
        "SELECT weight, count(*) FROM cell JOIN donor ON cell.donor = donor.name GROUP BY weight",
        "SELECT is_old, count(*) FROM cell JOIN donor ON cell.donor = donor.name GROUP BY is_old",
        "SELECT count(*), sum(wide) FROM cell JOIN donor ON cell.donor = donor.name",
        "SELECT sex, count(*) FROM cell c JOIN donor d ON cell.donor = d.name GROUP BY sex",
        "SELECT c.small, count(*) FROM cell c JOIN cell d ON c.donor = d.name GROUP BY c.small",
        "SELECT sex, count(*) FROM cell JOIN donor ON cell.donor = donor.name JOIN var ON true GROUP BY 1",
    ],
)
def test_what_joins_are_left_to_the_engine(sessions: list[DafSession], query: str) -> None:
    """All others, and columns that both tables have."""
    assert not is_direct(sessions[0], query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT double, count(*) FROM cell GROUP BY double",
        "SELECT day, count(*) FROM cell GROUP BY day",
        "SELECT donor, min(day) FROM cell GROUP BY donor",
        "SELECT donor, max(gaps) FROM cell GROUP BY donor",
        "SELECT donor, avg(is_old) FROM cell GROUP BY donor",
        "SELECT donor, median(wide) FROM cell GROUP BY donor",
        "SELECT donor, count(DISTINCT wide) FROM cell GROUP BY donor",
        "SELECT donor, sum(wide + 1) FROM cell GROUP BY donor",
        "SELECT donor, sum(wide) + 1 FROM cell GROUP BY donor",
        "SELECT donor, sum(wide) FILTER (WHERE is_old) FROM cell GROUP BY donor",
        "SELECT donor, count(*) FROM cell GROUP BY donor HAVING count(*) > 1",
        "SELECT donor, is_old, tiny, count(*) FROM cell GROUP BY donor, is_old, tiny",
        "SELECT donor, is_old FROM cell GROUP BY donor",
        "SELECT donor, count(*) FROM cell GROUP BY 2",
        "SELECT donor, count(*) FROM cell GROUP BY 3",
        "SELECT donor AS wide, count(*) FROM cell GROUP BY wide",
        "SELECT donor, sum(wide) AS wide FROM cell GROUP BY donor ORDER BY wide",
        "SELECT donor, count(*) FROM cell GROUP BY donor ORDER BY wide",
        "SELECT donor, count(*) FROM cell GROUP BY donor ORDER BY sum(wide)",
        "SELECT donor, count(*) FROM cell GROUP BY donor ORDER BY length(donor)",
        "SELECT donor, count(*), COUNT(*) FROM cell GROUP BY donor",
        "SELECT donor, count(*) FROM cell GROUP BY donor, donor",
        "SELECT donor, count(*) FROM cell GROUP BY ROLLUP(donor)",
        "SELECT donor, count(*) FROM cell GROUP BY ALL",
        "SELECT donor, count(*) OVER () FROM cell",
        "SELECT var.donor, count(*) FROM cell GROUP BY donor",
        "SELECT donor, count(*) FROM cell, var GROUP BY donor",
        "SELECT donor, count(*) FROM cell WHERE wide > tiny GROUP BY donor",
        "SELECT DISTINCT donor, count(*) FROM cell GROUP BY donor",
        "SELECT DISTINCT double FROM cell",
        "SELECT donor, count(*) FROM cell GROUP BY donor LIMIT 1 + 1",
        "SELECT donor, count(*) FROM cell GROUP BY donor LIMIT 1, 2",
        "SELECT sum(nope) FROM cell",
        "SELECT nope, count(*) FROM cell GROUP BY nope",
        "SELECT sum(donor) FROM cell",
        "SELECT sum(*) FROM cell",
        "SELECT count() FROM cell",
        "SELECT donor, count(*) FROM cell GROUP donor",
        "SELECT donor, count(*) FROM cell GROUP BY",
        "SELECT donor, count(*) FROM matrices GROUP BY donor",
        "SELECT count(*) AS n FROM cell GROUP BY donor UNION SELECT 1",
        "SELECT sum(X['g']) FROM cell",
    ],
)
def test_what_is_left_to_the_engine(sessions: list[DafSession], query: str) -> None:
    """All that is not certain to mean the same, and all that is wrong."""
    assert not is_direct(sessions[0], query)


@pytest.mark.parametrize("key", ["name", "index", "far", "index, donor"])
def test_too_many_groups_are_left_to_the_engine(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That shows when the keys are looked at, and is remembered."""
    monkeypatch.setattr("daf_query.scan._group_keys.MAX_GROUPS", 100)
    monkeypatch.setattr("daf_query.scan._group_scan.MAX_GROUPS", 100)
    daf = MemoryDaf(name="x")
    daf.add_axis("cell", [f"c{n}" for n in range(80)])
    daf.set_vector("cell", "far", np.arange(80) * 2**40)
    daf.set_vector("cell", "donor", [f"d{n % 2}" for n in range(80)])
    session = connect(daf)
    query = f"SELECT count(*) AS n, {key} FROM cell GROUP BY {key} ORDER BY {key}"
    assert is_direct(session, query)
    if key == "index":  # its range is small, so it can be grouped by
        assert check(session, query, is_sorted=True)
        return
    assert session.sql(query).to_arrow_table().num_rows == 80
    assert not is_direct(session, query)
    assert session.sql(query).to_pydict()["n"] == [1] * 80
    daf.set_vector("cell", "new", np.arange(80))
    assert is_direct(session, query)


def test_nothing_is_planned(sessions: list[DafSession], monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is never asked, whatever becomes of the rows."""

    def refused(_: Engine, query: str, *__: Any, **___: Any) -> Any:
        raise AssertionError(query)

    monkeypatch.setattr(Engine, "plan_raw", refused)
    query = "SELECT donor, count(*) AS n FROM cell WHERE wide > 70000 GROUP BY donor ORDER BY 1"
    results = [sessions[0].sql(query) for _ in range(3)]
    expected = results[0].to_pydict()
    assert pa.table(results[1]).to_pydict() == results[1].to_pandas().to_dict("list") == expected
    assert results[2].to_pylist() == list(results[2])
    assert pa.Table.from_batches(list(results[2].batches())).to_pydict() == expected
    assert len(results[2]) == len(expected["n"])
    monkeypatch.undo()
    assert results[2].filter("n > 0").count() == len(expected["n"])


def test_no_call_of_python_for_a_row_or_a_group() -> None:
    """As many for fifty times the rows, and for many groups."""

    def calls_of(rows: int, donors: int) -> int:
        daf = MemoryDaf(name="x")
        daf.add_axis("donor", [f"d{n}" for n in range(donors)])
        daf.set_vector("donor", "sex", [f"s{n}" for n in range(donors)])
        daf.add_axis("cell", [f"c{n}" for n in range(rows)])
        daf.set_vector("cell", "donor", [f"d{n % donors}" for n in range(rows)])
        daf.set_vector("cell", "age", np.arange(rows) % 90)
        with connect(daf) as session:
            query = (
                "SELECT sex, avg(age), sum(age), min(age), count(*) AS n FROM cell JOIN donor "
                "ON cell.donor = donor.name WHERE age > 5 GROUP BY sex ORDER BY n LIMIT 3"
            )
            assert is_direct(session, query)
            for _ in range(2):
                session.sql(query).to_arrow_table()
            calls = 0

            def counted(*_: Any) -> None:
                nonlocal calls
                calls += 1

            sys.setprofile(counted)
            try:
                session.sql(query).to_arrow_table()
            finally:
                sys.setprofile(None)
        return calls

    calls_of(10, 2)  # some modules are imported when they are first needed
    assert calls_of(60_000, 1_000) < calls_of(1_000, 5) + 50


def test_a_result_is_computed_by_several_threads(sessions: list[DafSession]) -> None:
    """Also by more of them than looked at its keys."""
    result = sessions[0].sql("SELECT donor, count(*) AS n FROM cell GROUP BY donor ORDER BY donor")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: result.to_pydict(), range(8)))
    assert answers == [answers[0]] * 8


@pytest.mark.filterwarnings("ignore:the table 'cell' lacks")
def test_only_columns_of_the_query_are_read(tmp_path: Path) -> None:
    """The others may be damaged; one that is named is an error in the words of the engine's path."""
    path = tmp_path / "x.daf.zarr"
    with open_daf(path, "w") as daf:
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", ["A", "B"])
        for name in ("age", "other"):
            daf.set_vector("cell", name, [1, 2])
        daf.set_vector("cell", "donor", ["a", "b"])
    session = connect(path)
    query = "SELECT donor, sum(age) AS s FROM cell GROUP BY donor ORDER BY donor"
    assert is_direct(session, query)
    (path / "vectors/cell/other/0").write_bytes(b"")
    assert session.sql(query).to_pydict() == {"donor": ["a", "b"], "s": [1, 2]}
    damages = {"donor": b"\2\0\0\0\xff\xff\xff\x7f", "age": b""}
    for column, damaged in damages.items():
        (path / f"vectors/cell/{column}/0").write_bytes(damaged)
        messages = []
        for is_planned in (False, True):
            with connect(path) as other, pytest.MonkeyPatch.context() as patch:
                if is_planned:
                    patch.setattr(other._engine.direct, "of_query", lambda _: None)
                with pytest.raises(errors.DafError) as raised:
                    other.sql(query).to_arrow_table()
                messages.append((type(raised.value), str(raised.value)))
        assert messages[0] == messages[1]


def test_explanations_say_how_a_query_is_answered(sessions: list[DafSession]) -> None:
    """The plan of the engine is that which it would execute."""
    session = sessions[0]
    plan = session.explain("SELECT donor, avg(wide) FROM cell WHERE tiny < 5 GROUP BY donor")
    assert plan.direct == (
        "the rows of cell where tiny < 5 aggregated by donor as numbers, unless these have too "
        "many different values"
    )
    assert session.explain("SELECT avg(wide) FROM cell").direct == (
        "the rows of cell aggregated as numbers"
    )
    by_two = session.explain("SELECT count(*) FROM cell GROUP BY donor, tiny").direct
    assert by_two.startswith("the rows of cell aggregated by donor, tiny as numbers, unless")
    assert "Aggregate" in plan.logical
    assert str(plan).startswith(f"answered without this plan: {plan.direct}")
    assert session.explain("SELECT count(*) FROM cell WHERE tiny < 5").direct == (
        "the number of rows of cell where tiny < 5"
    )
    assert session.sql("SELECT donor FROM cell").explain().direct == "the rows of cell"
    assert session.sql("SELECT donor FROM cell").limit(3).explain().direct == ""
    assert session.explain("SELECT median(wide) FROM cell").as_dict()["direct"] == ""
