"""Tests of which columns are embeddings, and in which order they are offered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from daf_query import connect
from daf_storage import DafWriter
from tests.query.explore.conftest import data_sets_of, explored, points
from tests.support import data_set


def embedded(*matrices: tuple[str, str, int]) -> DafWriter:
    """Return cells with a matrix of zeros for each axis, name and length."""
    axes: Any = {axis: length for axis, _, length in matrices}
    values = {("cell", axis, name): np.zeros((2, length)) for axis, name, length in matrices}
    return data_set(name="embeddings", matrices=values, cell=["a", "b"], **axes)


def names(daf: DafWriter) -> list[str]:
    """Return the names of the embeddings of cells."""
    (described,) = data_sets_of(connect(daf))
    (cell,) = (axis for axis in described["axes"] if axis["name"] == "cell")
    embeddings: list[str] = cell["embeddings"]
    return embeddings


def test_what_people_look_at_first_comes_first() -> None:
    """In any case and with whatever beside it; others alphabetically at the end."""
    shown = ["pca", "DRAW_graph_fa", "X_umap", "spatial", "my_tSNE", "phate", "diffmap", "zz", "aa"]
    daf = embedded(*((name, name, 2) for name in shown))
    expected = ["spatial", "X_umap", "my_tSNE", "DRAW_graph_fa", "phate", "diffmap", "pca"]
    assert names(daf) == [*expected, "aa", "zz"]


@pytest.mark.parametrize(
    ("axis", "name", "length", "is_offered"),
    [
        ("X_umap", "X_umap", 2, True),
        ("X_umap", "X_umap", 2000, True),
        ("X_umap", "X_umap", 1, False),
        ("X_umap", "X_umap", 2001, False),
        ("umap_axis", "umap", 2, True),
        ("UMAP_axis", "x_umap", 2, True),
        ("dimension", "X_umap", 2, True),
        ("dimension", "umap", 2, False),
        ("gene", "X", 2, False),
        ("gene", "g", 2, False),
        ("gene", "ge", 2, True),
    ],
)
def test_which_matrices_are_embeddings(axis: str, name: str, length: int, is_offered: bool) -> None:  # noqa: FBT001 - a case
    """Those whose other axis has their columns alone: from 2 to 2,000."""
    assert names(embedded((axis, name, length))) == ([name] if is_offered else [])


def test_which_are_none() -> None:
    """Strings, sparse ones, and those of an axis that has vectors."""
    daf = embedded(("X_a", "X_a", 3), ("X_b", "X_b", 3), ("X_c", "X_c", 3), ("X_d", "X_d", 3))
    daf.set_vector("X_b", "weight", [1, 2, 3])
    daf.set_matrix("cell", "X_c", "X_c", [["x"] * 3] * 2, if_exists="replace")
    sparse = csr_matrix(np.eye(2, 3))
    daf.set_matrix("cell", "X_d", "X_d", sparse, if_exists="replace")
    assert names(daf) == ["X_a"]


def test_pairs_of_vectors() -> None:
    """A pair of sides of one stem; the first that there is, and a matrix of the name before it."""
    daf = embedded(("umap", "umap", 2))
    for number, vector in enumerate(("umap_1", "umap_2")):
        daf.set_vector("cell", vector, [number, number])
    assert names(daf) == ["umap"]
    assert points(explored(daf), "umap").tolist() == [[0, 0], [0, 0]]
    daf = embedded()
    for vector in ("0", "t0", "t1", "t2", "x", "y", "aX", "aY", "bx", "bY", "c-1", "d.2", "e 1"):
        daf.set_vector("cell", vector, [ord(vector[0]), ord(vector[-1])])
    daf.set_vector("cell", "e 2", [0, 7])
    assert names(daf) == ["a", "e", "t", "x, y"]
    client = explored(daf)
    assert points(client, "t").tolist() == [[116, 116], [49, 50]]
    assert points(client, "x, y").tolist() == [[120, 121], [120, 121]]
    assert points(client, "a").tolist() == [[97, 97], [88, 89]]
    assert points(client, "e").tolist() == [[101, 0], [49, 7]]
