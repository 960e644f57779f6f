"""Tests of damaged and unsupported data sets: a clear error for the one, the others stay usable."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_query import UnreadableVectorWarning, connect
from daf_query.cli import main
from daf_storage import MemoryDaf, ZarrDaf, errors, verify
from tests.storage.trees.test_foreign_arrays import put, put_strings
from tests.support import UMIS, reopen


def change_metadata(path: Path, **changes: Any) -> None:
    """Change keys of a ``.zarray``."""
    document = json.loads((path / ".zarray").read_text()) | changes
    (path / ".zarray").write_text(json.dumps(document))


AGE = "vectors/cell/age"
CORRUPT, UNSUPPORTED = errors.CorruptDataError, errors.UnsupportedDataError
DAMAGES: dict[str, tuple[Any, type[errors.DafError], str]] = {
    "truncated": (2, CORRUPT, "truncated: it has 2"),
    "too long": (8, CORRUPT, "too long: it has 8"),
    "empty": (0, CORRUPT, "truncated: it has 0"),
    "missing": (None, CORRUPT, "'0' is missing"),
    "not json": (b"{", CORRUPT, "not JSON"),
    "not utf-8": (b"\xff", CORRUPT, "is not JSON"),
    "a list": (b"[]", CORRUPT, "no JSON object"),
    "no shape": (b'{"zarr_format":2}', CORRUPT, "incomplete or malformed"),
    "negative shape": ({"shape": [-3]}, CORRUPT, "incomplete or malformed"),
    "other length": ({"shape": [2], "chunks": [2]}, CORRUPT, r"\[2\], but cell needs \[3\]"),
    "chunks": ({"chunks": [3, 3]}, CORRUPT, "differ in length"),
    "complex": ({"dtype": "<c16"}, UNSUPPORTED, "'<c16'"),
    "half": ({"dtype": "<f2"}, UNSUPPORTED, "Float32"),
    "nonsense": ({"dtype": "what"}, UNSUPPORTED, "'what'"),
    "structured": ({"dtype": [["a", "<i4"]]}, UNSUPPORTED, "has dtype"),
    "pickled": (
        {"dtype": "|O", "filters": [{"id": "pickle"}]},
        UNSUPPORTED,
        "pickled Python objects.*never read",
    ),
    "pickled numbers": ({"filters": [{"id": "pickle"}]}, UNSUPPORTED, "pickled Python objects"),
    "objects": ({"dtype": "|O", "filters": None}, UNSUPPORTED, "objects with filters none;"),
    "json objects": ({"dtype": "|O", "filters": [{"id": "json2"}]}, UNSUPPORTED, "filters 'json2'"),
    "codec": ({"compressor": {"id": "imaginary"}}, UNSUPPORTED, "codec that is not available"),
    "codec without id": ({"compressor": {"level": 5}}, CORRUPT, "codec without an id"),
    "damaged compression": ({"compressor": {"id": "zlib"}}, CORRUPT, "cannot be decompressed"),
    "version 3": ({"zarr_format": 3}, UNSUPPORTED, "format 3"),
}
"""A number of bytes for the chunk, or its metadata, or keys of these; the error, and what it says."""


def damage(vector: Path, change: Any) -> None:
    """Damage the vector of ages."""
    match change:
        case None:
            (vector / "0").unlink()
        case int():
            os.truncate(vector / "0", change)
        case bytes():
            (vector / ".zarray").write_bytes(change)
        case _:
            change_metadata(vector, **change)


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("change", "kind", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_names_the_array_and_spares_the_others(
    tiny_path: Path, change: Any, kind: type[errors.DafError], message: str
) -> None:
    """The error names the array and what is wrong, as verify and SQL do; others can be read."""
    damage(tiny_path / AGE, change)
    daf = ZarrDaf(tiny_path)
    with pytest.raises(kind, match=message) as caught:
        daf.get_np_vector("cell", "age")
    assert str(caught.value).startswith(f"{tiny_path}: vectors/cell/age")
    wrong = [finding.problem for finding in verify(tiny_path) if finding.path == AGE]
    assert re.search(message, wrong[0])
    assert daf.get_np_vector("cell", "type").tolist() == ["Bcell", "TCell", "TCell"]
    assert daf.get_np_matrix("cell", "gene", "UMIs").tolist() == UMIS.tolist()
    assert "age" in daf.vectors_set("cell")
    assert "type" in daf.description()
    session = connect(tiny_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreadableVectorWarning)
        session.table("cell")
    with pytest.raises(Exception, match=message):
        session.sql("SELECT sum(age) FROM cell").to_pylist()
    found = session.sql("SELECT count(*) AS n FROM cell WHERE type = 'TCell'").to_pydict()
    assert found == {"n": [2]}


def test_a_table_without_a_column_is_not_silent(
    tiny_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command prints the warning in one line; test_broken_properties.py has sessions."""
    change_metadata(tiny_path / AGE, dtype="<c16")
    assert main(["sql", str(tiny_path), "SELECT * FROM cell"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("daf: warning: the table 'cell' lacks the column 'age': ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("colptr", [1, 3, 6, 8, 9], "colptr does not rise from 1 to 10"),
        ("colptr", [0, 3, 6, 8, 10], "colptr does not rise"),
        ("colptr", [1, 6, 3, 8, 10], "colptr does not rise"),
        ("colptr", [1, 3, 6, 10], "colptr is not a list of 5 positions, but Int32 of shape"),
        ("colptr", [1.0, 3.0, 6.0, 8.0, 10.0], "colptr is not a list of"),
        ("colptr", [[1, 3, 6, 8, 10]], "colptr is not a list of"),
        ("rowval", [0, 3, 1, 2, 3, 1, 2, 1, 3], "rowval leaves the range 1 to 3"),
        ("rowval", [4, 3, 1, 2, 3, 1, 2, 1, 3], "rowval leaves the range 1 to 3"),
        ("rowval", [2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0], "rowval is not a list of"),
        ("rowval", [[2, 3, 1, 2, 3, 1, 2, 1, 3]], "rowval is not a list of|stored shape is"),
        ("nzval", [1, 2], r"stored shape is \[2\], but rowval needs \[9\]"),
        ("rowval", [-1, 3, 1, 2, 3, 1, 2, 1, 3], "rowval leaves the range 1 to 3"),
        ("rowval", None, "the array 'rowval' is missing"),
        ("nzind", None, "the array 'nzind' is missing"),
        ("nzind", [0, 2], "does not rise"),
        ("nzind", [4, 2], "does not rise"),
        ("nzind", [2, 5], "does not rise within 1 to 4"),
        ("nzind", [1.0, 2.0], "not a list of|stored shape is"),
        ("nzind", [[1, 2]], "not a list of|stored shape is"),
    ],
)
def test_sparse_properties_that_contradict_themselves(
    tiny_path: Path, name: str, values: list[Any] | None, message: str
) -> None:
    """Positions are whole numbers in a list that fit the axes and each other: never a wrong cell."""
    array = np.array(values or 0)
    path = "vectors/gene/flag" if name == "nzind" else "matrices/cell/gene/sparse"
    put(tiny_path, f"{path}/{name}", array.astype("<f4" if array.dtype.kind == "f" else "<i4"))
    if values is None:
        shutil.rmtree(tiny_path / path / name)
    daf = ZarrDaf(tiny_path)
    if name == "nzind":
        with pytest.raises(errors.CorruptDataError, match=message):
            daf.get_np_vector("gene", "flag")
        return
    shutil.rmtree(tiny_path / "matrices/gene/cell/sparse")
    for ask in (
        lambda: daf.get_np_matrix("cell", "gene", "sparse"),
        lambda: connect(daf).matrix("cell", "gene", "sparse", columns=[0, 3]).to_scipy(),
        lambda: reopen(tiny_path).relayout_matrix("cell", "gene", "sparse"),
    ):
        with pytest.raises(errors.CorruptDataError, match=message):
            ask()
    if array.dtype.kind == "f" or array.ndim == 2:
        with pytest.raises(errors.CorruptDataError):
            daf.matrix_info("cell", "gene", "sparse")
        assert "problems" in daf.description()


def test_duplicate_entries_of_a_stored_axis(tiny_path: Path) -> None:
    """Whoever asks for the names learns of the duplicate; other columns stay usable."""
    put_strings(tiny_path, "axes/cell", ["TATA", "GATA", "TATA"], chunks=3)
    daf = ZarrDaf(tiny_path)
    with pytest.raises(errors.CorruptDataError, match="entry 'TATA' occurs more than once"):
        daf.axis_entries("cell")
    assert connect(daf).sql("SELECT sum(age) AS s FROM cell").to_pydict() == {"s": [180]}


def test_an_axis_that_is_no_list_of_strings(tiny_path: Path) -> None:
    """Numbers are no entries."""
    put(tiny_path, "axes/cell", np.arange(3))
    with pytest.raises(errors.CorruptDataError, match="not stored as a list of strings"):
        ZarrDaf(tiny_path).axis_length("cell")


def test_damaged_strings(tiny_path: Path) -> None:
    """A truncated chunk of strings, and one with too few."""
    chunk = tiny_path / "vectors/cell/type/0"
    os.truncate(chunk, chunk.stat().st_size - 1)
    with pytest.raises(errors.CorruptDataError, match="vectors/cell/type: the chunk of 3 strings"):
        ZarrDaf(tiny_path).get_np_vector("cell", "type")
    chunk.write_bytes(b"\x01\0\0\0\x01\0\0\0a")
    with pytest.raises(errors.CorruptDataError, match="claims to hold 1 strings instead of 3"):
        ZarrDaf(tiny_path).get_np_vector("cell", "type")


def test_a_scalar_with_several_elements(tiny_path: Path) -> None:
    """It is an error, not the first of them."""
    put(tiny_path, "scalars/n", np.arange(3))
    daf = ZarrDaf(tiny_path)
    with pytest.raises(errors.CorruptDataError, match="scalar 'n' has 3 elements"):
        daf.get_scalar("n")
    assert "scalar 'n'" in daf.description()


def test_the_summary_shortens_long_scalars() -> None:
    """To as many characters as are shown of one that just fits."""
    daf = MemoryDaf()
    for size in (59, 60, 61):
        daf.set_scalar(f"s{size}", "x" * size)
    shown = [line.split()[-1] for line in daf.description().splitlines() if "xxx" in line]
    assert shown == ["x" * 59, "x" * 60, "x" * 59 + "…"]
