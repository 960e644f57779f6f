"""Samplers and batches are the same in every form that data sets have."""

from __future__ import annotations

import numpy as np
import pytest

from daf_query import connect
from tests.engines.conftest import CELLS, FORMS


@pytest.mark.parametrize("form", FORMS)
def test_every_form_feeds_the_same_cells(forms: dict[str, str], form: str) -> None:
    """Splits, weights, the order of an epoch, rows and labels."""
    with connect(forms["plain"]) as plain, connect(forms[form]) as other:
        batches = []
        for db in (plain, other):
            sampler = db.sampler(
                "obs",
                where="age > 10",
                weights="1 / count(*) OVER (PARTITION BY cell_type)",
                split={"train": 0.7, "val": 0.3},
                stratify="cell_type",
            )
            grouped = db.sampler("obs", split={"a": 0.4, "b": 0.6}, groups="donor")
            blocks = sampler["train"].blocks(
                db.matrix("obs", "var", "X"),
                labels=["cell_type", "age"],
                batch_rows=16,
                block_rows=4,
                fetch_batches=3,
                draw="once",
            )
            rows = sampler.to_arrow().select(["name", "split", "weight"]).to_pylist()
            batches.append((rows, grouped.sizes, list(blocks)))
        (rows, sizes, expected), (other_rows, other_sizes, found) = batches
        assert 0 < len(rows) < CELLS
        assert other_sizes == sizes
        assert [{**row, "weight": round(row["weight"], 12)} for row in other_rows] == [
            {**row, "weight": round(row["weight"], 12)} for row in rows
        ]
        assert len(found) == len(expected)
        for batch, ours in zip(found, expected, strict=True):
            for name in ("x", "index", "cell_type", "age"):
                assert np.array_equal(batch[name], ours[name]), name
