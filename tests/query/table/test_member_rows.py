"""The parts of a union, which are made when they are needed."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from daf_query import AxisDataset, ScanOptions
from daf_query.table import MemberTables, TableColumns, UnionDataset, axis_columns
from daf_storage import DafReader, MemoryDaf

JOINED = ScanOptions(min_joined_members=2)


def runs(count: int) -> dict[str, DafReader]:
    """Return data sets that are alike."""
    made: dict[str, DafReader] = {}
    for number in range(count):
        daf = MemoryDaf(name=f"run{number}")
        daf.add_axis("cell", ["A", "B", "C"])
        daf.set_vector("cell", "age", np.arange(3) + number)
        made[f"run{number}"] = daf
    return made


def lazy_union(dafs: dict[str, DafReader], made: list[str]) -> UnionDataset:
    """Return the union of tables that are noted when they are made."""

    def make(name: str, columns: TableColumns) -> AxisDataset:
        made.append(name)
        return AxisDataset(dafs[name], "cell", columns=columns)

    columns = {name: axis_columns(daf, "cell") for name, daf in dafs.items()}
    return UnionDataset("cell", MemberTables(columns, make), location="runs").with_options(JOINED)


def test_parts_that_are_joined_are_not_made() -> None:
    """Of many that are scanned as one, the first says how; of one that is asked for, it is made."""
    dafs, made = runs(20), list[str]()
    union = lazy_union(dafs, made)
    assert union.to_table(columns=["age"]).num_rows == 60
    assert set(made) == {"run0"}
    found = union.to_table(columns=["dataset"], filter=pc.field("dataset") == "run7")
    assert found.num_rows == 3
    assert set(made) == {"run0", "run7"}


def test_answers_are_those_of_parts_that_were_made() -> None:
    """Filters, the first rows and reports too."""
    dafs, condition = runs(9), pc.field("age") > 4
    tables = {name: AxisDataset(daf, "cell") for name, daf in dafs.items()}
    eager = UnionDataset("cell", tables, location="runs")
    lazy = lazy_union(dafs, [])
    assert lazy.schema.equals(eager.schema)
    assert lazy.filter(condition).to_table().equals(eager.filter(condition).to_table())
    assert lazy.filter(condition).is_filtered
    assert not lazy.is_filtered
    assert lazy.filter(condition).filter_columns() == ["age"]
    assert lazy.first_rows(4).to_table().equals(eager.first_rows(4).to_table())
    assert lazy.first_rows(4).is_filtered == eager.first_rows(4).is_filtered
    assert lazy.part_spans() == eager.part_spans()
