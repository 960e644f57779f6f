"""Tests of AnnData in and out: every part, every kind of column, and the real PBMC data."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

from daf_query import connect
from daf_storage import (
    AnnDataWarning,
    DafWriter,
    MemoryDaf,
    ZarrDaf,
    errors,
    export_h5ad,
    from_anndata,
    import_h5ad,
    open_daf,
    to_anndata,
    view,
)
from daf_storage.anndata import axis_frame
from tests.storage.data.test_kept import read, without_axis_keys
from tests.storage.h5ad.test_element_copy import write
from tests.support import PBMC, UMIS, by_key, contents, create, data_set, dense, peaks

AXIS_KEYS = ("obs_is", "var_is", "X_is")


@pytest.fixture
def rich() -> Any:
    """Return an AnnData with categoricals, of which one has colours, and names that Daf reserves."""
    random = np.random.default_rng(0)
    n, m = 20, 7
    types = pd.Categorical(random.choice(["b", "a", "c"], n), ["c", "a", "b", "unused"])
    stages = random.choice(["late", "early"], n)
    obs = {
        "type": types,
        "stage": pd.Categorical(stages, ["early", "late"], ordered=True),
        "age": random.integers(0, 99, n),
        "batch": pd.Categorical(random.integers(1, 4, n)),
    }
    return anndata.AnnData(
        X=sp.csr_matrix(sp.random_array((n, m), density=0.4, dtype=np.float32, rng=random)),
        obs=pd.DataFrame(obs, index=[f"cell{i}" for i in range(n)]),
        var=pd.DataFrame(
            {"index": range(m), "name": list("abcdefg")}, index=[f"g{i}" for i in range(m)]
        ),
        layers={"dense": random.random((n, m))},
        uns={"type_colors": np.array([f"#00000{i}" for i in range(1, 5)], dtype=object)},
    )


class TestPbmc:
    """The real data: an old h5ad file with categoricals, colours, raw, and nested uns."""

    def test_the_default_names(self, tmp_path: Path) -> None:
        """As in the reference: obs, var and X, also in uns on export; there is nothing to report."""
        assert import_h5ad(PBMC, tmp_path / "x.daf.zarr").items == []
        daf = ZarrDaf(tmp_path / "x.daf.zarr")
        assert {"obs", "var", "var_raw", "louvain"} <= daf.axes_set()
        assert daf.matrix_info("obs", "var", "X").storage_type.value == "Float32"
        adata = to_anndata(daf)
        assert [adata.uns[key] for key in AXIS_KEYS] == ["obs", "var", "X"]
        again, original = contents(from_anndata(adata)), contents(daf)
        for found in (again, original):
            del found["scalars"]["anndata_notes"]
        assert again == original


class TestRoundTrip:
    def test_matrices_in_one_layout(self, rich: Any) -> None:
        """If that is asked for, they are stored as AnnData has them."""
        single = from_anndata(rich, relayout=False)
        assert not single.has_matrix("obs", "var", "X", relayout=False)
        assert_equal(without_axis_keys(to_anndata(single)), rich)

    def test_colours_become_axes_and_reserved_columns_are_renamed(self, rich: Any) -> None:
        """Entries are in the order of the categories; ``name`` and ``index`` come back as they were."""
        daf = from_anndata(rich)
        assert daf.axis_entries("type").tolist() == ["c", "a", "b", "unused"]
        assert daf.get_np_vector("type", "color").tolist() == [f"#00000{i}" for i in range(1, 5)]
        assert not daf.has_axis("stage")
        assert not daf.has_axis("batch")
        assert daf.vectors_set("var") == {"index_", "name_"}
        assert_equal(without_axis_keys(to_anndata(daf)), rich)

    def test_names_in_uns_win_over_defaults(self, rich: Any) -> None:
        """``uns`` says what the axes are called, unless the caller does."""
        rich.uns.update({"obs_is": "cell", "var_is": "gene", "X_is": "UMIs"})
        assert {"cell", "gene"} <= from_anndata(rich).axes_set()
        assert "mine" in from_anndata(rich, obs_is="mine").axes_set()
        adata = to_anndata(from_anndata(rich))
        assert [adata.uns[key] for key in AXIS_KEYS] == ["cell", "gene", "UMIs"]


COLUMNS: dict[str, Any] = {
    "bool": [True, False, True],
    "int8": np.array([1, -2, 3], np.int8),
    "uint64": np.array([1, 2, 2**64 - 1], np.uint64),
    "float16": np.array([1, 0.5, np.nan], np.float16),
    "float64 with NaN": [1.0, np.nan, 2.0],
    "text": ["a", "", "c"],
    "text with None": ["a", None, "c"],
    "text with None and empty": ["", None, "c"],
    "no text at all": np.array([None, None, None], dtype=object),
    "string dtype": pd.array(["a", None, ""], dtype="string"),
    "string dtype, whole": pd.array(["a", "b", ""], dtype="string"),
    "nullable int": pd.array([1, None, 3], dtype="Int32"),
    "nullable int, whole": pd.array([1, 2, 3], dtype="UInt8"),
    "nullable large int": pd.array([2**60 + 1, None, -(2**62) - 1], dtype="Int64"),
    "nullable bool": pd.array([True, None, False], dtype="boolean"),
    "nullable bool, whole": pd.array([True, True, False], dtype="boolean"),
    "nullable float": pd.array([1.5, None, 3], dtype="Float32"),
    "objects that are bools": np.array([True, None, False], dtype=object),
    "objects that are ints": np.array([1, None, 3], dtype=object),
    "categorical": pd.Categorical(["b", "a", "b"], ["b", "a"]),
    "ordered": pd.Categorical(["b", "a", "b"], ["b", "a", "z"], ordered=True),
    "categorical with missing": pd.Categorical(["b", None, "a"]),
    "categorical with missing and empty": pd.Categorical(["b", None, ""]),
    "categorical of ints": pd.Categorical([3, 1, 3], [3, 1, 2]),
    "categorical of floats": pd.Categorical([0.5, 1.5, None]),
    "categorical of bools": pd.Categorical([True, False, True]),
    "complex": np.array([1j, 2j, 3]),
    "categorical of nothing": pd.Categorical([None, None, None], []),
    "sparse numbers": pd.arrays.SparseArray([1.0, 0.0, 2.0]),
    "sparse integers": pd.arrays.SparseArray([0, 0, 2], fill_value=0),
    "categorical of no numbers": pd.Categorical([None, None, None], np.array([], np.float64)),
    "dates": pd.to_datetime(["2020-01-01", "NaT", "2021-06-01T12:30:00.123"], format="ISO8601"),
    "dates in seconds": np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="M8[s]"),
    "dates in a zone": pd.to_datetime(["2020-01-01", "NaT", "2021-01-01"]).tz_localize(
        "Europe/Berlin"
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_kind_of_column_comes_back(kind: str) -> None:
    """With its dtype, its missing values, and the order of its categories; without a warning."""
    obs = pd.DataFrame({"column": COLUMNS[kind]}, index=list("abc"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", AnnDataWarning)
        daf = from_anndata(anndata.AnnData(obs=obs))
        found, _ = axis_frame(daf, "obs")
    pd.testing.assert_frame_equal(found, obs)
    some, _ = axis_frame(daf, "obs", np.array([2, 0]))
    pd.testing.assert_frame_equal(some, obs.iloc[[2, 0]])


def test_objects_that_are_numbers_become_floats() -> None:
    """Decimals and numbers beside integers, with a line in the report; NaN where one is missing."""
    for values in ([Decimal("1.5"), None, Decimal(2)], [1.5, None, 2]):
        obs = pd.DataFrame({"m": np.array(values, dtype=object)}, index=list("abc"))
        with pytest.warns(AnnDataWarning, match=r"obs\['m'\]: objects \(.*\) became Float64"):
            daf = from_anndata(anndata.AnnData(obs=obs))
        np.testing.assert_array_equal(daf.get_np_vector("obs", "m"), [1.5, np.nan, 2])


def test_mixed_columns_become_text_and_are_reported(tmp_path: Path) -> None:
    """The values as text, missing ones as missing, and a line in the report."""
    obs = pd.DataFrame({"m": np.array(["a", 1, None], dtype=object)}, index=list("abc"))
    daf = create(tmp_path / "x.daf.zarr")
    with pytest.warns(AnnDataWarning, match=r"obs\['m'\]: values of mixed types .* became text"):
        from_anndata(anndata.AnnData(obs=obs), daf)
    assert daf.get_np_vector("obs", "m").tolist() == ["a", "1", ""]
    column = axis_frame(daf, "obs")[0]["m"]
    assert (column[:2].tolist(), column.isna().tolist()) == (["a", "1"], [False, False, True])


def test_categories_that_are_no_text_come_back_as_text() -> None:
    """Those of ``pandas.cut``, which cannot be read from it, in their order; the others alike."""
    obs = pd.DataFrame({"bin": pd.cut([1, 5, 9], [0, 3, 6, 9])}, index=list("abc"))
    column = to_anndata(from_anndata(anndata.AnnData(obs=obs))).obs["bin"]
    assert column.cat.categories.tolist() == ["(0, 3]", "(3, 6]", "(6, 9]"]
    assert column.cat.ordered


@pytest.mark.parametrize(
    "value", [object(), {"deep": [object()]}, np.array([object()]), pd.Series([1, 2])]
)
def test_values_without_any_place_are_reported_by_name(value: Any) -> None:
    """What not even anndata can write is named with the reason."""
    adata = anndata.AnnData(np.zeros((3, 2)))
    adata.uns["odd"] = value
    with pytest.warns(AnnDataWarning, match=r"uns\['odd'\].*: anndata cannot write this value"):
        daf = from_anndata(adata)
    assert not to_anndata(daf).uns.get("odd")


def test_names_that_daf_cannot_store(rich: Any, tmp_path: Path) -> None:
    """Columns and layers get one that can be stored, and their own back; square matrices are kept.

    A file has no layer of such a name: anndata writes it, and then cannot read that file.
    """
    rich.obs["a/b"] = 1
    rich.layers["c/d"] = np.ones(rich.shape)
    rich.obsm["e/f"] = np.ones((rich.n_obs, 1))
    square = np.eye(rich.n_obs) * 3
    rich.obsp["g/h"], rich.obsp["i/j"] = square, sp.csr_matrix(square)
    rich.uns[np.str_("of numpy")] = {"a": 1}
    daf = from_anndata(rich)
    assert not {"g/h", "i/j"} & daf.matrices_set("obs", "obs")
    assert "a_b" in daf.vectors_set("obs")
    adata = to_anndata(daf)
    assert "c/d" in adata.layers
    assert adata.obsm["e/f"].tolist() == [[1]] * rich.n_obs
    assert adata.uns["of numpy"] == {"a": 1}
    assert all(dense(adata.obsp[key]).tolist() == square.tolist() for key in ("g/h", "i/j"))
    report = export_h5ad(daf, tmp_path / "x.h5ad")
    assert "layers['c/d']: an h5ad file has no keys such as 'c/d'" in str(report)
    assert read(tmp_path / "x.h5ad").obs["a/b"].tolist() == [1] * rich.n_obs


@pytest.mark.parametrize("is_sparse", [True, False])
def test_a_backed_anndata_is_streamed_from_its_file(
    rich: Any, tmp_path: Path, *, is_sparse: bool
) -> None:
    """Its X stays on disk until it is copied."""
    if not is_sparse:
        rich.X = rich.X.toarray()
    rich.write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    daf = from_anndata(backed)
    backed.file.close()
    assert dense(daf.get_np_matrix("obs", "var", "X")).tolist() == dense(rich.X).tolist()
    assert daf.matrix_info("var", "obs", "X").is_sparse == is_sparse


def test_a_destination_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is replaced if that is asked for, when the import is complete and not before."""
    path = tmp_path / "x.daf.zarr"
    create(path).add_axis("mine", ["a"])

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(DafWriter, "relayout_matrix", fail)
        for if_exists, message in (("error", "exists already"), ("replace", "disk full")):
            with pytest.raises((errors.ExistsError, OSError), match=message):
                import_h5ad(PBMC, path, if_exists=if_exists)  # type: ignore[arg-type] # each in turn
            assert ZarrDaf(path).axes_set() == {"mine"}
            assert [p.name for p in tmp_path.iterdir()] == ["x.daf.zarr"]
    import_h5ad(PBMC, path, if_exists="replace")
    assert "obs" in ZarrDaf(path).axes_set()


