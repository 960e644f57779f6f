"""Tests of slices of axes that change: names and vectors of other entries are never put on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_query import MatrixSlice, connect
from daf_storage import errors, open_daf
from tests.support import data_set

CHANGED = "axes 'cell' and 'gene' was replaced or reordered .* make it again"


USES: dict[str, Callable[[MatrixSlice, Path], Any]] = {
    "rows": lambda part, _: part.rows,
    "pandas": lambda part, _: part.to_pandas(),
    "arrow": lambda part, _: part.to_arrow(),
    "anndata": lambda part, _: part.to_anndata(),
    "h5ad": lambda part, folder: part.save(folder / "x.h5ad"),
    "h5ad in blocks": lambda part, folder: part.save(folder / "x.h5ad", block_bytes=1),
    "csv in blocks": lambda part, folder: part.save(folder / "x.csv", block_bytes=1),
}


@pytest.mark.sampled(13)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("suffix", [".daf.zarr", ".h5df"])
def test_a_reordered_axis(tmp_path: Path, suffix: str, use: str, *, is_read: bool) -> None:
    """Its entries have other positions, so that a slice of before is refused, also in blocks."""
    daf = data_set(open_daf(tmp_path / f"d{suffix}", "w+"), cell=["a", "b", "c"], gene=["x", "y"])
    daf.set_matrix("cell", "gene", "m", np.arange(6).reshape(3, 2))
    part = connect(daf).matrix("cell", "gene", "m", rows=["c", "a"])
    if is_read and "blocks" not in use:
        part.load()
    daf.reorder_axis("gene", [1, 0])
    with pytest.raises(errors.InvalidInputError, match=CHANGED):
        USES[use](part, tmp_path)
    assert not list(tmp_path.glob("x.*"))
    part = connect(daf).matrix("cell", "gene", "m", columns=["x"])
    assert part.to_numpy().tolist() == [[0], [2], [4]]
    daf.delete_matrix("cell", "gene", "m")
    with pytest.raises(errors.InvalidInputError, match=CHANGED):
        USES["rows"](part, tmp_path)


def test_values_are_those_of_before(tmp_path: Path) -> None:
    """Values without names are read when their matrix was replaced and the session closed."""
    daf = data_set(open_daf(tmp_path / "d.daf.zarr", "w"), cell=["a", "b"], gene=["x", "y"])
    daf.set_matrix("cell", "gene", "m", np.arange(4).reshape(2, 2))
    with connect(tmp_path / "d.daf.zarr") as session:
        part = session.matrix("cell", "gene", "m")
    daf.set_matrix("cell", "gene", "m", np.zeros((2, 2)), if_exists="replace")
    assert part.to_numpy().tolist() == [[0, 1], [2, 3]]
    assert [each.to_numpy().tolist() for each in part.blocks(rows=1)] == [[[0, 1]], [[2, 3]]]
