"""Tests of columns that not every format of rows has values for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daf_query import connect
from daf_query._row_files import Rows, write_rows
from daf_storage import MemoryDaf, errors


@pytest.mark.parametrize("file_format", ["csv", "tsv"])
@pytest.mark.parametrize(
    "values",
    [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([b"\xff"]), pa.array([b"\xff"], pa.binary(1))],
)
def test_text_has_no_lists_and_bytes(file_format: Any, values: pa.Array) -> None:
    """The error names the column and says what to do, and nothing is written."""
    table = pa.table({"n": [1], "odd": values})
    file = io.BytesIO()
    with pytest.raises(errors.UnsupportedInputError, match=r"'odd' is .*CAST"):
        write_rows(Rows(table.schema, table.to_batches()), file_format, file)
    assert file.getvalue() == b""


@pytest.mark.parametrize("sql", ["[index, 2]", "named_struct('a', index)", "X'00ff'"])
def test_lists_in_parquet(sql: str, tmp_path: Path) -> None:
    """What a query yields is what the file has."""
    daf = MemoryDaf(name="lists")
    daf.add_axis("cell", ["A", "B"])
    result = connect(daf).sql(f"SELECT {sql} AS v FROM cell ORDER BY index")
    result.save(tmp_path / "rows.parquet")
    assert (
        pq.read_table(tmp_path / "rows.parquet").to_pylist() == result.to_arrow_table().to_pylist()
    )
