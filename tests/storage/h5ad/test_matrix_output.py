"""Tests of matrices that are written into an h5ad file: how far the bar is when all are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import export_h5ad, from_anndata
from daf_storage.h5ad import _export


class _Bar:
    def __init__(self) -> None:
        self.total = self.done = 0

    def add(self, size_bytes: int) -> None:
        self.done += size_bytes


def test_the_bar_ends_where_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dense and sparse matrices of numbers of all lengths."""
    bar = _Bar()

    @contextmanager
    def recorded(_: str, total_bytes: int, **__: Any) -> Iterator[_Bar]:
        bar.total = total_bytes
        yield bar

    values = np.random.default_rng(0).integers(0, 3, (7, 5))
    adata = anndata.AnnData(values.astype(np.float64))
    adata.layers["sparse"] = sp.csr_matrix(values.astype(np.float32))
    adata.layers["small"] = values.astype(np.int16)
    monkeypatch.setattr(_export, "progress_bar", recorded)
    export_h5ad(from_anndata(adata), tmp_path / "x.h5ad")
    n_bytes = 7 * 5 * (8 + 2) + np.count_nonzero(values) * (4 + 4)
    assert (bar.total, bar.done) == (n_bytes, n_bytes)
