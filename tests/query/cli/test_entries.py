"""Tests of what ``--rows`` and ``--columns`` mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from daf_query.cli import main
from daf_query.cli._selection import entries_or_sql
from daf_storage import DafReader, MemoryDaf, errors
from tests.support import create

NAMES = ["MS4A1", "CD8A", "a,b", "marker", "HLA-DRA", "5'-x"]


@pytest.fixture
def daf() -> DafReader:
    """Return genes, one of which has the name of a vector."""
    genes = MemoryDaf()
    genes.add_axis("gene", NAMES)
    genes.set_vector("gene", "marker", [True, False, True, False, True, False])
    return genes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("MS4A1,CD8A", ["MS4A1", "CD8A"]),
        (" MS4A1 , HLA-DRA,", ["MS4A1", "HLA-DRA"]),
        ("'a,b',CD8A", ["a,b", "CD8A"]),
        ("5'-x,CD8A", ["5'-x", "CD8A"]),
        ("CD8A,CD8A", ["CD8A", "CD8A"]),
        ("gone,CD8A", ["gone", "CD8A"]),
        ("MS4A1", ["MS4A1"]),
        ("HLA-DRA", ["HLA-DRA"]),
        ("marker", "marker"),
        ("name = 'a,b'", "name = 'a,b'"),
        ("name IN ('a', 'b')", "name IN ('a', 'b')"),
        ("marker ORDER BY name, index", "marker ORDER BY name, index"),
        ("SELECT name, index FROM gene", "SELECT name, index FROM gene"),
        ("true", "true"),
        ("gone", "gone"),
    ],
)
def test_names_and_sql_are_told_apart(
    daf: DafReader, given: str | None, expected: str | list[str] | None
) -> None:
    """A comma outside of brackets and quotes makes names; a vector comes before an entry."""
    assert entries_or_sql([daf], "gene", given) == expected


def test_files(daf: DafReader, tmp_path: Path) -> None:
    """A name a line, as it is; a file without any is an error that names it."""
    path = tmp_path / "genes.txt"
    path.write_text("a,b\r\n\nmarker\n")
    assert entries_or_sql([daf], "gene", f"@{path}") == ["a,b", "marker"]
    path.write_text("\n")
    with pytest.raises(errors.InvalidInputError, match=r"genes\.txt: there is no name"):
        entries_or_sql([daf], "gene", f"@{path}")
    with pytest.raises(errors.SourceNotFoundError, match=r"gone\.txt"):
        entries_or_sql([daf], "gene", "@gone.txt")


def test_extract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names on the command line choose rows and columns in their order."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("cell", ["A", "B"])
    daf.add_axis("gene", NAMES)
    daf.set_matrix("cell", "gene", "X", [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]])
    out = tmp_path / "o.csv"
    arguments = [
        "extract",
        str(tmp_path / "x.daf.zarr"),
        "--matrix",
        "X",
        "-o",
        str(out),
        "--rows-axis",
        "cell",
    ]
    assert main([*arguments, "--rows", "B", "--columns", "CD8A,MS4A1"]) == 0
    assert out.read_text().splitlines()[1:] == ["B,8,7"] or out.read_text().splitlines()[1:] == [
        '"B",8,7'
    ]
    assert main([*arguments, "--columns", "CD8A,gone"]) == 1
    assert "axis 'gene' has no entry 'gone'" in capsys.readouterr().err


def test_an_empty_name_is_no_entry(daf: DafReader) -> None:
    """It is not an error either: SQL says what is wrong with it."""
    assert entries_or_sql([daf], "gene", "") == ""
