"""The elements of a sparse matrix of cells and genes, out of a seeded generator, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK_CELLS = 1_000


@dataclass(frozen=True)
class Scale:
    """How much data."""

    cells: int
    """Number of cells."""
    genes: int
    """Number of genes."""
    per_cell: int
    """Non-zeros per cell."""
    repeats: int = 5
    """Repetitions of what is fast."""

    @property
    def name(self) -> str:
        """What the folder of the data is called."""
        return f"{self.cells}x{self.genes}x{self.per_cell}"


def blocks(scale: Scale, random: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Yield the genes and values of some cells after the other.

    A few genes are in nearly all cells, most are in few.  The values are quarters, so that sums of
    them are exact.
    """
    share = np.exp(-np.arange(scale.genes) / (0.06 * scale.genes))
    share = np.minimum(share / share.sum() * 0.7 * scale.per_cell, 0.9)
    share += (scale.per_cell - share.sum()) / scale.genes
    bounds = np.cumsum(share)
    bounds[-1] = scale.per_cell
    order = random.permutation(scale.genes).astype(np.int32)
    for start in range(0, scale.cells, BLOCK_CELLS):
        height = min(BLOCK_CELLS, scale.cells - start)
        # One gene out of each unit of the cumulated shares: none is chosen twice.
        points = np.arange(scale.per_cell) + random.random((height, 1))
        indices = order[np.searchsorted(bounds, points, side="right")]
        indices.sort(axis=1)
        yield indices.ravel(), (1 + random.geometric(0.3, indices.size)).astype(np.float32) / 4
