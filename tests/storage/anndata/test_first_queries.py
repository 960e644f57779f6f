"""Tests of the first query of a session to a file of AnnData: it looks at what it names, alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daf_query import connect
from daf_storage.trees import _hdf5_array, _hdf5_objects, _hdf5_tree
from tests.storage.anndata.example import Form

N_OBS, N_VAR, N_COLUMNS = 500, 60, 40
WHERE = "type = 'T3' AND score < 0.5"


@contextmanager
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note the elements of a file that are opened."""
    opened: list[str] = []
    real_open = _hdf5_objects.open_below

    def noted_open(group: Any, name: str, *, what: str) -> Any:
        opened.append(what.partition(": ")[2])
        return real_open(group, name, what=what)

    with monkeypatch.context() as patched:
        for module in (_hdf5_tree, _hdf5_array):
            patched.setattr(module, "open_below", noted_open)
        yield opened


@pytest.mark.parametrize("form", ["h5ad", "zarr3"])
def test_first_queries_answer_as_later_ones_do(paths: dict[Form, Path], form: Form) -> None:
    """Each column by itself, in a session that knows no others, and in one that knows all."""
    with connect(paths[form]) as knowing:
        for name in knowing.table("obs").schema.names:
            with connect(paths[form]) as new:
                for query in (
                    f'SELECT "{name}" FROM obs',
                    f'SELECT "{name}", count(*) AS n FROM obs GROUP BY "{name}" ORDER BY 1',
                ):
                    found, wanted = new.sql(query), knowing.sql(query)
                    assert found.schema == wanted.schema
                    assert repr(found.to_pydict()) == repr(wanted.to_pydict())  # NaN, too
