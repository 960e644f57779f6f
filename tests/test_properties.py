"""Random data sets and random questions, against pandas, scipy and DuckDB as the slow truth."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daf_query import connect
from daf_storage import DafWriter
from daf_storage.base import StorageType
from tests.limits import lower
from tests.random_conditions import Conditions
from tests.suites.examples import write_stored
from tests.support import data_set, dense

KINDS = [kind for kind in StorageType if not kind.is_string]
STRINGS = ["", "a", "b", "B", "ä", "c d", "it's"]
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def random_values(random: np.random.Generator, kind: StorageType, shape: Any) -> Any:
    """Return values of any type that collide often; floats are sometimes missing."""
    if kind is StorageType.BOOL:
        return random.random(shape) < 0.5
    if kind.is_integer:
        low = 0 if kind.value.startswith("U") else -3
        return random.integers(low, 5, shape).astype(kind.dtype)
    values = (random.integers(-3, 5, shape) / 2).astype(kind.dtype)
    if np.ndim(values) == 1:
        values[random.random(shape) < 0.2] = np.nan
    return values


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[DafWriter, pd.DataFrame]:
    """Return a data set with one axis of random vectors, and the same as a frame."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    length = draw(st.integers(0, 30))
    daf = data_set(cell=length)
    frame = {"name": [f"c{i}" for i in range(length)], "index": np.arange(length)}
    frame["name"] = np.array(frame["name"], dtype=object)
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(KINDS))
        values = random_values(random, kind, length)
        is_sparse = draw(st.booleans()) and kind.value[:5] != "Float" and length > 0
        daf.set_vector("cell", f"v{number}", sp.csr_array(values[None, :]) if is_sparse else values)
        frame[f"v{number}"] = values
    strings = random.choice(np.array(STRINGS, dtype=object), length)
    daf.set_vector("cell", "t", strings.astype(str) if length else np.array([], dtype=str))
    frame["t"] = strings
    return daf, pd.DataFrame(frame)


@pytest.mark.filterwarnings("ignore::daf_query.NeverNullWarning")
@RELAXED
@given(st.data())
def test_filters_keep_the_rows_that_duckdb_keeps(data: st.DataObject) -> None:
    """Any predicate over any vectors: the same rows as DuckDB over the same pandas frame."""
    daf, frame = data.draw(data_sets())
    # DuckDB takes NaN for a number; here as in pandas it stands for a missing value.
    oracle = frame.astype({c: "Float64" for c in frame if frame[c].dtype.kind == "f"})
    seed = data.draw(st.integers(0, 1 << 32))
    predicate = Conditions(pa.Table.from_pandas(oracle), seed).of_columns()
    expected = duckdb.sql(f'SELECT "index" FROM oracle WHERE {predicate} ORDER BY 1').fetchall()
    found = connect(daf).sql(f"SELECT index FROM cell WHERE {predicate} ORDER BY index")
    assert found.to_pydict()["index"] == [row[0] for row in expected], predicate
    assert len(oracle) == daf.axis_length("cell")


@RELAXED
@given(st.data())
def test_aggregates_are_those_of_pandas(data: st.DataObject) -> None:
    """Counts, sums and means by group, missing values left out."""
    daf, frame = data.draw(data_sets())
    column = data.draw(st.sampled_from([c for c in frame.columns if frame[c].dtype.kind in "iuf"]))
    query = f"SELECT t, count({column}) AS n, avg({column}) AS mean FROM cell GROUP BY t ORDER BY t"
    found = connect(daf).sql(query).to_pandas()
    groups = (
        frame.groupby("t")[column]
        .agg(["count", "mean"])
        .sort_index(key=lambda i: i.map(str.encode))
    )
    assert found.t.tolist() == groups.index.tolist()
    assert found.n.tolist() == groups["count"].tolist()
    np.testing.assert_allclose(
        found["mean"].astype(float), groups["mean"].astype(float), rtol=1e-6, equal_nan=True
    )


@st.composite
def selectors(draw: st.DrawFn, length: int) -> tuple[Any, list[int]]:
    """Return a selector and the positions that it means."""
    every = list(range(length))
    match draw(st.integers(0, 4)):
        case 0:
            return None, every
        case 1:
            limit = draw(st.integers(0, length))
            return f"index < {limit}", every[:limit]
        case 2:
            mask = draw(st.lists(st.booleans(), min_size=length, max_size=length))
            return np.array(mask, dtype=bool), [i for i in every if mask[i]]
        case 3:
            picked = draw(st.lists(st.integers(0, length - 1), max_size=8)) if length else []
            return picked, picked
        case _:
            start, stop = sorted((draw(st.integers(0, length)), draw(st.integers(0, length))))
            return slice(start, stop), every[start:stop]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_slices_are_those_of_scipy(block: int) -> None:
    """Any matrix, any selection, any layout, any block size: the cells of scipy."""

    @RELAXED
    @given(st.data())
    def check(data: st.DataObject) -> None:
        random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        shape = (data.draw(st.integers(0, 12)), data.draw(st.integers(0, 9)))
        kind = data.draw(st.sampled_from(KINDS))
        values = random_values(random, kind, shape)
        values[random.random(shape) < 0.6] = 0
        daf = data_set(cell=shape[0], gene=shape[1])
        is_sparse = data.draw(st.booleans())
        stored = sp.csc_array(values) if is_sparse else values
        both = data.draw(st.booleans())
        transposed = data.draw(st.booleans())
        if is_sparse and data.draw(st.booleans()):
            index = data.draw(st.sampled_from(["u1", "i2", "u4", "u8"]))
            colptr, rowval = ((n + 1).astype(index) for n in (stored.indptr, stored.indices))
            arrays = {"colptr": colptr, "rowval": rowval, "nzval": stored.data}
            write_stored(daf, "matrices/cell/gene/m", arrays)
            if both:
                daf.relayout_matrix("cell", "gene", "m")
        elif transposed:
            by_genes = sp.csr_array(stored).T if is_sparse else values.T
            daf.set_matrix("gene", "cell", "m", by_genes, relayout=both)
        else:
            daf.set_matrix("cell", "gene", "m", stored, relayout=both)
        rows, i = data.draw(selectors(shape[0]))
        columns, j = data.draw(selectors(shape[1]))
        part = connect(daf).matrix("cell", "gene", "m", rows=rows, columns=columns)
        expected = values[i][:, j]
        assert part.shape == expected.shape
        assert part.to_numpy().tolist() == expected.tolist()
        sparse = part.to_scipy()
        assert sparse.toarray().tolist() == expected.tolist()
        assert sparse.has_canonical_format
        table = part.to_arrow().to_pandas()
        assert sum(table["value"].astype(float)) == expected[expected != 0].astype(float).sum()
        assert part.rows.tolist() == [f"c{k}" for k in i]

    with pytest.MonkeyPatch.context() as patch:
        lower(patch, gathered_elements=block)
        check()


@RELAXED
@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.integers(0, 6), st.integers(0, 6))
def test_whole_matrices_are_those_that_were_set(
    seed: int, kind: StorageType, height: int, width: int
) -> None:
    """Both orientations, dense and sparse, of any type and shape."""
    random = np.random.default_rng(seed)
    values = random_values(random, kind, (height, width))
    daf = data_set(
        a=height, b=width, matrices={("a", "b", "d"): values, ("a", "b", "s"): sp.coo_array(values)}
    )
    for name in "ds":
        assert dense(daf.get_np_matrix("a", "b", name)).tolist() == values.tolist()
        found = dense(daf.get_np_matrix("b", "a", name, relayout=False)).tolist()
        assert found == values.T.tolist()
