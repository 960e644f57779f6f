"""Tests of plans of fragments: what is in them, what is left out, and that nothing is read."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query import connect
from daf_query.distributed import SOURCES
from daf_query.fragments import (
    AxisTable,
    Fragment,
    FragmentPlan,
    MatrixTable,
    plan_fragments,
    table_schema,
)
from daf_storage import convert, errors, open_daf
from tests.support import create, data_set, recorded_reads

ROWS = 200_000
RUNS = {"monday": 300, "tuesday": 200, "friday": 150}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of an axis of several zones, sorted by one column."""
    path = tmp_path_factory.mktemp("fragments") / "cells.daf.zarr"
    rng = np.random.default_rng(0)
    with create(path) as daf:
        data_set(daf, cell={"name": ROWS, "time": np.arange(ROWS, dtype="i4")})
        score = rng.random(ROWS)
        score[::7] = np.nan
        daf.set_vector("cell", "score", score)
        daf.set_vector("cell", "donor", rng.choice(["N1", "N2", "N3"], ROWS))
    with connect(path, mode="r+") as session:
        session.build_index("cell", ["name", "time"])
    return str(path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the pattern of three data sets whose columns differ."""
    folder = tmp_path_factory.mktemp("runs")
    for number, (day, rows) in enumerate(RUNS.items()):
        with create(folder / f"{day}.daf.zarr") as daf:
            daf.add_axis("cell", [f"{day} {i}" for i in range(rows)])
            daf.set_vector("cell", "age", np.arange(rows).astype("u1" if number else "i4"))
            if day != "tuesday":
                daf.set_vector("cell", "note", [f"n{i % 3}" for i in range(rows)])
                daf.add_axis("gene", ["CD8A", "CST3"])
                values = np.arange(2 * rows, dtype="f4").reshape(rows, 2)
                daf.set_matrix("cell", "gene", "X", values)
    return f"{folder}/*.daf.zarr"


def rows_of(plan: FragmentPlan) -> list[dict[str, Any]]:
    """Return the rows of all fragments, each as another process gets it."""
    again: list[Fragment] = pickle.loads(pickle.dumps(list(plan.fragments)))
    batches = [batch for fragment in again for batch in fragment.read()]
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches, plan.schema).to_pylist()
    return rows


FILTERS = {
    "none": None,
    "a range of zones": (pc.field("time") >= 70_000) & (pc.field("time") < 70_500),
    "an indexed value": pc.field("name") == "c123456",
    "strings": pc.field("donor").isin(["N1", "N3"]) & (pc.field("score") > 0.9),
    "null": pc.field("score").is_null() & (pc.field("time") < 100),
    "what Arrow evaluates": pc.field("time") + 1 > 199_000,
    "nothing": pc.field("time") < 0,
}


@pytest.mark.parametrize("name", FILTERS)
def test_fragments_have_the_rows_of_the_table(path: str, name: str) -> None:
    """Each row once, in order, with any filter."""
    chosen = FILTERS[name]
    plan = plan_fragments(
        path, "cell", columns=["time", "score"], filter=chosen, rows_per_fragment=30_000
    )
    with connect(path) as session:
        expected = session.table("cell").to_table(columns=["time", "score"], filter=chosen)
    assert plan.schema == expected.schema
    assert rows_of(plan) == expected.to_pylist()


def test_zones_and_indexes_leave_out_fragments(path: str) -> None:
    """They leave out all rows but those of a zone, or of a value."""
    whole = plan_fragments(path, "cell", rows_per_fragment=30_000)
    assert len(whole.fragments) == 7
    assert sum(piece.row_count for each in whole.fragments for piece in each.pieces) == ROWS
    (one_zone,) = plan_fragments(path, "cell", filter=FILTERS["a range of zones"]).fragments
    assert sum(piece.row_count for piece in one_zone.pieces) <= 1 << 16
    assert len(plan_fragments(path, "cell", filter=FILTERS["an indexed value"]).fragments) == 1
    assert plan_fragments(path, "cell", filter=FILTERS["nothing"]).fragments == ()


def test_no_values_are_read_to_plan(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata alone; a fragment reads the chunk of its own rows."""
    SOURCES.clear()
    with recorded_reads(monkeypatch) as reads:
        plan = plan_fragments(path, "cell", columns=["score"], rows_per_fragment=100_000)
    assert not [key for key in reads.keys if key.endswith(("score/0", "name/0", "donor/0"))]
    with recorded_reads(monkeypatch) as reads:
        list(plan.fragments[0].read())
    found = {key for key in reads.keys if key.split("/")[-1].isdigit()}
    assert found == {"daf/0", "vectors/cell/score/0"}


def test_small_data_sets_share_a_fragment(runs: str) -> None:
    """A fragment has rows of several, or of a part of one."""
    whole = plan_fragments(runs, "cell")
    assert [len(fragment.pieces) for fragment in whole.fragments] == [3]
    cut = plan_fragments(runs, "cell", rows_per_fragment=200)
    assert [[p.row_count for p in f.pieces] for f in cut.fragments] == [[150], [200], [100], [200]]
    with connect(runs) as session:
        table = session.table("cell").to_table()
    assert rows_of(whole) == rows_of(cut) == table.to_pylist()
    assert whole.schema == table.schema


def test_a_filter_leaves_out_whole_data_sets(runs: str) -> None:
    """By their name, and by what they lack; the types are those of all."""
    named = plan_fragments(runs, "cell", filter=pc.field("dataset") == "friday")
    assert [len(fragment.pieces) for fragment in named.fragments] == [1]
    assert rows_of(named)[0]["dataset"] == "friday"
    lacking = plan_fragments(runs, "cell", columns=["age"], filter=pc.field("note") == "n1")
    assert lacking.schema.field("age").type == pa.int32()
    assert [len(fragment.pieces) for fragment in lacking.fragments] == [2]
    assert len(rows_of(lacking)) == 150


def test_entries_of_matrices_are_columns(runs: str) -> None:
    """They are NULL where a data set lacks the matrix, as in the session's table."""
    entries = {"cd8": ("gene", "X", "CD8A"), "cst3": ("gene", "X", "CST3")}
    names = ["name", "cst3", "cd8"]
    plan = plan_fragments(runs, AxisTable("cell", entries), columns=names, rows_per_fragment=100)
    with connect(runs) as session:
        table = session.table("cell", matrix_columns=entries)
        assert rows_of(plan) == table.to_table(columns=names).to_pylist()
    some = plan_fragments(
        runs, AxisTable("cell", entries), columns=["name"], filter=pc.field("cd8") > 500
    )
    assert {row["name"].split()[0] for row in rows_of(some)} == {"monday"}


def test_zipped_data_sets_and_sessions_are_sources(runs: str, tmp_path: Path) -> None:
    """The same rows as of the directory; of a session that has several, one is named."""
    monday = runs.replace("*", "monday")
    convert(monday, tmp_path / "monday.daf.zarr.zip")
    expected = rows_of(plan_fragments(monday, "cell"))
    assert rows_of(plan_fragments(tmp_path / "monday.daf.zarr.zip", "cell")) == expected
    with connect({"a": monday, "b": runs.replace("*", "friday")}) as session:
        assert rows_of(plan_fragments(session, "cell", schema="a")) == expected
    assert table_schema([monday], "cell").names[0] == "dataset"


def test_a_table_that_changed_is_not_read(tmp_path: Path) -> None:
    """Neither with other rows, nor with a column of another type, nor without it; without that column it is."""
    path = tmp_path / "one.daf.zarr"
    with create(path) as daf:
        data_set(daf, cell={"name": ["A", "B"], "age": [1, 2]})
    plan, named = (plan_fragments(path, "cell", columns=each) for each in (None, ["name"]))
    for values in ([1.5, 2.5], None):
        with open_daf(path, "r+") as daf:
            daf.delete_vector("cell", "age")
            if values is not None:
                daf.set_vector("cell", "age", values)
        with pytest.raises(errors.InvalidInputError, match="was changed or replaced"):
            rows_of(plan)
        assert rows_of(named) == [{"name": "A"}, {"name": "B"}]
    plan = plan_fragments(path, "cell")
    with create(path) as daf:
        daf.add_axis("cell", ["A", "B", "C"])
    with pytest.raises(errors.InvalidInputError, match="was changed or replaced"):
        rows_of(plan)
    assert len(rows_of(plan_fragments(path, "cell"))) == 3


MATRICES: dict[str, dict[str, Any]] = {
    "all": {},
    "one column": {"filter": pc.field("gene") == "CD8A"},
    "values": {"filter": pc.field("value") > 500},
    "predicates": {"rows": "age % 7 = 0", "columns": "name = 'CST3'"},
    "nothing": {"filter": pc.field("gene") == "none"},
}


@pytest.mark.parametrize("case", MATRICES)
def test_blocks_of_matrices_have_its_elements(runs: str, case: str) -> None:
    """Of one data set and of several; each element once, in blocks of a bounded size."""
    choice = dict(MATRICES[case])
    chosen = choice.pop("filter", None)
    for source in (runs, runs.replace("*", "monday")):
        plan = plan_fragments(
            source, MatrixTable("cell", "gene", "X", **choice), filter=chosen, rows_per_fragment=99
        )
        with connect(source) as session:
            table = session.matrix_table("cell", "gene", "X", **choice)
            expected = table.to_table(filter=chosen).to_pylist()
        assert sorted(map(str, rows_of(plan))) == sorted(map(str, expected))
        assert len(plan.fragments) >= (2 if case in ("all", "values") else 0)
        assert all(len(pickle.dumps(fragment)) < 6000 for fragment in plan.fragments)


@pytest.mark.parametrize("suffix", [".daf.zarr.zip", ".h5df", ".daf.zarr", ".dafs.zarr.zip#/one"])
def test_a_file_that_was_replaced_is_not_read(tmp_path: Path, suffix: str) -> None:
    """Not one of the same length either; a copy with another inode and the same times is."""
    path = str(tmp_path / f"one{suffix}")
    container = Path(path.partition("#/")[0])

    def write(ages: list[int]) -> None:
        if "#" in path:
            container.unlink(missing_ok=True)
        with open_daf(path, "w+" if "#" in path else "w") as daf:
            data_set(daf, cell={"name": ["A", "B"], "age": ages, "other": [1, 2]}, gene=["g"])
            daf.set_matrix("cell", "gene", "X", np.array([[1.0], [2.0]]))

    write([30, 60])
    tables: list[str | MatrixTable] = ["cell", MatrixTable("cell", "gene", "X")]
    plans: list[tuple[Fragment, ...]] = [
        pickle.loads(pickle.dumps(plan_fragments(path, table).fragments)) for table in tables
    ]
    first = [[batch.to_pylist() for f in fragments for batch in f.read()] for fragments in plans]
    copy = tmp_path / "copy"
    (shutil.copytree if container.is_dir() else shutil.copy2)(container, copy)
    container.rename(tmp_path / "old")
    copy.rename(container)
    again = [[batch.to_pylist() for f in fragments for batch in f.read()] for fragments in plans]
    assert again == first
    write([31, 60])
    for fragments in plans:
        with pytest.raises(errors.InvalidInputError, match=r"was changed .*run the query again"):
            list(fragments[0].read())
