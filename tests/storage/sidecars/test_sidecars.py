"""Tests of sidecars: what is read of one is what the file has, and only while that is the file."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest import mock

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_query import UnusedIndexWarning, connect
from daf_query.cli import main
from daf_query.index import refreshed
from daf_storage import (
    DafReader,
    SidecarWarning,
    ZarrDaf,
    errors,
    open_daf,
    refresh_sidecar,
    sidecar_status,
    verify,
    write_sidecar,
)
from daf_storage.data import vectors_version
from daf_storage.sidecars import SidecarTree
from daf_storage.trees import Tree
from tests import seams
from tests.limits import lower
from tests.storage.anndata.example import Form
from tests.storage.anndata.example import write as write_anndata
from tests.support import contents, data_set, dense, edited_bytes, there

N_OBS, N_VAR = 300, 40


def example() -> Any:
    """Return an AnnData with strings, categories, numbers, and matrices in three layouts."""
    random = np.random.default_rng(5)
    obs = pd.DataFrame(index=[f"cell{n}" for n in range(N_OBS)])
    obs["barcode"] = np.array([f"b{n}-µ" for n in range(N_OBS)], object)
    obs["type"] = pd.Categorical(random.choice(["T", "B"], N_OBS))
    obs["age"] = random.integers(0, 99, N_OBS)
    var = pd.DataFrame(index=[f"gene{n}" for n in range(N_VAR)])
    counts = sp.random(N_OBS, N_VAR, 0.3, "csr", np.float32, rng=random)
    data = anndata.AnnData(counts, obs, var)
    data.layers["dense"] = random.random((N_OBS, N_VAR))
    data.layers["columns"] = sp.csc_matrix(counts)
    data.obsp["near"] = sp.random(N_OBS, N_OBS, 0.01, "csr", np.float32, rng=random)
    return data


def write(folder: Path, form: Form) -> Path:
    """Write the example in a form, and return its path."""
    return write_anndata(example(), folder, form)


@pytest.fixture(params=["h5ad", "gzip", "zarr3"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the path of the example in each form."""
    return write(tmp_path, request.param)


@pytest.fixture
def h5ad(tmp_path: Path) -> Path:
    """Return the path of the example as an uncompressed h5ad."""
    return write(tmp_path, "h5ad")


def answers(daf: DafReader) -> list[Any]:
    """Return what is asked of a data set in different ways."""
    db = connect(daf)
    return [
        contents(daf, relayout=True),
        db.sql("SELECT * FROM obs ORDER BY name").to_pydict(),
        db.sql("SELECT name FROM obs WHERE barcode = 'b7-µ' OR age > 95").to_pydict(),
        db.sql("SELECT X['gene3'] AS x, type FROM obs WHERE X['gene3'] > 0.5").to_pydict(),
        db.matrix("obs", "var", "X", rows="age > 50", columns=["gene5", "gene1"])
        .to_numpy()
        .tolist(),
        db.matrix("obs", "var", "dense", columns=["gene9"]).to_numpy().tolist(),
        db.matrix("obs", "obs", "near", rows=[1, 5]).to_numpy().tolist(),
    ]


def reopened(path: Path, match: str) -> DafReader:
    """Open a file whose sidecar is ignored, with a warning."""
    with pytest.warns(SidecarWarning, match=match):
        return _touched(path)


def _touched(path: Path) -> DafReader:
    daf = open_daf(path)
    daf.axes_set()
    daf.matrices_set("obs", "var")
    return daf


