"""Tests of the catalogue of data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from daf_query import UnreadableVectorWarning, connect
from tests.query.explore.conftest import CELLS, HOSTILE, data_sets_of, tiny, write


def axes_of(data_set: dict[str, Any]) -> dict[str, Any]:
    """Return the axes by name."""
    return {axis["name"]: axis for axis in data_set["axes"]}


def test_what_there_is(client: TestClient) -> None:
    """Axes with the kinds of their vectors, embeddings, matrices and limits."""
    shown = client.get("/api/catalogue").json()
    assert (shown["writable"], shown["overlay"], shown["version"]) == (False, None, 1)
    assert shown["limits"] == {"rows": 1_000_000, "bytes": 1 << 30, "seconds": 120.0}
    (data_set,) = shown["data_sets"]
    assert data_set["schema"] == "tiny"
    cell = axes_of(data_set)["cell"]
    assert cell["length"] == CELLS
    kinds = {vector["name"]: vector["kind"] for vector in cell["vectors"]}
    numbers = ("age", "score", "tsne_1", "tsne_2", HOSTILE)
    assert kinds == {"note": "string", "type": "string", **dict.fromkeys(numbers, "number")}
    assert cell["embeddings"] == ["X_umap", "tsne"]
    assert axes_of(data_set)["gene"]["embeddings"] == []
    matrices = {matrix["name"]: matrix for matrix in data_set["matrices"]}
    assert (matrices["X"]["rows"], matrices["X"]["columns"]) == ("cell", "gene")
    assert (matrices["X"]["stored"], matrices["X"]["layouts"]) == (CELLS * 3, 2)


def test_a_collection_and_a_broken_vector(tmp_path: Path) -> None:
    """Several as one are one schema; what cannot be used hides nothing else."""
    for name in ("one", "two"):
        write(tmp_path / f"{name}.daf.zarr")
    pattern = str(tmp_path / "*.daf.zarr")
    sources = {"runs": pattern, "one": str(tmp_path / "one.daf.zarr"), "memory": tiny()}
    with connect(sources) as session:
        runs, one, memory = data_sets_of(session)
        assert (runs["form"], one["form"]) == ("collection of 2 data sets", "data set")
        assert memory["form"] == "data set"
        assert axes_of(runs)["cell"]["length"] == 2 * CELLS
        assert axes_of(runs)["cell"]["embeddings"] == axes_of(one)["cell"]["embeddings"]
        found = [matrix["stored"] for matrix in runs["matrices"] if matrix["name"] == "X"]
        assert found == [2 * 3 * CELLS]
    metadata = tmp_path / "one.daf.zarr" / "vectors" / "cell" / "age" / ".zarray"
    metadata.write_text("{")
    with connect(str(tmp_path / "one.daf.zarr")) as session:
        with pytest.warns(UnreadableVectorWarning, match="age"):
            (data_set,) = data_sets_of(session)
        names = [vector["name"] for vector in axes_of(data_set)["cell"]["vectors"]]
        assert "age" not in names
        assert "type" in names
