"""Tests of Zarr v3: what we write, what other programs write, and packed arrays."""

from __future__ import annotations

import json
import os
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import hypothesis.strategies as st
import numcodecs
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given

from daf_query import connect
from daf_query.cli import main
from daf_storage import (
    DafReader,
    DafWriter,
    H5df,
    MemoryDaf,
    Packing,
    ZarrDaf,
    convert,
    errors,
    open_daf,
    verify,
)
from daf_storage.base import Span, StorageType
from daf_storage.stores import MemoryStore
from daf_storage.trees import (
    ChunkedArray,
    WritableTree,
    WritableZarrTree,
)
from tests.suites import AppendOnlyDafSuite, ChangingDafSuite, ChangingTreeSuite, ReadOnlyDafSuite
from tests.support import (
    UMIS,
    contents,
    create,
    csc_parts,
    edited_bytes,
    edited_json,
    fill,
    fill_served,
    filled,
    recorded_calls,
    served,
    there,
)

CODECS = ["blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip"]


def new_tree(packing: Packing | None) -> WritableTree:
    """Return an empty tree of Zarr v3."""
    tree = WritableZarrTree(MemoryStore(), consolidated=False, zarr_format=3, packing=packing)
    with tree.transaction() as changes:
        changes.mark("test", (1,))
    return tree


class TestPackedTree(ChangingTreeSuite):
    @pytest.fixture
    def tree(self, tiny_chunks: None) -> WritableTree:
        """Return an empty tree that packs whatever it can."""
        return new_tree(Packing())


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("tiny_chunks")
class TestPackedDirectory(ChangingDafSuite):
    location = "x.daf.zarr"
    is_packed = True


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("tiny_chunks")
class TestPackedSharedArchive(AppendOnlyDafSuite):
    """Beside a data set of Zarr v2."""

    location = "x.dafs.zarr.zip#/new"
    beside = ("x.dafs.zarr.zip#/old",)
    is_packed = True


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("tiny_chunks")
class TestPackedHdf5(ChangingDafSuite):
    location = "x.h5df"
    is_packed = True


class TestServed(ReadOnlyDafSuite):
    @pytest.fixture(params=["v3", "archive"])
    def daf(
        self, request: pytest.FixtureRequest, tmp_path: Path, tiny_chunks: None
    ) -> Iterator[DafReader]:
        """Return a data set of Zarr v3 on a server."""
        name = "x.daf.zarr.zip" if request.param == "archive" else "x.daf.zarr"
        packed = request.param != "v3"
        fill_served(writer(tmp_path / name, zarr_format=3, packed=packed)).close()
        with served(tmp_path / name) as server, open_daf(server.url) as daf:
            yield daf


def writer(path: Any, **options: Any) -> DafWriter:
    """Return a new data set."""
    return open_daf(path, "w+" if "#" in str(path) else "w", **options)


# What we write


def test_the_documents(tmp_path: Path) -> None:
    """Each node has a ``zarr.json`` with exactly what other implementations accept; chunks are raw."""
    root = tmp_path / "x.daf.zarr"
    fill(writer(root, zarr_format=3))
    assert not list(root.rglob(".z*"))
    assert json.loads((root / "axes/cell/zarr.json").read_bytes()) == {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [3],
        "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "",
        "codecs": [{"name": "vlen-utf8", "configuration": {}}],
    }
    umis = json.loads((root / "matrices/cell/gene/UMIs/zarr.json").read_bytes())
    assert umis["shape"] == [4, 3]
    assert umis["codecs"] == [{"name": "bytes", "configuration": {"endian": "little"}}]
    assert (root / "matrices/cell/gene/UMIs/c/0/0").read_bytes() == UMIS.tobytes(order="F")
    group = json.loads((root / "vectors/cell/zarr.json").read_bytes())
    assert group == {"zarr_format": 3, "node_type": "group"}
    document = json.loads((root / "zarr.json").read_bytes())
    assert document["attributes"] == {"daf": [1, 0]}
    assert document["consolidated_metadata"]["kind"] == "inline"
    assert document["consolidated_metadata"]["must_understand"] is False
    inline = document["consolidated_metadata"]["metadata"]
    assert list(inline) == sorted(inline)
    found = {p.parent.relative_to(root).as_posix() for p in root.rglob("zarr.json")} - {"."}
    assert set(inline) == found
    for path, listed in inline.items():
        assert listed == json.loads((root / path / "zarr.json").read_bytes())


