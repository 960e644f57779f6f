"""Tests of reads for Spark without an engine: options, types, partitions and what is pickled."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daf_query import connect
from daf_query.distributed import SOURCES
from daf_query.scan import Compare
from daf_query.spark import DafDataSource
from daf_query.spark._query import ReadOptions, as_spark, filter_text, spark_schema
from daf_storage import errors
from tests.support import create, data_set, recorded_reads

ROWS = 200_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of an axis of several zones, and a matrix."""
    path = tmp_path_factory.mktemp("spark") / "cells.daf.zarr"
    with create(path) as daf:
        data_set(daf, cell=ROWS, gene=["CD8A", "CST3"])
        daf.set_vector("cell", "time", np.arange(ROWS, dtype="u4"))
        daf.set_vector("cell", "score", np.linspace(0, 1, ROWS, dtype="f4"))
        daf.set_matrix("cell", "gene", "X", np.zeros((ROWS, 2), "f4"))
    with connect(path, mode="r+") as session:
        session.build_index("cell", "time")
    return str(path)


def source(path: str, **options: str) -> Any:
    """Return a data source as Spark makes it."""
    return DafDataSource({"path": path, "table": "cell", **options})


def schema_of(found: Any) -> str:
    """Return the columns of a data source as Spark writes them."""
    return ", ".join(f"`{f.name}` {f.dataType.simpleString().upper()}" for f in found.schema())


def test_the_schema_is_in_the_types_of_spark(path: str) -> None:
    """Unsigned integers are wider; columns and genes are chosen by options."""
    assert schema_of(source(path)) == "`name` STRING, `index` BIGINT, `score` FLOAT, `time` BIGINT"
    genes = source(path, matrix_columns="X['CD8A'], X['CST3'] AS cst3", select="cst3, name")
    assert schema_of(genes) == "`cst3` FLOAT, `name` STRING"
    everything = schema_of(source(path, matrix_columns="X['CD8A']"))
    assert everything.endswith("`time` BIGINT, `X['CD8A']` FLOAT")
    matrix = source(path, table="matrix", matrix="X", axes="cell, gene")
    assert schema_of(matrix) == "`cell` STRING, `gene` STRING, `value` FLOAT"


def test_partitions_that_cannot_match_are_not_there(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A predicate leaves one of seven; what is read is the chunks of its columns."""
    schema = pa.schema([("time", pa.int64())])
    chosen = {"select": "time", "rows_per_partition": "30000"}
    assert len(source(path, **chosen).reader(schema).partitions()) == 7
    predicate = filter_text(Compare("time", ">=", 199_998), pa.schema([("time", pa.uint32())]))
    reader = source(path, **chosen, predicate=predicate).reader(schema)
    (partition,) = reader.partitions()
    SOURCES.clear()
    reader, partition = pickle.loads(pickle.dumps((reader, partition)))
    with recorded_reads(monkeypatch) as reads:
        (batch,) = reader.read(partition)
    assert batch.to_pydict() == {"time": [199_998, 199_999]}
    chunks = {key for key in reads.keys if key.split("/")[-1].isdigit()}
    found = {key for key in chunks if not key.startswith("indexes/")}
    assert found == {"daf/0", "vectors/cell/time/0"}


def test_a_schema_that_is_given_chooses_columns(path: str) -> None:
    """By their names, in its order."""
    reader = source(path, rows_per_partition="100000").reader(
        pa.schema([("score", pa.float32()), ("name", pa.string())])
    )
    batch = next(iter(reader.read(reader.partitions()[1])))
    assert batch.schema.names == ["score", "name"]
    assert batch.column(1)[0].as_py() == "c100000"


def test_options_have_names_in_any_case() -> None:
    """Engines write them in lower case, and add their own; paths may be a list."""
    given = {"PATH": '["a", "b"]', "Table": "cell", "spark.x": "1", "__hidden": "2"}
    options = ReadOptions.of({**given, "SELECT": '["a,b"]'})
    assert (options.paths, options.table, options.select) == (["a", "b"], "cell", ("a,b",))


def test_types_that_spark_lacks() -> None:
    """Views, dictionaries and unsigned integers are cast; what has no type is left out."""
    arrays = {
        "u8": pa.array([255], pa.uint64()),
        "view": pa.array(["x"], pa.string_view()),
        "code": pa.array(["y"]).dictionary_encode(),
        "half": pa.array(np.array([0.5], "f2")),
        "time": pa.array([1000], pa.timestamp("ns")),
        "list": pa.array([[1]]),
    }
    batch = pa.RecordBatch.from_pydict(arrays)
    schema = spark_schema(batch.schema)
    wide = pa.decimal128(20, 0)
    assert schema.types == [wide, pa.string(), pa.string(), pa.float32(), pa.timestamp("us")]
    assert schema.names == ["u8", "view", "code", "half", "time"]
    (cast,) = as_spark([batch.select(schema.names)], schema)
    assert [str(value) for value in cast.to_pylist()[0].values()] == [
        *("255", "x", "y", "0.5", "1970-01-01 00:00:00.000001"),
    ]
    odd = pa.RecordBatch.from_pydict({"time": pa.array([1001], pa.timestamp("ns"))})
    message = "'time' is timestamp.* the option 'select'"
    with pytest.raises(errors.UnsupportedDataError, match=message):
        list(as_spark([odd], pa.schema([("time", pa.timestamp("us"))])))


def test_spark_without_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the package does without."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for name in [name for name in sys.modules if name.startswith(("pyspark.", "daf_query.spark"))]:
        monkeypatch.delitem(sys.modules, name)
    import daf_query.spark

    with pytest.raises(errors.MissingDependencyError, match=r"pip install .*\[spark\]"):
        _ = daf_query.spark.register
