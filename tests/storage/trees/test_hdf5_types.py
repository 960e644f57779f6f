"""Tests of how types and attributes of HDF5 are read without h5py's objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from daf_storage import open_daf
from daf_storage.trees._hdf5_types import known_type, scalar_attribute

h5py = pytest.importorskip("h5py")


def _odd_integer() -> object:
    """Return an integer of 4 bytes of which 20 bits count."""
    odd = h5py.h5t.STD_I32LE.copy()
    odd.set_precision(20)
    return odd


def test_numbers_and_strings_of_attributes_are_those_of_h5py(tmp_path: Path) -> None:
    """Those whose dtype says all of how they are stored; for others h5py is to be asked."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        attributes = file.attrs
        attributes["bool"] = True
        attributes["float"] = np.float32(1.5)
        attributes["big"] = np.array(7, ">i4")
        attributes["string"] = "a"
        attributes["bytes"] = np.bytes_("a")
        attributes["list"] = [1, 2]
        attributes["none"] = h5py.Empty("f4")
        attributes["half"] = np.float16(2)
        attributes.create("enum", 1, dtype=h5py.enum_dtype({"RED": 0, "BLUE": 1}, "i1"))
        space = h5py.h5s.create(h5py.h5s.SCALAR)
        for name, stored in ((b"bits", h5py.h5t.STD_B8LE), (b"odd", _odd_integer())):
            h5py.h5a.create(file.id, name, stored, space)
        for name in attributes:
            attribute = h5py.h5a.open(file.id, name.encode())
            value = scalar_attribute(attribute, attribute.get_type(), "x")
            expected = attributes[name]
            if name in ("bool", "float", "big", "enum", "string"):
                assert value == expected
                assert type(value) is type(expected)
            else:
                assert value is None, name


def test_types_are_what_h5py_makes_of_them(tmp_path: Path) -> None:
    """Also those that were seen before, and of another file; only native ones are mapped."""
    expected = {"<i4": True, ">i4": True, "f8": True, "f2": False, "?": True, "S3": False}
    for number in range(2):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            for dtype, is_expected in expected.items():
                dataset = file.create_dataset(dtype, data=np.zeros(2, dtype))
                assert known_type(dataset.id.get_type()).dtype == dataset.dtype
                assert known_type(dataset.id.get_type()).is_native is is_expected, dtype
            space = h5py.h5s.create_simple((2,))
            odd = h5py.Dataset(h5py.h5d.create(file.id, b"odd", _odd_integer(), space))
            assert not known_type(odd.id.get_type()).is_native


_READ = """
import sys
from daf_storage import open_daf
with open_daf(sys.argv[1]) as daf:
    assert daf.get_np_vector("cell", "plain").tolist() == [1, 2, 3]
    assert "hdf5plugin" not in sys.modules
    assert daf.get_np_vector("cell", "packed").tolist() == [4, 5, 6]
"""


def test_filters_of_other_packages_are_loaded_when_they_are_needed(tmp_path: Path) -> None:
    """By a process that never imported the package, and not for a file without them."""
    hdf5plugin = pytest.importorskip("hdf5plugin")
    path = tmp_path / "x.h5df"
    with open_daf(path, "w") as daf:
        daf.add_axis("cell", ["a", "b", "c"])
        daf.set_vector("cell", "plain", [1, 2, 3])
        daf.set_vector("cell", "packed", [4, 5, 6])
    with h5py.File(path, "r+") as file:
        del file["vectors/cell/packed"]
        file.create_dataset(
            "vectors/cell/packed", data=np.array([4, 5, 6]), chunks=(3,), **hdf5plugin.LZ4()
        )
    done = subprocess.run(
        [sys.executable, "-c", _READ, path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