@pytest.mark.sampled(6)
@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("packed", ["", "v2", *CODECS])
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip"])
def test_zarr_python_reads_it(tmp_path: Path, name: str, packed: str) -> None:
    """Groups open as they are, consolidated or not, and every array has its values."""
    options: Any = {"zarr_format": 2 if packed else 3}
    if packed in CODECS:
        options = {"packed": Packing(packed)}  # type: ignore[arg-type] # as a test chooses
    fill_served(writer(tmp_path / name, **options)).close()
    if name.endswith(".zip"):
        group: Any = zarr.open_group(zarr.storage.ZipStore(tmp_path / name), mode="r")
    else:
        group = zarr.open_group(tmp_path / name, mode="r")
    with open_daf(tmp_path / name) as daf:
        for axis in daf.axes_set():
            assert group[f"axes/{axis}"][:].tolist() == daf.axis_entries(axis).tolist()
        assert group["matrices/cell/gene/UMIs"][:].T.tolist() == UMIS.tolist()
        assert (
            group["matrices/cell/gene/labels"][:].T.tolist()
            == daf.get_np_matrix("cell", "gene", "labels").tolist()
        )
        assert group["vectors/cell/type"][:].tolist() == ["Bcell", "TCell", "TCell"]
        sparse = group["matrices/cell/gene/sparse_UMIs"]
        parts = csc_parts(daf, "cell", "gene", "sparse_UMIs")
        for part in ("colptr", "rowval", "nzval"):
            assert sparse[part][:].tolist() == getattr(parts, part).tolist()


def test_a_packed_file_is_smaller_and_equal(tmp_path: Path) -> None:
    """Real sizes: only what is large enough is packed, strings too, and all of it reads back."""
    flat, packed = tmp_path / "flat.daf.zarr", tmp_path / "packed.daf.zarr"
    rng = np.random.default_rng(0)
    daf = create(flat)
    daf.add_axis("cell", [f"cell {i}" for i in range(30_001)])
    daf.add_axis("gene", ["a", "b", "c"])
    daf.set_vector("cell", "type", np.array(["T cell", "B cell", ""])[rng.integers(0, 3, 30_001)])
    daf.set_vector("cell", "score", rng.integers(0, 9, 30_001) / 4)
    daf.set_matrix("cell", "gene", "UMIs", rng.integers(0, 9, (30_001, 3), dtype=np.uint16))
    daf.set_matrix(
        "cell", "gene", "sparse", sp.random_array((30_001, 3), density=0.3, rng=rng, format="csc")
    )
    convert(flat, packed, packed=Packing(chunk_kb=8))
    with open_daf(flat) as one, open_daf(packed) as other:
        assert contents(one) == contents(other)
        assert other.vector_info("cell", "score").chunk_rows == 1024
        assert other.open_vector("cell", "type").info.chunk_rows == 512

    def size(path: Path) -> int:
        return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())

    assert size(packed) < size(flat) / 2
    document = json.loads((packed / "matrices/gene/cell/UMIs/zarr.json").read_text())
    (codec,) = document["codecs"]  # three genes of 1,365 cells in a chunk
    assert (codec["name"], codec["configuration"]["chunk_shape"]) == ("sharding_indexed", [1365, 3])
    assert verify(packed) == []


