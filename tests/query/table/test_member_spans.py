"""Tests of rows of members that a filter may leave: what planning each by itself leaves, or more."""

from __future__ import annotations

import functools
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import connect
from daf_query.distributed import SOURCES, opened
from daf_query.fragments import plan_fragments
from daf_query.session import DafSession
from daf_query.table import UnionDataset
from daf_storage import DafReader, ZarrDaf, errors
from tests import seams
from tests.query.table.test_joined_members import JOINED, ROWS, members_of_all_kinds
from tests.support import data_set, recorded_calls


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
    everything = {f"run{number}": set(range(rows)) for number, rows in enumerate(ROWS) if rows}
    assert rows_left(table, None) == everything
    chosen = pc.field("dataset").isin(["run9", "run4"]) & (pc.field("age") >= 0)
    assert list(rows_left(table, chosen)) == ["run4", "run9"]
    assert rows_left(table, pc.scalar(False)) == {}


LEAVES = [
    *(pc.field("age") > 5, pc.field("age") == 2, ~pc.field("flag"), pc.field("donor") == "d2"),
    *(pc.field("dataset") < "run4", pc.field("index") < 2, pc.field("donor").is_null()),
    *(pc.field("age") + 1 > 3, pc.field("dataset").isin(["run4", "run7"]), pc.field("flag")),
    *(pc.field("name") == "c2.4", pc.field("dataset") != "run3", pc.field("flag").is_null()),
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
    path = tmp_path / "run2.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        ages = np.arange(7, dtype="int32") * 10
        cells = {"name": 7, "age": ages, "donor": ["d0"] * 7, "flag": [True] * 7}
        data_set(daf, cell=cells | {"score": [1.0] * 7})
    with connect(path, mode="r+") as session:
        session.build_index("cell", "donor")
    with ZarrDaf(path) as daf:
        table = union_of(session_of(run2=daf))
        assert "run2" not in rows_left(table, pc.field("donor") == "d5")
        assert rows_left(table, pc.field("age") == 20)["run2"]


def test_a_plan_reads_the_metadata_of_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns and those of the filter; a name that is not there is said with all that are."""
    for number in range(8):
        with ZarrDaf(tmp_path / f"run{number}.daf.zarr.zip", "w") as daf:
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
