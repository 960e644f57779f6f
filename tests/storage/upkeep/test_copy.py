"""Tests of copying data sets between formats."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from daf_storage import (
    DafReader,
    IfExists,
    MemoryDaf,
    Packing,
    convert,
    errors,
    open_daf,
    verify,
)
from daf_storage.trees import ChunkedArray
from tests import seams
from tests.limits import lower
from tests.support import (
    contents,
    create,
    data_set,
    fill,
    fill_served,
    filled,
    peaks,
    recorded_calls,
)

FORMATS = {
    "directory": "x.daf.zarr",
    "archive": "x.daf.zarr.zip",
    "shared archive": "x.dafs.zarr.zip#/a/b",
    "HDF5": "x.h5df",
    "shared HDF5": "x.h5dfs#/a",
    "directory, v3": "x.daf.zarr",
    "directory, packed": "x.daf.zarr",
    "archive, packed": "x.daf.zarr.zip",
    "HDF5, packed": "x.h5df",
}


def options(name: str) -> dict[str, Any]:
    """Return how a format is written."""
    return (
        {"packed": Packing()} if "packed" in name else {"zarr_format": 3 if "v3" in name else None}
    )


def types(daf: DafReader) -> dict[str, object]:
    """Return the stored type and layout of everything."""
    axes = sorted(daf.axes_set())
    found: dict[str, object] = {f"scalar {n}": daf.scalar_type(n) for n in daf.scalars_set()}
    for axis in axes:
        for name in daf.vectors_set(axis):
            info = daf.vector_info(axis, name)
            found[f"{axis} {name}"] = (info.storage_type, info.is_sparse)
    for rows, columns in itertools.product(axes, axes):
        for name in daf.matrices_set(rows, columns, relayout=False):
            matrix = daf.matrix_info(rows, columns, name)
            found[f"{rows} {columns} {name}"] = (matrix.storage_type, matrix.is_sparse, matrix.nnz)
    return found


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return what makes a source of each format, once."""
    folder = tmp_path_factory.mktemp("sources")

    @cache
    def make(name: str) -> str:
        (folder / name).mkdir()
        path = f"{folder / name}/{FORMATS[name]}"
        daf = open_daf(path, "w+", **options(name))
        fill_served(daf).close()
        return path

    return make


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Return what the sources hold."""
    return contents(fill_served(MemoryDaf()))


PAIRS = [
    (source, list(FORMATS)[(place + step) % len(FORMATS)])
    for place, source in enumerate(FORMATS)
    for step in (0, 1, 4)
]
"""Each format is written from three, and read into three; `benchmarks/formats.py` has all pairs."""


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize(("source", "destination"), PAIRS)
def test_pairs_of_formats(
    tmp_path: Path,
    sources: Callable[[str], str],
    expected: dict[str, Any],
    source: str,
    destination: str,
) -> None:
    """Everything arrives: values, types, layouts and orientations; and nothing else."""
    one, other = sources(source), f"{tmp_path}/{FORMATS[destination]}"
    convert(one, other, progress="never", **options(destination))
    with open_daf(one) as original, open_daf(other) as copy:
        assert contents(copy) == expected
        assert types(copy) == types(original)
    assert verify(other) == []


@pytest.mark.parametrize("container", ["x.dafs.zarr.zip", "x.h5dfs"])
def test_between_data_sets_of_one_file(tmp_path: Path, container: str) -> None:
    """A copy within an archive or a file; neither itself nor one that is there is replaced."""
    one, other = (f"{tmp_path}/{container}#/{name}" for name in "ab")
    fill(open_daf(one, "w+")).close()
    convert(one, other)
    with pytest.raises(errors.InvalidInputError, match="are the same data set"):
        convert(one, one)
    modes: tuple[IfExists, ...] = ("error", "replace")
    for if_exists in modes:
        with pytest.raises(errors.ExistsError, match="name another one after #/"):
            convert(one, other, if_exists=if_exists)
    for path in (one, other):
        assert contents(open_daf(path)) == contents(fill(MemoryDaf()))


def test_what_is_there_is_replaced_on_request_only(tmp_path: Path) -> None:
    """And only when the copy is complete."""
    filled(tmp_path / "x.daf.zarr")
    for name in ("y.daf.zarr", "y.daf.zarr.zip", "y.h5df", "y.daf", "y.daf.zip"):
        old = open_daf(tmp_path / name, "w")
        old.add_axis("old", ["a"])
        old.close()
        with pytest.raises(errors.ExistsError, match="exists already"):
            convert(tmp_path / "x.daf.zarr", tmp_path / name)
        assert open_daf(tmp_path / name).axes_set() == {"old"}
        convert(tmp_path / "x.daf.zarr", tmp_path / name, if_exists="replace")
        assert open_daf(tmp_path / name).axes_set() == {"cell", "gene"}


@pytest.mark.parametrize("name", ["y.daf.zarr", "y.daf.zarr.zip", "y.h5df"])
def test_a_copy_that_differs_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What is written is read back and compared; a copy that failed does not appear."""
    filled(tmp_path / "x.daf.zarr")
    counted = seams.real(seams.COUNTED_BLOCKS)

    def spoil(blocks: Any, add: Any) -> Any:
        for block in counted(blocks, add):
            spoilt = block.copy()
            if spoilt.ndim == 2:
                spoilt[0, 0] += 1
            yield spoilt

    monkeypatch.setattr(seams.COUNTED_BLOCKS, spoil)
    with pytest.raises(errors.CorruptDataError, match="UMIs is not the same as in"):
        convert(tmp_path / "x.daf.zarr", tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["x.daf.zarr"]


def test_foreign_arrays_are_copied_plainly(tmp_path: Path) -> None:
    """Compressed, chunked data becomes a plain array, read chunk by chunk."""
    source = tmp_path / "x.daf.zarr"
    n = 100_000
    data_set(create(source), cell=n, gene=2)
    zarr.create_array(source / "vectors/cell/v", data=np.arange(n), chunks=(7_000,), zarr_format=2)
    zarr.create_array(
        source / "matrices/cell/gene/m", data=np.ones((2, n)), chunks=(1, 30_000), zarr_format=2
    )
    convert(source, tmp_path / "y.daf.zarr.zip")
    with open_daf(tmp_path / "y.daf.zarr.zip") as copy:
        assert np.array_equal(copy.get_np_vector("cell", "v"), np.arange(n))
        assert copy.get_np_matrix("cell", "gene", "m").sum() == 2 * n
        assert copy.vector_info("cell", "v").chunk_rows == n


def test_damaged_sources_are_named(tmp_path: Path) -> None:
    """The property that cannot be read; nothing appears."""
    source = tmp_path / "x.daf.zarr"
    filled(source)
    (source / "vectors/cell/age/0").unlink()
    with pytest.raises(errors.CorruptDataError, match="vectors/cell/age"):
        convert(source, tmp_path / "y.h5df")
    assert not (tmp_path / "y.h5df").exists()


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_copies_stream(tmp_path: Path) -> None:
    """Memory of its own does not grow with the data: 280 MB of it, a fraction in use."""
    source = tmp_path / "x.daf.zarr"
    daf = create(source)
    n, genes = 17_500, 1_000
    data_set(daf, cell=n, gene=genes)
    with daf.empty_dense_matrix("cell", "gene", "dense", "f8") as dense:
        dense[:] = 1
    columns = sp.csc_array(
        (np.ones(n * 500), np.tile(np.arange(0, n, 2), genes), np.arange(genes + 1) * (n // 2)),
        shape=(n, genes),
    )
    daf.set_matrix("cell", "gene", "sparse", columns, relayout=False)
    targets = [tmp_path / name for name in ("y.daf.zarr", "y.daf.zarr.zip", "y.h5df")]
    assert max(peaks(convert, source, targets)) < 120


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_memory_is_limited(tmp_path: Path) -> None:
    """A matrix of 64 MB that cannot be compressed is packed into an archive, and unpacked, in a part of that."""
    flat, packed = tmp_path / "x.daf.zarr", tmp_path / "p.daf.zarr.zip"
    daf = data_set(create(flat), cell=8_000, gene=1_000)
    with daf.empty_dense_matrix("cell", "gene", "X", "f8") as out:
        out[:] = np.random.default_rng(1).random((8_000, 1_000))
    limit: dict[str, Any] = {"copy_bytes": 16 << 20, "progress": "never"}
    assert peaks(convert, flat, [packed], packs=True, **limit)[-1] < 60
    assert peaks(convert, packed, [tmp_path / "y.h5df"], **limit)[-1] < 60
    with open_daf(flat) as one, open_daf(tmp_path / "y.h5df") as other:
        expected = one.get_np_matrix("cell", "gene", "X")
        assert np.array_equal(other.get_np_matrix("cell", "gene", "X"), expected)


def test_each_packed_chunk_is_decoded_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to copy and once to compare, in blocks that end where chunks do; none is remembered."""
    source = tmp_path / "x.daf.zarr"
    with open_daf(source, "w", packed=Packing()) as daf:
        data_set(daf, cell={"name": 20_000, "v": np.arange(20_000)})
    decoded = recorded_calls(monkeypatch, (ChunkedArray, "decode"), lambda _, at, __: at)
    lower(monkeypatch, copied_bytes=3 * 8192 + 5, thread_bytes=1)
    convert(source, tmp_path / "y.daf.zarr.zip")
    assert sorted(decoded) == sorted([(n,) for n in range(20)] * 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("versions", [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("link", [True, False])
def test_files_of_the_same_bytes(tmp_path: Path, versions: Any, link: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Between directories they are linked on request, else copied."""
    one, other = tmp_path / "x.daf.zarr", tmp_path / "y.daf.zarr"
    filled(one, fill_served, zarr_format=versions[0]).close()
    convert(one, other, zarr_format=versions[1], link=link)
    chunks = [("matrices/cell/gene/UMIs/" + {2: "0.0", 3: "c/0/0"}[v]) for v in versions]
    assert (one / chunks[0]).samefile(other / chunks[1]) == link
    with open_daf(one) as original, open_daf(other) as copy:
        assert contents(copy) == contents(original)


def test_links_have_a_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two file systems cannot share a file, the bytes are read and written."""

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    filled(tmp_path / "x.daf.zarr", fill_served)
    convert(tmp_path / "x.daf.zarr", tmp_path / "y.daf.zarr", link=True)
    assert verify(tmp_path / "y.daf.zarr") == []
