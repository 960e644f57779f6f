"""Tests of dense layouts in windows: how large they are, and that they are all of the matrix."""

from __future__ import annotations

import numpy as np
import pytest

from daf_query.matrix import Selection
from daf_query.moments import BlockOptions, GroupedRows, group_moments
from daf_storage import MemoryDaf


@pytest.mark.parametrize(
    ("axes", "most"),
    [(("gene", "cell"), 4 * 256), (("cell", "gene"), 256)],
    ids=["rows", "columns"],
)
def test_windows_hold_as_many_elements_as_a_block(axes: tuple[str, str], most: int) -> None:
    """Four times as many where rows lie together, whose segments are longer for it."""
    values = np.arange(90 * 70, dtype=np.uint8).reshape(90, 70)
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{i}" for i in range(90)])
    daf.add_axis("gene", [f"g{i}" for i in range(70)])
    stored = values if axes == ("cell", "gene") else values.T
    daf.set_matrix(*axes, "X", stored, relayout=False)
    window_bytes: list[int] = []
    moments = group_moments(
        daf,
        ("cell", "gene"),
        "X",
        GroupedRows(np.arange(90), np.zeros(90, np.int32), 1),
        Selection.all(70),
        options=BlockOptions(elements=256, threads=1),
        progress=window_bytes.append,
    )
    assert moments.sum.tolist() == [values.sum(axis=0, dtype=np.int64).tolist()]
    assert sum(window_bytes) == values.size
    assert most // 2 <= max(window_bytes) <= most
