"""Tests of allocating space in files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daf_storage.stores import allocate


@pytest.fixture(params=[True, False])
def has_fallocate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the system can reserve space; some can only set the length of a file."""
    if not request.param:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    return bool(request.param)


@pytest.mark.parametrize(
    ("offset", "size_bytes", "expected"), [(0, 10, 10), (4, 10, 14), (0, 2, 3), (9, 0, 3)]
)
@pytest.mark.usefixtures("has_fallocate")
def test_a_file_grows_to_hold_the_range(
    tmp_path: Path, offset: int, size_bytes: int, expected: int
) -> None:
    """It is never cut, and nothing at all leaves it as it is."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with path.open("r+b") as file:
        allocate(file.fileno(), offset, size_bytes)
    assert path.read_bytes() == b"abc".ljust(expected, b"\0")
