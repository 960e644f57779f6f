"""Tests of data sets in ZIP archives."""

from __future__ import annotations

import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_query import connect
from daf_storage import DafWriter, ZarrDaf, convert, errors, open_daf, settings
from daf_storage.base import Span
from daf_storage.stores import MmapZipStore
from tests import seams
from tests.suites import AppendOnlyDafSuite
from tests.support import UMIS, contents, create, fill, filled, recorded_calls, reopen, zip_folder


class TestZipDaf(AppendOnlyDafSuite):
    location = "x.daf.zarr.zip"


@pytest.mark.sampled(1)
class TestSharedArchive(AppendOnlyDafSuite):
    """One of several data sets of an archive, beside another one and below a third one."""

    location = "x.dafs.zarr.zip#/day/1"
    beside = ("x.dafs.zarr.zip#/day", "x.dafs.zarr.zip#/other")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an archive with one of everything."""
    path = tmp_path / "x.daf.zarr.zip"
    filled(path).close()
    return path


def test_emptying_leaves_readers_what_they_had(path: Path) -> None:
    """Mode ``w`` puts another file in the place; who reads the old one goes on, no writer does."""
    reader = ZarrDaf(path)
    older = create(path)
    create(path).add_axis("cell", ["other"])
    with pytest.raises(errors.InvalidInputError, match="closed"):
        older.set_scalar("a", 1)
    assert reader.get_np_vector("cell", "age").tolist() == [30, 60, 90]
    assert ZarrDaf(path).axis_length("cell") == 1


def test_several_data_sets_in_one_archive(tmp_path: Path) -> None:
    """Interleaved changes do not leak from one to the other, and late ones are seen."""
    path = tmp_path / "x.dafs.zarr.zip"
    dafs: list[DafWriter] = []
    for group in ("a", "b", "b/c"):
        daf = ZarrDaf(f"{path}#/{group}", "w+")
        daf.add_axis("cell", [f"{group}{i}" for i in range(3)])
        dafs.append(daf)
    reader = ZarrDaf(f"{path}#/b")
    for i, daf in enumerate(dafs):
        daf.set_vector("cell", "v", [i] * 3)
        daf.set_scalar(f"only {i}", i)
    assert reader.get_np_vector("cell", "v").tolist() == [1, 1, 1]
    assert [daf.scalars_set() for daf in dafs] == [{"only 0"}, {"only 1"}, {"only 2"}]
    assert reader.axis_entries("cell").tolist() == ["b0", "b1", "b2"]
    names = zipfile.ZipFile(path).namelist()
    assert "a/.zgroup" in names
    assert ".zgroup" not in names
    assert dafs[2].name.startswith(f"{path}#/b/c")


def test_the_size_limit_is_a_setting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing beyond it is an error that names the setting; the file stays as it was."""
    size = path.stat().st_size
    monkeypatch.setattr(settings, "DAF_ZARR_ZIP_MAX_FILE_SIZE", size + 1000)
    daf = reopen(path)
    with pytest.raises(errors.SizeLimitError, match="DAF_ZARR_ZIP_MAX_FILE_SIZE"):
        daf.set_vector("cell", "long", ["x" * 10_000] * 3)
    with pytest.raises(errors.SizeLimitError):
        daf.add_axis("other", [str(i) for i in range(1000)])
    before = contents(daf)
    daf.close()
    assert path.stat().st_size <= size + 1000
    with reopen(path) as again:
        assert contents(again) == before
    assert path.stat().st_size == size
    monkeypatch.setattr(settings, "DAF_ZARR_ZIP_MAX_FILE_SIZE", size - 1)
    with pytest.raises(errors.SizeLimitError, match="open it with a larger"):
        reopen(path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_packed_directory_is_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """Zipped by another program, compressed or not, it can be read, and copied to be added to.

    A file of many chunks that is compressed itself is expanded once.
    """
    expanded = recorded_calls(monkeypatch, seams.DECOMPRESS, lambda entry, *_: entry.name)
    folder = tmp_path / "in.daf.zarr"
    with open_daf(folder, "w", packed=packed) as daf:
        many = [str(n) for n in range(3000)]
        fill(daf).add_axis("many", many, vectors={"number": np.arange(3000)})
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = zip_folder(folder, tmp_path / f"{method}.daf.zarr.zip", method)
        expected = contents(ZarrDaf(folder))
        with ZarrDaf(path) as found:
            assert contents(found) == expected
        expanded.clear()
        time.sleep(0.11)  # older than a step of the clock of files: what is expanded is remembered
        with ZarrDaf(path) as found:
            for row in (0, 2999, 1500):
                rows = found.open_vector("many", "number").dense().read_rows(Span(row, row + 1))
                assert rows.tolist() == [row]
        chunks = [name for name in expanded if "/c/" in name]
        assert len(chunks) == (packed and method == zipfile.ZIP_DEFLATED)
        with pytest.raises(errors.UnsupportedDataError, match="with 'daf convert'"):
            reopen(path)
        convert(path, tmp_path / f"own-{method}.daf.zarr.zip")
        with reopen(tmp_path / f"own-{method}.daf.zarr.zip") as daf:
            daf.set_vector("cell", "new", [1, 2, 3])
            assert ".zmetadata" not in daf.writable_tree._store  # type: ignore[attr-defined] # of this implementation


def test_a_batch_is_one_commit(path: Path) -> None:
    """Within a batch the file stays as it was for everybody else; then it has everything."""
    daf = reopen(path)
    with daf.batch():
        for i in range(20):
            daf.set_vector("cell", f"v{i}", [i] * 3)
        assert len(daf.vectors_set("cell")) == 22
        with MmapZipStore(path) as other:
            assert "vectors/cell/v0/0" not in other
    with MmapZipStore(path) as other:
        assert "vectors/cell/v19/0" in other


def test_sql_scans_while_a_writer_appends(tmp_path: Path) -> None:
    """Queries of several threads see whole vectors, and every one that is there."""
    path = tmp_path / "x.daf.zarr.zip"
    writer = create(path)
    n = 50_000
    writer.add_axis("cell", [f"c{i}" for i in range(n)])
    writer.set_vector("cell", "v0", np.zeros(n, "i4"))
    writer.set_vector("cell", "s", ["a", "b"] * (n // 2))
    stop = threading.Event()
    problems: list[Any] = []
    counts = []

    def query() -> None:
        session = connect(ZarrDaf(path))
        while not stop.is_set():
            name = f"v{len(session.sql('SELECT * FROM cell LIMIT 0').schema) - 4}"
            found = session.sql(
                f"SELECT count(*) AS n, min({name}) AS low, max({name}) AS high FROM cell "
                "WHERE s = 'a'"
            ).to_pylist()[0]
            number = int(name[1:])
            if found != {"n": n // 2, "low": number, "high": number}:
                problems.append(found)
            counts.append(number)

    threads = [threading.Thread(target=query) for _ in range(2)]
    for thread in threads:
        thread.start()
    while not counts and threads[0].is_alive():  # the first query loads the engine
        stop.wait(0.01)
    for i in range(1, 80):
        if i % 2:
            writer.set_vector("cell", f"v{i}", np.full(n, i, "i4"))
        else:
            with writer.empty_dense_vector("cell", f"v{i}", "i4") as values:
                values[:] = i
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert max(counts) > 0
    assert zipfile.ZipFile(path).testzip() is None


def test_unaligned_data_of_foreign_archives(tmp_path: Path) -> None:
    """Data at any place is read, sliced and queried; Arrow gets an aligned copy."""
    folder, path = tmp_path / "in.daf.zarr", tmp_path / "x.daf.zarr.zip"
    filled(folder)
    with zipfile.ZipFile(path, "w") as archive:
        for number, file in enumerate(sorted(folder.rglob("*"))):
            if file.is_file():
                archive.writestr(f"pad/{'x' * (number % 7)}{number}", b"y" * (number % 5))
                archive.write(file, file.relative_to(folder))
    daf = ZarrDaf(path)
    assert contents(daf) == contents(ZarrDaf(folder))
    session = connect(daf)
    rows = session.sql("SELECT name, age, type FROM cell WHERE age > 30 ORDER BY index").to_pydict()
    assert rows == {"name": ["GATA", "CATA"], "age": [60, 90], "type": ["TCell", "TCell"]}
    part = session.matrix("cell", "gene", "sparse", rows="age > 30").to_scipy()
    assert part.toarray().tolist() == UMIS[1:].tolist()
    assert daf.get_pa_vector("cell", "age").to_pylist() == [30, 60, 90]
