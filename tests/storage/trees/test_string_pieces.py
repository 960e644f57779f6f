"""Tests of packed strings that are read in pieces, which are decoded side by side."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np
import pytest

from daf_storage import Packing, errors, open_daf
from tests.limits import lower
from tests.support import data_set, edited_bytes


@pytest.mark.parametrize("count", [512, 5_120, 5_100, 4_609])
@pytest.mark.parametrize("chunks_at_a_time", [1, 3, 100])
def test_strings_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, chunks_at_a_time: int
) -> None:
    """They are those that are read at once, each of a piece once, and none that fills a chunk up."""
    lower(monkeypatch, coded_strings=512 * chunks_at_a_time)
    rng = np.random.default_rng(count)
    columns = {
        "few": [f"donor{n}" for n in rng.integers(1, 5, count)],
        "all": [f"é{n}" for n in range(count)],
    }
    daf = open_daf(tmp_path / "x.daf.zarr", "w", packed=True)
    data_set(daf, cell={"name": count, **columns})
    time.sleep(0.15)
    with open_daf(tmp_path / "x.daf.zarr") as reader:
        for name, strings in columns.items():
            pieces = list(reader.open_vector("cell", name).string_batches())
            assert [s for piece in pieces for s in piece.to_pylist()] == strings
            assert len(pieces) == -(-count // (512 * chunks_at_a_time))
            for piece in pieces:
                assert len(piece.dictionary.unique()) == len(piece.dictionary)
                assert set(piece.dictionary.to_pylist()) <= set(strings)


def test_damage_in_pieces_of_strings_is_told(tmp_path: Path) -> None:
    """By the chunk that has it; the pieces before it may have been read."""
    daf = open_daf(tmp_path / "x.daf.zarr", "w", packed=Packing("zstd"))
    data_set(daf, cell={"name": 5_000, "v": [f"v{n}" for n in range(5_000)]})
    (file,) = (path for path in (tmp_path / "x.daf.zarr/vectors/cell/v").rglob("0"))
    with edited_bytes(file) as data:
        start = struct.unpack("<Q", data[16 * 4 : 16 * 4 + 8])[0]
        data[start : start + 8] = bytes(8)
    with open_daf(tmp_path / "x.daf.zarr") as reader:
        stored = reader.open_vector("cell", "v")
        with pytest.raises(errors.CorruptDataError, match=r"v: chunk \[4\] cannot be decompressed"):
            list(stored.string_batches())
