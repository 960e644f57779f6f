"""Tests of MuData in place: which axes there are, what is damaged; files of mudata are in the corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daf_query
from daf_storage import convert, errors, import_h5ad, open_daf, verify
from daf_storage.anndata import recorded_types

CELLS = ["c0", "c1", "c2", "c3"]


def modality(cells: list[str], genes: list[str], seed: int = 1) -> anndata.AnnData:
    """Return an AnnData with a categorical, a matrix and something that Daf has no place for."""
    counts = sp.random(len(cells), len(genes), 0.6, format="csr", random_state=seed)
    kinds = pd.Categorical(["b", "a", "b", "a"][: len(cells)], ["b", "a"], ordered=True)
    adata = anndata.AnnData(counts, pd.DataFrame({"kind": kinds}, index=cells))
    adata.var_names = genes
    adata.uns["nested"] = {"x": 1}
    return adata


def write(
    path: Path,
    modalities: Mapping[str, anndata.AnnData],
    obs: pd.DataFrame,
    maps: Mapping[str, Any] | None = None,
) -> Path:
    """Write what mudata writes; of masks and maps only what is given."""
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "MuData", "axis": 0})
        anndata.io.write_elem(file, "obs", obs)
        names = [name for each in modalities.values() for name in each.var_names]
        anndata.io.write_elem(file, "var", pd.DataFrame(index=names))
        for name, each in modalities.items():
            anndata.io.write_elem(file, f"mod/{name}", each)
        for name, places in (maps or {}).items():
            file[f"obsmap/{name}"] = np.array(places, np.uint32)
            file[f"obsm/{name}"] = np.array(places).reshape(-1, 1) > 0
    return path


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """Return a MuData of which one modality has all cells and another one some, and one more."""
    modalities = {
        "rna": modality(CELLS, ["CD3E", "CD8A"]),
        "prot": modality(["c2", "c0"], ["pCD4"], 2),
    }
    obs = pd.DataFrame({"donor": list("xyxy")}, index=CELLS)
    maps = {"rna": [1, 2, 3, 4], "prot": [2, 0, 1, 0]}
    return write(tmp_path / "x.h5mu", modalities, obs, maps)


def test_axes_that_are_shared_and_others(both: Path) -> None:
    """A modality with all cells is over obs; one with others has an axis, and relations to obs."""
    daf = open_daf(both)
    assert daf.axes_set() == {"obs", "var", "rna.var", "prot.obs", "prot.var"}
    assert daf.vectors_set("obs") == {"donor", "rna:kind", "prot.obs"}
    assert daf.get_pa_vector("obs", "prot.obs").to_pylist() == ["c0", "", "c2", ""]
    assert daf.get_pa_vector("prot.obs", "obs").to_pylist() == ["c2", "c0"]
    related = {(each.axis, each.to_axis) for each in daf.relations()}
    assert {("obs", "prot.obs"), ("prot.obs", "obs"), ("rna.var", "var")} <= related
    assert daf.scalars_set() == {"obs_is", "var_is", "X_is", "anndata_notes"}
    assert "only in exports" not in str(daf.summary().remarks)
    assert open_daf(both, obs_is="cell").has_vector("cell", "rna:kind")


def test_questions_over_modalities(both: Path) -> None:
    """Genes of two modalities in one query, types of categoricals, slices, and a modality alone."""
    db = daf_query.connect(both)
    rna, prot = open_daf(f"{both}#/mod/rna"), open_daf(f"{both}#/mod/prot")
    found = db.sql(
        """SELECT r.name, r."rna.X"['CD3E'] AS x, p."prot.X"['pCD4'] AS y
        FROM obs r JOIN "prot.obs" p ON r.name = p.name ORDER BY r.name"""
    ).to_arrow_table()
    wanted = rna.get_np_matrix("obs", "var", "X").toarray()[[0, 2], 0].tolist()
    assert found["x"].to_pylist() == wanted
    assert (
        found["y"].to_pylist() == prot.get_np_matrix("obs", "var", "X").toarray()[::-1, 0].tolist()
    )
    recorded = recorded_types(open_daf(both), "obs")["rna:kind"]
    assert recorded.categories is not None
    assert (recorded.categories.to_pylist(), recorded.is_ordered) == (["b", "a"], True)
    values = db.matrix("prot.obs", "prot.var", "prot.X", rows="kind = 'b'").to_numpy()
    assert values.tolist() == prot.get_np_matrix("obs", "var", "X").toarray()[:1].tolist()


def test_copies(both: Path, tmp_path: Path) -> None:
    """A MuData is converted, and a modality of it imported; nothing is wrong with either."""
    assert verify(both) == []
    convert(both, tmp_path / "x.daf.zarr", progress="never")
    with open_daf(tmp_path / "x.daf.zarr") as copy, open_daf(both) as daf:
        assert copy.axes_set() == daf.axes_set()
        assert copy.vectors_set("obs") == daf.vectors_set("obs")
        assert copy.has_matrix("prot.obs", "prot.var", "prot.X")
    import_h5ad(f"{both}#/mod/prot", tmp_path / "prot.daf.zarr", progress="never")
    with pytest.raises(errors.FormatError, match="daf convert"):
        import_h5ad(both, tmp_path / "y.daf.zarr")
    with pytest.raises(errors.ReadOnlyError, match="read in place"):
        open_daf(both, "r+")


@pytest.mark.parametrize(("names", "is_shared"), [(CELLS, True), (["c0", "c1", "c3", "c2"], False)])
def test_a_file_without_maps(tmp_path: Path, names: list[str], is_shared: bool) -> None:  # noqa: FBT001 - a case
    """The names of cells are compared."""
    path = write(tmp_path / "x.h5mu", {"rna": modality(names, ["g"])}, pd.DataFrame(index=CELLS))
    assert open_daf(path).has_axis("rna.obs") == (not is_shared)


def test_maps_that_are_wrong(tmp_path: Path) -> None:
    """No value is shown for another cell than that whose it is."""
    modalities = {"rna": modality(["c1", "c0", "c2", "c3"], ["g", "h"])}
    path = write(tmp_path / "x.h5mu", modalities, pd.DataFrame(index=CELLS), {"rna": [1, 2, 3, 4]})
    daf = open_daf(path)
    for read in (
        lambda: daf.get_np_matrix("obs", "var", "rna.X"),
        lambda: daf.get_np_vector("obs", "rna:kind"),
    ):
        with pytest.raises(errors.LabelsError, match="are not those of"):
            read()


def test_modalities_that_are_not_read(both: Path) -> None:
    """A MuData within a MuData, and one that is damaged."""
    with h5py.File(both, "r+") as file:
        file["mod/rna"].attrs["encoding-type"] = "MuData"
    with pytest.raises(errors.UnsupportedDataError, match="its modality 'rna' is no AnnData"):
        open_daf(both)
    with h5py.File(both, "r+") as file:
        file["mod/rna"].attrs["encoding-type"] = "anndata"
        del file["mod/rna/obs"]
    with pytest.raises(errors.CorruptDataError, match="mod/rna"):
        open_daf(both)
