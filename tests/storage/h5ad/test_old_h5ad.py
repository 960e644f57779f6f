"""Tests of h5ad files of other years and programs, imported and in place; anndata is the judge."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from anndata.tests.helpers import assert_equal

from daf_storage import (
    AnnDataWarning,
    MemoryDaf,
    errors,
    export_h5ad,
    from_anndata,
    import_h5ad,
    open_daf,
    to_anndata,
    view,
)
from tests.storage.anndata.test_tree import assert_same, assert_same_notes
from tests.storage.data.test_kept import assert_alike, read, without_axis_keys
from tests.support import PBMC

CELLS, GENES = [b"cell_001", b"cell_002", "zéll_003".encode()], [b"g1", b"g2"]
VALUES = np.arange(6, dtype="f4").reshape(3, 2)


def table(**columns: Any) -> Any:
    """Return a structured array, as AnnData 0.6 stored a DataFrame."""
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    length = len(next(iter(arrays.values())))
    found = np.empty(
        length, [(name, array.dtype, array.shape[1:]) for name, array in arrays.items()]
    )
    for name, array in arrays.items():
        found[name] = array
    return found


def of_0_6(file: Any) -> None:
    """Write structured arrays and byte strings, categories in ``uns``, and no attributes."""
    file["X"] = VALUES
    cells = [b"cell_001", b"cell_002", b"cell_003"]
    file["obs"] = table(
        index=cells, kind=np.array([0, 1, 0], "i1"), n=[1.0, 2, 3], t=[b"a", b"b", b""]
    )
    file["var"] = table(index=GENES, hv=[True, False])
    file["obsm"] = table(X_pca=np.ones((3, 2), "f4"))
    file["varm"] = table(PCs=np.ones((2, 2), "f4"))
    file["uns/kind_categories"] = np.array([b"T", b"B"])
    file["uns/kind_colors"] = np.array([b"#000001", b"#000002"])
    file["uns/neighbors/params/n_neighbors"] = 15
    file["uns/rank"] = table(names=[b"g1", b"g2"], scores=np.array([1, 2], "f4"))
    file["raw.X"] = VALUES
    file["raw.var"] = table(index=GENES, symbol=[b"G1", b"G2"])


def of_0_6_sparse(file: Any) -> None:
    """Write a sparse X by the attributes of h5sparse, and a graph in ``uns``."""
    of_0_6(file)
    del file["X"]
    graphs = ("X", (3, 2)), ("uns/neighbors/distances", (3, 3))
    for path, shape in graphs:
        group = file.create_group(path)
        group.attrs.update({"h5sparse_format": b"csr", "h5sparse_shape": shape})
        group["data"], group["indices"] = np.array([1, 2], "f4"), np.array([0, 1], "i4")
        group["indptr"] = np.array([0, 1, 1, 2], "i4")


def of_0_7(file: Any) -> None:
    """Write groups with ``__categories``, to which the columns refer; arrays without attributes."""
    file["X"] = VALUES
    for part, names in (("obs", CELLS), ("var", GENES)):
        group = file.create_group(part)
        group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.1.0"})
        group.attrs.update({"_index": "index", "column-order": ["kind", "n", "t"]})
        group["index"] = np.array(names, dtype=object).astype(h5py.string_dtype())
        group["n"], group["t"] = np.arange(len(names)), np.array([b"a"] * len(names))
        group["kind"] = np.array([1, 0, -1][: len(names)], "i1")
        group["__categories/kind"] = np.array([b"T", b"B"])
        group["__categories/kind"].attrs["ordered"] = part == "obs"
        group["kind"].attrs["categories"] = group["__categories/kind"].ref
    file["obsm/X_pca"] = np.ones((3, 2))
    file["uns/title"], file["uns/one"] = "a title", np.array([b"x"])


def with_byte_names(file: Any) -> None:
    """Write DataFrames of today whose names are fixed-width byte strings."""
    file["X"] = VALUES
    for part, names in (("obs", CELLS), ("var", GENES)):
        group = file.create_group(part)
        group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0"})
        group.attrs.update({"_index": "_index", "column-order": ["n"]})
        group["_index"], group["n"] = np.array(names), np.arange(len(names))
        for column in ("_index", "n"):
            group[column].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


def without_attributes(file: Any) -> None:
    """Write groups that do not say that they are DataFrames."""
    file["X"] = VALUES
    file["obs/_index"], file["obs/n"] = np.array([b"a", b"b", b"c"]), np.arange(3)
    file["var/_index"], file["var/t"] = np.array(GENES), np.array([b"a", b"b"])


def of_scanpy(file: Any) -> None:
    """Write the real data that scanpy ships, of AnnData 0.6."""
    with h5py.File(PBMC) as source:
        for name in source:
            source.copy(name, file)


FILES = [of_0_6, of_0_6_sparse, of_0_7, with_byte_names, without_attributes, of_scanpy]


@pytest.mark.parametrize("write", FILES)
def test_what_anndata_reads(tmp_path: Path, write: Callable[[Any], None]) -> None:
    """Names, columns, categories and everything else, in memory, in a new file and in place."""
    with h5py.File(tmp_path / "in.h5ad", "w") as file:
        write(file)
    expected = read(tmp_path / "in.h5ad")
    report = import_h5ad(tmp_path / "in.h5ad", daf := MemoryDaf(), strict=True)
    assert {item.kind for item in report.items} <= {"renamed"}, str(report)
    assert daf.axis_entries("obs").tolist() == expected.obs_names.tolist()
    assert daf.axis_entries("var").tolist() == expected.var_names.tolist()
    assert "b'" not in str(daf.axis_entries("obs"))
    import_h5ad(tmp_path / "in.h5ad", tmp_path / "x.daf.zarr.zip")
    with (
        open_daf(tmp_path / "x.daf.zarr.zip") as stored,
        open_daf(tmp_path / "in.h5ad") as attached,
    ):
        for each in (stored, attached):
            assert_same(each, daf)
            assert_same_notes(each, daf)
        assert_equal(to_anndata(attached), to_anndata(daf))
    found = without_axis_keys(to_anndata(daf))
    for adata in (found, expected):
        strings_as_objects(adata)
    assert_alike(found, expected)
    export_h5ad(daf, tmp_path / "out.h5ad", strict=True)
    again = without_axis_keys(read(tmp_path / "out.h5ad"))
    for part in (expected.obs, expected.var):  # anndata cannot write a column of this name
        part.columns = part.columns.str.replace("^_index$", "_index_", regex=True)
    strings_as_objects(again)
    assert_alike(again, expected)


def strings_as_objects(adata: Any) -> None:
    """Make fixed-width text and numpy scalars, of old files, what they are in files of today."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(item) for key, item in value.items()}
        if isinstance(value, np.ndarray) and value.dtype.names:
            kinds = [
                (n, "O" if value.dtype[n].kind == "U" else value.dtype[n])
                for n in value.dtype.names
            ]
            return value.astype(kinds)
        if isinstance(value, np.ndarray) and value.dtype.kind == "U":
            return value.astype(object)
        return value.item() if isinstance(value, np.generic) else value

    for key in list(adata.uns):
        adata.uns[key] = changed(adata.uns[key])


