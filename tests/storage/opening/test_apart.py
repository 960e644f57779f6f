"""Tests that nothing is written into the directory of what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from daf_storage import concatenate, convert, errors, export_h5ad, open_daf
from tests.support import filled

Write = Callable[[Path, Path], object]


@pytest.fixture(params=["x.daf.zarr", "x.daf"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a directory with a data set."""
    path: Path = tmp_path / request.param
    filled(tmp_path / "first.daf.zarr")
    convert(tmp_path / "first.daf.zarr", path)
    return path


def exported(source: Path, target: Path) -> None:
    """Export a data set with its own axes."""
    with open_daf(source) as daf:
        export_h5ad(daf, target, obs_is="cell", var_is="gene", X_is="UMIs")


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", ["y.daf.zarr", "vectors/y.daf.zarr.zip", "y.h5df", "y.daf"])
@pytest.mark.parametrize("write", [convert, lambda one, to: concatenate(to, "cell", [one])])
def test_no_data_set_is_written_into_its_source(source: Path, write: Write, name: str) -> None:
    """By whichever path and format; nothing is left there."""
    (source / "vectors").mkdir(exist_ok=True)
    before = sorted(source.rglob("*"))
    link = source.parent / "link"
    link.symlink_to(source)
    for target in (source / name, link / name, source / ".." / source.name / name):
        with pytest.raises(errors.InvalidInputError, match="lies within the data set"):
            write(source, target)
    assert sorted(source.rglob("*")) == before


def test_no_export_is_written_into_its_source(source: Path) -> None:
    """The error names the data set, and what to do."""
    with pytest.raises(errors.InvalidInputError, match="is for its own files; name a path beside"):
        exported(source, source / "x.h5ad")
    assert not (source / "x.h5ad").exists()


def test_beside_it_all_is_as_ever(source: Path) -> None:
    """Also where a name begins with that of the source."""
    for suffix in ("", "2"):
        target = source.parent / f"{source.name}{suffix}.copy.daf.zarr"
        convert(source, target)
        assert open_daf(target).axes_set() == open_daf(source).axes_set()
