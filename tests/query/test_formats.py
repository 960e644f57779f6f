"""Tests of the formats of files: each is declared once, and everything that names formats agrees."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from daf_query import connect
from daf_query._formats import ROW_FORMATS, SLICE_FORMATS
from daf_query._row_files import Format
from daf_query.cli import main
from tests.support import data_set


def test_each_format_is_written_by_its_name_and_its_suffix(tmp_path: Path) -> None:
    """Of rows and of slices; types of Python, and the help of the commands, name the same."""
    assert set(get_args(Format)) == set(ROW_FORMATS)
    daf = data_set(name="tiny", cell=["A", "B"], gene=["X", "Y"])
    daf.set_matrix("cell", "gene", "UMIs", np.ones((2, 2), np.float32))
    with connect(daf) as session:
        for name in ROW_FORMATS:
            session.sql("SELECT name FROM cell").save(tmp_path / f"rows.{name}")
            session.sql("SELECT name FROM cell").save(tmp_path / f"named.{name}.out", format=name)  # type: ignore[arg-type] # each of them
        session.sql("SELECT name FROM cell").save(tmp_path / "rows.jsonl")
        assert (tmp_path / "rows.jsonl").read_text() == (tmp_path / "rows.ndjson").read_text()
        for name in SLICE_FORMATS:
            session.matrix("cell", "gene", "UMIs").save(tmp_path / f"slice.{name}")
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
