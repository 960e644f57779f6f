"""Tests of the options that say how data sets are packed."""

from __future__ import annotations

from pathlib import Path

import pytest

from daf_query.cli import main
from daf_storage import open_daf
from tests.support import create


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Return the paths of a small data set, and of one that is not there."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("cell", ["A", "B"])
    daf.add_axis("gene", ["g"])
    for name in ("UMIs", "spliced"):
        daf.set_matrix("cell", "gene", name, [[1], [300]])
    return [str(tmp_path / "x.daf.zarr"), str(tmp_path / "y.daf.zarr")]


@pytest.mark.parametrize(
    ("options", "is_packed"),
    [
        ([], False),
        (["--packed"], True),
        (["--codec", "gzip"], True),
        (["--level", "3"], True),
        (["--chunk-kb", "128"], True),
    ],
)
def test_each_option_of_packing_packs(
    paths: list[str], options: list[str], *, is_packed: bool
) -> None:
    """The codec, its level and the chunks say by themselves that the copy is to be packed."""
    assert main(["convert", *paths, *options, "--quiet"]) == 0
    assert (Path(paths[1]) / "zarr.json").exists() == is_packed


def test_types_of_counts(paths: list[str]) -> None:
    """A type alone is of the main matrix; several have names."""
    named = ["--counts-as", "spliced=uint32", "--counts-as", "UMIs=uint16"]
    assert main(["convert", *paths, *named, "--quiet"]) == 0
    with open_daf(paths[1]) as daf:
        types = [daf.get_np_matrix("cell", "gene", name).dtype for name in ("UMIs", "spliced")]
        assert types == ["uint16", "uint32"]