def test_one_is_opened_without_anndata(tmp_path: Path) -> None:
    """A package that takes longer to import than everything else does not open a file of 0.6."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        of_0_6_sparse(file)
    code = """import sys, daf_storage
daf = daf_storage.open_daf(sys.argv[1])
print(daf.get_np_vector("obs", "kind").tolist(), daf.summary().axes[0].length)
assert not {"anndata", "scipy.sparse"} & sys.modules.keys()"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "old.h5ad"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['T', 'B', 'T'] 3\n"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("uns/kind_categories", np.array([b"T", b"T"])),
        ("uns/number_categories", np.array([b"T", b"B"])),
        ("obs", np.arange(3)),
        ("obs", table(index=[b"\xe9", b"a", b"b"])),
        ("obs", table(index=[b"a", b"b", b"c"], wide=np.ones((3, 2)))),
    ],
)
def test_frames_that_cannot_be(tmp_path: Path, path: str, value: Any) -> None:
    """Categories twice, codes of none, records that are no columns, names that are no text."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        of_0_6(file)
        del file["obs"]
        codes = np.array([0, 1, 0], "i1")
        file["obs"] = table(index=[b"a", b"b", b"c"], kind=codes, number=codes - 2)
        if path in file:
            del file[path]
        file[path] = value
    with pytest.raises(errors.CorruptDataError, match=rf"old\.h5ad: {path} cannot be read"):
        open_daf(tmp_path / "old.h5ad")


def test_what_is_called_as_categories(tmp_path: Path) -> None:
    """A group of that name stays in uns; categories may have any shape."""
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        of_0_6(file)
        del file["uns/kind_categories"]
        file["uns/kind_categories"] = np.array([[b"T", b"B"]])
        file["uns/n_categories/deep"] = 1
        del file["obs"]
        codes = np.array([0, 1, 0], "i1")
        file["obs"] = table(index=[b"a", b"b", b"c"], kind=codes, n=codes)
    with open_daf(tmp_path / "old.h5ad") as daf:
        adata = to_anndata(daf)
        assert adata.obs["kind"].tolist() == ["T", "B", "T"]
        assert adata.obs["n"].tolist() == [0, 1, 0]
        assert adata.uns["n_categories"]["deep"] == 1


def test_byte_strings_in_columns_become_text(tmp_path: Path) -> None:
    """They are decoded, which is said; those that are not UTF-8 are kept, or an error."""
    with h5py.File(tmp_path / "in.h5ad", "w") as file:
        with_byte_names(file)
        for column, values in (("t", CELLS), ("latin", [b"\xe9", b"a", b"b"])):
            file["obs"][column] = np.array(values)
            file["obs"][column].attrs.update(
                {"encoding-type": "array", "encoding-version": "0.2.0"}
            )
        kind = file["obs"].create_group("kind")
        kind.attrs.update(
            {"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False}
        )
        kind["codes"], kind["categories"] = np.array([1, 0, 1], "i1"), np.array([b"T", b"B"])
        for part in kind.values():
            part.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        file["obs"].attrs["column-order"] = ["n", "t", "latin", "kind"]
    report = import_h5ad(tmp_path / "in.h5ad", daf := MemoryDaf(), strict=True)
    assert [(item.kind, item.what) for item in report.items] == [
        ("changed", "obs['t']"),
        ("kept", "obs['latin']"),
        ("changed", "obs['kind']"),
    ]
    with h5py.File(tmp_path / "in.h5ad", "r+") as file:
        file["obs/latin"].attrs.clear()
    with open_daf(tmp_path / "in.h5ad") as attached:
        for each in (attached, daf):
            assert each.get_np_vector("obs", "t").tolist() == [name.decode() for name in CELLS]
        with pytest.raises(errors.CorruptDataError, match="latin"):
            attached.get_np_vector("obs", "latin")
    assert daf.get_np_vector("obs", "kind").tolist() == ["B", "T", "B"]
    obs = to_anndata(daf).obs
    assert obs["latin"].tolist() == [b"\xe9", b"a", b"b"]
    assert obs["kind"].cat.categories.tolist() == ["T", "B"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Byte strings in another encoding are an error that names the file; numbers become text."""
    with h5py.File(tmp_path / "in.h5ad", "w") as file:
        with_byte_names(file)
        file["obs/_index"][...] = np.array([b"\xe9", b"a", b"b"])
    with pytest.raises(errors.FormatError, match=r"in\.h5ad: "):
        import_h5ad(tmp_path / "in.h5ad", MemoryDaf())
    with h5py.File(tmp_path / "in.h5ad", "r+") as file:
        del file["obs/_index"]
        file["obs/_index"] = [30, 10, 20]
    report = import_h5ad(tmp_path / "in.h5ad", daf := MemoryDaf())
    assert [(item.kind, item.what) for item in report.items] == [("changed", "obs_names")]
    assert daf.axis_entries("obs").tolist() == ["30", "10", "20"]