def test_an_emptied_data_set_is_imported_into() -> None:
    """What Daf has no place for, and was left of the import before, does not end it."""
    adata = anndata.AnnData(np.ones((3, 2), np.float32), uns={"nested": {"x": np.arange(3)}})
    daf = from_anndata(adata)
    daf.delete_matrix("obs", "var", "X")
    for axis in daf.axes_set():
        daf.delete_axis(axis)
    for name in daf.scalars_set():
        daf.delete_scalar(name)
    assert to_anndata(from_anndata(adata, daf)).uns["nested"]["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("indices", [[2, 1, 1, 0, 2, 0], [1, 1, 2, 0, 2, 2]])
def test_elements_out_of_order_and_twice(indices: list[int]) -> None:
    """They are sorted, or added up, which is reported, in a copy: the caller's stay as they are."""
    matrix = sp.csr_matrix((np.arange(1.0, 7), np.array(indices), np.array([0, 2, 4, 6])))
    adata = anndata.AnnData(matrix, layers={"by_column": matrix.T}, obsp={"graph": matrix})
    held = [adata.X, adata.layers["by_column"], adata.obsp["graph"]]
    before = [array.tolist() for part in held for array in (part.data, part.indices, part.indptr)]
    with warnings.catch_warnings(record=True, action="always") as warned:
        daf = from_anndata(adata)
    said = ["X: elements that were stored more than once" in str(each.message) for each in warned]
    assert any(said) == (indices[0] == indices[1])
    assert dense(daf.get_np_matrix("obs", "var", "X")).tolist() == matrix.toarray().tolist()
    after = [array.tolist() for part in held for array in (part.data, part.indices, part.indptr)]
    assert after == before


def test_exporting_a_data_set_that_was_never_an_anndata(tmp_path: Path) -> None:
    """The caller says which axes are which; all vectors become columns."""
    types = {"name": ["T", "B"], "color": ["red", "blue"]}
    cells = {"name": list("abc"), "type": ["B", "", "T"]}
    umis, fractions = sp.csc_array(UMIS), np.ones((3, 2))
    matrices = {("cell", "gene", "UMIs"): umis, ("cell", "type", "fraction"): fractions}
    daf = data_set(cell=cells, gene=list("wxyz"), type=types, matrices=matrices)
    daf.set_scalar("organism", "human")
    with pytest.raises(
        errors.AxisNotFoundError, match="no axis 'obs'.*say which axis with obs_is="
    ):
        to_anndata(daf)
    export_h5ad(daf, tmp_path / "x.h5ad", obs_is="cell", var_is="gene", X_is="UMIs")
    adata = read(tmp_path / "x.h5ad")
    assert adata.X.toarray().tolist() == UMIS.tolist()
    assert adata.obs["type"].cat.categories.tolist() == ["T", "B"]
    assert adata.obs["type"].isna().tolist() == [False, True, False]
    assert adata.uns["type_colors"].tolist() == ["red", "blue"]
    assert adata.uns["organism"] == "human"
    assert adata.obsm["fraction"].columns.tolist() == ["T", "B"]


def test_what_an_h5ad_cannot_hold_is_reported(tmp_path: Path) -> None:
    """Dates, nullable floats and missing text are written in another form, by name."""
    obs = pd.DataFrame(
        {
            "date": pd.to_datetime(["2020-01-01", "NaT"]),
            "float": pd.array([1.5, None], dtype="Float64"),
            "text": pd.Series(["a", None], index=list("ab"), dtype=object),
            "string": pd.array(["a", "b"], dtype="string"),
        },
        index=list("ab"),
    )
    daf = from_anndata(anndata.AnnData(obs=obs))
    daf.set_matrix("obs", "obs", "labels", np.array([["a", "b"], ["c", "d"]]))
    report = export_h5ad(daf, tmp_path / "x.h5ad")
    is_text = pd.Series(["a"]).dtype == object  # before pandas 3
    assert [item.what for item in report.items if item.kind == "changed"] == [
        *("obs['date']", "obs['float']"),
        *(["obs['text']"] if is_text else []),
    ]
    assert ["labels" in str(i) for i in report.items if i.kind == "lost"] == [True]
    found = read(tmp_path / "x.h5ad").obs
    assert found["date"].tolist() == ["2020-01-01", ""]
    assert found["string"].tolist() == ["a", "b"]
    with pytest.raises(errors.ExistsError):
        export_h5ad(daf, tmp_path / "x.h5ad")


def test_vectors_added_after_the_import_are_exported(rich: Any) -> None:
    """New vectors become columns, deleted ones are gone, new categories are appended."""
    daf = from_anndata(rich)
    daf.set_vector("obs", "cluster", np.arange(20))
    daf.delete_vector("obs", "age")
    daf.set_vector("obs", "stage", ["new"] * 20, if_exists="replace")
    obs = to_anndata(daf).obs
    assert "cluster" in obs
    assert "age" not in obs
    assert obs["stage"].cat.categories.tolist() == ["early", "late", "new"]


@pytest.mark.parametrize(
    "kind",
    [
        *("dates", "nullable large int", "text with None", "categorical", "nullable int"),
        "sparse integers",
    ],
)
@pytest.mark.parametrize(
    "values", [[1.5, 2.5, 3.5], [1e19, 2.0, 3.0], ["x", "y", "z"], [True, False, True]]
)
def test_replaced_vectors_are_exported_as_they_are(kind: str, values: list[Any]) -> None:
    """What the import noted of the old values does not stand in the way of new ones."""
    obs = pd.DataFrame({"column": COLUMNS[kind]}, index=list("abc"))
    daf = from_anndata(anndata.AnnData(obs=obs))
    daf.set_vector("obs", "column", values, if_exists="replace")
    column = axis_frame(daf, "obs")[0]["column"]
    assert [str(v) for v in column] == [str(v) for v in values]
    assert not isinstance(column.dtype, pd.SparseDtype)


RULES = '{"axes": {"var": "gene", "obs": {"columns": [5, {"vector": ["age"]}, {"kind": []}]}}}'
PARTS = '{"matrices": {"X": {"dtype": "years"}}, "uns": [["a"]], "obsm": {"p": {"axis": 1}}}'


@pytest.mark.filterwarnings("ignore::daf_storage.AnnDataWarning")
@pytest.mark.parametrize("notes", ['{"axes": "cell"}', RULES, PARTS])
def test_notes_that_no_import_wrote(rich: Any, notes: str) -> None:
    """They are ignored with a warning that names them, of a view too."""
    daf = from_anndata(rich)
    daf.set_scalar("anndata_notes", notes, if_exists="replace")
    for each in (daf, view(daf, {"obs": ("obs", slice(0, 20)), "gene": "var", "var": None})):
        with pytest.warns(AnnDataWarning, match=r"is ignored: anndata_notes"):
            assert to_anndata(each).obs["age"].tolist() == rich.obs["age"].tolist()


@pytest.mark.parametrize("is_sparse", [True, False])
def test_half_precision_matrices(tmp_path: Path, *, is_sparse: bool) -> None:
    """They come back as such, unless values were set since that need more, or scipy has none."""
    values = np.array([[0, 0.5], [1, 0]], np.float16)
    daf = MemoryDaf()
    if is_sparse:
        half = sp.csr_matrix(values.astype(np.float32))
        half.data = half.data.astype(np.float16)
        write(tmp_path / "in.h5ad", {"X": half, "layers/half": half})
        import_h5ad(tmp_path / "in.h5ad", daf)
    else:
        from_anndata(anndata.AnnData(np.zeros((2, 2)), layers={"half": values}), daf)
    assert daf.matrix_info("obs", "var", "half").storage_type.value == "Float32"
    for expected in (values, np.array([[0, 0.1], [1, 0]], np.float32)):
        export_h5ad(daf, tmp_path / "out.h5ad", if_exists="replace")
        with h5py.File(tmp_path / "out.h5ad") as file:
            found = file["layers/half/data"][:] if is_sparse else file["layers/half"][:]
            assert found.dtype == (np.float32 if is_sparse else expected.dtype)
            assert found.tolist() == (expected[expected != 0] if is_sparse else expected).tolist()
        new = np.array([[0, 0.1], [1, 0]], np.float32)
        daf.set_matrix(
            "obs", "var", "half", sp.csr_array(new) if is_sparse else new, if_exists="replace"
        )


def test_replaced_annotations_are_not_rounded() -> None:
    """An obsm that was integers is exported with the fractions that were set since."""
    adata = anndata.AnnData(
        np.zeros((2, 1)),
        obsm={"a": np.array([[1], [2]]), "b": pd.DataFrame({"x": [1, 2]}, index=list("01"))},
    )
    daf = from_anndata(adata)
    for key in "ab":
        daf.set_matrix("obs", key, key, np.array([[1.5], [2.5]]), if_exists="replace")
    found = to_anndata(daf)
    assert found.obsm["a"].tolist() == [[1.5], [2.5]]
    assert found.obsm["b"]["x"].tolist() == [1.5, 2.5]


def test_a_numeric_vector_named_like_an_axis_stays_numeric() -> None:
    """Only strings can be entries."""
    daf = data_set(cell={"name": ["a", "b"], "batch": [1, 2]}, batch=["x", "y"])
    assert axis_frame(daf, "cell")[0]["batch"].tolist() == [1, 2]


def test_imported_columns_named_like_an_axis_stay_what_they_were() -> None:
    """Strings, and categories that are other than those whose colours the axis has; without X."""
    obs = pd.DataFrame({"type": pd.Categorical(["b", "a"])}, index=["x", "y"])
    var = pd.DataFrame({"type": ["a", "a"], "obs": ["x", "z"]}, index=["g", "h"])
    adata = anndata.AnnData(obs=obs, var=var, uns={"type_colors": ["red", "blue"]})
    raw = pd.DataFrame({"type": pd.Categorical(["c"])}, index=["r"])
    adata.raw = anndata.AnnData(np.ones((2, 1)), obs=obs, var=raw)
    found = to_anndata(from_anndata(adata))
    assert found.var["type"].tolist() == ["a", "a"]
    assert not any(isinstance(each, pd.CategoricalDtype) for each in found.var.dtypes)
    assert found.raw.var["type"].cat.categories.tolist() == ["c"]
    assert (found.X, found.uns["type_colors"]) == (None, ["red", "blue"])
    adata.obs["type"] = adata.obs["type"].astype(str)
    adata.obs["obs"] = pd.Categorical(["p", "q"])
    daf = from_anndata(adata)
    daf.set_vector("obs", "color", ["#000001", "#000002"])
    assert "obs_colors" not in to_anndata(daf).uns


def test_columns_of_one_name_are_all_exported() -> None:
    """Pandas allows it; the second gets the name of its vector."""
    obs = pd.DataFrame([[1, 2]], columns=["a", "a"], index=["x"])
    daf = from_anndata(anndata.AnnData(obs=obs))
    assert axis_frame(daf, "obs")[0].to_dict("records") == [{"a": 1, "a_": 2}]


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_stays_behind_is_reported_by_name(tmp_path: Path, *, in_memory: bool) -> None:
    """Strings, vectors of other axes and matrices between them; colours of categoricals go along."""
    donors = {"name": ["d0", "d1"], "color": ["red", "blue"], "age": [30, 60]}
    sites = {"name": ["s0", "s1"], "color": ["green", "grey"]}
    labels = np.array([["a", "b"], ["c", "d"]])
    matrices = {("donor", "site", "visits"): np.ones((2, 2)), ("obs", "var", "labels"): labels}
    matrices["obs", "var_raw", "more"] = np.ones((2, 1))
    cells = {"name": ["o0", "o1"], "donor": ["d1", "d0"]}
    daf = data_set(obs=cells, var=2, donor=donors, site=sites, var_raw=["r"], matrices=matrices)
    expected = ["matrices/var/obs/labels", "vector 'age' of axis 'donor'"]
    expected += ["vector 'color' of axis 'site'", "matrix 'visits' of axes 'donor' and 'site'"]
    expected += ["matrix 'more' of axes 'obs' and 'var_raw'"]
    if in_memory:
        with pytest.warns(AnnDataWarning) as caught:
            adata = to_anndata(daf)
        ours = [each for each in caught if issubclass(each.category, AnnDataWarning)]
        found = [str(warning.message) for warning in ours]
    else:
        found = [item.what for item in export_h5ad(daf, tmp_path / "x.h5ad").items]
        adata = read(tmp_path / "x.h5ad")
    assert [name for name, text in zip(expected, found, strict=True) if name in text] == expected
    assert list(adata.uns["donor_colors"]) == ["red", "blue"]
    assert by_key(adata.layers) == {}


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_import_streams(tmp_path: Path) -> None:
    """Memory of its own is what it is given, not what the matrix has: 240 MB, twice."""
    rows, per_row = 30_000, 1_000
    write(tmp_path / "big.h5ad", {"X": sp.csr_matrix((rows, 2_000))})
    with h5py.File(tmp_path / "big.h5ad", "r+") as file:
        group = file["X"]
        for name in ("indptr", "indices", "data"):
            del group[name]
        group["indptr"] = np.arange(rows + 1) * per_row
        indices = group.create_dataset("indices", shape=(rows * per_row,), dtype="i4")
        data = group.create_dataset("data", shape=(rows * per_row,), dtype="f4")
        block = np.tile(np.arange(per_row, dtype="i4") * 2, 1_000)
        for start in range(0, rows * per_row, block.size):
            indices[start : start + block.size] = block
            data[start : start + block.size] = 1
    targets = [tmp_path / name for name in ("big.daf.zarr", "big.daf.zarr.zip")]
    peak = max(peaks(import_h5ad, tmp_path / "big.h5ad", targets, copy_bytes=1 << 26))
    assert peak < 0.5 * (rows * per_row * 8 / 2**20)
    for target in targets:
        daf = ZarrDaf(target)
        assert daf.matrix_info("obs", "var", "X").nnz == rows * per_row
        part = connect(daf).matrix("obs", "var", "X", rows=[rows - 1], columns=[0, 1, 2])
        assert part.to_numpy().tolist() == [[1, 0, 1]]


@pytest.mark.parametrize("rows", [0, 3])
def test_a_sparse_matrix_without_elements_is_exported(tmp_path: Path, rows: int) -> None:
    """It has no elements in the file either."""
    empty = sp.csr_matrix((rows, 2), dtype=np.float32)
    daf = data_set(cell=rows, gene=2, matrices={("cell", "gene", "X"): empty})
    export_h5ad(daf, tmp_path / "x.h5ad", obs_is="cell", var_is="gene")
    with h5py.File(tmp_path / "x.h5ad") as file:
        assert file["X/data"].shape == file["X/indices"].shape == (0,)
    found = anndata.read_h5ad(tmp_path / "x.h5ad").X
    assert (found.shape, found.nnz) == ((rows, 2), 0)


def test_raw_is_written_as_anndata_writes_it(tmp_path: Path) -> None:
    """With the encoding by which readers other than anndata know it."""
    adata = anndata.AnnData(np.eye(3), var=pd.DataFrame(index=["a", "b", "c"]))
    adata.raw = adata
    adata.write_h5ad(tmp_path / "theirs.h5ad")
    export_h5ad(from_anndata(adata), tmp_path / "ours.h5ad")
    found = []
    for name in ("theirs", "ours"):
        with h5py.File(tmp_path / f"{name}.h5ad") as file:
            every = {"": file["raw"]} | {part: file["raw"][part] for part in ("X", "var", "varm")}
            found.append({
                part: {key: group.attrs.get(f"encoding-{key}") for key in ("type", "version")}
                for part, group in every.items() if part != "X"
            })  # fmt: skip
    assert found[0] == found[1]
    assert found[0][""]["type"] == "raw"


@pytest.mark.parametrize("part", ["obs", "X", "layers/away", "uns/away", "obsm/away", "obs/away"])
@pytest.mark.parametrize("is_old", [False, True])
def test_links_to_other_files_are_not_followed(tmp_path: Path, part: str, is_old: bool) -> None:  # noqa: FBT001 - a parameter
    """The other file may be anything, also a named pipe; the error is that of a file in place."""
    adata = anndata.AnnData(np.eye(2), layers={"x": np.eye(2)}, uns={"a": 1}, obsm={"p": np.eye(2)})
    adata.write_h5ad(tmp_path / "in.h5ad")
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "in.h5ad", "r+") as file:
        if is_old:
            file["raw.X"] = np.eye(2)
        if part in file:
            del file[part]
        file[part] = h5py.ExternalLink("pipe", "/x")
    with pytest.raises(errors.UnsupportedDataError, match=f"{part}: it is a link to another file"):
        import_h5ad(tmp_path / "in.h5ad", tmp_path / "x.daf.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.h5ad", "pipe"]


