"""Tests of HDF5 files that lie: heaps, chunks, shapes and links; and of one broken property."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pytest

from daf_query import UnreadableVectorWarning, connect
from daf_storage import DafError, DafReader, H5df, MemoryDaf, errors, import_h5ad, open_daf
from daf_storage.trees import _hdf5_array
from daf_storage.trees._hdf5_array import REFERENCE, read_many
from tests.storage.upkeep.test_verify import found
from tests.support import edited_bytes, filled
from tests.test_untrusted_files import in_time

TYPE = "vectors/cell/type"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a small data set with one of everything."""
    filled(tmp_path / "x.h5df").close()
    return tmp_path / "x.h5df"


def only_types_are_lost(path: Path) -> None:
    """Check that the vector of types is broken, and nothing else."""
    daf = in_time(lambda: open_daf(path))
    with pytest.raises(errors.FormatError, match=TYPE):
        in_time(lambda: daf.get_pa_vector("cell", "type"))
    assert daf.get_np_vector("cell", "age").tolist() == [30, 60, 90]
    assert daf.get_scalar("organism") == "human"
    assert daf.description()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        rows = in_time(lambda: connect(daf).sql("SELECT * FROM cell").to_pydict())
    assert set(rows) == {"name", "index", "age"}
    assert [one.category for one in warned] == [UnreadableVectorWarning]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadableVectorWarning)
        with pytest.raises(errors.FormatError, match=TYPE):
            connect(daf).sql("SELECT type FROM cell").to_pydict()
    daf.close()
    problems = in_time(lambda: found(path))
    assert {problem[1] for problem in problems if problem[0] == "error"} == {TYPE}


def heap_of(path: Path, name: str = TYPE) -> tuple[int, int]:
    """Return where the elements of a dataset of strings are, and the heap collection of the first."""
    with h5py.File(path) as file:
        offset = file[name].id.get_offset()
    data = path.read_bytes()
    return offset, struct.unpack("<IQI", data[offset : offset + 16])[1]


