"""Tests of versions: equal in every process for the same data, others after any change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from daf_storage import MemoryDaf, chain_reader, convert, open_daf, view
from daf_storage.data import matrix_version, vectors_version
from tests.support import fill, served


@pytest.fixture
def paths(tiny_path: Path, tmp_path: Path) -> dict[str, Path]:
    """Return the same small data set in each format."""
    folder = tmp_path / "forms"
    folder.mkdir()
    shutil.copytree(tiny_path, folder / "x.daf.zarr")
    convert(tiny_path, folder / "p.daf.zarr", packed=True)
    for name in ("x.daf.zarr.zip", "x.h5df", "x.daf"):
        convert(tiny_path, folder / name)
    return {path.name: path for path in folder.iterdir()}


def versions(path: Path) -> tuple[str | None, str | None]:
    """Return the version of a matrix and of a vector."""
    with open_daf(path) as daf:
        return matrix_version(daf, "cell", "gene", "UMIs"), vectors_version(daf, "cell", ["age"])


def test_another_process_sees_the_same(paths: dict[str, Path]) -> None:
    """Whoever opens a path, and whenever."""
    listed = [str(path) for path in paths.values()]
    code = (
        "import sys; from pathlib import Path; from tests.storage.data.test_versions import versions\n"
        "for path in sys.argv[1:]: print(versions(Path(path)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *listed], capture_output=True, text=True, check=True
    )
    mine = [versions(path) for path in paths.values()]
    assert run.stdout.split("\n")[:-1] == [str(each) for each in mine]
    assert all(None not in each for each in mine)
    assert len(set(mine)) == len(paths)


@pytest.mark.parametrize("form", ["x.daf.zarr", "x.daf.zarr.zip", "x.daf"])
def test_each_property_has_its_own(paths: dict[str, Path], form: str) -> None:
    """Adding a vector changes neither; a matrix, a vector and the axis change what they belong to."""
    path = paths[form]
    before = versions(path)
    with open_daf(path, "r+") as daf:
        daf.set_vector("cell", "cluster", [1, 2, 3])
        others = [vectors_version(daf, "cell", [name]) for name in ("age", "cluster")]
    assert versions(path) == before
    assert len({*before, *others}) == 3
    if form.endswith(".zip"):
        return
    with open_daf(path, "r+") as daf:
        daf.set_vector("cell", "age", [1, 2, 3], if_exists="replace")
    matrix, vector = versions(path)
    assert matrix == before[0]
    assert vector != before[1]
    with open_daf(path, "r+") as daf:
        daf.set_matrix("cell", "gene", "UMIs", np.zeros((3, 4)), if_exists="replace")
    assert versions(path)[0] != before[0]


def test_written_in_place(paths: dict[str, Path]) -> None:
    """A chunk of the same size shows; a copy that kept its times, on any machine, is the same."""
    path = paths["x.daf.zarr"]
    before = versions(path)
    shutil.copytree(path, path.with_name("copy.daf.zarr"))
    assert versions(path.with_name("copy.daf.zarr")) == before
    chunk = path / "vectors/cell/age/0"
    chunk.write_bytes(chunk.read_bytes()[::-1])
    assert versions(path)[0] == before[0]
    assert versions(path)[1] != before[1]


@pytest.mark.parametrize("form", ["x.h5df", "x.daf.zarr.zip"])
def test_a_file_that_was_replaced(paths: dict[str, Path], form: str, tmp_path: Path) -> None:
    """A copy in its place that has its own time is another file."""
    path = paths[form]
    before = versions(path)
    shutil.copy(path, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)
    assert versions(path) != before


def test_an_archive_that_is_written_over(paths: dict[str, Path]) -> None:
    """It is as before, or unknown, when another program adds entries; another archive has another."""
    path, other = paths["x.daf.zarr.zip"], paths["x.daf.zarr"]
    with open_daf(path) as daf:
        before = matrix_version(daf, "cell", "gene", "UMIs")
        code = (
            "import sys; from daf_storage import *; "
            "open_daf(sys.argv[1], 'r+').set_vector('cell', 'more', [1, 2, 3])"
        )
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        assert matrix_version(daf, "cell", "gene", "UMIs") in (before, None)
        with open_daf(other, "r+") as writer:
            writer.set_matrix("cell", "gene", "UMIs", np.ones((3, 4)), if_exists="replace")
        convert(other, other.with_name("other.daf.zarr.zip"))
        path.write_bytes(other.with_name("other.daf.zarr.zip").read_bytes())
        assert matrix_version(daf, "cell", "gene", "UMIs") != before


def test_chains_and_views(paths: dict[str, Path]) -> None:
    """They have those of what they are made of."""
    with open_daf(paths["x.daf.zarr"]) as daf, open_daf(paths["x.h5df"]) as other:
        own = matrix_version(daf, "cell", "gene", "UMIs")
        assert matrix_version(view(daf, {"cell": [0, 2]}), "cell", "gene", "UMIs") == own
        joined = matrix_version(chain_reader([daf, other]), "cell", "gene", "UMIs")
        assert joined not in (own, None)


def test_unknown(tiny_path: Path) -> None:
    """In memory and on a server nothing tells versions apart, so there are none."""
    assert matrix_version(fill(MemoryDaf()), "cell", "gene", "UMIs") is None
    with served(tiny_path) as server, open_daf(server.url) as daf:
        assert vectors_version(daf, "cell", ["age"]) is None
