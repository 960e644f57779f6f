"""Small data sets of a collection that are scanned as one: the rows are those of each by itself."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, ScanOptions, UnreadableVectorWarning, connect
from daf_query.distributed import SOURCES, opened
from daf_query.fragments import plan_fragments
from daf_query.table import UnionDataset
from daf_storage import DafReader, DafWriter, ZarrDaf, errors
from tests import seams
from tests.random_conditions import Conditions
from tests.support import data_set, recorded_calls

SINGLE = ScanOptions(min_joined_members=1 << 20, zone_rows=8)
JOINED = ScanOptions(min_joined_members=2, joined_member_rows=20, joined_rows=40, zone_rows=8)


def _member(number: int, rows: int, *, name: str | None = None) -> DafWriter:
    random = np.random.default_rng(number)
    daf = data_set(name=name or f"lot{number}", cell=[f"c{number}.{row}" for row in range(rows)])
    daf.set_vector("cell", "age", random.integers(0, 5, rows).astype("int32"))
    score = random.random(rows).round(1)
    score[random.random(rows) < 0.3] = np.nan
    daf.set_vector("cell", "score", score)
    daf.set_vector("cell", "flag", random.random(rows) < 0.5)
    daf.set_vector("cell", "donor", random.choice(["", "d1", "d2"], rows).astype(str))
    return daf


ROWS = [5, 0, 7, 21, 3, 4, 0, 30, 9, 8]


@functools.cache  # no two in memory have one name
def members_of_all_kinds() -> list[DafWriter]:
    """Return small and large ones, empty ones, some with other columns and types."""
    members = [_member(number, rows) for number, rows in enumerate(ROWS)]
    members[4].delete_vector("cell", "flag")
    members[5].delete_vector("cell", "flag")
    members[8].set_vector("cell", "age", np.arange(9, dtype="int8"), if_exists="replace")
    members[9].set_vector("cell", "age", np.arange(8, dtype="float32"), if_exists="replace")
    return members


@pytest.fixture(scope="module")
def sessions() -> tuple[DafSession, DafSession]:
    """Return the same data sets, scanned singly and joined."""
    members = members_of_all_kinds()
    return connect(members, scan_options=SINGLE), connect(members, scan_options=JOINED)


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_are_the_same(sessions: tuple[DafSession, DafSession], seed: int) -> None:
    """Any filter leaves the same rows, whether members are joined or not."""
    condition = Conditions(sessions[0].table("cell").to_table(), seed).of_columns(depth=1)
    where = f" WHERE {condition}" if seed else ""
    query = f'SELECT dataset, name, "index", age, score, flag, donor FROM cell{where}'
    single, joined = (session.sql(query).to_arrow_table() for session in sessions)
    order = [("dataset", "ascending"), ("index", "ascending")]
    single, joined = single.sort_by(order), joined.sort_by(order)
    assert joined.equals(single)
    count = f"SELECT count(*) AS n FROM cell{where}"
    assert sessions[1].sql(count).to_pydict() == {"n": [single.num_rows]}


def test_which_members_are_joined() -> None:
    """Neighbours of few rows that have the same columns, up to a number of rows."""
    table = connect(members_of_all_kinds(), scan_options=JOINED).table("cell")
    assert isinstance(table, UnionDataset)
    assert [(span.start, span.stop) for span, _ in table.runs] == [(0, 3), (4, 6)]
    assert table.table_columns.length == sum(columns.length for _, columns in table.runs) + 68
    whole = connect(members_of_all_kinds()).table("cell")
    assert isinstance(whole, UnionDataset)
    assert not whole.runs
    assert len(table.filter(pc.field("age") > 1).runs) == 2
    assert not table.with_options(replace(JOINED, min_joined_members=9)).runs


def test_nothing_is_opened_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second query opens nothing; a change of one data set reads the metadata of that alone."""
    members = [_member(number, 4, name=f"counted{number}") for number in range(40)]
    session = connect(members)
    question = "SELECT count(*) AS n FROM cell WHERE age > 2 AND donor = 'd1'"
    first = session.sql(question).to_pydict()
    opened, described = (
        recorded_calls(monkeypatch, place, lambda *_, **__: None)
        for place in (seams.VECTOR_READER_OPEN_VECTOR, seams.AXIS_COLUMNS)
    )
    assert session.sql(question).to_pydict() == first
    assert session.sql("SELECT count(*) AS n FROM cell WHERE age < 9").to_pydict() == {"n": [160]}
    assert opened == described == []
    assert session.sql("SELECT age FROM cell LIMIT 6").to_arrow_table().num_rows == 6
    assert (len(opened), described) == (2, [])  # of the first two
    few = "SELECT sum(score) AS s FROM cell WHERE dataset IN ('counted3', 'counted7')"
    session.explain_analyze(few)  # the first that names the scores
    opened.clear()
    described.clear()
    assert len(session.explain_analyze(few).scans) == 2
    assert len(opened) == 2  # of the two that are left, and not of all
    opened.clear()
    members[5].set_vector("cell", "age", [9, 9, 9, 9], if_exists="replace")
    opened.clear()
    assert session.sql("SELECT count(*) AS n FROM cell WHERE age = 9").to_pydict() == {"n": [4]}
    assert len(described) == 1
    assert len(opened) <= 4 + 40  # its metadata, and the joined column again


