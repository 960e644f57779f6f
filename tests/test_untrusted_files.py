"""Tests of data sets that lie: about shapes, sizes, and what kind of files they are made of."""

from __future__ import annotations

import bz2
import contextlib
import lzma
import os
import re
import resource
import shutil
import socket
import stat
import threading
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import google_crc32c
import numcodecs
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from daf_query import connect
from daf_storage import CodecName, DafReader, Packing, ZarrDaf, errors, open_daf, verify
from daf_storage.base import Span
from daf_storage.stores import MmapZipStore
from daf_storage.trees import undone
from tests.storage.data.test_damaged import change_metadata
from tests.storage.upkeep.test_verify import found
from tests.support import contents, create, edited_json, fill, served

AGE = "vectors/cell/age"


def in_time(work: Callable[[], Any], seconds: float = 20) -> Any:
    """Do something in a thread, and fail if it is not done in time; raise what it raises."""
    done = Future[Any]()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised by the result
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result(seconds)


def put_pipe(path: Path) -> None:
    """Put a named pipe in the place of a file."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def put_socket(path: Path) -> None:
    """Put a socket in the place of a file."""
    path.unlink()
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # its whole path may be too long for a socket


@pytest.mark.parametrize("name", ["0", ".zarray"])
@pytest.mark.parametrize("put", [put_pipe, put_socket])
def test_what_is_no_regular_file(tiny_path: Path, name: str, put: Callable[[Path], None]) -> None:
    """A named pipe or a socket in place of a file is an error of that vector, at once."""
    put(tiny_path / AGE / name)
    daf = in_time(lambda: ZarrDaf(tiny_path))
    with pytest.raises(errors.CorruptDataError, match="not a regular file"):
        in_time(lambda: daf.get_np_vector("cell", "age"))
    assert "not a regular file" in in_time(daf.description)
    problems = in_time(lambda: found(tiny_path))
    assert ("error", AGE) in [problem[:2] for problem in problems]
    assert daf.get_np_vector("cell", "type").tolist() == ["Bcell", "TCell", "TCell"]


def test_a_pipe_in_place_of_consolidated_metadata(tiny_path: Path) -> None:
    """Nobody waits for it: readers do not use it, and `verify` says so."""
    put_pipe(tiny_path / ".zmetadata")
    assert in_time(lambda: ZarrDaf(tiny_path)).axis_length("cell") == 3
    problems = in_time(lambda: found(tiny_path))
    assert any(".zmetadata" in problem[1] for problem in problems)


@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.h5df"])
def test_a_pipe_in_place_of_the_data_set(tmp_path: Path, name: str) -> None:
    """Whatever format its name promises, also that of an AnnData: nobody waits for it."""
    message = "regular file|not a directory"
    for path in (tmp_path / name, tmp_path / name.replace(".daf", "").replace("h5df", "h5ad")):
        os.mkfifo(path)
        asks: list[Callable[[], Any]] = [partial(opened, path) for opened in (open_daf, connect)]
        if path.name == name:
            modes: tuple[Any, ...] = ("r+", "w+", "w")
            asks += [partial(open_daf, path, mode) for mode in modes]
        if name == path.name and name.endswith(".zip"):
            asks.append(partial(MmapZipStore, path))
        for ask in asks:
            with pytest.raises(errors.NotADafError, match=message):
                in_time(ask)
        assert stat.S_ISFIFO(path.stat().st_mode)


def test_files_that_may_not_be_read(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without permission, and a disk that fails, are errors of ours."""
    open_file = os.open
    reasons = {"age": PermissionError(13, "Permission denied"), "type": OSError(5, "I/O error")}

    def refuse(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if str(path) in ("0", ".zmetadata") and kwargs.get("dir_fd") is not None:
            folder = Path(f"/proc/self/fd/{kwargs['dir_fd']}").readlink().name
            if folder in reasons:
                raise reasons[folder]
        return open_file(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    daf = ZarrDaf(tiny_path)
    with pytest.raises(errors.ReadOnlyError, match="age/0: no permission to read it"):
        daf.get_np_vector("cell", "age")
    with pytest.raises(errors.CorruptDataError, match=r"type/0: it cannot be read \(I/O error\)"):
        daf.get_np_vector("cell", "type")
    assert [problem[1] for problem in found(tiny_path)] == [AGE, "vectors/cell/type"]
    reasons[tiny_path.name] = reasons["age"]
    assert "no permission to read it" in dict(p[1:] for p in found(tiny_path))[".zmetadata"]


# Shapes


def claim(path: Path, shape: list[int], **changes: Any) -> None:
    """Let an array claim a shape, in one chunk."""
    change_metadata(path, shape=shape, chunks=shape, **changes)


def claims_nothing(daf: DafReader) -> None:
    """Check that what is not damaged can be used."""
    assert daf.get_np_vector("cell", "type").tolist() == ["Bcell", "TCell", "TCell"]


@pytest.mark.parametrize("fill_value", [None, 1])
@pytest.mark.parametrize("shape", [[10**11], [2**61], [3], [10**6, 10**6]])
def test_an_absurd_marker(tiny_path: Path, shape: list[int], fill_value: int | None) -> None:
    """It must be two numbers: that is looked at before anything is read."""
    claim(tiny_path / "daf", shape, fill_value=fill_value)
    (tiny_path / "daf/0").unlink()
    with pytest.raises((errors.VersionError, errors.CorruptDataError)):
        in_time(lambda: ZarrDaf(tiny_path))


def test_a_marker_of_strings_or_fractions(tiny_path: Path) -> None:
    """It is malformed, not a number that is close to it."""
    change_metadata(tiny_path / "daf", dtype="|S1")
    with pytest.raises(errors.VersionError, match="malformed daf version marker"):
        ZarrDaf(tiny_path)
    change_metadata(tiny_path / "daf", dtype="<f8")
    for numbers in ([1.5, 0], [np.nan, 0], [np.inf, 0]):
        (tiny_path / "daf/0").write_bytes(np.array(numbers, "<f8").tobytes())
        with pytest.raises(errors.VersionError, match="malformed daf version marker"):
            ZarrDaf(tiny_path)
    (tiny_path / "daf/0").write_bytes(np.array([1, 0], "<f8").tobytes())
    claims_nothing(ZarrDaf(tiny_path))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("fill_value", [None, 1])
@pytest.mark.parametrize(
    ("part", "shape"),
    [
        *((part, s) for part in ("colptr", "rowval", "nzval") for s in ([10**12], [12], [3, 3])),
        *((part, s) for part in ("flag/nzind", "flag/nzval") for s in ([10**12], [4], [2, 1])),
    ],
)
def test_absurd_parts_of_sparse_properties(
    tiny_path: Path, part: str, shape: list[int], fill_value: int | None
) -> None:
    """Shapes are compared with the axes and with each other before anything is read."""
    is_vector = part.startswith("flag")
    path = f"vectors/gene/{part}" if is_vector else f"matrices/cell/gene/sparse/{part}"
    if part == "flag/nzval":
        shutil.copytree(tiny_path / "vectors/gene/flag/nzind", tiny_path / path)
    claim(tiny_path / path, shape, fill_value=fill_value)
    (tiny_path / path / "0").unlink()
    daf = ZarrDaf(tiny_path)
    read: Callable[[], Any] = partial(daf.get_np_vector, "gene", "flag")
    if not is_vector:
        read = partial(daf.get_np_matrix, "cell", "gene", "sparse", relayout=False)
    with pytest.raises(errors.CorruptDataError):
        in_time(read)
    assert ("vector 'flag'" if is_vector else "matrix 'sparse'") in in_time(daf.description)
    problems = in_time(lambda: found(tiny_path))
    assert ("error", path.rpartition("/")[0]) in [problem[:2] for problem in problems]
    claims_nothing(daf)


@pytest.mark.parametrize("fill_value", [None, ""])
@pytest.mark.parametrize("chunks", [2**40, 2**20, 1])
@pytest.mark.parametrize("length", [2**31, 2**61])
def test_an_axis_that_claims_to_be_long(
    tiny_path: Path, length: int, chunks: int, fill_value: str | None
) -> None:
    """Its entries have to be there; other axes can be used."""
    axis = tiny_path / "axes/cell"
    change_metadata(axis, shape=[length], chunks=[chunks], fill_value=fill_value)
    (axis / str((length - 1) // chunks)).write_bytes(b"\3\0\0\0" + b"\1\0\0\0a" * 3)
    daf = ZarrDaf(tiny_path)
    with pytest.raises(errors.FormatError, match="axes/cell|axis 'cell'"):
        in_time(lambda: daf.axis_length("cell"))
    assert "axis 'cell'" in in_time(daf.description)
    problems = in_time(lambda: found(tiny_path))
    assert [problem[1] for problem in problems if problem[0] == "error"] == ["axes/cell"]
    assert daf.axis_length("gene") == 4
    query = "SELECT count(*) AS n FROM gene"
    assert in_time(lambda: connect(daf).sql(query).to_pydict()) == {"n": [4]}


def test_a_matrix_without_data(tiny_path: Path) -> None:
    """Fill values stand in for data up to a size; beyond, nobody means it."""
    names = [f"{n:07}" for n in range(200_000)]
    daf = create(tiny_path.with_name("large.daf.zarr"))
    daf.add_axis("row", names)
    daf.add_axis("column", names)
    daf.add_axis("few", ["a", "b"])
    for axis in ("few", "column"):
        path = Path(daf.location) / f"matrices/row/{axis}/zero"
        shutil.copytree(tiny_path / "matrices/cell/gene/UMIs", path)
        (path / "0.0").unlink()
        claim(path, [daf.axis_length(axis), 200_000], fill_value=0)
    assert not daf.get_np_matrix("row", "few", "zero").any()
    with pytest.raises(errors.CorruptDataError, match="there is no data for its 320,000,000,000"):
        in_time(lambda: daf.get_np_matrix("row", "column", "zero"))


# Compressed bombs

LARGE = 8 * 10**8


def deflated(data: bytes, *, window_bits: int) -> bytes:
    """Compress zeros, a megabyte once: what each further one becomes is the same bytes."""
    part, parts = bytes(1 << 20), len(data) >> 20
    if parts < 3 or data[-1]:
        compressor = zlib.compressobj(9, wbits=window_bits)
        return compressor.compress(data) + compressor.flush()
    compressor = zlib.compressobj(9, wbits=window_bits)
    first, second = (
        compressor.compress(part) + compressor.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    return first + second * (parts - 1)  # without an end, which nobody gets to


BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "zlib": lambda data: deflated(data, window_bits=15),
    "gzip": lambda data: deflated(data, window_bits=31),
    "bz2": lambda data: bz2.compress(data, 9),
    "lzma": lambda data: lzma.compress(data, preset=1),
    "zstd": lambda data: bytes(numcodecs.Zstd(1).encode(data)),
    "blosc": lambda data: bytes(numcodecs.Blosc("zstd", 1, 0).encode(data)),
    "lz4": lambda data: bytes(numcodecs.LZ4().encode(data)),
}


def peak_bytes() -> int:
    """Return the most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.sampled(2)
@pytest.mark.parametrize("codec", BOMBS)
def test_chunks_that_expand_to_a_gigabyte(tiny_path: Path, codec: str) -> None:
    """They stop at what the axis allows, as numbers and as strings, also behind a filter."""
    size = LARGE // 10 if codec in ("bz2", "lzma") else LARGE
    (tiny_path / AGE / "0").write_bytes(BOMBS[codec](bytes(size)))
    before = peak_bytes()
    for changes in (
        {"compressor": {"id": codec}, "filters": None},
        {"compressor": None, "filters": [{"id": codec}]},
        {"compressor": {"id": codec}, "filters": [{"id": "delta", "dtype": "<i8"}]},
    ):
        change_metadata(tiny_path / AGE, **changes)
        with pytest.raises(errors.CorruptDataError, match="decompressed"):
            ZarrDaf(tiny_path).get_np_vector("cell", "age")
    change_metadata(
        tiny_path / AGE,
        dtype="|O",
        filters=[{"id": "vlen-utf8"}],
        compressor={"id": codec},
        fill_value="",
    )
    message = "decompressed|claims to hold"  # 100 MB of strings are not too many
    with pytest.raises(errors.CorruptDataError, match=message):
        ZarrDaf(tiny_path).get_np_vector("cell", "age")
    assert peak_bytes() - before < LARGE * 0.8
    assert ("error", AGE) in [problem[:2] for problem in found(tiny_path)]


def decompress(codec: Any, data: memoryview, limit: int) -> memoryview:
    """Undo one codec."""
    return undone([codec], data, limit, what="it")


@pytest.mark.parametrize("codec", BOMBS)
def test_codecs_say_what_is_wrong(codec: str) -> None:
    """Data that is cut off anywhere is an error; what fits is what numcodecs makes of it."""
    values = np.random.default_rng(1).integers(0, 50, 1000).tobytes()
    data = BOMBS[codec](values)
    assert bytes(decompress({"id": codec}, memoryview(data), len(values))) == values
    for cut in (0, 1, 3, 5, 11, len(data) // 2, len(data) - 1):
        if codec == "lz4" and cut == 0:
            continue
        try:
            found = decompress({"id": codec}, memoryview(data)[:cut], len(values))
        except Exception:  # noqa: BLE001, S112 - each codec has its own
            continue
        assert bytes(found) != values or codec == "gzip"
    with pytest.raises(errors.CorruptDataError, match="bytes"):
        decompress({"id": codec}, memoryview(data), len(values) - 1)


def test_zstd_frames_that_do_not_say_their_size() -> None:
    """They are decompressed piece by piece, as are several frames; the limit counts all."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b"abc" * 1000)
    unsized = sink.getvalue().to_pybytes()
    sized = bytes(numcodecs.Zstd(1).encode(b"abc" * 1000))
    for data, size in ((unsized, 3000), (sized, 3000), (sized * 2, 6000), (sized + unsized, 6000)):
        assert len(decompress({"id": "zstd"}, memoryview(data), size)) == size
        with pytest.raises(errors.CorruptDataError, match="more than"):
            decompress({"id": "zstd"}, memoryview(data), size - 1)


def test_checksums_are_checked() -> None:
    """CRC-32C counts among the codecs of Zarr v3."""
    data = b"abc" + google_crc32c.value(b"abc").to_bytes(4, "little")
    assert bytes(decompress({"id": "crc32c"}, memoryview(data), 3)) == b"abc"
    for wrong in (b"abd" + data[3:], b"abc"):
        with pytest.raises(errors.CorruptDataError, match="checksum"):
            decompress({"id": "crc32c"}, memoryview(wrong), 3)


def test_strings_that_claim_to_be_many(tiny_path: Path) -> None:
    """The count of a chunk of strings is compared before as many objects are made."""
    path = tiny_path / "vectors/cell/type"
    change_metadata(path, chunks=[2], fill_value="")
    for count in (2**32 - 1, 3, 0):
        data = count.to_bytes(4, "little") + b"\1\0\0\0a" * 2
        for name in ("0", "1"):
            (path / name).write_bytes(data)
        with pytest.raises(errors.CorruptDataError, match="claims to hold"):
            ZarrDaf(tiny_path).get_np_vector("cell", "type")


def put_bomb(shard: Path, codec: str, chunk: int, index: slice) -> None:
    """Let a chunk of a shard, whose index is at its start or its end, expand to very much."""
    data = shard.read_bytes()
    start, stop, _ = index.indices(len(data))
    places = np.frombuffer(data[start : stop - 4], "<u8").reshape(-1, 2).copy()
    bomb = BOMBS[codec.partition("-")[0]](bytes(10**8))
    places[chunk] = start or len(data), len(bomb)
    written = places.tobytes() + google_crc32c.value(places.tobytes()).to_bytes(4, "little")
    shard.write_bytes(data[:start] + bomb + written if start else written + data[stop:] + bomb)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc-zstd"])
def test_packed_chunks_that_expand(tmp_path: Path, codec: CodecName) -> None:
    """A packed chunk may hold what its shape says, and not more; claims of shards are bounded."""
    path = tmp_path / "x.daf.zarr"
    daf = ZarrDaf(path, "w", packed=Packing(codec, chunk_kb=1))
    daf.add_axis("cell", [f"{n:05}" for n in range(2000)])
    daf.set_vector("cell", "age", np.arange(2000.0))
    vector = path / "vectors/cell/age"
    (chunk,) = (file for file in vector.rglob("*") if file.is_file() and file.name == "0")
    put_bomb(chunk, codec, 0, slice(int.from_bytes(chunk.read_bytes()[:8], "little")))
    with pytest.raises(errors.CorruptDataError, match=r"chunk \[0\] cannot be decompressed"):
        ZarrDaf(path).get_np_vector("cell", "age")
    with edited_json(vector / "zarr.json") as document:
        sharding = document["codecs"][0]["configuration"]
        sharding["chunk_shape"] = [1 << 40]
        document["chunk_grid"]["configuration"]["chunk_shape"] = [1 << 40]
    with pytest.raises(errors.UnsupportedDataError, match="the whole array of shape"):
        ZarrDaf(path).get_np_vector("cell", "age")
    assert verify(path, progress="never")


@pytest.mark.parametrize("codec", [ZstdCodec(), GzipCodec(), BloscCodec(typesize=8)])
def test_chunks_of_a_shard_of_others_that_expand(tmp_path: Path, codec: Any) -> None:
    """Only such a chunk is refused; a shard that is not there has the fill value."""
    path = tmp_path / "x.daf.zarr"
    ZarrDaf(path, "w", zarr_format=3).add_axis("cell", [f"{n:02}" for n in range(23)])
    vectors = zarr.open_group(path / "vectors/cell", mode="r+", use_consolidated=False)
    numbers = np.random.default_rng(1).random(23)
    options: dict[str, Any] = {"chunks": (2,), "shards": (6,), "compressors": codec}
    vectors.create_array("n", data=numbers, **options)
    with open_daf(path) as reader:
        assert reader.get_np_vector("cell", "n").tolist() == numbers.tolist()
        assert reader.summary().problems == ()
    put_bomb(path / "vectors/cell/n/c/1", type(codec).__name__[:-5].lower(), 1, slice(-52, None))
    (path / "vectors/cell/n/c/3").unlink()
    with open_daf(path) as reader:
        with pytest.raises(errors.CorruptDataError, match=r"chunk \[4\] cannot be decompressed"):
            reader.get_np_vector("cell", "n")
        found = reader.open_vector("cell", "n").read(Span(10, 23))
        assert found.tolist() == [*numbers[10:18], *[0] * 5]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("form", "entry", "size_mb"),
    [
        ("x.daf.zarr.zip", "vectors/cell/age/0", 48),
        ("x.daf.zarr.zip", "vectors/cell/kind/0", 300),
        ("x.daf.zarr.zip", "matrices/cell/gene/eye/nzval/0", 48),
        ("x.daf.zarr.zip", "vectors/cell/age/.zarray", 300),
        ("v3.daf.zarr.zip", "vectors/cell/age/c/0", 48),
        ("packed.daf.zarr.zip", "vectors/more/age/c/0", 48),
        ("x.daf.zip", "vectors/cell/age.data", 48),
        ("x.daf.zip", "vectors/cell/kind.txt", 300),
        ("x.daf.zip", "vectors/cell/age.json", 300),
    ],
)
def test_entries_of_archives_that_expand(
    tmp_path: Path, form: str, entry: str, size_mb: int
) -> None:
    """No more of a compressed entry is expanded than its metadata have use for, nor by verify."""
    source, path = tmp_path / f"source.{form}", tmp_path / form
    packed = Packing("zstd", chunk_kb=1) if form.startswith("packed") else False
    with open_daf(
        source, "w", zarr_format=3 if form.startswith("v3") else None, packed=packed
    ) as daf:
        fill(daf).set_vector("cell", "kind", ["a", "b", "c"])
        daf.set_matrix("cell", "gene", "eye", sp.csc_array(np.eye(3, 4)))
        daf.add_axis("more", [f"{n}" for n in range(2000)], vectors={"age": np.arange(2000.0)})
    with (
        zipfile.ZipFile(source) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        assert entry in old.namelist()
        for name in old.namelist():
            with new.open(name, "w") as file:
                for part in [bytes(1 << 20)] * size_mb if name == entry else [old.read(name)]:
                    file.write(part)
    message = "expands to|have no more than|is too long|the stored shape is"
    tracemalloc.start()
    try:
        with served(path) as server:
            for location in (path, server.url):
                with (
                    open_daf(location) as daf,
                    pytest.raises(errors.CorruptDataError, match=message),
                ):
                    contents(daf)
        assert any(re.search(message, finding.problem) for finding in verify(path))
        assert tracemalloc.get_traced_memory()[1] < size_mb << 19
    finally:
        tracemalloc.stop()
