"""Tests of matrices as tables: the same elements as scipy has, and no more read than needed."""

from __future__ import annotations

import functools
import operator
import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from daf_query import DamagedLayoutWarning, ScanOptions, connect
from daf_query.matrix import Selection
from daf_query.scan import ScanReport
from daf_query.table import MatrixDataset
from daf_storage import DafReader, DafWriter, MemoryDaf, Packing, errors
from tests.suites.examples import BY_ROWS, write_stored
from tests.support import CELLS, GENES, OPERATORS, UMIS, create, data_set, recorded_reads, reopen

SMALL = ScanOptions(partition_rows=4, min_partition_rows=1, min_batch_rows=1, threads=2)
"""Blocks of four elements."""

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]

CONDITIONS: dict[str, pc.Expression | None] = {
    "all": None,
    "one row": pc.field("cell") == "c1",
    "one column": pc.field("gene") == "g0",
    "none": pc.field("gene") == "other",
    "some rows": pc.field("cell").isin(["c0", "c2", "x"]),
    "comparisons": (pc.field("cell") >= "c2") & (pc.field("gene") != "g1"),
    "values": pc.field("value").is_valid(),
    "null": pc.field("value").is_null(),
    "all three": (pc.field("cell") > "c0")
    & (pc.field("gene") > "g0")
    & pc.field("value").is_valid(),
    "either": (pc.field("cell") == "c0") | (pc.field("gene") == "g1"),
    "not": ~pc.field("cell").isin(["c0", "c1"]),
    "never": pc.scalar(False),
    "left to Arrow": pc.utf8_upper(pc.field("gene").cast(pa.string())) == "G1",
}


