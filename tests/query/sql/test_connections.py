"""Tests of what a session is connected to."""

from __future__ import annotations

import pickle
from pathlib import Path

import pandas as pd

from daf_query import connect
from tests.support import filled


def test_connections_are_pickled(tmp_path: Path) -> None:
    """Data sets, users' tables and views; what is registered later, too."""
    filled(tmp_path / "x.daf.zarr")
    session = connect(tmp_path / "x.daf.zarr")
    session.register(pd.DataFrame({"id": ["a"]}), "samples")
    session.sql("CREATE VIEW few AS SELECT * FROM cell LIMIT 1", allow="write")
    twin = pickle.loads(pickle.dumps(session))
    assert twin.tables() == session.tables()
    query = "SELECT (SELECT count(*) FROM samples) + (SELECT count(*) FROM few) AS n"
    assert twin.sql(query).to_pydict() == {"n": [2]}
