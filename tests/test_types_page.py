"""Tests of docs/reference/types.md: each cell of its tables is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import daf_query
import daf_storage
from tests.support import data_set, there

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
anndata = pytest.importorskip("anndata")

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "types.md"
COLUMNS = {
    "`bool`": [True, False],
    "`int8`": np.array([1, 2], "int8"),
    "`float16`": np.array([1, 2], "float16"),
    "`float32`": np.array([1, 2], "float32"),
    "strings": ["a", "b"],
    "strings, some missing": ["a", None],
    "`category`": pd.Categorical(["a", None]),
    "`Int64`, some missing": pd.array([1, None], dtype="Int64"),
    "`boolean`, some missing": pd.array([True, None], dtype="boolean"),
    "`Float64`, some missing": pd.array([1.5, None], dtype="Float64"),
    "`datetime64[ns]`": pd.DatetimeIndex(["2024-01-01", None]).as_unit("ns"),
    "`datetime64[ns, UTC]`": pd.DatetimeIndex(["2024-01-01", None], tz="UTC").as_unit("ns"),
}


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, without the quotes of code."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


def plain(cells: list[str]) -> list[str]:
    """Return the cells without the quotes of code."""
    return [cell.replace("`", "") for cell in cells]


def pandas_name(dtype: Any) -> str:
    """Return how the page calls a type of pandas, of which 3 calls strings otherwise."""
    return "object" if dtype == "str" else str(dtype)


def polars_name(dtype: Any) -> str:
    """Return how the page calls a type of polars."""
    if isinstance(dtype, pl.Datetime):
        return f"Datetime('ns'{f', {dtype.time_zone!r}' if dtype.time_zone else ''})"
    return str(dtype)


def places(db: daf_query.DafSession, axis: str, column: str) -> list[str]:
    """Return the type of a column in SQL, Arrow, pandas and polars."""
    result = db.sql(f'SELECT "{column}", arrow_typeof("{column}") AS type FROM {axis}')
    arrow = result.to_arrow_table()
    return [
        arrow["type"][0].as_py(),
        str(arrow.schema.field(column).type),
        pandas_name(result.to_pandas()[column].dtype),
        polars_name(result.to_polars().schema[column]),
    ]


def test_element_types() -> None:
    """All twelve, in numpy, Arrow, SQL, pandas and polars."""
    daf = daf_storage.MemoryDaf()
    daf.add_axis("cell", ["A", "B"])
    rows = table("Element types")
    assert len(rows) == 12
    db = None
    for name, numpy_type, *_ in map(plain, rows):
        values = ["a", "b"] if name == "String" else np.array([0, 1], dtype=numpy_type)
        daf.set_vector("cell", name, values)
    db = daf_query.connect(daf)
    for name, *expected in map(plain, rows):
        assert daf.vector_info("cell", name).storage_type.value == name
        sql, arrow, pandas, polars = places(db, "cell", name)
        numpy_type = str(daf.get_np_vector("cell", name).dtype)
        assert [numpy_type, arrow, sql, pandas, polars] == expected


@pytest.mark.filterwarnings("ignore::daf_storage.AnnDataWarning")
def test_columns_of_anndata() -> None:
    """Each is stored, asked and exported as the table says."""
    obs = pd.DataFrame(COLUMNS, index=["A", "B"])
    daf = daf_storage.from_anndata(anndata.AnnData(obs=obs))
    back = daf_storage.to_anndata(daf).obs
    rows = table("Columns of AnnData")
    assert [row[0] for row in rows] == list(COLUMNS)
    with daf_query.connect(daf) as db, daf_query.connect(daf, categoricals="dictionary") as coded:
        for column, stored, *expected in rows:
            assert daf.vector_info("obs", column).storage_type.value == stored
            assert [*places(db, "obs", column), pandas_name(back[column].dtype)] == plain(expected)
        assert places(coded, "obs", "`category`")[0] == "Dictionary(Int32, Utf8)"
        assert places(coded, "obs", "`category`")[2] == "category"


def test_names_of_types_in_a_cast() -> None:
    """Those that the page gives are known, in its order of element types."""
    sentence = there(re.search(r"In a `CAST` write (.*?)\n(?:- )", PAGE.read_text(), re.DOTALL))
    names = [name for name in re.findall("`(.*?)`", sentence[1]) if name != "UNSIGNED"]
    integers = [f"{name} UNSIGNED" for name in names[:4]]
    with daf_query.connect(daf_storage.MemoryDaf(name="empty")) as db:
        types = [
            db.sql(f"SELECT arrow_typeof(CAST(1 AS {name})) AS t").to_pydict()["t"][0]
            for name in [*names, *integers]
        ]
    assert types == [
        *("Int8", "Int16", "Int32", "Int64", "Float32", "Float64", "Boolean", "Utf8View"),
        *("UInt8", "UInt16", "UInt32", "UInt64"),
    ]


def test_matrices() -> None:
    """Dense and sparse ones, in each form of a slice."""
    daf = daf_storage.MemoryDaf()
    data_set(daf, cell=["A", "B"], gene=["X", "Y", "Z"])
    dense = np.array([[1, 0, 2], [3, 4, 5]], "float32")
    daf.set_matrix("cell", "gene", "dense", dense)
    daf.set_matrix("cell", "gene", "sparse", sp.csc_array(np.eye(2, 3, dtype="float32")))
    elements = {"a row per element that is not 0": 5, "a row per stored element": 2}
    with daf_query.connect(daf) as db:
        for name, *cells in table("Matrices"):
            part = db.matrix("cell", "gene", name.split(",")[0])
            numpy_type, scipy_type, anndata_type, rows = plain(cells)
            x = part.to_anndata().X
            matrix = part.to_scipy()
            assert str(part.to_numpy().dtype) == numpy_type
            assert f"{matrix.dtype}, {matrix.format.upper()}" == scipy_type
            form = "an array" if isinstance(x, np.ndarray) else x.format.upper()
            assert f"{x.dtype}, {form}" == anndata_type
            assert part.to_arrow().num_rows == elements[rows]
