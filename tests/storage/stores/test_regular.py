"""Tests of opening files that may be something else: nobody waits for a pipe or a socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from daf_storage import errors
from daf_storage.stores import open_regular


def test_a_file_is_opened_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is as good as nothing; a pipe and a socket are errors that name them."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"abc")
    descriptor = open_regular("file", what="the chunk")
    assert descriptor is not None
    assert os.read(descriptor, 9) == b"abc"
    os.close(descriptor)
    Path("folder").mkdir()
    for name in ("folder", "none", "file/below"):
        assert open_regular(name, what="the chunk") is None
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for name in ("pipe", "socket"):
            with pytest.raises(errors.CorruptDataError, match=f"the chunk.* {name}"):
                open_regular(name, what="the chunk")
    Path("loop").symlink_to("loop")
    with pytest.raises(errors.CorruptDataError, match="the chunk"):
        open_regular("loop", what="the chunk")