def test_frames_in_the_place_of_matrices_and_parts_that_are_nothing(tmp_path: Path) -> None:
    """As `anndata.io.write_elem` writes them; anndata reads arrays of them."""
    frame = pd.DataFrame(np.eye(2), index=["a", "b"], columns=["x", "y"])
    with h5py.File(tmp_path / "in.h5ad", "w") as file:
        anndata.io.write_elem(file, "/", anndata.AnnData(obs=frame[[]], var=frame[[]]))
        for part in ("obsp", "varp", "layers"):
            anndata.io.write_elem(file[part], "frame", frame)
        assert file["raw"].attrs["encoding-type"] == "null"
    expected = read(tmp_path / "in.h5ad")
    import_h5ad(tmp_path / "in.h5ad", daf := MemoryDaf(), strict=True)
    export_h5ad(daf, tmp_path / "out.h5ad", strict=True)
    for found in (to_anndata(daf), read(tmp_path / "out.h5ad")):
        assert_alike(without_axis_keys(found), expected)


COLORS: list[tuple[Any, bool]] = [
    (["#000001", "#000002"], True),
    (np.array(["#000001", "#000002"]), True),
    (np.array(["#000001", "#000002"], dtype=object), True),
    (["#000001"], False),
    (np.array([["#000001", "#000002"]]), False),
    ("#000001", False),
    ({"b": "#000001"}, False),
    (np.array([1j, 2j]), False),
]


