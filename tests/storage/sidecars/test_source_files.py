"""Tests of the states of sources: what tells them from what they were."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daf_storage import SidecarWarning, errors, open_daf, sidecar_status, write_sidecar
from daf_storage.sidecars import source_digest, source_state
from tests.storage.sidecars.test_sidecars import write


def _stable(path: Path) -> Any:
    time.sleep(0.12)
    state = source_state(path)
    assert state is not None
    assert state.is_stable
    return state


def test_all_that_is_below_a_folder_counts(tmp_path: Path) -> None:
    """Also behind links; a link to nothing counts by itself, and no named pipe is waited for."""
    source, outside = tmp_path / "source", tmp_path / "outside"
    (source / "a" / "b").mkdir(parents=True)
    outside.mkdir()
    for file in (source / "x", source / "a" / "b" / "y", outside / "z"):
        file.write_text("1")
    (source / "link").symlink_to(outside)
    (source / "nothing").symlink_to(tmp_path / "absent")
    os.mkfifo(source / "pipe")
    state = _stable(source)
    digest = source_digest(source, state)
    (outside / "z").write_text("2")
    changed = _stable(source)
    assert changed != state
    assert source_digest(source, changed) not in (None, digest)
    assert source_digest(source, state) is None
    assert source_state(tmp_path / "absent") is None
    assert source_digest(tmp_path / "absent", state) is None


def test_what_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without permission, or one that a link leads back to; it is named."""
    source = tmp_path / "source"
    (source / "closed").mkdir(parents=True)
    (source / "closed" / "up").symlink_to(source)
    with pytest.raises(errors.DafError, match="closed/up: its symbolic links form a loop"):
        source_state(source)
    (source / "closed" / "up").unlink()
    listed = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(errors.DafError, match="source/closed: permission denied"):
        source_state(source)


@pytest.mark.filterwarnings("ignore::daf_storage.SidecarWarning")
def test_a_source_that_cannot_be_compared(tmp_path: Path) -> None:
    """Its sidecar is ignored with a warning that says why, and none is written.

    A sidecar whose files cannot be listed is used, and is said to have no bytes.
    """
    path = write(tmp_path, "zarr3")
    status = write_sidecar(open_daf(path), "X")
    loop = Path(status.path, "loop")
    loop.symlink_to(status.path)
    assert sidecar_status(open_daf(path)) == replace(status, size_bytes=0)
    loop.unlink()
    (path / "loop").symlink_to(path)
    with pytest.warns(SidecarWarning, match="cannot be read: .*loop: its symbolic links form"):
        daf = open_daf(path)
    assert daf.axis_length("obs") == len(daf.axis_entries("obs"))
    with pytest.raises(errors.DafError, match="loop: its symbolic links form a loop"):
        write_sidecar(daf, "dense", path=tmp_path / "new.daf.zarr")
    assert not (tmp_path / "new.daf.zarr").exists()
