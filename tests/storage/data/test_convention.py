"""Tests of conventions: matrices stored by rows, and empty strings that stand for missing values."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daf_query import connect
from daf_storage import (
    ConventionWarning,
    DafReader,
    H5df,
    Packing,
    ZarrDaf,
    convert,
    copy_all,
    export_h5ad,
    from_anndata,
    import_h5ad,
    open_daf,
    repair,
    to_anndata,
    verify,
)
from tests.suites.examples import BY_ROWS, csc_parts, write_stored
from tests.support import data_set, dense, edited_json, new_daf, served

N, M = 9, 4

PICKS: list[tuple[list[int] | None, list[int] | None]] = [
    (None, None),
    ([2, 0], None),
    (None, [1]),
    ([1, 3], [3, 0, 2]),
]

FORMATS: dict[str, dict[str, Any]] = {
    "x.daf.zarr": {},
    "x3.daf.zarr": {"zarr_format": 3},
    "xp.daf.zarr": {"packed": Packing()},
    "x.daf.zarr.zip": {},
    "x3.daf.zarr.zip": {"zarr_format": 3},
    "x.dafs.zarr.zip#/a": {},
    "x.h5df": {},
}


def square(kind: str, size: int, seed: int) -> Any:
    """Return a random asymmetric matrix as AnnData would hold it."""
    random = np.random.default_rng(seed)
    values = random.integers(1, 100, (size, size)) * (random.random((size, size)) < 0.4)
    values = values.astype(np.float32)
    values[0, size - 1], values[size - 1, 0] = 7, 0  # never symmetric
    if kind == "dense":
        return values
    return sp.csr_matrix(values) if kind == "csr" else sp.csc_matrix(values)


def annotated(seed: int = 0) -> Any:
    """Return an AnnData whose square matrices are of all kinds."""
    kinds = ("csr", "csc", "dense")
    return anndata.AnnData(
        X=np.arange(N * M, dtype=np.float32).reshape(N, M),
        obs=pd.DataFrame(index=[f"c{i}" for i in range(N)]),
        var=pd.DataFrame(index=[f"g{i}" for i in range(M)]),
        obsp={kind: square(kind, N, seed + n) for n, kind in enumerate(kinds)},
        varp={kind: square(kind, M, seed + 9 + n) for n, kind in enumerate(kinds)},
    )


def check_squares(daf: DafReader, adata: Any, *, only: Collection[str] = ()) -> None:
    """Compare every way to read the square matrices, or only some, with AnnData's."""
    db = connect(daf)
    for axis, part in (("obs", adata.obsp), ("var", adata.varp)):
        names = daf.axis_entries(axis).tolist()
        for name in only or part:
            if name not in part:
                continue
            value = part[name]
            expected = dense(value)
            assert dense(daf.get_np_matrix(axis, axis, name)).tolist() == expected.tolist()
            frame = daf.get_pd_matrix(axis, axis, name)
            assert frame.to_numpy().tolist() == expected.tolist()
            if daf.matrix_info(axis, axis, name).is_sparse:
                parts = csc_parts(daf, axis, axis, name)
                pointers = parts.colptr.astype(np.int64) - 1
                rows = parts.rowval.astype(np.int64) - 1
                is_by_rows = daf.matrix_info(axis, axis, name).is_row_major
                kind = sp.csr_array if is_by_rows else sp.csc_array
                found = kind((parts.nzval, rows, pointers), shape=expected.shape)
                assert found.has_canonical_format
                assert found.toarray().tolist() == expected.tolist()
            length = len(names)
            for taken, kept in PICKS:
                part_of = db.matrix(axis, axis, name, rows=taken, columns=kept)
                picked = expected[taken or list(range(length))][:, kept or list(range(length))]
                assert part_of.to_numpy().tolist() == picked.tolist()
                assert part_of.to_scipy().toarray().tolist() == picked.tolist()
                assert part_of.to_pandas().to_numpy().tolist() == picked.tolist()
                assert part_of.nnz == np.count_nonzero(picked)
            long = db.matrix(axis, axis, name).to_arrow().to_pylist()
            triples = {(row[axis], row[f"{axis}_2"]): row["value"] for row in long}
            assert triples == {
                (names[i], names[j]): expected[i, j] for i, j in np.argwhere(expected).tolist()
            }


