"""Tests of the command that stores columns of a file, and of reading what is on top."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daf_query import connect
from daf_query.cli import main
from daf_storage import open_daf
from daf_storage.errors import AxisNotFoundError
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


def test_an_overlay_alone(atlas: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What its base has is not there; the error says how to open both."""
    notes = str(tmp_path / "notes.daf.zarr")
    labels = ["--csv", str(tmp_path / "labels.csv"), "--key", "barcode", "--columns", "label"]
    assert main(["annotate", atlas, notes, "--axis", "cell", *labels, "--quiet"]) == 0
    hint = f"it is on top of {atlas}, which was not opened with it: pass {atlas} --overlay {notes}"
    for command in (
        ["sql", notes, "SELECT label, age FROM cell"],
        ["sql", notes, "SELECT name FROM gene"],
        ["extract", notes, "--matrix", "UMIs", "-o", str(tmp_path / "x.csv")],
    ):
        assert main(command) == 1
        assert hint in capsys.readouterr().err
    with connect(notes) as session, pytest.raises(AxisNotFoundError, match="on top of"):
        session.matrix("cell", "gene", "UMIs")
    assert main(["sql", atlas, "--overlay", notes, "SELECT agee FROM cell"]) == 1
    assert "on top of" not in capsys.readouterr().err
    assert main(["sql", atlas, "SELECT label FROM cell"]) == 1
    assert "on top of" not in capsys.readouterr().err


def test_commands_that_read_both(
    atlas: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Diagnose and export have the labels, too."""
    notes, output = str(tmp_path / "notes.daf.zarr"), str(tmp_path / "both.h5ad")
    labels = ["--csv", str(tmp_path / "labels.csv"), "--key", "barcode", "--columns", "label"]
    assert main(["annotate", atlas, notes, "--axis", "cell", *labels, "--quiet"]) == 0
    assert main(["diagnose", atlas, "cell", "label = 'B'", "--overlay", notes]) == 0
    assert "'B' does not occur in label; nearest: 'b' (1 row)" in capsys.readouterr().out
    axes = ["--obs-is", "cell", "--var-is", "gene", "--X-is", "UMIs", "--quiet"]
    assert main(["export", atlas, output, "--overlay", notes, *axes]) == 0
    with open_daf(output) as daf:
        assert daf.get_pd_vector("obs" if daf.has_axis("obs") else "cell", "label")["TATA"] == "b"
