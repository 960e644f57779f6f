"""Tests of the first query of a session to a file of AnnData: it looks at what it names, alone."""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_query import connect
from tests import seams
from tests.storage.anndata.example import Form
from tests.support import recorded_calls

N_OBS, N_VAR, N_COLUMNS = 500, 60, 40
WHERE = "type = 'T3' AND score < 0.5"


@pytest.fixture(scope="module")
def wide_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with many columns of categories and of numbers."""
    random = np.random.default_rng(0)
    obs = pd.DataFrame(index=[f"cell_{number}" for number in range(N_OBS)])
    strings = pd.Series([f"T{number}" for number in random.integers(0, 5, N_OBS)], obs.index)
    obs["type"] = strings.astype("category")
    obs["score"] = random.random(N_OBS)
    for number in range(N_COLUMNS):
        obs[f"number_{number}"] = random.random(N_OBS)
        obs[f"kind_{number}"] = strings.astype("category")
    matrix = sp.random(N_OBS, N_VAR, 0.2, "csr", np.float32, rng=random)
    path = tmp_path_factory.mktemp("wide") / "wide.h5ad"
    anndata.AnnData(matrix, obs=obs).write_h5ad(path)
    time.sleep(0.15)  # of a file that is younger, nothing is kept
    return path


def test_a_filter_and_its_slice_look_at_no_other_columns(
    wide_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elements that are opened: those of the columns that are named."""
    opened = [
        recorded_calls(monkeypatch, place, lambda *_, what: what.partition(": ")[2])
        for place in seams.OPEN_BELOW
    ]
    with connect(wide_path) as session:
        found = session.matrix("obs", "var", "X", rows=WHERE).to_scipy()
        [row] = session.sql(f"SELECT count(*) AS n FROM obs WHERE {WHERE}").to_pylist()
    adata = anndata.read_h5ad(wide_path)
    is_kept = ((adata.obs["type"] == "T3") & (adata.obs["score"] < 0.5)).to_numpy()
    matrix: Any = adata.X
    assert abs(found - matrix[is_kept]).sum() == 0
    assert row["n"] == np.count_nonzero(is_kept) > 10
    of_obs = {what for what in chain(*opened) if what.startswith("obs/")}
    assert of_obs <= {
        *("obs/_index", "obs/score", "obs/type", "obs/type/categories", "obs/type/codes"),
        *("obs/_index/values", "obs/_index/mask"),  # as anndata 0.13 writes it
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["h5ad", "zarr3"])
def test_first_queries_answer_as_later_ones_do(paths: dict[Form, Path], form: Form) -> None:
    """Each column by itself, in a session that knows no others, and in one that knows all."""
    with connect(paths[form]) as knowing:
        for name in knowing.table("obs").schema.names:
            with connect(paths[form]) as new:
                for query in (
                    f'SELECT "{name}" FROM obs',
                    f'SELECT "{name}", count(*) AS n FROM obs GROUP BY "{name}" ORDER BY 1',
                ):
                    found, wanted = new.sql(query), knowing.sql(query)
                    assert found.schema == wanted.schema
                    assert repr(found.to_pydict()) == repr(wanted.to_pydict())  # NaN, too