def test_converting_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--packed``, ``--zarr-format``, ``--codec`` and ``--level``."""
    start = tmp_path / "x.daf.zarr"
    filled(start, fill_served)
    for name, options in (
        ("a.daf.zarr", ["--zarr-format", "3"]),
        ("b.daf.zarr.zip", ["--packed"]),
        ("c.daf.zarr", ["--codec", "zstd", "--level", "22"]),
        ("d.h5df", ["--packed", "--codec", "gzip"]),
    ):
        assert main(["convert", str(start), str(tmp_path / name), *options]) == 0
        with open_daf(tmp_path / name) as daf, open_daf(start) as original:
            assert contents(daf) == contents(original)
    assert (
        main(
            ["convert", str(start), str(tmp_path / "e.daf.zarr"), "--packed", "--zarr-format", "2"]
        )
        == 1
    )
    assert f"daf: error: {tmp_path}/e.daf.zarr: Zarr v2 would" in capsys.readouterr().err
    assert main(["convert", str(start), str(tmp_path / "e.h5df"), "--zarr-format", "3"]) == 1
    assert f"daf: error: {tmp_path}/e.h5df: an HDF5 file has no" in capsys.readouterr().err


# What the reference writes


def reference_array(
    values: Any,
    inner: tuple[int, ...],
    codec: dict[str, Any],
    encode: Callable[[bytes], bytes],
    name: str,
) -> tuple[dict[str, Any], bytes]:
    """Return the document and the file of a packed array as the reference writes them.

    Its shape is not a multiple of the chunks', the file is an index and a ZIP archive at once, and
    chunks at the edge are filled up.
    """
    grid = [-(-n // c) for n, c in zip(values.shape, inner, strict=True)]
    is_text = values.dtype == object
    places, body = [], b""
    start = 16 * int(np.prod(grid)) + 4
    for number, position in enumerate(np.ndindex(*grid)):
        if is_text:
            part = ["" for _ in range(inner[0])]
            found = values[position[0] * inner[0] :][: inner[0]].tolist()
            part[: len(found)] = found
            raw = struct.pack("<I", len(part)) + b"".join(
                struct.pack("<I", len(t.encode())) + t.encode() for t in part
            )
        else:
            chunk = np.zeros(inner, values.dtype)
            pick = tuple(slice(p * c, (p + 1) * c) for p, c in zip(position, inner, strict=True))
            chunk[tuple(slice(0, n) for n in values[pick].shape)] = values[pick]
            raw = chunk.tobytes()
        payload = encode(raw)
        if name == "gzip":  # the name of the entry is the header of the gzip file
            entry = b"\x1f\x8b\x08\x01" + f"{number:04}".encode() + b"\x02\xff"
            assert payload[:3] == b"\x1f\x8b\x08"
            header = b"PK\x03\x04" + struct.pack(
                "<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, 0, 0, len(entry), 0
            )
            places.append((start + len(body) + len(header), len(entry) + len(payload) - 10))
            body += header + entry + payload[10:]
        else:
            method = {"zstd": 93}.get(name, 0)
            entry = f"c/{number}".encode()
            header = b"PK\x03\x04" + struct.pack(
                "<HHHHHIIIHH", 45, 0, method, 0, 0, 0, 0, 0, len(entry), 20
            )
            header += entry + struct.pack("<HHQQ", 1, 16, len(payload), len(raw))
            places.append((start + len(body) + len(header), len(payload)))
            body += header + payload
    index = np.array(places, "<u8").tobytes()
    data = (
        index
        + struct.pack("<I", google_crc32c.value(index))
        + body
        + b"the directory of the archive"
    )
    serializer = (
        {"name": "vlen-utf8", "configuration": {}}
        if is_text
        else {"name": "bytes", "configuration": {"endian": "little"}}
    )
    sharding = {
        "chunk_shape": list(inner),
        "codecs": [serializer, codec],
        "index_codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "crc32c"},
        ],
        "index_location": "start",
    }
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "attributes": {"daf_packed_format": "indexed+zipped"},
        "shape": list(values.shape),
        "data_type": "string" if is_text else values.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(values.shape)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "" if is_text else 0.0,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    }
    return document, data


def codec_of(name: str, item_bytes: int) -> tuple[dict[str, Any], Callable[[bytes], bytes]]:
    """Return a codec as the reference describes it, and a function that encodes."""
    if name.startswith("blosc"):
        cname = name.removeprefix("blosc-")
        options = {
            "cname": cname,
            "clevel": 5,
            "shuffle": "bitshuffle",
            "typesize": item_bytes,
            "blocksize": 0,
        }
        blosc = numcodecs.Blosc(cname, 5, numcodecs.Blosc.BITSHUFFLE)
        kind = f"V{item_bytes}" if item_bytes > 1 else "u1"
        return {"name": "blosc", "configuration": options}, lambda raw: bytes(
            blosc.encode(np.frombuffer(raw, kind))
        )
    encoder: Any = numcodecs.Zstd(3) if name == "zstd" else numcodecs.GZip(6)
    return {"name": name, "configuration": {"level": 3}}, lambda raw: bytes(encoder.encode(raw))


def shuffled(document: Any, rng: random.Random) -> Any:
    """Return a JSON document with the keys in another order."""
    if isinstance(document, dict):
        items = [(key, shuffled(value, rng)) for key, value in document.items()]
        rng.shuffle(items)
        return dict(items)
    return [shuffled(one, rng) for one in document] if isinstance(document, list) else document


def put(root: Path, path: str, document: dict[str, Any], data: bytes) -> None:
    """Store an array, and list it in the consolidated metadata without its attributes."""
    (root / path).mkdir(parents=True, exist_ok=True)
    (root / path / "zarr.json").write_text(json.dumps(document))
    chunk = root / path / "/".join(["c", *"0" * len(document["shape"])])
    chunk.parent.mkdir(parents=True, exist_ok=True)
    chunk.write_bytes(data)
    top = json.loads((root / "zarr.json").read_text())
    listed = {key: value for key, value in document.items() if key != "attributes"}
    top["consolidated_metadata"]["metadata"][path] = listed
    (root / "zarr.json").write_text(json.dumps(shuffled(top, random.Random(len(data)))))


@pytest.fixture(params=[codec for codec in CODECS if codec != "blosc-zstd-shuffle"])
def reference(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a data set as the newest reference release writes it: packed, keys in any order."""
    root = tmp_path / "reference.daf.zarr"
    daf = writer(root, zarr_format=3)
    rng = np.random.default_rng(5)
    daf.add_axis("cell", [f"c{i}" for i in range(1200)])
    daf.add_axis("gene", [f"g{i}" for i in range(8)])
    daf.set_vector("cell", "zeros", np.zeros(1200, np.int32))
    daf.set_vector("cell", "nothing", [""] * 1200)
    daf.set_vector("cell", "false", np.zeros(1200, bool))
    for name in ("zeros", "nothing", "false"):  # it writes no chunk of what is all fill
        (root / f"vectors/cell/{name}/c/0").unlink()
    score, matrix = rng.random(1200).round(2), rng.random((8, 1200)).round(1).astype("f8")
    labels = np.array([f"label {i % 7}" for i in range(1200)], dtype=object)
    for path, values, inner in (
        ("vectors/cell/score", score, (1024,)),
        ("matrices/cell/gene/expression", matrix, (1, 1024)),
        ("vectors/cell/label", labels, (512,)),
    ):
        codec, encode = codec_of(request.param, 1 if values.dtype == object else 8)
        put(root, path, *reference_array(values, inner, codec, encode, request.param))
    np.save(tmp_path / "score.npy", score)
    np.save(tmp_path / "matrix.npy", matrix)
    return root


