"""Tests of errors on the command line: they name options, and what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anndata
import numpy as np
import pytest

from daf_query.cli import main
from tests.support import create


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a small data set."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("cell", ["A", "B"])
    daf.add_axis("gene", ["g", "h"])
    daf.set_vector("cell", "donor", ["N1", "N2"])
    daf.set_matrix("cell", "gene", "X", [[1, 2], [3, 4]])
    return str(tmp_path / "x.daf.zarr")


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that fails, and return what it says."""
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("daf: error: ")
    assert "Errno" not in error
    return error.removeprefix("daf: error: ").splitlines()[0]


def test_arguments_are_options(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Rows, columns and axes are named as they are typed."""
    extract = ("extract", path, "--matrix", "X", "--rows-axis", "cell", "-o", "x.csv")
    assert failed(capsys, *extract, "--rows", "agee > 3").startswith("--rows on axis 'cell'")
    error = failed(capsys, *extract, "--columns", "donor = 'N1'")
    assert error.startswith("--columns on axis 'gene'")
    assert error.endswith("pass this predicate as --rows")
    assert "--columns yields donor" in failed(
        capsys, *extract, "--columns", "SELECT donor FROM cell"
    )
    assert "--obs-is" in failed(capsys, "export", path, "o.h5ad", "--obs-is", "nope")


def test_import(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    """What is there already, names that occur twice, and two axes of one name."""
    adata = anndata.AnnData(np.zeros((2, 1), np.float32))
    adata.obs_names = ["A", "A"]
    adata.write_h5ad(tmp_path / "in.h5ad")
    source, new = str(tmp_path / "in.h5ad"), str(tmp_path / "new.daf.zarr")
    assert "pass --overwrite to replace it" in failed(capsys, "import", source, path)
    assert failed(capsys, "import", source, new).endswith("or import with --make-unique")
    twice = failed(capsys, "import", source, new, "--obs-is", "a", "--var-is", "a")
    assert twice.endswith("pass different --obs-is and --var-is")


def test_queries_only_read(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """There is no option to allow more, but one to keep the rows."""
    error = failed(capsys, "sql", path, "CREATE TABLE t AS SELECT 1")
    assert error.endswith("; write its rows to a file with -o FILE")
    assert "write a string as 'N1'" in failed(
        capsys, "sql", path, 'SELECT 1 FROM cell WHERE donor = "N1"'
    )


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    """The script names commands and options, and completes files."""
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    script = capsys.readouterr().out
    assert "extract" in script
    assert "--rows-axis" in script
    assert "compgen_files" in script or "_files" in script


def test_completion_is_valid_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shell takes it, and completes a command."""
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit):
        main(["--print-completion", "bash"])
    (tmp_path / "daf.bash").write_text(capsys.readouterr().out)
    line = f"source {tmp_path}/daf.bash && COMP_WORDS=(daf ext) COMP_CWORD=1 && _shtab_daf && echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "extract"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--flight-sq", "x"], "there is no option --flight-sq; do you mean --flight-sql"),
        (["serve", "x", "--max-", "1"], "do you mean --max-bytes or --max-"),
        (["sql", "x", "--formt=json", "SELECT 1"], "no option --formt; do you mean --format?"),
        (["info", "x", "--nothing-like-it"], "there is no option --nothing-like-it\n"),
    ],
)
def test_options_are_written_in_full(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """What begins like an option is refused, with the options that it may stand for."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
