"""Tests of the slice of one entry by its name, asked again and again of a matrix that changes."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_storage import DafWriter, errors, open_daf

CELLS: Final = [f"c{n}" for n in range(40)]
GENES: Final = [f"g{n}" for n in range(30)]
STABLE_SECONDS: Final = 0.12
KINDS: Final = ("f4", "i2", "?")


def values(kind: str, seed: int = 0) -> Any:
    """Return a sparse matrix with an empty row, an empty column and one that is full."""
    dense = sp.random(40, 30, 0.3, random_state=seed).toarray() * 9
    dense[3], dense[:, 4] = 0, 0
    dense[:, 5] = 2
    return sp.csc_array(np.ceil(dense).astype(kind))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a data set with matrices in both layouts."""
    path = tmp_path / "x.daf.zarr"
    with open_daf(path, "w") as daf:
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", CELLS)
        daf.add_axis("gene", GENES)
        for kind in KINDS:
            daf.set_matrix("cell", "gene", kind, values(kind))
    time.sleep(STABLE_SECONDS)
    return path


@pytest.fixture
def db(path: Path) -> DafSession:
    """Return a session that has answered before."""
    session = connect(path)
    for kind in KINDS:
        for _ in range(4):
            session.matrix("cell", "gene", kind, columns=["g1"]).to_numpy()
            session.matrix("cell", "gene", kind, rows=["c1"]).to_numpy()
    return session


def gene(session: DafSession, name: str = "g7", kind: str = "f4") -> Any:
    """Return a gene of all cells."""
    return session.matrix("cell", "gene", kind, columns=[name]).to_numpy()[:, 0]


def test_a_replaced_matrix_is_noticed(path: Path, db: DafSession) -> None:
    """The next slice has the new values, and the one after it, too."""
    gene(db)
    with open_daf(path, "r+") as daf:
        assert isinstance(daf, DafWriter)
        daf.set_matrix("cell", "gene", "f4", values("f4", 5), if_exists="replace")
    for _ in range(5):
        assert gene(db).tolist() == values("f4", 5).toarray()[:, 7].tolist()
        time.sleep(STABLE_SECONDS)


def test_a_file_rewritten_in_place_is_noticed(path: Path, db: DafSession) -> None:
    """Of the same size, with its time put back."""
    before = gene(db)
    file = path / "matrices/cell/gene/f4/nzval/0"
    status = file.stat()
    with file.open("r+b") as opened:
        opened.write((np.frombuffer(file.read_bytes(), "f4") + 1).tobytes())
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert gene(db).tolist() == np.where(before > 0, before + 1, 0).tolist()


@pytest.mark.parametrize("part", ["rowval", "nzval", "colptr"])
def test_a_truncated_file_is_noticed(path: Path, db: DafSession, part: str) -> None:
    """It does not end the process; the other layout, if there is none, an error, is what is left."""
    shutil.rmtree(path / "matrices/gene/cell/f4")
    made = db.matrix("cell", "gene", "f4", columns=["g7"])
    os.truncate(path / f"matrices/cell/gene/f4/{part}/0", 4)
    if part != "colptr":  # which is in memory
        with pytest.raises(errors.CorruptDataError):
            made.to_numpy()
    with pytest.raises(errors.CorruptDataError):
        gene(db)


def test_another_axis_is_noticed(path: Path, db: DafSession) -> None:
    """Names are looked for among those that the axis has by now."""
    before = gene(db)
    with open_daf(path, "r+") as daf:
        assert isinstance(daf, DafWriter)
        daf.reorder_axis("gene", np.arange(30)[::-1])
    for _ in range(4):
        assert gene(db).tolist() == before.tolist()
        time.sleep(STABLE_SECONDS)


def test_a_closed_session_says_so(db: DafSession) -> None:
    """And nothing is read."""
    db.close()
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        gene(db)


def test_a_damaged_line_is_read_from_the_other_layout(path: Path, db: DafSession) -> None:
    """With a warning, as of any slice."""
    before = gene(db)
    file = path / "matrices/cell/gene/f4/rowval/0"
    file.write_bytes(b"\xff" * file.stat().st_size)
    with pytest.warns(errors.DafWarning, match="the other layout"):
        assert gene(db).tolist() == before.tolist()


def test_a_row_number_that_leaves_the_axis(path: Path) -> None:
    """Is found, also in the middle of numbers that do not ascend."""
    shutil.rmtree(path / "matrices/gene/cell/f4")
    file = path / "matrices/cell/gene/f4/rowval/0"
    stored = values("f4")
    dtype = json.loads(file.with_name(".zarray").read_text())["dtype"]
    changed = np.frombuffer(file.read_bytes(), dtype).copy()
    first, last = stored.indptr[7:9]
    changed[(first + last) // 2] = np.iinfo(changed.dtype).max
    file.write_bytes(changed.tobytes())
    time.sleep(STABLE_SECONDS)
    session = connect(path)
    for _ in range(6):
        with pytest.raises(errors.CorruptDataError):
            gene(session)
