"""Tests of what ``--rows`` and ``--columns`` mean."""

from __future__ import annotations

from pathlib import Path

import anndata
import pytest

from daf_query.cli import main
from tests.support import create

NAMES = ["MS4A1", "CD8A", "a,b", "marker", "HLA-DRA", "5'-x"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return genes, one of which has the name of a vector."""
    daf = create(tmp_path / "genes.daf.zarr")
    daf.add_axis("cell", ["A"])
    daf.add_axis("gene", NAMES)
    daf.set_vector("gene", "marker", [True, False, True, False, True, False])
    daf.set_matrix("cell", "gene", "X", [[1, 2, 3, 4, 5, 6]])
    return str(tmp_path / "genes.daf.zarr")


def chosen(path: str, given: str, capsys: pytest.CaptureFixture[str]) -> list[str] | str:
    """Return the genes of a slice, or what is wrong with it."""
    out = Path(path).with_name("out.h5ad")
    command = ["extract", path, "--matrix", "X", "--columns", given, "--quiet"]
    code = main([*command, "--rows-axis", "cell", "-o", str(out)])
    if code != 0:
        return capsys.readouterr().err
    return list(anndata.read_h5ad(out).var_names)


MARKERS = ["MS4A1", "a,b", "HLA-DRA"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("MS4A1,CD8A", ["MS4A1", "CD8A"]),
        (" MS4A1 , HLA-DRA,", ["MS4A1", "HLA-DRA"]),
        ("'a,b',CD8A", ["a,b", "CD8A"]),
        ("5'-x,CD8A", ["5'-x", "CD8A"]),
        ("MS4A1", ["MS4A1"]),
        ("HLA-DRA", ["HLA-DRA"]),
        ("marker", MARKERS),
        ("name = 'a,b'", ["a,b"]),
        ("name IN ('a', 'LYZ', 'CD8A')", ["CD8A"]),
        ("marker ORDER BY name DESC, index", ["a,b", "MS4A1", "HLA-DRA"]),
        ("SELECT name, index FROM gene WHERE marker", MARKERS),
        ("true", NAMES),
    ],
)
def test_names_and_sql_are_told_apart(
    path: str, given: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A comma outside of brackets and quotes makes names; a vector comes before an entry."""
    assert chosen(path, given, capsys) == expected


def test_files(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name a line, as it is; a file without any is an error that names it."""
    names = tmp_path / "genes.txt"
    names.write_text("a,b\r\n\nmarker\n")
    assert chosen(path, f"@{names}", capsys) == ["a,b", "marker"]
    names.write_text("\n")
    assert "genes.txt: there is no name" in chosen(path, f"@{names}", capsys)
    assert "gone.txt" in chosen(path, "@gone.txt", capsys)
    assert "no entry 'gone'" in chosen(path, "gone,CD8A", capsys)


def test_extract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names on the command line choose rows and columns in their order."""
    daf = create(tmp_path / "x.daf.zarr")
    daf.add_axis("cell", ["A", "B"])
    daf.add_axis("gene", NAMES)
    daf.set_matrix("cell", "gene", "X", [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]])
    out = tmp_path / "o.csv"
    path = str(tmp_path / "x.daf.zarr")
    arguments = ["extract", path, "--matrix", "X", "-o", str(out), "--rows-axis", "cell"]
    assert main([*arguments, "--rows", "B", "--columns", "CD8A,MS4A1"]) == 0
    assert out.read_text().splitlines()[1:] == ['"B",8,7']
    assert main([*arguments, "--columns", "CD8A,gone"]) == 1
    assert "axis 'gene' has no entry 'gone'" in capsys.readouterr().err
