"""Tests of group profiles: groups, names, and every shape of the result."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import anndata
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from daf_query import DafSession, Profile, connect
from daf_storage import DafWriter, MemoryDaf, ZarrDaf, errors, from_anndata

mpl.use("Agg")
from matplotlib import pyplot as plt

from tests.limits import lower
from tests.support import data_set

COLUMNS = ["gene", "count", "missing", "nonzero", "sum", "mean", "variance", "min", "max"]
DENSE = np.array([[0.0, 1, 2], [3, 0, np.nan], [0, 0, 4], [5, 6, 0], [7, 0, np.nan]])


@pytest.fixture
def daf() -> DafWriter:
    """Return five cells and three genes, dense and sparse."""
    cells = {
        "name": list("ABCDE"),
        "type": ["T", "B", "T", "B", "NK"],
        "donor": ["N1", "N1", "N2", "N2", "N2"],
        "age": [10, 20, 30, 40, 50],
        "score": [1.0, np.nan, -0.0, 0.0, np.nan],
        "count": [1, 1, 2, 2, 2],
    }
    genes = {"name": ["g1", "g2", "g3"], "is_marker": [True, False, True]}
    values = {"X": DENSE, "s": sp.csc_array(np.nan_to_num(DENSE))}
    matrices = {("cell", "gene", name): values[name] for name in values}
    return data_set(name="x", cell=cells, gene=genes, matrices=matrices)


@pytest.fixture
def db(daf: DafWriter) -> DafSession:
    """Return a session over it."""
    return connect(daf)


def pairs(profile: Profile, *names: str) -> list[tuple[Any, ...]]:
    """Return some columns as a tuple per row."""
    return [tuple(row[name] for name in names) for row in profile.to_pylist()]


class TestRows:
    def test_a_vector(self, db: DafSession) -> None:
        """One row per group and gene, in order, with every column and type."""
        profile = db.profile("cell", "gene", "X", by="type")
        assert profile.column_names == ["type", *COLUMNS]
        assert profile.schema.field("count").type == pa.int64()
        assert profile.schema.field("mean").type == pa.float64()
        assert len(profile) == 9
        assert profile.to_arrow_table().slice(2, 2).to_pylist() == [
            {"type": "B", "gene": "g3", "count": 2, "missing": 1, "nonzero": 0, "sum": 0.0, "mean": 0.0, "variance": None, "min": 0.0, "max": 0.0},
            {"type": "NK", "gene": "g1", "count": 1, "missing": 0, "nonzero": 1, "sum": 7.0, "mean": 7.0, "variance": None, "min": 7.0, "max": 7.0},
        ]  # fmt: skip

    def test_a_gene_expression(self, db: DafSession) -> None:
        """Rows are grouped by what they have of a gene."""
        for name in ("X", "s"):
            profile = db.profile(
                "cell", "gene", name, by=f"{name}['g1'] > 2 AS high", columns=["g2"]
            )
            assert pairs(profile, "high", "count", "sum") == [(False, 2, 1.0), (True, 3, 6.0)]
        call = "profile('cell', 'gene', 's', 's[''g1''] > 2 AS high', NULL, 'name = ''g2''')"
        rows = db.sql(f"SELECT high, sum FROM {call}").to_pylist()
        assert rows == [{"high": False, "sum": 1.0}, {"high": True, "sum": 6.0}]
        unnamed = db.profile("cell", "gene", "s", by="s['g1'] > 2")
        assert unnamed.column_names[0] == "s['g1'] > 2"

    def test_no_groups(self, db: DafSession) -> None:
        """All rows are one group; of no rows there is none.  Genes can be grouped, over cells."""
        profile = db.profile("cell", "gene", "X")
        assert profile.column_names == COLUMNS
        found = pairs(profile, "gene", "count", "sum")
        assert found == [("g1", 5, 15.0), ("g2", 5, 7.0), ("g3", 5, 6.0)]
        assert len(db.profile("cell", "gene", "X", rows=[])) == 0
        profile = db.profile("gene", "cell", "X", by="is_marker", columns=["B"])
        found = pairs(profile, "is_marker", "cell", "sum", "missing")
        assert found == [(False, "B", 0.0, 0), (True, "B", 3.0, 1)]

    def test_missing_and_negative_zero(self, db: DafSession) -> None:
        """NaN and NULL are one group, the last; 0.0 and -0.0 are one."""
        profile = db.profile("cell", "gene", "X", by="score", columns=[0])
        assert pairs(profile, "score", "count") == [(0.0, 2), (1.0, 1), (None, 2)]
        profile = db.profile("cell", "gene", "X", by="nullif(type, 'T') AS t", columns=[0])
        assert pairs(profile, "t", "count") == [("B", 2), ("NK", 1), (None, 2)]

    def test_predicates_and_parameters(self, db: DafSession) -> None:
        """In rows, columns and by; together they take all parameters."""
        profile = db.profile(
            "cell", "gene", "s", by="age > $old AS old", rows="age > $least", columns="is_marker",
            params={"old": 30, "least": 10},
        )  # fmt: skip
        assert pairs(profile, "old", "gene", "sum") == [
            (False, "g1", 3.0), (False, "g3", 4.0), (True, "g1", 12.0), (True, "g3", 0.0),
        ]  # fmt: skip

    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_an_axis_with_itself(self, daf: DafWriter, *, is_sparse: bool) -> None:
        """Rows are grouped, columns are not, also where the matrix is not symmetric."""
        dense = np.arange(25.0).reshape(5, 5) * (np.arange(25).reshape(5, 5) % 3 > 0)
        daf.set_matrix("cell", "cell", "d", sp.csc_array(dense) if is_sparse else dense)
        got = connect(daf).profile("cell", "cell", "d", by="type").to_anndata(statistic="sum").X
        assert got.tolist() == [
            dense[[1, 3]].sum(axis=0).tolist(), dense[4].tolist(), dense[[0, 2]].sum(axis=0).tolist()
        ]  # fmt: skip


class TestResult:
    def test_it_is_a_query_result(self, db: DafSession, tmp_path: Path) -> None:
        """Filters, frames, files, and SQL over it."""
        profile = db.profile("cell", "gene", "X", by="type")
        assert profile.filter("mean > 3 AND gene = 'g1'").select("type").to_pylist() == [
            {"type": "B"},
            {"type": "NK"},
        ]
        assert profile.to_pandas()["sum"].tolist()[:2] == [8.0, 6.0]
        assert pl.DataFrame(profile).height == 9
        assert "g1" in repr(profile)
        assert profile.save(tmp_path / "p.parquet") == 9
        assert profile.save(tmp_path / "p.h5ad") == 9
        assert profile.save(tmp_path / "p.data", format="h5ad") == 9
        for path in ("p.h5ad", "p.data"):
            assert anndata.read_h5ad(tmp_path / path).shape == profile.to_anndata().shape
        assert pq.read_table(tmp_path / "p.parquet").to_pylist() == profile.to_pylist()
        db.register(profile, "profile_of_x")
        query = "SELECT count(*) AS n FROM profile_of_x WHERE nonzero > 0"
        nonzero = profile.to_pandas()["nonzero"]
        assert db.sql(query).to_pydict() == {"n": [int((nonzero > 0).sum())]}

    def test_anndata(self, db: DafSession) -> None:
        """Groups x genes; X is the mean, or what was chosen; layers have all."""
        adata = db.profile("cell", "gene", "s", by=["donor", "type"]).to_anndata(statistic="sum")
        assert adata.obs_names.tolist() == ["N1_B", "N1_T", "N2_B", "N2_NK", "N2_T"]
        assert adata.obs["count"].tolist() == [1] * 5
        assert adata.obs["donor"].tolist() == ["N1", "N1", "N2", "N2", "N2"]
        assert adata.var["is_marker"].tolist() == [True, False, True]
        wanted = np.nan_to_num(DENSE)[[1, 0, 3, 4, 2]]
        assert adata.X.tolist() == adata.layers["mean"].tolist() == wanted.tolist()
        assert adata.layers["fraction"].tolist() == (wanted != 0).tolist()
        assert isinstance(adata, anndata.AnnData)
        mean = db.profile("cell", "gene", "X").to_anndata()
        assert mean.obs_names.tolist() == ["all"]
        np.testing.assert_array_equal(mean.X, np.nanmean(DENSE, axis=0, keepdims=True))

    def test_anndata_of_some_columns_has_their_categories(self) -> None:
        """Of all columns it has all categories, as a slice has them."""
        obs, kinds = pd.DataFrame(index=["a"]), pd.Categorical(["x", "y"], ["y", "x", "w"])
        var = pd.DataFrame({"kind": kinds}, index=["g", "h"])
        db = connect(from_anndata(anndata.AnnData(np.ones((1, 2)), obs=obs, var=var)))
        for columns, listed in ((["g"], ["x"]), (None, ["y", "x", "w"])):
            profile = db.profile("obs", "var", "X", columns=columns)
            assert profile.to_anndata().var["kind"].cat.categories.tolist() == listed


class TestTableFunction:
    def test_it_is_the_profile(self, db: DafSession) -> None:
        """The same rows as those of the method, with and without groups and predicates."""
        cases: tuple[tuple[str, dict[str, Any]], ...] = (
            ("'type'", {"by": "type"}),
            ("'type, age > 20 AS old'", {"by": "type, age > 20 AS old"}),
            ("NULL", {}),
            ("'type', 'age > 20'", {"by": "type", "rows": "age > 20"}),
            ("'type', NULL, 'is_marker'", {"by": "type", "columns": "is_marker"}),
            ("'type', 'SELECT name FROM cell LIMIT 0'", {"by": "type", "rows": []}),
        )
        for call, chosen in cases:
            result = db.sql(f"SELECT * FROM profile('cell', 'gene', 'X', {call})")
            wanted = db.profile("cell", "gene", "X", **chosen).to_arrow_table()
            assert result.schema.names == wanted.schema.names
            assert result.to_pylist() == wanted.to_pylist(), call

    def test_in_queries(self, db: DafSession) -> None:
        """Filters, counts, two of them, views."""
        call = "profile('cell', 'gene', 's', 'type')"
        assert db.sql(
            f"SELECT type, mean FROM {call} WHERE gene = 'g1' AND mean > 3 ORDER BY mean"
        ).to_pylist() == [{"type": "B", "mean": 4.0}, {"type": "NK", "mean": 7.0}]
        assert db.sql(f"SELECT count(*) AS n FROM {call}").to_pydict() == {"n": [9]}
        query = f"SELECT count(*) AS n FROM {call} AS a JOIN {call} AS b USING (gene, type)"
        assert db.sql(query).to_pydict() == {"n": [9]}
        db.sql(f"CREATE VIEW p AS SELECT * FROM {call}", allow="write")
        query = "SELECT count(*) AS n FROM p WHERE variance IS NULL"
        assert db.sql(query).to_pydict() == {"n": [3]}

    def test_several_data_sets(self, daf: DafWriter) -> None:
        """The axis is named with its data set; of a union it is that of all."""
        db = connect({"a": daf, "b": MemoryDaf()})
        query = "SELECT count(*) AS n FROM profile('a.cell', 'gene', 'X', 'type')"
        assert db.sql(query).to_pydict() == {"n": [9]}
        other = data_set(
            name="y", cell=["Z"], gene=["g1"], matrices={("cell", "gene", "X"): [[1.0]]}
        )
        both = connect([daf, other])
        assert both.sql("SELECT * FROM profile('cell', 'gene', 'X', 'name')").count() > 9


class TestPbmc:
    def test_categories_keep_their_order(self, pbmc_path: Path) -> None:
        """Groups of a categorical come in the order of its categories; with its type if asked for."""
        with connect(pbmc_path) as db:
            names = db.profile("cell", "gene", "X", by="phase", columns=[0]).to_pydict()["phase"]
            frame = db.reader().get_pd_vector("cell", "phase")
        assert sorted(names) == sorted(set(frame.astype(str)))
        with connect(pbmc_path, categoricals="dictionary") as db:
            profile = db.profile("cell", "gene", "X", by="bulk_labels", columns=[0])
            assert isinstance(profile.to_pandas()["bulk_labels"].dtype, pd.CategoricalDtype)
            assert profile.to_pandas()["bulk_labels"].cat.codes.is_monotonic_increasing


class TestDotPlot:
    def test_columns_and_scales(self, db: DafSession) -> None:
        """In the order that was asked for, one or several, of the whole range of each on request."""
        profile = db.profile("cell", "gene", "s", by="type")
        axes = profile.plot.dotplot(["g3", "g1"])
        assert axes.collections[0].get_array().tolist() == [0.0, 4.0, 0.0, 7.0, 3.0, 0.0]
        assert [text.get_text() for text in axes.get_xticklabels()] == ["g3", "g1"]
        scaled = profile.plot.dotplot("g1", scale="column", ax=axes).collections[-1]
        assert scaled.get_array().tolist() == [4 / 7, 1.0, 0.0]
        plt.close("all")

    def test_what_is_refused(self, db: DafSession, monkeypatch: pytest.MonkeyPatch) -> None:
        """Too many dots, and no matplotlib."""
        plot = db.profile("cell", "gene", "s", by="type").plot
        lower(monkeypatch, dots=5)
        message = "3 groups x 3 gene are more than 5 dots"
        with pytest.raises(errors.InvalidInputError, match=message):
            plot.dotplot()
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(errors.MissingDependencyError, match=r"pip install .*\[plot\]"):
            plot.dotplot()


class TestMemory:
    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("axes", [("cell", "gene"), ("gene", "cell")])
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_it_does_not_grow_with_the_matrix(
        self, axes: tuple[str, str], monkeypatch: pytest.MonkeyPatch, *, is_sparse: bool
    ) -> None:
        """Four times as many cells take the same memory: some blocks and the result."""
        # What this allocates is freed unused; it takes no memory, but it would be counted.
        monkeypatch.setattr("daf_query.moments._group_moments.keep_freed_memory", lambda: None)
        lower(monkeypatch, moment_elements=1 << 12, moment_window=1 << 15, moment_threads=2)
        peaks = []
        for n_cells in (4_000, 16_000):
            daf = data_set(cell=n_cells, gene=100)
            values: Any = np.random.default_rng(0).random((n_cells, 100))
            values = sp.csc_array(values) if is_sparse else values
            daf.set_matrix(*axes, "X", values if axes[0] == "cell" else values.T, relayout=False)
            daf.set_vector("cell", "group", np.arange(n_cells) % 30)
            db = connect(daf)
            db.profile("cell", "gene", "X", by="group", progress="never")
            tracemalloc.start()
            db.profile("cell", "gene", "X", by="group", progress="never")
            peaks.append(tracemalloc.get_traced_memory()[1] - 120 * n_cells)  # the rows themselves
            tracemalloc.stop()
        assert peaks[1] < max(peaks[0], 0) + 2_000_000
        assert peaks[1] < 16_000 * 100 * 8 / 3

    def test_a_matrix_of_holes(self, tmp_path: Path) -> None:
        """Of a matrix of 20 GB in a sparse file, what is read of it decides."""
        path = tmp_path / "x.daf.zarr"
        with ZarrDaf(path, "w") as daf:
            data_set(daf, cell=100_000, gene=25_000)
            daf.set_vector("cell", "type", (np.arange(100_000) % 30).astype(np.int8))
        folder = path / "matrices" / "cell" / "gene" / "X"
        folder.mkdir(parents=True)
        metadata = {
            "zarr_format": 2, "shape": [25_000, 100_000], "chunks": [25_000, 100_000], "dtype": "<f8",
            "compressor": None, "fill_value": 0.0, "order": "C", "filters": None,
        }  # fmt: skip
        (folder / ".zarray").write_text(json.dumps(metadata))
        with (folder / "0.0").open("wb") as file:
            file.truncate(25_000 * 100_000 * 8)
        with connect(path) as db:
            db.profile("cell", "gene", "X", by="type", columns=[0])
            tracemalloc.start()
            profile = db.profile("cell", "gene", "X", by="type", columns="index < 20")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert profile.count() == 600
        assert set(profile.to_arrow_table()["nonzero"].to_pylist()) == {0}
        assert peak < 100_000_000


def test_an_axis_that_was_reordered() -> None:
    """An AnnData never has the vectors of other entries; the rows are what they were."""
    daf = data_set(
        cell=["a", "b"], gene=["x", "y"], matrices={("cell", "gene", "m"): [[0, 1], [2, 3]]}
    )
    profile = connect(daf).profile("cell", "gene", "m")
    assert profile.to_anndata(statistic="sum")[:, "y"].X.tolist() == [[4]]
    daf.reorder_axis("gene", [1, 0])
    assert profile.select("gene", "sum").to_pydict() == {"gene": ["x", "y"], "sum": [2, 4]}
    with pytest.raises(errors.InvalidInputError, match="'gene' was replaced or reordered since"):
        profile.to_anndata()
    daf.add_axis("gene", ["x"], if_exists="replace")
    with pytest.raises(errors.InvalidInputError, match="profile of it was made; make it again"):
        profile.to_anndata()
