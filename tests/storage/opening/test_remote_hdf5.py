"""Tests of HDF5 files on a server: AnnData, Cell Ranger and Daf, over loopback."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from starlette.responses import Response

import daf_query
import daf_storage
from daf_query import DafSession
from daf_query.cli import main
from daf_storage import errors
from tests.limits import lower
from tests.storage.cell_ranger.test_matrix_file import _write as write_cell_ranger
from tests.storage.opening.test_remote import Fault, Watched, ignore_ranges, served
from tests.support import contents, data_set, fill_served


def _cells(n_cells: int = 300, n_genes: int = 40, *, is_dense: bool = False) -> anndata.AnnData:
    """Return an AnnData with columns of all kinds, layers and an embedding."""
    random = np.random.default_rng(5)
    matrix = sp.random(n_cells, n_genes, density=0.2, random_state=random, format="csr", dtype="f4")
    types = [f"type {n}" for n in random.integers(0, 5, n_cells)]
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(types),
            "note": [f"{'long ' * (n % 9)}{n}" for n in range(n_cells)],
            "score": random.random(n_cells),
            "flag": random.random(n_cells) > 0.5,
            "maybe": pd.array(random.integers(0, 3, n_cells), "Int32"),
        },
        index=[f"cell-{n}" for n in range(n_cells)],
    )
    obs.loc[obs.index[3], "maybe"] = pd.NA
    var = pd.DataFrame(index=[f"g{n}" for n in range(n_genes)])
    adata = anndata.AnnData(matrix.toarray() if is_dense else matrix, obs, var)
    adata.layers["counts"] = (adata.X * 10).astype(np.int32)
    adata.obsm["X_umap"] = random.random((n_cells, 2)).astype("f4")
    return adata


@pytest.fixture(scope="module")
def atlas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a file of many cells."""
    path = tmp_path_factory.mktemp("atlas") / "atlas.h5ad"
    _cells(20_000).write_h5ad(path)
    return path


@contextmanager
def connected(path: Path) -> Iterator[tuple[Watched, DafSession]]:
    """Serve the folder of a file, and connect to the file, while the block runs."""
    with served(path.parent) as server, daf_query.connect(f"{server.url}/{path.name}") as db:
        yield server, db


def check_as_local(folder: Path, names: list[str], fault: Fault | None = None) -> None:
    """Check that files on a server are what they are on the disk."""
    with served(folder, fault) as server:
        for name in names:
            url = f"{server.url}/{name}"
            with daf_storage.open_daf(url) as daf, daf_storage.open_daf(f"{folder}/{name}") as own:
                assert contents(daf) == contents(own)
                assert daf.location == url


@pytest.mark.parametrize("is_dense", [False, True])
@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_an_anndata_is_read_as_from_the_disk(
    tmp_path: Path, compression: Any, *, is_dense: bool
) -> None:
    """Every vector, matrix and scalar, plain and compressed, sparse and dense."""
    _cells(is_dense=is_dense).write_h5ad(tmp_path / "atlas.h5ad", compression=compression)
    check_as_local(tmp_path, ["atlas.h5ad"])


def test_sql_and_slices_are_those_of_the_file(tmp_path: Path) -> None:
    """Counts, filters by a gene, scattered cells and genes."""
    adata = _cells()
    adata.write_h5ad(tmp_path / "atlas.h5ad", compression="gzip")
    with connected(tmp_path / "atlas.h5ad") as (_, db):
        counts = db.sql(
            "SELECT kind, count(*) AS n FROM obs GROUP BY kind ORDER BY kind"
        ).to_pandas()
        assert counts["n"].tolist() == adata.obs["kind"].value_counts().sort_index().tolist()
        found = db.sql(
            "SELECT name FROM obs WHERE X['g7'] > 0.5 AND score < 0.7 ORDER BY index"
        ).to_pydict()
        dense = adata.X.toarray()
        assert (
            found["name"]
            == adata.obs_names[(dense[:, 7] > 0.5) & (adata.obs["score"] < 0.7)].tolist()
        )
        part = db.matrix("obs", "var", "X", rows=slice(5, 300, 7), columns=["g3", "g30", "g4"])
        assert np.array_equal(part.to_numpy(), dense[5:300:7][:, [3, 30, 4]])
        assert part.to_anndata().obsm["X_umap"].shape == (43, 2)


