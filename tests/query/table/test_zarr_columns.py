"""Tests of the types of Zarr arrays as columns: which have one here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr
from zarr.core.dtype import VariableLengthBytes

from daf_query.scan import Rows, ScanOptions
from daf_query.table._zarr_columns import ZarrColumn, column_field
from daf_storage.base import DecodedCache, Span


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("M8[s]", pa.timestamp("s")),
        ("M8[ns]", pa.timestamp("ns")),
        ("M8[25s]", None),
        ("M8[D]", None),
        ("M8[10D]", None),
        (">i4", pa.int32()),
        ("?", pa.bool_()),
        ("f2", pa.float16()),
        ("c8", None),
        ("c16", None),
        ("U3", pa.string_view()),
        ("S3", pa.binary_view()),
        ([("a", "i4")], None),
        ("m8[s]", None),
    ],
)
@pytest.mark.parametrize("version", [2, 3])
def test_types_of_columns(dtype: object, expected: pa.DataType | None, version: int) -> None:
    """Times of whole units, numbers of up to 64 bits, strings and bytes; nothing else."""
    numpy_type = np.dtype(dtype)  # type: ignore[call-overload]
    metadata = SimpleNamespace(zarr_format=version, dtype=numpy_type, data_type=numpy_type)
    found = column_field("x", SimpleNamespace(dtype=numpy_type, metadata=metadata))
    assert (None if found is None else found.type) == expected
    assert found is None or found.name == "x"


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("object", [b"\xff\x00", b"", b"abc"], pa.array([b"\xff\x00", b"", b"abc"])),
        ("object", [b"\xff"], pa.array([b"\xff"])),
        ("object", ["é", "", "abc"], pa.array(["é", "", "abc"])),
        ("U3", ["é", "", "abc"], pa.array(["é", "", "abc"])),
        ("V2", [b"\xff\x00", b"ab"], pa.array([b"\xff\x00", b"ab"])),
        (">i4", [1, 1 << 20], np.array([1, 1 << 20], "i4")),
        ("M8[ms]", [1, 2], np.array([1, 2], "M8[ms]")),
    ],
)
def test_values_to_compare_with(dtype: str, values: list[object], expected: object) -> None:
    """Numbers in this machine's order of bytes; strings and bytes of any width as those of Arrow."""
    stored = np.array(values, dtype)
    column = ZarrColumn(stored, pa.field("x", pa.string()), "x")
    for span in (Span(0, len(values)), Span(0, 1)):
        found = column.read(span)
        if isinstance(expected, np.ndarray):
            assert isinstance(found, np.ndarray)
            assert found.dtype == expected.dtype
            assert found.dtype.isnative
            assert found.tolist() == expected[: span.stop].tolist()
        else:
            assert isinstance(expected, pa.Array)
            assert isinstance(found, pa.Array)
            assert found.equals(expected[: span.stop])
    nothing = column.read(Span(0, 0))
    assert isinstance(nothing, np.ndarray | pa.Array)
    assert nothing.tolist() == []


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("store", ["memory", "directory"])
def test_bytes_of_single_rows(store: str, tmp_path: Path) -> None:
    """Bytes that are no text are read from wherever they are, also where each row is a chunk."""
    where: Any = {} if store == "memory" else tmp_path
    kind: Any = VariableLengthBytes()
    values = [b"\xff\x01", b"", b"\xfe"]
    array = zarr.create_array(where, shape=(3,), dtype=kind, chunks=(1,))
    array[:] = np.array([*values, None], object)[:3]
    field = column_field("x", array)
    assert field is not None
    opened = ZarrColumn(array, field, "x").open(DecodedCache(), ScanOptions())
    assert opened.to_arrow(Rows(Span(0, 3))).to_pylist() == values
    for number, value in enumerate(values):
        assert opened.to_arrow(Rows(Span(number, number + 1))).to_pylist() == [value]
    some = Rows(Span(0, 3), np.array([0, 2]))
    assert opened.to_arrow(some).to_pylist() == [values[0], values[2]]