def test_what_another_program_writes_shows(tmp_path: Path) -> None:
    """A chunk that is replaced, without a change of any metadata, is read again."""
    for number in range(33):
        with ZarrDaf(tmp_path / f"lot{number}.daf.zarr", "w") as daf:
            data_set(daf, cell={"name": ["A", "B"], "age": np.array([number, 50], "int64")})
    with connect(str(tmp_path / "*.daf.zarr")) as session:
        question = "SELECT count(*) AS n FROM cell WHERE age = 77"
        assert session.sql(question).to_pydict() == {"n": [0]}
        assert session.sql(question).to_pydict() == {"n": [0]}
        chunk = tmp_path / "lot7.daf.zarr" / "vectors" / "cell" / "age" / "0"
        aside = chunk.with_name("aside")
        aside.write_bytes(np.array([77, 77], "<i8").tobytes())
        aside.replace(chunk)
        assert session.sql(question).to_pydict() == {"n": [2]}


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    """The error of one that is read is that of a data set by itself; its column is then left out of all."""
    for number in range(33):
        with ZarrDaf(tmp_path / f"lot{number}.daf.zarr", "w", zarr_format=3) as daf:
            data_set(daf, cell={"name": 3, "donor": ["x", "y", "z"]})
    [chunk] = (tmp_path / "lot9.daf.zarr" / "vectors" / "cell" / "donor").rglob("c/0")
    data = chunk.read_bytes()
    chunk.write_bytes(data[:4] + b"\xff\xff\xff\x7f" + data[8:])
    with connect(str(tmp_path / "*.daf.zarr")) as session:
        assert session.sql("SELECT * FROM cell LIMIT 1").to_arrow_table().num_rows == 1
        with pytest.warns(UnreadableVectorWarning, match="lot9"):
            assert session.sql("SELECT * FROM cell LIMIT 99").to_arrow_table().num_rows == 99
        assert "donor" not in session.table("cell").schema.names
        assert session.sql("SELECT count(name) AS n FROM cell").to_pydict() == {"n": [99]}


# Rows of members that a filter may leave: what planning each by itself leaves, or more


def session_of(**changes: DafReader) -> DafSession:
    """Return small and large data sets, empty ones, some with other columns and types."""
    members = [changes.get(daf.name, daf) for daf in members_of_all_kinds()]
    return connect(members, scan_options=JOINED)


def union_of(session: DafSession) -> UnionDataset:
    """Return the table of the cells."""
    table = session.table("cell")
    assert isinstance(table, UnionDataset)
    return table


