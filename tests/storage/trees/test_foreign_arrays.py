"""Tests of arrays that other tools wrote: compressed, chunked, and in other layouts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr

from daf_query import connect
from daf_storage import ZarrDaf, errors
from daf_storage.base import Span
from tests.support import CELLS, UMIS, edited_json

BLOSC = numcodecs.Blosc(cname="zstd", clevel=3, shuffle=1)


def put(path: Path, name: str, data: Any, **options: Any) -> None:
    """Store an array through zarr-python, in place of whatever is there."""
    shutil.rmtree(path / name, ignore_errors=True)
    options.setdefault("compressors", None)
    zarr.create_array(path / name, data=np.asarray(data), zarr_format=2, **options)


def put_strings(
    path: Path, name: str, strings: list[str], *, chunks: int, compressor: Any = None
) -> None:
    """Store vlen-utf8 strings as old zarr-python versions do, chunk by chunk."""
    shutil.rmtree(path / name, ignore_errors=True)
    (path / name).mkdir(parents=True)
    document = {
        "zarr_format": 2,
        "shape": [len(strings)],
        "chunks": [chunks],
        "dtype": "|O",
        "compressor": None if compressor is None else compressor.get_config(),
        "fill_value": "",
        "order": "C",
        "filters": [{"id": "vlen-utf8"}],
    }
    (path / name / ".zarray").write_text(json.dumps(document))
    for number, start in enumerate(range(0, len(strings), chunks)):
        part = (strings[start : start + chunks] + [""] * chunks)[:chunks]
        data = bytes(numcodecs.VLenUTF8().encode(np.array(part, dtype=object)))
        data = data if compressor is None else bytes(compressor.encode(data))
        (path / name / str(number)).write_bytes(data)


def test_compressed_sparse_arrays(tiny_path: Path) -> None:
    """Every part may be compressed and chunked, with index types that differ."""
    put(tiny_path, "vectors/cell/s/nzind", np.array([1, 3], "<u2"), compressors=BLOSC)
    put(tiny_path, "vectors/cell/s/nzval", np.array([7, 9], "<i4"), compressors=BLOSC)
    (tiny_path / "vectors/cell/s/.zgroup").write_text('{"zarr_format":2}')
    folder = "matrices/cell/gene/s"
    put(tiny_path, f"{folder}/colptr", np.arange(1, 6, dtype="<i8"), compressors=BLOSC, chunks=(2,))
    put(
        tiny_path, f"{folder}/rowval", np.array([1, 2, 3, 1], "<u1"), compressors=BLOSC, chunks=(3,)
    )
    put(tiny_path, f"{folder}/nzval", np.array([10, 20, 30, 40], "<f4"), compressors=BLOSC)
    (tiny_path / folder / ".zgroup").write_text('{"zarr_format":2}')
    daf = ZarrDaf(tiny_path)
    assert daf.get_np_vector("cell", "s").tolist() == [7, 0, 9]
    expected = [[10, 0, 0, 40], [0, 20, 0, 0], [0, 0, 30, 0]]
    assert daf.get_np_matrix("cell", "gene", "s").toarray().tolist() == expected
    part = connect(daf).matrix("cell", "gene", "s", rows=["CATA", "TATA"], columns=[3, 2])
    assert part.to_numpy().tolist() == [[0, 30], [40, 0]]


def test_sparse_matrices_whose_rows_are_not_sorted(tiny_path: Path) -> None:
    """Other writers may leave them in any order; what we hand out is sorted."""
    rowval = np.array([3, 2, 3, 2, 1, 2, 1, 3, 1], "<i4")
    nzval = np.array([2, 1, 3, 2, 1, 3, 2, 1, 3], "<i8")
    put(tiny_path, "matrices/cell/gene/sparse/rowval", rowval)
    put(tiny_path, "matrices/cell/gene/sparse/nzval", nzval)
    shutil.rmtree(tiny_path / "matrices/gene/cell/sparse")
    daf = ZarrDaf(tiny_path)
    assert daf.get_np_matrix("cell", "gene", "sparse").toarray().tolist() == UMIS.tolist()
    found = connect(daf).matrix("cell", "gene", "sparse", columns=[1, 0, 3]).to_scipy()
    assert found.has_sorted_indices
    assert found.toarray().tolist() == UMIS[:, [1, 0, 3]].tolist()


def test_missing_chunks_are_the_fill_value(tiny_path: Path) -> None:
    """As the Zarr specification has it, for single and several chunks, numbers and strings."""
    for chunks in (3, 2):
        name = f"vectors/cell/f{chunks}"
        put(tiny_path, name, np.array([1, 1, 5], "<i4"), chunks=(chunks,), fill_value=7)
        (tiny_path / name / "0").unlink()
    put_strings(tiny_path, "vectors/cell/t", ["a", "b", "c"], chunks=2)
    (tiny_path / "vectors/cell/t/0").unlink()
    daf = ZarrDaf(tiny_path)
    assert daf.get_np_vector("cell", "f3").tolist() == [7, 7, 7]
    assert daf.get_np_vector("cell", "f2").tolist() == [7, 7, 5]
    assert daf.get_np_vector("cell", "t").tolist() == ["", "", "c"]


@pytest.mark.parametrize("chunks", [3, 2])
def test_missing_chunks_without_a_fill_value_are_damage(tiny_path: Path, chunks: int) -> None:
    """Nothing stands in for strings or numbers of which nobody said what they are."""
    put_strings(tiny_path, "vectors/cell/t", ["a", "b", "c"], chunks=chunks)
    put(tiny_path, "vectors/cell/f", np.array([1, 2, 3], "<i4"), chunks=(chunks,))
    for name, read in (("t", "get_pa_vector"), ("f", "get_np_vector")):
        with edited_json(tiny_path / f"vectors/cell/{name}/.zarray") as document:
            document["fill_value"] = None
        (tiny_path / f"vectors/cell/{name}/0").unlink()
        daf = ZarrDaf(tiny_path)
        with pytest.raises(errors.CorruptDataError, match="has no fill value"):
            getattr(daf, read)("cell", name)
        stored = daf.open_vector("cell", name)
        with pytest.raises(errors.CorruptDataError, match="has no fill value"):
            stored.read_strings() if name == "t" else stored.read(Span(0, 2))


def test_a_whole_data_set_written_by_zarr_python(tmp_path: Path) -> None:
    """Groups and arrays made by zarr alone, compressed and chunked, are a data set here."""
    path = tmp_path / "z.daf.zarr"
    root = zarr.open_group(path, mode="w", zarr_format=2)
    for group in ("scalars", "vectors/cell", "matrices/cell/cell"):
        root.create_group(group)
    put(path, "daf", np.array([1, 0], "u1"))
    put(path, "scalars/n", np.array([7]), compressors=BLOSC)
    put_strings(path, "axes/cell", CELLS, chunks=2, compressor=BLOSC)
    (path / "axes/.zgroup").write_text('{"zarr_format":2}')
    put(path, "vectors/cell/age", np.array([30, 60, 90], "u1"), chunks=(2,), compressors=BLOSC)
    daf = ZarrDaf(path)
    assert daf.get_scalar("n") == 7
    assert daf.axis_entries("cell").tolist() == CELLS
    found = connect(daf).sql("SELECT name FROM cell WHERE age > 50 ORDER BY name").to_pydict()
    assert found == {"name": ["CATA", "GATA"]}


def test_strings_of_a_fixed_length(tiny_path: Path) -> None:
    """As bytes or characters; what is not UTF-8 is an error."""
    for strings in (np.array([b"a", "é".encode(), b""]), np.array(["a", "é", ""])):
        put(tiny_path, "vectors/cell/type", strings)
        assert ZarrDaf(tiny_path).get_np_vector("cell", "type").tolist() == ["a", "é", ""]
    put(tiny_path, "vectors/cell/type", np.array([b"a", b"\xff", b""]))
    with pytest.raises(errors.CorruptDataError, match="the strings cannot be decoded"):
        ZarrDaf(tiny_path).get_np_vector("cell", "type")


@pytest.mark.parametrize("chunk", ["0", "1", "2"])
def test_positions_of_which_a_chunk_is_missing(tiny_path: Path, chunk: str) -> None:
    """They are not zeros: it is an error, which names the first or last chunk."""
    put(tiny_path, "vectors/gene/flag/nzind", np.array([1, 2, 4], "<i4"), chunks=(1,))
    reopened = ZarrDaf(tiny_path)
    assert reopened.get_np_vector("gene", "flag").tolist() == [True, True, False, True]
    (tiny_path / "vectors/gene/flag/nzind" / chunk).unlink()
    with pytest.raises(errors.CorruptDataError, match="missing|does not rise"):
        ZarrDaf(tiny_path).get_np_vector("gene", "flag")
