"""Tests of tables that a user brings: frames, Arrow, and files of rows."""

from __future__ import annotations

import datetime as dt
import gzip
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from daf_query import DafSession, connect
from daf_query.cli import main
from daf_query.table import arrow_table
from daf_storage import MemoryDaf, copy_all, errors
from tests.support import create, data_set

ROWS = pa.table(
    {
        "id": ["N1", "N2", "N3"],
        "age": pa.array([30, None, 50], pa.int16()),
        "since": pa.array([dt.date(2020, 1, 2), None, dt.date(2021, 3, 4)], pa.date32()),
        "ok": pa.array([True, None, False]),
    }
)
EXPECTED = ROWS.to_pylist()


class _Stream:
    """Only the protocol of a stream of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return ROWS.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: ROWS.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(ROWS),
    "lazy": lambda: pl.from_arrow(ROWS).lazy(),  # type: ignore[union-attr] # it is a frame
    "table": lambda: ROWS,
    "sliced": lambda: pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)]),
    "batch": lambda: ROWS.to_batches()[0],
    "reader": ROWS.to_reader,
    "stream": _Stream,
    "dataset": lambda: ds.dataset(ROWS),
    "relation": lambda: duckdb.from_arrow(ROWS),
}


@pytest.fixture
def session() -> DafSession:
    """Return a session with donors, to be joined."""
    daf = data_set(name="tiny", donor={"name": ["N3", "N1", "N9"], "n": [3, 1, 9]})
    return connect({"tiny": daf})


@pytest.mark.parametrize("form", FRAMES)
def test_frames_keep_rows_and_types_and_join(session: DafSession, form: str) -> None:
    """Whatever holds a table is one in SQL: types, NULLs, filters and joins with an axis."""
    session.register(FRAMES[form](), "samples")
    result = session.sql("SELECT * FROM samples ORDER BY id")
    assert result.to_pylist() == EXPECTED
    kinds = result.to_arrow_table().schema
    assert kinds.field("age").type == pa.int16()
    assert kinds.field("since").type == pa.date32()
    query = "SELECT name, age FROM donor JOIN samples ON name = id WHERE age > 20 ORDER BY n"
    joined = session.sql(query)
    assert joined.to_pydict() == {"name": ["N1", "N3"], "age": [30, 50]}
    query = "SELECT count(*) AS n FROM samples WHERE ok IS NULL"
    assert session.sql(query).to_pydict() == {"n": [1]}
    assert session.tables() == ["donor", "matrices", "relations", "scalars", "samples"]


_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def _write(path: Path, rows: pa.Table = ROWS) -> None:
    """Write rows in the form that the suffix says; a text has all of them."""
    name = path.name.lower()
    if name.endswith("parquet"):
        pq.write_table(rows, path)
    elif name.endswith(("arrow", "feather")):
        with pa.ipc.new_file(path, rows.schema, options=_COMPRESSED) as file:
            file.write_table(rows)
    else:
        text = "id,age,since,ok\nN1,30,2020-01-02,true\nN2,NA,,\nN3,50,2021-03-04,false\n"
        text = text.replace(",", "\t") if "tsv" in name else text
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())


def test_types_of_a_csv_file(session: DafSession, tmp_path: Path) -> None:
    """An empty text is NULL, NA is a text; a column of numbers has neither; TRUE is a boolean."""
    path = tmp_path / "s.csv"
    path.write_text('\ufeffid,n,t,none,yes\na,NA,NA,,TRUE\nb,1.5,,NA,FALSE\nc,,"x\ny",,\n', "utf-8")
    session.register(path)
    assert session.sql("SELECT * FROM s").to_pydict() == {
        "id": ["a", "b", "c"],
        "n": [None, 1.5, None],
        "t": ["NA", None, "x\ny"],
        "none": [None, None, None],
        "yes": [True, False, None],
    }


def test_a_data_set_with_an_axis_of_a_name_that_was_given_back(session: DafSession) -> None:
    """It is connected when no table has that name any more."""
    session.register(ROWS, "cell")
    other = data_set(name="other", cell=["A"])
    session.unregister("cell")
    session.register(other, "other")
    assert session.tables() == [
        f"{schema}.{table}"
        for schema, axis in (("tiny", "donor"), ("other", "cell"))
        for table in (axis, "matrices", "relations", "scalars")
    ]


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
def test_what_a_query_put_in_the_place_of_a_table_goes_with_it(
    session: DafSession, tiny_path: Path, kind: str
) -> None:
    """It is unregistered as well, and the name is free; a view is pickled with the session."""
    session.register(ROWS, "samples")
    session.sql(f"CREATE OR REPLACE {kind} samples AS SELECT 5 AS five", allow="write").to_pylist()
    assert session.sql("SELECT * FROM samples").to_pylist() == [{"five": 5}]
    session.unregister("samples")
    with pytest.raises(errors.AxisNotFoundError, match="no table 'samples'"):
        session.sql("SELECT * FROM samples").to_pylist()
    session.register(ROWS, "samples")
    assert session.sql("SELECT * FROM samples").to_pylist() == EXPECTED
    if kind == "VIEW":
        with connect({"tiny": tiny_path, "samples": ROWS}) as own:
            own.sql("CREATE OR REPLACE VIEW samples AS SELECT 5 AS five", allow="write").to_pylist()
            again = pickle.loads(pickle.dumps(own))
        assert again.sql("SELECT * FROM samples").to_pylist() == [{"five": 5}]


def test_categoricals_are_dictionaries() -> None:
    """Categoricals of pandas and polars keep their codes, their order and whether it counts."""
    values = pd.Categorical(["b", None, "a"], ["b", "a", "z"], ordered=True)
    table = arrow_table(pd.DataFrame({"c": values}))
    assert table.schema.field("c").type == pa.dictionary(pa.int32(), pa.string(), ordered=True)
    assert table.column("c").combine_chunks().dictionary.to_pylist() == ["b", "a", "z"]
    listed = pl.DataFrame({"c": pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "a", "z"]))})
    assert arrow_table(listed).column("c").to_pylist() == ["b", None, "a"]
    missing = pa.DictionaryArray.from_arrays([2, 1, 0], pa.array(["a", None, "b"]), ordered=True)
    table = arrow_table(pa.table({"c": missing}))
    assert table.column("c").combine_chunks().dictionary.to_pylist() == ["a", "b"]
    for each in (pd.DataFrame({"c": values}), pa.table({"c": missing})):
        session = connect({"tiny": MemoryDaf(), "t": each})
        kept = session.sql("SELECT c FROM t WHERE c IS NOT NULL").to_pandas()["c"]
        assert isinstance(kept.dtype, pd.CategoricalDtype)
        assert kept.tolist() == ["b", "a"]


@pytest.mark.parametrize("values", [[2, 1], [2.5, 1.5], [dt.date(2021, 3, 4), dt.date(2020, 1, 2)]])
def test_categories_that_are_no_strings(values: list[Any]) -> None:
    """Codes of numbers and dates are kept, also beside a missing category: connect() failed."""
    codes = pa.array([0, 2, 1, None], pa.int8())
    for categories in (pa.array([*values, values[0]]), pa.array([*values, None])):
        coded = pa.DictionaryArray.from_arrays(codes, categories)
        session = connect({"tiny": MemoryDaf(), "t": pa.table({"c": coded, "n": range(4)})})
        kept = session.sql("SELECT c FROM t").to_arrow_table()["c"]
        assert kept.type == pa.dictionary(pa.int32(), categories.type)
        assert kept.to_pylist() == coded.to_pylist()
        assert kept.chunk(0).dictionary.to_pylist() == values
        found = session.sql("SELECT c FROM t GROUP BY c ORDER BY min(n)").to_pydict()
        assert found == {"c": list(dict.fromkeys(coded.to_pylist()))}


@pytest.mark.parametrize("values", [[True, False], [dt.timedelta(1), dt.timedelta(2)], [[1], [2]]])
def test_categories_of_which_the_engine_makes_no_groups(values: list[Any]) -> None:
    """They are values: it failed at GROUP BY, and connect() at nested ones."""
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(values))
    session = connect({"tiny": MemoryDaf(), "t": pa.table({"c": coded, "n": range(4)})})
    rows = session.sql("SELECT c, count(*) AS k FROM t GROUP BY c ORDER BY min(n)")
    assert rows.schema.field("c").type == coded.type.value_type
    assert rows.to_pydict() == {"c": [*values, None], "k": [2, 1, 1]}


def test_aggregates_and_windows_of_categoricals() -> None:
    """Where there is no row for them they are missing, also as pandas: it failed on a category."""
    frame = pd.DataFrame({"k": [1, 2], "g": pd.Categorical(["x", None])})
    with connect({"tiny": MemoryDaf(), "t": frame}) as session:
        for query, expected in {
            "SELECT first_value(g) AS g FROM t WHERE k > 2": [None],
            "SELECT lag(g) OVER (ORDER BY k) AS g FROM t ORDER BY k": [None, "x"],
            "SELECT last_value(g) AS g FROM t GROUP BY k ORDER BY k": ["x", None],
        }.items():
            result = session.sql(query)
            assert result.to_arrow_table().column("g").to_pylist() == expected
            for frame in (result.to_pandas(), result.to_pandas(arrow_backed=True)):
                assert [None if pd.isna(g) else g for g in frame["g"]] == expected


def test_the_index_of_pandas() -> None:
    """Positions are no column, names are the column ``name``, a named index is a column."""
    frame = pd.DataFrame({"n": [1, 2]})
    assert arrow_table(frame).column_names == ["n"]
    found = arrow_table(frame.set_index(pd.Index(["A", "B"]))).column("name").to_pylist()
    assert found == ["A", "B"]
    named = frame.set_index(pd.Index(["A", "B"], name="barcode"))
    assert set(arrow_table(named).column_names) == {"n", "barcode"}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_file_that_is_replaced_is_read_as_it_is(tmp_path: Path, suffix: str) -> None:
    """By each query, how many rows it has, too; of a session that was pickled as well."""
    path, other = tmp_path / f"p.{suffix}", tmp_path / f"other.{suffix}"
    _write(path)
    session = connect({"frame": ROWS, "p": path})
    query = "SELECT frame.id FROM frame JOIN p ON frame.id = p.id WHERE p.age > 10 ORDER BY 1"
    for each in (session, pickle.loads(pickle.dumps(session))):
        for count in (3, 1, 2, 3):
            _write(other, ROWS.slice(0, count))
            other.replace(path)
            found = each.sql(query).to_pydict()
            assert found == {"id": ["N1"] if count < 3 else ["N1", "N3"]}
            assert each.sql("SELECT count(*) AS n FROM p").to_pydict() == {"n": [count]}
        _write(other, ROWS.drop_columns("age"))
        other.replace(path)
        with pytest.raises(errors.InvalidInputError, match=f"p.{suffix}: .*without 'age'"):
            each.sql("SELECT age FROM p").to_pydict()
        path.unlink()
        with pytest.raises(errors.DafError, match=f"p.{suffix}'.*No such file"):
            each.sql("SELECT count(*) AS n FROM p").to_pydict()
        _write(path)


@pytest.mark.parametrize(
    "suffix", [".csv", ".csv.gz", ".tsv", ".TSV", ".parquet", ".arrow", ".feather"]
)
def test_a_file_in_from_is_a_table(
    session: DafSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """As if it had been registered, by its name without suffix; relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my data").mkdir()
    path = f"my data/my samples*.1{suffix}"
    _write(tmp_path / path)
    session.register(tmp_path / path)
    for source in ('"my samples*.1"', f"'{path}'", f'"{path}"', f"'{tmp_path / path}'"):
        assert session.sql(f"SELECT * FROM {source} ORDER BY id").to_pylist() == EXPECTED
        only = session.sql(f"SELECT id FROM {source} WHERE since >= '2021-01-01'")
        assert only.to_pydict() == {"id": ["N3"]}
        query = f"SELECT donor.name, s.age FROM donor JOIN {source} AS s ON name = s.id ORDER BY 1"
        assert session.sql(query).to_pydict() == {"name": ["N1", "N3"], "age": [30, 50]}
    assert session.sql(f"WITH t AS (SELECT id FROM '{path}') SELECT count(*) FROM t").count() == 1
    session.sql(f"CREATE VIEW v AS SELECT id, age FROM '{path}'", allow="write")
    assert session.sql("SELECT age FROM v WHERE id = 'N1'").to_pydict() == {"age": [30]}


def test_a_file_beside_several_data_sets(
    session: DafSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the command line, too, and within a condition of a slice."""
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "sheet.csv")
    other = data_set(name="other", cell=["N1", "x"])
    other.set_matrix("cell", "cell", "m", [[1, 2], [3, 4]])
    session.register(other, "other")
    query = "SELECT c.name FROM other.cell AS c WHERE name IN (SELECT id FROM 'sheet.csv')"
    assert session.sql(query).to_pydict() == {"name": ["N1"]}
    part = connect(other).matrix("cell", "cell", "m", rows="name IN (SELECT id FROM 'sheet.csv')")
    assert part.shape == (1, 2)
    path = str(tmp_path / "copy.daf.zarr")
    copy_all(other, create(Path(path)))
    both = connect({"all": [other, path]})
    query = "SELECT c.name FROM cell AS c JOIN 'sheet.csv' AS s ON c.name = s.id WHERE s.age > 20"
    assert both.sql(query).to_pydict() == {"name": ["N1", "N1"]}
    assert main(["sql", "--format", "csv", path, query]) == 0
    assert capsys.readouterr().out.split() == ['"name"', '"N1"']