def check_stored(daf: DafReader, adata: Any) -> None:
    """Compare the stored matrices with AnnData's: a copy is read as what it was copied from."""
    for axis, part in (("obs", adata.obsp), ("var", adata.varp)):
        assert daf.matrices_set(axis, axis) == set(part)
        for name, value in part.items():
            info = daf.matrix_info(axis, axis, name)
            assert info.is_row_major == (getattr(value, "format", "") != "csc")
            assert info.is_sparse == sp.issparse(value)
            assert dense(daf.get_np_matrix(axis, axis, name)).tolist() == dense(value).tolist()


def check_export(daf: DafReader, adata: Any, tmp_path: Path) -> None:
    """Compare both kinds of export with the AnnData that was imported."""
    export_h5ad(daf, tmp_path / "back.h5ad", if_exists="replace", progress="never")
    for back in (to_anndata(daf), anndata.read_h5ad(tmp_path / "back.h5ad")):
        for part in ("obsp", "varp"):
            mine, theirs = getattr(back, part), getattr(adata, part)
            assert set(mine) == set(theirs)
            for key in theirs:
                assert dense(mine[key]).tolist() == dense(theirs[key]).tolist(), (part, key)
                assert getattr(mine[key], "format", "") == getattr(theirs[key], "format", "")


def write(adata: Any, path: Path, **options: Any) -> None:
    """Store an AnnData in a new data set."""
    with open_daf(path, "w+", **options) as daf:
        from_anndata(adata, daf)


