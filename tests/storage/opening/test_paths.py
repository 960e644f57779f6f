"""Tests of what may be passed where the path of a data set is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daf_storage import (
    H5df,
    MemoryDaf,
    ZarrDaf,
    complete_daf,
    convert,
    copy_all,
    errors,
    export_h5ad,
    open_daf,
    to_anndata,
)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (None, "None; pass a str or a pathlib.Path, or a mutable mapping"),
        (b"x.daf.zarr", r"b'x.daf.zarr'; decode it with os.fsdecode; pass a str"),
        (5, "5; pass a str"),
        (MemoryDaf(), "an open data set; pass a str"),
        ("x\0.daf.zarr", r"'x\\x00.daf.zarr'; no path has a NUL character"),
    ],
)
@pytest.mark.parametrize("door", [open_daf, ZarrDaf, lambda path: convert(path, "y.daf.zarr")])
def test_what_is_no_path_is_refused(door: Any, path: Any, shown: str) -> None:
    """The message says what it is, and what to pass."""
    with pytest.raises(errors.InvalidInputError, match=f"not the path of a data set: {shown}"):
        door(path)


@pytest.mark.parametrize("door", [open_daf, complete_daf])
@pytest.mark.parametrize("name", ["x" * 5000, "[" * 20_000])
def test_a_name_that_is_too_long_is_refused(door: Any, name: str) -> None:
    """Whether it has a suffix or not."""
    for suffix in ("", ".daf.zarr"):
        with pytest.raises(errors.InvalidInputError, match="name is too long for the file system"):
            door(name + suffix)


@pytest.mark.parametrize("function", [export_h5ad, to_anndata, copy_all])
def test_a_path_where_an_open_data_set_is_asked_for_is_refused(function: Any) -> None:
    """The message has the call that opens it."""
    rest: dict[Any, list[Any]] = {export_h5ad: ["x.h5ad"], copy_all: [MemoryDaf()]}
    for path, remedy in (("x.daf.zarr", r"pass open_daf\('x.daf.zarr'\)"), (None, "open one with")):
        message = f"{function.__name__} takes an open data set, not {path!r}; {remedy}"
        with pytest.raises(errors.InvalidInputError, match=message):
            function(path, *rest.get(function, []))


def test_a_reader_where_one_is_written_to_is_refused(tmp_path: Path) -> None:
    """The message names the mode."""
    open_daf(tmp_path / "x.daf.zarr", "w").close()
    with open_daf(tmp_path / "x.daf.zarr") as opened:
        reader: Any = opened
        for call in (lambda: copy_all(MemoryDaf(), reader),):
            with pytest.raises(errors.ReadOnlyError, match="opened for reading; open it with mode"):
                call()


def test_what_is_neither_a_path_nor_a_handle_of_hdf5_is_refused() -> None:
    """The message names both."""
    wrong: Any
    for wrong in (None, b"x.h5df", {}):
        with pytest.raises(errors.InvalidInputError, match="or an open h5py.File or h5py.Group"):
            H5df(wrong)


def test_a_path_with_another_suffix_at_which_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a slip in the suffix: the message also says what is beside it."""
    monkeypatch.chdir(tmp_path)
    open_daf("pbmc.daf.zarr", "w").close()
    with pytest.raises(
        errors.InvalidInputError, match=r"no such file; beside it are pbmc.daf.zarr"
    ):
        open_daf("pbmc.daf.zar")
    with pytest.raises(errors.InvalidInputError) as caught:
        open_daf("pbmc.daf.zar", "w")
    assert "no such file" not in str(caught.value)
