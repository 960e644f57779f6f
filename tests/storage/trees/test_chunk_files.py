"""Tests of chunks of Zarr arrays that are read without zarr-python, beside it."""

from __future__ import annotations

import json
import struct
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec, TransposeCodec
from zarr.codecs import numcodecs as codecs
from zarr.storage import ZipStore

from daf_storage import errors
from daf_storage.base import DOWNLOADS, Span
from daf_storage.stores import DirectoryStore, MmapZipStore, ReadEstimate, RemoteFiles, RemoteStore
from daf_storage.trees import StoredArray, ZarrTree
from tests.storage.opening.test_remote import served
from tests.suites.examples import array_of
from tests.support import edited_bytes, edited_json, recorded_calls

LENGTH = 503
NUMBERS = np.random.default_rng(0).integers(0, 100, LENGTH)
STRINGS = [f"näme {n}" * (n % 3) for n in NUMBERS]
DTYPES = ["<f4", ">i4", ">f8", "u1", "<u2", "?", "<i8"]
BLOSC = numcodecs.Blosc(cname="lz4", clevel=5, shuffle=1)


def arrays_below(tree: ZarrTree, path: str = "") -> Iterator[str]:
    """Yield the paths of all arrays."""
    for name, kind in tree.children(path).items():
        below = f"{path}/{name}".lstrip("/")
        if kind == "array":
            yield below
        else:
            yield from arrays_below(tree, below)


def remote_store(files: RemoteFiles, path: Path) -> RemoteStore:
    """Return the store of a Zarr on a server, of which the documents are known."""
    documents = {
        each.relative_to(path).as_posix(): each.read_bytes()
        for each in path.rglob("*")
        if each.name.startswith(".z") or each.name == "zarr.json"
    }
    return RemoteStore(files, documents)


