"""Tests of reading the parts of a slice: memory, threads, progress, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import DafSession, DamagedLayoutWarning, MatrixSlice
from daf_storage import MemoryDaf, errors, open_daf
from tests.query.collection.cases import RUNS, daf_of, expected_of, same, session_with

CELLS, GENES = 1_500, 400


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session of three data sets of 150,000 stored elements each, and a dense one."""
    rng = np.random.default_rng(3)
    dafs = {}
    for number, name in enumerate(("a", "b", "c")):
        daf = MemoryDaf()
        daf.add_axis("cell", [f"{name}{i}" for i in range(CELLS)])
        daf.add_axis("gene", [f"g{i + 20 * number}" for i in range(GENES)])
        daf.set_vector("cell", "draw", rng.random(CELLS))
        matrix = sp.random_array((CELLS, GENES), density=0.25, rng=rng, dtype=np.float64)
        daf.set_matrix("cell", "gene", "X", sp.csc_array(matrix))
        daf.set_matrix("cell", "gene", "D", matrix.toarray())
        dafs[name] = daf
    return session_with(dafs)


def test_a_damaged_layout_of_a_member(tmp_path: Path) -> None:
    """Is read from the other one, with a warning; if both are, the error names the file."""
    dafs = {}
    for name in ("monday", "tuesday"):
        with open_daf(tmp_path / f"{name}.daf.zarr", "w") as daf:
            source = daf_of(name, RUNS[name])
            for axis in ("cell", "gene"):
                daf.add_axis(axis, source.axis_entries(axis))
            daf.set_matrix("cell", "gene", "X", source.get_np_matrix("cell", "gene", "X"))
            daf.relayout_matrix("cell", "gene", "X", if_exists="replace")
    matrices = tmp_path / "tuesday.daf.zarr" / "matrices"
    for folder, problem in (("gene/cell", DamagedLayoutWarning), ("cell/gene", None)):
        [values] = [path for path in (matrices / folder).rglob("0") if path.parent.name == "rowval"]
        values.write_bytes(b"\xff" * values.stat().st_size)
        dafs = {n: open_daf(tmp_path / f"{n}.daf.zarr") for n in ("monday", "tuesday")}
        part = session_with(dafs).matrix("cell", "gene", "X", join="outer")
        assert isinstance(part, MatrixSlice)
        if problem is not None:
            with pytest.warns(problem, match="tuesday"):
                part.values()
            runs = {name: RUNS[name] for name in ("monday", "tuesday")}
            same(part, expected_of(runs, "outer", 0))
        else:
            with pytest.raises(errors.CorruptDataError, match="tuesday"):
                part.values()
