"""Tests of the picture of a data set in the language of Mermaid."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from daf_storage import open_daf
from tests.support import data_set

ODD = [
    'a "b" c', "direction TB", "Direction lr", "naïve 名前", "x~y~z", "50%", "back\\slash", "`tick`",
    "#35;", "style:#a;", "<b>bold&", "%%{init}%%", "accTitle : x", "PK", "fk", "2nd", " lead",
    "line\nbreak", "end", "🙂", "a{b}", "}o--||", "-", "_", "tab\tbed", "]", '"', "''",
]  # fmt: skip

# What Mermaid's grammar has for each kind of line, as strict as any of its versions.
_QUOTED = r'"[^"%\r\n\v\\`~{}<>]+"'
_LINES = [
    rf"    a\d+\[{_QUOTED}\](?: \{{)?",
    rf"        [A-Z][A-Za-z0-9]+ [A-Za-z_][A-Za-z0-9_-]*(?: FK)?(?: {_QUOTED})?",
    r"    \}",
    rf"    a\d+ (?:\}}o--o\||\}}o\.\.o\{{) a\d+ : {_QUOTED}",
]


def test_the_whole_picture() -> None:
    """Axes with lengths, vectors, relations and matrices of both kinds."""
    daf = data_set(type=["B", "T"], gene=3, cell=1200)
    daf.set_vector("cell", "age", np.zeros(1200, np.uint8))
    daf.set_vector("cell", "type", ["B"] * 1200)
    daf.set_vector("cell", "type.manual", ["T"] * 1200)
    daf.set_vector("type", "color", ["red", "blue"])
    daf.set_matrix("cell", "gene", "UMIs", sp.csc_array(np.ones((1200, 3), np.uint16)))
    daf.set_matrix("cell", "cell", "near by", sp.csc_array((1200, 1200), dtype=np.float32))
    daf.set_matrix("type", "gene", "mean", np.ones((2, 3)), relayout=False)
    daf.set_scalar("obs_is", "cell")
    daf.set_scalar("var_is", "gene")
    assert daf.diagram() == (
        """\
erDiagram
    a0["cell (1,200)"] {
        UInt8 age
        String type FK
        String type_manual FK "type.manual"
    }
    a1["gene (3)"]
    a2["type (2)"] {
        String color
    }
    a0 }o--o| a2 : "type"
    a0 }o--o| a2 : "type.manual"
    a0 }o..o{ a0 : "near by (sparse Float32)"
    a0 }o..o{ a1 : "UMIs (sparse UInt16)"
    a2 }o..o{ a1 : "mean (dense Float64)\""""
    )


def test_odd_names() -> None:
    """Every line is one that the grammar has, and names are still there."""
    daf = data_set(cell=["A", "B"])
    for name in ODD:
        daf.add_axis(name, ["1", "2", "3"])
        daf.set_vector("cell", name, ["1", "2"])
        daf.set_vector("cell", f"{name}.x", ["1", "2"])
        daf.set_matrix("cell", name, name, [[0, 1, 2], [1, 2, 3]])
    header, *lines = daf.diagram().split("\n")
    assert header == "erDiagram"
    for line in lines:
        assert any(re.fullmatch(pattern, line) for pattern in _LINES), line
        assert not re.search(r"direction\s+(TB|BT|LR|RL)", line, re.IGNORECASE), line
        assert not re.search(r"\b(PK|UK)\b(?!.*\")", line, re.IGNORECASE), line
    titles = [match[1] for line in lines if (match := re.search(r'\["(.*) \(\d\)"\]', line))]
    assert sorted(map(_decoded, titles)) == sorted(["cell", *ODD])


def _decoded(text: str) -> str:
    return re.sub(r"#(\d+);", lambda match: chr(int(match[1])), text)


def test_the_picture_of_pbmc(pbmc_path: Path) -> None:
    """Both categoricals with colours are edges, and so is each matrix; the docs show it."""
    with open_daf(pbmc_path) as daf:
        diagram = daf.diagram()
    page = Path(__file__).parents[3] / "docs/how-to/relations.md"
    assert f"```mermaid\n{diagram}\n```\n" in page.read_text()
