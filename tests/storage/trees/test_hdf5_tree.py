"""Tests of what is remembered of an HDF5 file that is open for reading."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from daf_storage import errors
from daf_storage.trees import Hdf5File, Hdf5Tree
from tests.storage.trees.test_hdf5_chunks import settle
from tests.support import there


def opened(path: Path) -> Hdf5Tree:
    """Open a file so that it is opened again when another program writes into it."""
    status = path.stat()
    return Hdf5Tree(
        Hdf5File(
            h5py.File(path, "r"),
            location="x.h5",
            inode=(status.st_dev, status.st_ino),
            reopen=lambda: h5py.File(path, "r"),
        )
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with a vector of strings, and a version."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["group/a"] = ["a", "bc"]
        file["group"].attrs["version"] = "1"
    settle(path)
    return path


def test_a_file_that_is_damaged_for_a_while(path: Path) -> None:
    """It is read again as soon as it is whole, and as it is then; one that was removed is read as it was."""
    tree = opened(path)
    content = path.read_bytes()
    node = there(tree.node("group"))
    for version in ("2", "3"):
        path.write_bytes(content[: len(content) // 2])
        for _ in range(2):
            with pytest.raises(OSError, match="truncated|signature"):
                tree.node("group")
        path.write_bytes(content)
        with h5py.File(path, "r+") as file:
            file.create_group(f"group/{version}")
            file["group"].attrs["version"] = version
        assert tree.children("group") == {"a": "array", version: "group"}
        assert node.attribute("version") == version
    path.write_bytes(content[:99])
    with pytest.raises(OSError, match="truncated|signature"):
        tree.node("group")
    path.unlink()
    path.write_bytes(content)
    (path.parent / "other").write_bytes(content)
    (path.parent / "other").replace(path)
    with pytest.raises(errors.InvalidInputError, match="is another one now; open it again"):
        tree.node("group")
    tree = opened(path)
    path.unlink()
    assert tree.children("group") == {"a": "array"}
    with (
        pytest.raises(errors.CorruptDataError, match="nothing is missing"),
        tree.element("nothing"),
    ):
        pass
