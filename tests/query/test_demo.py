"""Tests of the demonstration."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import anndata
import pytest

from daf_query import demo
from daf_query.cli import main
from daf_storage import errors


def test_the_demonstration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It queries, imports, describes, queries twice, extracts and draws; also a second time."""
    for _ in range(2):
        assert main(["demo", str(tmp_path / "demo")]) == 0
        printed = capsys.readouterr().out
        for words in ("$ daf import", "$ daf info", "$ daf sql", "JOIN louvain", "$ daf extract"):
            assert words in printed
        assert "Dendritic                       240" in printed
    assert (tmp_path / "demo/umap.png").read_bytes().startswith(b"\x89PNG")
    assert anndata.read_h5ad(tmp_path / "demo/dendritic.h5ad").shape == (240, 309)


def test_the_demonstration_in_an_archive(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The data set may be an archive; the other results lie beside it."""
    assert main(["demo", str(tmp_path / "demo/mine.daf.zarr.zip")]) == 0
    assert "$ daf info" in capsys.readouterr().out
    found = sorted(p.name for p in (tmp_path / "demo").iterdir())
    assert found == ["dendritic.h5ad", "mine.daf.zarr.zip", "pbmc.h5ad", "umap.png"]


def test_without_scanpy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data set is part of that package."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(errors.MissingDependencyError, match=r"pip install .*\[demo\]"):
        demo.find_pbmc()