def patch(path: Path, offset: int, data: bytes) -> None:
    """Write a few bytes into a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


CHANGES: dict[str, Callable[[int, int], tuple[int, bytes]]] = {
    "length of 4 GiB": lambda at, _: (at, struct.pack("<I", 2**32 - 1)),
    "length of 1 GB": lambda at, _: (at, struct.pack("<I", 10**9)),
    "length": lambda at, _: (at, struct.pack("<I", 3)),
    "address": lambda at, _: (at + 4, struct.pack("<Q", 2**40)),
    "undefined address": lambda at, _: (at + 4, struct.pack("<Q", 2**64 - 1)),
    "another address": lambda at, heap: (at + 4, struct.pack("<Q", heap + 8)),
    "index": lambda at, _: (at + 12, struct.pack("<I", 60_000)),
    "size of the collection": lambda _, heap: (heap + 8, struct.pack("<Q", 2**33)),
    "small collection": lambda _, heap: (heap + 8, struct.pack("<Q", 24)),
    "signature": lambda _, heap: (heap, b"GOAL"),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_heaps(path: Path, change: str) -> None:
    """A changed reference takes its vector, without taking any memory."""
    at, heap = heap_of(path)
    if change in ("size of the collection", "small collection", "signature"):
        daf = in_time(lambda: open_daf(path))
        patch(path, *CHANGES[change](at, heap))
        daf.close()
        daf = in_time(lambda: open_daf(path))
        with pytest.raises(errors.CorruptDataError, match="the heap of its strings is damaged"):
            in_time(lambda: daf.get_pa_vector("cell", "type"))
        return  # others have their strings there too
    patch(path, *CHANGES[change](at, heap))
    only_types_are_lost(path)


@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}]
)
@pytest.mark.parametrize("damage", ["bytes", "references"])
def test_strings_in_chunks(path: Path, options: dict[str, Any], damage: str) -> None:
    """Of other programs, compressed or not: whole they are read, damaged they are an error."""
    values = ["B", "é", "a longer one"]
    with h5py.File(path, "r+") as file:
        del file[TYPE]
        kind = h5py.string_dtype()
        stored = file.create_dataset(TYPE, data=values, dtype=kind, chunks=(2,), **options)
        stored.id.flush()
        if options == {"compression": "gzip"}:  # HDF5 may store a chunk without its filter
            _, data = stored.id.read_direct_chunk((2,))
            stored.id.write_direct_chunk((2,), zlib.decompress(data), filter_mask=1)
        chunk = stored.id.get_chunk_info(0)
    assert open_daf(path).get_np_vector("cell", "type").tolist() == values
    assert found(path) == []
    if damage == "bytes":
        patch(path, chunk.byte_offset, b"\xff" * chunk.size)
    else:
        references = np.zeros(2, REFERENCE)
        references[0] = (10**9, 4096, 1)
        with h5py.File(path, "r+") as file:
            file[TYPE].id.write_direct_chunk((0,), references.tobytes(), filter_mask=0xFFFFFFFF)
    only_types_are_lost(path)
    if options:  # others have no length of their own
        with h5py.File(path, "r+") as file:
            file[TYPE].id.write_direct_chunk((0,), bytes(31), filter_mask=0xFFFFFFFF)
        only_types_are_lost(path)


@pytest.mark.parametrize("size", [0, 16, 64, 1000, 3000, 4000, 2**31, 2**63, 2**64 - 1, 2**64 - 16])
def test_objects_of_any_size(path: Path, size: int) -> None:
    """A collection that HDF5 would walk for ever is an error, or is read as it is."""
    at, heap = heap_of(path)
    index = struct.unpack("<I", path.read_bytes()[at + 12 : at + 16])[0]
    data, place = path.read_bytes(), heap + 16
    while struct.unpack("<H", data[place : place + 2])[0] != index:
        place += 16 + -(-struct.unpack("<Q", data[place + 8 : place + 16])[0] // 8) * 8
    patch(path, place + 8, struct.pack("<Q", size))
    daf = in_time(lambda: open_daf(path))
    with pytest.raises(errors.CorruptDataError, match="the heap of its strings is damaged"):
        in_time(lambda: daf.get_pa_vector("cell", "type"))


def test_random_changes_of_heaps(path: Path) -> None:
    """Of any bytes of the references and the heap: the strings, others of that length, or an error."""
    at, heap = heap_of(path)
    data = path.read_bytes()
    rng = np.random.default_rng(3)
    count = 0
    for number in range(60):
        place = int(rng.choice([at + rng.integers(48), heap + rng.integers(300)]))
        value = rng.choice([b"\xff" * 8, b"\0" * 8, b"\xb8\x0b" + b"\0" * 6, bytes(rng.bytes(3))])
        other = path.with_name(f"{number}.h5df")
        changed = bytearray(data)
        changed[place : place + len(value)] = value
        other.write_bytes(changed)
        with in_time(lambda other=other: open_daf(other)) as daf:  # type: ignore[misc] # bound in each turn
            try:
                strings = in_time(lambda daf=daf: daf.get_pa_vector("cell", "type"))  # type: ignore[misc] # bound in each turn
            except errors.FormatError:
                count += 1
            else:
                assert len(strings) == 3
    assert count > 10


def test_whole_heaps_pass(tmp_path: Path) -> None:
    """Strings of all lengths, many of them, replaced and deleted ones, and in a user block's file."""
    file = tmp_path / "x.h5df"
    daf = H5df(file, "w")
    rng = np.random.default_rng(1)
    strings = ["é" * int(n) for n in rng.integers(0, 40, 600)] + ["x" * 100_000, ""]
    daf.add_axis("cell", [f"{n}" for n in range(len(strings))])
    for number in range(3):
        daf.set_vector("cell", "t", strings[number:] + strings[:number], if_exists="replace")
        assert daf.get_pa_vector("cell", "t").to_pylist() == strings[number:] + strings[:number]
    daf.set_vector("cell", "u", strings)
    daf.delete_vector("cell", "u")
    daf.close()
    with open_daf(file) as reader:
        assert reader.get_pa_vector("cell", "t").to_pylist() == strings[2:] + strings[:2]
    assert found(file) == []
    block = tmp_path / "block.h5"
    with h5py.File(block, "w", userblock_size=1024) as made:
        made["daf"] = np.array([1, 0], "u1")
        for group in ("scalars", "axes", "vectors/cell", "matrices/cell/cell"):
            made.require_group(group)
        made.create_dataset("axes/cell", data=strings[:20], dtype=h5py.string_dtype())
    with H5df(block) as reader, pytest.raises(errors.CorruptDataError, match="more than once"):
        reader.get_pa_vector("cell", "name")


