"""An AnnData that is read in place answers as the data set that an import makes of it."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any, Literal

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal, gen_typed_df

from daf_storage import (
    DafReader,
    MemoryDaf,
    errors,
    export_h5ad,
    from_anndata,
    import_h5ad,
    open_daf,
    to_anndata,
    verify,
    view,
)
from daf_storage.anndata import AnnDataTree
from daf_storage.sidecars import SidecarTree
from tests.storage.anndata.example import FORMS, Form, write
from tests.support import dense, every


@pytest.fixture(scope="module")
def imported(paths: dict[Form, Path]) -> DafReader:
    """Import the example."""
    daf = MemoryDaf()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_h5ad(paths["h5ad"], daf, progress="never")
    return daf


def assert_same_matrices(attached: DafReader, imported: DafReader) -> None:
    """Compare all matrices."""
    axes = sorted(imported.axes_set())
    for rows, columns in [(rows, columns) for rows in axes for columns in axes]:
        names = imported.matrices_set(rows, columns)
        assert attached.matrices_set(rows, columns) == names, (rows, columns)
        for name in names:
            ours = attached.get_np_matrix(rows, columns, name)
            theirs = imported.get_np_matrix(rows, columns, name)
            assert ours.dtype == theirs.dtype, (rows, columns, name)
            assert sp.issparse(ours) == sp.issparse(theirs), (rows, columns, name)
            np.testing.assert_array_equal(dense(ours), dense(theirs))


def assert_same(attached: DafReader, imported: DafReader) -> None:
    """Compare everything but the notes."""
    assert attached.axes_set() == imported.axes_set()
    assert attached.scalars_set() == imported.scalars_set()
    for name in imported.scalars_set() - {"anndata_notes"}:
        assert attached.get_scalar(name) == imported.get_scalar(name)
        assert attached.scalar_type(name) is imported.scalar_type(name)
    for axis in imported.axes_set():
        assert attached.axis_length(axis) == imported.axis_length(axis)
        assert attached.axis_entries(axis).tolist() == imported.axis_entries(axis).tolist()
        assert attached.vectors_set(axis) == imported.vectors_set(axis)
        for name in imported.vectors_set(axis):
            ours, theirs = (daf.vector_info(axis, name) for daf in (attached, imported))
            assert ours.storage_type is theirs.storage_type, name
            assert ours.entries_of == theirs.entries_of, name
            values = imported.get_np_vector(axis, name)
            np.testing.assert_array_equal(attached.get_np_vector(axis, name), values)
            if ours.empty_is_missing != theirs.empty_is_missing:  # then nothing is missing
                assert "" not in values
    assert_same_matrices(attached, imported)


def assert_same_notes(attached: DafReader, imported: DafReader) -> None:
    """Compare what is noted for exports, but for the order of what was in uns."""
    ours, theirs = (json.loads(daf.get_scalar("anndata_notes")) for daf in (attached, imported))
    for notes in (ours, theirs):
        notes["uns"] = sorted(map(json.dumps, notes["uns"]))
    assert ours == theirs


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore")
def test_all_properties_are_those_of_an_import(
    form: Form, paths: dict[Form, Path], imported: DafReader, tmp_path: Path
) -> None:
    """Axes, vectors, matrices and scalars are the same, and so is what becomes of it again."""
    report = import_h5ad(paths[form], tmp_path / "x.daf.zarr", progress="never")
    assert {item.kind for item in report.items} == {"renamed", "kept"}
    with open_daf(tmp_path / "x.daf.zarr") as daf:
        assert_same(daf, imported)
        assert daf.has_matrix("obs", "var", "dense", relayout=False)
        assert_equal(to_anndata(daf), to_anndata(imported))
    with open_daf(paths[form]) as attached:
        assert isinstance(attached.tree, SidecarTree)
        assert_same(attached, imported)
        assert_same_notes(attached, imported)
        ours, theirs = to_anndata(attached), to_anndata(imported)
    assert_equal(ours, theirs)
    assert set(ours.uns) == set(theirs.uns)
    assert "complex" in ours.layers
    assert "complex" in ours.obs


def random_anndata(random: np.random.Generator) -> Any:
    """Return an AnnData with columns of all types, and a matrix of each kind in every part."""
    lengths = n_obs, n_var = tuple(random.integers(1, 30, 2).tolist())
    obs, var = (pd.Index([f"{c}{i}" for i in range(n)]) for c, n in zip("cg", lengths, strict=True))
    kinds = {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "array": sp.csr_array, "np": np.asarray}

    def matrices(*shape: int) -> dict[str, Any]:
        values = random.random(shape) * (random.random(shape) < 0.4)
        return {
            name: make(values.astype(random.choice(["f4", "f8", "i8"])))
            for name, make in kinds.items()
        }

    with_frames = [
        {**matrices(n, 3), "frame": gen_typed_df(n, x), "cube": random.random((n, 2, 2))}
        for n, x in ((n_obs, obs), (n_var, var))
    ]
    return anndata.AnnData(
        X=matrices(*lengths)[random.choice(list(kinds))],
        obs=gen_typed_df(n_obs, obs),
        var=gen_typed_df(n_var, var),
        layers={**matrices(*lengths), "complex": random.random(lengths) * 1j},
        obsm=with_frames[0],
        varm=with_frames[1],
        obsp=matrices(n_obs, n_obs),
        varp=matrices(n_var, n_var),
        uns={"frame": gen_typed_df(4), "deep": {"n": 1, "values": random.random((2, 3, 4))}},
    )


@pytest.mark.parametrize("seed", range(0, 20, every(10)))
def test_random_anndatas_are_what_anndata_reads(seed: int, tmp_path: Path) -> None:
    """In place, imported, and from memory: the same parts, as anndata has them; also some rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = random_anndata(random := np.random.default_rng(seed))
        with anndata.settings.override(allow_write_nullable_strings=True):
            adata.write_h5ad(tmp_path / "x.h5ad")
        expected = anndata.read_h5ad(tmp_path / "x.h5ad")
        import_h5ad(tmp_path / "x.h5ad", daf := MemoryDaf(), progress="never", strict=True)
        with open_daf(tmp_path / "x.h5ad") as attached:
            assert_same(attached, daf)
            found = [to_anndata(attached), to_anndata(daf), to_anndata(from_anndata(expected))]
            rows, columns = (random.permutation(n)[: n // 2] for n in expected.shape)
            part = to_anndata(view(attached, {"obs": rows, "var": columns}))
            renaming = {"obs": None, "var": None, "cell": ("obs", rows), "gene": ("var", columns)}
            renamed = to_anndata(view(attached, renaming))
        with anndata.settings.override(remove_unused_categories=False):
            some = expected[rows, columns].copy()
    for each, wanted in [*((each, expected) for each in found), (part, some), (renamed, some)]:
        for key in ("obs_is", "var_is", "X_is"):
            del each.uns[key]
        assert_equal(each, wanted, exact=True)


def test_the_report_says_what_is_not_shown(paths: dict[Form, Path]) -> None:
    """Parts that Daf has no place for, and other names, are listed with a reason."""
    with open_daf(paths["h5ad"]) as attached:
        assert isinstance(attached.tree, SidecarTree)
        assert isinstance(attached.tree.base, AnnDataTree)
        found = {(item.kind, item.what) for item in attached.tree.base.current().report().items}
    assert found == {
        ("renamed", "obs['name']"),
        ("kept", "obs['complex']"),
        ("kept", "layers['complex']"),
        ("kept", "obsm['cube']"),
        ("kept", "obsm['words']"),
    }


def test_writing_is_refused(paths: dict[Form, Path], tmp_path: Path) -> None:
    """The error names an import and an overlay; nothing of the file is touched."""
    other = tmp_path / "atlas.h5"
    shutil.copy(paths["h5ad"], other)
    before = other.read_bytes()
    modes: tuple[Literal["r+", "w+", "w"], ...] = ("r+", "w+", "w")
    for path in (*paths.values(), other):
        for mode in modes if path != other else modes[:2]:
            with pytest.raises(errors.ReadOnlyError, match=r"daf import .*overlay="):
                open_daf(path, mode)
    with pytest.raises(errors.NotADafError):
        open_daf(other, "w")
    assert other.read_bytes() == before


def test_a_summary_names_what_exports_alone_have(
    paths: dict[Form, Path], imported: DafReader
) -> None:
    """Such as a DataFrame of obsm with strings; in place, and of what was imported."""
    with open_daf(paths["h5ad"]) as attached:
        ours = {remark.what: remark.message for remark in attached.summary().remarks}
    theirs = {remark.what: remark.message for remark in imported.summary().remarks}
    assert ours["obsm['words']"].startswith("only in exports: a DataFrame")
    assert theirs["obsm.words"] == "only in exports: Daf has no place for it"
    assert len(theirs) == sum(message.startswith("only in exports") for message in ours.values())


def test_names_with_a_mask_are_those_of_an_import(tmp_path: Path) -> None:
    """Names that pandas stores as nullable strings, of which one is missing, are anndata's."""
    adata = anndata.AnnData(np.eye(3, dtype=np.float32))
    adata.obs_names = ["a", "b", "c"]
    path = tmp_path / "nullable.h5ad"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata.write_h5ad(path)
    with (
        h5py.File(path, "r+") as file,
        anndata.settings.override(allow_write_nullable_strings=True),
    ):
        del file["obs/_index"]
        names: Any = pd.array(["a", pd.NA, "c"], dtype="string")
        anndata.io.write_elem(file["obs"], "_index", names)
    daf = MemoryDaf()
    import_h5ad(path, daf, progress="never")
    with open_daf(path) as attached:
        assert attached.axis_entries("obs").tolist() == daf.axis_entries("obs").tolist()
        assert (
            daf.axis_entries("obs").tolist() == anndata.read_h5ad(path).obs_names.map(str).tolist()
        )


@pytest.mark.parametrize("na_value", ["NA", "NaN"])
def test_what_is_missing_of_strings_is_as_anndata_reads_it(tmp_path: Path, na_value: str) -> None:
    """Strings of which NA or NaN is missing have the type that the installed anndata gives them."""
    obs = pd.DataFrame({"text": pd.array(["a", None, ""], dtype="string")}, index=list("xyz"))
    adata, path = anndata.AnnData(np.eye(3, dtype=np.float32), obs=obs), tmp_path / "x.h5ad"
    with anndata.settings.override(allow_write_nullable_strings=True):
        adata.write_h5ad(path, convert_strings_to_categoricals=False)
    with h5py.File(path, "r+") as file:
        file["obs/text"].attrs["na-value"] = na_value
    expected = anndata.read_h5ad(path).obs
    with open_daf(path) as daf:
        pd.testing.assert_frame_equal(to_anndata(daf).obs, expected)
        export_h5ad(daf, tmp_path / "back.h5ad")
    pd.testing.assert_frame_equal(anndata.read_h5ad(tmp_path / "back.h5ad").obs, expected)


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_chunks_of_zeros_that_are_not_written(tmp_path: Path, form: Form) -> None:
    """Zarr leaves out zeros, as indices of the first column, and no elements: that is no damage."""
    first = sp.csr_matrix(np.array([[1.0, 0, 0], [2.0, 0, 0]]))
    zeros = sp.csr_matrix((np.zeros(2), [0, 0], [0, 1, 2]), shape=(2, 3))
    adata = anndata.AnnData(first, pd.DataFrame({"zero": [0, 0]}, index=["a", "b"]))
    adata.obsm = {"first": first, "none": sp.csr_matrix((2, 3)), "zeros": zeros}
    adata.layers["dense"] = np.zeros((2, 3))
    path = write(adata, tmp_path, form)
    assert verify(path, progress="never") == []
    files = {file.name for file in (path / "X/indices").rglob("*") if file.is_file()}
    assert files <= {"zarr.json", ".zarray", ".zattrs"}
    with open_daf(path) as daf:
        found = to_anndata(daf)
        read = daf.get_np_matrix("obs", "var", "X")
    for part, expected in (
        (read, first),
        (found.X, adata.X),
        *((found.obsm[k], adata.obsm[k]) for k in adata.obsm),
    ):
        assert np.array_equal(part.toarray(), expected.toarray())
