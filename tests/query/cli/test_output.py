"""Tests of where the command line writes, and in which format."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from daf_query.cli._output import file_of, to_standard_output
from daf_storage import errors


def test_names_of_standard_output(tmp_path: Path) -> None:
    """A dash, its device, and no name at all."""
    assert file_of(None) is None
    assert file_of("-") is None
    assert file_of("/dev/stdout") is None
    assert file_of(str(tmp_path / "x.csv")) == str(tmp_path / "x.csv")


def test_formats_of_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has to be named, and only text is written to a terminal."""
    with pytest.raises(errors.InvalidInputError, match="name the format: --format"):
        to_standard_output(None)
    for file_format in ("parquet", "csv"):
        assert to_standard_output(file_format) == "/dev/stdout"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert to_standard_output("csv") == "/dev/stdout"
    with pytest.raises(errors.InvalidInputError, match="parquet is binary; write it to a file"):
        to_standard_output("parquet")
