"""Tests of scan plans: planning reads no values, and acting on a plan changes neither it nor another."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query import AxisDataset, ScanOptions
from daf_query.index import build_index
from daf_query.scan import And, Compare, Constant, Predicate, Scan, plan_scan
from daf_storage import DafWriter, MemoryDaf, open_daf
from tests.support import create, recorded_reads

N = 1_000
OPTIONS = ScanOptions(
    partition_rows=100,
    min_partition_rows=100,
    zone_rows=100,
    single_partition_rows=1,
    number_index_divisor=2,
    string_index_divisor=2,
)
FEW = Compare("number", "<", 250)
DONOR = Compare("donor", "==", "d3")
PREDICATES: list[Predicate | None] = [None, FEW, DONOR, And((DONOR, FEW)), Constant(value=False)]


def filled(daf: DafWriter) -> DafWriter:
    """Fill a data set with a sorted number and a repeated string."""
    daf.add_axis("cell", [f"c{i:04}" for i in range(N)])
    daf.set_vector("cell", "number", np.arange(N))
    daf.set_vector("cell", "donor", [f"d{i % 7}" for i in range(N)])
    return daf


def expected(predicate: Predicate | None) -> list[int]:
    """Return the rows of a predicate."""
    is_few, is_donor = np.arange(N) < 250, np.arange(N) % 7 == 3
    masks = [np.ones(N, np.bool_), is_few, is_donor, is_few & is_donor, np.zeros(N, np.bool_)]
    rows: list[int] = np.flatnonzero(masks[PREDICATES.index(predicate)]).tolist()
    return rows


def rows_of(scan: Scan) -> list[int]:
    """Return the matching rows of a scan."""
    batches = list(scan.batches(["index"]))
    return pa.Table.from_batches(batches).column("index").to_pylist() if batches else []


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("order", [*permutations(range(3)), (3, 0, 4), (4, 1, 3)])
def test_plans_of_one_table_do_not_depend_on_each_other(
    *, is_indexed: bool, order: tuple[int, ...]
) -> None:
    """Several are planned first, in any order, and executed in the other, twice."""
    daf = filled(MemoryDaf())
    if is_indexed:
        build_index(daf, "cell", ["number", "donor"])
    table = AxisDataset(daf, "cell").with_options(OPTIONS).open_table()
    plans = [plan_scan(table, PREDICATES[number]) for number in order]
    before = [(list(plan.partitions), plan.rows, list(plan.conditions)) for plan in plans]
    for _ in range(2):
        for number, plan in reversed(list(zip(order, plans, strict=True))):
            assert rows_of(Scan(table, plan)) == expected(PREDICATES[number])
    assert [(list(p.partitions), p.rows, list(p.conditions)) for p in plans] == before


def test_a_plan_is_frozen() -> None:
    """Whoever executes it cannot change it."""
    plan = plan_scan(AxisDataset(filled(MemoryDaf()), "cell").open_table(), FEW)
    with pytest.raises(FrozenInstanceError):
        plan.partitions = ()  # type: ignore[misc] # the error is the test


def test_planning_reads_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither chunks of the filter's columns nor of others; executing the plan reads them."""
    with create(tmp_path / "x.daf.zarr") as writer:
        filled(writer)
    dataset = AxisDataset(open_daf(tmp_path / "x.daf.zarr"), "cell")
    with recorded_reads(monkeypatch) as reads:
        table = dataset.open_table()
        plan = plan_scan(table, And((FEW, DONOR)))
        assert not reads.chunks()
        assert rows_of(Scan(table, plan)) == expected(PREDICATES[0])[:250][3::7]
        assert reads.chunks()


def test_indexes_name_candidates_and_prune_partitions() -> None:
    """Of two indexed columns, the rows that both name; the filter is applied again."""
    daf = filled(MemoryDaf())
    build_index(daf, "cell", ["number", "donor"])
    table = AxisDataset(daf, "cell").with_options(OPTIONS).open_table()
    plan = plan_scan(table, And((DONOR, FEW)))
    assert plan.rows is not None
    assert plan.rows.tolist() == expected(And((DONOR, FEW)))
    assert list(plan.indexes) == ["donor", "number"]
    assert [span.start for span in plan.partitions] == [0, 100, 200]
    assert (plan.pruned, plan.rows_pruned) == (7, 700)
    assert list(plan.conditions) == [FEW, DONOR]
    others = Compare("donor", "!=", "d3")
    assert list(plan_scan(table, And((others, FEW))).conditions) == [FEW, others]  # cheap first


def test_the_callers_table_stays_as_it_is() -> None:
    """Whatever is derived from it: another filter, cache, options, reports, rows."""
    table = AxisDataset(filled(MemoryDaf()), "cell")
    state, view = dict(vars(table)), table._view
    derived = [
        table.filter(pc.field("number") < 3),
        table.with_cache(table.cache.part()),
        table.with_options(OPTIONS),
        table.with_reports([]),
        table.restricted(np.arange(3), FEW),
    ]
    for other in derived:
        other.to_table(filter=pc.field("donor") == "d1")
        assert other.table_columns is table.table_columns
    assert vars(table) == state
    assert table._view is view
    assert table.count_rows() == N
