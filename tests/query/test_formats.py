"""Tests of the formats of files: each is declared once, and everything that names formats agrees."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from daf_query import DafSession
from daf_query._formats import ROW_FORMATS, SLICE_FORMATS
from daf_query._row_files import Format
from daf_query.cli import main


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