def test_files_of_cell_ranger_and_of_daf_are_read_too(tmp_path: Path) -> None:
    """Whatever HDF5 holds, at its root or in a group."""
    write_cell_ranger(tmp_path / "filtered_feature_bc_matrix.h5")
    for name in ("x.h5df", "s.h5dfs#/day/1"):
        with daf_storage.open_daf(f"{tmp_path}/{name}", "w+") as daf:
            fill_served(daf)
    check_as_local(tmp_path, ["filtered_feature_bc_matrix.h5", "x.h5df", "s.h5dfs#/day/1"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_only_what_is_asked_for_is_downloaded(tmp_path: Path, compression: Any) -> None:
    """The first answer, and a slice of some cells, are a few requests and a small part of the file."""
    path = tmp_path / "atlas.h5ad"
    _cells(20_000, 1_000).write_h5ad(path, compression=compression)
    fifth = path.stat().st_size / 5
    with connected(path) as (server, db):
        db.sql("SELECT kind, count(*) FROM obs GROUP BY kind").to_pylist()
        assert len(server.requested) <= 20
        assert server.sent_bytes < fifth
        with server.at_most(24, fifth):
            part = db.matrix("obs", "var", "X", rows=slice(3_000, 3_100))
            assert part.explain().requests
            assert part.to_scipy().shape == (100, 1_000)
        with server.at_most(20, 0):
            db.matrix("obs", "var", "X", rows=slice(3_000, 3_100)).to_scipy()
    with connected(path) as (server, db), server.at_most(100, fifth):
        with pytest.raises(errors.BudgetError, match="bytes of memory"):
            db.matrix("obs", "var", "X", max_bytes="10kB")
        with pytest.raises(errors.BudgetError, match="downloads about .* requests"):
            db.matrix("obs", "var", "X", columns=["g7"], max_bytes="1MB")
        note = db.explain("SELECT count(*) FROM obs WHERE X['g7'] > 0").notes["X['g7']"]
        assert re.search("bytes in [0-9]+ requests.*export DAF_SIDECARS=[$]PWD; daf index", note)


def test_a_question_asks_for_its_columns_alone(tmp_path: Path) -> None:
    """However many there are, all over the file; their headers are downloaded if all are shown."""
    adata, random = _cells(20_000, 10), np.random.default_rng(7)
    for number in range(60):
        kinds = pd.Categorical(random.integers(0, 9, 20_000).astype(str))
        adata.obs[f"c{number}"] = kinds if number % 3 else random.random(20_000)
    adata.write_h5ad(tmp_path / "atlas.h5ad")
    query = "SELECT kind, count(*), max(c3) FROM obs GROUP BY kind ORDER BY kind"
    with connected(tmp_path / "atlas.h5ad") as (server, db):
        found = db.sql(query).to_pylist()
        assert len(server.requested) <= 15
        with pytest.raises(errors.VectorNotFoundError, match="did you mean 'c59'"):
            db.sql("SELECT c59x FROM obs").to_pylist()
        assert len(db.sql("SELECT * FROM obs LIMIT 0").to_arrow_table().column_names) == 67
    with connected(tmp_path / "atlas.h5ad") as (_, db):
        assert len(db.sql("DESCRIBE obs").to_pylist()) == 67
    with daf_query.connect(tmp_path / "atlas.h5ad") as db:
        assert db.sql(query).to_pylist() == found


def test_explain_says_what_the_columns_of_a_query_download(atlas: Path) -> None:
    """Those that are read, about as much as is then downloaded; nothing of a file that is here."""
    query = "SELECT kind, max(index) FROM obs WHERE score > 0.5 AND note <> '8' GROUP BY kind"
    with connected(atlas) as (server, db):
        assert not db.explain("SELECT count(*) FROM obs").notes
        db.explain("SELECT * FROM obs")  # the metadata of all columns
        before = server.sent_bytes
        notes = db.explain(query).notes
        assert server.sent_bytes == before
        assert set(notes) == {"kind", "score", "note"}
        said = "downloads about ([0-9,]+) bytes in [12] requests"
        found = [re.fullmatch(said, note) for note in notes.values()]
        expected = sum(int(each[1].replace(",", "")) for each in found if each)
        db.sql(query).to_pylist()
        assert 0.8 < expected / (server.sent_bytes - before) < 1.25
        assert db.explain("SELECT maybe FROM obs").notes["maybe"].endswith("in 2 requests")
    with daf_query.connect(atlas) as db:
        assert not db.explain(query).notes


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["x.h5ad", "x.zarr"])
def test_a_stored_gene_is_counted_and_so_are_half_floats(tmp_path: Path, name: str) -> None:
    """What a gene of a CSC matrix downloads, and numbers that are converted; budgets hold there."""
    adata = _cells(20_000, 50)
    adata.X = sp.csc_matrix(adata.X)
    adata.obs["half"] = adata.obs["score"].to_numpy().astype("f2")
    adata.layers["small"] = adata.X.toarray().astype("f2")
    (adata.write_zarr if name == "x.zarr" else adata.write_h5ad)(tmp_path / name)
    with connected(tmp_path / name) as (server, db):
        notes = db.explain("SELECT X['g7'], half, small['g7'] FROM obs").notes
        assert set(notes) == {"X['g7']", "half", "small['g7']"}
        for note in notes.values():
            assert re.match("(downloads|.*elements,) about [1-9][0-9,]+ bytes in [1-9]", note)
        with (
            server.at_most(100, 400_000),
            pytest.raises(errors.BudgetError, match="downloads about .* requests"),
        ):
            db.matrix("obs", "var", "small", rows=slice(10_000), columns=["g7"], max_bytes="200kB")
    with daf_query.connect(tmp_path / name) as db:
        assert "X['g7']" not in db.explain("SELECT X['g7'] FROM obs").notes


def test_so_many_chunks_that_not_each_is_looked_for_are_counted(tmp_path: Path) -> None:
    """By a share of them: the budget holds, and the requests are said."""
    _cells(10_000).write_h5ad(tmp_path / "atlas.h5ad")
    with h5py.File(tmp_path / "atlas.h5ad", "r+") as file:
        values = file["X/data"][:]
        del file["X/data"]
        stored = file["X"].create_dataset("data", data=values, chunks=(1,))
        assert stored.id.get_num_chunks() > 1 << 16
    with connected(tmp_path / "atlas.h5ad") as (_, db):
        explained = db.matrix("obs", "var", "X", columns=["g7"]).explain()
        assert explained.requests
        assert values.size * 8 <= explained.read_bytes < values.size * 10
        with pytest.raises(errors.BudgetError, match="downloads about .* requests"):
            db.matrix("obs", "var", "X", columns=["g7"], max_bytes="400kB")


def test_a_gene_of_a_server_is_advised_by_what_can_be_done(tmp_path: Path) -> None:
    """A data set on a server is not to be opened with r+, but its copy."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(daf_storage.open_daf(path, "w+"), cell=["a", "b"], gene=["g", "h"])
    daf.set_matrix("gene", "cell", "X", [[1, 3], [2, 4]], relayout=False)
    query = "SELECT X['g'] AS g FROM cell"
    with connected(path) as (server, db):
        (note,) = db.explain(query).notes.values()
        assert f"copy it with 'daf convert {server.url}/x.daf.zarr mine.daf.zarr'" in note
    with daf_query.connect(path) as db:
        (note,) = db.explain(query).notes.values()
        assert "; open the data set with 'r+' and call" in note


def test_a_profile_that_would_download_more_is_refused(
    atlas: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it does, in Python, in SQL and by --max-bytes; one of fewer rows is not."""
    with connected(atlas) as (server, db):
        chosen = db.profile("obs", "var", "X", by="kind", rows=slice(50), max_bytes="500kB")
        assert chosen.content.sizes.sum() == 50
        for ask, of in (
            (db.profile, {"by": "kind"}),
            (db.markers, {"by": "kind"}),
            (db.totals, {"columns": ["g7"]}),
        ):
            refused: Any = pytest.raises(errors.BudgetError, match="downloads .* larger max_bytes=")
            with server.at_most(100, 500_000), refused:
                ask("obs", "var", "X", max_bytes="500kB", **of)  # type: ignore[operator]
        some = db.totals("obs", "var", "X", rows=slice(50), max_bytes="500kB")
        assert some.to_arrow_table().num_rows == 50
        with monkeypatch.context() as patch:
            lower(patch, statements_download_bytes=500_000)
            for call in ("totals('obs', 'var', 'X')", "markers('obs', 'var', 'X', 'kind')"):
                with pytest.raises(errors.BudgetError, match="downloads about"):
                    db.sql(f"SELECT * FROM {call}").to_pylist()
        options = [f"{server.url}/atlas.h5ad", "--matrix", "X", "--max-bytes"]
        for command in ("totals", "profile"):
            assert main([command, *options, "100kB"]) == 1
            assert re.search("downloads about .* larger --max-bytes", capsys.readouterr().err)
        assert main(["profile", *options, "1GB"]) == 0


def test_nothing_is_collected_while_hdf5_waits_for_a_server(atlas: Path) -> None:
    """A thread that collects one of its objects would wait for it, perhaps the one that answers."""
    collecting: list[bool] = []

    def noted(_: Any) -> None:
        collecting.append(gc.isenabled())

    with served(atlas.parent, noted) as server:
        daf_storage.open_daf(f"{server.url}/atlas.h5ad")
    assert len(collecting) > 2
    assert sum(collecting) < 3, "the size, and columns that are read beside HDF5"
    assert gc.isenabled()


def test_an_import_is_that_of_the_file(tmp_path: Path) -> None:
    """Also what Daf has no place for."""
    adata = _cells()
    adata.uns["nested"] = {"numbers": np.arange(3)}
    adata.write_h5ad(tmp_path / "atlas.h5ad", compression="gzip")
    with served(tmp_path) as server:
        daf_storage.import_h5ad(f"{server.url}/atlas.h5ad", tmp_path / "x.daf.zarr")
    daf_storage.import_h5ad(tmp_path / "atlas.h5ad", tmp_path / "y.daf.zarr")
    found, expected = (daf_storage.open_daf(tmp_path / f"{name}.daf.zarr") for name in "xy")
    assert contents(found) == contents(expected)
    assert found.summary().remarks == expected.summary().remarks


def test_a_sidecar_lies_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a place that is named, or in a directory for all; until the file is another one."""
    (tmp_path / "sidecars").mkdir()
    adata = _cells(3_000)
    adata.write_h5ad(tmp_path / "atlas.h5ad")
    place = str(tmp_path / "mine.daf.zarr")
    with served(tmp_path) as server:
        url = f"{server.url}/atlas.h5ad"
        with pytest.raises(errors.InvalidInputError, match="--into mine.daf.zarr"):
            daf_query.connect(url).accelerate("X")
        assert main(["index", url, "obs", "note", "--matrix", "X", "--into", place]) == 0
        monkeypatch.setenv("DAF_SIDECARS", str(tmp_path / "sidecars"))
        assert main(["index", url, "obs", "note", "--matrix", "X"]) == 0
        for named in (place, None):
            with daf_query.connect(daf_storage.open_daf(url, sidecar=named)) as db:
                gene = db.matrix("obs", "var", "X", columns=["g7"])
                before = server.sent_bytes
                assert np.array_equal(gene.to_numpy().ravel(), adata.X[:, [7]].toarray().ravel())
                query = "SELECT count(*) AS n FROM obs WHERE note = '9'"
                assert db.sql(query).to_pylist() == [{"n": 1}]
                assert server.sent_bytes == before
        os.utime(tmp_path / "atlas.h5ad")
        with pytest.warns(daf_storage.SidecarWarning, match=f"{url} --into {place} --refresh"):
            daf = daf_storage.open_daf(url, sidecar=place)
        assert not daf.matrices_set("obs", "var", relayout=False)
        assert main(["index", url, "--into", place, "--refresh"]) == 0
        assert daf_storage.open_daf(url, sidecar=place).has_matrix(
            "obs", "var", "X", relayout=False
        )


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunks_are_found_by_their_index(tmp_path: Path, compression: Any) -> None:
    """Not by going through those before them: a few requests, however many chunks there are.

    Of many that lie apart the list is downloaded, its parts side by side.
    """
    path, numbers = tmp_path / "x.h5", np.arange(1 << 21, dtype=np.int32).reshape(-1, 8)
    obs, var = (pd.DataFrame(index=[f"n{n}" for n in range(count)]) for count in numbers.shape)
    anndata.AnnData(obs=obs, var=var).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file.pop("X", None)
        stored = file.create_dataset(
            "X", numbers.shape, numbers.dtype, chunks=(64, 8), compression=compression
        )
        for start in range(0, len(numbers), 64):  # so that the index lies all over the file
            stored[start : start + 64] = numbers[start : start + 64]
            if start % 4096 == 0:
                file.create_dataset(f"other/{start}", data=np.zeros(1 << 15))
        stored.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    most = 60 if h5py.version.hdf5_version_tuple >= (2, 0) else 105
    with connected(path) as (server, db):
        chosen = db.matrix("obs", "var", "X", rows=slice(200_000, 200_500))
        with server.at_most(12):
            assert np.array_equal(chosen.to_numpy(), numbers[200_000:200_500])
        scattered = db.matrix("obs", "var", "X", rows=slice(0, 200_000, 1_000))
        with server.at_most(most, path.stat().st_size / 2):
            assert np.array_equal(scattered.to_numpy(), numbers[0:200_000:1_000])


def test_no_more_is_said_to_be_downloaded_than_the_file_has(tmp_path: Path) -> None:
    """Where the chunks of elements are well compressed, and not looked up yet."""
    path, adata = tmp_path / "atlas.h5ad", _cells(5_000, 200)
    adata.X.data[:] = 1
    del adata.layers["counts"], adata.obsm["X_umap"]
    adata.write_h5ad(path, compression="gzip")
    with connected(path) as (server, db):
        part = db.matrix("obs", "var", "X")
        explained = part.explain()
        before = server.sent_bytes
        part.load()
        assert server.sent_bytes - before <= explained.read_bytes <= path.stat().st_size


def test_names_that_lie_apart_are_downloaded_together(atlas: Path, tmp_path: Path) -> None:
    """Strings of which the first lie before the matrix and the others behind it."""
    path = tmp_path / "atlas.h5ad"
    with h5py.File(path, "w") as file:
        file.create_dataset("first", data=["an early heap"], dtype=h5py.string_dtype())
        file["large"] = np.zeros(1 << 22, np.uint8)
        with h5py.File(atlas) as cells:
            for name in cells:
                cells.copy(name, file)
            file.attrs.update(cells.attrs)
    with connected(path) as (server, db), server.at_most(9):
        daf = db.reader()
        assert daf.axis_entries("obs")[-1] == "cell-19999"
        assert daf.get_np_vector("obs", "note")[7] == "long " * 7 + "7"


def test_a_file_that_changes_on_the_server_is_an_error(atlas: Path) -> None:
    """No answer mixes two versions."""
    with served(atlas.parent) as server, daf_storage.open_daf(f"{server.url}/atlas.h5ad") as daf:
        os.utime(atlas)
        with pytest.raises(errors.CorruptDataError, match="was changed on the server"):
            contents(daf)


def refusing(first: int) -> Fault:
    """Return a fault: from one request on, the server refuses."""
    left = [first - 1]

    def fault(_: Any) -> Response | None:
        left[0] -= 1
        return Response(status_code=403) if left[0] < 0 else None

    return fault


def test_a_server_that_fails_is_named(tmp_path: Path) -> None:
    """Also where HDF5 was reading: by its status, and not as a damaged file."""
    _cells(2_000).write_h5ad(tmp_path / "atlas.h5ad")
    with served(tmp_path) as server:
        for first in (1, 2, 3, 4):
            server.fault = refusing(first)
            with pytest.raises(errors.RemoteError, match="403"):
                contents(daf_storage.open_daf(f"{server.url}/atlas.h5ad"))


def test_what_is_no_data_set_is_an_error(tmp_path: Path) -> None:
    """Nothing there, another file, a file that was cut, and one of HDF5 that holds other things."""
    (tmp_path / "text.h5ad").write_text("no HDF5" * 1_000)
    _cells().write_h5ad(tmp_path / "whole.h5ad")
    (tmp_path / "cut.h5ad").write_bytes((tmp_path / "whole.h5ad").read_bytes()[:9_000])
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["numbers"] = np.arange(3)
    with served(tmp_path) as server:
        for name, kind in {
            "nothing.h5ad": errors.SourceNotFoundError,
            "text.h5ad": errors.NotADafError,
            "cut.h5ad": errors.FormatError,
            "other.h5": errors.NotADafError,
        }.items():
            with pytest.raises(kind, match=re.escape(f"{server.url}/{name}")):
                daf_storage.open_daf(f"{server.url}/{name}")


def test_a_server_without_ranges_sends_small_files_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of larger ones the error says what to do."""
    _cells().write_h5ad(tmp_path / "atlas.h5ad")
    check_as_local(tmp_path, ["atlas.h5ad"], ignore_ranges)
    lower(monkeypatch, whole_file_bytes=1_000)
    with pytest.raises(errors.UnsupportedDataError, match="answers ranges"):
        check_as_local(tmp_path, ["atlas.h5ad"], ignore_ranges)


def test_a_program_ends_with_a_file_open(tmp_path: Path) -> None:
    """HDF5 reads nothing through an interpreter that ends."""
    _cells().write_h5ad(tmp_path / "atlas.h5ad")
    script = "import daf_query, sys; db = daf_query.connect(sys.argv[1]); print(db.sql('SELECT count(*) AS n FROM obs').to_pylist())"
    with served(tmp_path) as server:
        done = subprocess.run(
            [sys.executable, "-c", script, f"{server.url}/atlas.h5ad"],
            check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[{'n': 300}]\n"), done.stderr