def rows_left(table: UnionDataset, chosen: pc.Expression | None) -> dict[str, set[int]]:
    """Return the rows of each data set that are left; what is joined is named by its data sets."""
    left: dict[str, set[int]] = {}
    for piece in table.pieces(chosen, table.schema.names, 1 << 20):
        [span] = piece.spans
        name = opened(piece.source).member_name
        assert piece.table_rows == ROWS[int(name[3:])]
        assert piece.row_count == span.size > 0
        left.setdefault(name, set()).update(range(span.start, span.stop))
    return left


def test_names_leave_out_data_sets() -> None:
    """Those that are left come in their order; empty ones are none."""
    table = union_of(session_of())
    everything = {f"lot{number}": set(range(rows)) for number, rows in enumerate(ROWS) if rows}
    assert rows_left(table, None) == everything
    chosen = pc.field("dataset").isin(["lot9", "lot4"]) & (pc.field("age") >= 0)
    assert list(rows_left(table, chosen)) == ["lot4", "lot9"]
    assert rows_left(table, pc.scalar(False)) == {}


LEAVES = [
    *(pc.field("age") > 5, pc.field("age") == 2, ~pc.field("flag"), pc.field("donor") == "d2"),
    *(pc.field("dataset") < "lot4", pc.field("index") < 2, pc.field("donor").is_null()),
    *(pc.field("age") + 1 > 3, pc.field("dataset").isin(["lot4", "lot7"]), pc.field("flag")),
    *(pc.field("name") == "c2.4", pc.field("dataset") != "lot3", pc.field("flag").is_null()),
]


@given(
    leaves=st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3),
    join=st.sampled_from([operator.and_, operator.or_]),
)
def test_no_row_that_matches_is_left_out(leaves: list[Any], join: Any) -> None:
    """Whatever the filter is."""
    chosen = functools.reduce(join, leaves)
    table = union_of(session_of())
    left = rows_left(table, chosen)
    for row in table.to_table(columns=["dataset", "index"], filter=chosen).to_pylist():
        assert row["index"] in left[row["dataset"]]


def test_an_index_of_a_small_data_set_is_used(tmp_path: Path) -> None:
    """It leaves out what it names no row of, whichever column it is of."""
    path = tmp_path / "lot2.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        ages = np.arange(7, dtype="int32") * 10
        cells = {"name": 7, "age": ages, "donor": ["d0"] * 7, "flag": [True] * 7}
        data_set(daf, cell=cells | {"score": [1.0] * 7})
    with connect(path, mode="r+") as session:
        session.build_index("cell", "donor")
    with ZarrDaf(path) as daf:
        table = union_of(session_of(lot2=daf))
        assert "lot2" not in rows_left(table, pc.field("donor") == "d5")
        assert rows_left(table, pc.field("age") == 20)["lot2"]


def test_a_plan_reads_the_metadata_of_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns and those of the filter; a name that is not there is said with all that are."""
    for number in range(8):
        with ZarrDaf(tmp_path / f"lot{number}.daf.zarr.zip", "w") as daf:
            daf.add_axis("cell", [f"c{number}.{row}" for row in range(3)])
            for name in ("age", "donor", "score"):
                daf.set_vector("cell", name, np.arange(3, dtype="int32") + number)
    looked_at = recorded_calls(monkeypatch, seams.VECTOR_READER_FIND_VECTOR, lambda *call: call[2])
    pattern, chosen = f"{tmp_path}/*.zip", pc.field("donor") == 5
    plan = plan_fragments(pattern, "cell", columns=["name", "age"], filter=chosen)
    assert set(looked_at) <= {"age", "donor", "dataset"}
    assert plan.schema.names == ["name", "age"]
    batches = [batch.to_pydict() for fragment in plan.fragments for batch in fragment.read()]
    rows = [(n, a) for batch in batches for n, a in zip(batch["name"], batch["age"], strict=True)]
    assert sorted(rows) == [("c3.2", 5), ("c4.1", 5), ("c5.0", 5)]
    with pytest.raises(errors.NotFoundError, match="no column 'aeg'; it has .* score"):
        plan_fragments(pattern, "cell", columns=["aeg"])
    SOURCES.clear()
