"""Tests of files that another program rewrites in place: everybody sees the new data."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import zarr

from daf_query import DafSession, connect, zarr_table
from daf_query.index import build_index, build_point_index
from daf_storage import DafWriter, MemoryDaf, Packing, ZarrDaf, convert, copy_all, open_daf
from daf_storage.stores import DirectoryStore
from tests.support import there

N = 400
STABLE_SECONDS = 0.15

MADE: dict[str, dict[str, Any]] = {
    "x.daf.zarr": {},
    "v3.daf.zarr": {"zarr_format": 3},
    "packed.daf.zarr": {"packed": Packing(chunk_kb=1)},
    "x.daf.zarr.zip": {},
    "x.h5df": {},
}

QUERIES = [
    "SELECT index, age FROM cell WHERE age = 7 ORDER BY index",
    "SELECT index FROM cell WHERE age IN (3, 390) ORDER BY index",
    "SELECT index, name FROM cell WHERE name IN ('c001', 'c398', 'd001', 'd398') ORDER BY index",
    "SELECT index, barcode FROM cell WHERE barcode IN ('é007', 'é391') ORDER BY index",
    "SELECT donor, count(*) AS n FROM cell WHERE donor <> 'a' GROUP BY donor ORDER BY donor",
    "SELECT index FROM cell WHERE x BETWEEN 10 AND 12 AND y BETWEEN 0 AND 500 ORDER BY index",
    "SELECT count(*) AS n FROM cell WHERE age > 1000",
    "SELECT min(name) AS a, max(name) AS b, sum(age) AS c, max(barcode) AS d FROM cell",
]


def fill(daf: DafWriter, *, is_reversed: bool) -> None:
    """Set one of everything; if turned, other values that take the same room."""
    numbers = np.arange(N)[::-1] if is_reversed else np.arange(N)
    daf.add_axis("cell", [f"{'d' if is_reversed else 'c'}{i:03}" for i in range(N)])
    daf.add_axis("gene", [f"{'h' if is_reversed else 'g'}{i}" for i in range(5)])
    daf.set_vector("cell", "age", numbers + (2_000 if is_reversed else 0))
    daf.set_vector("cell", "barcode", [f"é{i:03}" for i in numbers])
    daf.set_vector("cell", "donor", [("ab" if is_reversed else "ac")[i % 2] for i in range(N)])
    daf.set_vector("cell", "x", numbers / 2)
    daf.set_vector("cell", "y", numbers)
    daf.set_matrix("cell", "gene", "dense", np.outer(numbers, np.arange(5)).astype("f4"))
    sparse = scipy.sparse.random(N, 5, 0.9, random_state=1, format="csc")
    sparse.data += is_reversed
    daf.set_matrix("cell", "gene", "sparse", sparse)


def make(path: Path, *, is_reversed: bool) -> Path:
    """Return the path of a new data set, closed."""
    with open_daf(path, "w", **MADE[path.name]) as daf:
        fill(daf, is_reversed=is_reversed)
    return path


def index(path: Path) -> None:
    """Build indexes of all kinds."""
    with open_daf(path, "r+") as daf:
        build_index(daf, "cell", ["name", "age", "barcode", "x"])
        build_point_index(daf, "cell", "x", "y")


def overwrite(path: Path, data: bytes, offset: int = 0) -> None:
    """Write into a file in place, as ``rsync --inplace --times`` does."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
        if offset == 0:
            file.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rewrite(path: Path, source: Path) -> None:
    """Put the data of one data set into the files of another, which keep their sizes and times."""
    if path.is_dir():
        for file in source.rglob("*"):
            if file.is_file():
                overwrite(path / file.relative_to(source), file.read_bytes())
    elif path.suffix == ".zip":  # the data of the members, not their checksums
        with zipfile.ZipFile(source) as new, zipfile.ZipFile(path) as old:
            for member in new.infolist():
                place = old.getinfo(member.filename).header_offset
                head = path.read_bytes()[place : place + 30]
                start = place + 30 + int.from_bytes(head[26:28], "little")
                start += int.from_bytes(head[28:30], "little")
                overwrite(path, new.read(member), start)
    else:
        overwrite(path, source.read_bytes())


def answers(session: DafSession) -> list[Any]:
    """Return what a session says of everything."""
    found: list[Any] = [session.sql(query).to_pydict() for query in QUERIES]
    daf = session.reader()
    found += [daf.axis_entries("cell").tolist(), daf.axis_entries("gene").tolist()]
    found += [daf.get_np_vector("cell", name).tolist() for name in ("age", "barcode", "donor")]
    rows: list[Any] = [[3, 77], "age > 2100", "name LIKE '_00%' AND barcode <> 'é003'"]
    for name in ("dense", "sparse"):
        found += [session.matrix("cell", "gene", name, rows=r).to_numpy().tolist() for r in rows]
    return found


def in_memory(path: Path) -> DafSession:
    """Return a session over a copy of a data set, which knows no file and no index."""
    copy = MemoryDaf()
    with open_daf(path) as daf:
        copy_all(daf, copy)
    return connect(copy)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", MADE)
def test_an_open_session_and_a_new_one_see_the_new_data(name: str, tmp_path: Path) -> None:
    """SQL, look-ups, strings, zone maps, axis entries and slices, with the times put back."""
    pytest.importorskip("geoindex_rs")
    (tmp_path / "new").mkdir()
    path = make(tmp_path / name, is_reversed=False)
    source = make(tmp_path / "new" / name, is_reversed=True)
    time.sleep(STABLE_SECONDS)
    index(path)
    time.sleep(STABLE_SECONDS)
    old, new = answers(in_memory(path)), answers(in_memory(source))
    assert [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a == b] == []
    session = connect(path)
    assert answers(session) == old
    assert answers(session) == old
    rewrite(path, source)
    assert answers(session) == new
    assert answers(connect(path)) == new
    time.sleep(STABLE_SECONDS)
    assert answers(session) == new
    assert answers(connect(path)) == new
    session.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.h5df"])
