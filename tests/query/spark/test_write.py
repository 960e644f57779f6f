"""Tests of vectors that Spark writes: staged by tasks, stored by one committer, or not at all."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from daf_query.spark import DafDataSource
from daf_storage import DafError, convert, errors, open_daf
from tests.support import create

NAMES = ["A", "B", "C", "D"]


@pytest.fixture(params=["directory", "archive"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the path of an axis with a vector."""
    path = tmp_path / "data" / "cells.daf.zarr"
    path.parent.mkdir()
    with create(path) as daf:
        daf.add_axis("cell", NAMES)
        daf.set_vector("cell", "age", [1, 2, 3, 4])
    if request.param == "directory":
        return path
    archive = tmp_path / "zipped" / "cells.daf.zarr.zip"
    archive.parent.mkdir()
    convert(path, archive)
    return archive


def write(path: Path, *parts: Any, overwrite: bool = False, **options: str) -> None:
    """Write as Spark does: tasks get the writer and return messages, pickled."""
    columns = [pa.RecordBatch.from_pydict(part) for part in parts]
    source = DafDataSource({"path": str(path), "axis": "cell", **options})
    writer = pickle.dumps(source.writer(columns[0].schema, overwrite))
    messages = [
        pickle.loads(pickle.dumps(pickle.loads(writer).write(iter([each])))) for each in columns
    ]
    messages.append(pickle.loads(writer).write(iter(())))  # a task without rows
    pickle.loads(writer).commit([*messages, None])


def test_rows_of_all_tasks_become_vectors(path: Path) -> None:
    """By name, whatever their order; several at once, of each type."""
    write(
        path,
        {"name": ["D", "A"], "score": [4.0, None], "label": ["d", None], "n": [1, None]},
        {"name": ["C", "B"], "score": [3.0, 2.0], "label": ["c", "b"], "n": [2, 3]},
    )
    with open_daf(path) as daf:
        assert str(daf.get_np_vector("cell", "score").tolist()) == "[nan, 2.0, 3.0, 4.0]"
        assert daf.get_np_vector("cell", "label").tolist() == ["", "b", "c", "d"]
        assert str(daf.get_np_vector("cell", "n").tolist()) == "[nan, 3.0, 2.0, 1.0]"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_vectors_are_replaced_if_they_are_to_be(path: Path) -> None:
    """Only with the mode overwrite."""
    rows = {"name": NAMES, "age": [5, 6, 7, 8]}
    with pytest.raises(errors.ExistsError, match="has a vector 'age' already.*overwrite"):
        write(path, rows)
    if path.suffix == ".zip":
        with pytest.raises(errors.AppendOnlyError, match="append-only"):
            write(path, rows, overwrite=True)
        return
    write(path, rows, overwrite=True)
    with open_daf(path) as daf:
        assert daf.get_np_vector("cell", "age").tolist() == [5, 6, 7, 8]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": ["A", "B", "C"], "x": [1, 2, 3]}, "no row for 1 of 4 entries.*first is 'D'"),
    ({"name": [*NAMES, "A"], "x": [1] * 5}, "more than one row for 1 of 4 .*first is 'A'"),
    ({"name": [*NAMES, "E"], "x": [1] * 5}, "'E'"),
    ({"name": ["A", "B", "C", None], "x": [1] * 4}, "is NULL in 1 rows"),
    ({"name": NAMES, "x": [[1], [2], [3], [4]]}, "list"),
    ({"cell": NAMES, "x": [1] * 4}, "it needs 'name'"),
    ({"name": NAMES}, "at least one other"),
    ({"name": NAMES, "index": [0, 1, 2, 3]}, "but not 'index'"),
]


@pytest.mark.parametrize(("rows", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_what_is_not_one_row_for_each_entry_is_refused(
    path: Path, rows: dict[str, Any], message: str
) -> None:
    """Nothing is stored then, and nothing is left beside the data set."""
    with pytest.raises(DafError, match=message):
        write(path, rows)
    with open_daf(path) as daf:
        assert daf.vectors_set("cell") == {"age"}
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_places_that_cannot_be_written(path: Path, tmp_path: Path) -> None:
    """Patterns, servers, axes that are not there, rows that the committer does not see."""
    rows = {"name": NAMES, "x": [1, 2, 3, 4]}
    with pytest.raises(errors.ReadOnlyError, match="one data set"):
        write(path.parent / "*.daf.zarr", rows)
    with pytest.raises(errors.ReadOnlyError, match="one data set"):
        DafDataSource({"path": "http://localhost/x.daf.zarr", "axis": "cell"}).writer(
            pa.schema([("name", pa.string()), ("x", pa.int64())]), overwrite=False
        )
    with pytest.raises(errors.AxisNotFoundError, match="'gene'"):
        write(path, rows, axis="gene")
    with pytest.raises(errors.InvalidInputError, match="needs the options 'path' and 'axis'"):
        write(path, rows, axis="")
    with pytest.raises(errors.InvalidInputError, match="no option 'table' to write"):
        write(path, rows, table="cell")
    (tmp_path / "shared").mkdir()
    write(path, rows, staging=str(tmp_path / "shared"))
    assert list((tmp_path / "shared").iterdir()) == []


def test_a_write_that_fails_leaves_nothing(path: Path) -> None:
    """Neither aborted, nor with rows that are elsewhere, nor without rows."""
    source = DafDataSource({"path": str(path), "axis": "cell"})
    batch = pa.RecordBatch.from_pydict({"name": ["A"], "x": [1]})
    writer = source.writer(batch.schema, overwrite=False)
    message = writer.write(iter([batch]))
    writer.abort([message])
    with pytest.raises(errors.SourceNotFoundError, match="option 'staging'"):
        writer.commit([message])
    with pytest.raises(errors.QueryError, match="has no rows"):
        writer.commit([writer.write(iter(()))])
    assert [each.name for each in path.parent.iterdir()] == [path.name]
