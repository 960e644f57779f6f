"""Tests of the parts of an AnnData that Daf has no place for: kept, carried along, given back."""

from __future__ import annotations

import io
import json
import re
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from anndata.tests.helpers import gen_typed_df

from daf_storage import (
    AnnDataWarning,
    DafWriter,
    H5df,
    MemoryDaf,
    ZarrDaf,
    convert,
    copy_all,
    errors,
    export_h5ad,
    from_anndata,
    import_h5ad,
    open_daf,
    repair,
    to_anndata,
    verify,
    view,
)
from daf_storage.data import kept
from tests import seams
from tests.storage.stores.test_zip_crashes import reference_append
from tests.suites.examples import array_of, write_stored
from tests.support import data_set, served

NAMES = ["x.daf.zarr", "x.daf.zarr.zip", "x.dafs.zarr.zip#/one", "x.h5df", "x.h5dfs#/one"]
N, M = 12, 5


PARTS = ("X", "obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns", "raw")


def assert_alike(one: Any, other: Any, what: str = "") -> None:
    """Compare two values of any kind: types, dtypes, shapes, labels and elements; NaN equals NaN."""
    if hasattr(other, "varm"):  # an AnnData, or its raw
        one, other = ({part: getattr(each, part, None) for part in PARTS} for each in (one, other))
    elif isinstance(other, Mapping):
        one, other = dict(one), dict(other)
    assert type(one) is type(other), (what, type(one), type(other))
    if isinstance(other, list | tuple):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(other, dict):
        assert set(one) == set(other), what
        for key in other:
            assert_alike(one[key], other[key], f"{what}[{key!r}]")
    elif isinstance(other, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    elif sp.issparse(other):
        assert (one.shape, one.dtype, one.format) == (other.shape, other.dtype, other.format), what
        assert np.array_equal(one.toarray(), other.toarray()), what
    elif isinstance(other, np.ndarray):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), (what, one.dtype, other.dtype)
        assert repr(one.tolist()) == repr(other.tolist()), what
    elif isinstance(other, pd.api.extensions.ExtensionArray):
        pd.testing.assert_extension_array_equal(one, other)
    else:
        assert repr(one) == repr(other), what


def without_axis_keys(adata: Any) -> Any:
    """Take away the three keys that every export adds to ``uns``."""
    for key in ("obs_is", "var_is", "X_is"):
        del adata.uns[key]
    return adata


