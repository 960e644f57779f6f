"""Files of AnnData that are read in place: what is read when, changes under an open data set, damage."""

from __future__ import annotations

import shutil
import time
import warnings
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from daf_query import connect
from daf_storage import AnnDataWarning, DafReader, errors, import_h5ad, open_daf, verify
from tests import seams
from tests.storage.anndata.example import FORMS, N_OBS, N_VAR, Form, consolidate, write
from tests.support import recorded_calls, recorded_reads


@pytest.fixture(scope="module")
def zarr_path(paths: dict[Form, Path]) -> Path:
    """Return the example as Zarr v3."""
    return paths["zarr3"]


@pytest.fixture(scope="module")
def h5ad_path(paths: dict[Form, Path]) -> Path:
    """Return the example as h5ad."""
    return paths["h5ad"]


def look_at_metadata(daf: DafReader) -> None:
    """Ask for the lengths of all axes, and what is known of all matrices."""
    axes = sorted(daf.axes_set())
    for axis in axes:
        daf.axis_length(axis)
    for rows in axes:
        for columns in axes:
            for name in daf.matrices_set(rows, columns, relayout=False):
                assert daf.matrix_info(rows, columns, name).storage_type is not None


ALLOWED = (
    *("categories", "mask", "empty_and_gaps/codes", "empty_category/codes"),
    *("ambiguous/values", "missing/values", "large/values", "nullable/values"),
)
"""What the names and the types of vectors may depend on."""
INDEX_MASKS = ("obs/barcode/mask", "var/_index/mask")
"""Of names, which anndata 0.13 writes with a mask: whether one is missing is looked at once."""


