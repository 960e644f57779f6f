"""Tests of connecting and of SQL: tables, names, errors, and what queries may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daf_query import DafSession, connect
from daf_storage import MemoryDaf, errors, open_daf
from tests.support import create, data_set, fill, reopen


def test_axes_and_scalars_are_tables(tiny_session: DafSession) -> None:
    """Each axis with name, index and vectors; the scalars with name, type and value."""
    assert tiny_session.tables() == ["cell", "gene", "matrices", "relations", "scalars"]
    rows = tiny_session.sql("SELECT * FROM cell ORDER BY index").to_pylist()
    assert rows[0] == {"name": "TATA", "index": 0, "age": 30, "type": "Bcell"}
    scalars = tiny_session.sql("SELECT * FROM scalars ORDER BY name").to_pylist()
    assert scalars == [
        {"name": "n", "type": "Int64", "value": "7"},
        {"name": "organism", "type": "String", "value": "human"},
    ]


def test_several_data_sets_are_schemas(tiny_path: Path) -> None:
    """Tables and matrices are those of the data set that is named; test_gene_columns.py has joins."""
    other = data_set(cell=["CATA", "NADA"])
    session = connect({"a": tiny_path, "b": other})
    described = ["matrices", "relations", "scalars"]
    tables = {"a": ["cell", "gene", *described], "b": ["cell", *described]}
    assert session.tables() == [f"{s}.{name}" for s, names in tables.items() for name in names]
    assert session.table("cell", schema="b").count_rows() == 2
    assert session.matrix("cell", "gene", "UMIs", schema="a").shape == (3, 4)


def test_what_a_writer_adds_shows_in_the_next_query(tiny_path: Path) -> None:
    """Also quickly after one another; a deleted vector is gone."""
    session, writer = connect(tiny_path), reopen(tiny_path)
    for i in range(5):
        writer.set_vector("cell", f"v{i}", [i] * 3)
        assert session.sql(f"SELECT sum(v{i}) AS s FROM cell").to_pydict() == {"s": [3 * i]}
        kind = ["i4", "f8"][i % 2]
        writer.set_vector("cell", "same", np.full(3, i, kind), if_exists="replace")
        assert session.sql("SELECT max(same) AS s FROM cell").to_pydict() == {"s": [i]}
    writer.delete_vector("cell", "v0")
    with pytest.raises(errors.VectorNotFoundError):
        session.sql("SELECT v0 FROM cell")


def test_axes_with_odd_names(tmp_path: Path) -> None:
    """Quoted identifiers reach any axis and vector."""
    axes: Any = {'a "b" c': {"name": ["x"], "order by": [5]}, "select": ["w"]}
    daf = data_set(create(tmp_path / "odd name.daf.zarr"), **axes)
    daf.set_matrix('a "b" c', "select", "m", [[1.0]])
    session = connect(tmp_path / "odd name.daf.zarr")
    assert session.sql('SELECT "order by" AS o FROM "a ""b"" c"').to_pydict() == {"o": [5]}
    part = session.matrix('a "b" c', "select", "m", rows='"order by" = 5', columns="name = 'w'")
    assert part.shape == (1, 1)


def test_closing_a_session_closes_its_data_sets() -> None:
    """Also those that were passed as readers."""
    daf = fill(MemoryDaf())
    connect(daf).close()
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        daf.axes_set()


@pytest.mark.parametrize("case", ["list", "twice", "pattern", "mapping", "lists by name"])
def test_what_was_opened_is_closed_if_something_else_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """By their paths; a reader that was passed stays open."""
    paths = [str(tmp_path / f"{name}.daf.zarr") for name in ("first", "last")]
    data_set(create(Path(paths[0])), cell=["A"])
    ours = data_set(name="ours", cell=["A"])
    Path(paths[1]).mkdir()
    (Path(paths[1]) / ".zgroup").write_text("{")
    sources: dict[str, Any] = {
        "list": [ours, *paths],
        "twice": [ours, paths[0], paths[0]],
        "pattern": str(tmp_path / "*.daf.zarr"),
        "mapping": {"x": ours, "a": paths[0], "b": paths[1]},
        "lists by name": {"a": [ours, paths[0]], "b": paths[1]},
    }
    opened: list[Any] = []

    def recording(path: Any, *args: Any, **options: Any) -> Any:
        opened.append(open_daf(path, *args, **options))
        return opened[-1]

    monkeypatch.setattr("daf_query.session._session.open_daf", recording)
    with pytest.raises(errors.DafError):
        connect(sources[case])
    assert opened
    for daf in opened:
        with pytest.raises(errors.InvalidInputError, match="closed"):
            daf.axes_set()
    assert ours.axes_set() == {"cell"}


def test_indexes_are_built_by_the_session() -> None:
    """Of a data set that is open for writing; each is used by the next query."""
    daf = data_set(cell={"name": 10_000, "age": np.arange(10_000) % 5000})
    daf.set_vector("cell", "code", [f"x{i % 5000}" for i in range(10_000)])
    session = connect(daf)
    assert session.build_index("cell", ["age", "code"]) == ["age", "code"]
    assert session.build_point_index("cell", "age", "age") == 10_000
    scan = session.explain_analyze("SELECT name FROM cell WHERE code = 'x60'").scans[0]
    assert list(scan.indexes) == ["code"]


def test_errors_within_properties_and_calls_of_the_class_are_python_s_own(
    tiny_session: DafSession,
) -> None:
    """They are neither foreign names nor calls that lack an argument."""

    class Session(DafSession):
        @property
        def ages(self) -> Any:
            return tiny_session.table("cell").nothing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'AxisDataset' object has no attribute 'nothing'"):
        _ = Session(tiny_session._connections).ages
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'query'"):
        DafSession.sql("SELECT 1")  # type: ignore[call-arg, arg-type]
