"""Each call of the table says what it should, changes nothing where it fails, and leaves nothing open."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.messages import scenes
from tests.messages.table import problems, scenes_of, subjects
from tests.support import still_open


@pytest.mark.parametrize("subject", subjects())
def test_calls_say_what_they_should(
    subject: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Row by row, in the order of the table."""
    found, names = list[str](), dict[str, Any]()
    for number, scene in enumerate(scenes_of(subject)):
        folder = tmp_path / f"scene{number}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        names = scenes.made(scene.name, request)
        found += problems(scene, names, capfd)
        if "db" in names:
            names["db"].close()
        names.clear()
    gc.collect()
    found += [f"{each} is still open or mapped" for each in still_open(tmp_path)]
    if found:
        pytest.fail("\n\n".join(["", *found]), pytrace=False)
