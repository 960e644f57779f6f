"""Tests of the scripts that let a shell complete commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from daf_query.cli import main


def printed(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    """Return the script for a shell."""
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_zsh(capsys: pytest.CaptureFixture[str]) -> None:
    """The script names commands and options, and completes files."""
    script = printed(capsys, "zsh")
    for part in ("extract", "--rows-axis", "_files"):
        assert part in script


def test_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shell takes the script, and completes a command, an option and a file."""
    (tmp_path / "daf.bash").write_text(printed(capsys, "bash"))
    for words, place, completed in (
        ("daf ext", 1, "extract"),
        ("daf extract --rows-a", 2, "--rows-axis"),
        (f"daf info {tmp_path}/daf.b", 2, f"{tmp_path}/daf.bash"),
    ):
        line = f"source {tmp_path}/daf.bash && COMP_WORDS=({words}) COMP_CWORD={place} && _shtab_daf && echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert done.stdout.strip() == completed
