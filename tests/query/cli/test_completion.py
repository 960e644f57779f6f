"""Tests of the scripts that let a shell complete commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from daf_query.cli import main


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
