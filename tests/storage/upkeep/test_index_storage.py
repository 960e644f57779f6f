"""Tests of what indexes are stored with: the numbers by which other releases know them again."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest

from daf_storage.upkeep import IndexPlace, IndexStorage
from tests.support import data_set, there


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        (np.arange(3, dtype=np.int32), np.arange(3, dtype="<i4").tobytes()),
        (np.zeros(3, bool), bytes(3)),
    ],
)
def test_the_contents_have_the_size_and_checksum_of_their_bytes_and_type(
    values: np.ndarray, stored: bytes
) -> None:
    """As the format says; with others, the indexes of all data sets would be stale."""
    daf = data_set(cell={"name": ["a", "b", "c"], "x": values})
    indexes = IndexStorage(daf)
    place = IndexPlace("cell", "points", ("x", "x"))
    kinds = 2 * [daf.vector_info("cell", "x").storage_type.value]
    contents = (2 * len(stored), crc32(repr(kinds).encode(), crc32(2 * stored)))
    assert indexes.source(place).contents == contents
    indexes.store(indexes.source(place), {"rtree": np.zeros(3, np.uint8)})
    node = daf.tree.index_tree.node(place.path)
    fingerprint = there(None if node is None else node.array("fingerprint"))
    assert fingerprint.read()[2:4].tolist() == list(contents)
