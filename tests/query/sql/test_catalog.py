"""Tests of the tables that a session offers: which there are, whoever made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from daf_query import connect, zarr_table
from daf_storage import errors
from tests.support import create, data_set


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Return a table of three rows."""
    group = zarr.open_group(tmp_path / "s.zarr", mode="w").create_group("meta")
    group.create_array("n", data=np.arange(3))
    return zarr_table(tmp_path / "s.zarr")


@pytest.mark.parametrize("is_collection", [False, True])
def test_tables_that_exist(tmp_path: Path, table: Any, *, is_collection: bool) -> None:
    """Axes, what describes the data sets, what queries made, what was registered."""
    for name in ("a", "b"):
        data_set(create(tmp_path / f"{name}.daf.zarr"), cell=["x", "y"]).set_scalar("n", 1)
    session = connect(str(tmp_path / ("*.daf.zarr" if is_collection else "a.daf.zarr")))
    session.register(table, "shared")
    session.sql("CREATE TABLE made AS SELECT 1 AS one", allow="write")
    (schema,) = session._engine.connections.schemas.values()
    described = {"relations", "matrices"} | (set() if is_collection else {"scalars"})
    assert set(schema.table_names) == {"cell", "made", "shared"} | described
    requested = ("cell", "scalars", "relations", "matrices", "made", "shared", "gene", "")
    assert set(filter(schema.table_exist, requested)) == set(schema.table_names)


def test_tables_of_no_data_set(table: Any) -> None:
    """They are in a schema of their own, where queries may add others."""
    session = connect({"shared": table})
    session.sql("CREATE TABLE public.other AS SELECT 1 AS one", allow="write")
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    assert set(session.sql(listed).to_pydict()["table_name"]) == {"shared", "other"}
    assert session.sql("SELECT count(*) AS n FROM public.shared, other").to_pydict() == {"n": [3]}
    with pytest.raises(errors.DafError, match="no table 'x'"):
        session.sql("SELECT * FROM public.x")
