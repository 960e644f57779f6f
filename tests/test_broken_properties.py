"""Tests of one broken vector, matrix, scalar or axis: it takes itself only, in every format."""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import AxisDataset, UnreadableVectorWarning, connect
from daf_storage import DafReader, MemoryDaf, Packing, ZarrDaf, convert, errors, open_daf, verify
from daf_storage.stores import MemoryStore
from daf_storage.trees import ZarrTree, ZarrVersion
from daf_storage.upkeep._verify_repair import _verify_data
from tests.limits import lower
from tests.storage.data.test_damaged import change_metadata
from tests.storage.trees.test_foreign_arrays import put_strings
from tests.storage.trees.test_malformed_metadata import variants
from tests.support import create, fill, filled, served

PROPERTIES = [
    *("axes/cell", "axes/gene", "scalars/n", "scalars/organism"),
    *("vectors/cell/age", "vectors/cell/type", "vectors/gene/marker", "vectors/gene/flag"),
    *("matrices/cell/gene/UMIs", "matrices/cell/gene/sparse", "matrices/gene/cell/sparse"),
]

DAMAGED = [
    "axes/cell",
    "scalars/n",
    "scalars/organism",
    "vectors/cell/age",
    "vectors/cell/type",
    "vectors/gene/flag",
    "vectors/gene/flag/nzind",
    "matrices/cell/gene/UMIs",
    "matrices/cell/gene/sparse/colptr",
    "matrices/cell/gene/sparse/rowval",
    "matrices/cell/gene/sparse/nzval",
]


def unreadable(daf: DafReader) -> set[str]:
    """Return the properties that cannot be read; any error that is not ours is raised."""
    found = set()
    for path in PROPERTIES:
        kind, *names = path.split("/")
        try:
            match kind:
                case "axes":
                    daf.get_pa_vector(names[0], "name")
                case "scalars":
                    daf.get_scalar(*names)
                case "vectors":
                    daf.get_np_vector(*names)
                case _:
                    daf.get_np_matrix(*names, relayout=False)
        except errors.DafError:
            found.add(path)
    return found


def ask(daf: DafReader) -> dict[str, bool]:
    """Ask for everything in SQL, and return which tables could be had."""
    session = connect(daf)
    found = {}
    for table in ("cell", "gene", "scalars"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                session.sql(f"SELECT * FROM {table}").to_arrow_table()
                found[table] = True
            except errors.DafError:
                found[table] = False
    return found


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore::daf_storage.ConventionWarning")
@pytest.mark.parametrize("version", [2, 3])
def test_any_metadata_of_any_property(version: ZarrVersion) -> None:
    """Whatever its metadata say, only the property itself is lost: for readers, SQL and `verify`."""
    whole = fill(MemoryDaf(name="whole!", zarr_format=version))
    store = whole.tree._store  # type: ignore[attr-defined]
    entries = dict(store._mapping)
    count = lost_count = listed_count = 0
    for number, path in enumerate(DAMAGED):
        name = "zarr.json" if version == 3 else ".zarray"
        key = f"{path}/{name}" if f"{path}/{name}" in entries else f"{path}/.zgroup"
        document = json.loads(bytes(entries[key]))
        for variant in list(variants(document))[number % 41 :: 41]:
            damaged = MemoryStore()
            damaged.change([], {**entries, key: memoryview(json.dumps(variant).encode())})
            daf = DafReader(ZarrTree(damaged), name="damaged!")
            lost = unreadable(daf)
            own = [one for one in PROPERTIES if f"{path}/".startswith(f"{one}/")]
            # What belongs to an axis cannot be had without it.
            allowed = set(PROPERTIES) if path.startswith("axes/") else set(own)
            assert lost <= allowed - {"axes/gene", "scalars/n"} | set(own), (path, variant)
            listed = " ".join(problem.message for problem in daf.summary().problems)
            findings = {finding.path for finding in _verify_data(daf, lambda _: None)}
            if lost:
                lost_count += 1
                # What only the data contradict shows when they are read.
                listed_count += path in listed or own[0].split("/")[-1] in listed
                assert own[0] in findings, (path, variant, findings)
            assert daf.description()
            assert daf._repr_html_()
            tables = ask(daf)
            assert tables["gene"], (path, variant)
            assert tables["scalars"], (path, variant)
            assert tables["cell"] or path == "axes/cell", (path, variant)
            count += 1
    assert count > 35
    assert lost_count > count / 3
    assert listed_count > lost_count * 0.9


# One vector of a table


def truncate(path: Path) -> None:
    """Cut the last byte off a file."""
    path.write_bytes(path.read_bytes()[:-1])


def compressed(path: Path) -> None:
    """Store strings compressed, and damage them."""
    root = path.parents[3]
    put_strings(root, "vectors/cell/type", list("abc"), chunks=3, compressor=numcodecs.Zlib(1))
    path.write_bytes(path.read_bytes()[:-3] + b"???")


BROKEN: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda p: truncate(p / "vectors/cell/type/0"),
    "damaged": lambda p: compressed(p / "vectors/cell/type/0"),
    "empty": lambda p: (p / "vectors/cell/type/0").write_bytes(b""),
    "missing": lambda p: (p / "vectors/cell/type/0").unlink(),
    "dtype": lambda p: change_metadata(p / "vectors/cell/type", dtype="<c16"),
    "filters": lambda p: change_metadata(p / "vectors/cell/type", filters=5),
    "null filter": lambda p: change_metadata(p / "vectors/cell/type", filters=[None]),
    "separator": lambda p: change_metadata(p / "vectors/cell/type", dimension_separator=[]),
    "long separator": lambda p: change_metadata(
        p / "vectors/cell/type", dimension_separator="x" * 300, chunks=[2]
    ),
}
ROWS: list[dict[str, Any]] = [
    {"name": "TATA", "index": 0, "age": 30},
    {"name": "GATA", "index": 1, "age": 60},
    {"name": "CATA", "index": 2, "age": 90},
]


