"""Example data sets with the axes and properties of those that the reference implementation ships.

The names of axes and properties, their types and their sizes are the same, so that its tutorials
can be followed; the values are made up, and the same each time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from daf_storage.combined import chain_writer
from daf_storage.data import DafWriter
from daf_storage.opening import MemoryDaf

_CELLS: Final = 856
_GENES: Final = 683
_DONORS: Final = 95
_EXPERIMENTS: Final = 23
_TYPES: Final = ("memory-B", "MEBEMP-E", "MEBEMP-L", "MPP")
_COLORS: Final = ("steelblue", "#eebb6e", "plum", "gold")
_TYPE_OF_METACELL: Final = (3, 3, 2, 1, 3, 1, 0)


def example_cells_daf(*, name: str = "cells!") -> DafWriter:
    """Return 856 cells of 95 donors with the counts of 683 genes, in memory.

    Examples
    --------
    >>> daf = example_cells_daf()
    >>> daf.axis_length("cell"), daf.get_np_matrix("cell", "gene", "UMIs").dtype
    (856, dtype('uint8'))
    """
    rng = np.random.default_rng(1)
    donors = _numbered("N", _DONORS, first=16)
    experiments = _numbered("experiment-", _EXPERIMENTS)
    donor_of_cell = rng.integers(0, _DONORS, _CELLS)
    daf = MemoryDaf(name=name)
    daf.set_scalar("organism", "human")
    daf.set_scalar("reference", "test")
    daf.add_axis("cell", _numbered("cell-", _CELLS))
    daf.add_axis("donor", donors)
    daf.add_axis("experiment", experiments)
    daf.add_axis("gene", _numbered("gene-", _GENES))
    daf.set_vector("cell", "donor", donors[donor_of_cell])
    daf.set_vector("cell", "experiment", experiments[donor_of_cell % _EXPERIMENTS])
    daf.set_vector("donor", "age", rng.integers(20, 90, _DONORS, dtype=np.uint32))
    daf.set_vector("donor", "sex", rng.choice(["female", "male"], _DONORS))
    daf.set_vector("gene", "is_lateral", rng.random(_GENES) < 0.64)
    daf.set_matrix("cell", "gene", "UMIs", _counts())
    return daf


def example_metacells_daf(*, name: str = "metacells!") -> DafWriter:
    """Return the metacells of the cells of `example_cells_daf`, and their types, in memory.

    Examples
    --------
    >>> example_metacells_daf().get_np_vector("metacell", "type").tolist()[:3]
    ['MPP', 'MPP', 'MEBEMP-L']
    """
    rng = np.random.default_rng(2)
    of_cell, counts = _metacell_of_cell(), _counts()
    sums = np.array([counts[of_cell == n].sum(axis=0) for n in range(len(_TYPE_OF_METACELL))])
    weights = rng.random((len(sums), len(sums)), dtype=np.float32)
    metacells = _numbered("M", len(sums))
    daf = MemoryDaf(name=name)
    daf.add_axis("cell", _numbered("cell-", _CELLS))
    daf.add_axis("gene", _numbered("gene-", _GENES))
    daf.add_axis("metacell", metacells)
    daf.add_axis("type", _TYPES)
    daf.set_vector("cell", "metacell", metacells[of_cell])
    daf.set_vector("gene", "is_marker", rng.random(_GENES) < 0.95)
    daf.set_vector("metacell", "type", [_TYPES[n] for n in _TYPE_OF_METACELL])
    daf.set_vector("type", "color", _COLORS)
    fractions = (sums / sums.sum(axis=1, keepdims=True)).astype(np.float32)
    daf.set_matrix("gene", "metacell", "fraction", np.asfortranarray(fractions.T), relayout=False)
    daf.set_matrix("metacell", "metacell", "edge_weight", np.asfortranarray(weights))
    return daf


def example_chain_daf(*, name: str = "chain!") -> DafWriter:
    """Return both as one data set, of which the metacells are written to.

    Examples
    --------
    >>> sorted(example_chain_daf().vectors_set("gene"))
    ['is_lateral', 'is_marker']
    """
    return chain_writer([example_cells_daf(), example_metacells_daf()], name=name)


def _numbered(prefix: str, count: int, *, first: int = 1) -> npt.NDArray[np.object_]:
    """Return names with a number each."""
    return np.array([f"{prefix}{n}" for n in range(first, first + count)], dtype=object)


def _metacell_of_cell() -> npt.NDArray[np.intp]:
    """Return the position of the metacell of each cell."""
    return np.random.default_rng(3).integers(0, len(_TYPE_OF_METACELL), _CELLS)


def _counts() -> npt.NDArray[np.uint8]:
    """Return counts of UMIs, by cell and gene, which differ between the types."""
    rng = np.random.default_rng(4)
    means = rng.gamma(0.5, 3, (len(_TYPES), _GENES))
    type_of_cell = np.array(_TYPE_OF_METACELL)[_metacell_of_cell()]
    return np.asfortranarray(np.minimum(rng.poisson(means[type_of_cell]), 255), dtype=np.uint8)
