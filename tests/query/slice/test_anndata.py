"""Tests of AnnData out of slices: what comes along with X, how large it may be, what is read."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal
from hypothesis import given
from hypothesis import strategies as st

from daf_query import MatrixSlice, connect
from daf_storage import AnnDataWarning, ZarrDaf, errors, from_anndata, to_anndata, view
from tests.limits import lower
from tests.storage.anndata.example import N_OBS, N_VAR, example
from tests.support import CELLS, GENES, UMIS, by_key, create, data_set

PARTS = ("layers", "obsm", "varm", "obsp", "varp")


def whole() -> Any:
    """Return an AnnData with an element of each kind that slices can have, dates among them."""
    adata = example()
    del adata.layers["complex"], adata.obsm["cube"], adata.obsm["words"], adata.var["category"]
    del adata.uns["X_is"], adata.uns["with_gaps_colors"]  # fewer than there are categories
    adata.layers["array"] = sp.csr_array(adata.layers["csc"])
    born = pd.to_datetime(["", *["2020-01-02"] * (N_OBS - 1)])
    adata.obs["born"], adata.obs["seen"] = born, born.tz_localize("UTC")
    return adata


ADATA = whole()
DAF = from_anndata(ADATA)


def assert_same(found: Any, expected: Any) -> None:
    """Compare the parts of a slice with anndata's own subset, dtypes and formats included."""
    assert_equal(found.obs, expected.obs, exact=True)
    assert_equal(found.var, expected.var, exact=True)
    assert_equal(found.X, expected.X, exact=True)
    for part in PARTS:
        mine, theirs = by_key(getattr(found, part)), by_key(getattr(expected, part))
        assert list(mine) == list(theirs), part
        for key in theirs:
            assert_value(mine[key], theirs[key])


def assert_value(found: Any, expected: Any) -> None:
    """Compare two values of a part; NaN equals NaN."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert_equal(found, expected, exact=True)


def subset(adata: Any, rows: Any, columns: Any) -> Any:
    """Return what anndata selects."""
    with warnings.catch_warnings(action="ignore"):
        return adata[rows, columns].copy()


def taken(part: MatrixSlice, **choice: Any) -> Any:
    """Return the slice as an AnnData, without anndata's warnings of names that occur twice."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* names are not unique", UserWarning)
        return part.to_anndata(**choice)


class TestAsAnndataSelects:
    @given(
        rows=st.none() | st.lists(st.integers(0, N_OBS - 1), max_size=15),
        columns=st.lists(st.integers(0, N_VAR - 1), max_size=8),
    )
    def test_any_selection(self, rows: list[int] | None, columns: list[int]) -> None:
        """All, none, any order and repeated entries: every part is as ``adata[rows, columns]``."""
        found = taken(connect(DAF).matrix("obs", "var", "X", rows=rows, columns=columns))
        # anndata itself fails on some repeated entries of a DataFrame in obsm
        of_rows = slice(None) if rows is None else np.array(rows, int)
        expected = subset(ADATA, of_rows, np.array(columns, int))
        assert_same(found, expected)
        found.uns.pop("daf_query", None)
        assert_equal(found.uns, expected.uns)

    def test_raw(self) -> None:
        """X over the axis of raw has the format that raw had, and the annotations of obs."""
        part = connect(DAF).matrix("obs", "var_raw", "X", rows=[3, 1], columns=[8, 0, 2])
        found = taken(part)
        assert_equal(found.X, ADATA.raw.X[[3, 1]][:, [8, 0, 2]], exact=True)
        assert set(found.obsm) == set(ADATA.obsm)
        assert set(found.obsp) == set(ADATA.obsp)
        assert by_key(found.layers) == by_key(found.varm) == by_key(found.varp) == {}

    def test_the_transpose(self) -> None:
        """With var as rows, its annotations are obsm, and nothing is mixed up."""
        found = taken(connect(DAF).matrix("var", "obs", "X", rows=[5, 0], columns=[1, 2, 3]))
        np.testing.assert_array_equal(found.X.toarray(), ADATA.X.toarray()[[1, 2, 3]][:, [5, 0]].T)
        np.testing.assert_array_equal(found.obsm["X_pca"].to_numpy(), ADATA.varm["X_pca"][[5, 0]])
        np.testing.assert_array_equal(
            found.layers["csc"].toarray(), ADATA.layers["csc"].toarray().T[[5, 0]][:, 1:4]
        )
        assert set(found.varp) == {"distances", "columns", "dense"}