@contextmanager
def of_the_old_time(path: Path) -> Iterator[None]:
    """Let a file that the block changes have the times that it had."""
    before = path.stat()
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.sampled(1)
def test_equal_answers_with_and_without(path: Path) -> None:
    """All values, SQL, gene columns and slices; the sidecar has what it was asked for."""
    without = answers(open_daf(path, sidecar=False))
    daf = open_daf(path)
    assert sidecar_status(daf) is None
    assert answers(daf) == without
    connect(daf).accelerate(["X", "dense", "columns"], indexes={"obs": ["barcode", "age"]})
    status = there(sidecar_status(daf))
    assert status.is_used
    assert status.path == f"{path}.daf.zarr"
    assert {"axes/obs", "vectors/obs/barcode"} <= set(status.properties)
    assert {p for p in status.properties if p.startswith("matrices")} == {
        "matrices/obs/var/X",
        "matrices/obs/var/dense",
        "matrices/var/obs/columns",
    }
    assert status.indexes == ("obs/age", "obs/barcode")
    assert answers(daf) == without
    again = open_daf(path)
    assert answers(again) == without
    assert answers(pickle.loads(pickle.dumps(again))) == without
    report = connect(again).explain_analyze("SELECT name FROM obs WHERE barcode = 'b7-µ'")
    assert "index" in str(report)
    version = vectors_version(again, "obs", ["barcode"])
    assert version is not None
    assert version == vectors_version(open_daf(path, sidecar=False), "obs", ["barcode"])
    flipped = again.open_matrix("obs", "var", "X")
    expected = example().X.tocsc()
    assert flipped.indices.read().tolist() == (expected.indices + flipped.index_base).tolist()
    assert flipped.entries("nzval").read().tolist() == expected.data.tolist()


class Guarded:
    """What a file has, of which the elements of X must not be read."""

    def __init__(self, guarded: Any) -> None:
        self._guarded = guarded

    def __getattr__(self, name: str) -> Any:
        if name.startswith("read"):
            raise AssertionError("elements of X are read")
        value = getattr(self._guarded, name)
        return Guarded(value) if name == "from_zero" else value

    def node(self, path: str) -> Any:
        node = self._guarded.node(path)
        return Guarded(node) if path == "matrices/var/obs/X" else node

    def array(self, name: str) -> Any:
        array = self._guarded.array(name)
        return array if array is None or name == "colptr" else Guarded(array)


def test_one_gene_reads_one_gene(h5ad: Path) -> None:
    """With a sidecar, the bytes of the gene, and none of the file; without, all of the matrix."""

    def gene() -> int:
        daf = open_daf(h5ad)
        assert isinstance(daf.tree, SidecarTree)
        assert copy.copy(daf.tree).base is daf.tree.base
        daf.tree.base = cast("Tree", Guarded(daf.tree.base))
        part = connect(daf).matrix("obs", "var", "X", columns=["gene3"])
        planned = part.explain().read_bytes
        assert np.array_equal(part.to_numpy()[:, 0], example().X[:, [3]].toarray()[:, 0])
        found = connect(daf).sql("SELECT count(*) AS n FROM obs WHERE X['gene3'] > 0")
        assert found.to_pydict() == {"n": [example().X[:, [3]].nnz]}
        return planned

    planned = connect(h5ad).matrix("obs", "var", "X", columns=["gene3"]).explain().read_bytes
    assert planned >= example().X.nnz * 4
    with pytest.raises(AssertionError, match="elements of X"):
        gene()
    connect(h5ad).accelerate("X")
    assert gene() <= example().X[:, [3]].nnz * 8 + (N_VAR + 1) * 4


def test_a_change_in_place_is_noticed(h5ad: Path) -> None:
    """Of the same size, with the old time, in an open session and when opened again."""
    daf = open_daf(h5ad)
    write_sidecar(daf, "X", columns=[("obs", "age")])
    old = daf.get_np_vector("obs", "age").tolist()
    with h5py.File(h5ad) as file:
        offset = file["obs/age"].id.get_offset()
    first = np.array([old[0] + 1]).tobytes()  # what h5py refuses while this process reads
    with of_the_old_time(h5ad), h5ad.open("r+b") as stream:
        stream.seek(offset)
        stream.write(first)
    again = reopened(h5ad, "--refresh")
    assert again.get_np_vector("obs", "age").tolist() == [old[0] + 1, *old[1:]]
    found = there(sidecar_status(again))
    assert not found.is_used
    assert "changed or copied" in found.problem
    with pytest.warns(SidecarWarning, match="--refresh"):
        assert daf.get_np_vector("obs", "age").tolist()[0] == old[0] + 1
    refresh_sidecar(reopened(h5ad, "--refresh"))
    last = open_daf(h5ad)
    assert last.get_np_vector("obs", "age").tolist()[0] == old[0] + 1
    found = there(sidecar_status(last))
    assert found.is_used
    assert "matrices/obs/var/X" in found.properties