@pytest.mark.sampled(0)
def test_opening_a_zarr_reads_no_data(zarr_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata alone, but for the names of axes in uns; listing vectors reads categories."""
    with recorded_reads(monkeypatch) as reads:
        daf = open_daf(zarr_path)
        look_at_metadata(daf)
        chunks = {key for key in reads.keys if "zarr.json" not in key}
        assert {key for key in chunks if not key.startswith("uns/X_is")} == set()
        reads.clear()
        for name in daf.vectors_set("obs"):
            daf.vector_info("obs", name)
        chunks = {key for key in reads.keys if "zarr.json" not in key}
    assert [key for key in sorted(chunks) if not any(part in key for part in ALLOWED)] == []


def test_opening_an_h5ad_reads_no_data(h5ad_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of HDF5."""
    read = [
        recorded_calls(monkeypatch, f"{seams.HDF5_ARRAY}.{method}", lambda array, *_: array.what)
        for method in ("read", "read_rows", "read_spans", "read_strings")
    ]
    with open_daf(h5ad_path) as daf:
        look_at_metadata(daf)
        assert [what for what in chain(*read) if not what.endswith(INDEX_MASKS)] == []
        for name in daf.vectors_set("obs"):
            daf.vector_info("obs", name)
    assert [what for what in chain(*read) if not any(part in what for part in ALLOWED)] == []


def adata_of(codes: list[int], values: Any, column: str = "kind") -> Any:
    """Return a small AnnData."""
    obs = pd.DataFrame({column: pd.Categorical.from_codes(np.array(codes), pd.Index(["a", "b"]))})
    obs.index = obs.index.map(str)
    return anndata.AnnData(sp.csr_matrix(np.asarray(values, np.float32)), obs=obs)


def test_a_file_that_is_rewritten_under_an_open_session(tmp_path: Path) -> None:
    """Each query sees what is in the file now: other values, and other columns."""
    path = tmp_path / "atlas.h5ad"
    versions = [
        adata_of([0, 0, 1], [[1, 0], [0, 2], [3, 0]]),
        adata_of([1, 0, 1], [[1, 0], [0, 2], [5, 0]]),
        adata_of([1, 1, 1], [[1, 0], [0, 2], [7, 0]], column="type"),
    ]
    for number, version in enumerate(versions):
        version.write_h5ad(tmp_path / f"{number}.h5ad")
    shutil.copyfile(tmp_path / "0.h5ad", path)
    with connect(path) as session:
        for number, version in enumerate(versions):
            shutil.copyfile(tmp_path / f"{number}.h5ad", path)  # the same file, in place
            column = version.obs.columns[0]
            found = session.sql(f"SELECT {column} AS c, X['0'] AS x FROM obs ORDER BY index")
            assert found.to_pydict() == {
                "c": version.obs[column].tolist(),
                "x": version.X.toarray()[:, 0].tolist(),
            }
            values = session.matrix("obs", "var", "X").to_numpy()
            np.testing.assert_array_equal(values, version.X.toarray())


def damaged(path: Path, folder: Path, change: Callable[[Any], None]) -> Path:
    """Return a copy of an h5ad that was changed."""
    copy = folder / "damaged.h5ad"
    shutil.copy(path, copy)
    with h5py.File(copy, "r+") as file:
        change(file)
    return copy


def without(name: str) -> Callable[[Any], None]:
    """Return what deletes a part of a file."""

    def change(file: Any) -> None:
        del file[name]

    return change


def with_values(name: str, values: Any) -> Callable[[Any], None]:
    """Return what replaces a dataset."""

    def change(file: Any) -> None:
        del file[name]
        file[name] = values

    return change


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("obs/float32"), "float32"),
        (without("obs/category/codes"), "category"),
        (with_values("obs/category/codes", np.full(N_OBS, 7, np.int8)), "category"),
        (with_values("obs/with_gaps/codes", np.full(N_OBS, -2, np.int8)), "with_gaps"),
        (without("obs/nullable/values"), "nullable"),
        (with_values("obs/nullable/mask", np.zeros(3, bool)), "nullable"),
        (with_values("obs/missing/mask", np.zeros(3, bool)), "missing"),
        (with_values("obs/missing/mask", np.zeros(N_OBS, np.int8)), "missing"),
        (with_values("obs/categories_string/categories/mask", [True] * 3), "categories_string"),
        (without("obs/categories_string/categories"), "categories_string"),
        (with_values("obs/int8", np.zeros(N_OBS + 1, np.int8)), "int8"),
        (with_values("obs/missing/values", np.zeros(N_OBS, np.int8)), "missing"),
        (with_values("obs/nullable/values", np.zeros(N_OBS)), "nullable"),
        (without("X/indptr"), "X.*indptr"),
        (without("X/data"), "X.*data|X"),
        (with_values("X/indptr", np.zeros(N_OBS + 1, np.int32)), "colptr"),
        (with_values("X/indices", np.zeros(3, np.int32)), "X|counts"),
        (with_values("X/indptr", np.zeros((N_OBS + 1, 1), np.int32)), "X: indptr is no list"),
        (with_values("X/indptr", np.zeros(N_OBS + 1)), "X: indptr is no list"),
        (lambda file: file["X"].attrs.modify("shape", [N_OBS, N_VAR + 1]), "shape|counts"),
        (lambda file: file["X"].attrs.__setitem__("shape", [1]), "shape"),
    ],
    ids=[
        *("missing", "no codes", "codes", "negative", "no values", "short mask"),
        *("short mask of strings", "integers as mask", "missing categories", "no categories"),
        *("long", "integers as strings", "floats as integers"),
        *("no indptr", "no data", "indptr", "indices", "two", "floats", "shape", "not two"),
    ],
)
def test_a_damaged_part_takes_itself_only(
    change: Callable[[Any], None], message: str, h5ad_path: Path, tmp_path: Path
) -> None:
    """Its error names the column, or what is wrong with the matrix; all others are read."""
    with open_daf(damaged(h5ad_path, tmp_path, change)) as daf:
        is_column = message in daf.vectors_set("obs")
        kind = errors.CorruptDataError if is_column else errors.FormatError
        read: Any = daf.get_np_vector if is_column else daf.get_np_matrix
        with pytest.raises(kind, match=message):
            read("obs", *([message] if is_column else ["var", "counts"]))
        for column in ("uint64", "strings"):
            assert daf.get_np_vector("obs", column).size == N_OBS
        assert daf.get_np_matrix("obs", "var", "dense").shape == (N_OBS, N_VAR)
        assert daf.description()


