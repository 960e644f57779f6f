"""Tests of groups, datasets and attributes that are read from the bytes of a file, beside h5py."""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daf_storage.base import StorageType
from daf_storage.trees import _hdf5_header_index as header_index
from daf_storage.trees._hdf5_chunk_tree import chunks_below, chunks_in_tree
from daf_storage.trees._hdf5_chunks import Pipeline
from daf_storage.trees._hdf5_few_strings import FewStrings
from daf_storage.trees._hdf5_header_index import HeaderIndex, Located
from daf_storage.trees._hdf5_headers import DatasetHeader, UnusualHeaderError
from daf_storage.trees._hdf5_heaps import REFERENCE
from daf_storage.trees._hdf5_types import usual_types
from tests.corpus.files import unpacked, versions


def index_of(path: Path, data: Any = None) -> HeaderIndex:
    """Return what reads the headers of a file, or of other bytes with the same root."""
    with h5py.File(path, "r") as file:
        root = int(h5py.h5o.get_info(file.id).addr)
    stored = np.fromfile(path, np.uint8) if data is None else data
    return HeaderIndex(stored, root, FewStrings(stored))


def same(found: Any, expected: Any) -> bool:
    """Return whether an attribute is what h5py makes of it, type and all."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, np.ndarray):
        return found.dtype.kind == expected.dtype.kind and np.array_equal(found, expected)
    return bool(found == expected or (np.isnan(found) and np.isnan(expected)))


def assert_attributes_are_the_same(located: Located, item: Any, seen: Counter[str]) -> None:
    """Compare all attributes of a group or dataset that are read without HDF5."""
    for name in item.attrs:
        try:
            found = located.attribute(name)
        except UnusualHeaderError:
            seen["unusual attribute"] += 1
            continue
        assert same(found, item.attrs[name]), (item.name, name)
        seen["attribute"] += 1
    try:
        assert located.attribute("no such attribute") is None
    except UnusualHeaderError:
        seen["unusual attribute"] += 1


def assert_the_dataset_is_the_same(located: Located, item: Any) -> None:
    """Compare what the header of a dataset says with what h5py does."""
    header = located.header.dataset
    assert header is not None
    assert header.shape == item.shape
    assert header.chunks == item.chunks
    known = usual_types().get(header.datatype)
    if known is not None and known.storage_type is StorageType.STRING:
        assert header.item_bytes == REFERENCE.itemsize
    elif known is not None:
        assert header.item_bytes == item.id.get_type().get_size()
    place = None if header.elements is None else (header.elements.start, header.elements.size)
    offset = item.id.get_offset()
    assert place == (None if offset is None else (offset, item.id.get_storage_size()))
    properties = item.id.get_create_plist()
    numbers = [properties.get_filter(n)[0] for n in range(properties.get_nfilters())]
    assert list(header.filters) == numbers
    if known is not None and not known.is_bits:
        assert known.dtype == item.dtype


def assert_the_chunks_are_the_same(header: DatasetHeader, item: Any, data: Any) -> None:
    """Compare the B-tree of chunks with the one that is found by the address of the header."""
    at = int(h5py.h5o.get_info(item.id).addr)
    count = item.id.get_num_chunks()
    expected = chunks_in_tree(data, at, item.chunks, most=count)
    if header.tree is None:
        assert count == 0
        return
    found = chunks_below(data, header.tree, item.chunks, most=count)
    assert expected is not None
    assert found is not None
    assert found.tolist() == expected.tolist()
    assert len(found) == count
    pipeline = Pipeline.of_header(header)
    assert pipeline is None or pipeline == Pipeline.of(item)


def compared(path: Path) -> Counter[str]:
    """Compare all of a file with what h5py says; return how much of it was read."""
    index, seen, data = index_of(path), Counter[str](), np.fromfile(path, np.uint8)

    def compare(item: Any) -> None:
        try:
            located = index.find(item.name.strip("/"))
        except UnusualHeaderError:
            seen["unusual"] += 1
            return
        assert located is not None
        is_group = isinstance(item, h5py.Group)
        assert located.header.kind == ("group" if is_group else "array")
        seen[located.header.kind] += 1
        assert_attributes_are_the_same(located, item, seen)
        if not is_group:
            assert_the_dataset_is_the_same(located, item)
            header = located.header.dataset
            if header is not None and header.chunks is not None:
                assert_the_chunks_are_the_same(header, item, data)
            return
        try:
            assert list(located.kinds()) == list(item)
        except UnusualHeaderError:
            seen["unusual links"] += 1
        assert located.below("no such name") is None

    with h5py.File(path, "r") as file:
        compare(file)
        file.visititems(lambda _, item: compare(item))
    return seen


@pytest.mark.parametrize("version", versions())
def test_files_of_anndata_are_what_h5py_says(version: str, tmp_path: Path) -> None:
    """Each group, dataset and attribute of each uncompressed h5ad of the corpus.

    HDF5 is asked of groups with names that are not ASCII, whose links it stores in another way.
    """
    seen = Counter[str]()
    for file in unpacked(version, tmp_path, lambda file: file.form == "h5ad"):
        seen += compared(file.path)
    assert seen["group"] > 10
    assert seen["array"] > 50
    assert seen["unusual"] <= seen["array"] * (0.6 if version < "0.7" else 0.34)
    assert seen["unusual attribute"] <= seen["attribute"] / 5


DTYPES = ("?", "i1", "u2", "<i4", ">i4", "i8", "f2", "f4", ">f8", "c8", "S3", "str", "enum", "rec")


def dtype_of(name: str) -> Any:
    """Return a type of h5py by a short name."""
    special = {
        "str": h5py.string_dtype(),
        "enum": h5py.enum_dtype({"A": 0, "B": 1}, "i1"),
        "rec": np.dtype([("a", "i4"), ("b", "f8")]),
    }
    return special.get(name, name)


def values_of(name: str, shape: tuple[int, ...]) -> Any:
    """Return values of a type."""
    if name == "str":
        count = int(np.prod(shape))
        return np.array(["x" * (n % 5) + "ä" for n in range(count)], object).reshape(shape)
    return (
        np.arange(np.prod(shape)).reshape(shape).astype(dtype_of(name)) if name != "rec" else None
    )


@st.composite
def files(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return descriptions of datasets: their types, shapes, chunks, filters and attributes."""
    shapes = st.lists(st.integers(0, 9), max_size=3).map(tuple)
    one = st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(DTYPES),
            "shape": shapes,
            "is_chunked": st.booleans(),
            "compression": st.sampled_from([None, "gzip", "lzf"]),
            "is_filled": st.booleans(),
            "attributes": st.lists(st.tuples(st.sampled_from(DTYPES), shapes), max_size=12),
            "folder": st.sampled_from(["", "a", "a/b", "ä/ö"]),
        }
    )
    return draw(st.lists(one, max_size=20))


