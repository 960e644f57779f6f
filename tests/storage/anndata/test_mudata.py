"""Tests of MuData in place: which axes there are, what is damaged; files of mudata are in the corpus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anndata
import anndata.tests.helpers
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daf_query
from daf_query.cli import main
from daf_storage import (
    AnnDataWarning,
    MemoryDaf,
    convert,
    errors,
    export_h5mu,
    import_h5ad,
    open_daf,
    verify,
    view,
)
from daf_storage.anndata import recorded_types
from tests.support import contents, data_set, dense, there

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mudata.md"
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
            anndata.io.write_elem(file.require_group("mod"), name, each)
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
    assert "rna: uns" not in str(daf.summary().remarks)
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
    renamed = view(open_daf(both), {"obs": None, "cell": "obs"}, {("cell", "kind"): "rna:kind"})
    assert recorded_types(renamed, "cell")["kind"] == recorded
    values = db.matrix("prot.obs", "prot.var", "prot.X", rows="kind = 'b'").to_numpy()
    assert values.tolist() == prot.get_np_matrix("obs", "var", "X").toarray()[:1].tolist()


def test_the_queries_of_its_page(tmp_path: Path) -> None:
    """The first where all modalities have the same cells, the second where they differ."""
    rna = anndata.AnnData(np.array([[1.0], [0.0], [2.0]]))
    rna.obs["leiden"] = pd.Categorical(["n", "t", "t"])
    prot = anndata.AnnData(np.array([[5.0], [6.0], [0.0]]))
    rna.var_names, prot.var_names = ["CD3E"], ["pCD4"]
    first, second = re.findall("```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for cells, of_prot, query, expected in (
        (list("abc"), list("abc"), first, [("a", "n")]),
        (list("abc"), list("bcd"), second, [("b", 0.0, 5.0), ("c", 2.0, 6.0)]),
    ):
        rna.obs_names, prot.obs_names = cells, of_prot
        obs = pd.DataFrame(index=sorted({*cells, *of_prot}))
        path = write(tmp_path / f"{len(obs)}.h5mu", {"rna": rna, "prot": prot}, obs)
        rows = daf_query.connect(path).sql(query).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == expected


def test_copies(both: Path, tmp_path: Path) -> None:
    """A MuData is converted, and a modality of it imported; nothing is wrong with either."""
    assert verify(both) == []
    convert(both, tmp_path / "x.daf.zarr", progress="never")
    with open_daf(tmp_path / "x.daf.zarr") as copy, open_daf(both) as daf:
        parts = ("axes", "vectors", "matrices")
        assert [contents(copy)[part] for part in parts] == [contents(daf)[part] for part in parts]
    import_h5ad(f"{both}#/mod/prot", tmp_path / "prot.daf.zarr", progress="never")
    with pytest.raises(errors.FormatError, match="daf convert"):
        import_h5ad(both, tmp_path / "y.daf.zarr")
    with pytest.raises(errors.ReadOnlyError, match="read in place"):
        open_daf(both, "r+")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Return a MuData with something of everything, of which a gene is in two modalities."""
    rna, prot = modality(CELLS, ["CD3E", "CD4"]), modality(["c2", "c0"], ["CD4"], 2)
    rna.uns["kind_colors"], rna.uns["n"] = ["#00ff00", "#ff0000"], 3
    rna.obs["maybe"] = pd.array([1, None, 3, 4], "Int16")
    rna.layers["counts"] = rna.X.astype(np.int8).tocsc()
    rna.obsm["X_pca"] = np.arange(8, dtype="f4").reshape(4, 2)
    rna.obsm["frame"] = pd.DataFrame({"text": list("abcd"), "x": 1}, index=CELLS)
    rna.raw = rna.copy()
    prot.obsp["near"] = sp.csr_matrix(np.eye(2))
    obs = pd.DataFrame({"donor": pd.Categorical(list("xyxy")), "rna:kind": "old"}, index=CELLS)
    maps = {"rna": [1, 2, 3, 4], "prot": [2, 0, 1, 0]}
    path = write(tmp_path / "x.h5mu", {"rna": rna, "prot": prot}, obs, maps)
    with h5py.File(path, "r+") as file:
        file["varmap/rna"] = np.array([1, 2, 0], np.uint32)
        file["varmap/prot"] = np.array([0, 0, 1], np.uint32)
        anndata.io.write_elem(file["obsm"], "X_mofa", np.ones((4, 1)))
        anndata.io.write_elem(file, "uns", {"title": "both", "more": {"n": [1, 2]}})
        file["mod"].attrs["mod-order"] = ["prot", "rna"]
    return path


