"""Types of the modes as mypy sees them; running the tests checks the same at run time.

``assert_type`` fails in mypy, which checks the tests as strictly as the packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import pytest

from daf_storage import DafReader, DafWriter, H5df, OpenMode, ZarrDaf, open_daf


def test_open_daf_is_a_writer_by_its_mode(tmp_path: Path) -> None:
    """Without a mode and with "r" it is a reader, with the others a writer."""
    path = tmp_path / "x.daf.zarr"
    with assert_type(open_daf(path, "w"), DafWriter) as daf:
        daf.add_axis("cell", ["a", "b"])
    with assert_type(open_daf(path, "w+"), DafWriter) as daf:
        daf.set_vector("cell", "age", [1, 2])
    with assert_type(open_daf(path, mode="r+"), DafWriter) as daf:
        daf.set_vector("cell", "age", [1, 2], if_exists="replace")
    assert_type(open_daf(path), DafReader).close()
    assert_type(open_daf(path, "r"), DafReader).close()


def test_a_reader_cannot_be_written_to(tmp_path: Path) -> None:
    """The type checker says so before the program does."""
    path = tmp_path / "x.daf.zarr"
    open_daf(path, "w").close()
    with open_daf(path) as reader, pytest.raises(AttributeError, match="set_scalar"):
        reader.set_scalar("a", 1)  # type: ignore[attr-defined]  # that is what is tested


def test_a_mode_that_is_a_variable_is_a_reader(tmp_path: Path) -> None:
    """Nothing more is known."""

    def opened(mode: OpenMode) -> DafReader:
        return assert_type(open_daf(tmp_path / "x.daf.zarr", mode), DafReader)

    with opened("w") as daf:
        assert isinstance(daf, DafWriter)


@pytest.mark.parametrize("mapping", [{}])
def test_the_constructors_have_modes_too(tmp_path: Path, mapping: dict[str, Any]) -> None:
    """`ZarrDaf` and `H5df`, of paths and of mappings."""
    assert_type(ZarrDaf(mapping, "w"), DafWriter).close()
    assert_type(ZarrDaf(mapping), DafReader).close()
    pytest.importorskip("h5py")
    assert_type(H5df(tmp_path / "x.h5df", "w"), DafWriter).close()
    assert_type(H5df(tmp_path / "x.h5df"), DafReader).close()
