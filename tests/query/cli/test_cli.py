"""Tests of the command ``daf``: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from daf_query.cli import main
from daf_storage import DafWriter, ZarrDaf, open_daf
from tests.storage.h5ad.test_h5ad import read
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
        """The picture and nothing else; it is no format."""
        code, text, _ = run(capsys, "info", pbmc, "--diagram")
        assert (code, text) == (0, open_daf(pbmc).diagram() + "\n")
        with pytest.raises(SystemExit):
            run(capsys, "info", pbmc, "--diagram", "--format", "json")
        assert "not allowed with argument --diagram" in capsys.readouterr().err


QUERY = "SELECT phase, count(*) AS n, avg(n_genes) AS genes FROM cell GROUP BY phase ORDER BY phase"
COUNTS = {"G1": 501, "G2M": 17, "S": 182}


class TestSql:
    @pytest.fixture(autouse=True)
    def counts(self) -> None:
        """Compare the expected counts with those of the original, by pandas."""
        assert read(PBMC).obs["phase"].value_counts().to_dict() == COUNTS

    @pytest.mark.parametrize("suffix", ["csv", "json", "ndjson", "parquet", "arrow", "txt"])
    def test_files(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path, suffix: str
    ) -> None:
        """The suffix says the format; the file holds the rows."""
        path = tmp_path / f"out.{suffix}"
        code, text, _ = run(capsys, "sql", pbmc, QUERY, "-o", str(path))
        assert (code, text) == (0, "")
        match suffix:
            case "csv":
                found = pl.read_csv(path)
            case "json":
                found = pl.DataFrame(json.loads(path.read_text()))
            case "ndjson":
                found = pl.read_ndjson(path)
            case "parquet":
                found = pl.DataFrame(pq.read_table(path))
            case "arrow":
                found = pl.read_ipc(path)
            case _:
                assert path.read_text().startswith("phase    n    genes\n")
                return
        assert dict(zip(found["phase"], found["n"], strict=True)) == COUNTS

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


class TestExtract:
    @pytest.mark.parametrize("suffix", ["h5ad", "npz", "mtx", "csv", "parquet", "arrow"])
    def test_every_format(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path, suffix: str
    ) -> None:
        """The slice is written and its shape is said."""
        path = tmp_path / f"x.{suffix}"
        chosen = ["--rows", "phase = 'S'", "--columns", "highly_variable", "-o", str(path)]
        code, text, error = run(capsys, "extract", pbmc, "--matrix", "X", *chosen)
        assert (code, error) == (0, "")
        assert text.startswith(f"wrote {COUNTS['S']} cell x 309 gene (")
        assert path.exists()

    def test_the_slice_is_right(
        self, capsys: pytest.CaptureFixture[str], pbmc: str, tmp_path: Path
    ) -> None:
        """Cells and genes of a SELECT in its order, from the raw matrix."""
        query = "SELECT name FROM cell ORDER BY n_genes DESC LIMIT 5"
        command = ["extract", pbmc, "--matrix", "X", "--columns-axis", "gene_raw", "--quiet"]
        assert main([*command, "--rows", query, "-o", str(tmp_path / "x.npz")]) == 0
        daf = ZarrDaf(pbmc)
        order = daf.get_np_vector("cell", "n_genes").argsort(kind="stable")[::-1][:5]
        found = sp.load_npz(tmp_path / "x.npz")
        raw = daf.get_np_matrix("cell", "gene_raw", "X").tocsr()
        assert abs(found - raw[order]).sum() == 0


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

    def test_findings_are_listed_and_counted(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """A line for each, exit code 1 if one is an error; JSON for machines."""
        path = tmp_path / "x.daf.zarr"
        fill(create(path))
        (path / "vectors/cell/age/0").write_bytes(b"1")
        (path / "vectors/gene/marker/0").unlink()
        shutil.rmtree(path / "matrices/gene/gene")
        code, text, _ = run(capsys, "verify", str(path))
        assert code == 1
        lines = text.splitlines()
        assert lines[0].startswith(
            "warning: matrices/gene/gene/.zgroup: gone, and still in the cons"
        )
        assert lines[1].startswith("warning: matrices/gene/gene: this group is missing")
        assert lines[2].startswith("error: vectors/cell/age: the chunk file '0' is truncated")
        assert lines[-1] == f"{path}: 2 errors, 2 warnings"
        code, text, _ = run(capsys, "verify", str(path), "--format", "json")
        found = json.loads(text)["findings"]
        assert (code, [f["level"] for f in found]) == (1, [*["warning"] * 2, *["error"] * 2])
        assert found[2]["path"] == "vectors/cell/age"
        code, text, _ = run(capsys, "repair", str(path), "--format", "json")
        assert (
            json.loads(text)["done"][0] == "added the group matrices/gene/gene, which was missing"
        )

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
