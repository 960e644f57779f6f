"""Tests of files that are deleted, replaced or moved while they are open."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest

from daf_storage import errors, open_daf


@pytest.mark.parametrize("suffix", [".h5df", ".daf.zarr.zip"])
@pytest.mark.parametrize("has_successor", [False, True])
def test_nothing_is_written_into_a_file_without_a_name(
    tmp_path: Path,
    suffix: str,
    has_successor: bool,  # noqa: FBT001 - a parameter
) -> None:
    """It was deleted, or replaced, since it was opened for writing: what it gets would be lost."""
    path, other = (tmp_path / f"{name}{suffix}" for name in ("mine", "other"))
    for number, each in enumerate((path, other)):
        with open_daf(each, "w") as daf:
            daf.add_axis("cell", ["A", "B"], vectors={"n": [number, number]})
    with open_daf(path, "r+") as daf:
        if has_successor:
            other.rename(path)
        else:
            path.unlink()
        with pytest.raises(errors.SourceNotFoundError, match="open it again"):
            daf.set_vector("cell", "more", [1, 2])
        assert daf.get_np_vector("cell", "n").tolist() == [0, 0]
        assert daf.vectors_set("cell") == {"n"}
    if has_successor:
        with open_daf(path) as daf:
            assert daf.get_np_vector("cell", "n").tolist() == [1, 1]


def test_a_writer_goes_on_after_its_file_was_moved(tmp_path: Path) -> None:
    """It has another name then, and what is written into it is there."""
    for suffix in (".h5df", ".daf.zarr.zip"):
        path = tmp_path / f"mine{suffix}"
        with open_daf(path, "w") as daf:
            daf.add_axis("cell", ["A", "B"])
            path.rename(tmp_path / f"moved{suffix}")
            daf.set_vector("cell", "more", [1, 2])
        with open_daf(tmp_path / f"moved{suffix}") as moved:
            assert moved.get_np_vector("cell", "more").tolist() == [1, 2]


def test_an_hdf5_file_that_was_deleted_is_still_read(tmp_path: Path) -> None:
    """Through the descriptor that is open, as an archive is; another one may come in its place."""
    path = tmp_path / "mine.h5df"
    with open_daf(path, "w") as daf:
        daf.add_axis("cell", ["A", "B"], vectors={"n": [1, 2], "s": ["x", "y"]})
    modes: tuple[Literal["r", "r+"], ...] = ("r", "r+")
    for mode in modes:
        shutil.copy(path, tmp_path / "copy.h5df")
        with open_daf(tmp_path / "copy.h5df", mode) as daf:
            (tmp_path / "copy.h5df").unlink()
            assert daf.get_pa_vector("cell", "s").to_pylist() == ["x", "y"]
            assert daf.get_np_vector("cell", "n").tolist() == [1, 2]
            with open_daf(tmp_path / "copy.h5df", "w") as other:
                assert other.axes_set() == set()
            assert daf.get_pa_vector("cell", "name").to_pylist() == ["A", "B"]
