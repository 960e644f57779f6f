"""Many strings that are read from the bytes of a file, compared with what HDF5 reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_storage import errors
from daf_storage.trees import Hdf5File, Hdf5Tree
from tests import seams
from tests.suites.examples import array_of
from tests.support import edited_bytes, recorded_calls

LAYOUTS: dict[str, dict[str, Any]] = {
    "in one piece": {},
    "chunked": {"chunks": (7,)},
    "compressed": {"chunks": (5,), "compression": "gzip", "shuffle": True},
    "one chunk": {"chunks": (64,)},
    "with the last version of HDF5": {"chunks": (3,), "file": {"libver": "latest"}},
    "that cannot grow": {"chunks": (1,), "maxshape": None},
    "compressed by lzf": {"chunks": (4,), "compression": "lzf"},  # HDF5 reads these
}


@pytest.fixture
def by_h5py(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Count the ranges of strings that HDF5 reads."""
    return recorded_calls(monkeypatch, seams.HDF5_ARRAY_OBJECTS, lambda _, pick: pick)


def written(path: Path, strings: Any, **options: Any) -> Path:
    """Write a file with a dataset of strings."""
    options = dict(options)
    with h5py.File(path, "w", **options.pop("file", {})) as file:
        values = np.array(strings, dtype=object)
        if "chunks" in options:
            options.setdefault("maxshape", (None,))  # chunks may then be larger than the data
        file.create_dataset("names", data=values, dtype=h5py.string_dtype(), **options)
    return path


def read(path: Path) -> list[str]:
    """Return the strings of the dataset."""
    with h5py.File(path) as file:
        array = array_of(Hdf5Tree(Hdf5File(file, location=str(path))), "names")
        strings = array.read_strings()
        strings.validate(full=True)
        found: list[str] = strings.to_pylist()
        assert array.read().reshape(-1).tolist() == found
        return found


def expected(path: Path) -> list[str]:
    """Return the strings that h5py reads, in C order."""
    with h5py.File(path) as file:
        found: list[str] = np.asarray(file["names"].asstr()[()], object).reshape(-1).tolist()
        return found


STRINGS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["", "AAAC-1", "x" * 5000]),
    min_size=1,
    max_size=60,
)


@given(STRINGS, st.sampled_from([*LAYOUTS]))
def test_the_strings_are_those_of_hdf5(
    tmp_path_factory: pytest.TempPathFactory, strings: list[str], layout: str
) -> None:
    """Of any length, in any layout."""
    path = written(tmp_path_factory.mktemp("many") / "x.h5", strings, **LAYOUTS[layout])
    assert read(path) == strings == expected(path)


def unusual(path: Path, kind: str) -> None:
    """Write strings that HDF5 has to read itself."""
    with h5py.File(path, "w") as file:
        if kind == "several dimensions":
            values = np.array([[f"{m}.{n}" for n in range(4)] for m in range(6)], dtype=object)
            file.create_dataset("names", data=values, dtype=h5py.string_dtype(), chunks=(3, 2))
        elif kind == "chunks that are not there":
            names = file.create_dataset("names", (20,), h5py.string_dtype(), chunks=(4,))
            names[4:8] = ["a", "b", "c", "d"]
        elif kind == "a NUL character":
            names = file.create_dataset("names", (2,), h5py.string_dtype())
            names[:] = [b"ab", b"xyz"]
            offset = names.id.get_offset()
        elif kind == "of one length":
            file["names"] = np.array([b"ab", b"c"])
    if kind == "a NUL character":
        with edited_bytes(path) as data:
            heap = int.from_bytes(data[offset + 4 : offset + 12], "little")
            data[data.index(b"ab", heap) + 1] = 0


@pytest.mark.parametrize(
    "kind", ["several dimensions", "chunks that are not there", "a NUL character", "of one length"]
)
def test_hdf5_reads_what_is_unusual(tmp_path: Path, by_h5py: list[Any], kind: str) -> None:
    """What does not lie in order, or ends before its length, is as HDF5 has it."""
    path = tmp_path / "x.h5"
    unusual(path, kind)
    assert read(path) == expected(path)
    assert by_h5py


def test_strings_that_hdf5_has_not_written_yet(tmp_path: Path) -> None:
    """Of a file that this process writes through h5py, they are in memory."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["names"] = ["a", "bc"]
        array = array_of(Hdf5Tree(Hdf5File(file, location="x.h5")), "names")
        assert array.read_strings().to_pylist() == ["a", "bc"]


def test_what_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    """The message names the dataset."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("names", data=[b"ab", b"\xff\xfe"], dtype=h5py.string_dtype())
    with pytest.raises(errors.CorruptDataError, match=r"names.*not UTF-8"):
        read(path)