def write(path: Path, described: list[dict[str, Any]], libver: Any) -> None:
    """Write a file of some datasets."""
    with h5py.File(path, "w", libver=libver) as file:
        for number, each in enumerate(described):
            shape, is_chunked = each["shape"], each["is_chunked"] and len(each["shape"]) > 0
            options: dict[str, Any] = {}
            if is_chunked:
                options = {"chunks": (2,) * len(shape), "maxshape": (None,) * len(shape)}
                is_packable = each["dtype"] != "str"
                options["compression"] = each["compression"] if is_packable else None
            dataset = file.require_group(each["folder"] or "/").create_dataset(
                f"data {number}", shape, dtype_of(each["dtype"]), **options
            )
            values = values_of(each["dtype"], shape) if each["is_filled"] else None
            if values is not None:
                dataset[...] = values
            for at, (name, attribute_shape) in enumerate(each["attributes"]):
                value = values_of(name, attribute_shape)
                if value is not None:
                    dataset.attrs.create(f"attribute {at}", value, dtype=dtype_of(name))


@settings(max_examples=20, deadline=None)
@given(described=files(), libver=st.sampled_from(["earliest", "v108", "latest"]))
def test_whatever_is_read_is_what_h5py_says(
    tmp_path_factory: pytest.TempPathFactory, described: list[dict[str, Any]], libver: str
) -> None:
    """Of any types, shapes, chunks, filters and attributes, in files of old and new versions."""
    path = tmp_path_factory.mktemp("any") / "x.h5"
    write(path, described, (libver, "latest"))
    compared(path)