def packed_zip(folder: Path) -> Path:
    """Return an archive of a directory, as any program would make it."""
    return Path(shutil.make_archive(str(folder), "zip", folder))


@pytest.mark.sampled(11)
@pytest.mark.parametrize("form", ["directory", "archive", "server"])
@pytest.mark.parametrize("damage", BROKEN)
def test_a_table_without_its_broken_vector(tmp_path: Path, damage: str, form: str) -> None:
    """`SELECT *` works without it and warns once; asked for by name, the reason is an error."""
    path = tmp_path / "x.daf.zarr"
    daf = create(path)
    daf.add_axis("cell", [row["name"] for row in ROWS])
    daf.set_vector("cell", "age", [row["age"] for row in ROWS])
    daf.set_vector("cell", "type", ["Bcell", "TCell", "TCell"])
    BROKEN[damage](path)
    if form == "server":
        ZarrDaf(path, "r+").tree.refresh()  # type: ignore[attr-defined]
        with served(path) as server:
            check_broken(server.url)
        return
    check_broken(str(path if form == "directory" else packed_zip(path)))


def check_broken(path: str) -> None:
    """Check what can be had of a data set whose vector of cell types is broken."""
    session = connect(path)
    query = session.sql
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            assert query("SELECT * FROM cell").to_pylist() == ROWS
        assert query("SELECT * EXCLUDE (age) FROM cell WHERE age > 50").count() == 2
        assert query("SELECT count(*) AS n FROM cell").to_pydict() == {"n": [3]}
    assert [one.category for one in warned] == [UnreadableVectorWarning]
    text = str(warned[0].message)
    assert text.startswith("the table 'cell' lacks the column 'type': ")
    assert "vectors/cell/type" in text
    with pytest.raises(errors.FormatError, match="vectors/cell/type"):
        query("SELECT type FROM cell").to_pylist()
    with pytest.raises(errors.FormatError, match="vectors/cell/type"):
        query("SELECT * FROM cell WHERE type = 'TCell'").to_pylist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadableVectorWarning)
        other = connect(path)
        assert sum(batch.num_rows for batch in other.sql("SELECT * FROM cell").batches()) == 3
        with pytest.raises(errors.FormatError, match="vectors/cell/type"):
            connect(path).sql("SELECT type FROM cell").to_pylist()
    if not path.startswith("http"):
        problems = [f.path for f in verify(path, progress="never") if f.level == "error"]
        assert set(problems) == {"vectors/cell/type"} or path.endswith(".zip")