@st.composite
def matrices(draw: st.DrawFn, most_rows: int = 5) -> tuple[Any, bool, str]:
    """Return a CSC array with stored zeros, whether to store it sparse, and in which layouts."""
    shape = draw(st.tuples(st.integers(0, most_rows), st.integers(0, 4)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    share = draw(st.sampled_from([0.05, 0.5, 1.0]))
    row, column = np.nonzero(random.random(shape) < share)
    choices: list[Any] = [0, 1, 2, 100] + [np.nan] * (dtype.kind == "f")
    data = random.choice(choices, row.size).astype(dtype)
    matrix = sp.csc_array((data, (row, column)), shape=shape)
    return matrix, draw(st.booleans()), draw(st.sampled_from(["both", "rows", "columns"]))


def stored(
    matrix: Any, layouts: str = "both", *, is_sparse: bool, packed: Packing | None = None
) -> DafReader:
    """Return a data set with a matrix, in one layout or both."""
    daf = data_set(MemoryDaf(packed=packed or False), cell=matrix.shape[0], gene=matrix.shape[1])
    values = matrix if is_sparse else matrix.toarray()
    if layouts == "rows":
        daf.set_matrix("gene", "cell", "X", values.T, relayout=False)
    else:
        daf.set_matrix("cell", "gene", "X", values, relayout=layouts == "both")
    return daf


def expected(matrix: Any, *, is_sparse: bool) -> pa.Table:
    """Return the elements that scipy has, explicit zeros included, or all, by name."""
    dense = matrix.toarray()
    every = np.indices(dense.shape).reshape(2, -1)
    row, column = sp.coo_array(matrix).coords if is_sparse else every
    values = pa.array(dense[row, column], from_pandas=True)
    if dense.dtype.kind in "iu" and dense.dtype != "u8":
        values = values.cast(pa.int64())
    names = {"cell": [f"c{n}" for n in row], "gene": [f"g{n}" for n in column]}
    columns = {axis: pa.array(entries, pa.string()) for axis, entries in names.items()}
    return pa.table(columns | {"value": values})


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a long form, sorted; None is no obstacle to that."""
    columns = (table.column(name).to_pylist() for name in table.column_names)
    return sorted(zip(*columns, strict=True), key=lambda row: row[:2])


class TestEqualToScipy:
    @settings(max_examples=2 * settings().max_examples)
    @given(
        matrices(),
        st.none() | st.lists(st.integers(0, 4), max_size=6),
        st.none() | st.lists(st.integers(0, 3), max_size=5),
        st.sampled_from(list(CONDITIONS)),
    )
    def test_filtered(
        self,
        given: tuple[Any, bool, str],
        rows: list[int] | None,
        columns: list[int] | None,
        name: str,
    ) -> None:
        """Those elements, however stored and scanned; what is chosen repeatedly counts once."""
        matrix, is_sparse, layouts = given
        expression = CONDITIONS[name]
        elements = expected(matrix, is_sparse=is_sparse)
        elements = elements if expression is None else elements.filter(expression)
        chosen: dict[str, Any] = {}
        for axis, what, positions in ((0, "rows", rows), (1, "columns", columns)):
            if positions is not None:
                length = matrix.shape[axis]
                places = [n for n in positions if n < length]
                chosen[what] = Selection.of(np.array(places, np.int64), length)
                names = pa.array([f"{'cg'[axis]}{n}" for n in places], pa.string())
                elements = elements.filter(pc.field(("cell", "gene")[axis]).isin(names))
        daf, wanted = stored(matrix, layouts, is_sparse=is_sparse), rows_of(elements)
        table = MatrixDataset(daf, "cell", "gene", "X", **chosen).with_options(SMALL)
        assert rows_of(table.to_table(filter=expression)) == wanted
        assert table.count_rows(filter=expression) == len(wanted)
        parts = [part.to_table(filter=expression) for part in table.get_fragments(expression)]
        assert rows_of(pa.concat_tables(parts)) == wanted
        if expression is not None:
            assert rows_of(table.filter(expression).to_table()) == wanted

    @given(matrices(), st.sampled_from(["==", "!=", "<", ">="]), st.sampled_from([0, 1, 100]))
    def test_values(self, given: tuple[Any, bool, str], symbol: str, constant: int) -> None:
        """Comparisons of values: true for no NaN; of explicit zeros like of any other."""
        matrix, is_sparse, layouts = given
        if matrix.dtype == np.bool_:
            return
        table = MatrixDataset(stored(matrix, layouts, is_sparse=is_sparse), "cell", "gene", "X")
        value = pa.scalar(constant, table.schema.field("value").type)
        expression = OPERATORS[symbol](pc.field("value"), value)
        found = table.with_options(SMALL).to_table(filter=expression)
        assert rows_of(found) == rows_of(expected(matrix, is_sparse=is_sparse).filter(expression))

    def test_other_filter_than_that_of_the_fragments(self) -> None:
        """Each fragment is scanned for the filter that it is given."""
        matrix = sp.csc_array(UMIS)
        table = MatrixDataset(stored(matrix, is_sparse=True), "cell", "gene", "X")
        fragments = list(table.with_options(SMALL).get_fragments())
        found = [fragment.to_table(filter=pc.field("cell") == "c1") for fragment in fragments]
        wanted = expected(matrix, is_sparse=True).filter(pc.field("cell") == "c1")
        assert rows_of(pa.concat_tables(found)) == rows_of(wanted)


class TestSchema:
    def test_types(self, tiny: DafReader) -> None:
        """Codes are positions, in a dictionary of all entries; the values as they are stored."""
        table = MatrixDataset(tiny, "cell", "gene", "sparse")
        entries = pa.dictionary(pa.int32(), pa.string())
        assert table.schema.types == [entries, entries, pa.int64()]
        assert not any(field.nullable for field in table.schema)
        genes = table.to_table().column("gene").chunk(0)
        assert genes.dictionary.to_pylist() == GENES
        assert table.to_table().schema == table.schema

    def test_axis_with_itself(self) -> None:
        """Its columns are the axis, and the axis with ``_2``; row and column are not mixed up."""
        daf = data_set(cell=CELLS)
        square = np.arange(9).reshape(3, 3)
        daf.set_matrix("cell", "cell", "D", square)
        daf.set_matrix("cell", "cell", "S", sp.csc_array(square))
        write_stored(daf, "matrices/cell/cell/R", {"": square}, BY_ROWS)
        for name in "DSR":
            table = MatrixDataset(daf, "cell", "cell", name)
            assert table.schema.names == ["cell", "cell_2", "value"]
            found = table.to_table(filter=pc.field("cell_2") == "GATA").to_pydict()
            by_cell = dict(zip(found["cell"], found["value"], strict=True))
            assert by_cell == {"TATA": 1, "GATA": 4, "CATA": 7}

    def test_axis_called_value(self) -> None:
        """The column of the values gives way."""
        daf = data_set(value=CELLS, gene=GENES, matrices={("value", "gene", "X"): UMIS})
        table = MatrixDataset(daf, "value", "gene", "X")
        assert table.schema.names == ["value", "gene", "value_2"]
        found = table.to_table(filter=(pc.field("value") == "GATA") & (pc.field("value_2") == 3))
        assert found.to_pylist() == [{"value": "GATA", "gene": "WNT6", "value_2": 3}]

    def test_strings(self) -> None:
        """A matrix of strings is dense, whichever layout is read."""
        daf = data_set(cell=CELLS, gene=GENES)
        daf.set_matrix("cell", "gene", "labels", np.array(list("abcdefghijkl")).reshape(3, 4))
        table = MatrixDataset(daf, "cell", "gene", "labels").with_options(SMALL)
        assert table.schema.field("value").type == pa.string()
        one = table.to_table(filter=pc.field("cell") == "GATA")
        assert one.column("value").to_pylist() == list("efgh")
        one = table.to_table(filter=(pc.field("gene") == "WNT6") & (pc.field("value") > "c"))
        assert one.column("value").to_pylist() == ["g", "k"]

    def test_nothing_stored(self) -> None:
        """An axis without entries, and a matrix of zeros only, have no rows."""
        daf = data_set(cell=[], gene=GENES, matrices={("cell", "gene", "D"): np.zeros((0, 4))})
        daf.set_matrix("gene", "gene", "S", sp.csc_array((4, 4), dtype=np.float32))
        for axes in (("cell", "gene", "D"), ("gene", "gene", "S")):
            table = MatrixDataset(daf, *axes)
            assert table.to_table().num_rows == table.count_rows() == 0
            assert [fragment.to_table().num_rows for fragment in table.get_fragments()] == [0]


class TestErrors:
    def test_replaced(self) -> None:
        """A matrix of another type in its place is noticed when it is scanned."""
        daf = data_set(cell=CELLS, gene=GENES, matrices={("cell", "gene", "X"): UMIS})
        table = MatrixDataset(daf, "cell", "gene", "X")
        daf.set_matrix("cell", "gene", "X", UMIS.astype(np.float32), if_exists="replace")
        with pytest.raises(errors.FormatError, match="replaced while it was being queried"):
            table.to_table()

    def test_damaged_layout(self, tiny_path: Path) -> None:
        """The other one is read, with a warning; row numbers that are wrong are an error."""
        daf, folder = reopen(tiny_path), tiny_path / "matrices"
        for axes in ("cell/gene", "gene/cell"):
            file = folder / axes / "sparse/rowval/0"
            file.write_bytes(b"\x63\0\0\0" * (file.stat().st_size // 4))
        with pytest.raises(errors.CorruptDataError, match="rowval leaves the range"):
            MatrixDataset(daf, "cell", "gene", "sparse").to_table()
        daf.set_matrix("cell", "gene", "sparse", sp.csc_array(UMIS), if_exists="replace")
        (folder / "cell/gene/sparse/colptr/0").write_bytes(b"1")
        with pytest.warns(DamagedLayoutWarning):
            found = MatrixDataset(daf, "cell", "gene", "sparse").to_table()
        assert found.num_rows == np.count_nonzero(UMIS)


def report_of(table: MatrixDataset, **arguments: Any) -> ScanReport:
    """Return what a scan of a table read."""
    reports: list[ScanReport] = []
    table.with_view(reports=reports).to_table(**arguments)
    [report] = [report for report in reports if report.read]
    return report


FEW = ["g7", "g8", "g9", "g10", "g11"]


class TestHowLittleIsRead:
    """Of 300 cells x 200 genes, each gene in every tenth cell, each cell with 20 genes."""

    @pytest.fixture
    def daf(self, tmp_path: Path) -> DafWriter:
        """Return the data set."""
        daf = data_set(create(tmp_path / "big.daf.zarr"), cell=300, gene=200)
        row, column = np.ogrid[:300, :200]
        values = np.where((row + column) % 10 == 0, row + 1, 0).astype(np.float32)
        daf.set_matrix("cell", "gene", "X", sp.csc_array(values))
        daf.set_matrix("cell", "gene", "genes", sp.csc_array(values), relayout=False)
        daf.set_matrix("cell", "gene", "D", values)
        return daf

    @pytest.mark.parametrize(
        ("name", "chosen", "values", "rows"),
        [
            # One gene is read as a column, one cell as a row, where both layouts are stored.
            ("X", {"gene": ["g7"]}, {"gene": 30, "cell": 30, "value": 30}, (30, 30)),
            ("X", {"cell": ["c7"]}, {"gene": 20, "cell": 20, "value": 20}, (20, 20)),
            # Of the one layout all row numbers are read, and only the values wanted.
            ("genes", {"cell": ["c7"]}, {"cell": 6020, "gene": 20, "value": 20}, (6000, 20)),
            # The majors of the layout with fewer elements; minors by their codes, values late.
            ("X", {"gene": FEW, "cell": ["c3"]}, {"gene": 21, "cell": 1, "value": 1}, (20, 1)),
            # Of a dense one, the elements of both.
            ("D", {"gene": FEW[:2], "cell": ["c3"]}, {"gene": 2, "cell": 2, "value": 2}, (2, 2)),
        ],
    )
    def test_a_filter_of_entries(
        self,
        daf: DafWriter,
        name: str,
        chosen: dict[str, list[str]],
        values: dict[str, int],
        rows: tuple[int, int],
    ) -> None:
        """Reads the elements of the cheaper axis, and nothing else of the matrix."""
        conditions = [pc.field(axis).isin(entries) for axis, entries in chosen.items()]
        filter_ = functools.reduce(operator.and_, conditions)
        report = report_of(MatrixDataset(daf, "cell", "gene", name), filter=filter_)
        assert report.values == values
        assert (report.rows_in, report.rows_out) == rows
        assert report.rows_pruned == report.length - report.rows_in

    def test_columns(self, daf: DafWriter) -> None:
        """Columns that are not asked for are not read; values that filter are, no others."""
        table = MatrixDataset(daf, "cell", "gene", "X")
        report = report_of(
            table, columns=["cell"], filter=(pc.field("gene") == "g7") & (pc.field("value") > 290)
        )
        assert report.values == {"value": 30, "cell": 1}
        assert report.rows_out == 1
        assert report.table.endswith("stored by 'gene'")

    def test_count(self, daf: DafWriter, monkeypatch: pytest.MonkeyPatch) -> None:
        """Counting all reads nothing; those of one gene where each column begins."""
        table = MatrixDataset(daf, "cell", "gene", "X")
        with recorded_reads(monkeypatch) as reads:
            assert MatrixDataset(daf, "cell", "gene", "X").count_rows() == 6000
            assert not reads.chunks()
            assert table.count_rows(filter=pc.field("gene") == "g7") == 30
            parts = {key.split("/")[-2] for key in reads.chunks() if "/X/" in key}
            assert parts == {"colptr"}
        reports: list[ScanReport] = []
        assert table.with_view(reports=reports).to_table(columns=[]).num_rows == 6000
        assert [(report.rows_in, report.rows_out) for report in reports] == [(0, 6000)]

    def test_blocks(self, daf: DafWriter) -> None:
        """No batch, and no copy, is of more elements than a block; a column is cut if need be."""
        options = ScanOptions(partition_rows=7, min_partition_rows=1, min_batch_rows=1, threads=2)
        for name, most in (("X", 7), ("D", 300)):  # a block of a dense one is a whole column
            table = MatrixDataset(daf, "cell", "gene", name).with_options(options)
            sizes = [batch.num_rows for batch in table.to_batches()]
            assert max(sizes) <= most
            assert sum(sizes) == table.count_rows()
        assert len(list(table.get_fragments())) == 2

    def test_default_blocks(self, daf: DafWriter) -> None:
        """All of a small matrix is one block; blocks are shared out among the threads."""
        table = MatrixDataset(daf, "cell", "gene", "X").with_options(ScanOptions(threads=1))
        assert [batch.num_rows for batch in table.to_batches()] == [6000]
        shared = table.with_options(ScanOptions(threads=4, min_partition_rows=1))
        assert len(list(shared.get_fragments())) == 4

    def test_values_are_not_copied(self, daf: DafWriter) -> None:
        """Those of a range of columns are a view of the mapped file."""
        genes = Selection.of(np.arange(50, 60), 200)
        table = MatrixDataset(daf, "cell", "gene", "genes", columns=genes)
        [batch] = table.to_batches()
        _, nzval = batch.column("value").buffers()
        assert not nzval.is_mutable
        assert nzval.size == 4 * batch.num_rows


def test_pickled(tiny_path: Path) -> None:
    """It goes by path, with the rows and columns that were chosen, and its filter."""
    db = connect(tiny_path)
    table = db.matrix_table("cell", "gene", "sparse", rows="age > 30", columns=["WNT6", "FOXA1"])
    table = table.filter(pc.field("value") > 2)
    twin = pickle.loads(pickle.dumps(table))
    assert twin.to_table().to_pylist() == table.to_table().to_pylist()
    assert twin.to_table().num_rows == 2
