"""Tests of what writers say when the file system refuses: an error of ours, and nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_storage import DafWriter, convert, errors, open_daf
from tests.support import CELLS, contents, fill, filled

CALLS = {
    "x.daf.zarr": ("mkdir", "rename", "replace", "posix_fallocate"),
    "x.daf.zarr.zip": ("pwrite", "ftruncate"),
    "x.daf": ("rename", "replace"),
    "x.h5df": ("pwrite",),
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
        if str(path) not in str(error):
            raise AssertionError(f"{error!r} is not what it should be") from error
        if isinstance(error, errors.StorageFullError) is (number == errno.EIO):
            raise AssertionError(f"{error!r} is of the wrong kind") from error
        raise


def set_again(daf: DafWriter, _: str) -> None:
    """Replace a vector by the same values, where that can be."""
    if not daf.is_append_only:
        daf.set_vector("cell", "age", [30, 60, 90], if_exists="replace")


CHANGES: dict[str, Callable[[DafWriter, str], Any]] = {
    "scalar": lambda daf, new: daf.set_scalar(new, 1),
    "vector": lambda daf, new: daf.set_vector("cell", new, [1, 2, 3]),
    "strings": lambda daf, new: daf.set_vector("cell", new, CELLS),
    "matrix": lambda daf, new: daf.set_matrix("cell", "gene", new, np.ones((3, 4))),
    "again": set_again,
    "axis": lambda daf, new: daf.add_axis(new, ["x", "y"]),
}


@pytest.mark.sampled(14)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize(("name", "call"), [(n, c) for n, calls in CALLS.items() for c in calls])
def test_what_the_system_refuses_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: str, number: int
) -> None:
    """It names the data set and is an ``OSError`` too; what was there reads as before."""
    daf = open_daf(tmp_path / name, "w")
    before = contents(fill(daf))
    for (what, change), skipped in product(CHANGES.items(), (0, 1)):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing(call, number, skipped))
            with suppress(errors.StorageError), reported(tmp_path / name, number):
                change(daf, f"{what}{skipped}")
                with daf.empty_dense_vector("cell", f"{what} {skipped}", "f8") as values:
                    values[:] = 1
                assert skipped, "it did not notice"
        found = contents(open_daf(tmp_path / name))
        for part, values in before.items():
            assert {k: v for k, v in found[part].items() if k in values} == values


def test_the_error_of_a_data_set_that_is_made_names_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the scratch directory in which it is made; it says what to do."""
    filled(tmp_path / "x.daf.zarr").close()
    for suffix in ("daf.zarr", "daf.zarr.zip"):
        with monkeypatch.context() as patch:
            for name in ("posix_fallocate", "pwrite"):
                patch.setattr(os, name, failing(name, errno.ENOSPC, 0))
            with pytest.raises(errors.StorageFullError, match=r"No space left.*; free some") as no:
                convert(tmp_path / "x.daf.zarr", tmp_path / f"y.{suffix}")
        assert str(no.value).startswith(f"{tmp_path}/y.{suffix}: ")
        assert [one.name for one in tmp_path.iterdir()] == ["x.daf.zarr"]


def test_errors_of_the_caller_stay_their_own(tmp_path: Path) -> None:
    """What is raised within a block that fills an array is not taken for the file system's."""
    daf = open_daf(tmp_path / "x.daf.zarr", "w")
    fill(daf)
    with pytest.raises(OSError, match="mine") as caught, daf.empty_dense_vector("cell", "v", "f8"):
        raise OSError(errno.ENOSPC, "mine")
    assert not isinstance(caught.value, errors.DafError)
    assert not daf.has_vector("cell", "v")
