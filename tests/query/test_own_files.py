"""Tests that no result replaces the data set that it is made of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from daf_query import DafSession, connect
from daf_query.cli import main
from daf_storage import errors
from tests.support import PBMC

Save = Callable[[DafSession, Path], None]


def save_slice(db: DafSession, path: Path) -> None:
    """Write a few cells of a matrix."""
    db.matrix("obs", "var", "X", rows="phase = 'S'").save(path)


def save_profile(db: DafSession, path: Path) -> None:
    """Write the means of groups."""
    db.profile("obs", "var", "X", by="phase").save(path)


def save_rows(db: DafSession, path: Path) -> None:
    """Write the rows of a query, in a format of their own."""
    db.sql("SELECT name, phase FROM obs").save(path, format="csv")


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    """Return an h5ad file of its own."""
    path = tmp_path / "pbmc.h5ad"
    shutil.copy(PBMC, path)
    return path


@pytest.mark.parametrize("save", [save_slice, save_profile, save_rows])
def test_the_file_that_is_read_is_not_replaced(atlas: Path, save: Save) -> None:
    """A part of an AnnData would be all that is left of it; the error names the file."""
    before = atlas.read_bytes()
    with connect(atlas) as db, pytest.raises(errors.InvalidInputError, match="would be replaced"):
        save(db, atlas)
    assert atlas.read_bytes() == before


@pytest.mark.parametrize("save", [save_slice, save_profile, save_rows])
def test_by_any_path(atlas: Path, save: Save, tmp_path: Path) -> None:
    """By a symbolic link, with other names of the axes, below an overlay, in a view."""
    link = tmp_path / "link.h5ad"
    link.symlink_to(atlas)
    with connect(atlas) as db, pytest.raises(errors.InvalidInputError, match="would be replaced"):
        save(db, link)
    with (
        connect(atlas, overlay=tmp_path / "mine.daf.zarr") as db,
        pytest.raises(errors.InvalidInputError, match="would be replaced"),
    ):
        save(db, atlas)
    with (
        connect(atlas) as db,
        db.view({"obs": "n_genes > 1000"}) as part,
        pytest.raises(errors.InvalidInputError, match="would be replaced"),
    ):
        save(part, atlas)


def test_a_zarr_directory_is_not_replaced(atlas: Path, tmp_path: Path) -> None:
    """An AnnData in Zarr, which a slice would replace as a whole."""
    with connect(atlas) as db:
        save_slice(db, tmp_path / "part.zarr")
    with (
        connect(tmp_path / "part.zarr") as db,
        pytest.raises(errors.InvalidInputError, match="would be replaced"),
    ):
        save_slice(db, tmp_path / "part.zarr")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("save", [save_slice, save_profile, save_rows])
def test_nothing_is_written_into_a_directory_that_is_read(
    atlas: Path, tmp_path: Path, save: Save
) -> None:
    """Such as a slice among the arrays of the AnnData that it is one of."""
    with connect(atlas) as db:
        save_slice(db, tmp_path / "part.zarr")
    with (
        connect(tmp_path / "part.zarr") as db,
        pytest.raises(errors.InvalidInputError, match="lies within the data set"),
    ):
        save(db, tmp_path / "part.zarr" / "in.h5ad")
    assert not (tmp_path / "part.zarr" / "in.h5ad").exists()


def test_the_command_line_says_it_in_a_sentence(
    atlas: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``daf extract`` fails, and the file is as it was."""
    monkeypatch.chdir(atlas.parent)
    before = os.stat(atlas)
    assert main(["extract", "pbmc.h5ad", "--matrix", "X", "-o", "pbmc.h5ad"]) == 1
    assert "name another file" in capsys.readouterr().err
    assert os.stat(atlas).st_ino == before.st_ino


@pytest.mark.parametrize("file_format", ["csv", "table"])
def test_nor_do_the_rows_of_a_query_on_the_command_line(
    atlas: Path, capsys: pytest.CaptureFixture[str], file_format: str
) -> None:
    """``daf sql -o`` with another format than the suffix says, also by a hard link."""
    link = atlas.with_name("other.h5ad")
    link.hardlink_to(atlas)
    before = os.stat(atlas)
    asked = ["sql", str(atlas), "SELECT name FROM obs", "--format", file_format, "-o"]
    for target in (atlas, link):
        assert main([*asked, str(target)]) == 1
        assert "name another file" in capsys.readouterr().err
    assert [os.stat(path).st_ino for path in (atlas, link)] == [before.st_ino] * 2
