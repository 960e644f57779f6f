"""Tests of opening what is stored in one version of Zarr where another is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from daf_storage import DafWriter, errors, open_daf
from daf_storage.trees import ZarrVersion
from tests.support import fill


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.dafs.zarr.zip#/a"])
@pytest.mark.parametrize("there", [2, 3])
def test_the_version_of_what_is_there(tmp_path: Path, name: str, there: ZarrVersion) -> None:
    """Another one is refused in every mode that keeps it, the same one is opened."""
    path, other = f"{tmp_path}/{name}", 5 - there
    made = open_daf(path, "w+", zarr_format=there)
    assert isinstance(made, DafWriter)
    fill(made).close()
    modes: tuple[Literal["r", "r+", "w+"], ...] = ("r", "r+", "w+")
    for mode in modes:
        with pytest.raises(errors.InvalidInputError, match=f"stored in Zarr v{there}, and zarr_f"):
            open_daf(path, mode, zarr_format=other)  # type: ignore[call-overload]
        with open_daf(path, mode, zarr_format=there) as daf:
            assert daf.axes_set() == {"cell", "gene"}
