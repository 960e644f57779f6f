"""Tests that reading maps the chunk files instead of copying them, proved by address."""

from __future__ import annotations

import gc
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from daf_query.scan import number_array
from daf_storage import ZarrDaf, open_daf
from tests.limits import lower
from tests.support import UMIS, data_set, is_mapped, reopen

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")


@pytest.fixture(autouse=True)
def _small_files_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Map files of any size: small ones are read, which takes less time."""
    lower(monkeypatch, small_file_bytes=0)


def test_table_columns_lie_in_the_file(tiny_path: Path) -> None:
    """And so is the column of a table, also where some values are NaN."""
    daf = reopen(tiny_path)
    daf.set_vector("cell", "x", [1.0, np.nan, 3.0])
    column = number_array(daf.get_np_vector("cell", "x"))
    assert column.to_pylist() == [1.0, None, 3.0]
    assert is_mapped(column.buffers()[1].address, tiny_path / "vectors/cell/x/0")


def test_an_archive_of_another_program_is_mapped(tmp_path: Path) -> None:
    """Where an array is stored, and where numbers of its size may lie, as bytes may anywhere."""
    with ZarrDaf(tmp_path / "x.daf.zarr", "w") as daf:
        data_set(daf, cell={"name": ["A", "B"], "n": np.array([1, 2], np.uint8)})
    with zipfile.ZipFile(tmp_path / "x.daf.zarr.zip", "w") as archive:
        for file in (tmp_path / "x.daf.zarr").rglob("*"):
            archive.write(file, file.relative_to(tmp_path / "x.daf.zarr"))
    with open_daf(tmp_path / "x.daf.zarr.zip") as found:
        values = found.get_np_vector("cell", "n")
        assert values.tolist() == [1, 2]
        assert is_mapped(values.ctypes.data, tmp_path / "x.daf.zarr.zip")


def test_mapped_arrays_hold_no_open_files(tiny_path: Path) -> None:
    """A thousand mapped vectors are not a thousand file descriptors."""
    daf = ZarrDaf(tiny_path)
    before = len(os.listdir("/proc/self/fd"))
    held = [daf.get_np_vector("cell", "age") for _ in range(1000)]
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert all(values.tolist() == [30, 60, 90] for values in held)


def test_mapped_data_outlive_reader_and_property(tiny_path: Path) -> None:
    """Arrays stay valid after closing, replacing and deleting."""
    daf = reopen(tiny_path)
    ages, umis = daf.get_np_vector("cell", "age"), daf.get_np_matrix("cell", "gene", "UMIs")
    arrow = daf.get_pa_vector("cell", "age")
    daf.set_vector("cell", "age", [1, 2, 3], if_exists="replace")
    daf.delete_vector("cell", "age")
    daf.delete_axis("gene")
    daf.close()
    del daf
    gc.collect()
    assert ages.tolist() == arrow.to_pylist() == [30, 60, 90]
    assert umis.tolist() == UMIS.tolist()
