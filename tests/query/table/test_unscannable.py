"""Tests of tables where pyarrow wants a dataset of its own: written, passed on, never a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
import zarr

from daf_query import AxisDataset, zarr_table
from daf_query._row_files import plain_schema
from daf_query.table import UnionDataset
from daf_storage import MemoryDaf, errors


@pytest.fixture
def cell() -> AxisDataset:
    """Return an axis of several batches, with numbers, strings, Bool and missing values."""
    rng = np.random.default_rng(0)
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{i}" for i in range(100_000)])
    score = rng.random(100_000)
    score[::7] = np.nan
    daf.set_vector("cell", "score", score)
    daf.set_vector("cell", "donor", rng.choice(["N1", "N2", "N3"], 100_000))
    daf.set_vector("cell", "is_old", rng.random(100_000) < 0.1)
    return AxisDataset(daf, "cell")


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Return the path of a Zarr group with a column of numbers and one of strings."""
    path = tmp_path / "numbers"
    group = zarr.open_group(path, mode="w", zarr_format=2).create_group("meta")
    group.create_array("n", data=np.arange(1000), chunks=(400,))
    group.create_array("donor", data=np.array(["N1", "N2"] * 500), chunks=(400,))
    return path


@pytest.mark.parametrize(
    "kind", ["axis", "filtered", "union", "zarr", "scanner", "filtered scanner"]
)
def test_write_dataset(cell: AxisDataset, numbers: Path, tmp_path: Path, kind: str) -> None:
    """In one piece and partitioned, of each kind of table: all of its rows."""
    filtered = cell.filter(pc.field("is_old"))
    kinds: dict[str, Any] = {
        "axis": cell,
        "filtered": filtered,
        "union": UnionDataset("cell", {"a": filtered, "b": cell}, location="both"),
        "zarr": zarr_table(numbers),
    }

    def given() -> Any:
        if "scanner" not in kind:
            return kinds[kind]
        filter_ = pc.field("score") * 2 > 1 if kind == "filtered scanner" else None
        return filtered.scanner(columns=["index", "donor"], filter=filter_)

    expected = given().to_table()
    expected = expected.cast(plain_schema(expected.schema))
    ds.write_dataset(given(), tmp_path / "whole", format="parquet", use_threads=False)
    whole = ds.dataset(tmp_path / "whole").to_table()
    assert whole.column_names == expected.column_names
    assert as_rows(whole) == as_rows(expected)
    if kind == "zarr" and int(pa.__version__.split(".")[0]) < 26:
        return  # it does not partition by views of strings
    parts = tmp_path / "parts"
    ds.write_dataset(given(), parts, format="parquet", partitioning=["donor"], partitioning_flavor="hive")  # fmt: skip
    assert {path.name for path in parts.iterdir()} == {
        f"donor={name}" for name in pc.unique(expected.column("donor")).to_pylist()
    }
    assert as_rows(ds.dataset(parts, partitioning="hive").to_table()) == as_rows(expected)


def as_rows(table: pa.Table) -> list[str]:
    """Return the rows of a table, in any order."""
    columns = sorted(table.column_names)
    return sorted(map(str, zip(*(table.column(name).to_pylist() for name in columns), strict=True)))


def test_rows_as_a_stream(cell: AxisDataset) -> None:
    """For whoever takes one: of a table, of a scanner, with and without columns."""
    assert pa.table(cell).equals(cell.to_table())
    some = cell.scanner(columns=["donor"], filter=pc.field("index") < 10)
    assert pa.RecordBatchReader.from_stream(some).read_all().num_rows == 10
    reader = pa.RecordBatchReader.from_stream(cell)
    assert reader.read_next_batch().num_rows > 0