def same(array: StoredArray, expected: Any) -> None:
    """Check that an array is what zarr-python reads."""
    values = np.asarray(expected)
    if array.info.storage_type.is_string:
        decoded = values.astype("U") if values.dtype.kind == "S" else values
        assert array.read_strings().to_pylist() == decoded.reshape(-1).tolist()
        return
    found = array.read()
    assert found.dtype == array.info.storage_type.dtype
    assert found.shape == values.shape
    assert np.array_equal(found, values)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of a Zarr hierarchy of each version, by its number."""
    folder = tmp_path_factory.mktemp("files")
    all_options: dict[int, dict[str, dict[str, Any]]] = {
        2: {
            "plain": {"compressors": None},
            "blosc": {"compressors": BLOSC},
            "zlib": {"compressors": numcodecs.Zlib(1)},
            "nested": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
        },
        3: {
            "plain": {"compressors": None},
            "zstd": {"compressors": "auto"},
            "sharded": {"shards": (128,)},
        },
    }
    with warnings.catch_warnings(action="ignore"):  # of types without a specification
        for version, named in all_options.items():
            root = zarr.open_group(folder / str(version), mode="w", zarr_format=version)  # type: ignore[arg-type] # one of both versions
            for name, given_options in named.items():
                for number, dtype in enumerate(DTYPES):
                    values = NUMBERS > 50 if dtype == "?" else NUMBERS.astype(dtype)
                    options = dict(given_options)
                    if dtype[0] == ">" and name == "zstd":
                        options["serializer"] = BytesCodec(endian="big")
                    root.create_array(f"{name}/{number}/1", data=values, chunks=(32,), **options)
                    table = {**options, **({"shards": (16, 14)} if name == "sharded" else {})}
                    root.create_array(
                        f"{name}/{number}/2",
                        data=values[:500].reshape(25, 20),
                        chunks=(8, 7),
                        **table,
                    )
                strings = np.array(STRINGS, np.dtypes.StringDType())
                root.create_array(f"{name}/strings", data=strings, chunks=(32,), **given_options)
            root.create_array("gap", shape=(50,), chunks=(8,), dtype="i4", fill_value=7)[16:20] = 1
            root.create_array("number", data=np.array(3.5))
            options = {} if version == 2 else {"shards": (10,)}
            infinite = root.create_array(
                "infinite", shape=(10,), dtype="f4", chunks=(2,), fill_value=np.inf, **options
            )
            infinite[:2] = [1, 2]
            for name, dtype in (("U", "U"), ("S", "S8")):
                fixed = np.array([text.replace("ä", "a") for text in STRINGS]).astype(dtype)
                root.create_array(f"fixed/{name}1", data=fixed, chunks=(32,))
                root.create_array(f"fixed/{name}2", data=fixed[:12].reshape(3, 4), chunks=(2, 3))
                root.create_array(f"fixed/{name}0", data=fixed[1:2].reshape(()))
            root.create_array("empty/numbers", shape=(0, 3), dtype="f4")
            if version == 2:
                by_columns = NUMBERS[:500].reshape(25, 20)
                root.create_array("fortran", data=by_columns, chunks=(8, 7), order="F")
            root.create_array("text", data=np.array("hällo", np.dtypes.StringDType()))
    time.sleep(0.11)  # older than a step of the clock of files: what is decoded is remembered
    return folder


@pytest.mark.parametrize("version", [2, 3])
def test_every_array_equals_that_of_zarr_python(folder: Path, version: int) -> None:
    """Whatever the type, the codec, the chunks; as a directory, packed by zip, and on a server."""
    path = folder / str(version)
    archive = path.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w") as file:
        for number, each in enumerate(path.rglob("*")):
            kind = zipfile.ZIP_STORED if number % 2 else zipfile.ZIP_DEFLATED
            file.write(each, each.relative_to(path), kind)
    root = zarr.open_group(path, mode="r")
    is_old = version == 2
    with served(path) as server, MmapZipStore(archive) as packed:
        for store in (DirectoryStore(path), packed, remote_store(RemoteFiles(server.url), path)):
            tree = ZarrTree(store)
            names = list(arrays_below(tree))
            assert len(names) == (3 + is_old) * (2 * len(DTYPES) + 1) + 11 + is_old
            for name in names:
                stored = root[name]
                assert isinstance(stored, zarr.Array)
                same(array_of(tree, name), stored[...])


@given(st.data())
def test_parts_equal_those_of_numpy(folder: Path, data: st.DataObject) -> None:
    """Any ranges of rows and columns, of one tree: what is remembered is used."""
    version = data.draw(st.sampled_from([2, 3]))
    tree = ZarrTree(DirectoryStore(folder / str(version)))
    named = ["plain", "blosc", "zlib", "nested"] if version == 2 else ["plain", "zstd", "sharded"]
    number = data.draw(st.integers(0, len(DTYPES) - 1))
    dimensions = data.draw(st.integers(1, 2))
    path = f"{data.draw(st.sampled_from(named))}/{number}/{dimensions}"
    values = NUMBERS > 50 if DTYPES[number] == "?" else NUMBERS
    if dimensions == 2:
        values = values[:500].reshape(25, 20)
    for _ in range(2):
        ends = st.tuples(*[st.integers(0, len(values))] * 2).map(sorted)
        spans = [Span(*pair) for pair in data.draw(st.lists(ends, max_size=4))]
        within = None
        if dimensions == 2 and data.draw(st.booleans()):
            within = Span(*data.draw(st.tuples(*[st.integers(0, 20)] * 2).map(sorted)))
        found = array_of(tree, path).read_spans(spans, within)
        for part, span in zip(found, spans, strict=True):
            expected = values[span.slice] if within is None else values[span.slice, within.slice]
            assert np.array_equal(part, expected)


def test_estimates_say_what_is_decoded_and_what_is_used(folder: Path) -> None:
    """The stored bytes of the chunks, what they expand to, and what is needed of that."""
    for version, name in ((2, "blosc"), (3, "zstd"), (3, "sharded")):
        tree = ZarrTree(DirectoryStore(folder / str(version)))
        estimate = ReadEstimate()
        array_of(tree, f"{name}/0/1").estimate([Span(0, 3), Span(5, 9), Span(30, 40)], estimate)
        assert estimate.is_exact
        assert (estimate.decoded_bytes, estimate.used_bytes) == (64 * 4, 17 * 4)
        assert 0 < estimate.size_bytes < 64 * 4
    keys = [folder / "3/zstd/0/1/c" / str(n) for n in (0, 1)]
    estimate = ReadEstimate()
    array_of(ZarrTree(DirectoryStore(folder / "3")), "zstd/0/1").estimate([Span(0, 40)], estimate)
    assert estimate.size_bytes == sum(key.stat().st_size for key in keys)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (bytes(128), "'0' cannot be decompressed"),
        (numcodecs.Zlib(1).encode(bytes(1 << 20)), "expands to more than"),
        (numcodecs.Zlib(1).encode(bytes(5)), "has 5 bytes"),
        (None, "'0' is missing"),
    ],
)
def test_damaged_chunks(tmp_path: Path, data: bytes | None, problem: str) -> None:
    """The error names the array and the chunk; the other chunks are readable."""
    zarr.create_array(
        tmp_path / "a",
        data=np.arange(64, dtype="i4"),
        chunks=(32,),
        zarr_format=2,
        compressors=numcodecs.Zlib(1),
    )
    document = json.loads((tmp_path / "a/.zarray").read_bytes())
    (tmp_path / "a/.zarray").write_text(json.dumps({**document, "fill_value": None}))
    if data is None:
        (tmp_path / "a/0").unlink()
    else:
        (tmp_path / "a/0").write_bytes(data)
    array = array_of(ZarrTree(DirectoryStore(tmp_path)), "a")
    with pytest.raises(errors.CorruptDataError, match=f"a: .*{problem}"):
        array.read()
    assert array.read_rows(Span(32, 34)).tolist() == [32, 33]


def test_a_server_is_asked_for_the_chunks_of_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a shard, their bytes and the index; of chunks in files of their own, those files."""
    values = np.random.default_rng(0).random(100_000)
    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    root.create_array("sharded", data=values, chunks=(1000,), shards=(50_000,))
    root.create_array("files", data=values, chunks=(1000,))
    with served(tmp_path / "x.zarr") as server:
        for name in ("sharded", "files"):
            files = RemoteFiles(server.url)
            array = array_of(ZarrTree(remote_store(files, tmp_path / "x.zarr")), name)
            received = recorded_calls(monkeypatch, (DOWNLOADS, "add"), int)
            spans = [Span(10, 20), Span(60_999, 61_001)]
            estimate = ReadEstimate()
            array.estimate(spans, estimate)
            assert estimate.is_remote
            assert (estimate.decoded_bytes, estimate.used_bytes) == (3 * 8000, 12 * 8)
            found = np.concatenate(array.read_spans(spans))
            assert np.array_equal(found, np.concatenate([values[span.slice] for span in spans]))
            assert 0 < sum(received) < 200_000
            received.clear()
            array.read_spans(spans)
            assert not received