def read(path: Path) -> Any:
    """Read an h5ad file with anndata itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.read_h5ad(path)


@pytest.fixture
def odd() -> Any:
    """Return an AnnData that has something without a home in Daf in every part."""
    random = np.random.default_rng(0)
    cells, genes = [f"cell{i}" for i in range(N)], [f"gene{i}" for i in range(M)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        obs = gen_typed_df(N, pd.Index(cells))
        frame = gen_typed_df(N, pd.Index(cells))
    obs.insert(1, "complex", random.random(N) + 1j)
    adata = anndata.AnnData(
        X=random.random((N, M)) + 1j * random.random((N, M)),
        obs=obs,
        var=pd.DataFrame({"c": np.arange(M) * 1j, "n": range(M)}, index=genes),
        layers={
            "counts": sp.random(N, M, density=0.3, format="csr", rng=random),
            "deep": random.random((N, M, 2)),
        },
        obsm={
            "deep": random.random((N, 3, 2)),
            "frame": frame,
            "pca": random.random((N, 3)),
            "mixed": pd.DataFrame(
                {"i": [2**60 + i for i in range(N)], "f": random.random(N)}, cells
            ),
            "complex": random.random((N, 2)) * 1j,
        },
        varm={"deep": random.random((M, 2, 2)), "text": np.array([["a", "b"]] * M, dtype=object)},
        obsp={"complex": random.random((N, N)) * 1j, "plain": random.random((N, N))},
        varp={"complex": sp.csr_matrix(np.eye(M) * 1j)},
        uns=uns(),
    )
    adata.raw = anndata.AnnData(
        X=np.arange(N * 7).reshape(N, 7) * 1j,
        obs=adata.obs[[]],
        var=pd.DataFrame({"c": np.arange(7) * 1j}, index=[f"r{i}" for i in range(7)]),
        varm={"deep": random.random((7, 2, 2))},
    )
    return adata


def uns() -> dict[str, Any]:
    """Return values of ``uns`` that Daf has no scalars of, and that anndata writes as they are."""
    random = np.random.default_rng(1)
    names = np.array([("g1", 1.5, 2), ("g2", np.nan, 3)], [("n", "O"), ("s", "f4"), ("k", "i8")])
    return {
        "paga": {
            "connectivities": sp.csr_matrix(random.random((4, 4))),
            "groups": "louvain",
            "pos": random.random((4, 2)),
        },
        "spatial": {"lib": {"images": {"hires": random.integers(0, 255, (90, 80, 3), np.uint8)}}},
        "large": random.random(50_000),
        "csc": sp.csc_matrix(np.eye(3, dtype=np.float32)),
        "frame": gen_typed_df(6, pd.Index(list("abcdef"))),
        "frame of nothing": pd.DataFrame(index=pd.Index(list("ab"))),
        "frame with numbers": pd.DataFrame({"x": [1.5, np.nan]}, index=pd.Index([3, 5], name="i")),
        "records": names,
        "many records": np.tile(names, 20_000),
        "bytes": np.array([b"a", b"bb"]),
        "complex": np.array([1j, 2]),
        "half": np.ones(3, np.float16),
        "deep": random.random((2, 3, 4)),
        "empty": np.zeros((0, 3)),
        "no text": np.array([], dtype=object),
        "text": np.array(["a", "", "é"], dtype=object),
        "much text": np.array([f"text {i}" for i in range(20_000)], dtype=object),
        "nullable": pd.array([1, None, 3], dtype="Int32"),
        "flags": pd.array([True, None], dtype="boolean"),
        "strings": pd.array(["a", None], dtype="string"),
        "categories": pd.Categorical(["b", None], ["b", "a"], ordered=True),
        "nothing": None,
        "none": {},
        "nested": {"a": {"b": {"c": 1, "d": "x", "e": np.float32(2)}}},
        "flag": True,
    }


@pytest.fixture
def odd_path(odd: Any, tmp_path: Path) -> Path:
    """Return the path of an h5ad file of it."""
    with anndata.settings.override(allow_write_nullable_strings=True):
        odd.write_h5ad(tmp_path / "in.h5ad")
    return tmp_path / "in.h5ad"


class TestRoundTrip:
    @pytest.mark.sampled(0)
    def test_from_a_file_through_every_format(self, odd_path: Path, tmp_path: Path) -> None:
        """Anndata reads the same from both files, whatever the format between them."""
        expected = read(odd_path)
        report = import_h5ad(odd_path, tmp_path / NAMES[0], strict=True)
        assert {item.kind for item in report.items} == {"kept"}
        kept_parts = {item.what for item in report.items}
        assert {"X", "raw.X", "obs['complex']", "obsm['deep']"} <= kept_parts
        for source, name in zip([NAMES[0], *NAMES], NAMES, strict=False):
            if source != name:
                convert(tmp_path / source, tmp_path / name)
            with open_daf(tmp_path / name) as daf:
                report = export_h5ad(daf, tmp_path / "out.h5ad", strict=True, if_exists="replace")
                assert report.items == [], name
                assert_alike(without_axis_keys(to_anndata(daf)), expected)
            assert_alike(without_axis_keys(read(tmp_path / "out.h5ad")), expected)
            assert verify(tmp_path / name) == []

    def test_an_object_in_memory(self, odd: Any, odd_path: Path) -> None:
        """What is kept is what an h5ad file of it would be; what none can hold is named."""
        expected = read(odd_path)
        odd.uns["keys"] = {1: "a", "b": {"c": 2, "d": {3}}}
        odd.obs["span"] = pd.to_timedelta([None, *range(1, N)])
        odd.obs["period"] = pd.period_range("2020", periods=N, freq="M")
        odd.obs["twice"] = pd.Categorical([1, "1"] * (N // 2), [1, "1"])
        with pytest.warns(AnnDataWarning) as warned:
            found = to_anndata(from_anndata(odd))
        assert {str(warning.message).split(": ", 1)[0] for warning in warned} == {
            *("uns['keys'][1]", "uns['keys']['b']['d']", "obs['period']", "obs['twice']")
        }
        expected.uns["keys"] = {"b": {"c": 2}}
        expected.obs["span"] = odd.obs["span"]
        expected.obs["period"] = odd.obs["period"].astype(str)
        assert_alike(without_axis_keys(found), expected)

    def test_elements_that_no_package_here_can_read(self, odd_path: Path, tmp_path: Path) -> None:
        """Such as awkward arrays: copied as they are; reports name them of which a view has some."""
        with h5py.File(odd_path, "r+") as file:
            for part in ("uns", "obsm", "layers", "varm"):
                group = file[part].create_group("foreign")
                group.attrs.update({"encoding-type": "of tomorrow", "encoding-version": "9"})
                group["data"] = np.arange(3)
                group["data"].attrs["unit"] = "mm"
        import_h5ad(odd_path, tmp_path / "x.daf.zarr", strict=True)
        export_h5ad(ZarrDaf(tmp_path / "x.daf.zarr"), tmp_path / "out.h5ad", strict=True)
        with h5py.File(tmp_path / "out.h5ad") as file:
            for part in ("uns", "obsm", "layers", "varm"):
                group = file[part]["foreign"]
                assert group.attrs["encoding-type"] == "of tomorrow"
                assert group["data"][:].tolist() == [0, 1, 2]
                assert group["data"].attrs["unit"] == "mm"
        chosen = view(ZarrDaf(tmp_path / "x.daf.zarr"), {"obs": [1, 0]})
        items = export_h5ad(chosen, tmp_path / "some.h5ad").items
        lost = [item.what for item in items if "cannot be read" in item.message]
        assert lost == ["obsm['foreign']", "layers['foreign']"]

    def test_no_part_leads_to_another_file(self, tmp_path: Path) -> None:
        """A data set of another user does not bring a file of this machine into an export."""
        anndata.AnnData(np.eye(2)).write_h5ad(tmp_path / "in.h5ad")
        with h5py.File(tmp_path / "in.h5ad", "r+") as file:
            group = file["uns"].create_group("foreign")
            group.attrs.update({"encoding-type": "of tomorrow", "encoding-version": "9"})
        import_h5ad(tmp_path / "in.h5ad", tmp_path / "x.daf.zarr")
        with ZarrDaf(tmp_path / "x.daf.zarr", "r+") as daf:
            path, array = next(iter(kept.arrays(daf.tree).items()))
            image = io.BytesIO(array.read().tobytes())
            with h5py.File(image, "r+") as file:
                file["away"] = h5py.ExternalLink(str(tmp_path / "in.h5ad"), "/")
            with daf.writable_tree.transaction() as changes, daf.writable_tree.lock():
                changes.remove(path)
                changes.write_array(path, np.frombuffer(image.getvalue(), np.uint8))
                changes.publish(path, replace=False)
        with (
            ZarrDaf(tmp_path / "x.daf.zarr") as daf,
            pytest.raises(errors.UnsupportedDataError, match="away: it is a link to another file"),
        ):
            to_anndata(daf)

    def test_frames_of_anndata_0_7_in_uns(self, tmp_path: Path) -> None:
        """Their categoricals refer to a group beside them, which a plain copy would lose."""
        anndata.AnnData(np.eye(2)).write_h5ad(tmp_path / "in.h5ad")
        with h5py.File(tmp_path / "in.h5ad", "r+") as file:
            frame = file["uns"].create_group("old")
            frame.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.1.0"})
            frame.attrs.update({"_index": "_index", "column-order": ["kind"]})
            frame["_index"], frame["kind"] = np.array([b"a", b"b"]), np.array([1, -1], "i1")
            frame["__categories/kind"] = np.array([b"x", b"y"])
            frame["__categories/kind"].attrs["ordered"] = True
            frame["kind"].attrs["categories"] = frame["__categories/kind"].ref
        expected = read(tmp_path / "in.h5ad").uns["old"]
        assert expected["kind"].tolist()[0] == "y"
        import_h5ad(tmp_path / "in.h5ad", tmp_path / "x.daf.zarr", strict=True)
        daf = ZarrDaf(tmp_path / "x.daf.zarr")
        export_h5ad(daf, tmp_path / "out.h5ad", strict=True)
        pd.testing.assert_frame_equal(to_anndata(daf).uns["old"], expected)
        pd.testing.assert_frame_equal(read(tmp_path / "out.h5ad").uns["old"], expected)


def small(destination: DafWriter | None = None) -> tuple[DafWriter, Any]:
    """Return a data set with something kept along each axis, and the AnnData that it was."""
    random = np.random.default_rng(2)
    adata = anndata.AnnData(
        X=random.random((3, 2)),
        obs=pd.DataFrame({"z": np.arange(3) * 1j}, index=list("abc")),
        var=pd.DataFrame({"z": np.arange(2) * 1j}, index=list("xy")),
        layers={"z": sp.csr_matrix(np.arange(6).reshape(3, 2) * 1j)},
        obsm={
            "deep": random.random((3, 2, 2)),
            "text": pd.DataFrame(
                {"t": ["1", "2", "3"], "c": pd.Categorical(list("uvu"))}, list("abc")
            ),
        },
        varm={"deep": random.random((2, 2, 2))},
        obsp={"z": np.arange(9).reshape(3, 3) * 1j},
        uns={"table": pd.DataFrame({"a": [1]}, index=["r"])},
    )
    return from_anndata(adata, destination, strict=True), adata


@pytest.fixture
def small_path(tmp_path: Path) -> Path:
    """Return the path of such a data set."""
    with ZarrDaf(tmp_path / "x.daf.zarr", "w") as daf:
        small(daf)
    return tmp_path / "x.daf.zarr"


def writers(path: Path) -> list[DafWriter]:
    """Return an empty data set of each format in which an axis can be reordered."""
    made = [ZarrDaf(path / "a.daf.zarr", "w"), H5df(path / "a.h5df", "w")]
    made.append(ZarrDaf(path / "b.daf.zarr", "w", zarr_format=3, packed=True))
    return [MemoryDaf(), *made]


class TestAxes:
    def test_reordering_moves_what_is_aligned(self, tmp_path: Path) -> None:
        """As anndata itself indexes the parts; what belongs to no axis stays."""
        for daf in writers(tmp_path):
            small(daf)
            _, adata = small()
            daf.reorder_axis("obs", ["c", "a", "b"])
            daf.reorder_axis("var", [1, 0])
            expected = adata[[2, 0, 1], [1, 0]].copy()
            assert_alike(without_axis_keys(to_anndata(daf)), expected)

    def test_reordering_goes_on_after_a_crash(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failure in the middle leaves the old order of everything."""
        daf = writers(tmp_path)[1]
        _, adata = small(daf)
        add = seams.real(seams.WRITE_ELEMENT)

        def fail(group: Any, name: str, value: Any) -> None:
            if isinstance(value, pd.DataFrame):
                raise OSError("disk full")
            add(group, name, value)

        with monkeypatch.context() as patch:
            patch.setattr(seams.WRITE_ELEMENT, fail)
            with pytest.raises(OSError, match="disk full"):
                daf.reorder_axis("obs", [2, 1, 0])
        assert_alike(without_axis_keys(to_anndata(daf)), adata)
        daf.reorder_axis("obs", [2, 1, 0])
        assert to_anndata(daf).obs["z"].tolist() == [2j, 1j, 0]
        assert to_anndata(daf).obsm["text"]["t"].tolist() == ["3", "2", "1"]

    def test_an_axis_takes_what_is_aligned_with_it(self) -> None:
        """When it is deleted, or replaced; what belongs to the other axis, or to none, stays."""
        daf, _ = small()
        copy_all(daf, copy := MemoryDaf())
        copy.delete_axis("obs")
        assert {part.part for part in kept.parts(copy.tree)} == {"var", "varm", "uns"}
        daf.add_axis("obs", ["p", "q", "r"], if_exists="replace")
        assert to_anndata(daf).obsm == {}
        assert to_anndata(daf).obs.columns.tolist() == []

    def test_other_axes_are_said_to_have_parts(self, tmp_path: Path) -> None:
        """An export of other axes names what belongs to these."""
        daf, _ = small()
        report = export_h5ad(daf, tmp_path / "x.h5ad", obs_is="var", var_is="obs")
        assert "obsm['deep']: it belongs to axes that are not exported" in str(report)

    @pytest.mark.parametrize(
        ("value", "shape"),
        [
            (np.zeros((4, 2, 2)), "(4, 2, 2)"),
            (np.array(1.5), "()"),
            ({"of a/b": np.zeros((3, 2))}, "()"),
            (pd.DataFrame({"t": ["x"] * 4}), "(4, 1)"),
        ],
    )
    def test_a_value_that_does_not_fit_its_axis(
        self, tmp_path: Path, value: Any, shape: str
    ) -> None:
        """As after a change by another program: it is named, not given back."""
        daf = data_set(obs=list("abc"), var=list("xy"))
        image = kept.image_of("obsm", "deep", kept.writer_of(value))
        kept.keep(daf.writable_tree, "anndata/vectors/obs/obsm.deep", image)
        said = re.escape(f"obsm['deep']: it has the shape {shape}")
        with pytest.warns(AnnDataWarning, match=said):
            assert "deep" not in to_anndata(daf).obsm
        assert "obsm['deep']: it has the shape" in str(export_h5ad(daf, tmp_path / "x.h5ad"))

    def test_parts_wait_for_other_writers(self, tmp_path: Path) -> None:
        """Also to make the groups on their way: two imports of two processes both made them."""
        path, part = tmp_path / "x.daf.zarr", "anndata/uns/deep"
        with data_set(open_daf(path, "w"), obs=2) as daf, open_daf(path, "r+") as other:
            image, tree = (
                kept.image_of("uns", "deep", kept.writer_of({"a": 1})),
                other.writable_tree,
            )
            thread = threading.Thread(target=kept.keep, args=(tree, part, image))
            with daf.writable_tree.lock():
                thread.start()
                thread.join(0.2)
                assert not (path / "anndata").exists()
            thread.join()
            assert tree.kind(part) == "array"