@pytest.mark.parametrize(("colors", "are_of_categories"), COLORS)
def test_colours_of_a_categorical(colors: Any, tmp_path: Path, *, are_of_categories: bool) -> None:
    """A list as well as an array becomes the vector ``color``, and that is what it was."""
    obs = pd.DataFrame({"louvain": pd.Categorical(["b", "a"], ["b", "a"])}, index=["x", "y"])
    adata = anndata.AnnData(obs=obs, uns={"louvain_colors": colors})
    adata.obs["n"], adata.uns["n_colors"] = [1, 2], ["#000003", "#000004"]
    daf = from_anndata(adata, strict=True)
    assert not daf.has_axis("n")
    for shown in (None, ["b"]) if are_of_categories else ():  # no axis of all categories
        part = to_anndata(view(daf, {"louvain": shown}))
        assert part.obs["louvain"].cat.categories.tolist() == ["b", "a"]
        assert "louvain_colors" not in part.uns
    adata.write_h5ad(tmp_path / "x.h5ad")
    with open_daf(tmp_path / "x.h5ad") as attached:
        assert attached.axes_set() == daf.axes_set()
    assert daf.has_axis("louvain") == are_of_categories
    if are_of_categories:
        assert daf.get_np_vector("louvain", "color").tolist() == ["#000001", "#000002"]
    found = to_anndata(daf).uns["louvain_colors"]
    if are_of_categories:
        assert type(found) is type(colors)
    assert found == colors if isinstance(colors, dict) else np.array_equal(found, colors)


def test_colours_that_were_changed(tmp_path: Path) -> None:
    """A new vector ``color`` is what a list of colours becomes on export."""
    obs = pd.DataFrame({"louvain": pd.Categorical(["b", "a"], ["b", "a"])}, index=["x", "y"])
    daf = from_anndata(anndata.AnnData(obs=obs, uns={"louvain_colors": ["red", "blue"]}))
    daf.set_vector("louvain", "color", ["green", "grey"], if_exists="replace")
    assert to_anndata(daf).uns["louvain_colors"] == ["green", "grey"]
    daf.set_vector("louvain", "size", [1, 2])
    with pytest.warns(AnnDataWarning, match="vector 'size'"):
        to_anndata(daf)
    export_h5ad(daf, tmp_path / "x.h5ad")
    assert read(tmp_path / "x.h5ad").uns["louvain_colors"].tolist() == ["green", "grey"]
