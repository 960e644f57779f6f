"""Tests of frames beside the entries of an axis: a matrix of numbers says all of them, or none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from daf_storage.anndata_rules._annotations import decode_annotation, encode_annotation
from daf_storage.errors import UnsupportedInputError

LABELS = ["a", "b"]


@pytest.mark.parametrize(
    "columns",
    [
        {"x": [True, False], "y": [1, 2]},  # numpy has no type for both
        {"x": np.array([1, 2], np.longdouble)},
        {"x": ["p", "q"]},
        {"x": pd.array([1, None], dtype="Int64")},
        {"x": np.array([2**63 + 1, 1], "u8"), "y": np.array([-1, 1], "i8")},
        {},
    ],
)
def test_frames_that_no_matrix_says(columns: dict[str, object]) -> None:
    """Of types that have none in common, that Daf has not, or without columns."""
    with pytest.raises(UnsupportedInputError, match="a matrix of numbers does not say all"):
        encode_annotation(pd.DataFrame(columns, index=LABELS))


@pytest.mark.parametrize(
    "columns",
    [
        {"x": [1.5, np.nan], "y": [1, 2]},
        {"x": [True, False]},
        {"x": np.array([1, 2], "i1"), "y": np.array([3, 4], "u2")},
        {"x": np.array([0.5, 1], "f2")},
    ],
)
def test_frames_that_a_matrix_says(columns: dict[str, object]) -> None:
    """They come back with the types of their columns."""
    frame = pd.DataFrame(columns, index=LABELS)
    encoded = encode_annotation(frame)
    found = decode_annotation(
        encoded.matrix, encoded.note, index=frame.index, columns=encoded.labels
    )
    pd.testing.assert_frame_equal(found, frame)


@pytest.mark.parametrize("dtype", ["f2", "i1", "u2", "?", "f8"])
def test_arrays_come_back_with_their_type(dtype: str) -> None:
    """Half precision is stored as single; an array without a recorded type is as it is stored."""
    values = np.array([[0, 1], [1, 1], [0, 0]], dtype)
    encoded = encode_annotation(values)
    restored = decode_annotation(encoded.matrix, encoded.note, index=[], columns=encoded.labels)
    assert restored.dtype == values.dtype
    assert restored.tolist() == values.tolist()
    stored = decode_annotation(encoded.matrix, {"format": "dense"}, index=[], columns=[])
    assert stored.dtype == encoded.matrix.dtype
