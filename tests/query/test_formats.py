"""Tests of the formats of files: all that names them agrees, and what not every one has values for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daf_query import DafSession, connect
from daf_query._formats import ROW_FORMATS, SLICE_FORMATS
from daf_query._row_files import Format, joined
from daf_query.cli import main
from daf_storage import errors
from tests.support import data_set


def test_each_format_is_written_by_its_name_and_its_suffix(
    tmp_path: Path, tiny_session: DafSession
) -> None:
    """Of rows and of slices; types of Python, and the help of the commands, name the same."""
    assert set(get_args(Format)) == set(ROW_FORMATS)
    rows = tiny_session.sql("SELECT name FROM cell")
    for name in ROW_FORMATS:
        rows.save(tmp_path / f"rows.{name}")
        rows.save(tmp_path / f"named.{name}.out", format=name)  # type: ignore[arg-type] # each of them
    rows.save(tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").read_text() == (tmp_path / "rows.ndjson").read_text()
    for name in SLICE_FORMATS:
        tiny_session.matrix("cell", "gene", "UMIs").save(tmp_path / f"slice.{name}")
        assert (tmp_path / f"slice.{name}").exists()


@pytest.mark.parametrize(
    ("command", "available"), [("sql", ROW_FORMATS), ("extract", SLICE_FORMATS)]
)
def test_commands_offer_the_formats_that_there_are(
    command: str, available: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """As choices of ``--format``; another one is refused with a list of them."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    offered = "".join(capsys.readouterr().out.split())
    assert ",".join(available) in offered


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


def test_times_that_python_has_no_values_for(tmp_path: Path) -> None:
    """Dates beyond the year 9999, and negative durations, are written as SQL writes them."""
    columns = {
        "day": pa.array([5_000_000, 0], pa.date32()),
        "time": pa.array([400_000_000_000, None], pa.timestamp("s")),
        "span": pa.array([-7_200, -93_600], pa.duration("s")),
    }
    connect({"t": pa.table(columns)}).sql("SELECT * FROM t").save(tmp_path / "t.ndjson")
    first, second = map(json.loads, (tmp_path / "t.ndjson").read_text().splitlines())
    assert first == {"day": "15659-07-15", "time": "14645-06-30 15:06:40", "span": "-2 hours"}
    assert second == {"day": "1970-01-01", "time": None, "span": "-1 days -2 hours"}


def test_rows_before_an_error_reach_their_reader() -> None:
    """A batch that waits for others comes before the error, not instead of it."""

    def computed() -> Iterator[pa.RecordBatch]:
        yield from (pa.record_batch({"n": [number]}) for number in range(3))
        raise errors.QueryError("damaged")

    read = list[int]()
    with pytest.raises(errors.QueryError):
        read.extend(number for each in joined(computed()) for number in each["n"].to_pylist())
    assert read == [0, 1, 2]
