"""Filters on entries of matrices beside the same filters on vectors with the same values."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, connect
from daf_query.scan import ScanOptions
from daf_storage import MemoryDaf, Packing
from tests.random_conditions import Conditions
from tests.support import data_set

N_CELLS = 300
GENES = ["a", "b", "c"]
MATRICES = {
    "sparse": "f4", "rare": "f8", "small": "u1", "signed": "i2", "flags": "?", "dense": "f4",
    "turned": "f8", "both": "i8",
}  # fmt: skip
OPTIONS = ScanOptions(
    zone_rows=16, min_partition_rows=32, partition_rows=64, min_batch_rows=8, sparse_divisor=4
)


def sessions() -> tuple[DafSession, DafSession]:
    """Return a session with matrices, and one with a vector for each of their entries."""
    random = np.random.default_rng(7)
    matrices, vectors = MemoryDaf(packed=Packing("zstd", chunk_kb=1)), MemoryDaf()
    for daf in (matrices, vectors):
        data_set(daf, cell={"name": N_CELLS, "age": np.arange(N_CELLS) % 100})
    matrices.add_axis("gene", GENES)
    for name, dtype in MATRICES.items():
        values = random.integers(0 if dtype != "i2" else -4, 2 if dtype == "?" else 5, (N_CELLS, 3))
        typed = values.astype(dtype)
        typed[random.random(typed.shape) < {"rare": 0.95, "dense": 0}.get(name, 0.6)] = 0
        if typed.dtype.kind == "f":
            typed[random.random(typed.shape) < 0.05] = np.nan
        stored = typed if name == "dense" else sp.csc_array(typed)
        if name == "turned":
            matrices.set_matrix("gene", "cell", name, stored.T, relayout=False)
        else:
            matrices.set_matrix("cell", "gene", name, stored, relayout=name == "both")
        for place, gene in enumerate(GENES):
            vectors.set_vector("cell", f"{name}['{gene}']", typed[:, place])
    return connect(matrices, scan_options=OPTIONS), connect(vectors, scan_options=OPTIONS)


BY_MATRICES, BY_VECTORS = sessions()
VALUES = BY_VECTORS.table("cell").to_table()


@given(st.integers(0, 1 << 32))
def test_rows_are_those_of_vectors(seed: int) -> None:
    """Whatever the filter is, and whichever columns are read late."""
    conditions = Conditions(VALUES, seed)
    condition = conditions.of_columns()
    selected = conditions.random.choice(VALUES.column_names[2:])
    query = f"SELECT name, {selected} AS x FROM cell WHERE {condition}"
    expected = BY_VECTORS.sql(query).to_pylist()
    found = BY_MATRICES.sql(query).to_pylist()
    assert Counter(map(repr, found)) == Counter(map(repr, expected))
    counted = BY_MATRICES.sql(f"SELECT count(*) AS n FROM cell WHERE {condition}").to_pydict()
    assert counted == {"n": [len(expected)]}


@st.composite
def sources(draw: st.DrawFn, number: int = 0) -> tuple[str, str]:
    """Draw what a FROM reads, with ``{gene}`` for a condition, and a condition on its genes."""
    alias = f"t{number}"
    shape = draw(st.sampled_from(["table", "table", "subquery", "union", "semi-join", "values"]))
    if number > 20 or shape == "table":
        return f"cell {alias}", f"{alias}.both['a'] + 5 > 0"
    if shape == "values":
        return f"(VALUES ('c1'), ('c2')) {alias}(label)", "TRUE"
    inner, condition = draw(sources(number * 3 + 1))
    star = draw(st.sampled_from(["*", f"t{number * 3 + 1}.*"]))
    query = f"SELECT {star} FROM {inner} WHERE {{gene:{condition}}}"
    if shape == "union":
        query = f"({query}) UNION ALL ({query})"
    if shape == "semi-join":
        query = (
            f"SELECT * FROM {inner} LEFT SEMI JOIN cell s{number} "
            f"ON s{number}.rare['b'] IS NULL OR {{gene:{condition}}}"
        )
    return f"({query}) {alias}", "TRUE"


@st.composite
def wildcards(draw: st.DrawFn) -> str:
    """Draw a query with wildcards over up to three joined sources, with ``{gene:...}`` in it."""
    chosen = [draw(sources(number)) for number in range(draw(st.integers(1, 3)))]
    star = draw(st.sampled_from(["*", "t0.*", "1 AS one, *", "DISTINCT *"]))
    if draw(st.booleans()):
        limited = [f"(SELECT * FROM {source} LIMIT 3) t{n}" for n, (source, _) in enumerate(chosen)]
        return f"SELECT {star} FROM {' CROSS JOIN '.join(limited)}"
    joined = " JOIN ".join(
        f"{source} ON TRUE" if n else source for n, (source, _) in enumerate(chosen)
    )
    conditions = " AND ".join(f"{{gene:{condition}}}" for _, condition in chosen)
    query = f"SELECT {star} FROM {joined} WHERE {conditions} LIMIT 4"
    return query if len(chosen) > 1 else f"WITH w AS ({query}) SELECT * FROM w"


@pytest.mark.filterwarnings("ignore::daf_query.DuplicateColumnsWarning")
@given(wildcards())
def test_wildcards_are_those_without_genes(query: str) -> None:
    """A condition on genes changes no column of a wildcard, wherever both are."""
    without = re.sub(r"\{gene:[^}]*\}", "TRUE", query).replace("rare['b']", "age")
    named = re.sub(r"\{gene:([^}]*)\}", r"\1", query)
    assert BY_MATRICES.sql(named).column_names == BY_MATRICES.sql(without).column_names
