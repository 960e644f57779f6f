"""Tests of the tables that a session offers: which there are, whoever made them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from daf_query import connect, zarr_table
from daf_storage import errors
from tests.support import create, data_set


def names_of(path: Path, *, is_collection: bool) -> tuple[list[str], dict[str, bool]]:
    """Return the tables of a session, and which names it says exist."""
    for name in ("a", "b"):
        daf = data_set(create(path / f"{name}.daf.zarr"), cell=["x", "y"])
        daf.set_scalar("n", 1)
    store = path / "s.zarr"
    zarr.open_group(store, mode="w").create_group("meta").create_array("n", data=np.arange(3))
    session = connect(str(path / ("*.daf.zarr" if is_collection else "a.daf.zarr")))
    session.register(zarr_table(store), "shared")
    session.sql("CREATE TABLE made AS SELECT 1 AS one", allow="write")
    (schema,) = session._engine.connections.schemas.values()
    requested = ("cell", "scalars", "relations", "matrices", "made", "shared", "gene", "")
    return schema.table_names, {name: schema.table_exist(name) for name in requested}


@pytest.mark.parametrize("is_collection", [False, True])
def test_tables_that_exist(tmp_path: Path, *, is_collection: bool) -> None:
    """Axes, what describes the data sets, what queries made, what was registered."""
    listed, exist = names_of(tmp_path, is_collection=is_collection)
    assert {name for name, is_there in exist.items() if is_there} == set(listed)
    described = {"relations", "matrices"} | (set() if is_collection else {"scalars"})
    assert set(listed) == {"cell", "made", "shared"} | described


def test_tables_of_no_data_set(tmp_path: Path) -> None:
    """They are in a schema of their own, where queries may add others."""
    store = tmp_path / "s.zarr"
    meta = zarr.open_group(store, mode="w").create_group("meta")
    meta.create_array("n", data=np.arange(3))
    session = connect({"shared": zarr_table(store)})
    session.sql("CREATE TABLE public.other AS SELECT 1 AS one", allow="write")
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    assert set(session.sql(listed).to_pydict()["table_name"]) == {"shared", "other"}
    assert session.sql("SELECT count(*) AS n FROM public.shared, other").to_pydict() == {"n": [3]}
    with pytest.raises(errors.DafError, match="no table 'x'"):
        session.sql("SELECT * FROM public.x")
