"""Tests of damaged and unsupported data sets: a clear error for the one, the others stay usable."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_query import UnreadableVectorWarning, connect
from daf_query.cli import main
from daf_storage import DafReader, MemoryDaf, ZarrDaf, errors, verify
from tests.storage.trees.test_foreign_arrays import put
from tests.support import UMIS, reopen


def change_metadata(path: Path, **changes: Any) -> None:
    """Change keys of a ``.zarray``."""
    document = json.loads((path / ".zarray").read_text()) | changes
    (path / ".zarray").write_text(json.dumps(document))


def cut(path: Path, by: int) -> None:
    """Make a file shorter or longer."""
    os.truncate(path, path.stat().st_size - by)


AGE = "vectors/cell/age"
DAMAGES: dict[str, tuple[Callable[[Path], Any], type[errors.DafError], str]] = {
    "truncated": (lambda p: cut(p / AGE / "0", 1), errors.CorruptDataError, "truncated: it has 2"),
    "too long": (lambda p: cut(p / AGE / "0", -5), errors.CorruptDataError, "too long: it has 8"),
    "empty": (lambda p: cut(p / AGE / "0", 3), errors.CorruptDataError, "truncated: it has 0"),
    "missing": (lambda p: (p / AGE / "0").unlink(), errors.CorruptDataError, "'0' is missing"),
    "not json": (
        lambda p: (p / AGE / ".zarray").write_text("{"),
        errors.CorruptDataError,
        "not JSON",
    ),
    "not utf-8": (
        lambda p: (p / AGE / ".zarray").write_bytes(b"\xff"),
        errors.CorruptDataError,
        "is not JSON",
    ),
    "a list": (
        lambda p: (p / AGE / ".zarray").write_text("[]"),
        errors.CorruptDataError,
        "no JSON object",
    ),
    "no shape": (
        lambda p: (p / AGE / ".zarray").write_text('{"zarr_format":2}'),
        errors.CorruptDataError,
        "incomplete or malformed",
    ),
    "negative shape": (
        lambda p: change_metadata(p / AGE, shape=[-3]),
        errors.CorruptDataError,
        "incomplete or malformed",
    ),
    "other length": (
        lambda p: change_metadata(p / AGE, shape=[2], chunks=[2]),
        errors.CorruptDataError,
        r"stored shape is \[2\], but cell needs \[3\]",
    ),
    "chunks": (
        lambda p: change_metadata(p / AGE, chunks=[3, 3]),
        errors.CorruptDataError,
        "differ in length",
    ),
    "complex": (
        lambda p: change_metadata(p / AGE, dtype="<c16"),
        errors.UnsupportedDataError,
        "'<c16'",
    ),
    "half": (
        lambda p: change_metadata(p / AGE, dtype="<f2"),
        errors.UnsupportedDataError,
        "Float32",
    ),
    "nonsense": (
        lambda p: change_metadata(p / AGE, dtype="what"),
        errors.UnsupportedDataError,
        "'what'",
    ),
    "structured": (
        lambda p: change_metadata(p / AGE, dtype=[["a", "<i4"]]),
        errors.UnsupportedDataError,
        "has dtype",
    ),
    "pickled": (
        lambda p: change_metadata(p / AGE, dtype="|O", filters=[{"id": "pickle"}]),
        errors.UnsupportedDataError,
        "pickled Python objects.*never read",
    ),
    "pickled numbers": (
        lambda p: change_metadata(p / AGE, filters=[{"id": "pickle"}]),
        errors.UnsupportedDataError,
        "pickled Python objects",
    ),
    "objects": (
        lambda p: change_metadata(p / AGE, dtype="|O", filters=None),
        errors.UnsupportedDataError,
        "Python objects with filters none;",
    ),
    "json objects": (
        lambda p: change_metadata(p / AGE, dtype="|O", filters=[{"id": "json2"}]),
        errors.UnsupportedDataError,
        "filters 'json2'",
    ),
    "codec": (
        lambda p: change_metadata(p / AGE, compressor={"id": "imaginary"}),
        errors.UnsupportedDataError,
        "codec that is not available",
    ),
    "codec without id": (
        lambda p: change_metadata(p / AGE, compressor={"level": 5}),
        errors.CorruptDataError,
        "codec without an id",
    ),
    "damaged compression": (
        lambda p: change_metadata(p / AGE, compressor={"id": "zlib", "level": 1}),
        errors.CorruptDataError,
        "cannot be decompressed",
    ),
    "version 3": (
        lambda p: change_metadata(p / AGE, zarr_format=3),
        errors.UnsupportedDataError,
        "format 3",
    ),
}


@pytest.mark.sampled(14)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_names_the_array_and_spares_the_others(tiny_path: Path, damage: str) -> None:
    """The error names the array and what is wrong, as verify does; all others can be read."""
    make, kind, message = DAMAGES[damage]
    make(tiny_path)
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


@pytest.mark.sampled(15)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_sql(tiny_path: Path, damage: str) -> None:
    """A query of the damaged vector fails with its reason; other queries work."""
    make, _, message = DAMAGES[damage]
    make(tiny_path)
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
    """A warning says which column is missing and why; the command prints it in one line."""
    change_metadata(tiny_path / AGE, dtype="<c16")
    with pytest.warns(UnreadableVectorWarning, match="lacks the column 'age': .*'<c16'"):
        rows = connect(tiny_path).sql("SELECT * FROM cell WHERE index = 0").to_pylist()
    assert rows == [{"name": "TATA", "index": 0, "type": "Bcell"}]
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
        ("rowval", [0, 3, 1, 2, 3, 1, 2, 1, 3], "rowval leaves the range 1 to 3"),
        ("rowval", [4, 3, 1, 2, 3, 1, 2, 1, 3], "rowval leaves the range 1 to 3"),
        ("nzval", [1, 2], r"stored shape is \[2\], but rowval needs \[9\]"),
    ],
)
def test_sparse_matrices_that_contradict_themselves(
    tiny_path: Path, name: str, values: list[int], message: str
) -> None:
    """Column pointers, row numbers and lengths are checked: never a wrong cell."""
    put(tiny_path, f"matrices/cell/gene/sparse/{name}", np.array(values, "<i4"))
    shutil.rmtree(tiny_path / "matrices/gene/cell/sparse")
    daf = ZarrDaf(tiny_path)
    with pytest.raises(errors.CorruptDataError, match=message):
        daf.get_np_matrix("cell", "gene", "sparse")
    with pytest.raises(errors.CorruptDataError, match=message):
        connect(daf).matrix("cell", "gene", "sparse", columns=[0, 3]).to_scipy()
    with pytest.raises(errors.CorruptDataError, match=message):
        reopen(tiny_path).relayout_matrix("cell", "gene", "sparse")


@pytest.mark.parametrize("name", ["rowval", "colptr"])
@pytest.mark.parametrize("change", [lambda a: a.astype("<f4"), lambda a: a.reshape(1, -1)])
def test_indices_that_are_no_list_of_integers(tiny_path: Path, name: str, change: Any) -> None:
    """Neither fractions nor several dimensions, even where their values would do."""
    part = f"matrices/cell/gene/sparse/{name}"
    stored = ZarrDaf(tiny_path).open_matrix("cell", "gene", "sparse")
    whole = np.array(stored.entries(name).read())
    put(tiny_path, part, change(whole))
    shutil.rmtree(tiny_path / "matrices/gene/cell/sparse")
    with pytest.raises(errors.CorruptDataError, match=f"{name} is not a list of|stored shape is"):
        ZarrDaf(tiny_path).get_np_matrix("cell", "gene", "sparse")
    with pytest.raises(errors.CorruptDataError):
        ZarrDaf(tiny_path).matrix_info("cell", "gene", "sparse")
    assert "problems" in ZarrDaf(tiny_path).description()


@pytest.mark.parametrize(
    ("positions", "message"),
    [([0, 2], "does not rise"), ([4, 2], "does not rise"), ([2, 5], "does not rise within 1 to 4")],
)
def test_sparse_vectors_that_contradict_themselves(
    tiny_path: Path, positions: list[int], message: str
) -> None:
    """Positions are checked against the axis."""
    put(tiny_path, "vectors/gene/flag/nzind", np.array(positions, "<i4"))
    with pytest.raises(errors.CorruptDataError, match=message):
        ZarrDaf(tiny_path).get_np_vector("gene", "flag")


@pytest.mark.parametrize("positions", [np.array([1.0, 2.0], "<f4"), np.array([[1, 2]], "<i4")])
def test_positions_that_are_no_list_of_integers(tiny_path: Path, positions: Any) -> None:
    """Neither fractions nor several dimensions are positions, even where their values would do."""
    put(tiny_path, "vectors/gene/flag/nzind", positions)
    with pytest.raises(errors.CorruptDataError, match="not a list of|stored shape is"):
        ZarrDaf(tiny_path).get_np_vector("gene", "flag")


def test_missing_parts_of_sparse_arrays(tiny_path: Path) -> None:
    """A group that lacks a part says which."""
    shutil.rmtree(tiny_path / "matrices/cell/gene/sparse/rowval")
    shutil.rmtree(tiny_path / "vectors/gene/flag/nzind")
    daf = ZarrDaf(tiny_path)
    with pytest.raises(errors.CorruptDataError, match="the array 'rowval' is missing"):
        daf.get_np_matrix("cell", "gene", "sparse")
    with pytest.raises(errors.CorruptDataError, match="the array 'nzind' is missing"):
        daf.get_np_vector("gene", "flag")


def rewrite_axis(path: Path, entries: list[str]) -> None:
    """Store axis entries that a writer would refuse."""
    from tests.storage.trees.test_foreign_arrays import put_strings

    put_strings(path, "axes/cell", entries, chunks=len(entries))


def test_duplicate_entries_of_a_stored_axis(tiny_path: Path) -> None:
    """Whoever asks for the names learns of the duplicate; other columns stay usable."""
    rewrite_axis(tiny_path, ["TATA", "GATA", "TATA"])
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
    cut(tiny_path / "vectors/cell/type/0", 1)
    with pytest.raises(errors.CorruptDataError, match="vectors/cell/type: the chunk of 3 strings"):
        ZarrDaf(tiny_path).get_np_vector("cell", "type")
    (tiny_path / "vectors/cell/type/0").write_bytes(b"\x01\0\0\0\x01\0\0\0a")
    with pytest.raises(errors.CorruptDataError, match="claims to hold 1 strings instead of 3"):
        ZarrDaf(tiny_path).get_np_vector("cell", "type")


def test_a_scalar_with_several_elements(tiny_path: Path) -> None:
    """It is an error, not the first of them."""
    put(tiny_path, "scalars/n", np.arange(3))
    daf = ZarrDaf(tiny_path)
    with pytest.raises(errors.CorruptDataError, match="scalar 'n' has 3 elements"):
        daf.get_scalar("n")
    assert "scalar 'n'" in daf.description()


def test_the_summary_lists_problems(tiny_path: Path) -> None:
    """What cannot be used is listed with its reason, in text, HTML and JSON."""
    change_metadata(tiny_path / AGE, dtype="<c16")
    daf: DafReader = ZarrDaf(tiny_path)
    assert "problems" in daf.description()
    assert "vector &#x27;age&#x27;" in daf._repr_html_()
    assert daf.summary().as_dict()["problems"][0]["what"] == "vector 'age' of axis 'cell'"


def test_the_summary_shortens_long_scalars() -> None:
    """To as many characters as are shown of one that just fits."""
    daf = MemoryDaf()
    for size in (59, 60, 61):
        daf.set_scalar(f"s{size}", "x" * size)
    shown = [line.split()[-1] for line in daf.description().splitlines() if "xxx" in line]
    assert shown == ["x" * 59, "x" * 60, "x" * 59 + "…"]