def check_reference(daf: DafReader, folder: Path) -> None:
    """Compare with what was put there."""
    assert np.array_equal(daf.get_np_vector("cell", "score"), np.load(folder / "score.npy"))
    matrix = np.load(folder / "matrix.npy").T
    assert np.array_equal(daf.get_np_matrix("cell", "gene", "expression"), matrix)
    assert np.array_equal(daf.get_np_matrix("gene", "cell", "expression"), matrix.T)
    assert daf.get_np_vector("cell", "label").tolist() == [f"label {i % 7}" for i in range(1200)]
    assert daf.get_np_vector("cell", "zeros").tolist() == [0] * 1200
    assert daf.get_np_vector("cell", "nothing").tolist() == [""] * 1200
    assert not daf.get_np_vector("cell", "false").any()
    db = connect(daf)
    assert db.sql(
        "SELECT count(*) AS n FROM cell WHERE label = 'label 3' AND zeros = 0"
    ).to_pydict() == {"n": [171]}
    part = db.matrix(
        "cell", "gene", "expression", rows="index BETWEEN 1022 AND 1025", columns=["g1", "g6"]
    )
    assert np.array_equal(part.to_numpy(), matrix[1022:1026][:, [1, 6]])


def test_what_the_reference_writes(reference: Path, tmp_path: Path) -> None:
    """As a directory, on a server, in an archive; and it can be changed and converted."""
    with open_daf(reference) as daf:
        check_reference(daf, tmp_path)
    with served(reference) as server, open_daf(server.url) as daf:
        check_reference(daf, tmp_path)
    convert(reference, tmp_path / "x.daf.zarr.zip")
    with open_daf(tmp_path / "x.daf.zarr.zip") as daf:
        check_reference(daf, tmp_path)
    with zipfile.ZipFile(tmp_path / "y.daf.zarr.zip", "w") as archive:
        for file in sorted(reference.rglob("*")):
            archive.write(file, file.relative_to(reference).as_posix())
    with ZarrDaf(tmp_path / "y.daf.zarr.zip") as daf:
        check_reference(daf, tmp_path)
    with ZarrDaf(reference, "r+") as daf:
        daf.set_vector("cell", "new", np.arange(1200))
        daf.delete_vector("cell", "zeros")
        daf.set_vector("cell", "zeros", np.zeros(1200))
        check_reference(daf, tmp_path)