class TestRowMajor:
    """Square matrices of AnnData: the bytes are AnnData's, and so is what is read."""

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("name", FORMATS)
    def test_every_format(self, name: str, tmp_path: Path) -> None:
        """A file imported into each, its copy in every other, and a copy in memory."""
        path = str(tmp_path / name)
        adata = annotated()
        adata.write_h5ad(tmp_path / "from.h5ad")
        with open_daf(path, "w+", **FORMATS[name]) as daf:
            import_h5ad(tmp_path / "from.h5ad", daf, progress="never")
        with open_daf(path) as daf:
            check_squares(daf, adata)
            check_export(daf, adata, tmp_path)
        (tmp_path / "to").mkdir()
        for other, how in FORMATS.items():
            convert(path, tmp_path / "to" / other, progress="never", **how)
            with open_daf(tmp_path / "to" / other) as daf:
                check_stored(daf, adata)
        assert verify(path.split("#", maxsplit=1)[0], progress="never") == []

    @pytest.mark.sampled(0)
    @settings(
        deadline=None, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(seed=st.integers(0, 2**20), order=st.permutations(range(N)))
    def test_copied_and_reordered(self, tmp_path: Path, seed: int, order: list[int]) -> None:
        """Random matrices in memory, on disk, and with their axis in another order.

        HDF5 has a way of its own to put everything in place.
        """
        adata = annotated(seed)
        daf = from_anndata(adata)
        check_squares(daf, adata)
        check_export(daf, adata, tmp_path)
        directory = tmp_path / "r.daf.zarr"
        again, hdf5 = tmp_path / "r2.daf.zarr", tmp_path / "r.h5df"
        with open_daf(directory, "w") as new:
            copy_all(daf, new, progress="never")
        convert(directory, again, if_exists="replace", link=seed % 2 == 0, progress="never")
        convert(directory, hdf5, if_exists="replace", progress="never")
        with open_daf(again, "r+") as new, open_daf(hdf5, "r+") as other:
            for one in (daf, new, other):
                one.reorder_axis("obs", order, progress="never")
                check_squares(one, adata[order])
                check_export(one, adata[order], tmp_path)

    @pytest.mark.parametrize("name", ["x.daf.zarr", "x3.daf.zarr", "x.daf.zarr.zip"])
    def test_on_a_server(self, tmp_path: Path, name: str) -> None:
        """A directory by its consolidated metadata, an archive by its own."""
        adata = annotated()
        write(adata, tmp_path / name, **FORMATS[name])
        with served(tmp_path / name) as server, open_daf(server.url) as daf:
            check_squares(daf, adata)

    def test_bytes_are_those_of_anndata(self, tmp_path: Path) -> None:
        """C order, and the parts of CSR and of CSC, counted from 1."""
        adata = annotated()
        write(adata, tmp_path / "x.daf.zarr")
        group = zarr.open_group(tmp_path / "x.daf.zarr/matrices/obs/obs", mode="r")
        assert np.asarray(group["dense"]).tolist() == adata.obsp["dense"].tolist()
        for name, marked in (("csr", {"daf_convention": "row-major"}), ("csc", {})):
            parts = adata.obsp[name]
            assert np.asarray(group[f"{name}/colptr"]).tolist() == (parts.indptr + 1).tolist()
            assert np.asarray(group[f"{name}/rowval"]).tolist() == (parts.indices + 1).tolist()
            assert np.asarray(group[f"{name}/nzval"]).tolist() == parts.data.tolist()
            assert dict(group[name].attrs) == marked
        assert dict(group["dense"].attrs) == {"daf_convention": "row-major"}

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("name", ["x.daf.zarr", "x3.daf.zarr", "x.h5df", ""])
    @pytest.mark.parametrize("kind", ["csr", "csc", "dense"])
    def test_what_replaces_one_reads_back_as_written(
        self, tmp_path: Path, name: str, kind: str
    ) -> None:
        """Set in its place, or after it was deleted, or beside it; and exported so."""
        adata = annotated()
        daf = new_daf(tmp_path, name, **FORMATS.get(name, {}))
        from_anndata(adata, daf)
        pinned = daf.open_matrix("obs", "obs", kind)
        new = square(kind, N, 99)
        adata.obsp[kind] = adata.obsp["other"] = new
        daf.set_matrix("obs", "obs", kind, new, if_exists="replace")
        daf.set_matrix("obs", "obs", "other", new)
        assert pinned.info.is_row_major == (kind != "csc")
        assert not daf.matrix_info("obs", "obs", kind).is_row_major
        check_squares(daf, adata, only=(kind, "other"))
        found = to_anndata(daf)
        for key in (kind, "other"):
            assert dense(found.obsp[key]).tolist() == dense(new).tolist()
        export_h5ad(daf, tmp_path / "back.h5ad", progress="never")
        back = anndata.read_h5ad(tmp_path / "back.h5ad")
        for key in adata.obsp:
            assert dense(back.obsp[key]).tolist() == dense(adata.obsp[key]).tolist()
        daf.delete_matrix("var", "var", kind)
        daf.set_matrix("var", "var", kind, adata.varp[kind])
        check_squares(daf, adata, only=(kind,))
        assert not daf.matrix_info("var", "var", kind).is_row_major

    def test_bools_that_are_all_true(self) -> None:
        """A matrix without stored values is turned around too."""
        mask = np.array([[False, True], [False, False]])
        daf = data_set(cell=["A", "B"])
        arrays = {"colptr": np.array([1, 2, 2]), "rowval": np.array([2])}
        write_stored(daf, "matrices/cell/cell/m", arrays, BY_ROWS)
        assert daf.get_np_matrix("cell", "cell", "m").toarray().tolist() == mask.tolist()
        assert connect(daf).matrix("cell", "cell", "m", rows=[0]).to_numpy().tolist() == [[0, 1]]


DAMAGES = {
    "another word": b'{"daf_convention":"column-major"}',
    "a word for something else": b'{"daf_convention":"empty-is-missing"}',
    "no word": b'{"daf_convention":["row-major"]}',
    "no JSON": b'{"daf_convention":"row-',
    "no object": b'["daf_convention"]',
    "deep": b"[" * 100_000,
    "no UTF-8": b'{"daf_convention":"\xff\xfe"}',
}


class TestDamage:
    """A convention that cannot be made out is ignored, and said to be."""

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_it_is_ignored_with_a_warning(self, tmp_path: Path, damage: str) -> None:
        """Reading goes on as without it; `verify` names the property; writing it again mends."""
        adata = annotated()
        path = tmp_path / "x.daf.zarr"
        write(adata, path)
        (path / "matrices/obs/obs/csr/.zattrs").write_bytes(DAMAGES[damage])
        with open_daf(path, "r+") as daf:
            with pytest.warns(ConventionWarning, match="matrices/obs/obs/csr"):
                found = daf.get_np_matrix("obs", "obs", "csr")
            assert found.toarray().T.tolist() == dense(adata.obsp["csr"]).tolist()
            findings = verify(path, progress="never")
            about = [one for one in findings if one.path == "matrices/obs/obs/csr"]
            assert [one.level for one in about] == ["warning"]
            assert "it is ignored" in about[0].problem
            daf.set_matrix("obs", "obs", "csr", adata.obsp["csr"], if_exists="replace")
            check_squares(daf, adata)
        assert verify(path, progress="never") == []

    def test_in_zarr_v3_and_hdf5(self, tmp_path: Path) -> None:
        """Attributes that are no object, or of another type."""
        adata = annotated()
        path = tmp_path / "x3.daf.zarr"
        write(adata, path, zarr_format=3)
        file = path / "matrices/obs/obs/dense/zarr.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "attributes": [1]}))
        with pytest.warns(ConventionWarning, match="no JSON object"):
            found = ZarrDaf(path).get_np_matrix("obs", "obs", "dense")
        assert found.T.tolist() == adata.obsp["dense"].tolist()
        with H5df(tmp_path / "x.h5df", "w") as daf:
            from_anndata(adata, daf)
            tree: Any = daf.tree
            tree._shared.file["matrices/obs/obs/dense"].attrs["daf_convention"] = [1, 2]
            with pytest.warns(ConventionWarning, match="it is ignored"):
                daf.get_np_matrix("obs", "obs", "dense")

    def test_where_it_means_nothing(self, tmp_path: Path) -> None:
        """On numbers and on matrices of two axes it is not even looked at."""
        path = tmp_path / "x.daf.zarr"
        adata = annotated()
        adata.obs["n"] = range(N)
        write(adata, path)
        (path / "vectors/obs/n/.zattrs").write_text('{"daf_convention":"row-major"}')
        (path / "matrices/obs/var/X/.zattrs").write_text('{"daf_convention":"row-major"}')
        with open_daf(path) as reader:
            assert reader.get_np_vector("obs", "n").tolist() == list(range(N))
            assert reader.get_np_matrix("obs", "var", "X").tolist() == adata.X.tolist()

    def test_consolidated_metadata_without_it(self, tmp_path: Path) -> None:
        """Servers would show another matrix: `verify` notices, `repair` writes them again."""
        path = tmp_path / "x.daf.zarr"
        write(annotated(), path)
        file = path / ".zmetadata"
        with edited_json(file) as document:
            document["metadata"]["matrices/obs/obs/csr/.zattrs"] = {}
        assert [one.path for one in verify(path, progress="never")] == [
            "matrices/obs/obs/csr/.zattrs"
        ]
        repair(path)
        assert verify(path, progress="never") == []
        document = json.loads(file.read_text())["metadata"]
        assert document["matrices/obs/obs/csr/.zattrs"] == {"daf_convention": "row-major"}