def test_archives_that_zarr_python_wrote(tmp_path: Path) -> None:
    """They have several entries of one name, of which the last counts, and nothing is aligned."""
    path = tmp_path / "x.zip"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of duplicate names
        with ZipStore(path, mode="w") as store:
            root = zarr.create_group(store)
            all_options: dict[str, Any] = {"a": {}, "b": {"compressors": None}}
            for name, options in all_options.items():
                array = root.create_array(name, data=np.arange(100.0), chunks=(50,), **options)
                array[:10] = 7
            root.create_array("c", data=np.ones(33), compressors=None)
            root.attrs["x"] = 1
            root.attrs["x"] = 2
    with MmapZipStore(path) as opened:
        tree = ZarrTree(opened)
        assert opened.keys() == sorted(set(opened.keys()))
        for name in "ab":
            assert array_of(tree, name).read().tolist() == [7.0] * 10 + list(range(10, 100))
            assert array_of(tree, name).read_rows(Span(48, 52)).tolist() == [48, 49, 50, 51]
        whole = array_of(tree, "c").read()
        assert whole.tolist() == [1.0] * 33
        assert whole.flags.aligned
        assert tree.marker("x") == 2


@pytest.mark.parametrize("entry", [(10**6, 40), (0, 10**6), (2**63, 40), (8, 0)])
@pytest.mark.parametrize("remote", [False, True])
def test_a_shard_whose_index_is_damaged_has_no_zeros(
    tmp_path: Path, entry: tuple[int, int], *, remote: bool
) -> None:
    """Without a checksum of the index, zarr takes what is beyond the file for fill values."""
    inner: list[Any] = [TransposeCodec(order=(0,)), BytesCodec(), BloscCodec()]
    codec = ShardingCodec(chunk_shape=(5,), codecs=inner, index_codecs=[BytesCodec()])
    root = zarr.create_group(tmp_path / "x.zarr")
    written: Any = zarr.create(
        store=root.store, path="x", shape=(70,), chunks=(35,), dtype="i4", codecs=[codec]
    )
    written[:] = np.arange(70) + 1
    file = tmp_path / "x.zarr/x/c/0"
    with edited_bytes(file) as data:
        data[-16:] = struct.pack("<QQ", *entry)
    path = tmp_path / "x.zarr"
    with served(path) as server:
        files = RemoteFiles(server.url)
        array = array_of(
            ZarrTree(remote_store(files, path) if remote else DirectoryStore(path)), "x"
        )
        assert array.read_rows(Span(0, 3)).tolist() == [1, 2, 3]
        assert array.read_rows(Span(36, 38)).tolist() == [37, 38]
        with pytest.raises(
            errors.CorruptDataError, match="x: .*(cannot be decompressed|is said to be at)"
        ):
            array.read_rows(Span(31, 33))


