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
import h5py
import hypothesis.strategies as st
import numcodecs
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given

from daf_query import connect
from daf_storage import (
    DafReader,
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
from daf_storage.trees import ChunkedArray, WritableTree, WritableZarrTree
from tests.suites import AppendOnlyDafSuite, ChangingDafSuite, ChangingTreeSuite, ReadOnlyDafSuite
from tests.suites.examples import array_of
from tests.support import (
    UMIS,
    contents,
    create,
    csc_parts,
    data_set,
    edited_bytes,
    edited_json,
    fill,
    fill_served,
    filled,
    recorded_calls,
    served,
)

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CODECS = ["blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip"]


class TestPackedTree(ChangingTreeSuite):
    @pytest.fixture
    def tree(self, tiny_chunks: None) -> WritableTree:
        """Return an empty tree that packs whatever it can."""
        tree = WritableZarrTree(MemoryStore(), consolidated=False, zarr_format=3, packing=Packing())
        with tree.transaction() as changes:
            changes.mark("test", (1,))
        return tree


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
        fill_served(open_daf(tmp_path / name, "w", zarr_format=3, packed=packed)).close()
        with served(tmp_path / name) as server, open_daf(server.url) as daf:
            yield daf


# What we write


def test_the_documents(tmp_path: Path) -> None:
    """Each node has a ``zarr.json`` with exactly what other implementations accept; chunks are raw."""
    root = tmp_path / "x.daf.zarr"
    fill(open_daf(root, "w", zarr_format=3))
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
    fill_served(open_daf(tmp_path / name, "w", **options)).close()
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
    types = np.array(["T cell", "B cell", ""])[rng.integers(0, 3, 30_001)]
    cells = {"name": 30_001, "type": types, "score": rng.integers(0, 9, 30_001) / 4}
    daf = data_set(create(flat), cell=cells, gene=3)
    daf.set_matrix("cell", "gene", "UMIs", rng.integers(0, 9, (30_001, 3), dtype=np.uint16))
    daf.set_matrix(
        "cell", "gene", "sparse", sp.random_array((30_001, 3), density=0.3, rng=rng, format="csc")
    )
    convert(flat, packed, packed=Packing(chunk_kb=8))
    with open_daf(flat) as one, open_daf(packed) as other:
        assert contents(one) == contents(other)
        assert other.vector_info("cell", "score").chunk_rows == 1024
        assert other.open_vector("cell", "type").info.chunk_rows == 512
    sizes = [sum(f.stat().st_size for f in p.rglob("*") if f.is_file()) for p in (flat, packed)]
    assert sizes[1] < sizes[0] / 2
    document = json.loads((packed / "matrices/gene/cell/UMIs/zarr.json").read_text())
    (codec,) = document["codecs"]  # three genes of 1,365 cells in a chunk
    assert (codec["name"], codec["configuration"]["chunk_shape"]) == ("sharding_indexed", [1365, 3])
    assert verify(packed) == []


# What the reference writes


def indexed(payloads: list[bytes]) -> bytes:
    """Return a file of chunks as the reference writes it: an index, and a ZIP archive at once.

    Of the archive, there is a header before each chunk, and the directory at the end.
    """
    header, places, body = b"PK\3\4 of a chunk", [], b""
    for payload in payloads:
        body += header
        places.append((16 * len(payloads) + 4 + len(body), len(payload)))
        body += payload
    index = np.array(places, "<u8").tobytes()
    checksum = struct.pack("<I", google_crc32c.value(index))
    return index + checksum + body + b"the directory of the archive"


def reference_array(
    values: Any, inner: tuple[int, ...], codec: dict[str, Any], encode: Callable[[bytes], bytes]
) -> tuple[dict[str, Any], bytes]:
    """Return the document and the file of a packed array as the reference writes them.

    Its shape is not a multiple of the chunks', and chunks at the edge are filled up.
    """
    grid = [-(-n // c) for n, c in zip(values.shape, inner, strict=True)]
    is_text = values.dtype == object
    whole = np.full(np.multiply(grid, inner), "" if is_text else 0, values.dtype)
    whole[tuple(slice(n) for n in values.shape)] = values
    payloads = []
    for position in np.ndindex(*grid):
        places = zip(position, inner, strict=True)
        chunk = whole[tuple(slice(p * c, (p + 1) * c) for p, c in places)]
        raw = numcodecs.VLenUTF8().encode(chunk) if is_text else chunk.tobytes()
        payloads.append(encode(bytes(raw)))
    serializer = {"name": "vlen-utf8", "configuration": {}} if is_text else LITTLE
    sharding = {
        "chunk_shape": list(inner),
        "codecs": [serializer, codec],
        "index_codecs": [LITTLE, {"name": "crc32c"}],
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
    return document, indexed(payloads)


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
    zipped = b"\x1f\x8b\x08\x010001\x02\xff"  # the name of the entry is the header of the gzip file
    return (
        {"name": name, "configuration": {"level": 3}},
        lambda raw: (
            bytes(numcodecs.Zstd(3).encode(raw))
            if name == "zstd"
            else zipped + bytes(numcodecs.GZip(6).encode(raw))[10:]
        ),
    )


def in_any_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON document with its keys in another order."""
    return dict(random.Random(len(pairs)).sample(pairs, len(pairs)))


def put(root: Path, path: str, document: dict[str, Any], data: bytes) -> None:
    """Store an array, and list it in the consolidated metadata without its attributes."""
    (root / path).mkdir(parents=True, exist_ok=True)
    (root / path / "zarr.json").write_text(json.dumps(document))
    chunk = root / path / "/".join(["c", *"0" * len(document["shape"])])
    chunk.parent.mkdir(parents=True, exist_ok=True)
    chunk.write_bytes(data)
    top = json.loads((root / "zarr.json").read_text(), object_pairs_hook=in_any_order)
    listed = {key: value for key, value in document.items() if key != "attributes"}
    top["consolidated_metadata"]["metadata"][path] = listed
    (root / "zarr.json").write_text(json.dumps(top))


SCORE = np.random.default_rng(5).random(1200).round(2)
EXPRESSION = np.random.default_rng(6).random((8, 1200)).round(1)
LABELS = np.array([f"label {i % 7}" for i in range(1200)], dtype=object)


@pytest.fixture(params=[codec for codec in CODECS if codec != "blosc-zstd-shuffle"])
def reference(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a data set as the newest reference release writes it: packed, keys in any order."""
    root = tmp_path / "reference.daf.zarr"
    nothing = {"zeros": np.zeros(1200, np.int32), "nothing": [""] * 1200, "false": [False] * 1200}
    data_set(open_daf(root, "w", zarr_format=3), cell={"name": 1200, **nothing}, gene=8)
    for name in nothing:  # it writes no chunk of what is all fill
        (root / f"vectors/cell/{name}/c/0").unlink()
    for path, values, inner in (
        ("vectors/cell/score", SCORE, (1024,)),
        ("matrices/cell/gene/expression", EXPRESSION, (1, 1024)),
        ("vectors/cell/label", LABELS, (512,)),
    ):
        codec, encode = codec_of(request.param, 1 if values.dtype == object else 8)
        put(root, path, *reference_array(values, inner, codec, encode))
    return root


def check_reference(daf: DafReader) -> None:
    """Compare with what was put there."""
    matrix = EXPRESSION.T
    assert np.array_equal(daf.get_np_vector("cell", "score"), SCORE)
    assert np.array_equal(daf.get_np_matrix("cell", "gene", "expression"), matrix)
    assert np.array_equal(daf.get_np_matrix("gene", "cell", "expression"), EXPRESSION)
    assert np.array_equal(daf.get_np_vector("cell", "label"), LABELS)
    assert daf.get_np_vector("cell", "zeros").tolist() == [0] * 1200
    assert daf.get_np_vector("cell", "nothing").tolist() == [""] * 1200
    assert not daf.get_np_vector("cell", "false").any()
    db = connect(daf)
    query = "SELECT count(*) AS n FROM cell WHERE label = 'label 3' AND zeros = 0"
    assert db.sql(query).to_pydict() == {"n": [171]}
    rows = "index BETWEEN 1022 AND 1025"
    part = db.matrix("cell", "gene", "expression", rows=rows, columns=["g1", "g6"])
    assert np.array_equal(part.to_numpy(), matrix[1022:1026][:, [1, 6]])


def test_what_the_reference_writes(reference: Path, tmp_path: Path) -> None:
    """As a directory, on a server, in an archive; and it can be changed and converted."""
    archive, packed = tmp_path / "x.daf.zarr.zip", tmp_path / "y.daf.zarr.zip"
    convert(reference, archive)
    with zipfile.ZipFile(packed, "w") as file:
        for each in sorted(reference.rglob("*")):
            file.write(each, each.relative_to(reference))
    with served(reference) as server:
        for place in (reference, server.url, archive, packed):
            with open_daf(place) as daf:
                check_reference(daf)
    with ZarrDaf(reference, "r+") as daf:
        daf.set_vector("cell", "new", np.arange(1200))
        daf.delete_vector("cell", "zeros")
        daf.set_vector("cell", "zeros", np.zeros(1200))
        check_reference(daf)


# Partial reads


def test_only_the_chunks_that_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of rows, of columns, or of strings reads the index and its own chunks, each once."""
    store, packing = MemoryStore(), Packing(chunk_kb=1)
    tree = WritableZarrTree(store, consolidated=False, zarr_format=3, packing=packing)
    values = np.arange(4 * 1000, dtype=np.float64).reshape(4, 1000)  # 128 to a chunk, 8 to a row
    with tree.transaction() as changes:
        changes.write_array("m", values)
        changes.write_array("v", values[0])
        changes.publish("m", replace=False)
        changes.publish("v", replace=False)
    snapshot = type(store.snapshot("v"))
    reads = recorded_calls(monkeypatch, (snapshot, "read_ranges"), lambda _, __, ranges: ranges)

    def chunks_read(read: Callable[[], Any], expected: Any) -> int:
        reads.clear()
        assert np.array_equal(read(), expected)
        found = [one for ranges in reads for one in ranges]
        assert len(set(found)) == len(found)
        return len(found) - 1  # less the index

    m, v = array_of(tree, "m"), array_of(tree, "v")
    assert chunks_read(lambda: v.read_rows(Span(127, 129)), values[0, 127:129]) == 2
    assert chunks_read(lambda: array_of(tree, "v").read_rows(Span(5, 5)), []) == -1
    assert chunks_read(lambda: m.read_rows(Span(1, 3)), values[1:3]) == 16
    picked, spans = array_of(tree, "m"), [Span(0, 1), Span(2, 3)]
    part = chunks_read(
        lambda: np.concatenate(picked.read_spans(spans, Span(130, 140))), values[[0, 2], 130:140]
    )
    assert part == 2
    same, many = array_of(tree, "v"), [Span(n, n + 1) for n in range(10)]
    assert chunks_read(lambda: np.concatenate(same.read_spans(many)), values[0, :10]) == 1


def test_sql_decodes_chunk_by_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan reads the columns that it needs in ranges of whole chunks, each chunk once."""
    daf = open_daf(tmp_path / "x.daf.zarr", "w", packed=Packing("zstd", chunk_kb=8))
    numbers = np.arange(200_000, dtype=np.int32)
    data_set(daf, cell={"name": 200_000, "a": numbers / 1, "b": numbers % 10})
    decoded = recorded_calls(
        monkeypatch, (ChunkedArray, "decode"), lambda array, at, *_: (array.what, at)
    )
    db = connect(daf)
    assert db.sql("SELECT sum(b) AS n FROM cell WHERE b < 5").to_pydict() == {"n": [200_000]}
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
    array = array_of(tree, "a")
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
    daf = open_daf(root, "w", packed=Packing(chunk_kb=8))
    numbers = np.arange(5000.0)
    data_set(daf, cell={"name": 5000, "v": numbers, "w": numbers}).close()
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
        assert reader.get_np_vector("cell", "w").sum() == numbers.sum()
    assert any(finding.path == "vectors/cell/v" for finding in verify(root))


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
    ("changes", "error", "message"),
    [
        ({"consolidated_metadata": None}, errors.NotADafError, "lacks an inline consol"),
        ({"consolidated_metadata": {"kind": "other", "metadata": {}}}, CORRUPT, "malformed"),
        ({"consolidated_metadata": {"kind": "inline", "metadata": 5}}, CORRUPT, "malformed"),
        ({"node_type": "array"}, errors.NotADafError, "not a zarr group"),
    ],
)
def test_consolidated_metadata_of_a_server(
    tmp_path: Path, changes: Any, error: Any, message: str
) -> None:
    """They are needed, inline, because a server cannot be asked for a list."""
    root = tmp_path / "x.daf.zarr"
    filled(root, zarr_format=3).close()
    edited(root, **changes)
    with served(root) as server, pytest.raises(error, match=message):
        open_daf(server.url)


def test_huge_shapes_without_data(tmp_path: Path) -> None:
    """A missing chunk stands for zeros, but not for more than an axis or memory has room for."""
    root, names = tmp_path / "x.daf.zarr", "axes/gene/zarr.json"
    filled(root, zarr_format=3).close()
    metadata = (root / names).read_bytes()
    changes = {
        "shape": [10**15],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**15]}},
    }
    reads: dict[str, tuple[Callable[[DafReader], Any], str]] = {
        "vectors/cell/age": (lambda daf: daf.get_np_vector("cell", "age"), "stored shape"),
        "matrices/cell/gene/sparse/rowval": (
            lambda daf: daf.get_np_matrix("cell", "gene", "sparse"),
            "no room for so many",
        ),
        "vectors/gene/flag/nzind": (
            lambda daf: daf.get_np_vector("gene", "flag"),
            "gene has no room for so many",
        ),
        "axes/gene": (lambda daf: daf.axis_entries("gene"), "axis 'gene' is said to have"),
    }
    for path, (read, message) in reads.items():
        edited(root / path, **changes)
        (root / path / "c/0").unlink()
        with open_daf(root) as daf, pytest.raises(CORRUPT, match=message):
            read(daf)
    assert verify(root)
    (root / names).write_bytes(metadata)
    with pytest.raises(CORRUPT, match="axes/gene: the chunk file 'c/0' is missing"):
        open_daf(root).axis_length("gene")