@pytest.mark.parametrize("damage", sorted(set(BROKEN) - {"damaged", "truncated"}))
def test_the_summary_has_the_problem(tmp_path: Path, damage: str) -> None:
    """Whatever metadata and sizes of files tell is listed, in text, in HTML, and in JSON."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    BROKEN[damage](path)
    daf = ZarrDaf(path)
    (problem,) = daf.summary().problems
    assert problem.what == "vector 'type' of axis 'cell'"
    assert "vectors/cell/type" in problem.message
    assert "problems" in daf.description()
    assert "vector &#x27;type&#x27;" in daf._repr_html_()
    assert daf.summary().as_dict()["problems"][0]["what"] == problem.what


def test_a_vector_that_is_whole_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken column is left out as long as its file stays the same."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    chunk = path / "vectors/cell/type/0"
    data = chunk.read_bytes()
    truncate(chunk)
    time.sleep(0.2)  # its times tell it from any later one
    session = connect(path)
    with pytest.warns(UnreadableVectorWarning, match="'type'"):
        assert "type" not in session.sql("SELECT * FROM cell").to_pydict()
    assert "type" not in session.sql("SELECT * FROM cell").to_pydict()
    chunk.write_bytes(data)
    time.sleep(0.2)
    lower(monkeypatch, unsettled_seconds=0)
    assert session.sql("SELECT * FROM cell").to_pydict()["type"] == ["Bcell", "TCell", "TCell"]


def test_several_broken_vectors_of_a_collection(tmp_path: Path) -> None:
    """Each turns out by itself; of a collection, a column that is broken in one is left out of all."""
    for name in ("a", "b"):
        daf = create(tmp_path / f"{name}.daf.zarr")
        daf.add_axis("cell", ["x", "y"])
        for vector in ("p", "q", "r"):
            daf.set_vector("cell", vector, [f"{vector}{name}", "long enough to be cut"])
    truncate(tmp_path / "a.daf.zarr/vectors/cell/p/0")
    truncate(tmp_path / "b.daf.zarr/vectors/cell/q/0")
    session = connect(str(tmp_path / "*.daf.zarr"))
    with pytest.warns(UnreadableVectorWarning) as warned:
        rows = session.sql("SELECT * FROM cell").to_pydict()
    assert set(rows) == {"dataset", "name", "index", "r"}
    strings = {str(one.message) for one in warned}
    assert any("a.daf.zarr: vectors/cell/p" in text for text in strings)
    assert any("b.daf.zarr: vectors/cell/q" in text for text in strings)
    with pytest.raises(errors.DafError, match=r"a\.daf\.zarr: vectors/cell/p"):
        session.sql("SELECT p FROM cell").to_pydict()


def test_broken_entries_of_an_axis(tmp_path: Path) -> None:
    """The names are lost, and nothing else."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    truncate(path / "axes/cell/0")
    session = connect(path)
    with pytest.warns(UnreadableVectorWarning, match="'name'"):
        assert session.sql("SELECT * FROM cell").to_pydict() == {
            "index": [0, 1, 2],
            "age": [30, 60, 90],
            "type": ["Bcell", "TCell", "TCell"],
        }
    assert session.sql("SELECT * FROM gene").count() == 4
    assert session.matrix("cell", "gene", "UMIs", rows="age > 50").shape == (2, 4)
    assert [f.path for f in verify(path, progress="never") if f.level == "error"] == ["axes/cell"]


