"""Tests that what other programs of the family write is read, and that they can read what we write.

The files are written here byte by byte, with the contents of those that the reference
implementation and its port to R have among their own tests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

from daf_storage import FilesDaf, Packing, copy_all, errors, open_daf, repair, verify
from tests.storage.trees.test_zarr_v3 import indexed
from tests.suites.examples import contents
from tests.support import data_set

OLD: Mapping[str, Any] = {
    "daf.json": '{"version":[1,0]}\n',
    "scalars/cells.json": '{"value":100,"type":"Int64"}\n',
    "scalars/note.json": '{"value":"hello","type":"String"}\n',
    "scalars/pi.json": '{"value":3.14,"type":"Float64"}\n',
    "axes/cell.txt": "A\nB\nC\nD\n",
    "axes/gene.txt": "X\nY\n",
    "vectors/cell/donor.json": '{"format":"dense","eltype":"Int32"}\n',
    "vectors/cell/donor.data": np.array([1, 2, 3, 4], "<i4"),
    "vectors/cell/flags.json": '{"format":"sparse","eltype":"Bool","indtype":"UInt32"}\n',
    "vectors/cell/flags.nzind": np.array([1, 3], "<u4"),
    "vectors/cell/sparse_x.json": '{"format":"sparse","eltype":"Float64","indtype":"UInt32"}\n',
    "vectors/cell/sparse_x.nzind": np.array([2, 4], "<u4"),
    "vectors/cell/sparse_x.nzval": np.array([10.0, 30.0]),
    "matrices/cell/gene/dense_m.json": '{"format":"dense","eltype":"Float64"}\n',
    "matrices/cell/gene/dense_m.data": np.arange(1.0, 9.0),
    "matrices/cell/gene/mask.json": '{"format":"sparse","eltype":"Bool","indtype":"Int32"}\n',
    "matrices/cell/gene/mask.colptr": np.array([1, 2, 3], "<i4"),
    "matrices/cell/gene/mask.rowval": np.array([1, 2], "<i4"),
    "matrices/gene/cell/mask.json": '{"format":"sparse","eltype":"Bool","indtype":"Int32"}\n',
    "matrices/gene/cell/mask.colptr": np.array([1, 2, 3, 3, 3], "<i4"),
    "matrices/gene/cell/mask.rowval": np.array([1, 2], "<i4"),
    "matrices/gene/cell/mask.nzval": np.array([1, 1], "u1"),
}
"""Version 1.0: sparse documents do not name their parts; all-true values may be there or not."""

NEW: Mapping[str, Any] = {
    "daf.json": '{"version":[1,1]}\n',
    "scalars/title.json": '{"type":"String","value":"amos"}\n',
    "axes/cell.txt": "c1\nc2\nc3\nc4\n",
    "axes/gene.txt": "g1\ng2\ng3\n",
    "vectors/cell/sv.json": '{"format":"sparse",'
    '"nzind":{"format":"dense","eltype":"Int64","n_elements":2},'
    '"nzval":{"format":"dense","eltype":"Float64","n_elements":2}}\n',
    "vectors/cell/sv.nzind": np.array([2, 4], "<i8"),
    "vectors/cell/sv.nzval": np.array([5.0, 7.0]),
    "vectors/cell/age.json": '{"format":"dense","eltype":"Float64"}\n',
    "vectors/cell/age.data": np.array([10.0, 20.0, 30.0, 40.0]),
    "vectors/gene/word.json": '{"format":"dense","eltype":"String"}\n',
    "vectors/gene/word.txt": "é\n\nb c\n",
    "matrices/cell/gene/UMIs.json": '{"format":"sparse",'
    '"colptr":{"format":"dense","eltype":"Int64","n_elements":4},'
    '"rowval":{"format":"dense","eltype":"Int64","n_elements":4},'
    '"nzval":{"format":"dense","eltype":"Float64","n_elements":4}}\n',
    "matrices/cell/gene/UMIs.colptr": np.array([1, 3, 4, 5], "<i8"),
    "matrices/cell/gene/UMIs.rowval": np.array([1, 4, 2, 3], "<i8"),
    "matrices/cell/gene/UMIs.nzval": np.array([1.0, 4.0, 2.0, 3.0]),
    "matrices/cell/gene/dm.json": '{"format":"dense","eltype":"Float64"}\n',
    "matrices/cell/gene/dm.data": np.arange(1.0, 13.0).reshape(4, 3).T.copy(),
}
"""Version 1.1."""


def write(root: Path, files: Mapping[str, Any]) -> Path:
    """Write files that are not None, and the directories that each data set has."""
    for group in ("scalars", "axes", "vectors", "matrices"):
        (root / group).mkdir(parents=True)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is not None:
            path.write_bytes(data.encode() if isinstance(data, str) else data.tobytes())
    return root


def test_version_1_0(tmp_path: Path) -> None:
    """All that is in it, whether values that are all true are stored or not."""
    root = write(tmp_path / "old", OLD)
    with open_daf(root) as daf:
        found = contents(daf)
    assert found["scalars"] == {"cells": 100, "note": "hello", "pi": 3.14}
    assert found["axes"] == {"cell": ["A", "B", "C", "D"], "gene": ["X", "Y"]}
    vectors = {name: values for (_, name), values in found["vectors"].items()}
    assert vectors == {
        "donor": [1, 2, 3, 4],
        "flags": [True, False, True, False],
        "sparse_x": [0, 10, 0, 30],
    }
    mask = [[True, False], [False, True], [False, False], [False, False]]
    matrices = found["matrices"]
    assert matrices["cell", "gene", "mask"] == mask
    assert matrices["gene", "cell", "mask"] == np.array(mask).T.tolist()
    assert matrices["cell", "gene", "dense_m"] == [[1, 5], [2, 6], [3, 7], [4, 8]]


def test_stored_values_of_version_1_0_are_not_taken_to_be_true(tmp_path: Path) -> None:
    """Values of Bool that are there count, and values of other types that are missing are missed."""
    root = write(tmp_path / "old", {**OLD, "matrices/gene/cell/mask.nzval": np.array([1, 0], "u1")})
    (root / "vectors/cell/sparse_x.nzval").unlink()
    with open_daf(root) as daf:
        assert daf.get_np_matrix("gene", "cell", "mask", relayout=False).sum() == 1
        with pytest.raises(errors.CorruptDataError, match=r"file 'sparse_x\.nzval' is missing"):
            daf.get_np_vector("cell", "sparse_x")


def test_writing_makes_it_version_1_1(tmp_path: Path) -> None:
    """When the first document comes that programs of version 1.0 do not know."""
    root = write(tmp_path / "old", OLD)
    with FilesDaf(root, "r+") as daf:
        daf.set_vector("gene", "dense", [1, 2])
        assert json.loads((root / "daf.json").read_bytes()) == {"version": [1, 0]}
        daf.set_matrix("cell", "gene", "new", daf.get_np_matrix("cell", "gene", "mask"))
    assert json.loads((root / "daf.json").read_bytes()) == {"version": [1, 1]}


def test_version_1_1_is_read_and_written_alike(tmp_path: Path) -> None:
    """What is read of it, written again, is byte for byte the same."""
    root = write(tmp_path / "new", NEW)
    with open_daf(root) as daf:
        assert daf.get_np_vector("gene", "word").tolist() == ["é", "", "b c"]
        assert daf.get_np_vector("cell", "sv").tolist() == [0, 5, 0, 7]
        assert daf.get_np_matrix("cell", "gene", "dm").tolist()[0] == [1, 2, 3]
        with FilesDaf(tmp_path / "copy.daf", "w") as copy:
            copy_all(daf, copy)
    for name in NEW:
        assert (tmp_path / "copy.daf" / name).read_bytes() == (root / name).read_bytes(), name
    assert {f.level for f in verify(root)} == {"warning"}  # of metadata.json and empty groups
    assert verify(tmp_path / "copy.daf") == []


@pytest.mark.parametrize("codec", ["blosc-zstd", "blosc-lz4", "zstd", "gzip"])
def test_packed_files_of_others(tmp_path: Path, codec: Any) -> None:
    """They are shards with an index, as in Zarr; those that are ZIP archives alone are not read."""
    entries, score = [f"c{n}" for n in range(3000)], np.arange(3000.0)
    with open_daf(tmp_path / "x.daf.zarr", "w", packed=Packing(codec, chunk_kb=8)) as zarr:
        zarr.add_axis("cell", entries, vectors={"score": score})
    folder = tmp_path / "x.daf/vectors/cell"
    with FilesDaf(tmp_path / "x.daf", "w") as daf:
        daf.add_axis("cell", entries)
    shutil.copy(tmp_path / "x.daf.zarr/vectors/cell/score/c/0", folder / "score.zip")
    name = {"blosc-zstd": "blosc_zstd_bitshuffle", "blosc-lz4": "blosc_lz4_bitshuffle"}
    document = packed_document("Float64", [1024], name.get(codec, codec))
    (folder / "score.json").write_text(document)
    with open_daf(tmp_path / "x.daf") as daf:
        assert daf.get_np_vector("cell", "score").tolist() == score.tolist()
    for old, new in {"indexed+zipped": "zipped", '"start"': '"end"'}.items():
        (folder / "score.json").write_text(document.replace(old, new))
        with (
            open_daf(tmp_path / "x.daf") as daf,
            pytest.raises(errors.UnsupportedDataError, match="index at the start"),
        ):
            daf.get_np_vector("cell", "score")
    (folder / "score.json").write_text(document)
    (tmp_path / "x.daf/axes/cell.txt").write_bytes(b"")
    assert "vectors/cell/score" in [finding.path for finding in verify(tmp_path / "x.daf")]
    assert "vectors/cell/score" in [one.path for one in repair(tmp_path / "x.daf").damaged]
    with (
        open_daf(tmp_path / "x.daf") as daf,
        pytest.raises(errors.CorruptDataError, match="has no entries"),
    ):
        daf.get_np_vector("cell", "score")


def packed_document(kind: str, chunks: list[int], compression: str) -> str:
    """Return the document of a packed dense array, as the reference writes it."""
    return (
        f'{{"format":"dense","eltype":"{kind}","packed_format":"indexed+zipped","chunk_shape":'
        f'{json.dumps(chunks)},"compression":"{compression}","compression_level":3,'
        '"index_location":"start"}\n'
    )


def test_a_packed_matrix_of_strings(tmp_path: Path) -> None:
    """Which is not written here: each of its columns is cut by itself, and filled up."""
    with FilesDaf(tmp_path / "x.daf", "w") as daf:
        data_set(daf, cell=3, gene=2)
    chunks = [["a0", "a1"], ["a2", ""], ["b0", "b1"], ["b2", ""]]
    encoded = [numcodecs.VLenUTF8().encode(np.array(chunk, object)) for chunk in chunks]
    data = indexed([numcodecs.Zstd().encode(one) for one in encoded])
    (tmp_path / "x.daf/matrices/cell/gene/word.zip").write_bytes(data)
    (tmp_path / "x.daf/matrices/cell/gene/word.json").write_text(
        packed_document("String", [2, 1], "zstd")
    )
    with open_daf(tmp_path / "x.daf") as daf:
        found = daf.get_np_matrix("cell", "gene", "word").tolist()
    assert found == [["a0", "b0"], ["a1", "b1"], ["a2", "b2"]]


AGE = "vectors/cell/age.json"


def said(more: str) -> str:
    """Return the document of a dense vector that says something more."""
    return f'{{"format":"dense","eltype":"Float64",{more}}}'


def packed(chunks: str, compression: str = "gzip", kind: str = "indexed+zipped") -> str:
    """Return the document of a packed vector."""
    return said(f'"packed_format":"{kind}","chunk_shape":{chunks},"compression":"{compression}"')


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (AGE, "{}", "format is None, and neither"),
        (AGE, '{"format":"dense","eltype":"Int7"}', "no element type 'Int7'"),
        (AGE, "nope", "not JSON"),
        ("vectors/cell/age.data", np.zeros(3), r"shape is \[3\], but cell needs \[4\]"),
        ("vectors/cell/age.data", np.zeros(33, "u1"), "too long"),
        ("vectors/gene/word.txt", None, "the file 'word.txt' is missing"),
        ("vectors/gene/word.txt", "a\nb\n", "has 2 lines instead of 3"),
        ("vectors/gene/word.txt", "a\nb\nc", "truncated"),
        ("vectors/gene/word.txt", np.array([255, 10, 10, 10], "u1"), "not UTF-8"),
        ("vectors/cell/sv.nzval", np.zeros(1), "truncated"),
        ("matrices/cell/gene/dm.data", np.zeros(11), "truncated"),
        ("matrices/cell/gene/UMIs.colptr", np.zeros(4, "<i8"), "colptr does not rise"),
        ("axes/cell.txt", "c1\nc2", "truncated"),
        (AGE, said('"n_elements":-1'), "its n_elements is -1"),
        (AGE, said('"n_elements":true'), "its n_elements is True"),
        (AGE, said('"shape":[3,-1]'), r"its shape is \[3, -1\]"),
        (AGE, packed("null"), "its chunk_shape is None"),
        (AGE, packed("[3,0]"), r"its chunk_shape is \[3, 0\]"),
        (AGE, packed("[3,2,1]"), r"its chunk_shape is \[3, 2, 1\]"),
        (AGE, packed("[3,2]"), r"chunks of shape \[2, 3\] cannot make up an array of shape \[4\]"),
        (AGE, packed("[2]", kind="tar"), "packed as 'tar' with 'gzip', which is not read"),
        (AGE, packed("[2]", "gzip_shuffle"), "'indexed.zipped' with 'gzip_shuffle', which is not"),
        (AGE, '{"format":"sparse","eltype":"Bool"}', "element type None"),
        ("vectors/cell/sv.json", '{"format":"sparse","nzval":["x"]}', r"its nzval is \['x'\]"),
        ("axes/cell.txt", "c1\nc1\nc2\nc3\n", "c1"),
        ("scalars/title.json", '{"type":"Int8","value":300}', "300 is no Int8"),
        ("scalars/title.json", '{"type":"Int8","value":128}', "is no Int8"),
        ("scalars/title.json", '{"type":"Int8","value":1.5}', "is no Int8"),
        ("scalars/title.json", '{"type":"Int8","value":true}', "is no Int8"),
        ("scalars/title.json", '{"type":"UInt8","value":-1}', "is no UInt8"),
        ("scalars/title.json", '{"type":"Int64","value":NaN}', "is no Int64"),
        ("scalars/title.json", '{"type":"Float64","value":true}', "is no Float64"),
        ("scalars/title.json", '{"type":"Float64","value":[1]}', "is no Float64"),
        ("scalars/title.json", '{"type":"String","value":null}', "is no String"),
        ("scalars/title.json", '{"type":"Bool","value":2}', "2 is no Bool"),
        ("scalars/title.json", '{"type":"String","value":2}', "2 is no String"),
        ("scalars/title.json", '{"type":"Float32","value":"x"}', "'x' is no Float32"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, data: Any, message: str) -> None:
    """The error names the file, verify finds it, and a description shows what else there is."""
    root = write(tmp_path / "x.daf", {**NEW, name: data})
    found = [str(f) for f in verify(root) if f.level == "error"]
    assert found
    with open_daf(root) as daf:
        assert str(root) in daf.description()
        with pytest.raises(errors.DafError, match=message) as caught:
            contents(daf)
        assert daf.tree.kind(name.partition(".")[0]) is not None
    with open_daf(root, "r+") as daf:
        daf.set_scalar("new", 1)
    assert name.rpartition("/")[2].partition(".")[0] in str(caught.value)


def test_floats_that_json_has_no_number_for(tmp_path: Path) -> None:
    """Written as Python's programs write them; ``null`` is NaN, as other programs write it."""
    with FilesDaf(tmp_path / "x.daf", "w") as daf:
        for name, value in {"nan": np.nan, "inf": -np.inf, "small": np.float32(0.1)}.items():
            daf.set_scalar(name, value)
        daf.set_scalar("other", 0.0)
        for value, number in {"null": np.nan, '"-Inf"': -np.inf, '"NaN"': np.nan}.items():
            document = f'{{"type":"Float32","value":{value}}}\n'
            (tmp_path / "x.daf/scalars/other.json").write_text(document)
            np.testing.assert_equal(daf.get_scalar("other"), number)
        assert np.isnan(daf.get_scalar("nan"))
        assert daf.get_scalar("inf") == -np.inf
    assert "0.1}" in (tmp_path / "x.daf/scalars/small.json").read_text()


