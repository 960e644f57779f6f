"""Tests of what tells that a data set was replaced."""

from __future__ import annotations

from pathlib import Path

from daf_query.explore._data import _signature


def test_what_has_no_files_here(tmp_path: Path) -> None:
    """A data set of a server, and a pattern that matches nothing by now, are never others."""
    assert _signature(["https://example.org/x.daf.zarr"]) == ()
    assert _signature([str(tmp_path / "*.daf.zarr")]) == ()
