"""Tests of what Daft is given: tasks that travel by path, and filters that leave no row out."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_query import connect
from daf_query.fragments import OPEN_SESSIONS, AxisTable
from daf_storage import MemoryDaf, ZarrDaf, errors

daft = pytest.importorskip("daft", reason="daft has no wheel here")

from daf_query.daft import read_daf  # noqa: E402 - they import Daft
from daf_query.daft._filters import pushed_filter  # noqa: E402
from daf_query.daft._source import DafSource  # noqa: E402

ROWS = 1 << 17


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a data set of two zones."""
    folder = tmp_path_factory.mktemp("daft") / "cells.daf.zarr"
    with ZarrDaf(folder, "w") as daf:
        daf.add_axis("cell", [f"c{row}" for row in range(ROWS)])
        daf.set_vector("cell", "age", np.arange(ROWS, dtype="int32"))
        daf.set_vector("cell", "donor", np.where(np.arange(ROWS) < 5, "N1", "N2"))
    with connect(str(folder), mode="r+") as session:
        session.build_index("cell", ["age"])
    return str(folder)


def _tasks(path: str, **pushdowns: Any) -> list[Any]:
    from daft.io.pushdowns import Pushdowns

    source = DafSource(path, AxisTable("cell"), rows_per_task=1 << 16)
    return list(source.get_tasks(Pushdowns(**pushdowns)))


def test_tasks_are_what_is_left(path: str) -> None:
    """Zones without a match and rows beyond the limit are no tasks; only needed columns are read."""
    assert [task.fragment.row_count for task in _tasks(path)] == [1 << 16, 1 << 16]
    [task] = _tasks(path, filters=daft.col("age") >= ROWS - 3, columns=["donor"])
    assert task.fragment.columns == ("age", "donor")
    [partition] = task.get_micro_partitions()
    assert partition.to_pydict() == {"age": [ROWS - 3, ROWS - 2, ROWS - 1], "donor": ["N2"] * 3}
    [task] = _tasks(path, limit=4, columns=["age"])
    assert [len(each) for each in task.get_micro_partitions()] == [4]
    first, second = _tasks(path, limit=4, filters=daft.col("age") * 2 > 1)
    assert first.limit is second.limit is None  # Daft evaluates the filter, so all rows may count
    OPEN_SESSIONS.clear()


def test_a_task_is_pickled_by_its_path(path: str) -> None:
    """It holds no values."""
    [task] = _tasks(path, filters=daft.col("age") < 2, columns=["age"])
    stored = pickle.dumps(task)
    assert len(stored) < 3000
    [partition] = pickle.loads(stored).get_micro_partitions()
    assert partition.to_pydict() == {"age": [0, 1]}
    OPEN_SESSIONS.clear()


def test_what_is_pushed() -> None:
    """A part is pushed only if its constant is a value of the type of the column."""
    schema = pa.schema(
        {
            "n": pa.int8(),
            "x": pa.float32(),
            "s": pa.string(),
            "f": pa.bool_(),
            "d": pa.dictionary(pa.int32(), pa.string()),
            "u": pa.uint64(),
            "i": pa.int64(),
        }
    )
    c = daft.col
    whole = (
        (c("u") < (1 << 53) - 1),
        (c("i") < (1 << 53) + 1),
        (c("n") > 3),
        (daft.lit(3) < c("n")),
        (c("x") == 0.5),
        (c("s") == "a") | c("f"),
        ~(c("n").is_in([1, 2])) & c("s").not_null(),
        c("n").between(1, 2),
        c("d") == "a",
    )
    for expression in whole:
        filters, is_whole = pushed_filter(expression, schema)
        assert filters is not None
        assert is_whole
    assert str(pushed_filter(whole[3], schema)[0]) == "(n > 3)"
    none = (
        (c("u") < (1 << 53) + 1),  # Daft rounds both, and its limit would count other rows
        (c("u") > -1),
        (c("i") < 1 << 63),
        (c("n") > 300),
        (c("n") > 1.5),
        (c("x") == 0.1),
        (c("n") + 1 > 2),
        (c("s") == "a") | (c("n") * 2 > 1),
        (c("n") > c("x")),
        c("n").is_in([1, 300]),
        c("n").is_in([]),
        daft.lit(5).between(c("n"), 100),
        daft.lit(1) == daft.lit(1),
        daft.lit(3).is_in([c("n"), 4]),
        daft.lit(3).is_null(),
        daft.lit(3).not_null(),
    )
    for expression in none:
        filters, is_whole = pushed_filter(expression, schema)
        assert (str(filters), is_whole) == ("None", False), expression
    assert pushed_filter(None, schema) == (None, True)
    filters, is_whole = pushed_filter((c("n") * 2 > 1) & c("f") & (c("n") == 1), schema)
    assert str(filters) == "(f and (n == 1))"
    assert not is_whole


def test_data_in_memory_are_refused() -> None:
    """No task would find them; a missing axis is named."""
    daf = MemoryDaf()
    daf.add_axis("cell", ["A"])
    with pytest.raises(errors.AxisNotFoundError, match="'gene'"):
        read_daf(connect(daf), "gene")
    with pytest.raises(errors.InvalidInputError, match="rows_per_task=0 is no positive number"):
        read_daf(connect(daf), "cell", rows_per_task=0)
    with pytest.raises(errors.InvalidInputError):
        DafSource(connect(daf), AxisTable("cell"), rows_per_task=9).get_tasks(
            daft.io.pushdowns.Pushdowns()
        ).__next__()
