"""Tests of columns that not every format of rows has values for."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from daf_query import connect
from daf_storage import errors
from tests.support import data_set


@pytest.mark.parametrize(
    "sql",
    [
        *("[index, 2]", "named_struct('a', index)", "X'00ff'", "arrow_cast(X'00ff', 'BinaryView')"),
        *(f"arrow_cast([name], '{kind}(Utf8View)')" for kind in ("LargeList", "List")),
        "arrow_cast([name, 'b'], 'FixedSizeList(2, Utf8View)')",
    ],
)
def test_lists_and_bytes_are_for_parquet(sql: str, tmp_path: Path) -> None:
    """What a query yields is what the file has; for text the error names the column, and what to do."""
    session, rows = connect(data_set(cell=["A", "B"])), tmp_path / "rows.parquet"
    result = session.sql(f"SELECT {sql} AS odd FROM cell ORDER BY index")
    result.save(rows)
    assert "string_view" not in str(result.to_arrow_table().schema)
    assert pq.read_table(rows).to_pylist() == result.to_arrow_table().to_pylist()
    for suffix in ("csv", "tsv"):
        with pytest.raises(errors.UnsupportedInputError, match=r"'odd' is .*CAST"):
            result.save(tmp_path / f"rows.{suffix}")
    assert list(tmp_path.iterdir()) == [rows]
