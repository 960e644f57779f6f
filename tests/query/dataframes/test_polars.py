"""Tables as lazy frames of polars: the rows are those of SQL, and little is read for them."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import AxisDataset, DafSession, ScanOptions, connect
from daf_query.dataframes import PolarsSource, pushed_filter, scan_polars
from daf_query.table import UnionDataset
from daf_storage import DafWriter, errors
from tests.support import OPERATORS, create, data_set

ROWS = 60
SMALL = ScanOptions(zone_rows=8, partition_rows=16, min_partition_rows=8, min_batch_rows=4)


def _data_set(seed: int, *, rows: int = ROWS, name: str = "cells") -> DafWriter:
    random = np.random.default_rng(seed)
    daf = data_set(name=name, cell=rows)
    daf.set_vector("cell", "tiny", random.integers(-3, 4, rows).astype("int8"))
    daf.set_vector("cell", "big", np.sort(random.integers(0, 9, rows)).astype("uint64"))
    for dtype in ("float32", "float64"):
        values = (random.integers(-3, 4, rows) / 2).astype(dtype)
        values[random.random(rows) < 0.2] = np.nan
        daf.set_vector("cell", dtype, values)
    daf.set_vector("cell", "flag", random.random(rows) < 0.5)
    daf.set_vector("cell", "donor", random.choice(["", "N1", "N2", "ä"], rows).astype(str))
    tags = random.choice(["", "a", "b"], rows).astype(str)
    daf.set_vector("cell", "tag", tags, empty_is_missing=True)
    return daf


@pytest.fixture(scope="module")
def sessions() -> dict[str, DafSession]:
    """Return a data set, and several as one of which one lacks a column and has another type."""
    other = _data_set(2, name="other")
    other.delete_vector("cell", "flag")
    other.set_vector("cell", "tiny", np.arange(ROWS, dtype="int32"), if_exists="replace")
    return {
        "one": connect(_data_set(0), scan_options=SMALL),
        "several": connect([_data_set(1), other], scan_options=SMALL),
    }


Question = tuple[Any, str]
"""The same predicate for polars and in SQL."""

_SYMBOLS = dict(zip(OPERATORS, ["=", "<>", "<", "<=", ">", ">="], strict=True))


def _compare(column: str, symbol: str, value: Any) -> Question:
    shown = f"'{value}'" if isinstance(value, str) else value
    return OPERATORS[symbol](pl.col(column), value), f'"{column}" {_SYMBOLS[symbol]} {shown}'


def _is_in(column: str, values: list[Any]) -> Question:
    shown = ", ".join(map(repr, values))
    return pl.col(column).is_in(values), f"{column} IN ({shown})"


_NUMBERS = st.sampled_from(["tiny", "big", "float32", "float64"])
_SMALL = st.integers(-1, 5)
_SYMBOL = st.sampled_from(list(_SYMBOLS))
_STRING = st.sampled_from(["donor", "tag"])
LEAVES: st.SearchStrategy[Question] = st.one_of(
    st.builds(_compare, _NUMBERS, _SYMBOL, _SMALL),
    st.builds(
        _compare, st.sampled_from(["tiny", "float32"]), _SYMBOL, st.sampled_from([0.5, -1.25, 2.0])
    ),
    st.builds(_compare, _STRING, _SYMBOL, st.sampled_from(["N1", "", "b"])),
    st.builds(
        lambda c: (pl.col(c).is_null(), f"{c} IS NULL"), st.sampled_from(["float32", "flag", "tag"])
    ),
    st.builds(lambda c: (pl.col(c).is_not_null(), f"{c} IS NOT NULL"), st.just("float64")),
    st.just((pl.col("flag"), "flag")),
    st.builds(
        lambda low, high, signs: (
            pl.col("tiny").is_between(low, high, closed=signs[0]),
            f"tiny {signs[1]} {low} AND tiny {signs[2]} {high}",
        ),
        _SMALL,
        _SMALL,
        st.sampled_from(
            [("both", ">=", "<="), ("none", ">", "<"), ("left", ">=", "<"), ("right", ">", "<=")]
        ),
    ),
    st.builds(_is_in, st.just("float64"), st.lists(_SMALL.map(float), min_size=1, max_size=3)),
    st.builds(_is_in, _STRING, st.lists(st.sampled_from(["N1", "b", ""]), min_size=1, max_size=2)),
    # What only polars evaluates.
    st.just((pl.col("donor").str.starts_with("N"), "starts_with(donor, 'N')")),
    st.just((pl.col("float32") * 2 > pl.col("tiny"), "float32 * 2 > tiny")),
)
QUESTIONS: st.SearchStrategy[Question] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a: (~a[0], f"NOT ({a[1]})"), inner),
        st.builds(lambda a, b: (a[0] & b[0], f"({a[1]}) AND ({b[1]})"), inner, inner),
        st.builds(lambda a, b: (a[0] | b[0], f"({a[1]}) OR ({b[1]})"), inner, inner),
    ),
    max_leaves=4,
)


@given(
    question=QUESTIONS,
    which=st.sampled_from(["one", "several"]),
    engine=st.sampled_from(["auto", "streaming"]),
)
def test_rows_are_those_of_sql(
    sessions: dict[str, DafSession], question: Question, which: str, engine: str
) -> None:
    """Any predicate leaves the rows that it leaves in SQL, also one that is pushed in part."""
    expression, condition = question
    session = sessions[which]
    expected = session.sql(f'SELECT name, "index", big FROM cell WHERE {condition}').to_pylist()
    frame = session.lazy_frame("cell").filter(expression).select("name", "index", "big")
    rows = frame.collect(engine=engine).to_dicts()
    order = lambda row: (row["index"], row["big"])  # noqa: E731 - a key of a line
    assert sorted(rows, key=order) == sorted(expected, key=order)


IS_OLD = int(pl.__version__.split(".")[0]) < 2


def test_what_is_pushed() -> None:
    """Each part is pushed only where its constant has the type of the column."""
    types_of_arrow = [pa.int8(), pa.float32(), pa.string(), pa.bool_()]
    types_of_arrow += [pa.dictionary(pa.int32(), pa.string()), pa.uint64()]
    schema = pa.schema(zip("nxsfdu", types_of_arrow, strict=True))
    optimised: list[Any] = []

    def source(_: Any, predicate: Any, *__: Any) -> Any:
        optimised.append(predicate)
        yield pl.DataFrame(schema=types)

    types = {"n": pl.Int8, "x": pl.Float32, "s": pl.String, "f": pl.Boolean, "d": pl.Categorical}
    lazy = pl.io.plugins.register_io_source(source, schema=types)
    cases = {
        "n < 3": pl.lit(3) > pl.col("n"),
        "n == 3": pl.lit(3) == pl.col("n"),
        "n > 1.5": pl.col("n") > 1.5,
        "x == 0.1": pl.col("x") == 0.1,
        's == "N1" and is_null(f)': (pl.col("s") == "N1") & pl.col("f").is_null(),
        "n < 0 and f or n > 5": ((pl.col("n") < 0) & pl.col("f")) | (pl.col("n") > 5),
        "is_in(n, [1, 2])": pl.col("n").is_in([1, 2]),
        "invert(f)": ~pl.col("f"),
        # Evaluated by polars: no constant of the type, a missing value in a list, other functions.
        None: pl.col("n") > 300,
    }
    for text, expression in cases.items():
        lazy.filter(expression).collect()
        pushed = pushed_filter(optimised[-1], schema)
        if IS_OLD and pushed.expression is None:
            continue  # some conversions were written into the conditions: polars evaluates them
        assert (pushed.is_whole, pushed.expression is None) == (text is not None, text is None)
        for word in (text or "").replace("(", " ").replace(")", " ").split():
            assert word.strip(",[]") in str(pushed.expression) or word in ("0.1", "is_in", "invert")
    others = (
        pl.col("n").is_in([1, None]),
        pl.col("d") == "a",
        pl.col("u").cast(pl.Float64) > 1.5,  # not all of them are floats
        pl.col("s").str.len_chars() > 1,
        pl.col("s").is_in(["a"], nulls_equal=True),
        pl.col("x").is_in([float("nan")]),
        pl.col("n"),  # no predicate, but to polars
        object(),
    )
    for expression in others:
        assert pushed_filter(expression, schema).expression is None
        assert not pushed_filter(expression, schema).is_whole
    partly = pushed_filter(pl.col("f") & (pl.col("n") * 2 > 1), schema)
    assert str(partly.expression) == "f"
    assert not partly.is_whole


def test_little_is_read() -> None:
    """Only the columns of the query, the zones of the filter, and the rows of the limit."""
    numbers = np.arange(512, dtype="int32")
    daf = data_set(cell={"name": 512, "age": numbers, "score": numbers / 4})
    options = ScanOptions(zone_rows=64, partition_rows=64, min_partition_rows=64, threads=1)
    table = AxisDataset(daf, "cell").with_options(options)

    def values(change: Any) -> dict[str, int]:
        reports: list[Any] = []
        change(scan_polars(table.with_view(reports=reports))).collect()
        return {name: sum(r.values.get(name, 0) for r in reports) for name in table.schema.names}

    table.count_rows(filter=pa.compute.field("age") >= 500)  # which makes the zone map
    read = values(lambda f: f.filter(pl.col("age") >= 500).select("score"))
    assert read == {"name": 0, "index": 0, "age": 64 + 12, "score": 12}
    assert values(lambda f: f.select("age").head(3))["age"] == 3
    read = values(lambda f: f.select("score").sum())
    assert read == {"name": 0, "index": 0, "age": 0, "score": 512}


def test_limits_come_before_predicates() -> None:
    """Of the first rows those that match; several data sets are read until there are enough."""
    parts = {n: AxisDataset(_data_set(0, rows=4, name=n), "cell") for n in ("a", "b", "c")}
    table = UnionDataset("cell", parts, location="runs")
    frame = scan_polars(table)
    assert frame.head(6).select("dataset").collect()["dataset"].to_list() == [*"aaaabb"]
    assert frame.head(6).filter(pl.col("dataset") == "b").select(pl.len()).collect().item() == 2
    found = frame.filter(pl.col("dataset") > "a").head(5).collect()["dataset"].to_list()
    assert found == [*"bbbbc"]
    assert frame.slice(3, 2).collect()["dataset"].to_list() == ["a", "b"]
    assert frame.head(99).collect().height == 12
    assert frame.head(0).collect().height == 0
    source = PolarsSource(table.filter(pa.compute.field("dataset") == "c"))
    assert [f.height for f in source(None, None, 3, None)] == [3]


def test_batches_come_one_by_one() -> None:
    """A source yields a data frame for each batch, and an empty one where there is none."""
    daf = _data_set(0, rows=64)
    source = PolarsSource(AxisDataset(daf, "cell").with_options(SMALL))
    assert [frame.height for frame in source(["tiny"], None, None, 16)] == [16] * 4
    [frame] = source(["donor", "tiny"], pl.col("donor") == "none", None, None)
    assert (frame.columns, frame.height) == (["donor", "tiny"], 0)


def test_a_frame_is_serialised_by_its_path(tmp_path: Path) -> None:
    """Another process opens the data set again."""
    data_set(create(tmp_path / "cells.daf.zarr"), cell={"name": ["A", "B"], "age": [1, 2]})
    with connect(tmp_path / "cells.daf.zarr") as session:
        frame = session.lazy_frame("cell").filter(pl.col("age") > 1)
        stored = frame.serialize()
        pickled = pickle.dumps(frame)
    assert len(stored) < 10_000
    for again in (pl.LazyFrame.deserialize(io.BytesIO(stored)), pickle.loads(pickled)):
        assert again.collect()["name"].to_list() == ["B"]


def test_categoricals_and_genes() -> None:
    """Ordered ones are Enum; a value beyond the categories is an error that names it."""
    kind = pa.dictionary(pa.int32(), pa.string(), ordered=True)
    noted = {b"daf.categories": b'["child", "adult"]'}

    class Stub:
        schema = pa.schema([pa.field("stage", kind, metadata=noted)])

        def __init__(self, *values: str) -> None:
            self.values = values

        def scanner(self, *_: Any) -> Any:
            categories = pa.array(["child", "adult", *self.values])
            codes = pa.array(range(len(categories)), pa.int32())
            column = pa.DictionaryArray.from_arrays(codes, categories, ordered=True)
            batch = pa.record_batch([column], schema=self.schema)
            return pa.dataset.Scanner.from_batches(iter([batch]), schema=self.schema)

    [frame] = PolarsSource(Stub())(None, None, None, None)  # type: ignore[arg-type] # it is like one
    assert frame.schema == {"stage": pl.Enum(["child", "adult"])}
    with pytest.raises(errors.UnsupportedDataError, match=r"'stage'.*'elder'"):
        list(PolarsSource(Stub("elder"))(None, None, None, None))  # type: ignore[arg-type] # it is like one
    daf, other = (
        data_set(_data_set(0, rows=2, name=name), gene=["g"], matrices={("cell", "gene", "X"): x})
        for name, x in (("cells", [[3.0], [0.0]]), ("other", [[0.0], [4.0]]))
    )
    session = connect(daf)
    genes = session.lazy_frame("cell", matrix_columns={"g": ("gene", "X", "g")})
    assert genes.filter(pl.col("g") > 1).select("name").collect()["name"].to_list() == ["c0"]
    for each in (session, connect([daf, other])):
        matrix = scan_polars(each.matrix_table("cell", "gene", "X"))
        assert matrix.head(1).collect().height == 1
        assert matrix.filter(pl.col("value") > 3).collect().height == (each is not session)