# Partial reads


class _Counting(MemoryStore):
    """A store that counts the ranges that are read of packed files."""

    def snapshot(self, prefix: str) -> Any:
        found = super().snapshot(prefix)
        read = None if found is None else found.read_ranges

        def counted(key: str, ranges: list[tuple[int, int]]) -> Any:
            assert read is not None
            self.ranges.extend(ranges)
            return read(key, ranges)

        if found is not None:
            found.read_ranges = counted  # type: ignore[method-assign] # replaced for the test
        return found

    ranges: list[tuple[int, int]]


@pytest.fixture
def counting() -> tuple[WritableZarrTree, _Counting]:
    """Return a packed tree and its store."""
    store = _Counting()
    store.ranges = []
    tree = WritableZarrTree(store, consolidated=False, zarr_format=3, packing=Packing(chunk_kb=1))
    return tree, store


def test_only_the_chunks_that_are_needed(counting: tuple[WritableZarrTree, _Counting]) -> None:
    """A range of rows, of columns, or of strings reads the index and its own chunks, each once."""
    tree, store = counting
    values = np.arange(4 * 1000, dtype=np.float64).reshape(4, 1000)  # 128 to a chunk, 8 to a row
    with tree.transaction() as changes:
        changes.write_array("m", values)
        changes.write_array("v", values[0])
        changes.publish("m", replace=False)
        changes.publish("v", replace=False)

    def array(path: str) -> Any:
        node = there(tree.node(path))
        return node.array()

    def chunks_read(read: Callable[[], Any], expected: Any) -> int:
        store.ranges.clear()
        assert np.array_equal(read(), expected)
        assert len(set(store.ranges)) == len(store.ranges)
        return len(store.ranges) - 1  # less the index

    m, v = array("m"), array("v")
    assert chunks_read(lambda: v.read_rows(Span(127, 129)), values[0, 127:129]) == 2
    assert chunks_read(lambda: array("v").read_rows(Span(5, 5)), []) == -1
    assert chunks_read(lambda: m.read_rows(Span(1, 3)), values[1:3]) == 16
    spans = [Span(0, 1), Span(2, 3)]
    picked = array("m")
    assert (
        chunks_read(
            lambda: np.concatenate(picked.read_spans(spans, Span(130, 140))),
            values[[0, 2], 130:140],
        )
        == 2
    )
    same = array("v")
    many = [Span(n, n + 1) for n in range(10)]
    assert chunks_read(lambda: np.concatenate(same.read_spans(many)), values[0, :10]) == 1


