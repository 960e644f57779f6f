"""Each call of the table says what it should, and changes nothing where it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.messages import scenes
from tests.messages.table import problems, scenes_of, subjects


@pytest.mark.parametrize("subject", subjects())
def test_calls_say_what_they_should(
    subject: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Row by row, in the order of the table."""
    found = list[str]()
    for number, scene in enumerate(scenes_of(subject)):
        folder = tmp_path / f"scene{number}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        names = scenes.made(scene.name, request)
        found += problems(scene, names, capfd)
        if "db" in names:
            names["db"].close()
    if found:
        pytest.fail("\n\n".join(["", *found]), pytrace=False)
