"""Tests of arrays in memory: the fingerprint of what is computed of several stored ones."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from daf_storage import ZarrDaf
from daf_storage.trees import StoredArray, joined_fingerprints, memory_array


@pytest.fixture
def stored(tmp_path: Path) -> tuple[StoredArray, StoredArray]:
    """Return the arrays of two vectors in files."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w")
    daf.add_axis("cell", ["A", "B"])
    for name in ("age", "score"):
        daf.set_vector("cell", name, [1, 2])
    time.sleep(0.15)  # a file that is younger may change within the same tick of the clock
    nodes = [daf.tree.node(f"vectors/cell/{name}") for name in ("age", "score")]
    arrays = [node.array() for node in nodes if node is not None]
    assert arrays[0] is not None
    assert arrays[1] is not None
    return arrays[0], arrays[1]


def test_a_change_of_any_array_is_one_of_what_is_computed(
    stored: tuple[StoredArray, StoredArray],
) -> None:
    """The numbers of each count, in their order."""
    first, second = (array.fingerprint() for array in stored)
    assert first
    assert second
    assert joined_fingerprints(stored) == [*first, *second]
    assert joined_fingerprints(stored[:1]) == first


def test_what_cannot_be_looked_at_has_no_fingerprint(
    stored: tuple[StoredArray, StoredArray],
) -> None:
    """Nor has anything that is computed of it, or of nothing."""
    unknown = memory_array(np.arange(3))
    assert unknown.fingerprint() is None
    assert joined_fingerprints((stored[0], unknown)) is None
    assert joined_fingerprints(()) is None