def test_a_broken_axis_leaves_the_others(tmp_path: Path) -> None:
    """Its table is an error with the reason; the engine's own lists have the others."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    change_metadata(path / "axes/cell", dtype=[])
    session = connect(path)
    listed = session.sql("SELECT table_name FROM information_schema.tables").to_pydict()
    assert {"gene", "scalars"} <= set(listed["table_name"])
    assert session.sql("SELECT * FROM gene").count() == 4
    assert session.sql("SELECT count(*) AS n FROM gene").to_pydict() == {"n": [4]}
    for query in ("SELECT * FROM cell", "SELECT count(*) FROM cell", "SELECT age FROM cell"):
        with pytest.raises(
            errors.UnsupportedDataError, match=r"axes/cell: the array has dtype \[\]"
        ):
            session.sql(query).to_pydict()
    with pytest.raises(errors.VectorNotFoundError, match="axis 'gene' has no vector 'nope'"):
        session.sql("SELECT nope FROM gene")
    with pytest.raises(errors.AxisNotFoundError, match="there is no table 'nope'"):
        session.sql("SELECT * FROM nope")


@pytest.mark.parametrize("name", ["n", "name", "obs_is"])
def test_a_broken_scalar(tmp_path: Path, name: str) -> None:
    """It does not keep a data set from being opened, listed and queried."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path)
    daf.set_scalar("name", "mine!")
    daf.set_scalar("obs_is", "cell")
    change_metadata(path / "scalars" / name, filters=5)
    with open_daf(path) as reader:
        assert reader.name.startswith("mine!.read_only" if name != "name" else str(path))
        (problem,) = reader.summary().problems
        assert problem.what == f"scalar {name!r}"
        with pytest.raises(errors.CorruptDataError, match="filters 5"):
            reader.get_scalar(name)
        with pytest.warns(UnreadableVectorWarning, match=f"lacks the scalar '{name}'"):
            rows = connect(reader).sql("SELECT name FROM scalars").to_pydict()
        assert set(rows["name"]) == {"n", "name", "obs_is", "organism"} - {name}
    assert [f.path for f in verify(path, progress="never") if f.level == "error"] == [
        f"scalars/{name}"
    ]


def test_packed_vectors_that_are_broken(tmp_path: Path) -> None:
    """A damaged chunk of a packed vector is found when it is decoded, and takes the vector only."""
    path = tmp_path / "x.daf.zarr"
    daf = ZarrDaf(path, "w", packed=Packing(chunk_kb=1))
    daf.add_axis("cell", [f"{n:05}" for n in range(2000)])
    daf.set_vector("cell", "age", np.arange(2000.0))
    daf.set_vector("cell", "good", np.arange(2000.0))
    chunk = path / "vectors/cell/age/c/0"
    data = chunk.read_bytes()
    chunk.write_bytes(data[:-20] + b"?" * 20)
    with pytest.warns(UnreadableVectorWarning, match="'age'"):
        found = connect(path).sql("SELECT * FROM cell").to_arrow_table()
    assert found.column_names == ["name", "index", "good"]
    chunk.write_bytes(data[:10])
    with pytest.raises(errors.CorruptDataError, match="it is truncated"):
        open_daf(path).vector_info("cell", "age")


def test_converting_beside_a_broken_vector(tmp_path: Path) -> None:
    """What copies everything says which property it stops at."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    change_metadata(path / "vectors/cell/age", filters=5)
    with pytest.raises(errors.CorruptDataError, match="vectors/cell/age"):
        convert(path, tmp_path / "y.daf.zarr", progress="never")


def test_a_table_by_itself(tmp_path: Path) -> None:
    """Without a session, a broken column is an error of the column that is asked for."""
    path = tmp_path / "x.daf.zarr"
    filled(path)
    truncate(path / "vectors/cell/type/0")
    table = AxisDataset(ZarrDaf(path), "cell")
    assert table.to_table(columns=["age"]).num_rows == 3
    with pytest.raises(errors.CorruptDataError, match="vectors/cell/type"):
        table.to_table()
    assert table.readable().to_table().column_names == ["name", "index", "age"]


SPARSE = [
    *("vectors/gene/flag/nzind", "vectors/cell/weight/nzind", "vectors/cell/weight/nzval"),
    *("matrices/cell/gene/sparse/colptr", "matrices/cell/gene/sparse/rowval"),
    "matrices/cell/gene/sparse/nzval",
]


@pytest.mark.parametrize("part", SPARSE)
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_part_of_a_sparse_property_that_is_not_whole(
    tmp_path: Path, part: str, damage: str
) -> None:
    """Its size tells, before anything is read; positions have no fill value to stand in."""
    path = tmp_path / "x.daf.zarr"
    daf = filled(path)
    daf.set_vector("cell", "weight", sp.csc_array([[0], [2.5], [1.5]]))
    chunk = path / part / "0"
    truncate(chunk) if damage == "cut" else chunk.unlink()
    if damage == "missing":
        change_metadata(path / part, fill_value=None if part.endswith("nzval") else 0)
    opened = ZarrDaf(path)
    kind, *names = part.split("/")[:-1]
    read = opened.vector_info if kind == "vectors" else opened.matrix_info
    with pytest.raises(errors.CorruptDataError, match=part):
        read(*names)
    (problem,) = opened.summary().problems
    assert part in problem.message
