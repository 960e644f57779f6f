"""Tests of the tuning of scans: any gives the same rows, and none is silently ignored."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import AxisDataset, ScanOptions, connect
from daf_query.index import build_index
from daf_query.scan import ScanReport
from daf_storage import DafWriter, MemoryDaf, Packing, errors
from tests.support import data_set

N = 1_000
FILTERS = [
    pc.field("number") < 40,
    (pc.field("number") >= 10) & (pc.field("string") == "s07"),
    pc.field("string").isin(["s01", "s90"]) | pc.field("number").is_null(),
    pc.field("name") == "c0123",
    pc.field("number") + 1 > 50,  # this and what follows is left to Arrow
    pc.starts_with(pc.field("string"), "s0"),
    (pc.field("number") > 50) & (pc.field("index") * 2 < 225),
]


def filled(daf: DafWriter, length: int = N) -> DafWriter:
    """Fill a data set with a sorted number with NaN, a repeated string and indexes of both."""
    number = np.linspace(0, N / 7, length)
    number[::13] = np.nan
    strings = [f"s{i * 37 % 100:02}" for i in range(length)]
    names = [f"c{i:04}" for i in range(length)]
    data_set(daf, cell={"name": names, "number": number, "string": strings})
    build_index(daf, "cell", ["name", "number", "string"])
    return daf


MADE = [filled(MemoryDaf(packed=packed), N // 4) for packed in (False, Packing("zstd", chunk_kb=1))]
SMALL = st.integers(1, 200)


@given(
    options=st.builds(ScanOptions, **{field.name: SMALL for field in fields(ScanOptions)}),
    daf=st.sampled_from(MADE),
    number=st.integers(0, len(FILTERS) - 1),
)
def test_rows_are_the_same_with_any_options(
    options: ScanOptions, daf: DafWriter, number: int
) -> None:
    """Arrow filters the whole table as the oracle; fragments and the whole agree with it."""
    expected = AxisDataset(daf, "cell").to_table().filter(FILTERS[number])
    table = AxisDataset(daf, "cell").with_options(options)
    for _ in range(2):  # the second scan prunes by what the first one read
        assert table.to_table(filter=FILTERS[number]).equals(expected)
        assert table.count_rows(FILTERS[number]) == expected.num_rows
        parts = [f.to_table(filter=FILTERS[number]) for f in table.get_fragments(FILTERS[number])]
        assert pa.concat_tables([expected.slice(0, 0), *parts]).equals(expected)
        assert len(parts) <= max(options.threads, 1)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        *((each.name, 0, "=0") for each in fields(ScanOptions) if each.type == "int"),
        ("threads", 1.5, "=1.5 is no positive whole number; pass 1 or more"),
        ("max_distinct_strings", 65_537, " is 65,537; .* it can be 65,536 at most"),
    ],
)
def test_options_are_within_limits(name: str, value: float, why: str) -> None:
    """The error names the option and its value."""
    with pytest.raises(errors.InvalidInputError, match=name + why):
        ScanOptions(**{name: cast("Any", value)})


@pytest.mark.parametrize("name", ["indexes", "pruning", "direct"])
def test_short_cuts_can_be_switched_off(name: str) -> None:
    """The rows are the same, and the short cut is not taken: a wrong row can be bisected."""
    daf = MemoryDaf(name="one")
    filled(daf)
    daf.set_vector("cell", "rank", np.arange(N))
    options: dict[str, Any] = {"zone_rows": 100, "partition_rows": 100, "min_partition_rows": 100}
    query = "SELECT name FROM cell WHERE number < 3 AND string = 's07' AND rank < 90"
    found = []
    for switch in (True, False):
        session = connect(daf, scan_options=ScanOptions(**options, **{name: switch}))
        rows = session.sql(query).to_pylist()
        session.sql("SELECT count(*) FROM cell WHERE rank >= 0").to_pylist()
        [scan] = session.explain_analyze(query).scans
        is_direct = bool(session.explain(query).direct)
        taken = {"indexes": bool(scan.indexes), "pruning": scan.rows_pruned > 0}
        found.append((rows, taken.get(name, is_direct)))
    assert found[0][0] == found[1][0]
    assert [taken for _, taken in found] == [True, False]


def test_stored_zone_maps_are_used_with_their_own_size_of_zones() -> None:
    """With another, zone maps are computed while columns are read, and the rows are the same."""
    daf = data_set(cell={"name": [str(i) for i in range(N)], "number": np.arange(N)})
    build_index(daf, "cell")
    for zone_rows, pruned in ((1 << 16, 10), (100, 0)):
        options = ScanOptions(zone_rows=zone_rows, partition_rows=100, min_partition_rows=100)
        reports: list[ScanReport] = []
        table = AxisDataset(daf, "cell").with_options(options).with_view(reports=reports)
        none = pc.field("number") > N
        found = [f.to_table(filter=none) for f in table.get_fragments(none)]
        assert sum(part.num_rows for part in found) == 0
        assert reports[0].pruned == pruned