class TestChoices:
    @pytest.fixture
    def part(self) -> MatrixSlice:
        """Return a slice of five rows and all columns."""
        return connect(DAF).matrix("obs", "var", "X", rows=range(5))

    def test_some_all_or_none(self, part: MatrixSlice) -> None:
        """A list, a key, True and False."""
        found = part.to_anndata(
            layers=["csc"], obsm=False, varm=True, obsp="dense", varp=(), max_bytes=0
        )
        keys = [[*by_key(getattr(found, name))] for name in PARTS]
        assert keys == [["csc"], [], ["X_pca", "frame"], ["dense"], []]
        assert "obsm=['X_pca', 'category', 'frame', 'sparse', 'sparse_half']" in repr(part)

    def test_what_does_not_fit_is_named(
        self, part: MatrixSlice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The smallest come first; one warning names the others and says how to get them."""
        with pytest.warns(AnnDataWarning) as warned:
            found = part.to_anndata(max_bytes=344, layers=False, varm=False, varp=False)
        assert sorted(found.obsm) == ["category", "frame", "sparse", "sparse_half"]
        assert sorted(found.obsp) == ["columns", "distances"]
        [message] = [str(item.message) for item in warned]
        assert "leaves out obsm['X_pca'] (about 160 bytes), obsp['dense'] (about 200" in message
        assert "max_bytes=344" in message
        assert "(obsm=['X_pca'], on the command line: --obsm X_pca)" in message
        lower(monkeypatch, anndata_bytes=80)
        assert re.search(
            r"; left out for size: layers\['array'\] .*obsp\['dense'\] \(about 200", repr(part)
        )
        named = part.to_anndata(obsm=["frame"], layers=(), varm=(), obsp=(), varp=())
        assert_equal(named.obsm["frame"], ADATA.obsm["frame"].iloc[:5])


def test_matrices_that_cannot_come_along(tmp_path: Path) -> None:
    """Strings and damaged metadata are left out, with a warning each; by name they are an error."""
    daf = data_set(create(tmp_path / "x.daf.zarr"), cell=CELLS, gene=GENES)
    daf.set_matrix("cell", "gene", "UMIs", UMIS)
    daf.set_matrix("cell", "gene", "labels", np.full((3, 4), "x"))
    daf.set_matrix("cell", "cell", "near", np.eye(3))
    (tmp_path / "x.daf.zarr/matrices/cell/cell/near/.zarray").write_text("{")
    part = connect(ZarrDaf(tmp_path / "x.daf.zarr")).matrix("cell", "gene", "UMIs")
    assert repr(part).endswith("X='UMIs'; not possible: layers['labels'], obsp['near']")
    with pytest.warns(AnnDataWarning) as warned:
        found = part.to_anndata()
    assert by_key(found.layers) == by_key(found.obsp) == {}
    ours = [each for each in warned if issubclass(each.category, AnnDataWarning)]
    found = [str(item.message).split(" is left out")[0] for item in ours]
    assert found == ["layers['labels']", "obsp['near']"]
    part.to_anndata(layers=False, obsp=False)
    with pytest.raises(errors.UnsupportedInputError, match="no matrices of strings"):
        part.to_anndata(layers=["labels"])
    with pytest.raises(errors.FormatError, match="near"):
        part.to_anndata(obsp="near")


@pytest.mark.parametrize("copies", [1, 2])
def test_what_is_no_matrix_is_named_and_a_view_has_it(copies: int) -> None:
    """An array of three dimensions is left out with a warning, of a collection too.

    A vector that the view renames is restored as the column was.
    """
    adata = whole()
    adata.obsm["cube"] = example().obsm["cube"]
    dafs = []
    for letter in "ab"[:copies]:
        adata.obs_names = [f"{letter}{n}" for n in range(N_OBS)]
        dafs.append(from_anndata(adata))
    with pytest.warns(AnnDataWarning, match=r"obsm\['cube'\] is left out: .* also of a .*view"):
        connect(dafs).matrix("obs", "var", "X").to_anndata()
    renaming = {("obs", f"{name} too"): name for name in dafs[0].vectors_set("obs")}
    found = to_anndata(view(dafs[0], {"obs": [3, 1]}, renaming))
    np.testing.assert_array_equal(found.obsm["cube"], adata.obsm["cube"][[3, 1]])
    alone = to_anndata(view(dafs[0], {"obs": [3, 1]}, renaming | {("obs", "*"): None} | renaming))
    pd.testing.assert_frame_equal(alone.obs[["ambiguous too"]], found.obs[["ambiguous too"]])
    for name in ("born", "nullable", "maybe", "ambiguous", "category", "float16"):
        pd.testing.assert_series_equal(found.obs[f"{name} too"], found.obs[name], check_names=False)


def test_without_notes_the_columns_are_named() -> None:
    """A matrix that was not imported becomes a DataFrame of the entries of its other axis."""
    daf = data_set(cell=CELLS, gene=GENES, batch=["p", "q"])
    daf.set_matrix("cell", "gene", "UMIs", UMIS)
    daf.set_matrix("cell", "batch", "share", [[1, 2], [3, 4], [5, 6]])
    daf.set_matrix("gene", "batch", "share", sp.csc_array(np.eye(4)[:, :2]))
    found = taken(connect(daf).matrix("cell", "gene", "UMIs", rows=["CATA", "TATA"], columns=[1]))
    assert found.obsm["share"].to_dict() == {
        "p": {"CATA": 5, "TATA": 1},
        "q": {"CATA": 6, "TATA": 2},
    }
    assert found.varm["share"].toarray().tolist() == [[0, 1]]


def test_save_writes_the_same(tmp_path: Path) -> None:
    """With the choices of to_anndata; what a file cannot hold is changed, and said."""
    part = connect(DAF).matrix("obs", "var", "X", rows=[5, 1, 0])
    with (
        pytest.warns(AnnDataWarning, match=r"obs\['seen'\]: an h5ad file has no dates"),
        pytest.warns(AnnDataWarning, match=r"obs\['born'\]: an h5ad file has no dates"),
    ):
        part.save(tmp_path / "x.h5ad", obsp=False)
    found: Any = anndata.read_h5ad(tmp_path / "x.h5ad")
    expected = part.to_anndata(obsp=False)
    assert found.obs["born"].tolist() == ["2020-01-02", "2020-01-02", ""]
    for name in ("born", "seen"):
        del found.obs[name], expected.obs[name]
    found.layers["array"] = sp.csr_array(found.layers["array"])  # files do not know arrays
    assert_same(found, expected)
