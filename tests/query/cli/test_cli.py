"""Tests of the command ``daf``: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from daf_query.cli import main
from daf_query.moments import Statistic
from daf_storage import DafWriter, import_h5ad
from daf_storage.base import CodecName
from tests.support import PBMC, create, fill


@pytest.fixture
def pbmc(pbmc_path: Path) -> str:
    """Return the path of the real data, as one types it."""
    return str(pbmc_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, its output and its errors."""
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


class TestInfo:
    def test_a_pattern(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """Each data set is described as by itself, as text and as JSON."""
        for name in "ab":
            fill(create(tmp_path / f"{name}.daf.zarr"))
        pattern = str(tmp_path / "*.daf.zarr")
        single = run(capsys, "info", str(tmp_path / "b.daf.zarr"))[1]
        code, text, _ = run(capsys, "info", pattern)
        assert (code, text.splitlines()[0]) == (0, f"{pattern}: 2 data sets")
        assert single.partition("\n")[2] in text
        printed = json.loads(run(capsys, "info", pattern, "--format", "json")[1])
        alone = json.loads(run(capsys, "info", str(tmp_path / "b.daf.zarr"), "--format", "json")[1])
        assert list(printed["data_sets"]) == ["a", "b"]
        assert printed["data_sets"]["b"] == {**alone, "name": printed["data_sets"]["b"]["name"]}


def test_a_reader_that_has_seen_enough(pbmc: str) -> None:
    """``| head`` ends the command without complaint."""
    command = f'"{sys.executable}" -m daf_query.cli sql "{pbmc}" "SELECT * FROM cell, gene" --format csv | head -1'
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert found.stdout.startswith('"name","index"')
    for word in ("error", "Traceback", "terminate"):
        assert word not in found.stderr


def test_a_progress_bar_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On stderr, in bytes; and only there."""
    import_h5ad(PBMC, tmp_path / "x.daf.zarr", progress="always")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "import: 100%" in printed.err
    assert "B/s" in printed.err


def test_a_failed_import_leaves_the_archive_that_was_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is replaced when the import is complete, and not before."""
    out = tmp_path / "x.daf.zarr.zip"
    fill(create(out)).close()
    before = out.read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(DafWriter, "relayout_matrix", fail)
    code, _, error = run(capsys, "import", str(PBMC), str(out), "--overwrite")
    assert (code, "disk full" in error) == (1, True)
    assert out.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(
    ("command", "choices"), [("import", get_args(CodecName)), ("save-matrix", get_args(Statistic))]
)
def test_what_can_be_chosen_is_what_there_is(
    command: str, choices: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands list it themselves, as importing what has it takes longer than they do."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"{{{','.join(choices)}}}" in "".join(capsys.readouterr().out.split())