@pytest.mark.parametrize("way", ["in place", "imported"])
def test_a_frame_of_obsm_with_names_of_another_type(way: str, tmp_path: Path) -> None:
    """Its names are those of obs again, which anndata requires, in memory and in an h5ad."""
    names = pd.Index(pd.array(["a", "b", "c"], dtype="string"))
    adata = anndata.AnnData(np.eye(3), obs=pd.DataFrame(index=names))
    adata.obsm["words"] = pd.DataFrame({"word": ["x", "y", "z"]}, index=adata.obs_names)
    path, out = tmp_path / "a.h5ad", tmp_path / "out.h5ad"
    with anndata.settings.override(allow_write_nullable_strings=True):
        adata.write_h5ad(path)
    daf = open_daf(path) if way == "in place" else MemoryDaf()
    if way == "imported":
        import_h5ad(path, cast("Any", daf), progress="never")
    export_h5ad(daf, out, progress="never")
    for found in (to_anndata(daf), read(out)):
        assert found.obsm["words"]["word"].tolist() == ["x", "y", "z"]
        assert found.obsm["words"].index.tolist() == found.obs_names.tolist() == ["a", "b", "c"]
    daf.close()


@pytest.mark.parametrize("mask", [[1, 0], [True]], ids=["integers", "short"])
def test_a_mask_of_strings_that_is_none(mask: list[Any], tmp_path: Path) -> None:
    """It is an error of the file: anndata would take numbers for positions."""
    path = tmp_path / "a.h5ad"
    strings: Any = pd.array(["x", "y"], dtype="string")
    adata = anndata.AnnData(np.eye(2), obs=pd.DataFrame({"s": strings}, index=["a", "b"]))
    with anndata.settings.override(allow_write_nullable_strings=True):
        adata.write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["obs/s/mask"]
        file["obs/s/mask"] = mask
    with pytest.raises(errors.FormatError, match=r"a\.h5ad: "):
        import_h5ad(path, MemoryDaf(), progress="never")


def test_an_interrupt_waits_for_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while HDF5 writes, which calls back, leaves no file and raises `KeyboardInterrupt`."""
    real, before = os.pwrite, signal.getsignal(signal.SIGINT)
    interrupted: list[int] = []

    def pwrite(*arguments: Any) -> int:
        if not interrupted:
            interrupted.append(1)
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    daf = from_anndata(read(PBMC))
    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(KeyboardInterrupt):
        export_h5ad(daf, tmp_path / "x.h5ad")
    assert interrupted
    assert signal.getsignal(signal.SIGINT) is before
    assert list(tmp_path.iterdir()) == []
    export_h5ad(daf, tmp_path / "x.h5ad")
