"""Tests that no result replaces the data set that it is made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daf_query import DafSession, connect
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


def refused(message: str) -> Any:
    """Expect that a call is refused with a message."""
    return pytest.raises(errors.InvalidInputError, match=message)


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    """Return an h5ad file of its own."""
    path = tmp_path / "pbmc.h5ad"
    shutil.copy(PBMC, path)
    return path


@pytest.mark.parametrize("save", [save_slice, save_profile, save_rows])
def test_the_file_that_is_read_is_not_replaced(atlas: Path, save: Save, tmp_path: Path) -> None:
    """A part of it would be all that is left: its own, by a link, below an overlay, in a view."""
    before = atlas.read_bytes()
    link = tmp_path / "link.h5ad"
    link.symlink_to(atlas)
    with connect(atlas) as db, refused("would be replaced"):
        save(db, atlas)
    with connect(atlas) as db, refused("would be replaced"):
        save(db, link)
    with connect(atlas, overlay=tmp_path / "mine.daf.zarr") as db, refused("would be replaced"):
        save(db, atlas)
    view = {"obs": "n_genes > 1000"}
    with connect(atlas) as db, db.view(view) as part, refused("would be replaced"):
        save(part, atlas)
    assert atlas.read_bytes() == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("save", [save_slice, save_profile, save_rows])
def test_nothing_is_written_into_a_directory_that_is_read(
    atlas: Path, tmp_path: Path, save: Save
) -> None:
    """Such as a slice among the arrays of the AnnData that it is one of."""
    with connect(atlas) as db:
        save_slice(db, tmp_path / "part.zarr")
    with connect(tmp_path / "part.zarr") as db:
        with refused("lies within the data set"):
            save(db, tmp_path / "part.zarr" / "in.h5ad")
        with refused("would be replaced"):  # as a whole
            save_slice(db, tmp_path / "part.zarr")
    assert not (tmp_path / "part.zarr" / "in.h5ad").exists()
