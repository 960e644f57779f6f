"""Tests of entries of matrices as columns of a table, against scipy, pandas and DuckDB."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DamagedLayoutWarning, connect
from daf_query.scan import ScanOptions
from daf_query.table import AxisDataset, MatrixEntry, TableDataset
from daf_storage import Packing, ZarrDaf, convert, errors
from daf_storage.base import Span
from daf_storage.trees import ChunkedArray
from tests.query.matrix.test_layouts import CASES, damage
from tests.query.table.test_matrix_dataset import matrices, stored
from tests.storage.opening.test_remote import served
from tests.support import (
    CELLS,
    GENES,
    OPERATORS,
    UMIS,
    create,
    data_set,
    edited_bytes,
    in_threads,
    recorded_calls,
)


def column(table: TableDataset, other: str, matrix: str, entry: str) -> TableDataset:
    """Return a table with an entry of a matrix as the column ``x``."""
    return table.with_matrix_columns({"x": MatrixEntry(other, matrix, entry)})


@given(
    made=matrices(most_rows=40),
    packed=st.sampled_from([None, Packing("zstd", chunk_kb=1)]),
    operator=st.sampled_from(list(OPERATORS)),
    constant=st.integers(-1, 5),
)
def test_columns_are_those_of_scipy(
    made: tuple[Any, bool, str], packed: Packing | None, operator: str, constant: int
) -> None:
    """Of any type, layout and density, with NaN and explicit zeros, filtered or not."""
    matrix, is_sparse, layouts = made
    daf = stored(matrix, layouts, is_sparse=is_sparse, packed=packed)
    options = ScanOptions(zone_rows=8, min_partition_rows=4, partition_rows=8, sparse_divisor=2)
    axis = AxisDataset(daf, "cell").with_options(options)
    rows, field = pa.array(range(matrix.shape[0]), pa.int64()), pc.field("x")
    names = pa.array(daf.axis_entries("cell").tolist(), pa.string())
    for entry, expected in enumerate(matrix.toarray().T):
        table = column(axis, "gene", "X", f"g{entry}")
        is_narrow = expected.dtype.kind in "iu" and expected.dtype != "u8"
        values = pa.array(expected.astype(np.int64) if is_narrow else expected, from_pandas=True)
        plain = pa.table({"name": names, "index": rows, "x": values})
        assert table.to_table().to_pydict() == plain.to_pydict()
        assert table.schema.field("x").type == values.type
        value = max(constant, 0) if expected.dtype.kind == "u" else constant
        scalar = None if expected.dtype == bool else pa.scalar(value, values.type)
        for each in (field, ~field) if scalar is None else (OPERATORS[operator](field, scalar),):
            both = each & (pc.field("index") != 5) & (pc.field("index") < 30)
            for filter_ in (each, both, each & (pc.field("name") == "c3")):
                found = table.to_table(filter=filter_)
                assert found.to_pydict() == plain.filter(filter_).to_pydict()


@pytest.mark.parametrize("matrix", ["sparse", "UMIs"])
@pytest.mark.parametrize("layout", [("cell", "gene"), ("gene", "cell")])
def test_strings_are_columns_too(layout: tuple[str, str], matrix: str) -> None:
    """Of a matrix of strings, by either layout, dense or mostly empty."""
    daf = data_set(cell=["a", "b", "c"], gene=["g", "h"])
    values = np.array([["p", ""], ["", ""], ["q", "r"]], dtype=object)
    daf.set_matrix(*layout, matrix, values if layout[0] == "cell" else values.T, relayout=False)
    for position, entry in enumerate(("g", "h")):
        table = column(AxisDataset(daf, "cell"), "gene", matrix, entry)
        assert table.to_table()["x"].to_pylist() == values[:, position].tolist()
        last = values[2, position]
        assert table.to_table(filter=pc.field("x") == last)["name"].to_pylist() == ["c"]


def test_elements_of_one_row_are_added_up_as_scipy_does() -> None:
    """Foreign writers may store a row twice, or out of order."""
    daf = data_set(cell=["a", "b", "c"], gene=["g"])
    with daf.empty_sparse_matrix("cell", "gene", "X", np.float32, 3) as parts:
        parts.colptr[:] = [1, 4]
        parts.rowval[:] = [3, 1, 3]
        parts.nzval[:] = [1, 2, 3]
    found = column(AxisDataset(daf, "cell"), "gene", "X", "g").to_table()
    assert found["x"].to_pylist() == [2, 0, 4]


@pytest.mark.parametrize(("name", "what"), CASES)
def test_the_other_layout_is_read_where_one_is_damaged(
    tiny_path: Path, name: str, what: tuple[str, bytes | None]
) -> None:
    """As slices do, with a warning; with both damaged there is an error."""
    damage(tiny_path, ("cell", "gene"), name, what)
    table = AxisDataset(ZarrDaf(tiny_path), "cell")
    with warnings.catch_warnings(record=True, action="always") as warned:
        read = column(table, "gene", name, GENES[1]).to_table()["x"]
    assert read.to_pylist() == UMIS[:, 1].tolist()
    assert {warning.category for warning in warned} == {DamagedLayoutWarning}
    damage(tiny_path, ("gene", "cell"), name, what)
    with pytest.raises(errors.DafError):
        column(AxisDataset(ZarrDaf(tiny_path), "cell"), "gene", name, GENES[1]).to_table()


def test_the_other_layout_is_read_where_chunks_are_damaged(tmp_path: Path) -> None:
    """Of a packed matrix, whose damage is seen when a chunk is decoded."""
    path = tmp_path / "x.daf.zarr"
    values = np.random.default_rng(0).random((300, 4))
    with ZarrDaf(path, "w", packed=Packing("zstd", chunk_kb=1)) as daf:
        data_set(daf, cell=300, gene=["g", "h", "i", "j"], matrices={("cell", "gene", "X"): values})
    [file] = path.glob("matrices/cell/gene/X/c/0/*")
    with edited_bytes(file) as data:
        data[250:-250] = bytes(len(data) - 500)
    table = column(AxisDataset(ZarrDaf(path), "cell"), "gene", "X", "h")
    with pytest.warns(DamagedLayoutWarning, match="matrices/cell/gene/X"):
        assert table.to_table()["x"].to_pylist() == values[:, 1].tolist()


def test_one_gene_of_a_packed_dense_matrix_reads_its_chunks_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a matrix in many chunks, only those of the gene are decoded."""
    values = np.random.default_rng(0).random((1000, 100))
    daf = stored(sp.csc_array(values), is_sparse=False, packed=Packing("zstd", chunk_kb=1))
    requested = recorded_calls(
        monkeypatch, (ChunkedArray, "read_spans"), lambda _, spans, within=None: (spans, within)
    )
    table = column(AxisDataset(daf, "cell"), "gene", "X", "g7")
    assert table.to_table()["x"].to_pylist() == values[:, 7].tolist()
    assert requested == [([Span(7, 8)], None)]


