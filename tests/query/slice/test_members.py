"""Tests of slices of one data set, of three with equal genes, and of three with other genes.

The oracle is `anndata.concat` of the same files, and of one the file itself.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_query import DafSession, DuplicateNamesWarning, MatrixSlice, connect
from daf_storage import errors
from tests.support import dense

N_CELLS = 6
GENES = [f"g{i}" for i in range(8)]
KINDS = {
    "one": {"a": GENES},
    "equal genes": {"a": GENES, "b": GENES, "c": GENES},
    "other genes": {"a": GENES[:6], "b": GENES[2:][::-1], "c": [*GENES[1:5], "h"]},
}


@dataclass
class Case:
    """Files, a session over them, and what anndata makes of them."""

    db: DafSession
    oracle: Any
    is_one: bool

    def matrix(self, choice: str = "all", **options: Any) -> MatrixSlice:
        """Return a slice of all of them, of some rows and columns."""
        options |= {"join": "outer", "fill_value": 0, **CHOICES[choice](self.oracle.n_obs)}
        return self.db.matrix("obs", "var", "X", **options)


CASES = [(kind, storage) for kind in KINDS for storage in ("sparse", "dense")]


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Return the files of a kind, sparse and dense."""
    kind, storage = request.param
    folder = tmp_path_factory.mktemp("members")
    rng = np.random.default_rng(4)
    adatas = {}
    for name, genes in KINDS[kind].items():
        values = rng.poisson(0.8, (N_CELLS, len(genes))).astype("float32")
        matrix = sp.csr_matrix(values) if storage == "sparse" else values
        obs = pd.DataFrame(
            {"age": np.arange(N_CELLS) * 10 + ord(name), "type": pd.Categorical(list("xyxyzx"))},
            index=[f"{name}{i}" for i in range(N_CELLS)],
        )
        var = pd.DataFrame({"rank": [ord(gene[-1]) for gene in genes]}, index=genes)
        adata = anndata.AnnData(matrix, obs, var)
        adata.layers["twice"] = matrix * 2
        adata.obsm["umap"] = rng.random((N_CELLS, 2))
        adata.write_h5ad(folder / f"{name}.h5ad")
        adatas[name] = adata
    is_one = len(adatas) == 1
    db = connect(folder / "a.h5ad" if is_one else sorted(folder.iterdir()))
    if is_one:
        return Case(db, adatas["a"], is_one)
    oracle = anndata.concat(adatas, join="outer", fill_value=0, label="dataset")
    return Case(db, oracle, is_one)


CHOICES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "all": lambda _: {},
    "positions": lambda n: {"rows": [n - 1, 0, 2], "columns": [3, 1]},
    "mask": lambda n: {"rows": np.arange(n) % 3 == 0},
    "predicate": lambda _: {"rows": "age > 120 AND type <> 'z'", "columns": ["g4", "g3"]},
    "order": lambda _: {"rows": "type = 'x' ORDER BY age % 7, age DESC"},
    "one entry": lambda _: {"columns": ["g4"]},
    "nothing": lambda _: {"rows": "age > 9999"},
}


PAIRS = [
    (case, choice)
    for place, case in enumerate(CASES)
    for other, choice in enumerate(CHOICES)
    if choice == "all" or (place + other) % 2
]
"""Each choice for every other case."""


def expected(case: Case, part: MatrixSlice) -> Any:
    """Return what anndata has of the entries of a slice, which follow from their names."""
    return case.oracle[list(part.rows), list(part.columns)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("case", "choice"), PAIRS, indirect=["case"])
def test_values_in_every_form(case: Case, choice: str) -> None:
    """Those of anndata, in memory as a whole and in blocks, and of another process."""
    part = case.matrix(choice)
    oracle = dense(expected(case, part).X)
    assert part.shape == oracle.shape
    frame, long, wide = part.to_pandas(), part.to_arrow(), part.to_polars()
    skipped = 1 if case.is_one else 2
    hows: list[dict[str, int]] = [{"rows": 4}, {"max_bytes": 200}]
    blocks = [[b.to_numpy() for b in case.matrix(choice).blocks(**how)] for how in hows]
    for found in (
        *(np.vstack([oracle[:0], *each]) for each in blocks),
        case.matrix(choice).to_numpy(),
        dense(part.values()),
        part.to_scipy().toarray(),
        frame.to_numpy(),
        wide.to_numpy()[:, skipped:],
        pickle.loads(pickle.dumps(part)).to_numpy(),
    ):
        np.testing.assert_array_equal(found, oracle)
    assert frame.index.get_level_values(-1).tolist() == part.rows.tolist()
    assert frame.columns.tolist() == part.columns.tolist()
    assert part.shape[1] == 0 or isinstance(frame.dtypes.iloc[0], pd.SparseDtype) == part.is_sparse
    assert long.num_rows == part.nnz == np.count_nonzero(oracle)
    assert long.column("value").to_pylist() == oracle[np.nonzero(oracle)].tolist()
    rows, columns = np.nonzero(oracle)
    assert long.column("obs").to_pylist() == part.rows[rows].tolist()
    assert long.column("var").to_pylist() == part.columns[columns].tolist()
    if not case.is_one:
        assert frame.index.names == ["dataset", "obs"]
        assert wide.columns == ["dataset", "obs", *part.columns]
        datasets = np.array(part.datasets)
        for found in (frame.index.get_level_values(0), wide["dataset"]):
            assert list(found) == datasets.tolist()
        assert long.column("dataset").to_pylist() == datasets[rows].tolist()


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("case", "choice"), PAIRS, indirect=["case"])
def test_labels_and_members(case: Case, choice: str) -> None:
    """Every slice has data sets, counts and members; those of all are its entries."""
    part = case.matrix(choice)
    assert sum(part.counts.values()) == part.shape[0] == len(part.datasets)
    found = [part.counts[name] for name in part.members]
    assert found == [member.shape[0] for member in part.members.values()]
    for name, member in part.members.items():
        assert list(member.rows) == [
            row for row, of in zip(part.rows, part.datasets, strict=True) if of == name
        ]
    if not case.is_one:
        assert [name[0] for name in part.rows] == list(part.datasets)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("case", "choice"), PAIRS, indirect=["case"])
