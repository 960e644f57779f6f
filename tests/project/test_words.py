"""Tests of the check for banned words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import words


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('"""Strings of a column."""\ntexts = []\n', "texts"),
        ('"""Strings of a column."""\n# read the header anew\n', "anew"),
        ('"""Strings of a column."""\nx = "Somebody wrote it"\n', "Somebody"),
        ('"""Strings of a column."""\nfile_stamp = 1\n', "file_stamp"),
        ('"""Strings of a column."""\nclass Both: ...\n', "Both"),
        ('"""Strings of a column."""\ndef f(*, stamp: int) -> None: ...\n', "stamp"),
        ('"""Reading a column."""\n', "Reading"),
        ('"""What a column holds."""\n', "What"),
        ('"""Which rows match."""\n', "Which"),
    ],
)
def test_a_planted_word_is_found(content: str, word: str) -> None:
    """In code, comments, strings, names and the opening of a docstring; by file and line."""
    [finding] = words.findings_in("x.py", content)
    assert finding.word == word
    assert str(finding).startswith(f"x.py:{content.count(chr(10), 0, content.find(word)) + 1}: ")


def test_a_planted_file_is_found(tmp_path: Path) -> None:
    """In a folder of the project, at any depth."""
    folder = tmp_path / "daf_query" / "scan"
    folder.mkdir(parents=True)
    (folder / "_x.py").write_text('"""A column."""\n\nlearnt = 1\n')
    (tmp_path / "README.md").write_text("fine\n")
    [finding] = words.findings(tmp_path)
    assert (finding.path, finding.line) == ("daf_query/scan/_x.py", 3)
