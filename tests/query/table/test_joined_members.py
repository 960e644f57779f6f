"""Small data sets of a collection that are scanned as one: the rows are those of each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_query import DafSession, ScanOptions, connect
from daf_query.sql import _axis_schema as schema_module
from daf_storage import DafWriter, MemoryDaf, ZarrDaf
from daf_storage.data import _vector_reader

SINGLE = ScanOptions(min_joined_members=1 << 20, zone_rows=8)
JOINED = ScanOptions(min_joined_members=2, joined_member_rows=20, joined_rows=40, zone_rows=8)


def _member(number: int, rows: int, *, name: str | None = None) -> DafWriter:
    random = np.random.default_rng(number)
    daf = MemoryDaf(name=name or f"run{number}")
    daf.add_axis("cell", [f"c{number}.{row}" for row in range(rows)])
    daf.set_vector("cell", "age", random.integers(0, 5, rows).astype("int32"))
    score = random.random(rows).round(1)
    score[random.random(rows) < 0.3] = np.nan
    daf.set_vector("cell", "score", score)
    daf.set_vector("cell", "flag", random.random(rows) < 0.5)
    daf.set_vector("cell", "donor", random.choice(["", "d1", "d2"], rows).astype(str))
    return daf


def _members() -> list[DafWriter]:
    """Return small and large ones, empty ones, some with other columns and types."""
    members = [
        _member(number, rows) for number, rows in enumerate([5, 0, 7, 21, 3, 4, 0, 30, 9, 8])
    ]
    members[4].delete_vector("cell", "flag")
    members[5].delete_vector("cell", "flag")
    members[8].set_vector("cell", "age", np.arange(9, dtype="int8"), if_exists="replace")
    members[9].set_vector("cell", "age", np.arange(8, dtype="float32"), if_exists="replace")
    return members


@pytest.fixture(scope="module")
def sessions() -> tuple[DafSession, DafSession]:
    """Return the same data sets, scanned singly and joined."""
    members = _members()
    return connect(members, scan_options=SINGLE), connect(members, scan_options=JOINED)


CONDITIONS = st.sampled_from(
    [
        *(
            "age > 2",
            "age = 3",
            "score IS NULL",
            "score >= 0.5",
            "flag",
            "NOT flag",
            "donor = 'd1'",
        ),
        *("flag IS NULL", "donor IN ('d2', '')", "dataset = 'run2'", "dataset IN ('run4', 'run9')"),
        *("dataset > 'run5'", '"index" < 3', "name LIKE '%.1'", "name = 'c2.4'", "donor <> 'd2'"),
    ]
)


@given(parts=st.lists(CONDITIONS, min_size=0, max_size=3), word=st.sampled_from(["AND", "OR"]))
@settings(deadline=None, max_examples=20)
def test_the_rows_are_the_same(
    sessions: tuple[DafSession, DafSession], parts: list[str], word: str
) -> None:
    """Any filter leaves the same rows, whether members are joined or not."""
    where = f" WHERE {f' {word} '.join(parts)}" if parts else ""
    query = f'SELECT dataset, name, "index", age, score, flag, donor FROM cell{where}'
    single, joined = (session.sql(query).to_arrow_table() for session in sessions)
    order = [("dataset", "ascending"), ("index", "ascending")]
    single, joined = single.sort_by(order), joined.sort_by(order)
    assert joined.equals(single)
    count = f"SELECT count(*) AS n FROM cell{where}"
    assert sessions[1].sql(count).to_pydict() == {"n": [single.num_rows]}


def _reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return counts of the calls that open vectors and that read metadata, from now on."""
    calls = {"open_vector": 0, "axis_columns": 0}
    opened, described = _vector_reader.VectorReader.open_vector, schema_module.axis_columns  # type: ignore[attr-defined] # wrapped for the test

    def open_vector(*args: Any, **kwargs: Any) -> Any:
        calls["open_vector"] += 1
        return opened(*args, **kwargs)

    def axis_columns(*args: Any, **kwargs: Any) -> Any:
        calls["axis_columns"] += 1
        return described(*args, **kwargs)

    monkeypatch.setattr(_vector_reader.VectorReader, "open_vector", open_vector)
    monkeypatch.setattr(schema_module, "axis_columns", axis_columns)
    return calls


def test_what_another_program_writes_shows(tmp_path: Path) -> None:
    """A chunk that is replaced, without a change of any metadata, is read again."""
    for number in range(33):
        with ZarrDaf(tmp_path / f"run{number}.daf.zarr", "w") as daf:
            daf.add_axis("cell", ["A", "B"])
            daf.set_vector("cell", "age", np.array([number, 50], "int64"))
    with connect(str(tmp_path / "*.daf.zarr")) as session:
        question = "SELECT count(*) AS n FROM cell WHERE age = 77"
        assert session.sql(question).to_pydict() == {"n": [0]}
        assert session.sql(question).to_pydict() == {"n": [0]}
        chunk = tmp_path / "run7.daf.zarr" / "vectors" / "cell" / "age" / "0"
        aside = chunk.with_name("aside")
        aside.write_bytes(np.array([77, 77], "<i8").tobytes())
        aside.replace(chunk)
        assert session.sql(question).to_pydict() == {"n": [2]}


def test_a_large_collection_is_opened_once_each(tmp_path: Path) -> None:
    """Connecting lists each folder once, whatever is in it; two of one name go by their paths."""
    for folder in ("a", "b"):
        for number in range(3):
            with ZarrDaf(tmp_path / folder / f"run{number}.daf.zarr", "w") as daf:
                daf.add_axis("cell", ["A"])
    with connect(str(tmp_path / "*" / "*.daf.zarr")) as session:
        assert sorted(session.members()) == sorted(map(str, tmp_path.glob("*/*.daf.zarr")))