def test_a_dense_column_is_not_copied_for_arrow(tmp_path: Path) -> None:
    """Without NaN, the values that Arrow gets are those that were gathered."""
    path = tmp_path / "x.daf.zarr"
    ones = {("cell", "gene", "X"): np.ones((1000, 2))}
    data_set(create(path), cell=1000, gene=2, matrices=ones)
    table = column(AxisDataset(ZarrDaf(path), "cell"), "gene", "X", "g1")
    before = pa.total_allocated_bytes()
    [batch] = table.scanner(columns=["x"]).to_batches()
    assert pa.total_allocated_bytes() - before < 1000
    assert batch.column(0).to_pylist() == [1.0] * 1000


def test_other_engines_have_the_columns(tiny_path: Path) -> None:
    """DuckDB and polars filter by them, also after pickling."""
    session = connect(tiny_path)
    table = session.table("cell", matrix_columns={"first": ("gene", "sparse", GENES[0])})
    kept = [cell for cell, umi in zip(CELLS, UMIS[:, 0], strict=True) if umi > 0]
    for each in (table, pickle.loads(pickle.dumps(table))):
        query = "SELECT name FROM each WHERE first > 0"
        assert duckdb.sql(query).fetchall() == [(k,) for k in kept]
        frame = pl.scan_pyarrow_dataset(each).filter(pl.col("first") > 0).collect()
        assert frame["name"].to_list() == kept


