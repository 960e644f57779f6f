"""Tests of the plots of slices: how large they are; what they show is tested with sessions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from matplotlib import pyplot as plt

from daf_query import connect
from daf_storage import MemoryDaf


@pytest.fixture(autouse=True)
def no_figures() -> Iterator[None]:
    """Close the figures of a test."""
    yield
    plt.close("all")


def test_the_size_of_a_heat_map() -> None:
    """Up to 12 rows or columns have the room of 12, and each one more has more."""
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{n:02}" for n in range(20)])
    daf.add_axis("gene", [f"g{n:02}" for n in range(20)])
    daf.set_matrix("cell", "gene", "X", np.ones((20, 20)))
    session = connect(daf)
    found = []
    for count in (3, 12, 13, 14):
        part = session.matrix("cell", "gene", "X", rows=range(count), columns=range(20))
        width, height = part.plot.heatmap().figure.get_size_inches()
        across = session.matrix("cell", "gene", "X", rows=range(20), columns=range(count))
        assert across.plot.heatmap().figure.get_size_inches().tolist() == [height, width]
        found.append(height)
    assert found[0] == found[1] < found[2] < found[3]
