"""Views of which SQL says the entries, and views that SQL makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, copy_all, errors, to_anndata
from tests.support import PBMC, contents, data_set, dense

CELLS = [f"c{n}" for n in range(40)]
GENES = [f"g{n}" for n in range(12)]


def filled(daf: DafWriter) -> DafWriter:
    """Fill a data set with cells, genes and a sparse matrix."""
    random = np.random.default_rng(3)
    data_set(daf, cell={"name": CELLS, "age": random.integers(20, 90, 40)}, gene=GENES)
    daf.set_vector("cell", "type", random.choice(["B", "T"], 40))
    daf.set_vector("gene", "marker", random.random(12) < 0.5)
    counts = sp.random_array((40, 12), density=0.4, rng=random, dtype="f4")
    daf.set_matrix("cell", "gene", "X", sp.csc_array(counts))
    return daf


@pytest.fixture(scope="module")
def db() -> DafSession:
    """Return a session over it."""
    return connect(filled(MemoryDaf(name="pbmc")))


CHOSEN: list[tuple[Any, dict[str, Any] | None]] = [
    ("age > 50", None),
    ("age > $least AND type = 'T'", {"least": 40}),
    ("age > 30 ORDER BY age DESC, name LIMIT 9", None),
    ("SELECT name FROM cell WHERE X['g3'] > 0.2", None),
    (["c30", "c2", "c7"], None),
    (slice(5, 21), None),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("cells", "params"), CHOSEN)
def test_a_view_answers_as_a_copy_of_it_does(
    db: DafSession, cells: Any, params: dict[str, Any] | None
) -> None:
    """SQL, gene columns, slices, profiles, the long form and AnnData; also of two axes."""
    for genes in (None, "marker"):
        part = db.view({"cell": cells, **({"gene": genes} if genes else {})}, params=params)
        copied = MemoryDaf(name="copied")
        copy_all(part.reader(), copied)
        other = connect(copied)
        wanted = db.matrix("cell", "gene", "X", rows=cells, columns=genes, params=params)
        found = part.matrix("cell", "gene", "X")
        assert found.to_numpy().tolist() == wanted.to_numpy().tolist()
        flipped = part.matrix("gene", "cell", "X").to_numpy()
        assert flipped.T.tolist() == wanted.to_numpy().tolist()
        some: dict[str, Any] = {"rows": "age < 60", "columns": found.columns[::-2]}
        slices = [s.matrix("cell", "gene", "X", **some).to_numpy().tolist() for s in (part, other)]
        assert slices[0] == slices[1]
        gene = found.columns[0]
        for query in (
            "SELECT * FROM cell",
            "SELECT type, count(*) AS n, sum(age) AS years FROM cell GROUP BY type ORDER BY type",
            f"SELECT name, X['{gene}'] AS x FROM cell WHERE X['{gene}'] > 0 AND age > 25",
            "SELECT * FROM matrix('cell', 'gene', 'X') WHERE value > 0.5 ORDER BY cell, gene",
            "SELECT count(*) FROM gene WHERE marker",
        ):
            assert part.sql(query).to_pylist() == other.sql(query).to_pylist(), query
        profiles = [s.profile("cell", "gene", "X", by="type").to_pydict() for s in (part, other)]
        assert profiles[0] == profiles[1]
        anndatas = [s.matrix("cell", "gene", "X").to_anndata() for s in (part, other)]
        assert (anndatas[0].X != anndatas[1].X).nnz == 0
        assert anndatas[0].obs.equals(anndatas[1].obs)
    assert db.reader().axis_length("cell") == 40


def test_names_and_predicates(db: DafSession) -> None:
    """A string is a predicate unless it names an axis; a pair has both; parameters are of all."""
    part = db.view(
        {
            "*": None,
            "old": ("cell", "age >= $age"),
            "gene": "name IN $genes",
            "feature": "gene",
        },
        {("old", "years"): "age", ("old", "age"): None},
        params={"age": 50, "genes": ["g3", "g1"]},
    )
    ages = db.reader().get_np_vector("cell", "age")
    assert part.sql("SELECT years FROM old").to_pydict() == {"years": ages[ages >= 50].tolist()}
    assert part.tables() == ["feature", "gene", "old", "matrices", "relations", "scalars"]
    assert part.sql("SELECT name FROM gene").to_pydict() == {"name": ["g1", "g3"]}
    assert part.reader().axis_length("feature") == 12
    assert list(part.schemas) == list(db.schemas)
    again = connect({"all": db.reader(), "old": part.reader()})
    query = "SELECT count(*) AS n FROM all.cell JOIN old.old ON cell.name = old.name"
    assert again.sql(query).to_pydict() == {"n": [int((ages >= 50).sum())]}
    rows = db.sql("SELECT name FROM cell WHERE age > 80")
    assert db.view({"x": ("cell", rows)}).reader().axis_length("x") == int((ages > 80).sum())
    everything = db.view([("cell", "age > 80")])
    assert everything.reader().axes_set() == {"cell"}
    part.close()
    assert db.reader().axis_length("cell") == 40


def test_a_view_of_real_data_is_an_anndata() -> None:
    """Categories, embeddings and all: as anndata's own indexing of the whole."""
    with connect(PBMC) as db:
        whole = to_anndata(db.reader())
        part = db.view({"obs": "n_genes > 1600"})
        wanted = whole[whole.obs["n_genes"] > 1600]
        found = to_anndata(part.reader())
        assert 0 < len(found) < len(whole)
        assert found.obs["louvain"].cat.categories.equals(whole.obs["louvain"].cat.categories)
        for each in (found, wanted):
            each.obs, each.uns = each.obs.astype(str), {}
        assert_equal(found, wanted)
        sliced = part.matrix("obs", "var", "X").to_anndata()
        assert sliced.obs.astype(str).equals(wanted.obs[sliced.obs.columns].astype(str))
        assert np.array_equal(dense(sliced.X), dense(wanted.X))


