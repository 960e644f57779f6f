"""Tests of profiles that become matrices, with the axis of their groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import DafSession
from daf_storage import DafWriter
from tests.support import data_set

COUNTS = np.array([[0, 1, 4], [2, 0, 3], [0, 0, 0], [4, 5, 6]], "i4")
TYPES = np.array(["T", "B", "T", "B"])


@pytest.fixture
def daf() -> DafWriter:
    """Return cells of types, genes and counts."""
    cells = {"name": ["a", "b", "c", "d"], "type": TYPES.tolist(), "age": [1, 1, 2, 2]}
    counts = {("cell", "gene", "UMIs"): sp.csr_array(COUNTS)}
    return data_set(cell=cells, gene=["x", "y", "z"], matrices=counts)


def grouped(statistic: Any) -> Any:
    """Return what numpy says of the types B and T."""
    return np.array([statistic(COUNTS[name == TYPES], axis=0) for name in ("B", "T")]).tolist()


def test_the_axis_is_made_in_the_same_step(session: DafSession, daf: DafWriter) -> None:
    """It is called as the group column, with the sizes of the groups; both layouts are stored."""
    profile = session.profile("cell", "gene", "UMIs", by="type")
    session.save_matrix(profile)
    assert daf.axis_entries("type").tolist() == ["B", "T"]
    assert daf.vectors_set("type") == {"count"}
    assert daf.get_np_vector("type", "count").tolist() == [2, 2]
    assert daf.get_np_matrix("type", "gene", "mean_UMIs").tolist() == grouped(np.mean)
    assert daf.has_matrix("gene", "type", "mean_UMIs", relayout=False)
    session.save_matrix(profile, name="most", statistic="max")
    session.save_matrix(profile, statistic="nonzero")
    assert daf.get_np_matrix("type", "gene", "most").tolist() == grouped(np.max)
    assert daf.get_np_matrix("type", "gene", "nonzero_UMIs").tolist() == grouped(np.count_nonzero)
    joined = "SELECT c.name, t.count FROM cell AS c JOIN type AS t ON c.type = t.name"
    assert session.sql(joined).count() == 4


def test_an_axis_that_is_there(session: DafSession, daf: DafWriter) -> None:
    """Groups go to their entries, in whatever order; the others need a value."""
    daf.add_axis("cluster", ["T", "unused", "B"])
    profile = session.profile("cell", "gene", "UMIs", by="type", columns=["z", "x"])
    session.save_matrix(profile, "cluster", name="m", fill=np.nan)
    found = daf.get_np_matrix("cluster", "gene", "m").tolist()
    assert str(found) == "[[0.0, nan, 2.0], [nan, nan, nan], [3.0, nan, 4.5]]"
    assert not daf.vectors_set("cluster")
    session.save_matrix(profile, "cluster", name="m", fill=0, if_exists="replace", relayout=False)
    assert daf.get_np_matrix("cluster", "gene", "m").tolist()[1] == [0, 0, 0]


def test_names_of_several_groups(session: DafSession, daf: DafWriter) -> None:
    """Are joined; the values stay as vectors, also where they are no strings."""
    profile = session.profile("cell", "gene", "UMIs", by=["type", "age"])
    session.save_matrix(profile, "kind", relayout=False)
    assert not daf.has_matrix("gene", "kind", "mean_UMIs", relayout=False)
    assert daf.axis_entries("kind").tolist() == ["B_1", "B_2", "T_1", "T_2"]
    assert daf.get_np_vector("kind", "type").tolist() == ["B", "B", "T", "T"]
    assert daf.get_np_vector("kind", "age").tolist() == [1, 2, 1, 2]
    session.save_matrix(session.profile("cell", "gene", "UMIs", by="age > 1 AS old"), name="m")
    assert daf.axis_entries("old").tolist() == ["false", "true"]
    assert daf.get_np_vector("old", "old").tolist() == [False, True]
    session.save_matrix(session.profile("cell", "gene", "UMIs"), "whole")
    assert daf.axis_entries("whole").tolist() == ["all"]


def test_genes_go_by_name(session: DafSession, daf: DafWriter) -> None:
    """Also where their axis was reordered after the profile was made."""
    profile = session.profile("cell", "gene", "UMIs", by="type")
    daf.reorder_axis("gene", [2, 1, 0])
    session.save_matrix(profile)
    found = session.matrix("type", "gene", "mean_UMIs", columns=["x", "y", "z"])
    assert found.to_numpy().tolist() == grouped(np.mean)
