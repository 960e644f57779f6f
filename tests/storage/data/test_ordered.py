"""Tests of sparse matrices of other programs whose elements may be out of order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import open_daf
from daf_storage.data import ordered
from daf_storage.errors import CorruptDataError


def _write(path: Path, indices: list[int]) -> None:
    matrix = sp.csr_matrix((np.ones(3, np.float32), [0, 1, 2], [0, 3]), shape=(1, 4))
    anndata.AnnData(matrix).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["X/indices"][:] = indices


def _dense(path: Path, stored: Any) -> Any:
    """Return the row that a pinned matrix has, through `ordered`."""
    arrays = ordered(stored).arrays()
    assert path.exists()
    return arrays["rowval"].read().tolist(), arrays["nzval"].read().tolist()


def test_elements_out_of_order_are_sorted_and_added_up(tmp_path: Path) -> None:
    """As scipy does it; a row number that leaves its axis is an error."""
    path = tmp_path / "some.h5ad"
    _write(path, [3, 0, 3])
    with open_daf(path) as daf:
        assert _dense(path, daf.open_matrix("var", "obs", "X")) == ([1, 4], [1, 2])
    _write(path, [0, 1, 9])
    with open_daf(path) as daf, pytest.raises(CorruptDataError, match="leaves the range 0 to 3"):
        ordered(daf.open_matrix("var", "obs", "X"))
