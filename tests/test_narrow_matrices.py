"""Packed matrices with indices and counts of 16 bits, read in all the ways in which data is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_storage import (
    DafReader,
    MemoryDaf,
    Packing,
    concatenate,
    convert,
    from_anndata,
    open_daf,
    open_overlay,
)
from tests.support import data_set, served

CELLS, GENES = 1500, 30


@pytest.fixture(scope="module")
def counts() -> np.ndarray[Any, Any]:
    """Return counts whose sums leave 16 bits."""
    rng = np.random.default_rng(5)
    dense = rng.integers(1, 65_535, (CELLS, GENES)) * (rng.random((CELLS, GENES)) < 0.1)
    dense[0, 0] = 65_535
    return dense.astype(np.float32)


@pytest.fixture(scope="module")
def narrow(counts: np.ndarray[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a packed data set with 16 bits for each number of its matrix."""
    adata = anndata.AnnData(sp.csr_matrix(counts))
    adata.obs["group"] = np.arange(CELLS) % 7
    path = tmp_path_factory.mktemp("narrow") / "x.daf.zarr"
    with open_daf(path, "w", packed=Packing(chunk_kb=1)) as daf:
        from_anndata(adata, daf, obs_is="cell", var_is="gene", counts_as="uint16")
        kinds = {
            array.info.storage_type.value
            for axes in (("cell", "gene"), ("gene", "cell"))
            for array in daf.open_matrix(*axes, "X").arrays().values()
        }
        assert kinds == {"UInt16"}
    return path


@contextmanager
def opened(how: str, narrow: Path, folder: Path) -> Iterator[DafReader]:
    """Open the data set in some way."""
    if how == "server":
        with served(narrow) as server, open_daf(server.url) as daf:
            yield daf
    elif how == "overlay":
        with open_overlay(open_daf(narrow), folder / "o.daf.zarr", "w+") as daf:
            yield daf
    elif how == "concatenated":
        with open_daf(narrow) as first, MemoryDaf(name="none") as none:
            data_set(none, cell=["other"], gene=first.axis_entries("gene").tolist())
            none.set_matrix("cell", "gene", "X", sp.csc_array((1, GENES), dtype=np.uint16))
            none.set_vector("cell", "group", np.array([99]))
            path = folder / "c.daf.zarr"
            options: Any = {"packed": Packing(chunk_kb=1), "progress": "never"}
            concatenate(path, "cell", [first, none], names=["a", "b"], **options)
        with open_daf(path) as daf:
            yield daf
    else:
        path = folder / how
        packed = how != "x.daf" and Packing("gzip", chunk_kb=1)
        convert(narrow, path, packed=packed, progress="never")
        with open_daf(path) as daf:
            yield daf


@pytest.mark.parametrize(
    "how", ["server", "overlay", "concatenated", "x.daf.zarr.zip", "x.h5df", "x.daf"]
)
def test_narrow_matrices_read_the_same(
    tmp_path: Path, counts: np.ndarray[Any, Any], narrow: Path, how: str
) -> None:
    """Slices, genes in SQL, and statistics of groups, whose sums are wider."""
    with opened(how, narrow, tmp_path) as daf:
        db = connect(daf)
        rows = np.flatnonzero(np.arange(CELLS) % 7 == 3)
        by_cells = db.matrix("cell", "gene", "X", rows='"group" = 3').to_scipy()
        assert by_cells.dtype == np.uint16
        assert np.array_equal(by_cells.toarray(), counts[rows])
        by_genes = db.matrix("cell", "gene", "X", rows='"group" < 99', columns=["7", "0"])
        assert np.array_equal(by_genes.to_numpy(), counts[:, [7, 0]])
        found = db.sql("SELECT sum(X['0']) AS s, max(X['0']) AS m FROM cell").to_pydict()
        assert found == {"s": [int(counts[:, 0].sum(dtype=np.int64))], "m": [65_535]}
        groups = db.profile("cell", "gene", "X", by="group", rows='"group" < 99').to_pandas()
        expected = [counts[np.arange(CELLS) % 7 == n].sum(dtype=np.int64) for n in range(7)]
        assert groups.groupby("group")["sum"].sum().tolist() == expected
