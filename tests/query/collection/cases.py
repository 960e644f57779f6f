"""Small data sets that differ in their genes, and what pandas makes of them as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp

from daf_query import DafSession, MatrixSlice, connect
from daf_query.sql import Collection
from daf_storage import DafReader, DafWriter
from tests.support import data_set

GENES = [f"g{i}" for i in range(7)]


@dataclass(frozen=True)
class Run:
    """What a data set is made of."""

    cells: list[str]
    genes: list[str]
    dtype: str = "float32"
    is_sparse: bool = True
    by_columns: bool = False
    """Whether the matrix is stored by its columns alone."""


RUNS: Mapping[str, Run] = {
    "monday": Run(["a", "b", "c", "d"], GENES[:5]),
    "tuesday": Run(["e", "a", "f"], [GENES[6], *GENES[4:0:-1]], "int16"),
    "empty": Run([], GENES[1:6], "uint8"),
    "friday": Run(["g", "h"], [GENES[2], GENES[4], GENES[5], GENES[1]], "int32", by_columns=True),
}
"""All have g1, g2 and g4; a is the name of two cells."""


def frame_of(name: str, run: Run) -> pd.DataFrame:
    """Return the matrix of a data set; no two data sets have the same numbers."""
    rng = np.random.default_rng(sorted(RUNS).index(name) if name in RUNS else 99)
    values = rng.poisson(2, (len(run.cells), len(run.genes))).astype(run.dtype)
    return pd.DataFrame(values, index=run.cells, columns=run.genes)


def daf_of(name: str, run: Run) -> DafWriter:
    """Return a data set in memory."""
    daf = data_set(name=name, cell=run.cells, gene=run.genes)
    count = len(run.cells)
    daf.set_vector("cell", "age", np.arange(count) * 10 + len(name))
    daf.set_vector("cell", "donor", pa.array([f"N{i % 2}" for i in range(count)], pa.string()))
    daf.set_vector("gene", "is_odd", [int(gene[1:]) % 2 == 1 for gene in run.genes])
    daf.set_vector("gene", "rank", [int(gene[1:]) for gene in run.genes])
    values = frame_of(name, run).to_numpy()
    matrix = sp.csc_array(values) if run.is_sparse else values
    daf.set_matrix("cell", "gene", "X", matrix, relayout=not run.by_columns)
    return daf


def session_of(runs: Mapping[str, Run] = RUNS) -> DafSession:
    """Return a session of a collection."""
    return session_with({name: daf_of(name, run) for name, run in runs.items()})


def session_with(dafs: Mapping[str, DafReader]) -> DafSession:
    """Return a session of a collection."""
    return connect({"runs": Collection("runs", dafs)})


def names_of(runs: Mapping[str, Run], join: str) -> list[str]:
    """Return the genes of all, in the order in which they come."""
    listed = list(dict.fromkeys(gene for run in runs.values() for gene in run.genes))
    if join == "outer":
        return listed
    return [gene for gene in listed if all(gene in run.genes for run in runs.values())]


def expected_of(runs: Mapping[str, Run], join: str, fill: Any) -> pd.DataFrame:
    """Return the values of all by pandas, with two levels of labels."""
    genes = names_of(runs, join)
    frames = {
        name: frame_of(name, run).astype(object).reindex(columns=genes, fill_value=fill)
        for name, run in runs.items()
    }
    return pd.concat(frames)


def table(part: Any) -> pd.DataFrame:
    """Return a slice as a DataFrame with two levels of labels of its rows."""
    assert isinstance(part, MatrixSlice)
    index = pd.MultiIndex.from_arrays([part.datasets, part.rows])
    return pd.DataFrame(part.to_numpy(), index=index, columns=part.columns)


def same(part: Any, expected: pd.DataFrame) -> None:
    """Compare values and labels."""
    got = table(part)
    assert list(got.columns) == list(expected.columns)
    assert list(got.index) == list(expected.index)
    np.testing.assert_array_equal(
        got.to_numpy().astype(float), expected.to_numpy().astype(float).reshape(got.shape)
    )
