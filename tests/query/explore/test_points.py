"""Tests of the points of embeddings, and of their colours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from daf_query import connect
from daf_query.explore import app
from daf_query.syntax import quoted_name
from daf_storage import import_h5ad
from tests.query.explore.conftest import (
    AXIS,
    CELLS,
    HOSTILE,
    TOKEN,
    client_of,
    data_sets_of,
    explored,
    points,
    table_of,
    tiny,
)

NUMBERS = np.arange(CELLS)


def colour(client: TestClient, sql: str, **axis: str) -> pa.Array:
    """Return the values that an axis is coloured by."""
    reply = client.post("/api/colour", json={**AXIS, **axis, "sql": sql})
    table = table_of(reply)
    assert table.column_names == ["value"]
    return table.column(0).combine_chunks()


def test_points_of_a_matrix_and_of_vectors(client: TestClient) -> None:
    """In the order of the axis, x and y in turn."""
    expected = np.stack([NUMBERS, -NUMBERS], axis=1)
    np.testing.assert_array_equal(points(client, "tsne"), expected)
    np.testing.assert_array_equal(points(client, "X_umap"), expected / [2, 4])


@pytest.mark.parametrize("values", [["w"] * CELLS, ["1"] * CELLS, NUMBERS > 1])
def test_coordinates_that_are_no_numbers_any_more(values: Any) -> None:
    """A column may be replaced after its type was looked at: that is no fault of the server."""
    daf = tiny()
    daf.set_vector("cell", "tsne_1", values, if_exists="replace")
    reply = explored(daf).post("/api/points", json={**AXIS, "embedding": "tsne"})
    assert reply.status_code == 400
    assert "a coordinate has to be a number, and 'tsne_1' is " in reply.json()["message"]


def test_colours_are_those_of_sql(client: TestClient) -> None:
    """Numbers as float32, NaN where they are missing; all else as a dictionary of strings."""
    age = colour(client, "age")
    assert age.type == pa.float32()
    np.testing.assert_array_equal(age.to_numpy(), NUMBERS)
    score = colour(client, "score").to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(np.isnan(score), NUMBERS % 7 == 0)
    hostile = colour(client, quoted_name(HOSTILE)).to_numpy()
    np.testing.assert_array_equal(hostile, NUMBERS * 2)
    kinds = colour(client, "type")
    assert kinds.type == pa.dictionary(pa.int8(), pa.string())
    assert kinds.dictionary.to_pylist() == ["B", "NK", "T"]
    assert kinds.to_pylist() == np.array(["T", "B", "NK"])[NUMBERS % 3].tolist()
    note = colour(client, "note")
    assert note.to_pylist() == ["odd" if number % 2 else None for number in NUMBERS]
    large = colour(client, "age >= 100 -- many")
    assert large.to_pylist() == [str(number >= 100).lower() for number in NUMBERS]
    half = colour(client, "CASE WHEN age > 9 THEN age / 2.0 END").to_numpy()
    np.testing.assert_array_equal(half[10:], NUMBERS[10:] / 2)
    assert np.isnan(half[:10]).all()
    for gene, factor in (("CD8A", 1), ("it''s", 3)):
        values = colour(client, f"\"gene.X\"['{gene}']")
        np.testing.assert_array_equal(values.to_numpy(), NUMBERS * factor)
    names = colour(client, "name")
    assert names.type.index_type == pa.int16()
    assert names.to_pylist() == [f"C{number}" for number in NUMBERS]


def staged(stages: list[str], colours: list[str]) -> anndata.AnnData:
    """Return cells with a stage, which has an order, a category without cells, and colours."""
    order = ["week 2", "week 10", "never", "relapse"]
    obs = pd.DataFrame(
        {"stage": pd.Categorical(stages, order), "plain": stages},
        index=[f"c{number}" for number in range(len(stages))],
    )
    return anndata.AnnData(
        np.ones((len(stages), 1)), obs, uns={"stage_colors": np.array(colours, object)}
    )


@pytest.mark.parametrize("form", ["h5ad", "directory", "collection"])
def test_categories_have_the_order_and_the_colours_of_the_data(form: str, tmp_path: Path) -> None:
    """As in a plot; an expression has none, and neither has a column without categories."""
    colours = ["#112233", "red", "#445566", "#778899"]
    path = tmp_path / "a.h5ad"
    staged(["relapse", "week 10", "week 2", "week 10"], colours).write_h5ad(path)
    if form == "directory":
        import_h5ad(path, path := tmp_path / "a.daf.zarr")
    elif form == "collection":
        staged(["week 2", "relapse"], ["green"] * 4).write_h5ad(tmp_path / "b.h5ad")
        path = tmp_path / "*.h5ad"
    with connect({"x": str(path)}) as session:
        client = client_of(app(session, token=TOKEN))

        def coloured(sql: str) -> tuple[list[str], Any]:
            body = {"schema": "x", "axis": "obs", "sql": sql}
            reply = client.post("/api/colour", json=body)
            column = table_of(reply)
            noted = (column.field(0).metadata or {}).get(b"colours")
            values = column.column(0).combine_chunks()
            assert values.to_pylist()[:3] == ["relapse", "week 10", "week 2"]
            return values.dictionary.to_pylist(), noted and json.loads(noted)

        (described,) = data_sets_of(session)
        assert ("read in place" in described["form"]) is (form == "h5ad")
        kinds = {each["name"]: each["kind"] for each in described["axes"][0]["vectors"]}
        assert kinds == {"stage": "string", "plain": "string"}
        order = ["week 2", "week 10", "never", "relapse"]
        assert coloured('"stage"') == coloured("stage") == (order, colours)
        assert coloured("stage || ''") == (["relapse", "week 10", "week 2"], None)
        assert coloured("plain")[1] is None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CAST(age AS DECIMAL(9, 2)) / 4", [0.0, 0.25, 0.5]),
        ("NULLIF(CAST(age AS DECIMAL(9, 2)), 1)", [0.0, None, 2.0]),
        ("arrow_cast(age, 'Float16')", [0.0, 1.0, 2.0]),
        ("arrow_cast(NULLIF(age, 1), 'UInt16')", [0.0, None, 2.0]),
        ("9007199254740993 + age * 1000000", [2.0**53, 2.0**53 + 10**6, 2.0**53 + 2 * 10**6]),
        ("NULL", [None] * 3),
        ("CASE age WHEN 1 THEN 'one' END", [None, "one", None]),
    ],
)
def test_values_of_each_type(client: TestClient, sql: str, expected: list[Any]) -> None:
    """Those that are missing are NaN, or NULL."""
    found = colour(client, sql).slice(0, 3)
    values = [None if value != value else value for value in found.to_pylist()]  # noqa: PLR0124 - NaN
    assert values == pytest.approx(expected)


def test_several_data_sets() -> None:
    """As one schema, the entries of the second follow those of the first; those that it lacks are missing."""
    other = tiny()
    other.set_vector("cell", "type", ["M"] * CELLS, if_exists="replace")
    other.delete_matrix("cell", "X_umap", "X_umap")
    client = explored([tiny(), other])
    assert colour(client, "type").to_pylist() == [
        *np.array(["T", "B", "NK"])[NUMBERS % 3],
        *["M"] * CELLS,
    ]
    expected = np.stack([NUMBERS, -NUMBERS], axis=1)
    np.testing.assert_array_equal(points(client, "tsne"), np.tile(expected, (2, 1)))
    found = points(client, "X_umap")
    np.testing.assert_array_equal(found[:CELLS], expected / [2, 4])
    assert np.isnan(found[CELLS:]).all()
    reply = client.post("/api/points", json={**AXIS, "embedding": "X_uma"})
    assert (
        "no embedding 'X_uma' of axis 'cell'; there are X, X_umap; did you mean"
        in reply.json()["message"]
    )