def test_what_needs_the_rows_in_another_form_says_so(cell: AxisDataset) -> None:
    """A table that is passed to pyarrow's C++ code, instead of its rows."""
    other = ds.dataset(pa.table({"index": [1], "site": ["Oslo"]}))
    for attempt in (
        lambda: ds.Scanner.from_dataset(cell).to_table(),
        lambda: ds.UnionDataset(cell.schema, [cell]).count_rows(),
        lambda: other.join(cell, "index"),
    ):
        with pytest.raises(errors.InvalidInputError, match=r"pass its to_table\(\), its scanner"):
            attempt()
    with pytest.raises(errors.InvalidInputError, match="has no children"):
        _ = cell.children
    assert cell.join(other, "index", join_type="inner").to_table().num_rows == 1


_MEMBERS = """
import copy, inspect, pickle, sys
import pyarrow as pa, pyarrow.compute as pc, pyarrow.dataset as ds
import daf_storage
from daf_query import AxisDataset, TableDataset, zarr_table
from daf_query.table import UnionDataset

daf = daf_storage.open_daf(sys.argv[1])
axis = AxisDataset(daf, "cell")
tables = {
    "axis": axis,
    "filtered": axis.filter(pc.field("age") > 30),
    "union": UnionDataset("cell", {"a": axis, "b": axis}, location="both"),
    "zarr": zarr_table(sys.argv[2]),
}
tables["part"] = tables["union"]._part(0)
other = ds.dataset(pa.table({"age": pa.array([30, 60], pa.uint8()), "z": [1, 2]}))

def attempts(name, table):
    column = table.schema.names[0]
    every = (), (column,), ([column],), ([0],), (1,), (table.schema,), (table, column), (other, "age"), (None,), (pc.field(column) == pc.field(column),)
    for owner in (table, super(TableDataset, table)):  # ours, and what it hides
        yield lambda: getattr(owner, name)
        for arguments in every:
            yield lambda arguments=arguments: consumed(getattr(owner, name)(*arguments))

def consumed(found):
    if isinstance(found, (ds.Dataset, ds.Scanner)):
        found.to_table()
    elif hasattr(found, "__next__"):
        for one in found:
            getattr(one, "to_table", int)()

def others(table):
    column = table.schema.names[0]
    yield lambda: ds.Scanner.from_dataset(table).to_table()
    yield lambda: ds.Scanner.from_dataset(table, columns=[column]).count_rows()
    yield lambda: ds.UnionDataset(table.schema, [table, table]).to_table()
    yield lambda: ds.UnionDataset(table.schema, [table]).count_rows()
    yield lambda: ds.dataset([table, table]).to_table()
    yield lambda: ds.dataset(table)
    yield lambda: ds.InMemoryDataset(table)
    yield lambda: other.join(table, "age").to_table()
    yield lambda: other.join_asof(table, on="age", by=[], tolerance=1).to_table()
    yield lambda: ds.FileSystemDataset(list(table.get_fragments()), table.schema, ds.IpcFileFormat())
    yield lambda: ds.Scanner.from_fragment(next(iter(table.get_fragments())))
    yield lambda: pa.table(table)
    yield lambda: copy.copy(table)
    yield lambda: copy.deepcopy(table)
    yield lambda: pickle.loads(pickle.dumps(table)).to_table()
    yield lambda: (table == table, table != other, hash(table), repr(table), str(table), bool(table))

names = {n for owner in (ds.Dataset, TableDataset.__base__) for n, _ in inspect.getmembers(owner)}
names -= {"__new__", "__init__", "__class__", "__init_subclass__", "__subclasshook__", "__del__", "__setattr__", "__delattr__"}
answered = refused = 0
for kind, table in tables.items():
    works = [(name, one) for name in sorted(names) for one in attempts(name, table)]
    for name, work in [*works, *(("other", one) for one in others(table))]:
        print(kind, name, file=sys.stderr, flush=True)  # the last line says where it crashed
        try:
            work()
            answered += 1
        except Exception:
            refused += 1
print(answered, refused)
"""


def test_no_member_crashes_the_interpreter(tiny_path: Path, numbers: Path) -> None:
    """Whatever is called, and whatever the table is passed to: an answer, or an exception."""
    command = [sys.executable, "-c", _MEMBERS, str(tiny_path), str(numbers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.splitlines()[-1:]
    answered, refused = map(int, done.stdout.split())
    assert min(answered, refused) > 300