def test_documents_that_are_too_large(tmp_path: Path) -> None:
    """None has more than a mebibyte: such a file is not even read."""
    root = write(tmp_path / "x.daf", OLD)
    document = root / "vectors/cell/donor.json"
    text = document.read_text()
    document.write_text(text.ljust(1 << 20))
    with open_daf(root) as daf:
        assert daf.get_np_vector("cell", "donor").size == 4
    document.write_text(text.ljust((1 << 20) + 1))
    with open_daf(root) as daf, pytest.raises(errors.CorruptDataError) as caught:
        daf.get_np_vector("cell", "donor")
    assert "donor.json has 1,048,577 bytes, and metadata have no more than 1,048,576" in str(
        caught.value
    )


def test_strings_are_lines(tmp_path: Path) -> None:
    """Of any characters but line breaks, with which the name of the vector is refused."""
    strings = ["", "é", "a\tb", "\r", "x" * 1000, "\u2028", "細胞"]
    with FilesDaf(tmp_path / "x.daf", "w") as daf:
        data_set(daf, cell={"name": len(strings), "word": strings})
        lines = "".join(f"{text}\n" for text in strings)
        assert (tmp_path / "x.daf/vectors/cell/word.txt").read_bytes() == lines.encode()
        assert daf.get_np_vector("cell", "word").tolist() == strings
        with pytest.raises(
            errors.UnsupportedInputError, match=r"line break in 'a\\nb' at posi.* 4,"
        ):
            daf.set_vector("cell", "other", [*"0123", "a\nb", "5", "6"])