def test_names_of_vectors_are_listed_without_masks(
    h5ad_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers and booleans of which some are missing have no second vector."""
    read = recorded_calls(monkeypatch, seams.HDF5_ARRAY_READ, lambda array, *_: array.what)
    with open_daf(h5ad_path) as daf:
        assert "nullable" in daf.vectors_set("obs")
        assert not [what for what in read if "nullable/mask" in what]
        assert daf.get_np_vector("obs", "nullable").size == N_OBS
        assert [what for what in read if "nullable/mask" in what]


def test_the_genes_of_raw_need_no_order_of_columns(h5ad_path: Path, tmp_path: Path) -> None:
    """Not every program writes it."""
    path = damaged(h5ad_path, tmp_path, lambda file: file["raw/var"].attrs.pop("column-order"))
    with open_daf(path) as daf, open_daf(h5ad_path) as whole:
        raw = whole.axis_entries("var_raw").tolist()
        assert daf.axis_entries("var_raw").tolist() == raw


@pytest.mark.parametrize("part", ["obs/barcode", "var/_index", "var"])
def test_without_an_axis_there_is_no_data_set(part: str, h5ad_path: Path, tmp_path: Path) -> None:
    """Opening says what is missing."""
    with pytest.raises(errors.FormatError, match=part.split("/", maxsplit=1)[0]):
        open_daf(damaged(h5ad_path, tmp_path, without(part)))


def test_an_index_that_is_gone_while_a_zarr_is_open(zarr_path: Path, tmp_path: Path) -> None:
    """What needs it says so from then on, also columns, whose length it is."""
    path = tmp_path / zarr_path.name
    shutil.copytree(zarr_path, path)
    with open_daf(path) as daf:
        assert daf.get_np_vector("obs", "int8").size == N_OBS
        shutil.rmtree(path / "obs" / "barcode")
        for column in ("int8", "uint64"):
            with pytest.raises(errors.CorruptDataError, match="obs/barcode'? is missing"):
                daf.get_np_vector("obs", column)


def test_a_zarr_that_is_rewritten_under_an_open_session(tmp_path: Path) -> None:
    """Codes, categories and a scalar written in place, a column more, the other Zarr version."""
    adata = adata_of([0, 0, 1], [[1, 0], [0, 2], [3, 0]])
    adata.uns["half"] = np.float16(2)
    path = write(adata, tmp_path, "zarr3")
    with connect(path) as session, open_daf(path) as daf:
        query = "SELECT * FROM obs ORDER BY index"
        assert session.sql(query).to_pydict()["kind"] == ["a", "a", "b"]
        group: Any = zarr.open_group(path, mode="r+")
        group["obs/kind/codes"][:] = [1, 1, 0]
        assert session.sql(query).to_pydict()["kind"] == ["b", "b", "a"]
        group["obs/kind/categories"][:] = np.array(["A", "B"], object)
        time.sleep(0.02)
        assert session.sql(query).to_pydict()["kind"] == ["B", "B", "A"]
        assert daf.get_scalar("half") == 2
        group["uns/half"][...] = np.float16(3)
        time.sleep(0.02)
        assert daf.get_scalar("half") == 3
        group["obs"].create_array("n", data=np.arange(3))
        group["obs"].attrs["column-order"] = ["kind", "n"]
        time.sleep(0.02)
        assert session.sql(query).to_pydict()["n"] == [0, 1, 2]
        write(adata, tmp_path, "zarr2")
        assert session.sql(query).to_pydict()["kind"] == ["a", "a", "b"]


def test_columns_are_listed_without_objects_of_h5py(
    h5ad_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which take longer to make than HDF5 to open the dataset."""
    made = recorded_calls(
        monkeypatch,
        (h5py.Dataset, "__init__"),
        lambda _, bind, **__: h5py.h5i.get_name(bind).decode(),
    )
    with open_daf(h5ad_path) as daf:
        infos = dict(daf.vector_infos("obs"))
    numbers = {"float32", "float64", "int8", "uint64", "bool"}
    assert numbers <= infos.keys()
    assert not [name for name in made if name.removeprefix("/obs/") in numbers]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FORMS)
def test_all_vectors_at_once_are_those_of_each(paths: dict[Form, Path], form: Form) -> None:
    """Their types, or the errors, in alphabetical order; names that do not exist are none."""
    with open_daf(paths[form]) as daf:
        listed = daf.tree.listing_identity("vectors/obs")
        for axis in sorted(daf.axes_set()):
            expected = {name: daf.vector_info(axis, name) for name in sorted(daf.vectors_set(axis))}
            assert list(daf.vector_infos(axis)) == list(expected.items())
            opened = dict(daf.open_vectors(axis))
            assert {name: getattr(found, "info", found) for name, found in opened.items()} == (
                expected
            )
        assert daf.tree.listing_identity("vectors/obs") == listed
        assert "cannot be read" not in daf._repr_html_()
        with pytest.raises(errors.AxisNotFoundError):
            list(daf.vector_infos("none"))


