"""Tests of what a session is connected to."""

from __future__ import annotations

import pickle
from pathlib import Path

import pandas as pd
import pytest

from daf_query import DafSession, connect
from daf_storage import DafWriter, MemoryDaf, errors
from tests.support import create, fill


def small(name: str, axis: str) -> DafWriter:
    """Return a data set with one axis."""
    daf = MemoryDaf(name=name)
    daf.add_axis(axis, ["a", "b"])
    return daf


@pytest.fixture
def session() -> DafSession:
    """Return a session with a data set, another one and a user's table."""
    session = connect({"x": small("x", "cell")})
    session.register(small("y", "donor"), "y")
    session.register(pd.DataFrame({"id": ["a"]}), "samples")
    return session


def test_names_are_taken_once(session: DafSession) -> None:
    """By data sets, tables and the schemas of the engine; after unregistering, a name is free."""
    for name in ("x", "y", "samples", "public", "information_schema"):
        with pytest.raises(errors.ExistsError, match=f"connected as '{name}' already"):
            session.register(small("z", "gene"), name)
    with pytest.raises(errors.InvalidNameError):
        session.register(small("z", "gene"), " ")
    for name in ("y", "samples"):
        session.unregister(name)
        session.register(small("z", f"of_{name}"), name)
    axes = {"x": "cell", "y": "of_y", "samples": "of_samples"}
    assert session.tables() == [
        f"{schema}.{table}"
        for schema, axis in axes.items()
        for table in (axis, "matrices", "relations", "scalars")
    ]


def test_what_is_not_connected_is_named(session: DafSession) -> None:
    """With what is there instead."""
    with pytest.raises(errors.NotFoundError, match="nothing is connected as 'z'; there are samples, x, y"):  # fmt: skip
        session.unregister("z")
    with pytest.raises(errors.NotFoundError, match="no data set 'z' is connected; there are x, y"):
        session.reader("z")
    with pytest.raises(errors.InvalidInputError, match="say which with schema=, one of x, y"):
        session.reader()


def test_a_user_table_does_not_hide_an_axis(session: DafSession) -> None:
    """Nor does an axis hide it: whichever comes second is refused, and nothing is left of it."""
    with pytest.raises(errors.ExistsError, match="there is a table 'cell' already"):
        session.register(pd.DataFrame({"id": ["a"]}), "cell")
    with pytest.raises(errors.ExistsError, match="'z' has a table 'samples'"):
        session.register(small("z", "samples"), "z")
    assert "z" not in session.schemas
    assert session.sql("SELECT count(*) AS n FROM samples").to_pydict() == {"n": [1]}


def test_connections_are_pickled(tmp_path: Path) -> None:
    """Data sets, users' tables and views; what is registered later, too."""
    fill(create(tmp_path / "x.daf.zarr"))
    session = connect(tmp_path / "x.daf.zarr")
    session.register(pd.DataFrame({"id": ["a"]}), "samples")
    session.sql("CREATE VIEW few AS SELECT * FROM cell LIMIT 1", allow="write")
    twin = pickle.loads(pickle.dumps(session))
    assert twin.tables() == session.tables()
    query = "SELECT (SELECT count(*) FROM samples) + (SELECT count(*) FROM few) AS n"
    assert twin.sql(query).to_pydict() == {"n": [2]}
