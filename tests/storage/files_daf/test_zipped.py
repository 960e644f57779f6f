"""Tests of packed files that have a ZIP directory alone, damaged in all ways that it can be."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_storage import FilesDaf, Packing, errors, open_daf

N = 1200
_TAIL = 98
_RECORD = 46


def directory_of(data: bytearray) -> tuple[int, int]:
    """Return how long the directory is, and where."""
    size, offset = struct.unpack_from("<2Q", data, len(data) - _TAIL + 40)
    return int(size), int(offset)


def with_numbers(data: bytearray, size: int, offset: int) -> bytearray:
    """Return a file whose end says something else of its directory."""
    struct.pack_into("<2Q", data, len(data) - _TAIL + 40, size, offset)
    return data


def with_short(data: bytearray, place: int, value: int) -> bytearray:
    """Return a file with another number at a place of its directory."""
    struct.pack_into("<H", data, directory_of(data)[1] + place, value)
    return data


DAMAGES: dict[str, tuple[Callable[[bytearray], bytearray], str]] = {
    "nothing": (lambda data: data[:0], "it is too short for a ZIP archive"),
    "start": (lambda data: data[: _TAIL - 1], "it is too short for a ZIP archive"),
    "end": (lambda data: data[:-1], "it does not end as a ZIP archive of chunks does"),
    "far": (
        lambda data: with_numbers(data, directory_of(data)[0], len(data)),
        "the directory of the archive lies outside of it",
    ),
    "long": (
        lambda data: with_numbers(data, len(data), directory_of(data)[1]),
        "the directory of the archive lies outside of it",
    ),
    "short": (
        lambda data: with_numbers(data, _RECORD - 1, directory_of(data)[1]),
        "the directory of the archive is too short",
    ),
    "one record": (
        lambda data: with_numbers(data, _RECORD + 60, directory_of(data)[1]),
        "its directory does not list 2 chunks",
    ),
    "names": (lambda data: with_short(data, 28, 60_000), "its directory does not list 2 chunks"),
    "a name": (
        lambda data: with_short(data, 28, 2),
        "its directory has records of several lengths",
    ),
    "signature": (lambda data: with_short(data, 0, 0), "its directory has records of several"),
    "method": (lambda data: with_short(data, 10, 12), "its chunks have the ZIP method 12 instead"),
}


@pytest.mark.parametrize("codec", ["blosc-zstd", "zstd", "gzip"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_directories(tmp_path: Path, codec: Any, damage: str) -> None:
    """The error names the file, and what is wrong with it."""
    with FilesDaf(tmp_path / "x.daf", "w", packed=Packing(codec, chunk_kb=8)) as daf:
        daf.add_axis("cell", [f"c{n}" for n in range(N)])
        daf.set_vector("cell", "score", np.arange(float(N)))
    folder = tmp_path / "x.daf/vectors/cell"
    document = (folder / "score.json").read_text()
    (folder / "score.json").write_text(document.replace("indexed+zipped", "zipped"))
    with open_daf(tmp_path / "x.daf") as daf:
        assert daf.get_np_vector("cell", "score").tolist() == list(range(N))
    change, message = DAMAGES[damage]
    data = bytearray((folder / "score.zip").read_bytes())
    (folder / "score.zip").write_bytes(change(data))
    with (
        open_daf(tmp_path / "x.daf") as daf,
        pytest.raises(errors.CorruptDataError, match=message) as caught,
    ):
        daf.get_np_vector("cell", "score")
    assert "score.zip" in str(caught.value)
