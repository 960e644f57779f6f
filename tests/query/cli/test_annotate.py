"""Tests of the command that stores columns of a file, and of reading what is on top."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daf_query.cli import main
from daf_storage import open_daf
from tests.support import contents, create, fill


@pytest.fixture
def atlas(tmp_path: Path) -> str:
    """Return a data set, and labels of its cells beside it."""
    with fill(create(tmp_path / "atlas.daf.zarr")):
        pass
    (tmp_path / "labels.csv").write_text("barcode,label,ok\nTATA,b,true\nCATA,t,false\nX,t,true\n")
    return str(tmp_path / "atlas.daf.zarr")


def test_labels_on_top(atlas: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are stored in the overlay, with what no entry has; both are asked together."""
    notes = str(tmp_path / "notes.daf.zarr")
    command = ["annotate", atlas, notes, "--axis", "cell", "--csv", str(tmp_path / "labels.csv")]
    command += ["--key", "barcode"]
    with open_daf(atlas) as daf:
        before = contents(daf)
    assert main(command) == 1
    assert "a Bool cannot be missing; say with --fill which" in capsys.readouterr().err
    assert main([*command, "--strict", "--columns", "label"]) == 1
    assert "1 key is no entry of cell: 'X'; nothing was stored" in capsys.readouterr().err
    assert main([*command, "--fill", "ok=false", "--columns", "kind=label,ok"]) == 0
    assert capsys.readouterr().out == (
        f"stored in {notes}: kind (String), ok (Bool): 2 of 3 entries of cell have a row; "
        "1 key is no entry of cell: 'X'\n"
    )
    with open_daf(atlas) as daf:
        assert contents(daf) == before
    query = "SELECT name, kind, ok FROM cell WHERE age > 30"
    assert main(["sql", atlas, "--overlay", notes, query, "--format", "csv"]) == 0
    assert capsys.readouterr().out == '"name","kind","ok"\n"GATA",,false\n"CATA","t",false\n'
    assert main(["info", atlas, "--overlay", notes]) == 0
    assert "kind" in capsys.readouterr().out
    output = str(tmp_path / "x.csv")
    slice_of = ["--matrix", "UMIs", "--rows", "kind = 't'", "--rows-axis", "cell"]
    assert main(["extract", atlas, "--overlay", notes, *slice_of, "-o", output]) == 0
    assert capsys.readouterr().out.startswith("wrote 1 cell x 4 gene")
    groups = ["--matrix", "UMIs", "--by", "kind", "--rows-axis", "cell", "--format", "csv"]
    assert main(["profile", atlas, "--overlay", notes, *groups]) == 0
    assert '"t","RSPO3",1' in capsys.readouterr().out


def test_into_the_data_set_itself(
    atlas: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an overlay; what is there stays without --overwrite; and as JSON."""
    table = str(tmp_path / "labels.csv")
    command = ["annotate", atlas, "--axis", "cell", "--csv", table, "--key", "barcode"]
    command += ["--columns", "type=label"]
    assert main(command) == 1
    assert "pass --overwrite to replace it" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "path": atlas,
        "axis": "cell",
        "vectors": {"type": "String"},
        "entries": 3,
        "matched": 2,
        "unmatched_keys": 1,
        "examples": ["X"],
    }
    with open_daf(atlas) as daf:
        assert daf.get_np_vector("cell", "type").tolist() == ["b", "", "t"]
    assert main([*command, "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    for wrong, message in (
        (["--columns", "a=label,a=ok"], "--columns: a is given twice"),
        (["--fill", "ok"], "--fill ok: write NAME=VALUE"),
        (["--csv", "labels.xlsx"], "--csv labels.xlsx: a table is a .csv"),
        (["--key", "nope"], "no column 'nope'"),
    ):
        assert main([*command, *wrong]) == 1
        assert message in capsys.readouterr().err
