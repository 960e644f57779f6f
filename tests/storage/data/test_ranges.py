"""Tests of ranges of stored arrays, in every format: the rows that numpy has of the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_storage import DafWriter, MemoryDaf, Packing, convert, copy_all, open_daf
from daf_storage.base import Span

ROWS, COLUMNS = 40, 90
VALUES = np.arange(ROWS * COLUMNS, dtype=np.int32).reshape(ROWS, COLUMNS) * 7 - 1000
STRINGS = [f"{'é' * (n % 3)}{n}" for n in range(ROWS)]
FORMATS = {
    "x.daf.zarr": {},
    "v3.daf.zarr": {"zarr_format": 3},
    "p.daf.zarr": {"packed": Packing(chunk_kb=1)},
    "x.daf.zarr.zip": {},
    "p.daf.zarr.zip": {"packed": Packing(chunk_kb=1)},
    "x.h5df": {},
    "p.h5df": {"packed": Packing("gzip", chunk_kb=1)},
    "memory": {},
}


@pytest.fixture(scope="module")
def filled() -> DafWriter:
    """Return a data set with numbers, strings and a dense matrix."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", [f"c{n}" for n in range(ROWS)])
    daf.add_axis("gene", [f"g{n}" for n in range(COLUMNS)])
    daf.set_vector("gene", "v", np.arange(COLUMNS) * 0.5)
    daf.set_vector("cell", "s", STRINGS)
    daf.set_vector("gene", "b", np.arange(COLUMNS) % 3 == 0)
    daf.set_matrix("cell", "gene", "m", VALUES)
    return daf


@pytest.fixture(params=FORMATS)
def daf(request: pytest.FixtureRequest, filled: DafWriter, tmp_path: Path) -> Any:
    """Return a copy of it in each format."""
    if request.param == "memory":
        copy = MemoryDaf()
        copy_all(filled, copy)
        return copy
    copy_all(filled, start := open_daf(tmp_path / "start.daf.zarr", "w"))  # type: ignore[arg-type]
    start.close()
    options: Any = FORMATS[request.param]
    convert(tmp_path / "start.daf.zarr", tmp_path / request.param, **options)
    return open_daf(tmp_path / request.param)


SPANS = [Span(0, 1), Span(3, 3), Span(5, 39), Span(39, 40), Span(0, 40), Span(2, 6)]


def test_ranges_of_a_matrix(daf: Any) -> None:
    """Whole, by rows as stored, and within a range of the second dimension."""
    array = daf.open_matrix("cell", "gene", "m").dense()
    stored = VALUES.T
    assert array.info.shape == stored.shape
    assert np.array_equal(array.read(), stored)
    for span in (*SPANS, Span(60, 90)):
        assert np.array_equal(array.read_rows(span), stored[span.slice])
    for part, span in zip(array.read_spans(SPANS), SPANS, strict=True):
        assert np.array_equal(part, stored[span.slice])
    for within in (Span(0, 40), Span(7, 8), Span(0, 3), Span(33, 40)):
        parts = array.read_spans(SPANS, within)
        assert len(parts) == len(SPANS)
        for part, span in zip(parts, SPANS, strict=True):
            assert part.dtype == stored.dtype
            assert np.array_equal(part, stored[span.slice, within.slice])
    assert array.read_spans([]) == []


def test_ranges_of_vectors(daf: Any) -> None:
    """Of numbers, Bools and strings."""
    for name, values in (("v", np.arange(COLUMNS) * 0.5), ("b", np.arange(COLUMNS) % 3 == 0)):
        stored = daf.open_vector("gene", name)
        for span in (*SPANS, Span(0, COLUMNS)):
            assert np.array_equal(stored.read(span), values[span.slice])
        (array,) = stored.arrays().values()
        for part, span in zip(array.read_spans(SPANS), SPANS, strict=True):
            assert np.array_equal(part.astype(values.dtype), values[span.slice])
    assert daf.open_vector("cell", "s").read_strings().to_pylist() == STRINGS
    assert daf.get_np_vector("cell", "s").tolist() == STRINGS
