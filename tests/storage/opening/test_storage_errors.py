"""Tests of what writers say when the file system refuses: an error of ours, and nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_storage import DafWriter, errors, open_daf
from tests.support import contents, fill

CALLS = {
    "x.daf.zarr": ("mkdir", "rename", "replace", "posix_fallocate"),
    "x.daf.zarr.zip": ("pwrite", "ftruncate"),
}


def failing(name: str, number: int, skipped: int) -> Any:
    """Return a function of `os` that fails after some calls."""
    function = getattr(os, name)
    calls = [0]

    def call(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] > skipped:
            raise OSError(number, os.strerror(number), "somewhere")
        return function(*args, **kwargs)

    return call


@contextmanager
def reported(path: Path, number: int) -> Iterator[None]:
    """Check an error of the file system that leaves the block."""
    try:
        yield
    except errors.StorageError as error:
        if not isinstance(error, OSError) or str(path) not in str(error):
            raise AssertionError(f"{error!r} is not what it should be") from error
        if isinstance(error, errors.StorageFullError) is (number == errno.EIO):
            raise AssertionError(f"{error!r} is of the wrong kind") from error
        raise


@pytest.mark.sampled(14)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize(("name", "call"), [(n, c) for n, calls in CALLS.items() for c in calls])
def test_what_the_system_refuses_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: str, number: int
) -> None:
    """It names the data set and is an ``OSError`` too; what was there reads as before."""
    daf = open_daf(tmp_path / name, "w")
    assert isinstance(daf, DafWriter)
    before = contents(fill(daf))
    for skipped in (0, 1):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing(call, number, skipped))
            with suppress(errors.StorageError), reported(tmp_path / name, number):
                daf.set_vector("cell", "new", np.arange(3.0))
                with daf.empty_dense_vector("cell", "filled", "f8") as values:
                    values[:] = 1
                assert skipped, "it did not notice"
        for vector in ("new", "filled"):
            daf.delete_vector("cell", vector, must_exist=False) if not daf.is_append_only else None
        found = contents(open_daf(tmp_path / name))
        for part, values in before.items():
            assert {k: v for k, v in found[part].items() if k in values} == values


def test_errors_of_the_caller_stay_their_own(tmp_path: Path) -> None:
    """What is raised within a block that fills an array is not taken for the file system's."""
    daf = open_daf(tmp_path / "x.daf.zarr", "w")
    assert isinstance(daf, DafWriter)
    fill(daf)
    with (
        pytest.raises(OSError, match="mine") as caught,
        daf.empty_dense_vector("cell", "v", "f8"),
    ):
        raise OSError(errno.ENOSPC, "mine")
    assert not isinstance(caught.value, errors.DafError)
    assert not daf.has_vector("cell", "v")