def test_a_writer_sees_the_new_data(name: str, tmp_path: Path) -> None:
    """Also an object that has the data set open for changes of its own."""
    (tmp_path / "new").mkdir()
    path = make(tmp_path / name, is_reversed=False)
    source = make(tmp_path / "new" / name, is_reversed=True)
    new = answers(in_memory(source))
    time.sleep(STABLE_SECONDS)
    with open_daf(path, "r+") as daf:
        session = connect(daf)
        queries = QUERIES if name != "x.h5df" else QUERIES[:2] + QUERIES[5:7]  # numbers are mapped
        for query in QUERIES:
            session.sql(query).to_pydict()
        rewrite(path, source)
        for query in queries:
            assert session.sql(query).to_pydict() == new[QUERIES.index(query)]


def test_several_data_sets_as_one(tmp_path: Path) -> None:
    """A rewritten member of a union is seen, also in the other Zarr version; the other stays."""
    paths = [tmp_path / "one.daf.zarr", tmp_path / "two.daf.zarr", tmp_path / "new.daf.zarr"]
    for path, is_reversed in zip(paths, (False, False, True), strict=True):
        with ZarrDaf(path, "w") as daf:
            fill(daf, is_reversed=is_reversed)
    time.sleep(STABLE_SECONDS)
    index(paths[1])
    session = connect([paths[0], paths[1]])
    query = "SELECT dataset, index FROM cell WHERE barcode = 'é007' ORDER BY 1"
    assert session.sql(query).to_pydict() == {"dataset": ["one", "two"], "index": [7, 7]}
    rewrite(paths[1], paths[2])
    assert session.sql(query).to_pydict() == {"dataset": ["one", "two"], "index": [7, N - 8]}
    convert(paths[2], paths[1], zarr_format=3, if_exists="replace")
    assert session.sql(query).to_pydict() == {"dataset": ["one", "two"], "index": [7, N - 8]}


@pytest.mark.parametrize("is_archive", [False, True])
def test_tables_of_zarr_arrays(tmp_path: Path, *, is_archive: bool) -> None:
    """Chunks of a directory are remembered, and not any more when they were rewritten."""

    def table(folder: Path, values: Any) -> Path:
        meta = zarr.open_group(folder, mode="w", zarr_format=3).create_group("meta")
        meta.create_array("x", data=values, chunks=(50,), compressors=None)
        if not is_archive:
            return folder
        archive = folder.with_suffix(".zip")
        with zipfile.ZipFile(archive, "w") as file:
            for one in sorted(folder.rglob("*")):
                file.write(one, one.relative_to(folder))
        return archive

    path = table(tmp_path / "x", np.arange(N))
    source = table(tmp_path / "y", np.arange(N)[::-1].copy())
    query = "SELECT count(*) AS n, sum(x) AS s FROM meta WHERE x > 390 AND x < 395"
    time.sleep(STABLE_SECONDS)
    session = connect(zarr_table(path))
    assert session.sql("SELECT x FROM meta LIMIT 3").to_pydict() == {"x": [0, 1, 2]}
    expected = session.sql(query).to_pydict()
    rewrite(path, source)
    for each in (session, connect(zarr_table(path))):
        assert each.sql("SELECT x FROM meta LIMIT 3").to_pydict() == {"x": [N - 1, N - 2, N - 3]}
        assert each.sql(query).to_pydict() == expected


def test_a_mapping_of_another_program(tmp_path: Path) -> None:
    """``np.memmap`` writes without a system call, and the times of the file show it."""
    path = make(tmp_path / "x.daf.zarr", is_reversed=False)
    time.sleep(STABLE_SECONDS)
    index(path)
    time.sleep(STABLE_SECONDS)
    session = connect(path)
    query = "SELECT index FROM cell WHERE age = -5"
    assert session.sql(query).to_pydict() == {"index": []}
    mapped = np.memmap(path / "vectors/cell/age/0", "<i8", mode="r+")
    mapped[123] = -5
    mapped.flush()
    for each in (session, connect(path)):
        assert each.sql(query).to_pydict() == {"index": [123]}


def identity_of(store: Any, key: str) -> Any:
    """Return the identity of a prefix."""
    snapshot = there(store.snapshot(key))
    return snapshot.identity()


@pytest.mark.parametrize("change", ["data", "document", "nothing", "link to nothing"])
def test_the_identity_of_a_directory(tmp_path: Path, change: str) -> None:
    """It is the same while nothing was written, and another one after that."""
    path = make(tmp_path / "x.daf.zarr", is_reversed=False)
    if change == "link to nothing":
        (path / "vectors/cell/age/link").symlink_to("nowhere")
        (path / "vectors/cell/age/round").symlink_to(".")
    time.sleep(STABLE_SECONDS)
    store = DirectoryStore(path)
    before = identity_of(store, "vectors/cell/age")
    files: dict[str, Callable[[], object]] = {
        "data": lambda: overwrite(path / "vectors/cell/age/0", b"\1" * 8 * N),
        "document": lambda: os.utime(path / "vectors/cell/age/.zarray"),
    }
    files.get(change, lambda: None)()
    time.sleep(STABLE_SECONDS)
    is_same = identity_of(store, "vectors/cell/age") == before
    assert is_same == (change not in files)