def test_create_view() -> None:
    """The SQL side: a name for a query, in this session; it reads what is there when it is asked."""
    daf = filled(MemoryDaf(name="pbmc"))
    db = connect(daf)
    query = "CREATE VIEW old AS SELECT name, age FROM cell WHERE age > 50 AND X['g3'] > 0"
    assert db.sql(query, allow="write").to_pydict() == {}
    wanted = db.sql("SELECT name, age FROM cell WHERE age > 50 AND X['g3'] > 0").to_pydict()
    assert wanted["name"]
    assert db.sql("SELECT * FROM old").to_pydict() == wanted
    assert "old" in db.tables()
    joined = "SELECT old.name FROM old JOIN cell ON old.name = cell.name WHERE type = 'T'"
    assert set(db.sql(joined).to_pydict()["name"]) < set(wanted["name"])
    rows = db.matrix("cell", "gene", "X", rows="SELECT name FROM old")
    assert rows.rows.tolist() == wanted["name"]
    found = db.view({"cell": "SELECT name FROM old"}).reader().axis_entries("cell").tolist()
    assert found == wanted["name"]
    query = 'create or replace view "very old" as select * from old where age > 50.5;'
    db.sql(query, allow="write")
    assert db.sql('SELECT * FROM "very old"').to_pydict() == wanted
    daf.set_vector("cell", "age", np.full(40, 51.5), if_exists="replace")
    for name in ("old", '"very old"'):
        assert set(db.sql(f"SELECT age FROM {name}").to_pydict()["age"]) == {51.5}
    daf.set_vector("cell", "age", [51.5, *[52.5] * 39], if_exists="replace")
    explanation = db.explain_analyze("SELECT name FROM old WHERE age > 52")
    assert explanation.scans[0].values["name"] == explanation.rows
    before = contents(daf)
    db.sql("CREATE OR REPLACE VIEW old AS SELECT 1 AS n", allow="write")
    assert db.sql("SELECT n FROM old").to_pydict() == {"n": [1]}
    db.sql("DROP VIEW old", allow="write")
    assert "old" not in db.tables()
    db.register(pa.table({"id": ["c1"]}), "mine")
    db.sql("CREATE VIEW two AS SELECT age FROM cell JOIN mine ON id = name", allow="write")
    assert db.sql("SELECT * FROM two").to_pydict() == {"age": [52.5]}
    assert contents(daf) == before


def test_a_view_goes_with_its_data_set() -> None:
    """Another data set of that name does not have it, and may have one of its own."""
    db = connect({"one": filled(MemoryDaf()), "two": filled(MemoryDaf())})
    db.sql("CREATE VIEW two.old AS SELECT count(*) AS n FROM one.cell", allow="write").to_pylist()
    assert db.sql("SELECT n FROM two.old").to_pylist() == [{"n": 40}]
    db.unregister("two")
    db.register(filled(MemoryDaf()), "two")
    with pytest.raises(errors.AxisNotFoundError, match="no table 'old'"):
        db.sql("SELECT n FROM two.old").to_pylist()
    db.sql("CREATE VIEW two.old AS SELECT 7 AS n", allow="write").to_pylist()
    assert db.sql("SELECT n FROM two.old").to_pylist() == [{"n": 7}]
