"""Tests of what a process keeps open for tasks: bounded, opened once, opened again if outdated."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from daf_query import connect
from daf_query.distributed import Source, let_go, opened
from daf_query.distributed import _source as opening
from daf_query.table import TableDataset
from daf_storage import MemoryDaf, errors, open_daf


def ages(path: Path, column: str = "age") -> Source:
    """Return the source of an axis, as another process gets it."""
    with connect(path) as db:
        source = Source.of(db.table("cell"), "the table 'cell'", [column])
    again: Source = pickle.loads(pickle.dumps(source))
    return again


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    let_go()
    yield
    let_go()


def test_one_reader_for_a_path(tiny_path: Path) -> None:
    """However many sources read of it; nothing stays of what is let go."""
    tables: list[TableDataset] = [opened(ages(tiny_path, name)) for name in ("age", "name")]
    assert opened(ages(tiny_path)) is tables[0] is not tables[1]
    assert (len(opening.READERS), len(opening.SOURCES)) == (1, 2)
    assert tables[0].read_spans(tables[0].part_spans(), ["age"]).num_rows == 3
    let_go()
    assert (len(opening.READERS), len(opening.SOURCES)) == (0, 0)


@pytest.mark.parametrize("suffix", [".daf.zarr", ".daf.zarr.zip", ".h5df"])
def test_what_was_changed_is_refused(tmp_path: Path, suffix: str) -> None:
    """By whoever has it open, and by whoever opens it; a new source reads what is there now."""
    path = tmp_path / f"x{suffix}"
    for values in ([1, 2], [3, 4]):
        path_now = tmp_path / f"now{suffix}"
        with open_daf(path_now, "w") as daf:
            daf.add_axis("cell", ["A", "B"])
            daf.set_vector("cell", "age", values)
        if path.exists():
            path.rename(tmp_path / "old")
        path_now.rename(path)
        if values == [1, 2]:
            source = ages(path)
            assert opened(source).to_table(["age"])["age"].to_pylist() == values
    for _ in range(2):
        with pytest.raises(errors.InvalidInputError, match="'cell' was changed or replaced"):
            opened(source)
        let_go()
    assert opened(ages(path)).to_table(["age"])["age"].to_pylist() == [3, 4]


def test_what_is_in_memory_does_not_travel() -> None:
    """The error says what to do; in this process it is used as it is."""
    daf = MemoryDaf(name="tiny")
    daf.add_axis("cell", np.array(["A"]))
    table = connect(daf).table("cell")
    source = Source.of(table, "the table 'cell'")
    assert opened(source) is table
    with pytest.raises(
        errors.InvalidInputError, match="<memory>: no path leads .* copy_all.*'threads'"
    ):
        opened(pickle.loads(pickle.dumps(source)))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_opens_its_own(tiny_path: Path) -> None:
    """It reads, and what its parent opened stays open there."""
    source = ages(tiny_path)
    table = opened(source)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            is_empty = len(opening.SOURCES) == len(opening.READERS) == 0
            status = 0 if is_empty and opened(source).to_table().num_rows == 3 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert opened(source) is table
    assert table.to_table().num_rows == 3