def test_a_union_has_the_columns_of_its_parts(tmp_path: Path) -> None:
    """NULL where one lacks the matrix; a filter, and pickling, keep them."""
    for name, genes in (("a", GENES), ("b", GENES[::-1]), ("c", [])):
        daf = data_set(create(tmp_path / f"{name}.daf.zarr"), cell=CELLS)
        if genes:
            daf.add_axis("gene", genes)
            values = UMIS.astype("f4" if name == "b" else "i2")
            daf.set_matrix("cell", "gene", "X", sp.csc_array(values))
    session = connect(str(tmp_path / "*.daf.zarr"))
    table = session.table("cell", matrix_columns={"x": ("gene", "X", GENES[0])})
    expected = [*UMIS[:, 0].tolist(), *UMIS[:, -1].tolist(), *[None] * len(CELLS)]
    assert table.to_table()["x"].to_pylist() == expected
    some = pickle.loads(pickle.dumps(table.filter(pc.field("x") > 1)))
    assert some.to_table()["x"].to_pylist() == [x for x in expected if x is not None and x > 1]
    with pytest.raises(errors.EntryNotFoundError):
        session.table("cell", matrix_columns={"x": ("gene", "X", "none")})


def test_of_a_served_matrix_the_ranges_of_a_gene_are_asked_for(tmp_path: Path) -> None:
    """Over HTTP: two pointers and the elements of one column, once; no lists of what there is."""
    path = tmp_path / "x.daf.zarr"
    random = np.random.default_rng(0)
    values = sp.random_array((10_000, 40), density=0.2, format="csc", rng=random, dtype=np.float32)
    data_set(create(path), cell=10_000, gene=40, matrices={("cell", "gene", "X"): values})
    convert(path, tmp_path / "y.daf.zarr")
    with served(tmp_path / "y.daf.zarr") as server:
        session = connect(server.url)
        session.sql("SELECT name FROM cell WHERE index < 1").to_pydict()
        before = len(server.requested)
        query = "SELECT index FROM cell WHERE X['g30'] > 0.5"
        expected = np.flatnonzero(values.toarray()[:, 30] > 0.5)
        assert session.sql(query).to_pydict()["index"] == expected.tolist()
        requested = {url for _, url, _ in server.requested[before:]}
        assert {url.rsplit("/", 2)[1] for url in requested} == {"gene", "colptr", "rowval", "nzval"}
        _first, rowval = [
            each for _, url, each in server.requested[before:] if "rowval" in url and each
        ]
        first, last = map(int, str(rowval).removeprefix("bytes=").split("-"))
        # Half of their bytes; the first block tells the length.
        assert last - first < 2 * values.nnz
        before = len(server.requested)
        assert session.sql(query).to_pydict()["index"] == expected.tolist()
        assert len(server.requested) == before


def test_threads_share_what_is_decoded() -> None:
    """Queries of several threads at once have the right rows."""
    random = np.random.default_rng(1)
    values = sp.random_array((5000, 8), density=0.1, format="csc", rng=random)
    session = connect(data_set(cell=5000, gene=8, matrices={("cell", "gene", "X"): values}))
    expected = [np.flatnonzero(column > 0.5).tolist() for column in values.toarray().T]
    found: list[tuple[int, list[int]]] = []

    def ask(first: int) -> None:
        for gene in (*range(first, 8), *range(first)):
            query = f"SELECT index FROM cell WHERE X['g{gene}'] > 0.5"
            found.append((gene, session.sql(query).to_pydict()["index"]))

    in_threads(ask, range(4))
    assert sorted(found) == [each for each in enumerate(expected) for _ in range(4)]


def test_a_matrix_that_was_replaced_by_another_type_is_an_error() -> None:
    """A table that is kept says that it has to be asked for again."""
    daf = data_set(cell=CELLS, gene=GENES, matrices={("cell", "gene", "X"): UMIS})
    table = column(AxisDataset(daf, "cell"), "gene", "X", GENES[0])
    daf.set_matrix("cell", "gene", "X", UMIS * 2, if_exists="replace")
    assert table.to_table()["x"].to_pylist() == (UMIS[:, 0] * 2).tolist()
    daf.set_matrix("cell", "gene", "X", UMIS.astype(bool), if_exists="replace")
    with pytest.raises(errors.FormatError, match="was replaced while"):
        table.to_table()
