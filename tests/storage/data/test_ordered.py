"""Tests of sparse matrices of other programs whose elements may be out of order."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import ZarrDaf, open_daf
from daf_storage.data import StoredMatrix, _ordered, ordered
from daf_storage.errors import CorruptDataError
from daf_storage.stores import is_lasting


def _write(path: Path, indices: list[int]) -> None:
    matrix = sp.csr_matrix((np.ones(3, np.float32), [0, 1, 2], [0, 3]), shape=(1, 4))
    anndata.AnnData(matrix).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["X/indices"][:] = indices


def _dense(path: Path, stored: Any) -> Any:
    """Return the row that a pinned matrix has, through `ordered`."""
    parts = ordered(stored).sparse_parts()
    assert path.exists()
    return parts.rowval.tolist(), np.asarray(parts.nzval).tolist()


def test_elements_out_of_order_are_sorted_and_added_up(tmp_path: Path) -> None:
    """As scipy does it; a row number that leaves its axis is an error."""
    path = tmp_path / "some.h5ad"
    _write(path, [3, 0, 3])
    with open_daf(path) as daf:
        assert _dense(path, daf.open_matrix("var", "obs", "X")) == ([1, 4], [1, 2])
    _write(path, [0, 1, 9])
    with open_daf(path) as daf, pytest.raises(CorruptDataError, match="leaves the range 0 to 3"):
        ordered(daf.open_matrix("var", "obs", "X"))


@pytest.mark.parametrize("is_settled", [False, True])
def test_only_files_whose_next_change_shows_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_settled: bool
) -> None:
    """A file that was written just now may change again without another time."""
    path = tmp_path / "some.h5ad"
    _write(path, [0, 1, 2])
    if is_settled:
        time.sleep(0.15)
    else:
        os.utime(path, (time.time() + 60, time.time() + 60))
    checks: list[str] = []
    check = _ordered._is_in_order

    def counted(stored: StoredMatrix) -> bool:
        checks.append(stored.what)
        return check(stored)

    monkeypatch.setattr(_ordered, "_is_in_order", counted)
    with open_daf(path) as daf:
        stored = daf.open_matrix("var", "obs", "X")
        assert is_lasting(stored.identity) == is_settled
        assert _dense(path, stored) == ([1, 2, 3], [1, 1, 1])
        if not is_settled:  # in place, behind the back of whoever has it open
            offset = _offset_of_indices(path)
            with path.open("r+b") as file:
                file.seek(offset)
                file.write(np.array([3, 0, 3], np.int32).tobytes())
            os.utime(path, (time.time() + 60, time.time() + 60))
        expected = ([1, 2, 3], [1, 1, 1]) if is_settled else ([1, 4], [1, 2])
        assert _dense(path, stored) == expected
    assert len(checks) == (1 if is_settled else 2)


def _offset_of_indices(path: Path) -> int:
    with h5py.File(path) as file:
        dataset = file["X/indices"]
        if dataset.chunks is None:
            return int(dataset.id.get_offset())
        return int(dataset.id.get_chunk_info(0).byte_offset)


def test_a_closed_data_set_says_nothing_of_the_next_one() -> None:
    """What stands for a data set in memory is never that of a later one."""
    identities = []
    for _ in range(20):
        with ZarrDaf({}, "w") as daf:
            daf.add_axis("a", ["x"])
            daf.set_vector("a", "v", [1])
            identities.append(daf.tree.identity("vectors/a/v"))
    assert len(set(identities)) == len(identities)