def copied(path: Path, folder: Path) -> Path:
    """Return a copy of a Zarr directory."""
    return Path(shutil.copytree(path, folder / "copy.zarr"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_wrong_with_what_anndata_wrote(form: Form, paths: dict[Form, Path]) -> None:
    """Verifying the example finds two columns that are called as another axis, in any form."""
    found = {finding.path for finding in verify(paths[form], progress="never")}
    assert found == {"vectors/var/category", "vectors/var_raw/category"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["[]", None], ids=["list", "missing"])
@pytest.mark.parametrize("part", ["layers", "obsm", "uns", "raw"])
def test_a_damaged_group_of_a_zarr_takes_itself_only(
    part: str, text: str | None, zarr_path: Path, tmp_path: Path
) -> None:
    """A warning says that it is not shown, and verifying it is an error."""
    copy = copied(zarr_path, tmp_path)
    document = copy / part / "zarr.json"
    document.unlink() if text is None else document.write_text(text)
    with pytest.warns(AnnDataWarning, match=f"^{part} is not shown: .*{part}: "):
        daf = open_daf(copy)
    with daf:
        assert dict(daf.tree.remarks())[part].startswith("not shown")  # type: ignore[attr-defined]
        assert daf.get_np_vector("obs", "uint64").size == N_OBS
    with pytest.warns(AnnDataWarning):
        found = verify(copy, progress="never")
    assert ("error", part) in {(finding.level, finding.path) for finding in found}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", ["X", "layers", "obsm", "raw", "raw/var"])
def test_a_damaged_group_of_an_h5ad_takes_itself_only(
    part: str, h5ad_path: Path, tmp_path: Path
) -> None:
    """Whether HDF5 cannot open it or cannot list it, verifying it is an error."""
    with h5py.File(h5ad_path) as file:
        header = h5py.h5o.get_info(file[part].id).addr
    copy = tmp_path / "copy.h5ad"
    for offset in (0, 40):
        data = bytearray(h5ad_path.read_bytes())
        data[header + offset] = 0xFF
        copy.write_bytes(data)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = verify(copy, progress="never")
        assert any(finding.level == "error" for finding in found), offset
        top = part.split("/", maxsplit=1)[0]
        assert part == "X" or any(str(each.message).startswith(top) for each in warned)


@pytest.mark.parametrize(("part", "text"), [("obs", "null"), ("var", "null"), ("X", "[]")])
def test_damaged_metadata_of_a_zarr(part: str, text: str, zarr_path: Path, tmp_path: Path) -> None:
    """The error says what is wrong: of a frame when it is opened, of X for who uses it."""
    copy = copied(zarr_path, tmp_path)
    (copy / part / "zarr.json").write_text(text)
    message = f"{part}: zarr.json holds no JSON object"

    def read(name: str) -> Any:
        with open_daf(copy) as daf:
            return daf.get_np_matrix("obs", "var", name)

    with pytest.raises(errors.CorruptDataError, match=message):
        read("counts")
    if part == "X":
        assert read("dense").shape == (N_OBS, N_VAR)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("gone", "level", "path"),
    [
        ("layers/dense/zarr.json", "error", "layers/dense"),
        ("X/indices/c/1", "error", "matrices/var/obs/counts"),
        ("X/data/c/1", "warning", "X/data"),
        ("layers/dense/c/0/0", "warning", "layers/dense/c/0"),
    ],
    ids=["consolidated", "indices", "data", "folder"],
)
def test_files_that_are_missing(
    gone: str, level: str, path: str, zarr_path: Path, tmp_path: Path
) -> None:
    """They are noticed where consolidated metadata, other chunks or their folder speak of them."""
    copy = copied(zarr_path, tmp_path)
    root: Any = zarr.open_group(copy, mode="r+", use_consolidated=False)
    for name in ("data", "indices"):
        values = root["X"][name][:]
        del root["X"][name]
        root["X"].create_array(name, data=values, chunks=(50,))
    root.create_array("layers/dense", data=np.ones((N_OBS, N_VAR)), overwrite=True)
    consolidate(copy)
    before = set(verify(copy, progress="never"))
    (copy / gone).unlink()
    found = set(verify(copy, progress="never")) - before
    assert {(finding.level, finding.path) for finding in found} == {(level, path)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["zarr2", "zarr3", "zip"])
@pytest.mark.parametrize("chunk", [50, None], ids=["chunks", "whole"])
def test_positions_that_are_missing_are_never_made_up(
    form: Form, chunk: int | None, paths: dict[Form, Path], tmp_path: Path
) -> None:
    """Where a row would have several elements in one place, reading is an error, in all ways."""
    copy = tmp_path / "copy.zarr"
    if form == "zip":
        with zipfile.ZipFile(paths[form]) as archive:
            archive.extractall(copy)
    else:
        shutil.copytree(paths[form], copy)
    root: Any = zarr.open_group(copy, mode="r+", use_consolidated=False)
    values = root["X/indices"][:]
    del root["X/indices"]
    root["X"].create_array("indices", data=values, chunks=(chunk or values.size,), compressors=None)
    key = root["X/indices"].metadata.encode_chunk_key((1 if chunk else 0,))
    (copy / "X/indices" / key).unlink()
    consolidate(copy)
    path = Path(shutil.make_archive(str(copy), "zip", copy)) if form == "zip" else copy
    message = f"matrices/var/obs/counts: .*X/indices(: the chunk file '{key}')? is missing"
    for _ in range(2):
        with open_daf(path) as daf, pytest.raises(errors.CorruptDataError, match=message):
            daf.get_np_matrix("obs", "var", "counts")
    with connect(path) as session, pytest.raises(errors.CorruptDataError, match=message):
        session.matrix("obs", "var", "counts", columns=[0, 3]).to_scipy()
    with pytest.raises(errors.CorruptDataError, match=message):
        import_h5ad(path, tmp_path / "made.daf.zarr")
