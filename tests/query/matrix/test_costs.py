"""Tests of what slices are said to take, and of the layouts that follow from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_query.matrix import _costs as costs
from daf_storage import DafWriter, MemoryDaf
from daf_storage.base import StorageType
from daf_storage.trees import ArrayInfo

N_CELLS, N_GENES = 2000, 200


@pytest.fixture(scope="module")
def daf() -> DafWriter:
    """Return a data set with a matrix in both layouts, of which every tenth element is stored."""
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{i}" for i in range(N_CELLS)])
    daf.add_axis("gene", [f"g{i}" for i in range(N_GENES)])
    is_stored = np.random.default_rng(3).random((N_CELLS, N_GENES)) < 0.1
    daf.set_matrix("cell", "gene", "m", sp.csc_array(is_stored.astype(np.float32)))
    return daf


CHOICES: dict[str, tuple[Any, Any, str]] = {
    "everything, by rows, since columns would be turned": (None, None, "cell"),
    "scattered rows of all columns": (range(0, N_CELLS, 9), None, "cell"),
    "all rows of a few columns": (None, range(0, N_GENES, 40), "gene"),
    "few rows of few columns, by rows": (range(0, N_CELLS, 100), range(0, N_GENES, 40), "cell"),
    "many rows of few columns, by columns": (range(0, N_CELLS, 2), range(0, N_GENES, 40), "gene"),
    "most columns, by rows, though it is more bytes": (range(N_CELLS - 100), range(150), "cell"),
}


@pytest.mark.parametrize("which", CHOICES)
def test_the_layout_that_takes_less_time(daf: DafWriter, which: str) -> None:
    """Is read first; where bytes alone would say otherwise, too."""
    rows, columns, by = CHOICES[which]
    part = connect(daf).matrix("cell", "gene", "m", rows=rows, columns=columns)
    [chosen] = [layout.by for layout in part.explain().layouts if layout.state == "chosen"]
    assert chosen == by


class Stored:
    """An array of which only the metadata is asked for."""

    def __init__(self, chunks: int, *, is_mappable: bool = False) -> None:
        self.info = ArrayInfo((100_000,), StorageType.FLOAT32, (chunks,), is_mappable=is_mappable)


def taken_ns(stored: Stored, starts: list[int], counts: list[int]) -> float:
    """Return what gathering ranges of an array takes, without what each range takes."""
    array: Any = stored
    ranges = np.array(starts), np.array(counts)
    return costs.elements_ns([array], *ranges) - len(starts) * costs.CONSTANTS.range_ns


def test_whole_chunks_and_whole_blocks_count() -> None:
    """Of compressed chunks all that are touched, of a server blocks; of mapped memory elements."""
    one = costs.CONSTANTS
    mapped = Stored(100_000, is_mappable=True)
    assert taken_ns(mapped, [5, 900, 1800], [2, 2, 2]) == pytest.approx(24 * one.copied_byte_ns)
    decoded = taken_ns(Stored(1000), [5, 900, 1800], [2, 2, 2])
    assert decoded == pytest.approx(2 * 4000 * one.decoded_byte_ns)
    fetched = taken_ns(Stored(100_000), [5, 900, 1800], [2, 2, 2])
    assert fetched == pytest.approx(one.fetched_block_bytes * one.fetched_byte_ns)