def _described(file: Any) -> dict[str, str]:
    """Return what anndata reads of each group and dataset with an encoding, without its place."""
    found = {}
    for name in ("obs", "var", "uns", "obsm", "obsp", "obsmap", "varmap"):
        for key, value in anndata.io.read_elem(file[name]).items() if name in file else ():
            values = dense(value)
            dtype = getattr(value, "dtype", type(value))
            found[f"{name}/{key}"] = f"{type(value).__name__} {dtype!r} {np.array(values).tolist()}"
    return found


@pytest.mark.filterwarnings("ignore::daf_storage.AnnDataWarning", "ignore:.*Element")
@pytest.mark.parametrize("is_copied", [False, True])
def test_export(whole: Path, tmp_path: Path, *, is_copied: bool) -> None:
    """All modalities and what is global come back as they were, from the file itself or a copy."""
    source = whole
    if is_copied:
        source = tmp_path / "x.daf.zarr"
        convert(whole, source, progress="never")
        kinds = there(recorded_types(open_daf(source), "obs")["rna:kind"].categories)
        assert kinds.to_pylist() == ["b", "a"]
        assert verify(source, progress="never") == []
    report = export_h5mu(open_daf(source), tmp_path / "back.h5mu", strict=True, progress="never")
    assert report.items == []
    with h5py.File(whole) as file, h5py.File(tmp_path / "back.h5mu") as back:
        assert back.attrs["axis"] == 0
        assert list(back["mod"].attrs["mod-order"]) == ["prot", "rna"]
        wanted, found = _described(file), _described(back)
        assert "'old'" in wanted.pop("obs/rna:kind")
        assert "'b', 'a'" in found.pop("obs/rna:kind")
        for name in ("prot", "rna"):
            assert found.pop(f"varm/{name}", None) is None
            mask = wanted.pop(f"obsm/{name}").replace("[True]", "True").replace("[False]", "False")
            assert found.pop(f"obsm/{name}") == mask
            maps = [f"obsmap/{name}", f"varmap/{name}"]
            assert [found.pop(each) for each in maps] == [wanted.pop(each) for each in maps]
            anndata.tests.helpers.assert_equal(
                *(anndata.io.read_elem(each[f"mod/{name}"]) for each in (file, back)), exact=True
            )
        assert found == wanted


@pytest.mark.filterwarnings("ignore:.*are not unique")
def test_a_gene_of_two_modalities(whole: Path) -> None:
    """The names of the whole and those of a modality lead to the same gene."""
    daf = open_daf(whole)
    assert daf.axis_entries("var").tolist() == ["CD3E", "CD4", "CD4-1"]
    assert daf.get_pa_vector("var", "prot.var").to_pylist() == ["", "", "CD4"]
    assert daf.get_pa_vector("prot.var", "var").to_pylist() == ["CD4-1"]
    assert daf.get_pa_vector("rna.var", "var").to_pylist() == ["CD3E", "CD4"]


