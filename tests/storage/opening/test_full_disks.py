"""Tests that failures of the file system while a data set is changed are `DafError`s."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_storage import DafWriter, convert, errors, open_daf
from tests.support import CELLS, contents, fill

CHANGES: dict[str, Callable[[DafWriter], Any]] = {
    "scalar": lambda daf: daf.set_scalar("new", 1),
    "vector": lambda daf: daf.set_vector("cell", "new", [1, 2, 3]),
    "strings": lambda daf: daf.set_vector("cell", "new", CELLS),
    "matrix": lambda daf: daf.set_matrix("cell", "gene", "new", np.ones((3, 4))),
    "axis": lambda daf: daf.add_axis("batch", ["x", "y"]),
}


CALLED = {"daf.zarr": ["mkdir", "rename", "replace"], "daf.zarr.zip": ["pwrite"]}
"""The calls that each format makes to add a small property."""


@pytest.mark.parametrize("suffix", CALLED)
@pytest.mark.parametrize("change", CHANGES)
def test_every_call_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, change: str
) -> None:
    """The error says which data set, and what to do; what was there stays."""
    path = tmp_path / f"x.{suffix}"
    daf = open_daf(path, "w")
    assert isinstance(daf, DafWriter)
    before = contents(fill(daf))
    failed: list[str] = []
    for name in CALLED[suffix]:

        def fail(*_: Any, name: str = name, **__: Any) -> None:
            failed.append(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            assert _fails(CHANGES[change], daf)
        if name != "replace":  # the consolidated metadata come last, and are mended later
            assert contents(daf) == before
    assert set(failed) == set(CALLED[suffix])


def _fails(change: Callable[[DafWriter], Any], daf: DafWriter) -> bool:
    """Return whether a change fails as it should on a full disk."""
    try:
        change(daf)
    except errors.StorageFullError as error:
        return str(error).startswith(f"{daf.location}: No space left on device; free some")
    return False


def test_the_error_of_a_data_set_that_is_made_names_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the scratch directory in which it is made."""
    source = tmp_path / "x.daf.zarr"
    daf = open_daf(source, "w")
    assert isinstance(daf, DafWriter)
    fill(daf).close()
    for suffix in ("daf.zarr", "daf.zarr.zip"):

        def fail(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            for name in ("posix_fallocate", "pwrite"):
                patch.setattr(os, name, fail)
            with pytest.raises(errors.StorageFullError) as caught:
                convert(source, tmp_path / f"y.{suffix}")
        assert str(caught.value).startswith(f"{tmp_path}/y.{suffix}: No space left on device")
        assert [one.name for one in tmp_path.iterdir()] == ["x.daf.zarr"]