def test_what_becomes_of_a_sidecar_that_is_in_use(h5ad: Path, tmp_path: Path) -> None:
    """What is taken away or damaged is read in the file; of another file it has nothing."""
    expected = example()
    status = write_sidecar(open_daf(h5ad), "X", columns=[("obs", "age")])
    other = open_daf(h5ad, sidecar=status.path, obs_is="var", var_is="obs")
    with pytest.warns(SidecarWarning, match="there is none of this name in the source"):
        assert not other.has_vector("obs", "age")
    with open_daf(h5ad) as daf:
        assert daf.get_np_vector("obs", "age").tolist() == expected.obs["age"].tolist()
        shutil.rmtree(Path(f"{h5ad}.daf.zarr/vectors/obs/age"))
        with pytest.warns(SidecarWarning, match="age is damaged: it is missing"):
            assert daf.get_np_vector("obs", "age").tolist() == expected.obs["age"].tolist()
        Path(f"{h5ad}.daf.zarr/matrices/obs/var/X/colptr/.zarray").write_text("{")
        with pytest.warns(SidecarWarning, match="X is damaged: .* is not JSON"):
            found = dense(daf.get_np_matrix("obs", "var", "X"))
        assert np.array_equal(found, dense(expected.X))
        Path(shutil.copy(h5ad, tmp_path / "other")).replace(h5ad)
        assert "was replaced since it was opened" in there(sidecar_status(daf)).problem


def test_a_change_of_a_directory_is_noticed(tmp_path: Path) -> None:
    """One chunk of one array, with the old time; in an open session too."""
    path = write(tmp_path, "zarr3")
    daf = open_daf(path)
    write_sidecar(daf, columns=[("obs", "age"), ("obs", "barcode")], slow_columns=False)
    old = daf.get_np_vector("obs", "age").tolist()
    chunk = next(file for file in (path / "obs" / "age").rglob("*") if file.name == "0")
    other = open_daf(path)
    assert other.get_np_vector("obs", "age").tolist() == old
    frame = pd.DataFrame({"age": np.roll(old, 1)}, index=[f"cell{n}" for n in range(N_OBS)])
    (tmp_path / "other").mkdir()
    written = write_anndata(anndata.AnnData(obs=frame), tmp_path / "other", "zarr3")
    new = next(file for file in (written / "obs/age").rglob("*") if file.name == "0")
    with of_the_old_time(chunk):
        chunk.write_bytes(new.read_bytes())
    expected = np.roll(old, 1).tolist()
    with pytest.warns(SidecarWarning, match="changed or copied"):
        assert other.get_np_vector("obs", "age").tolist() == expected
    assert reopened(path, "changed or copied").get_np_vector("obs", "age").tolist() == expected


