"""Whole vectors of small data sets: strings are decoded many at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daf_query import ScanOptions, connect
from daf_query.table import UnreadableVectorWarning
from daf_storage import ZarrDaf, errors

JOINED = ScanOptions(min_joined_members=2)


def written(folder: Path, suffix: str) -> str:
    """Write data sets of different lengths, one of them without cells; return their pattern."""
    for number, donors in enumerate([["a", ""], [], ["ä", "bcd", ""], ["a"], ["x", "y", "z", ""]]):
        with ZarrDaf(folder / f"run{number}{suffix}", "w") as daf:
            daf.add_axis("cell", [f"c{row}" for row in range(len(donors))])
            daf.set_vector("cell", "donor", np.array(donors, "U3"))
    return str(folder / f"*{suffix}")


def test_what_is_damaged_is_named(tmp_path: Path) -> None:
    """Strings that end in those of the next data set are an error of the first."""
    pattern = written(tmp_path, ".daf.zarr")
    chunk = tmp_path / "run2.daf.zarr" / "vectors" / "cell" / "donor" / "0"
    data = chunk.read_bytes()
    assert data[-4:] == b"\0\0\0\0"
    chunk.write_bytes(data[:-4] + b"\4\0\0\0")  # four bytes more than there are
    with connect(pattern, scan_options=JOINED) as session:
        table = session.table("cell")
        with pytest.raises(errors.CorruptDataError, match="run2"):
            table.to_table(columns=["donor"])
        with pytest.warns(UnreadableVectorWarning, match="run2"):
            assert "donor" not in session.table("cell").schema.names