@pytest.mark.parametrize("codec", CODECS)
def test_packed_hdf5(tmp_path: Path, codec: Any) -> None:
    """Chunks of one column, compressed; h5py reads them with the package that has the filters."""
    pytest.importorskip("hdf5plugin")
    path = tmp_path / "x.h5df"
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (3000, 4)).astype(np.float32)
    flags = rng.random(9000) < 0.2
    with open_daf(path, "w", packed=Packing(codec, chunk_kb=8)) as daf:
        data_set(daf, cell=3000, gene=list("abcd"), peak={"name": 9000, "flag": flags})
        daf.set_matrix("cell", "gene", "m", values)
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
    values: Any = np.arange(n) if kind == "numbers" else [f"v{i}" for i in range(n)]
    data_set(daf, cell={"name": n, "v": values})
    folder = path / "vectors/cell/v"
    with edited_json(folder / "zarr.json") as document:
        document["fill_value"] = None
    (file,) = [one for one in folder.rglob("*") if one.is_file() and one.name != "zarr.json"]
    reader = ZarrDaf(path)
    assert reader.get_np_vector("cell", "v")[5] == values[5]
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
    with pytest.raises(errors.CorruptDataError, match="is missing, and .* no fill value"):
        stored.read(Span(0, 3)) if kind == "numbers" else stored.read_strings()