@pytest.mark.filterwarnings("ignore")  # of codecs and types without a specification
def test_filters_orders_and_fill_values_of_others(tmp_path: Path) -> None:
    """Codecs that only numcodecs has, any order of dimensions, strings of any shape."""
    root = zarr.create_group(tmp_path / "3", zarr_format=3)
    whole, real = NUMBERS[:60].astype("i4").reshape(3, 4, 5), np.linspace(0, 1, 60).reshape(12, 5)
    text = np.array([["a", "bcd"], ["", "é"], ["x", "y"], ["z", ""]], np.dtypes.StringDType())
    transposed = [TransposeCodec(order=(2, 0, 1)), TransposeCodec(order=(1, 0, 2))]
    scaled = codecs.FixedScaleOffset(offset=0, scale=1000, dtype="<f8", astype="<i4")
    for name, values, options in (
        ("turned", whole, {"chunks": (2, 3, 2), "filters": transposed}),
        ("shard", whole, {"chunks": (1, 2, 5), "shards": (2, 4, 5), "filters": transposed[:1]}),
        ("C", whole, {"chunks": (2, 3, 2), "filters": [TransposeCodec(order=(0, 1, 2))]}),
        ("F", whole, {"chunks": (2, 3, 2), "filters": [TransposeCodec(order=(2, 1, 0))]}),
        ("delta", whole.ravel(), {"chunks": (7,), "filters": [codecs.Delta(dtype="<i4")]}),
        ("scaled", real, {"chunks": (5, 5), "filters": [scaled]}),
        ("bits", whole.ravel() > 30, {"chunks": (7,), "filters": [codecs.PackBits()]}),
        ("sum", whole.ravel(), {"chunks": (7,), "compressors": [codecs.CRC32()]}),
        ("text", text, {"chunks": (3, 1)}),
        ("words", text, {"chunks": (2, 1), "shards": (4, 2)}),
    ):
        root.create_array(name, data=values, **options)
    for dtype, fill in (("U3", "äf"), ("S3", b"ff")):
        root.create_array(dtype, shape=(5,), dtype=dtype, chunks=(2,), fill_value=fill)[:2] = fill
    old = zarr.create_group(tmp_path / "2", zarr_format=2)
    old.create_array("S3", shape=(5,), dtype="S3", chunks=(2,), fill_value=b"ff")[:1] = b"a"
    for number, each in enumerate((numcodecs.AsType("<f4", "<f8"), numcodecs.BitRound(10))):
        old.create_array(f"{number}", data=real, chunks=(5, 3), filters=[each], order="F")
    for folder, group in (("2", old), ("3", root)):
        tree = ZarrTree(DirectoryStore(tmp_path / folder))
        for name, item in group.arrays():
            same(array_of(tree, name), item[...])
    for order in ("C", "F"):  # as writers said it before Zarr v3 was settled
        path = tmp_path / "3" / order / "zarr.json"
        with edited_json(path) as document:
            document["codecs"][0]["configuration"]["order"] = order
        same(array_of(ZarrTree(DirectoryStore(tmp_path / "3")), order), whole)
