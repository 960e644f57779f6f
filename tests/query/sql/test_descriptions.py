"""Tests of which tables there are, and of those that describe data sets: relations and matrices."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from daf_query import connect, zarr_table
from daf_storage import DafWriter, Relation, ZarrDaf, errors
from tests.support import create, data_set


def sample() -> DafWriter:
    """Return a data set with relations, and matrices of each kind."""
    daf = data_set(name="sample", type=["B", "T"], gene=["x", "y"], cell=["a", "b", "c"])
    daf.set_vector("cell", "kind", ["B", "", "T"], entries_of="type")
    daf.set_vector("cell", "type.manual", ["B", "B", "Q"])
    umis = sp.csc_array(np.array([[0, 1], [2, 0], [3, 4]], np.uint16))
    daf.set_matrix("cell", "gene", "UMIs", umis)
    daf.set_matrix("gene", "type", "mean", np.ones((2, 2), np.float32), relayout=False)
    daf.set_matrix("cell", "cell", "near", np.ones((3, 3)), relayout=False)
    daf.set_matrix("cell", "type", "label", [["p", "q"]] * 3, relayout=False)
    return daf


def test_relations_of_a_data_set() -> None:
    """As a list, and as a table with the schema."""
    with connect({"one": sample()}) as session:
        relations: list[Any] = [
            ("cell", "kind", "type", "import"),
            ("cell", "type.manual", "type", "name"),
        ]
        assert session.relations() == [Relation(*relation) for relation in relations]
        rows = session.sql("SELECT * FROM relations").to_pylist()
        assert list(rows[0]) == ["schema", "axis", "vector", "to_axis", "source"]
        assert [tuple(row.values()) for row in rows] == [("one", *each) for each in relations]
        found = session.sql("SELECT vector FROM relations WHERE source = 'name'").to_pydict()
        assert found == {"vector": ["type.manual"]}


def test_matrices_of_a_data_set() -> None:
    """One row each: the layouts, what is stored, and its size without compression."""
    daf = sample()
    rows = connect({"one": daf}).sql("SELECT * FROM matrices").to_pylist()
    columns = ("rows_axis", "columns_axis", "name", "type", "is_sparse", "layouts", "rows",
               "columns", "elements", "bytes")  # fmt: skip
    sparse = [
        daf.open_matrix(*pair, "UMIs").arrays() for pair in (("cell", "gene"), ("gene", "cell"))
    ]
    umis_bytes = sum(array.read().nbytes for arrays in sparse for array in arrays.values())
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("cell", "cell", "near", "Float64", False, 1, 3, 3, 9, 72),
        ("cell", "gene", "UMIs", "UInt16", True, 2, 3, 2, 4, umis_bytes),
        ("cell", "type", "label", "String", False, 1, 3, 2, 6, None),
        ("gene", "type", "mean", "Float32", False, 1, 2, 2, 4, 16),
    ]
    assert {row["schema"] for row in rows} == {"one"}


def test_data_sets_as_one() -> None:
    """The rows of all, with a column ``dataset``; the list has each once."""
    members = [sample(), sample()]
    members[1].set_vector("gene", "cell", ["a", ""])
    one, two = (daf.name for daf in members)
    with connect({"all": members}) as session:
        rows = session.sql("SELECT * FROM relations").to_pylist()
        assert [list(row.values()) for row in rows] == [
            [one, "all", "cell", "kind", "type", "import"],
            [one, "all", "cell", "type.manual", "type", "name"],
            [two, "all", "cell", "kind", "type", "import"],
            [two, "all", "cell", "type.manual", "type", "name"],
            [two, "all", "gene", "cell", "cell", "name"],
        ]
        assert list(rows[0]) == ["dataset", "schema", "axis", "vector", "to_axis", "source"]
        found = [relation.vector for relation in session.relations()]
        assert found == ["kind", "type.manual", "cell"]
        counts = session.sql("SELECT dataset, count(*) AS n FROM matrices GROUP BY 1 ORDER BY 1")
        assert counts.to_pydict() == {"dataset": [one, two], "n": [4, 4]}


@pytest.mark.parametrize("table", ["relations", "matrices", "scalars"])
def test_an_axis_of_that_name_wins(table: str) -> None:
    """The other tables stay."""
    daf = data_set()
    daf.add_axis(table, ["x"])
    with connect(daf) as session:
        assert session.sql(f"SELECT name FROM {table}").to_pydict() == {"name": ["x"]}
        assert session.tables().count(table) == 1
        assert session.relations() == []


def test_a_broken_matrix_is_named_and_the_others_stay(tmp_path: Path) -> None:
    """The table lacks it, with a warning that says why; of two layouts one is enough."""
    path = tmp_path / "x.daf.zarr"
    daf = data_set(create(path), cell=["a", "b"], gene=["x"])
    for name in ("half", "lost", "whole"):
        daf.set_matrix("cell", "gene", name, np.ones((2, 1)))
    daf.close()
    (path / "matrices/cell/gene/half/.zarray").write_text("{")
    for pair in ("cell/gene", "gene/cell"):
        (path / f"matrices/{pair}/lost/.zarray").write_text("{")
    with (
        connect(ZarrDaf(path)) as session,
        warnings.catch_warnings(record=True, action="always") as warned,
    ):
        rows = session.sql("SELECT name, layouts FROM matrices ORDER BY name").to_pylist()
    assert rows == [{"name": "half", "layouts": 1}, {"name": "whole", "layouts": 2}]
    (warning,) = {str(each.message) for each in warned}
    assert warning.startswith("the table 'matrices' lacks 'lost' of cell x gene: ")


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Return a table of three rows."""
    group = zarr.open_group(tmp_path / "s.zarr", mode="w").create_group("meta")
    group.create_array("n", data=np.arange(3))
    return zarr_table(tmp_path / "s.zarr")


def test_tables_of_no_data_set(table: Any) -> None:
    """They are in a schema of their own, where queries may add others."""
    session = connect({"shared": table})
    session.sql("CREATE TABLE public.other AS SELECT 1 AS one", allow="write")
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    assert set(session.sql(listed).to_pydict()["table_name"]) == {"shared", "other"}
    assert session.sql("SELECT count(*) AS n FROM public.shared, other").to_pydict() == {"n": [3]}
    with pytest.raises(errors.DafError, match="no table 'x'"):
        session.sql("SELECT * FROM public.x")