def test_few_of_many_objects_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was forgotten is read again, and is the same."""
    monkeypatch.setattr(header_index, "_MOST_KEPT", 3)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for number in range(10):
            file[f"group {number}/data"] = np.zeros(number)
            file[f"group {number}/data"].attrs["number"] = number
    index = index_of(path)
    for number in (*range(10), *range(10)):
        found = index.find(f"group {number}/data")
        assert found is not None
        assert found.attribute("number") == number
        assert max(len(index._headers), len(index._links), len(index._attributes)) <= 3


def test_maximal_shapes_that_are_too_small_are_left_to_hdf5(tmp_path: Path) -> None:
    """A dataset that says that it may grow, but not as far as it is."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", (3, 5), "i4", chunks=(2, 2), maxshape=(777, 5))
    data = np.fromfile(path, np.uint8)
    found = index_of(path).find("data")
    assert found is not None
    assert found.header.dataset is not None
    assert found.header.dataset.shape == (3, 5)
    limit = data.tobytes().index(struct.pack("<2Q", 777, 5))
    data[limit : limit + 8] = np.frombuffer(struct.pack("<Q", 2), np.uint8)
    with pytest.raises(UnusualHeaderError):
        index_of(path, data).find("data")


def test_links_that_are_no_objects_are_left_to_hdf5(tmp_path: Path) -> None:
    """Soft links; the other links of their group are found nevertheless."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.arange(3)
        file["soft"] = h5py.SoftLink("/data")
        file["hard"] = file["data"]
    index = index_of(path)
    for name in ("data", "hard"):
        found = index.find(name)
        assert found is not None
        assert found.header.dataset is not None
        assert found.header.dataset.shape == (3,)
    for unusual in ("soft", "soft/x", "data/x", "data/..", "data//", "."):
        with pytest.raises(UnusualHeaderError):
            index.find(unusual)
    root = index.find("")
    assert root is not None
    with pytest.raises(UnusualHeaderError):
        root.kinds()


def test_external_links_and_types_are_left_to_hdf5(tmp_path: Path) -> None:
    """A group with links of the newer kind, elements in other files, and a stored type."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["group/away"] = h5py.ExternalLink("y.h5", "/x")
        file.create_dataset("outside", (4,), "i4", external=[("raw", 0, 16)])
        file["type"] = np.dtype("i4")
        file.create_dataset("typed", (4,), dtype=file["type"])
        file.create_dataset("compact", (4,), "i4", dcpl=compact_properties())
        layout = h5py.VirtualLayout((4,), "i4")
        layout[:] = h5py.VirtualSource("y.h5", "x", (4,), "i4")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("null", data=h5py.Empty("i4"))
    index = index_of(path)
    for name in ("group/away", "outside", "type", "typed", "compact", "virtual", "null"):
        with pytest.raises(UnusualHeaderError):
            index.find(name)


def compact_properties() -> Any:
    """Return how a dataset is created whose elements are in its header."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    return properties


def _walked(index: HeaderIndex) -> int:
    """Return how many objects are found; look at all that is read of each."""
    left, count = [""], 0
    while left and count < 1_000:
        path = left.pop()
        try:
            located = index.find(path)
            if located is None:
                continue
            count += 1
            located.attribute("encoding-type")
            left += [f"{path}/{name}".lstrip("/") for name in located.kinds()]
        except UnusualHeaderError:
            continue
    return count


def places_of_metadata(path: Path) -> Iterator[int]:
    """Yield where the headers, the trees, the heaps and the nodes of links are."""
    data = np.fromfile(path, np.uint8)
    for at in range(0, data.size, 8):
        if bytes(data[at : at + 4]) in (b"TREE", b"HEAP", b"SNOD", b"GCOL"):
            yield at
    with h5py.File(path, "r") as file:
        for name in ("/", "a", "a/data 0", "a/data 1"):
            yield int(h5py.h5o.get_info(file[name].id).addr)


def test_damaged_bytes_are_left_to_hdf5_or_say_something_else(tmp_path: Path) -> None:
    """No byte makes it raise anything else, loop, or leave the file."""
    path = tmp_path / "x.h5"
    attributes = [("str", ()), ("i4", (2,)), ("?", ())]
    base = {"is_filled": True, "attributes": attributes, "folder": "a", "compression": "gzip"}
    write(
        path,
        [
            {**base, "dtype": "f8", "shape": (5,), "is_chunked": False},
            {**base, "dtype": "i4", "shape": (5, 3), "is_chunked": True},
        ],
        "earliest",
    )
    data = np.fromfile(path, np.uint8)
    assert _walked(index_of(path)) == 4
    random = np.random.default_rng(7)
    places = {at for start in places_of_metadata(path) for at in range(start, start + 160)}
    for place in sorted(places & set(range(data.size)))[::5]:
        before = data[place]
        for value in (255, int(random.integers(256))):
            data[place] = value
            assert _walked(index_of(path, data)) <= 1_000
        data[place] = before
    for length in itertools.chain(range(0, 800, 40), range(800, data.size, 200)):
        assert _walked(index_of(path, data[:length])) <= 4