def test_an_explanation_is_what_is_read(case: Case, choice: str) -> None:
    """Bounds before, and the elements themselves after; parts have figures that add up."""
    part = case.matrix(choice)
    before = part.explain()
    values = part.values()
    arrays = [values.data, values.indices, values.indptr] if part.is_sparse else [values]
    size = sum(array.nbytes for array in arrays)
    if part.is_sparse:
        assert part.explain().stored_elements == values.nnz
    assert before.result_bytes >= size == part.explain().result_bytes
    assert bool(before.layouts) == case.is_one
    parts = before.members.values()
    assert case.is_one or before.read_bytes == sum(each.read_bytes for each in parts)
    if size:
        with pytest.raises(errors.BudgetError, match="nothing was read"):
            case.matrix(choice, max_bytes=size - 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("choice", "block_bytes"), [("all", 1), ("positions", 1 << 20), ("order", 1)]
)
def test_anndata(case: Case, choice: str, block_bytes: int, tmp_path: Path) -> None:
    """X, the layer, obsm and obs are those of anndata, in memory and in a file; lazily too."""
    part = case.matrix(choice)
    oracle = expected(case, part)
    case.matrix(choice).save(tmp_path / "x.h5ad", block_bytes=block_bytes)
    lazy = part.to_anndata(lazy=True)
    lazy.X, lazy.layers["twice"] = lazy.X.compute(), lazy.layers["twice"].compute()
    for found in (part.to_anndata(), lazy, anndata.read_h5ad(tmp_path / "x.h5ad")):
        assert list(found.obs_names) == list(oracle.obs_names)
        np.testing.assert_array_equal(dense(found.X), dense(oracle.X))
        np.testing.assert_array_equal(dense(found.layers["twice"]), dense(oracle.layers["twice"]))
        np.testing.assert_array_equal(found.obsm["umap"], oracle.obsm["umap"])
        assert found.var["rank"].tolist() == [ord(gene[-1]) for gene in oracle.var_names]
        assert found.obs["age"].tolist() == oracle.obs["age"].tolist()
        assert ("dataset" in found.obs) != case.is_one


def test_nothing_is_a_file_of_every_format(case: Case, tmp_path: Path) -> None:
    """A selection that matches nothing has its columns all the same."""
    part = case.matrix("nothing")
    for suffix in ("h5ad", "npz", "mtx", "csv", "parquet", "arrow"):
        part.save(tmp_path / f"x.{suffix}")
    assert anndata.read_h5ad(tmp_path / "x.h5ad").shape == part.shape == (0, case.oracle.n_vars)
    assert case.matrix(rows=[], columns=[]).to_scipy().shape == (0, 0)
    obs = part.to_anndata().obs
    assert set(obs.columns) == {*case.oracle.obs.columns, *([] if case.is_one else ["dataset"])}
    assert obs.dtypes["age"] == case.oracle.obs.dtypes["age"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("choice", ["all", "positions", "order", "one entry"])
def test_blocks_of_dask(case: Case, choice: str) -> None:
    """Whatever their heights, and rows in any order."""
    part = case.matrix(choice)
    oracle = dense(expected(case, part).X)
    for height in (None, 2):
        array = part.to_dask(rows_per_block=height)
        np.testing.assert_array_equal(dense(array.compute(scheduler="threads")), oracle)


def test_a_profile_is_that_of_the_slice(case: Case) -> None:
    """Means of the groups of all data sets."""
    with warnings.catch_warnings(action="error", category=DuplicateNamesWarning):
        frame = case.matrix().to_anndata()
    profile = case.db.profile("obs", "var", "X", by="type", fill_value=0)
    values = pd.DataFrame(dense(frame.X)).groupby(list(frame.obs["type"])).mean()
    np.testing.assert_allclose(profile.statistic("mean"), values.to_numpy())
