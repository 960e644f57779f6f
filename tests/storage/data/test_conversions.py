"""Tests of labels and defaults in whatever form a caller has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_storage.data._conversions import arrow_strings, default_matrix


@pytest.mark.parametrize(
    "labels",
    [
        ["1", "2"],
        [1, 2],
        np.array([1, 2]),
        np.array(["1", "2"], object),
        ["1", 2],
        iter(["1", "2"]),
        pa.array(["1", "2"]),
        pa.chunked_array([["1"], ["2"]]),
        pa.array(["1", "2"], pa.large_string()),
        pa.array(["1", "2"], pa.string_view()),
    ],
)
def test_labels_become_arrow_strings(labels: Any) -> None:
    """Of numbers, their digits."""
    assert arrow_strings(labels).to_pylist() == ["1", "2"]


def test_defaults_of_a_matrix() -> None:
    """Matrices stay what they are; single values fill, a zero without storing elements."""
    sparse, dense = sp.csr_array(np.eye(2)), np.eye(2)
    assert default_matrix(sparse, shape=(2, 2), what="x") is sparse
    assert default_matrix(dense, shape=(2, 2), what="x") is dense
    filled = default_matrix(0, shape=(2, 3), what="x")
    assert (sp.issparse(filled), filled.nnz, filled.shape) == (True, 0, (2, 3))
    assert default_matrix(5, shape=(2, 3), what="x").tolist() == [[5] * 3] * 2
    listed = default_matrix([["a", "b", "c"], ["d", "e", ""]], shape=(2, 3), what="x")
    assert listed.tolist() == [["a", "b", "c"], ["d", "e", ""]]
    assert default_matrix([[1, 2], [3, 4]], shape=(2, 2), what="x").tolist() == [[1, 2], [3, 4]]
