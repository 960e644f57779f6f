"""Values of an AnnData at the edges of what Daf has types for: as it is, or kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_storage import errors, from_anndata, open_daf, to_anndata
from daf_storage.anndata import write_anndata

LABELS = ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "is_matrix"),
    [
        ({"x": [True, False], "y": [1, 2]}, False),  # numpy has no type for both
        ({"x": ["p", "q"]}, False),
        ({"x": pd.array([1, None], dtype="Int64")}, False),
        ({"x": [1.5, 2], "y": [2**60 + 1, 4]}, False),
        ({}, False),
        ({"x": np.array([2**63 + 1, 1], "u8"), "y": np.array([-1, 1], "i8")}, False),
        ({"x": [1.5, np.nan], "y": [1, 2]}, True),
        ({"x": [True, False]}, True),
        ({"x": np.array([1, 2], "i1"), "y": np.array([3, 4], "u2")}, True),
        ({"x": np.array([0.5, 1], "f2")}, True),
    ],
)
def test_frames_of_obsm(columns: dict[str, object], tmp_path: Path, *, is_matrix: bool) -> None:
    """One whose columns have a type in common is a matrix; each comes back as it was."""
    frame = pd.DataFrame(columns, index=LABELS)
    obs = pd.DataFrame(index=LABELS)
    adata = anndata.AnnData(np.ones((2, 1)), obs=obs, obsm={"frame": frame})
    adata.write_h5ad(tmp_path / "x.h5ad")
    for daf in (from_anndata(adata), open_daf(tmp_path / "x.h5ad")):
        assert daf.has_axis("frame") == is_matrix
        pd.testing.assert_frame_equal(to_anndata(daf).obsm["frame"], frame)


@pytest.mark.parametrize("dtype", ["f2", "i1", "u2", "?", "f8"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_array])
def test_arrays_of_obsm_come_back_with_their_type(dtype: str, make: Any) -> None:
    """Half precision is stored as single."""
    values = np.array(
        [[0, 1], [1, 1], [0, 0]], "f4" if dtype == "f2" and make != np.asarray else dtype
    )
    daf = from_anndata(anndata.AnnData(np.ones((3, 1)), obsm={"x": make(values)}))
    restored = to_anndata(daf).obsm["x"]
    assert type(restored) is type(make(values))
    assert restored.dtype == values.dtype
    assert np.asarray(restored.todense() if sp.issparse(restored) else restored).tolist() == (
        values.tolist()
    )


@pytest.mark.parametrize(
    ("value", "is_scalar"),
    [
        *((value, True) for value in (2**63 - 1, -(2**63), True, 0.5, "x", "", float("inf"))),
        *((value, True) for value in (np.int8(3), np.uint64(2**64 - 1), np.float32(0.5))),
        *((value, True) for value in (np.bool_(1), np.str_("x"))),
        *((value, False) for value in (None, b"x", [1], np.zeros(1), np.float16(1))),
    ],
)
def test_scalars_of_uns(value: Any, *, is_scalar: bool) -> None:
    """As they are, up to the ends of 64 bits; of strings of numpy, Python's."""
    daf = from_anndata(anndata.AnnData(np.ones((1, 1)), uns={"value": value}))
    assert daf.has_scalar("value") == is_scalar
    if is_scalar:
        assert daf.get_scalar("value") == value
        assert type(daf.get_scalar("value")) in (bool, int, float, str)


@pytest.mark.parametrize("code", [-2, -1, 128])
def test_codes_at_the_end_of_their_type(code: int, tmp_path: Path) -> None:
    """What is missing stays so, also of more categories than bytes have; others are damage."""
    path = tmp_path / "x.h5ad"
    names = [f"c{number}" for number in range(128)]
    obs = pd.DataFrame({"kind": pd.Categorical(["c1", "c0"], names)}, index=LABELS)
    anndata.AnnData(np.ones((2, 1)), obs=obs).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["obs/kind/codes"]
        file["obs/kind/codes"] = np.array([1, code], np.int16 if code > 127 else np.int8)
    with open_daf(path) as daf:
        if code == -1:
            assert daf.get_np_vector("obs", "kind").tolist() == ["c1", ""]
            return
        with pytest.raises(errors.CorruptDataError, match="a code leaves the range -1 to 127"):
            daf.get_np_vector("obs", "kind")


def test_columns_that_a_file_cannot_hold_are_reported(tmp_path: Path) -> None:
    """Of both frames, in their order; without any, nothing is."""
    labels = [f"c{number}" for number in range(3)]
    dates = pd.period_range("2020", periods=3, freq="Y")
    obs = pd.DataFrame({"n": [1, 2, 3], "year": dates}, index=labels)
    var = pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}, index=["g"])
    report = write_anndata(anndata.AnnData(np.ones((3, 1)), obs, var), tmp_path / "x.h5ad")
    assert [item.what for item in report.items] == ["obs['year']", "var['when']"]
    plain = anndata.AnnData(np.ones((3, 1)), obs[["n"]])
    assert write_anndata(plain, tmp_path / "y.h5ad").items == []
    assert anndata.read_h5ad(tmp_path / "y.h5ad").obs["n"].tolist() == [1, 2, 3]
