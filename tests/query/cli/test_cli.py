"""Tests of the command ``daf``: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from daf_query.cli import main
from daf_query.moments import Statistic
from daf_storage import DafWriter, ZarrDaf, open_daf
from daf_storage.base import CodecName
from tests.storage.stores.test_zip_crashes import reference_append
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
    def test_diagram(self, capsys: pytest.CaptureFixture[str], pbmc: str) -> None:
        """The picture and nothing else."""
        code, text, _ = run(capsys, "info", pbmc, "--diagram")
        assert (code, text) == (0, open_daf(pbmc).diagram() + "\n")

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


class TestSql:
    def test_long_tables_are_cut_on_a_terminal_only(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And then the last line says so."""
        query = "SELECT name FROM cell"
        assert len(run(capsys, "sql", pbmc, query)[1].splitlines()) == 702
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        lines = run(capsys, "sql", pbmc, query, "--no-pager")[1].splitlines()
        assert len(lines) == 43
        assert lines[-1] == "... 700 rows; 40 shown, --max-rows 0 shows all"
        assert len(run(capsys, "sql", pbmc, query, "--max-rows", "0")[1].splitlines()) == 702
        code, _, error = run(capsys, "sql", pbmc, query, "--format", "parquet")
        assert code == 1
        assert "binary; write it to a file with -o FILE" in error

    def test_a_reader_that_has_seen_enough(self, pbmc: str) -> None:
        """``| head`` ends the command without complaint."""
        command = f'"{sys.executable}" -m daf_query.cli sql "{pbmc}" "SELECT * FROM cell, gene" --format csv | head -1'
        found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert found.stdout.startswith('"name","index"')
        for word in ("error", "Traceback", "terminate"):
            assert word not in found.stderr


@pytest.mark.parametrize("seed", range(3))
def test_quartiles_are_those_of_numpy(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of values with many repetitions, and of few."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 9, random.integers(1, 40)).astype(np.float64) / 3
    daf = create(tmp_path / "y.daf.zarr")
    daf.add_axis("cell", [f"C{number}" for number in range(numbers.size)])
    daf.set_vector("cell", "x", numbers)
    _, text, _ = run(capsys, "describe", f"{tmp_path}/y.daf.zarr", "cell", "--format", "json")
    found = next(each for each in json.loads(text) if each["column"] == "x")
    quartiles = [found[name] for name in ("q1", "median", "q3")]
    assert quartiles == pytest.approx(list(np.quantile(numbers, [0.25, 0.5, 0.75])))
    assert found["mean"] == pytest.approx(numbers.mean())


def test_a_progress_bar_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On stderr, in bytes; and only there."""
    from daf_storage import import_h5ad

    import_h5ad(PBMC, tmp_path / "x.daf.zarr", progress="always")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "import: 100%" in printed.err
    assert "B/s" in printed.err


class TestArchives:
    def test_a_failed_import_leaves_what_was_there(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An archive is replaced when the import is complete, and only if asked to."""
        out = tmp_path / "x.daf.zarr.zip"
        fill(create(out)).close()
        before = out.read_bytes()
        code, _, error = run(capsys, "import", str(PBMC), str(out))
        assert (code, "exists already" in error) == (1, True)

        def fail(*_: Any, **__: Any) -> None:
            raise OSError("disk full")

        with monkeypatch.context() as patch:
            patch.setattr(DafWriter, "relayout_matrix", fail)
            assert run(capsys, "import", str(PBMC), str(out), "--overwrite")[0] == 1
        assert out.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == [out.name]
        with ZarrDaf(out, "r+"):
            code, _, error = run(capsys, "import", str(PBMC), str(out), "--overwrite")
            assert (code, "open for writing" in error) == (1, True)
        assert run(capsys, "import", str(PBMC), str(out), "--overwrite", "--quiet")[0] == 0
        assert ZarrDaf(out).axis_length("obs") == 700

    def test_recovery_is_told(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """Reading an archive with something half added names the command that mends it."""
        path = tmp_path / "x.daf.zarr.zip"
        fill(create(path)).close()
        reference_append(path, "vectors/cell/new/.zarray", b"{}", stop="header")
        code, _, error = run(capsys, "info", str(path))
        assert (code, f"daf repair {path}" in error) == (1, True)
        code, text, _ = run(capsys, "repair", str(path))
        assert code == 3
        assert "dropped vectors/cell/new/.zarray, which was not complete" in text
        assert "lost: vector 'new' of axis 'cell'" in text
        assert run(capsys, "info", str(path))[0] == 0


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