def test_export_of_what_was_no_mudata(tmp_path: Path) -> None:
    """Modalities are found by names; what a MuData has no place for is named, or refused."""
    cells = {"name": ["a", "b"], "donor": ["x", "y"], "rna:kind": ["k", "l"]}
    axes: Any = {"rna.var": ["h", "g"], "prot.cell": ["b"], "prot.obs": ["b"], "prot.var": ["p"]}
    counts = [[1, 2], [3, 4]]
    matrices = {("cell", "rna.var", "rna.X"): counts, ("prot.obs", "prot.var", "prot.X"): [[5]]}
    daf = data_set(cell=cells, var=["g", "h", "p"], matrices=matrices, **axes)
    daf.set_scalar("obs_is", "cell")
    path = tmp_path / "made.h5mu"
    assert export_h5mu(daf, path).items == []
    assert path.read_bytes().startswith(b"MuData (")
    back = open_daf(path)
    assert back.axis_entries("cell").tolist() == ["a", "b"]
    assert back.get_np_matrix("cell", "rna.var", "rna.X").tolist() == [[1, 2], [3, 4]]
    assert back.get_pa_vector("cell", "prot.obs").to_pylist() == ["", "b"]
    assert back.get_pa_vector("cell", "rna:kind").to_pylist() == ["k", "l"]
    with h5py.File(path) as file:
        assert file["varmap/rna"][()].tolist() == [2, 1, 0]
    daf.set_matrix("cell", "var", "extra", np.eye(2, 3))
    with pytest.raises(
        errors.UnsupportedInputError, match=r"layers\['extra'\].*no matrices beside"
    ):
        export_h5mu(daf, path, strict=True, if_exists="replace")
    assert main(["export", str(path), str(tmp_path / "again.h5mu"), "--quiet"]) == 0
    assert open_daf(tmp_path / "again.h5mu").vectors_set("cell") == back.vectors_set("cell")
    assert main(["export", str(path), str(tmp_path / "no.h5mu"), "--obs-is", "cell"]) == 1
    with pytest.raises(errors.UnsupportedInputError, match="it has no modality"):
        export_h5mu(MemoryDaf(), path, if_exists="replace")


def test_a_modality_whose_name_begins_with_another(tmp_path: Path) -> None:
    """What belongs to the longer one is none of the shorter one's, and nothing is lost."""
    parts = {"a": modality(CELLS, ["g"]), "a.b": modality(CELLS, ["h"])}
    parts["a.b"].obsp["near"] = np.eye(4)
    parts["a.b"].obs["obs"] = parts["a"].var["var"] = 7
    source, path = write(tmp_path / "x.h5mu", parts, pd.DataFrame(index=CELLS)), tmp_path / "y.h5mu"
    assert export_h5mu(open_daf(source), path, strict=True).items == []
    for name in parts:
        found, wanted = (open_daf(f"{each}#/mod/{name}") for each in (path, source))
        assert contents(found) == contents(wanted)


@pytest.mark.parametrize(("names", "is_shared"), [(CELLS, True), (["c0", "c1", "c3", "c2"], False)])
def test_a_file_without_maps(tmp_path: Path, names: list[str], is_shared: bool) -> None:  # noqa: FBT001 - a case
    """The names of cells are compared."""
    path = write(tmp_path / "x.h5mu", {"rna": modality(names, ["g"])}, pd.DataFrame(index=CELLS))
    assert open_daf(path).has_axis("rna.obs") == (not is_shared)


def test_a_file_of_the_first_muon(both: Path, tmp_path: Path) -> None:
    """Neither the root nor the modalities are marked, and there are no maps."""
    with open_daf(both) as daf:
        wanted = contents(daf)
        del wanted["vectors"]["obs", "prot.obs"]  # which is made of a map
    with h5py.File(both, "r+") as file:
        for group in (file, *file["mod"].values()):
            group.attrs.clear()
        del file["obsmap"]
    with open_daf(both) as daf:
        assert contents(daf) == wanted
        export_h5mu(daf, tmp_path / "back.h5mu", strict=True)
    assert contents(open_daf(tmp_path / "back.h5mu"))["matrices"] == wanted["matrices"]


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
    """A MuData within a MuData, and one that is damaged; what else is damaged takes itself only."""
    with h5py.File(both, "r+") as file:
        del file["mod/rna/raw"]
        file.copy("mod/rna/var", file.create_group("mod/rna/raw"))
        del file["mod/rna/raw/var/_index"]
    with pytest.warns(AnnDataWarning, match="raw is not shown: .*mod/rna: the index"):
        found = verify(both, progress="never")
    assert ("error", "rna: raw") in {(finding.level, finding.path) for finding in found}
    with h5py.File(both, "r+") as file:
        file["mod/rna"].attrs["encoding-type"] = "MuData"
    with pytest.raises(errors.UnsupportedDataError, match="its modality 'rna' is no AnnData"):
        open_daf(both)
    with h5py.File(both, "r+") as file:
        file["mod/rna"].attrs["encoding-type"] = "anndata"
        del file["mod/rna/obs"]
    with pytest.raises(errors.CorruptDataError, match="mod/rna"):
        open_daf(both)