def test_sql_decodes_chunk_by_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan reads the columns that it needs in ranges of whole chunks, each chunk once."""
    daf = writer(tmp_path / "x.daf.zarr", packed=Packing("zstd", chunk_kb=8))
    daf.add_axis("cell", [str(i) for i in range(200_000)])
    daf.set_vector("cell", "a", np.arange(200_000.0))
    daf.set_vector("cell", "b", np.arange(200_000, dtype=np.int32) % 10)
    decoded = recorded_calls(
        monkeypatch, (ChunkedArray, "decode"), lambda array, at, *_: (array.what, at)
    )
    db = connect(daf)
    found = db.sql("SELECT sum(b) AS n FROM cell WHERE b < 5").to_pydict()
    assert found == {"n": [200_000]}
    assert len(decoded) == len(set(decoded)) == -(-200_000 // 2048)
    assert all(what.endswith("/b") for what, _ in decoded)


@given(st.data())
def test_random_parts_equal_numpy(data: st.DataObject) -> None:
    """Any type, shape, codec, chunk length and part: what is decoded is what was written."""
    kind = data.draw(st.sampled_from([k for k in StorageType if not k.is_string]))
    shape = data.draw(st.sampled_from([(700,), (3, 1100), (1, 600)]))
    packing = Packing(data.draw(st.sampled_from(CODECS)), chunk_kb=1)  # type: ignore[arg-type] # one of the codecs
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    values = rng.integers(0, 2, shape).astype(kind.dtype)
    tree = WritableZarrTree(MemoryStore(), consolidated=False, zarr_format=3, packing=packing)
    with tree.transaction() as changes:
        cut = data.draw(st.integers(0, shape[0]))
        changes.write_blocks("a", shape, kind, [values[:cut], values[cut:]])
        changes.publish("a", replace=False)
    node = tree.node("a")
    array = there(None if node is None else node.array())
    bounds = sorted(data.draw(st.tuples(*[st.integers(0, shape[0])] * 2)))
    assert np.array_equal(array.read_rows(Span(*bounds)), values[slice(*bounds)])
    if len(shape) == 2:
        within = sorted(data.draw(st.tuples(*[st.integers(0, shape[1])] * 2)))
        part = array.read_spans([Span(*bounds)], Span(*within))[0]
        assert np.array_equal(part, values[slice(*bounds), slice(*within)])
    assert array.read().dtype == kind.dtype


# What is wrong


def edited(path: Path, **changes: Any) -> None:
    """Change keys of a ``zarr.json``."""
    document = json.loads((path / "zarr.json").read_text()) | changes
    (path / "zarr.json").write_text(json.dumps(document))


def scribbled(path: Path, place: int) -> None:
    """Change bytes of the chunk of a vector."""
    with edited_bytes(path / "c/0") as data:
        data[place : place + 8] = bytes(b ^ 0xFF for b in data[place : place + 8])


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
NOPE = {"codecs": [LITTLE, {"name": "nope"}]}
CORRUPT, UNSUPPORTED = errors.CorruptDataError, errors.UnsupportedDataError


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        ("{", CORRUPT, "is not JSON"),
        ("[]", CORRUPT, "no JSON object"),
        ({"zarr_format": 4}, CORRUPT, "zarr_format is 4"),
        ({"node_type": "table"}, CORRUPT, "node_type is 'table'"),
        ({"shape": [-1]}, CORRUPT, "malformed"),
        ({"shape": [3000]}, CORRUPT, "stored shape is"),
        ({"shape": [1, 5000]}, CORRUPT, "differ in length"),
        ({"codecs": []}, CORRUPT, "no codecs"),
        ({"codecs": [{"nom": "x"}]}, CORRUPT, "malformed"),
        ({"codecs": [{"name": 1}]}, CORRUPT, "malformed"),
        (NOPE, UNSUPPORTED, "codec that is not available"),
        ({"data_type": "complex64"}, UNSUPPORTED, "complex64"),
        ({"chunk_grid": {"name": "rectilinear"}}, UNSUPPORTED, "'rectilinear' grid"),
        ({"storage_transformers": [{"name": "x"}]}, UNSUPPORTED, "storage transformers"),
        ({"sharding": NOPE}, UNSUPPORTED, "codec that is not available"),
        (lambda vector: os.truncate(vector / "c/0", 0), CORRUPT, "no room for the index"),
        (lambda vector: os.truncate(vector / "c/0", 60), CORRUPT, "no room for the index"),
        (lambda vector: os.truncate(vector / "c/0", 100), CORRUPT, "truncated"),
        (lambda vector: scribbled(vector, 0), CORRUPT, "checksum of the index"),
        (lambda vector: scribbled(vector, 100), CORRUPT, "cannot be decompressed"),
    ],
)
def test_damage_is_told(tmp_path: Path, damage: Any, error: Any, message: str) -> None:
    """Each names the vector and the problem; nothing is guessed, and the others are readable."""
    root = tmp_path / "x.daf.zarr"
    daf = writer(root, packed=Packing(chunk_kb=8))
    daf.add_axis("cell", [str(i) for i in range(5000)])
    daf.set_vector("cell", "v", np.arange(5000.0))
    daf.set_vector("cell", "w", np.arange(5000.0))
    daf.close()
    vector = root / "vectors/cell/v"
    if isinstance(damage, str):
        (vector / "zarr.json").write_text(damage)
    elif callable(damage):
        damage(vector)
    elif "sharding" in damage:
        with edited_json(vector / "zarr.json") as document:
            document["codecs"][0]["configuration"] |= damage["sharding"]
    else:
        edited(vector, **damage)
    with open_daf(root) as reader:
        with pytest.raises(error, match=message) as caught:
            reader.get_np_vector("cell", "v")
        assert "vectors/cell/v" in str(caught.value)
        assert reader.get_np_vector("cell", "w").sum() == np.arange(5000.0).sum()
    assert any(finding.path == "vectors/cell/v" for finding in verify(root))


@pytest.mark.parametrize("codec", CODECS)
def test_random_damage_never_gives_wrong_sizes(tmp_path: Path, codec: Any) -> None:
    """Whatever byte of a packed file is changed, there is an answer of the right size or an error."""
    root = tmp_path / "x.daf.zarr"
    daf = writer(root, packed=Packing(codec))
    daf.add_axis("cell", [f"c{i}" for i in range(3000)])
    daf.set_vector("cell", "v", np.arange(3000.0))
    daf.set_vector("cell", "s", ["some text", ""] * 1500)
    daf.close()
    rng = random.Random(7)
    for name in ("v", "s"):
        file = root / f"vectors/cell/{name}/c/0"
        good = file.read_bytes()
        for _ in range(60):
            bad = bytearray(good)
            for _ in range(rng.randint(1, 3)):
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            file.write_bytes(bad)
            try:
                with open_daf(root) as reader:
                    assert len(reader.get_np_vector("cell", name)) == 3000
            except errors.CorruptDataError:
                pass
        file.write_bytes(good)


@pytest.mark.parametrize(
    ("kind", "attributes", "error", "message"),
    [
        ("group", {}, errors.NotADafError, "not a daf data set"),
        ("array", {}, errors.NotADafError, "not a zarr group"),
        ("group", {"daf": [2, 0]}, errors.VersionError, "incompatible format version: 2.0"),
        ("group", {"daf": [1, 1]}, errors.VersionError, "incompatible format version: 1.1"),
        ("group", {"daf": [1]}, errors.VersionError, "malformed daf version marker"),
        ("group", {"daf": "1.0"}, errors.VersionError, "malformed daf version marker"),
        ("group", {"daf": ["1", "0"]}, errors.VersionError, "malformed daf version marker"),
    ],
)
def test_roots_that_are_no_data_set(
    tmp_path: Path, kind: str, attributes: Any, error: Any, message: str
) -> None:
    """Not a group, not marked, or marked with another version."""
    root = tmp_path / "x.daf.zarr"
    root.mkdir()
    (root / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": kind, "attributes": attributes})
    )
    with pytest.raises(error, match=message):
        open_daf(root)


def test_a_group_of_zarr_v3_becomes_a_data_set(tmp_path: Path) -> None:
    """With mode w+, in place; its other attributes stay."""
    root = tmp_path / "x.daf.zarr"
    zarr.open_group(root, mode="w", zarr_format=3, attributes={"mine": 5})
    daf = open_daf(root, "w+")
    fill(daf)
    assert dict(zarr.open_group(root, mode="r").attrs) == {"mine": 5, "daf": [1, 0]}
    with MemoryDaf() as memory:
        assert contents(open_daf(root)) == contents(fill(memory))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda d: d.pop("consolidated_metadata"),
            errors.NotADafError,
            "lacks an inline consolidated_metadata",
        ),
        (
            lambda d: d["consolidated_metadata"].update(kind="other"),
            errors.CorruptDataError,
            "malformed",
        ),
        (
            lambda d: d["consolidated_metadata"].update(metadata=5),
            errors.CorruptDataError,
            "malformed",
        ),
        (lambda d: d.update(node_type="array"), errors.NotADafError, "not a zarr group"),
    ],
)
def test_consolidated_metadata_of_a_server(
    tmp_path: Path, change: Any, error: Any, message: str
) -> None:
    """They are needed, inline, because a server cannot be asked for a list."""
    root = tmp_path / "x.daf.zarr"
    fill(writer(root, zarr_format=3))
    with edited_json(root / "zarr.json") as document:
        change(document)
    with served(root) as server, pytest.raises(error, match=message):
        open_daf(server.url)


def test_huge_shapes_without_data(tmp_path: Path) -> None:
    """A missing chunk stands for zeros, but not for more than an axis or memory has room for."""
    root = tmp_path / "x.daf.zarr"
    fill(writer(root, zarr_format=3))
    huge = 10**15
    grid = {"name": "regular", "configuration": {"chunk_shape": [huge]}}
    metadata, names = ((root / "axes/gene" / name).read_bytes() for name in ("zarr.json", "c/0"))
    for path in (
        "vectors/cell/age",
        "axes/gene",
        "matrices/cell/gene/sparse/rowval",
        "vectors/gene/flag/nzind",
    ):
        edited(root / path, shape=[huge], chunk_grid=grid)
        (root / path / "c/0").unlink()
    with open_daf(root) as daf:
        with pytest.raises(errors.CorruptDataError, match="stored shape"):
            daf.get_np_vector("cell", "age")
        with pytest.raises(errors.CorruptDataError, match="axis 'gene' is said to have"):
            daf.axis_entries("gene")
    (root / "axes/gene/zarr.json").write_bytes(metadata)
    with pytest.raises(errors.CorruptDataError, match="axes/gene: the chunk file 'c/0' is missing"):
        open_daf(root).axis_length("gene")
    (root / "axes/gene/c/0").write_bytes(names)
    with open_daf(root) as daf:
        daf.axis_length("gene")
        with pytest.raises(errors.CorruptDataError, match="no room for so many"):
            daf.get_np_matrix("cell", "gene", "sparse")
        with pytest.raises(errors.CorruptDataError, match="the axis has 4 entries"):
            daf.get_np_vector("gene", "flag")
    assert verify(root)


@pytest.mark.parametrize("codec", CODECS)
def test_packed_hdf5(tmp_path: Path, codec: Any) -> None:
    """Chunks of one column, compressed; h5py reads them with the package that has the filters."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("hdf5plugin")
    path = tmp_path / "x.h5df"
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (3000, 4)).astype(np.float32)
    flags = rng.random(9000) < 0.2
    with writer(path, packed=Packing(codec, chunk_kb=8)) as daf:
        daf.add_axis("cell", [str(i) for i in range(3000)])
        daf.add_axis("gene", list("abcd"))
        daf.add_axis("peak", [str(i) for i in range(9000)])
        daf.set_matrix("cell", "gene", "m", values)
        daf.set_vector("peak", "flag", flags)
    with h5py.File(path) as file:
        stored = file["matrices/cell/gene/m"]
        assert stored.chunks == (1, 2048)
        assert np.array_equal(stored[:].T, values)
        assert file["vectors/peak/flag"][:].astype(bool).tolist() == flags.tolist()
        assert file["matrices/gene/cell/m"].chunks == (512, 4)
    with H5df(path) as daf:
        assert np.array_equal(daf.get_np_matrix("cell", "gene", "m"), values)
        assert np.array_equal(daf.get_np_vector("peak", "flag"), flags)
        part = connect(daf).matrix("cell", "gene", "m", rows="index >= 2998", columns=["d", "a"])
        assert np.array_equal(part.to_numpy(), values[2998:][:, [3, 0]])
    assert verify(path) == []


