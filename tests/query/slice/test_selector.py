"""Tests of what ``rows=`` and ``columns=`` may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from daf_query import DafSession, connect
from daf_query.index import build_index
from daf_storage import open_daf
from tests.support import CELLS, data_set


def rows(session: DafSession, selector: Any) -> list[int]:
    """Return the positions that a selector of cells means."""
    part = session.matrix("cell", "gene", "UMIs", rows=selector)
    return [int(position) for position in part.row_positions]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, [0, 1, 2]),
        ("age > 50", [1, 2]),
        ("age > 50 AND type = 'TCell' -- old T cells", [1, 2]),
        ("true", [0, 1, 2]),
        ("age > (SELECT CAST(value AS INT) FROM scalars WHERE name = 'n') * 5", [1, 2]),
        ("SELECT name FROM cell ORDER BY age DESC", [2, 1, 0]),
        ("SELECT name FROM cell ORDER BY age DESC LIMIT 2", [2, 1]),
        ("  select index from cell where age > 50", [1, 2]),
        ("(SELECT name FROM cell WHERE age = 60)", [1]),
        ("-- the oldest\nSELECT name, max(age) FROM cell GROUP BY name HAVING max(age) > 80", [2]),
        ("WITH old AS (SELECT name FROM cell WHERE age > 50) SELECT name FROM old", [1, 2]),
        ("SELECT c.name FROM cell c JOIN cell d ON c.type = d.type", [0, 1, 2]),
        ("SELECT index FROM cell WHERE false", []),
        (["CATA", "TATA", "CATA"], [2, 0, 2]),
        (("GATA",), [1]),
        (np.array(["GATA", "CATA"]), [1, 2]),
        (pd.Index(["GATA"]), [1]),
        (pa.array(["CATA", "GATA"]), [2, 1]),
        (pa.chunked_array([["CATA"], ["GATA"]]), [2, 1]),
        ([2, 0, 0], [2, 0, 0]),
        (np.array([1], dtype=np.uint8), [1]),
        (range(2), [0, 1]),
        (slice(1, None), [1, 2]),
        (slice(None, None, -1), [2, 1, 0]),
        ([True, False, True], [0, 2]),
        (np.array([False] * 3), []),
        (pd.Series([True, False, True], index=CELLS), [0, 2]),
        (pd.Series([False, True, False]), [1]),
        ([], []),
        ("age > 40 ORDER BY age DESC", [2, 1]),
        ("age > 40 ORDER BY age DESC LIMIT 1", [2]),
        ("age > 0 -- all\nORDER BY type, age DESC -- the order\nLIMIT 2 OFFSET 1", [2, 1]),
        ("ORDER BY age DESC LIMIT 2", [2, 1]),
        ("order by age desc -- the oldest first", [2, 1, 0]),
        ("LIMIT 2", [0, 1]),
        ("age > 40 LIMIT 1", [1]),
        ("age > 0 LIMIT 5 OFFSET 1", [1, 2]),
        ("ORDER BY true LIMIT 2", [0, 1]),
        ("name IN (SELECT name FROM cell ORDER BY age DESC LIMIT 1)", [2]),
        ({"CATA", "TATA"}, [0, 2]),
        (frozenset({2, 0}), [0, 2]),
        ({"CATA": 1, "TATA": 2}.keys(), [2, 0]),
        (iter(["CATA"]), [2]),
        (pd.Series(["CATA", "TATA"]), [2, 0]),
        (pd.Series(["CATA", "TATA"], dtype="string"), [2, 0]),
        (pd.Series(["CATA", "TATA"], dtype="category"), [2, 0]),
        (pd.Series([2, 0], dtype="Int64"), [2, 0]),
        (pd.array([None, None, None], "boolean"), []),
        (pd.Series([None, True, False], dtype=object), [1]),
        (pd.Series([True, None, True], index=CELLS, dtype="boolean"), [0, 2]),
        (pd.DataFrame({"name": ["CATA", "TATA", "CATA"]})["name"], [2, 0, 2]),
        (pd.DataFrame({"name": ["CATA", "TATA", "CATA"]}), [2, 0, 2]),
        (pd.DataFrame({"age": [1]}, index=["GATA"]), [1]),
        (pd.DataFrame({"index": [2, 1]}), [2, 1]),
        (pl.Series(["CATA", "TATA"]), [2, 0]),
        (pl.Series(["CATA"], dtype=pl.Categorical), [2]),
        (pl.Series([True, None, True]), [0, 2]),
        (pl.Series([2, 0]), [2, 0]),
        (pl.Series([], dtype=pl.Null), []),
        (pl.DataFrame({"name": ["CATA", "TATA"]}), [2, 0]),
        (pl.LazyFrame({"name": ["CATA", "TATA"]}), [2, 0]),
        (pa.table({"index": [2, 0], "name": ["CATA", "TATA"]}), [2, 0]),
        (pa.array([True, None, True]), [0, 2]),
        (pa.array([2, 1], pa.uint8()), [2, 1]),
        (pa.array(["CATA"]).dictionary_encode(), [2]),
        (pa.array(["CATA"], pa.string_view()), [2]),
    ],
)
def test_selectors(tiny_session: DafSession, selector: Any, expected: list[int]) -> None:
    """Predicates, SELECTs, names, positions and masks; lists keep order and duplicates.

    The table of queries has other predicates.
    """
    assert rows(tiny_session, selector) == expected


ALIKE = [
    *("a", "a\0", "a\0\0", "\0", "A", "a ", " a", "a\0b", "\u00e9", "e\u0301", "\u0430"),
    "?",
    "$x",
    "a?",
]


@pytest.mark.parametrize("indexed", [False, True])
def test_names_that_look_alike(tmp_path: Path, *, indexed: bool) -> None:
    """Each chooses its own row: by NUL characters, spaces, cases, accents and ? they differ."""
    daf = open_daf(tmp_path / "alike.daf.zarr", "w")
    daf.add_axis("cell", ALIKE, vectors={"label": ALIKE})
    data_set(daf, gene=["G"], matrices={("cell", "gene", "X"): np.arange(len(ALIKE))[:, None]})
    if indexed:
        build_index(daf, "cell", ["name", "label"])
    session = connect(daf)

    def chosen(rows: Any, params: Any = None) -> list[int]:
        part = session.matrix("cell", "gene", "X", rows=rows, params=params)
        found: list[int] = part.to_numpy()[:, 0].tolist()
        return found

    for place, name in enumerate(ALIKE):
        for rows in ([name], (name,), {name}, iter([name]), pa.array([name]), pd.Series([name])):
            assert chosen(rows) == [place], (name, type(rows))
        for written in (f"name = '{name}'", f"label IN ('{name}', 'z')", f"label LIKE '{name}'"):
            assert chosen(written) == [place], written
        for written in ("name = $x", "label = $x", "concat(label, '') = $x"):
            assert chosen(written, {"x": name}) == [place], written
        assert chosen("name IN $x", {"x": [name]}) == [place]
    assert chosen(ALIKE[::-1]) == list(range(len(ALIKE)))[::-1]
    assert chosen(["a\0", "a"]) == [1, 0]