def strings_of(file: Any, references: Any) -> Any:
    """Return the strings of some elements in the bytes of a file."""
    size = references.size
    return read_many(file, lambda: [(0, references)], size, start_of=int, what="x")


def test_collections_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk over more objects than there can be numbers stops."""
    monkeypatch.setattr(_hdf5_array, "_MAX_OBJECTS", 1000)
    file = np.zeros(1 << 16, np.uint8)
    file[:5] = np.frombuffer(b"GCOL\x01", np.uint8)
    file[8:16] = np.frombuffer(struct.pack("<Q", file.size), np.uint8)
    file[24::16] = 16  # of free space
    references = np.array([(1, 0, 2)], REFERENCE)
    assert strings_of(file, references).to_pylist() == [""]  # a null reference
    references["address"] = 8
    with pytest.raises(errors.CorruptDataError, match="heap of its strings is damaged"):
        strings_of(file, references)
    file = np.concatenate([np.zeros(8, np.uint8), file])
    with pytest.raises(errors.CorruptDataError, match="heap of its strings is damaged"):
        strings_of(file, references)


def heap_file(strings: list[list[bytes]], free_bytes: int) -> tuple[Any, Any]:
    """Return collections of some strings, free space behind them, and all references."""
    data, references = bytearray(8), []
    for collection in strings:
        objects = bytearray()
        address = len(data)
        for index, string in enumerate(collection, start=1):
            objects += struct.pack("<HHIQ", index, 1, 0, len(string)) + string
            objects += bytes(-len(string) % 8)
            references.append((len(string), address, index))
        objects += struct.pack("<HHIQ", 0, 0, 0, free_bytes) + bytes(max(free_bytes - 16, 0))
        objects = objects[: len(objects) - 16] if free_bytes < 16 else objects
        data += b"GCOL\x01\0\0\0" + struct.pack("<Q", 16 + len(objects)) + objects
    return np.frombuffer(bytes(data), np.uint8), np.array(references, REFERENCE)


@pytest.mark.parametrize("free_bytes", [0, 16, 40])
def test_strings_in_any_order(free_bytes: int) -> None:
    """In that of the file, shuffled, and every other one: the same; a changed size is an error."""
    rng = np.random.default_rng(4)
    strings = [
        [rng.bytes(int(rng.integers(1, 30))).hex().encode() for _ in range(n)] for n in range(1, 60)
    ]
    file, references = heap_file(strings, free_bytes)
    expected = np.array([one.decode() for each in strings for one in each], object)
    shuffled = rng.permutation(references.size)
    for order in (np.arange(references.size), shuffled, np.arange(0, references.size, 2)):
        assert strings_of(file, references[order]).to_pylist() == expected[order].tolist()
        for number in rng.choice(order, 10):
            damaged = file.copy()
            damaged[references["address"][number] + 24] ^= rng.choice([1, 8, 64, 255])
            with pytest.raises(errors.CorruptDataError):
                strings_of(damaged, references[order])


# Shapes, chunks and sources


def replaced(path: Path, name: str, **options: Any) -> None:
    """Create another dataset in the place of one."""
    with h5py.File(path, "r+") as file:
        del file[name]
        file.create_dataset(name, **options)


@pytest.mark.parametrize("name", ["daf", "vectors/gene/flag/nzind", "axes/cell", "scalars/n"])
@pytest.mark.parametrize("length", [2**40, 2**63 - 1])
def test_absurd_shapes(path: Path, name: str, length: int) -> None:
    """What is said to be there is compared with what is stored, before anything is read."""
    kind = h5py.string_dtype() if name == "axes/cell" else "i8"
    replaced(path, name, shape=(length,), dtype=kind, chunks=(1000,))
    if name == "daf":
        with pytest.raises(errors.VersionError, match="malformed daf version marker"):
            in_time(lambda: open_daf(path))
        return
    daf = in_time(lambda: open_daf(path))
    reads: dict[str, Callable[[DafReader], Any]] = {
        "axes/cell": lambda daf: daf.axis_length("cell"),
        "scalars/n": lambda daf: daf.get_scalar("n"),
        "vectors/gene/flag/nzind": lambda daf: daf.get_np_vector("gene", "flag"),
    }
    with pytest.raises(errors.CorruptDataError):
        in_time(lambda: reads[name](daf))
    assert "problems" in in_time(daf.description)
    daf.close()
    assert name.removesuffix("/nzind") in [problem[1] for problem in in_time(lambda: found(path))]


@pytest.mark.parametrize("chunks", [(1,), None])
def test_index_arrays_without_data(path: Path, chunks: tuple[int] | None) -> None:
    """Positions that are not stored, in chunks or in one piece, are not zeros."""
    replaced(path, "vectors/gene/flag/nzind", shape=(2,), dtype="i8", chunks=chunks)
    daf = open_daf(path)
    with pytest.raises(errors.CorruptDataError, match="needs more elements than are stored"):
        daf.get_np_vector("gene", "flag")


def test_chunks_of_a_claimed_size(path: Path) -> None:
    """One of two GB where three numbers should be is an error; test_hdf5_chunks.py has bombs."""
    replaced(path, "vectors/cell/age", shape=(3,), maxshape=(None,), dtype="i8", chunks=(1 << 28,))
    daf = open_daf(path)
    with pytest.raises(errors.UnsupportedDataError, match="the whole array of shape"):
        daf.get_np_vector("cell", "age")


CHUNKS = {
    "behind the grid": (64, "<Q", 4),
    "at the same place": (64, "<Q", 0),
    "behind the file": (48, "<Q", 2**40),
    "over the end of the file": (48, "<Q", -15),
    "too long": (24, "<I", 2**32 - 1),
    "nowhere": (48, "<Q", 2**64 - 1),
    "too many": (6, "<H", 5),
}


@pytest.mark.parametrize("case", CHUNKS)
def test_chunks_that_are_elsewhere(path: Path, case: str) -> None:
    """A damaged list of chunks is an error, before any of them is read."""
    values = {"data": np.array([30, 60, 90], "<i8"), "maxshape": (None,)}
    replaced(path, "vectors/cell/age", chunks=(2,), **values)
    at, kind, value = CHUNKS[case]
    data = path.read_bytes()
    value += len(data) if value < 0 else 0
    patch(path, data.index(b"TREE\1") + at, struct.pack(kind, value))
    with (
        open_daf(path) as daf,
        pytest.raises(errors.CorruptDataError, match="list of its chunks is damaged"),
    ):
        daf.get_np_vector("cell", "age")


def link_out(path: Path, link: Any) -> None:
    """Put a link in the place of a vector."""
    with h5py.File(path, "r+") as file:
        del file[TYPE]
        file[TYPE] = link


@pytest.mark.parametrize("target", ["other.h5", "pipe", "nothing.h5"])
def test_links_to_other_files(path: Path, target: str) -> None:
    """They are not followed: the other file may be anything, also a named pipe."""
    with h5py.File(path.with_name("other.h5"), "w") as other:
        other["type"] = ["a", "b", "c"]
    os.mkfifo(path.with_name("pipe"))
    link_out(path, h5py.ExternalLink(target, "/type"))
    only_types_are_lost(path)


def test_a_group_that_is_elsewhere(path: Path) -> None:
    """Its vectors are lost, and are said to be."""
    with h5py.File(path, "r+") as file:
        del file["vectors/cell"]
        file["vectors/cell"] = h5py.ExternalLink("pipe", "/x")
    os.mkfifo(path.with_name("pipe"))
    daf = in_time(lambda: open_daf(path))
    assert daf.get_np_vector("gene", "marker").tolist() == [True, False, True, False]
    assert [problem.what for problem in daf.summary().problems] == ["vectors of axis 'cell'"]
    assert connect(daf).sql("SELECT * FROM gene").count() == 4
    daf.close()
    assert [p[1] for p in in_time(lambda: found(path)) if p[0] == "error"] == ["vectors/cell"]


def test_soft_links(path: Path) -> None:
    """Within the file they are followed; out of it, in a circle, or into nothing they are not."""
    with h5py.File(path, "r+") as file:
        file["elsewhere"] = file[TYPE]
        file["out"] = h5py.ExternalLink(str(path.with_name("other.h5")), "/")
        for name, link in (("near", "type"), ("far", "/elsewhere"), ("up", "/out/x"), ("me", "me")):
            file[f"vectors/cell/{name}"] = h5py.SoftLink(link)
    with open_daf(path) as daf:
        for name in ("near", "far"):
            assert daf.get_pa_vector("cell", name).to_pylist() == ["Bcell", "TCell", "TCell"]
        with pytest.raises(errors.UnsupportedDataError, match="a link to another file"):
            daf.get_pa_vector("cell", "up")
        with pytest.raises(errors.UnsupportedDataError, match="over too many links"):
            daf.get_pa_vector("cell", "me")
        assert {"near", "far", "up", "me"} <= daf.vectors_set("cell")
        assert len(daf.summary().problems) == 2


def test_elements_in_other_files(path: Path) -> None:
    """Virtual datasets, and those with an external file, are refused."""
    with h5py.File(path.with_name("other.h5"), "w") as other:
        other["data"] = np.arange(3)
    source = h5py.VirtualSource(str(path.with_name("other.h5")), "data", shape=(3,), dtype="i8")
    layout = h5py.VirtualLayout(shape=(3,), dtype="i8")
    layout[:] = source
    with h5py.File(path, "r+") as file:
        file.create_virtual_dataset("vectors/cell/virtual", layout)
        file.create_dataset(
            "vectors/cell/external",
            shape=(3,),
            dtype="i8",
            external=[(str(path.with_name("raw")), 0, 24)],
        )
    with open_daf(path) as daf:
        for name in ("virtual", "external"):
            with pytest.raises(errors.UnsupportedDataError, match="in other files or datasets"):
                daf.get_np_vector("cell", name)
        assert len(daf.summary().problems) == 2
        assert daf.get_np_vector("cell", "age").tolist() == [30, 60, 90]


@pytest.fixture
def h5ad(tmp_path: Path) -> Path:
    """Return a small h5ad file as anndata writes it."""
    adata = anndata.AnnData(np.eye(3, dtype="f4"))
    adata.obs["n"] = [1, 2, 3]
    adata.write_h5ad(tmp_path / "x.h5ad")
    return tmp_path / "x.h5ad"


def test_types_that_hdf5_does_not_have(h5ad: Path) -> None:
    """An attribute of a string type whose kind was changed is refused: HDF5 ends the process."""
    data, refused, at = h5ad.read_bytes(), 0, -1
    while (at := data.find(b"\x19\x01\x01", at + 1)) >= 0:
        h5ad.write_bytes(data[:at] + b"\x19\xff\x21" + data[at + 3 :])
        for work in (_read_all, lambda path: import_h5ad(path, MemoryDaf(), progress="never")):
            try:
                work(h5ad)
            except DafError as error:
                refused += "has a type that HDF5 does not have" in str(error)
    assert refused > 10


def _read_all(path: Path) -> None:
    with open_daf(path) as daf:
        for name in sorted(daf.vectors_set("obs")):
            daf.get_np_vector("obs", name)
        daf.get_np_matrix("obs", "var", "X")


def test_a_root_that_is_nowhere(h5ad: Path) -> None:
    """A superblock that leads to no root is an error of ours, where HDF5 needs it."""
    with edited_bytes(h5ad) as data:
        assert data[155] == 0xFF
        data[155] = 0x64
    for work in (_read_all, lambda path: import_h5ad(path, MemoryDaf(), progress="never")):
        with suppress(DafError):
            work(h5ad)