@pytest.mark.parametrize("damage", ["no file", "no chunk"])
@pytest.mark.parametrize("kind", ["numbers", "strings"])
def test_chunks_that_nothing_stands_for(tmp_path: Path, kind: str, damage: str) -> None:
    """Of an array without a fill value, a missing chunk is damage, of numbers and of strings."""
    path = tmp_path / "x.daf.zarr"
    daf = ZarrDaf(path, "w", packed=Packing("zstd", chunk_kb=1))
    n = 2_000
    daf.add_axis("cell", [f"c{i}" for i in range(n)])
    daf.set_vector("cell", "v", np.arange(n) if kind == "numbers" else [f"v{i}" for i in range(n)])
    folder = path / "vectors/cell/v"
    with edited_json(folder / "zarr.json") as document:
        document["fill_value"] = None
    (file,) = [one for one in folder.rglob("*") if one.is_file() and one.name != "zarr.json"]
    reader = ZarrDaf(path)
    assert reader.get_np_vector("cell", "v")[5] == (5 if kind == "numbers" else "v5")
    if damage == "no file":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        sharding = document["codecs"][0]["configuration"]
        rows = document["chunk_grid"]["configuration"]["chunk_shape"][0]
        size = 16 * (rows // sharding["chunk_shape"][0])
        start = 0 if sharding.get("index_location") == "start" else len(data) - size - 4
        data[start : start + 16] = b"\xff" * 16
        index = bytes(data[start : start + size])
        data[start + size : start + size + 4] = struct.pack("<I", google_crc32c.value(index))
        file.write_bytes(data)
    stored = ZarrDaf(path).open_vector("cell", "v")
    with pytest.raises(errors.CorruptDataError, match="chunks are missing, and .* no fill value"):
        stored.read(Span(0, 3)) if kind == "numbers" else stored.read_strings()
