"""Filters made at random leave the same rows by every way to a table."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from daf_query import connect
from daf_query.fragments import plan_fragments
from tests.support import OPERATORS

CELLS = 300
VALUES: dict[str, list[Any]] = {
    "f64": [0.0, -0.0, 1.5, 0.1, float("inf"), 1.0, 2.0**53],
    "f32": [0.0, 1.5, 16777216.0],
    "i8": [0, -1, 127, 128, 1000, -129],
    "ni": [0, 1, -1, 1 << 31, -(1 << 40)],
    "i64": [0, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)],
    "s": ["", "a", "it's", '"q"', "é", "日本", "A"],
    "catn": ["x", "it's", "", "none"],
    "Big.Name x": [0, 1, 3],
    'we"ird': [0, 4],
    "nb": [True, False],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return an h5ad file with missing, special and extreme values."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(-2, 5, CELLS)
    words = rng.choice(VALUES["catn"][:3], CELLS).astype(object)
    words[numbers == 2] = None
    obs = {
        "f64": rng.choice([0.0, -0.0, 1.5, -1.5, np.nan, np.inf, -np.inf, 0.1, 1e300], CELLS),
        "f32": rng.choice(np.array([0.0, -0.0, 0.1, np.nan, 16777216, 1.5], "f4"), CELLS),
        "i8": rng.choice(np.array([-128, -1, 0, 1, 127], "i1"), CELLS),
        "ni": pd.array([None if n < 0 else int(n) for n in numbers], dtype="Int32"),
        "i64": rng.choice(np.array([0, -1, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]), CELLS),
        "s": rng.choice(VALUES["s"], CELLS).astype(object),
        "catn": pd.Categorical(words),
        "Big.Name x": rng.integers(0, 5, CELLS),
        'we"ird': rng.integers(0, 5, CELLS),
        "nb": pd.array([None if n < 0 else bool(n % 2) for n in numbers], dtype="boolean"),
    }
    path = tmp_path_factory.mktemp("same") / "cells.h5ad"
    index = [f"c{number}" for number in range(CELLS)]
    ad.AnnData(obs=pd.DataFrame(obs, index=index)).write_h5ad(path)
    return str(path)


def _filter(rng: random.Random, column: Callable[[str], Any], depth: int = 0) -> Any:
    """Return a filter; another one of the same generator if the columns are of another engine."""
    choice = rng.random()
    if depth > 2 or choice < 0.5:
        name = rng.choice(list(VALUES))
        if rng.random() < 0.15:
            return column(name).is_null()
        return rng.choice([*OPERATORS.values()])(column(name), rng.choice(VALUES[name]))
    left = _filter(rng, column, depth + 1)
    if choice < 0.65:
        return ~left
    right = _filter(rng, column, depth + 1)
    return left & right if choice < 0.85 else left | right


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_filters_leave_the_same_rows(path: str, seed: int) -> None:
    """Those that Arrow and polars leave of the table in memory."""
    with connect(path) as session:
        table = session.table("obs")
        whole = table.to_table()
        frame, lazy = pl.DataFrame(whole), session.lazy_frame("obs")
        for number in range(20):
            expression = _filter(random.Random(seed * 100 + number), pc.field)
            expected = whole.filter(expression)["index"].to_pylist()
            scanned = table.to_table(["index"], filter=expression)["index"].to_pylist()
            assert scanned == expected, expression
            plan = plan_fragments(path, "obs", columns=["index"], filter=expression)
            batches = [batch for fragment in plan.fragments for batch in fragment.read()]
            read = pa.Table.from_batches(batches, plan.schema)
            assert read["index"].to_pylist() == expected, expression
            predicate = _filter(random.Random(seed * 100 + number), pl.col)
            wanted = frame.filter(predicate)["index"].to_list()
            assert lazy.filter(predicate).collect()["index"].to_list() == wanted, predicate
            assert wanted == expected, predicate
