"""Tests of the types of Zarr arrays as columns: which have one here."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from daf_query.table._zarr_columns import column_field


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
