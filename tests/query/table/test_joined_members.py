"""Small data sets of a collection that are scanned as one: the rows are those of each by itself."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from daf_query import DafSession, ScanOptions, UnreadableVectorWarning, connect
from daf_query.table import UnionDataset
from daf_storage import DafWriter, ZarrDaf
from tests import seams
from tests.random_conditions import Conditions
from tests.support import data_set, recorded_calls

SINGLE = ScanOptions(min_joined_members=1 << 20, zone_rows=8)
JOINED = ScanOptions(min_joined_members=2, joined_member_rows=20, joined_rows=40, zone_rows=8)


def _member(number: int, rows: int, *, name: str | None = None) -> DafWriter:
    random = np.random.default_rng(number)
    daf = data_set(name=name or f"run{number}", cell=[f"c{number}.{row}" for row in range(rows)])
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


def _runs(table: Any) -> Any:
    """Return the runs of neighbours that a union scans as one table."""
    return table._of.runs(table.options)


def test_which_members_are_joined() -> None:
    """Neighbours of few rows that have the same columns, up to a number of rows."""
    table = connect(members_of_all_kinds(), scan_options=JOINED).table("cell")
    assert isinstance(table, UnionDataset)
    runs = [(span.start, span.stop) for span, _ in _runs(table)]
    assert runs == [(0, 3), (4, 6)]
    assert table.table_columns.length == sum(columns.length for _, columns in _runs(table)) + 68
    assert not _runs(connect(members_of_all_kinds()).table("cell"))
    assert len(_runs(table.filter(pc.field("age") > 1))) == 2
    assert not _runs(table.with_options(replace(JOINED, min_joined_members=9)))


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
        with ZarrDaf(tmp_path / f"run{number}.daf.zarr", "w") as daf:
            data_set(daf, cell={"name": ["A", "B"], "age": np.array([number, 50], "int64")})
    with connect(str(tmp_path / "*.daf.zarr")) as session:
        question = "SELECT count(*) AS n FROM cell WHERE age = 77"
        assert session.sql(question).to_pydict() == {"n": [0]}
        assert session.sql(question).to_pydict() == {"n": [0]}
        chunk = tmp_path / "run7.daf.zarr" / "vectors" / "cell" / "age" / "0"
        aside = chunk.with_name("aside")
        aside.write_bytes(np.array([77, 77], "<i8").tobytes())
        aside.replace(chunk)
        assert session.sql(question).to_pydict() == {"n": [2]}


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    """The error of one that is read is that of a data set by itself; its column is then left out of all."""
    for number in range(33):
        with ZarrDaf(tmp_path / f"run{number}.daf.zarr", "w", zarr_format=3) as daf:
            data_set(daf, cell={"name": 3, "donor": ["x", "y", "z"]})
    [chunk] = (tmp_path / "run9.daf.zarr" / "vectors" / "cell" / "donor").rglob("c/0")
    data = chunk.read_bytes()
    chunk.write_bytes(data[:4] + b"\xff\xff\xff\x7f" + data[8:])
    with connect(str(tmp_path / "*.daf.zarr")) as session:
        assert session.sql("SELECT * FROM cell LIMIT 1").to_arrow_table().num_rows == 1
        with pytest.warns(UnreadableVectorWarning, match="run9"):
            assert session.sql("SELECT * FROM cell LIMIT 99").to_arrow_table().num_rows == 99
        assert "donor" not in session.table("cell").schema.names
        assert session.sql("SELECT count(name) AS n FROM cell").to_pydict() == {"n": [99]}