class TestTravel:
    @pytest.mark.parametrize("options", [{"packed": True}, {"zarr_format": 3}, {"link": True}])
    def test_conversions(self, small_path: Path, tmp_path: Path, options: dict[str, Any]) -> None:
        """Packed, of another version of Zarr, or sharing files; served, and downloaded."""
        path, (_, adata) = tmp_path / "y.daf.zarr", small()
        convert(small_path, path, **options)
        assert verify(path) == []
        with served(path) as server:
            convert(server.url, tmp_path / "z.daf.zarr")
            for source in (path, server.url, tmp_path / "z.daf.zarr"):
                with open_daf(source) as daf:
                    assert_alike(without_axis_keys(to_anndata(daf)), adata)

    def test_plain_readers_see_bytes(self, small_path: Path, tmp_path: Path) -> None:
        """For zarr and h5py it is a group of arrays of bytes, each an HDF5 file of its own."""
        array: Any = zarr.open_group(small_path, mode="r")["anndata/scalars/uns.table"]
        assert array.dtype == np.uint8
        with h5py.File(io.BytesIO(array[:].tobytes())) as file:
            assert dict(file.attrs) == {"part": "uns", "key": "table"}
            assert anndata.io.read_elem(file["elements/0"]).to_dict("list") == {"a": [1]}
        convert(small_path, tmp_path / "x.h5df")
        with h5py.File(tmp_path / "x.h5df") as file:
            assert file["anndata/scalars/uns.table"][:].tolist() == array[:].tolist()

    def test_nothing_is_read_at_open(
        self, small_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither opening, nor a vector, nor a summary opens an image."""
        opened = mock.Mock(side_effect=AssertionError("an image was opened"))
        monkeypatch.setattr(seams.OPENED, opened)
        with open_daf(small_path) as daf:
            assert daf.axis_length("obs") == 3
            assert daf.summary().axes


class TestDamage:
    def test_verify_reads_it(self, small_path: Path) -> None:
        """A truncated or overwritten image is a finding that names it, and an error on export."""
        chunk = small_path / "anndata/scalars/uns.table/0"
        whole = chunk.read_bytes()
        for damaged in (whole[:-1], bytes(len(whole)), b"\xff" * len(whole)):
            chunk.unlink()
            chunk.write_bytes(damaged)
            (finding,) = verify(small_path)
            assert "anndata/scalars/uns.table" in str(finding)
            with pytest.raises(errors.CorruptDataError, match="anndata/scalars/uns.table"):
                to_anndata(ZarrDaf(small_path))

    @pytest.mark.parametrize("values", [np.zeros(3), np.zeros((3, 3), "u1")])
    def test_an_image_that_is_no_bytes(self, values: Any) -> None:
        """Another type or shape is an error, and no image is read out of it."""
        daf = data_set(a=list("xyz"))
        write_stored(daf, "vectors/a/v", {"": values})
        array = array_of(daf.tree, "vectors/a/v")
        with (
            pytest.raises(errors.CorruptDataError, match="here: it is no array of bytes"),
            seams.real(seams.OPENED)(array, what="here"),
        ):
            pass

    def test_an_archive_without_its_last_chunk(self, tmp_path: Path) -> None:
        """A part whose data is missing is named and taken away, as a vector is."""
        path = tmp_path / "x.daf.zarr.zip"
        with open_daf(path, "w") as daf:
            small(daf)  # type: ignore[arg-type]
        metadata = b'{"zarr_format":2,"shape":[9],"chunks":[9],"dtype":"|u1","compressor":null,'
        metadata += b'"fill_value":null,"order":"C","filters":null}'
        reference_append(path, "anndata/scalars/uns.new/.zarray", metadata)
        assert "error: anndata/scalars/uns.new: part of its data is missing" in map(
            str, verify(path)
        )
        assert "took away anndata/scalars/uns.new, of which a part was missing" in repair(path).done
        _, adata = small()
        assert_alike(without_axis_keys(to_anndata(ZarrDaf(path))), adata)


class TestStrict:
    @pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.h5df"])
    def test_an_import_that_would_lose_something(self, tmp_path: Path, name: str) -> None:
        """It fails and names what; nothing is left, and what was there stays."""
        adata = anndata.AnnData(np.eye(2), uns={"odd": object(), "fine": 1, "nested": {}})
        adata.obs_names = ["a", "b"]
        daf = open_daf(tmp_path / name, "w")
        daf.set_scalar("mine", 1)
        with pytest.raises(
            errors.UnsupportedInputError,
            match=r"the import would lose uns\['odd'\] \(anndata cannot write this value, of the type builtins.object",
        ):
            from_anndata(adata, daf, strict=True)
        daf.close()
        with open_daf(tmp_path / name) as again:
            assert again.scalars_set() == {"mine"}
            assert again.axes_set() == set()
            assert kept.arrays(again.tree) == {}


@pytest.mark.parametrize(
    ("value", "message", "expected"),
    [
        ((1, 2), "uns['odd']: an h5ad file has no tuples", np.array([1, 2])),
        (2**70, "uns['odd']", None),
        ({1: 2}, "uns['odd'][1]: an h5ad file has no keys such as 1", {}),
        ({"a": np.array([1], "M8[s]"), "b": 1}, "uns['odd']['a']", {"b": 1}),
        (np.array(["2020-01-01", "NaT"], "M8[ns]"), "uns['odd']", None),
        (pd.array([1.5, None], dtype="Float32"), "uns['odd']", np.array([1.5, np.nan])),
        (b"abc", "", b"abc"),
        (sp.coo_matrix(np.eye(2)), "uns['odd']: an h5ad file has no coo", sp.csr_matrix(np.eye(2))),
        (
            np.ma.array([1.5, 2], mask=[False, True]),
            "masked elements became NaN",
            np.array([1.5, np.nan]),
        ),
        (
            np.ma.array([1, 2], mask=[False, True]),
            "became a nullable array",
            pd.array([1, None], dtype="Int64"),
        ),
        (
            np.ma.array([[1], [2]], mask=[[False], [True]]),
            "is not any longer",
            np.array([[1], [2]]),
        ),
        (
            pd.DataFrame({"p": pd.period_range("2020", periods=1, freq="Y")}, ["r"]),
            "they became text",
            pd.DataFrame({"p": ["2020"]}, ["r"]),
        ),
        (
            pd.DataFrame({"c": pd.Categorical(pd.to_datetime(["2020-01-01"]))}, ["r"]),
            "no categories of dtype",
            pd.DataFrame({"c": pd.Categorical(["2020-01-01"])}, ["r"]),
        ),
    ],
)
def test_what_an_h5ad_file_cannot_hold(
    tmp_path: Path, value: Any, message: str, expected: Any
) -> None:
    """It is written as near as possible, and said; the rest of the entry is there."""
    adata = anndata.AnnData(np.eye(2))
    adata.uns["odd"] = value
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", AnnDataWarning)
        daf = from_anndata(adata)
    assert [message in str(warning.message) for warning in warned] == [True] * bool(message)
    assert export_h5ad(daf, tmp_path / "x.h5ad", strict=True).items == []
    found = read(tmp_path / "x.h5ad").uns
    if expected is not None:
        assert_alike(found["odd"], expected)
    else:
        assert "odd" not in found


def test_names_of_columns_that_an_h5ad_file_cannot_hold(tmp_path: Path) -> None:
    """Such a column gets another name, and labels that are named like a column have none."""
    obs = pd.DataFrame({"_index": [1, 2], "_index_": [3, 4]}, index=pd.Index(["a", "b"]))
    var = pd.DataFrame({"gene": ["x", "y"]}, index=pd.Index(["g", "h"], name="gene"))
    report = export_h5ad(from_anndata(anndata.AnnData(obs=obs, var=var)), tmp_path / "x.h5ad")
    assert [item.what for item in report.items] == ["obs['_index']", "var.index"]
    found = read(tmp_path / "x.h5ad")
    assert found.obs.to_dict("list") == {"_index__": [1, 2], "_index_": [3, 4]}
    assert found.var.to_dict("index") == {"g": {"gene": "x"}, "h": {"gene": "y"}}
    assert found.var.index.name is None


def test_parts_that_anndata_does_not_know(tmp_path: Path) -> None:
    """A stray group of the file is kept; anndata could not read a file with it, so it stays."""
    anndata.AnnData(np.eye(2)).write_h5ad(tmp_path / "in.h5ad")
    with h5py.File(tmp_path / "in.h5ad", "r+") as file:
        file["stray/data"] = [1, 2]
    report = import_h5ad(tmp_path / "in.h5ad", tmp_path / "x.daf.zarr", strict=True)
    assert str(report) == "kept: stray: this part of the file is not known to AnnData"
    daf = ZarrDaf(tmp_path / "x.daf.zarr")
    assert next(kept.parts(daf.tree)).value() == {"data": pytest.approx(np.array([1, 2]))}
    report = export_h5ad(daf, tmp_path / "out.h5ad")
    assert str(report) == "lost: stray: AnnData has no such part; it stays in the data set"
    assert read(tmp_path / "out.h5ad").shape == (2, 2)


def test_what_is_set_later_wins(tmp_path: Path) -> None:
    """A vector or matrix of the same name takes the place of what was kept."""
    daf, _ = small()
    daf.set_vector("obs", "z", [1, 2, 3])
    data_set(daf, pc=["0"], matrices={("obs", "pc", "deep"): np.ones((3, 1))})
    daf.set_scalar("table", 5)
    adata = to_anndata(daf)
    assert adata.obs["z"].tolist() == [1, 2, 3]
    assert adata.obsm["deep"].shape == (3, 1)
    assert adata.uns["table"] == 5
    export_h5ad(daf, tmp_path / "x.h5ad")
    assert read(tmp_path / "x.h5ad").uns["table"] == 5


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf"])
def test_keys_longer_than_names_of_files(tmp_path: Path, name: str) -> None:
    """They are kept under shorter names, and come back whole."""
    image = np.arange(24).reshape(2, 3, 4)
    uns = dict.fromkeys(("k" * 247, "漢" * 84, "漢" * 85), image)
    anndata.AnnData(np.eye(2), uns=uns).write_h5ad(tmp_path / "x.h5ad")
    import_h5ad(tmp_path / "x.h5ad", tmp_path / name)
    export_h5ad(open_daf(tmp_path / name), tmp_path / "y.h5ad")
    assert read(tmp_path / "y.h5ad").uns.keys() >= uns.keys()


def test_notes_stay_small(odd: Any) -> None:
    """Large arrays do not go into the scalar that is read whole for every frame."""
    notes = from_anndata(odd).get_scalar("anndata_notes")
    assert len(notes) < 100_000
    assert json.loads(notes)["version"] == 1


def test_the_name_of_an_image_in_the_way(tmp_path: Path) -> None:
    """Keys that no file system can hold, and two that would look the same, are kept apart."""
    adata = anndata.AnnData(np.eye(2), uns={"a/b": sp.eye(2, format="csr")})
    adata.uns["a_b"] = sp.eye(3, format="csr")
    adata.uns["x" * 300] = sp.eye(4, format="csr")
    daf = from_anndata(adata, open_daf(tmp_path / "x.daf.zarr", "w"))  # type: ignore[arg-type]
    found = to_anndata(daf).uns
    assert [found[key].shape[0] for key in ("a/b", "a_b", "x" * 300)] == [2, 3, 4]