def test_a_copied_pair_still_fits(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds is compared, all of it; of large files only on request."""
    write_sidecar(open_daf(path), "X")
    (tmp_path / "copy").mkdir()
    copied = tmp_path / "copy" / path.name
    copy: Any = shutil.copytree if path.is_dir() else shutil.copy
    copy(path, copied)
    shutil.copytree(f"{path}.daf.zarr", f"{copied}.daf.zarr")
    daf = open_daf(copied)
    status = there(sidecar_status(daf))
    assert status.is_used
    lower(monkeypatch, digest_bytes=10)
    daf = reopened(copied, "or was changed or copied since")
    assert not daf.matrices_set("obs", "var", relayout=False) - {"columns"}
    assert refresh_sidecar(daf).is_used
    assert "X" in open_daf(copied).matrices_set("obs", "var", relayout=False)


def test_a_file_whose_next_change_may_not_show_has_no_sidecar(h5ad: Path) -> None:
    """As one from a machine whose clock is ahead: a digest would be kept for other bytes."""
    write_sidecar(open_daf(h5ad), "X")
    ahead = time.time() + 3600
    os.utime(h5ad, (ahead, ahead))
    assert not there(sidecar_status(reopened(h5ad, "or was changed or copied since"))).is_used


def test_another_file_of_the_same_size(h5ad: Path, tmp_path: Path) -> None:
    """One that is renamed over it, with the size and the times of the old one."""
    daf = open_daf(h5ad)
    write_sidecar(daf, columns=[("obs", "age")])
    shutil.copy(h5ad, tmp_path / "new")
    with h5py.File(tmp_path / "new", "r+") as file:
        file["obs/age"][0] = 1234
    assert (tmp_path / "new").stat().st_size == h5ad.stat().st_size
    with of_the_old_time(h5ad):
        os.replace(tmp_path / "new", h5ad)
    assert reopened(h5ad, "is not the file").get_np_vector("obs", "age")[0] == 1234


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "damage", [*("cut", "gone", "garbage", "document"), *("format", "arrays", "checksums", "more")]
)
def test_a_damaged_sidecar_is_ignored(h5ad: Path, damage: str) -> None:
    """With a warning; the file answers."""
    expected = answers(open_daf(h5ad, sidecar=False))
    write_sidecar(open_daf(h5ad), "X", columns=[("obs", "age")])
    sidecar = Path(f"{h5ad}.daf.zarr")
    if damage == "cut":
        file = next(sidecar.glob("matrices/obs/var/X/rowval/0"))
        os.truncate(file, file.stat().st_size - 4)
        os.truncate(sidecar / "vectors/obs/age/0", 3)
    elif damage == "gone":
        shutil.rmtree(sidecar / "matrices/obs/var/X/nzval")
        shutil.rmtree(sidecar / "vectors/obs/age")
    elif damage == "garbage":
        (sidecar / "matrices/obs/var/X/colptr/.zarray").write_text("{")
        (sidecar / "vectors/obs/age/.zarray").write_text("[1")
    elif damage != "document":
        with ZarrDaf(sidecar, "r+") as daf:
            document = json.loads(daf.get_scalar("sidecar_of"))
            document[damage] = {"vectors/obs": {}} if damage == "arrays" else 2
            daf.set_scalar("sidecar_of", json.dumps(document), if_exists="replace")
    else:
        document = sidecar / "scalars/sidecar_of"
        shutil.rmtree(document)
        document.mkdir()
    with pytest.warns(SidecarWarning, match="damaged"):
        found = answers(open_daf(h5ad))
    assert found == expected


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "path", ["vectors/obs/age", "vectors/obs/barcode", "axes/obs", "matrices/obs/var/X/nzval"]
)
def test_a_changed_number_is_not_believed(
    h5ad: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verifying the file says so, the file answers, and refreshing mends it."""
    expected = answers(open_daf(h5ad, sidecar=False))
    write_sidecar(open_daf(h5ad), "X", columns=[("obs", "age"), ("obs", "barcode")])
    assert verify(h5ad, progress="never") == []
    file = Path(f"{h5ad}.daf.zarr", path, "0")
    with edited_bytes(file) as data:
        data[-1] ^= 1
    (found,) = verify(h5ad, progress="never")
    assert found.level == "error"
    assert path.startswith(found.path.removeprefix("atlas.h5ad.daf.zarr/"))
    assert "the checksum is wrong; 'daf index " in found.problem
    with pytest.warns(SidecarWarning, match="checksum"):
        assert answers(open_daf(h5ad)) == expected
    assert main(["index", str(h5ad), "--refresh"]) == 0
    assert verify(h5ad, progress="never") == []
    assert answers(open_daf(h5ad)) == expected
    assert "matrices/obs/var/X, 2 columns" in capsys.readouterr().out


def test_large_contents_are_compared_by_verify_alone(
    h5ad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening does not read them; adding to a damaged sidecar writes it again."""
    lower(monkeypatch, checked_bytes=100)
    write_sidecar(open_daf(h5ad), columns=[("obs", "age")])
    file = Path(f"{h5ad}.daf.zarr/vectors/obs/age/0")
    file.write_bytes(bytes(file.stat().st_size))
    assert not open_daf(h5ad).get_np_vector("obs", "age").any()
    assert [finding.level for finding in verify(h5ad, progress="never")] == ["error"]
    with open_daf(h5ad) as daf:
        status = write_sidecar(daf, "X")
        assert {"vectors/obs/age", "matrices/obs/var/X"} <= set(status.properties)
        assert daf.get_np_vector("obs", "age").tolist() == example().obs["age"].tolist()
    assert verify(h5ad, progress="never") == []


def test_the_bytes_of_a_matrix_are_counted_as_they_are_written() -> None:
    """By rows what was by columns, dense or sparse."""
    values = np.arange(35.0).reshape(7, 5)
    daf = data_set(cell=7, gene=5)
    daf.set_matrix("cell", "gene", "dense", values, relayout=False)
    daf.set_matrix("cell", "gene", "sparse", sp.csc_array(values), relayout=False)
    for name, size_bytes in (("dense", 35 * 8), ("sparse", 34 * (8 + 4))):
        counted: list[int] = []
        daf.relayout_matrix("cell", "gene", name, progress=counted.append)
        assert sum(counted) == size_bytes
    assert daf.matrices_set("gene", "cell", relayout=False) == {"dense", "sparse"}
    assert daf.get_np_matrix("gene", "cell", "dense").tolist() == values.T.tolist()


def test_nothing_is_left_of_what_did_not_end_well(
    h5ad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changes meanwhile, a budget, a crash: the old sidecar stays."""
    daf = open_daf(h5ad)
    first = write_sidecar(daf)
    with pytest.raises(errors.BudgetError, match="more than the 100 that it may"):
        write_sidecar(daf, "X", max_bytes=100)
    with pytest.raises(errors.BudgetError):
        write_sidecar(daf, "X", max_bytes=first.size_bytes + 200)
    real = seams.real(seams.WRITE_FLIPPED)

    def fail(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        raise KeyboardInterrupt

    def change(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        os.utime(h5ad)

    monkeypatch.setattr(seams.WRITE_FLIPPED, fail)
    with pytest.raises(KeyboardInterrupt):
        write_sidecar(daf, "X")
    assert sidecar_status(daf) == first
    monkeypatch.setattr(seams.WRITE_FLIPPED, change)
    with pytest.raises(errors.InUseError, match="changed while its sidecar"):
        write_sidecar(daf, "X")
    monkeypatch.undo()
    assert [p.name for p in h5ad.parent.iterdir() if p.name.startswith(".")] == []


@pytest.mark.filterwarnings("ignore::daf_storage.SidecarWarning")
def test_a_stale_sidecar_stays_until_the_next_is_complete(
    h5ad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refresh that fails leaves it; one that ends well has its indexes again."""
    connect(h5ad).accelerate("X", indexes={"obs": ["barcode"]})
    data = anndata.read_h5ad(h5ad)
    data.obs["age"] += 1
    data.write_h5ad(h5ad)
    sidecar = Path(f"{h5ad}.daf.zarr")

    daf = open_daf(h5ad)
    with monkeypatch.context() as patch:
        patch.setattr(seams.WRITE_FLIPPED, mock.Mock(side_effect=KeyboardInterrupt))
        before = sorted(sidecar.rglob("*"))
        with pytest.raises(KeyboardInterrupt):
            refresh_sidecar(daf)
    assert sorted(sidecar.rglob("*")) == before
    status = refreshed(daf)
    assert (status.is_used, status.indexes) == (True, ("obs/barcode",))
    assert answers(open_daf(h5ad)) == answers(open_daf(h5ad, sidecar=False))
    shutil.rmtree(sidecar / "daf")  # cannot be opened: replaced all the same
    with pytest.warns(SidecarWarning, match="damaged"):
        daf = open_daf(h5ad)
    assert refresh_sidecar(daf).is_used


def test_what_it_has_is_kept(h5ad: Path) -> None:
    """More is added to a sidecar that fits; its indexes are there afterwards."""
    db = connect(h5ad)
    db.accelerate(indexes={"obs": ["barcode"]})
    more = db.accelerate("X", indexes={"var": ["name"]})
    assert {"vectors/obs/barcode", "matrices/obs/var/X", "axes/var"} <= set(more.properties)
    assert more.indexes == ("obs/barcode", "var/name")
    assert db.remove_sidecar()
    assert not db.remove_sidecar()
    assert not Path(f"{h5ad}.daf.zarr").exists()
    assert answers(open_daf(h5ad)) == answers(open_daf(h5ad, sidecar=False))


def test_a_damaged_index_of_a_sidecar(h5ad: Path) -> None:
    """It is not used, with a warning that says how it is built again, which works."""
    connect(h5ad).accelerate(indexes={"obs": ["barcode"]})
    for file in Path(f"{h5ad}.daf.zarr", "indexes/obs/barcode").rglob("0"):
        if file.parent.name != "fingerprint":
            file.write_bytes(bytes(file.stat().st_size))
    question = "SELECT name FROM obs WHERE barcode = 'b7-µ'"
    with pytest.warns(UnusedIndexWarning, match=r"'daf repair .*atlas\.h5ad\.daf\.zarr'"):
        assert connect(h5ad).sql(question).to_pydict() == {"name": ["cell7"]}
    assert main(["repair", f"{h5ad}.daf.zarr"]) == 0
    assert connect(h5ad).sql(question).to_pydict() == {"name": ["cell7"]}


def test_below_an_overlay(h5ad: Path, tmp_path: Path) -> None:
    """What is on top of the file hides the sidecar as it hides the file; the rest is used."""
    connect(h5ad).accelerate("X", indexes={"obs": ["barcode"]})
    overlay = str(tmp_path / "mine.daf.zarr")
    with connect(h5ad, overlay=overlay) as db:
        db.save_vector("obs", "barcode", "name", if_exists="replace")
        found = db.sql("SELECT name FROM obs WHERE barcode = 'cell7' OR barcode = 'b7-µ'")
        assert found.to_pydict() == {"name": ["cell7"]}
        part = db.matrix("obs", "var", "X", columns=["gene3"])
        assert part.explain().read_bytes <= example().X[:, [3]].nnz * 8 + (N_VAR + 1) * 4
        assert np.array_equal(part.to_numpy()[:, 0], example().X[:, [3]].toarray()[:, 0])


def test_elsewhere(h5ad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a path that is named, or in the directory that the environment names."""
    place = tmp_path / "mine.daf.zarr"
    db = connect(h5ad)
    assert db.accelerate("X", path=place).path == str(place)
    assert sidecar_status(open_daf(h5ad)) is None
    again = open_daf(h5ad, sidecar=place)
    assert "X" in again.matrices_set("obs", "var", relayout=False)
    (tmp_path / "sidecars").mkdir()
    monkeypatch.setenv("DAF_SIDECARS", str(tmp_path / "sidecars"))
    assert main(["index", str(h5ad), "--matrix", "X", "--quiet"]) == 0
    assert len(list((tmp_path / "sidecars").iterdir())) == 1
    assert "X" in open_daf(h5ad).matrices_set("obs", "var", relayout=False)


def test_patterns_take_no_sidecars(h5ad: Path, tmp_path: Path) -> None:
    """They lie beside the files that match."""
    write_sidecar(open_daf(h5ad), "X")
    for pattern in ("*", "**/*"):
        found = connect(f"{tmp_path}/{pattern}").sql("SELECT DISTINCT dataset FROM obs")
        assert found.to_pydict() == {"dataset": ["atlas"]}
    with pytest.raises(errors.SourceNotFoundError):
        connect(f"{tmp_path}/*.zarr")


def test_elements_out_of_order(tmp_path: Path) -> None:
    """Elements that the file has out of order or twice are in order, and added up."""
    path = tmp_path / "odd.h5ad"
    anndata.AnnData(sp.csr_matrix(np.ones((2, 3), "f4"))).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["X/indices"][:] = [2, 0, 0, 1, 2, 0]
        file["X/data"][:] = [1, 2, 3, 4, 5, 6]
    expected = [[5, 0, 1], [6, 4, 5]]
    write_sidecar(open_daf(path), "X")
    daf = open_daf(path)
    assert daf.get_np_matrix("obs", "var", "X").toarray().tolist() == expected
    flipped = daf.open_matrix("obs", "var", "X")
    assert (flipped.is_ordered, flipped.info.nnz) == (True, 5)
    for name, column in (("0", [5, 6]), ("2", [1, 5])):
        part = connect(daf).matrix("obs", "var", "X", columns=[name]).to_numpy()
        assert part[:, 0].tolist() == column


@pytest.mark.filterwarnings("ignore::daf_storage.SidecarWarning")
def test_refreshing_matrices_of_one_name(tmp_path: Path) -> None:
    """X, the X of raw and names are written again, once, after the file was replaced."""
    data = example()
    data.raw = data.copy()
    data.write_h5ad(tmp_path / "atlas.h5ad")
    with open_daf(tmp_path / "atlas.h5ad") as daf:
        before = write_sidecar(daf, ["X", "X"], columns=[("var", "name")]).properties
    assert {"matrices/obs/var/X", "matrices/obs/var_raw/X", "axes/var"} <= set(before)
    data[:-1].copy().write_h5ad(tmp_path / "atlas.h5ad")
    with open_daf(tmp_path / "atlas.h5ad") as daf:
        status = refresh_sidecar(daf)
        assert status.is_used
        assert set(status.properties) == set(before)
        raw = daf.get_np_matrix("var_raw", "obs", "X")
    assert np.array_equal(dense(raw), data.raw.X[:-1].toarray().T)
