"""Tests of the moments of groups: against pandas, and against exact sums of fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query.matrix import DamagedLayoutWarning, Selection
from daf_query.moments import BlockOptions, GroupedRows, Moments, group_moments
from daf_storage import DafReader, DafWriter, H5df, MemoryDaf, Packing, ZarrDaf, errors
from tests.support import create, recorded_reads, reopen

STATISTICS = ("missing", "nonzero", "sum", "mean", "variance", "min", "max")
DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
)
SMALL = BlockOptions(elements=3, window_elements=7, threads=1)


def expected(
    dense: npt.NDArray[Any],
    positions: list[int],
    codes: list[int],
    n_groups: int,
    columns: list[int],
) -> dict[str, npt.NDArray[Any]]:
    """Return the moments as pandas computes them on the whole matrix."""
    frame = pd.DataFrame(dense[positions][:, columns].astype(float))
    grouped = frame.groupby(pd.Series(codes, dtype=int))
    groups = pd.RangeIndex(n_groups)
    n = grouped.count().reindex(groups, fill_value=0)
    sizes = grouped.size().reindex(groups, fill_value=0)
    is_nonzero = (frame != 0) & frame.notna()
    return {
        "count": sizes.to_numpy(),
        "missing": n.rsub(sizes, axis=0).to_numpy(),
        "nonzero": is_nonzero.groupby(pd.Series(codes, dtype=int))
        .sum()
        .reindex(groups, fill_value=0)
        .to_numpy(),
        "sum": grouped.sum(min_count=1).reindex(groups).to_numpy(),
        "mean": grouped.mean().reindex(groups).to_numpy(),
        "variance": grouped.var().reindex(groups).to_numpy(),
        "min": grouped.min().reindex(groups).to_numpy(),
        "max": grouped.max().reindex(groups).to_numpy(),
    }


def check(moments: Moments, wanted: dict[str, npt.NDArray[Any]]) -> None:
    """Compare moments with what they have to be."""
    assert moments.count.tolist() == wanted["count"].tolist()
    for name in STATISTICS:
        got = getattr(moments, name)
        assert got.shape == wanted[name].shape, name
        if name in ("sum", "mean", "variance"):
            np.testing.assert_allclose(
                got, wanted[name].astype(float), rtol=1e-9, atol=1e-9, err_msg=name
            )
        else:
            np.testing.assert_array_equal(got, wanted[name].astype(got.dtype), err_msg=name)


def daf_of(
    values: Any, *, relayout: bool = True, axes: tuple[str, str] = ("cell", "gene")
) -> DafReader:
    """Return a data set in memory with this matrix."""
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{i}" for i in range(values.shape[0])])
    daf.add_axis("gene", [f"g{i}" for i in range(values.shape[1])])
    stored = values if axes == ("cell", "gene") else values.T
    daf.set_matrix(*axes, "X", stored, relayout=relayout)
    return daf


def with_explicit_zeros(dense: npt.NDArray[Any], is_stored: npt.NDArray[np.bool_]) -> Any:
    """Return a sparse array that stores some of its zeros."""
    row, column = np.nonzero((dense != 0) | is_stored)
    return sp.csc_array((dense[row, column], (row, column)), shape=dense.shape)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw a matrix, its groups, and what is selected of it."""
    n_cells, n_genes = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dense = rng.integers(0, 100, (n_cells, n_genes)) * (rng.random((n_cells, n_genes)) < 0.5)
    dense = dense.astype(dtype)
    if dtype.kind == "f":
        dense[rng.random(dense.shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = np.nan
    if dtype.kind in "fi":
        dense[rng.random(dense.shape) < 0.2] *= -1
    positions = draw(
        st.one_of(
            st.just(list(range(n_cells))),
            st.lists(st.integers(0, n_cells - 1), max_size=12),
        )
    )
    n_groups = draw(st.integers(1, 5))
    group_of_row = rng.integers(0, n_groups, n_cells)
    columns = draw(
        st.one_of(st.just(list(range(n_genes))), st.lists(st.integers(0, n_genes - 1), max_size=8))
    )
    is_stored = rng.random(dense.shape) < 0.3
    return dense, is_stored, positions, group_of_row, n_groups, columns


@pytest.mark.parametrize("axes", [("cell", "gene"), ("gene", "cell")])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    "options",
    [BlockOptions(threads=1), SMALL, BlockOptions(4, 8, threads=2)],
    ids=["large", "small", "threads"],
)
@given(case=cases())
def test_equal_to_pandas(
    case: tuple[Any, ...], axes: tuple[str, str], *, is_sparse: bool, options: BlockOptions
) -> None:
    """Any types, NaN, stored zeros, repeats, empty groups, either layout, blocks of any size."""
    dense, is_stored, positions, group_of_row, n_groups, columns = case
    values = with_explicit_zeros(dense, is_stored) if is_sparse else dense
    daf = daf_of(values, relayout=False, axes=axes)
    selected = np.array(positions, np.int64)
    codes = group_of_row[selected].astype(np.int32)
    rows = GroupedRows(selected, codes, n_groups)
    chosen = Selection.of(np.array(columns, np.int64), dense.shape[1])
    moments = group_moments(daf, ("cell", "gene"), "X", rows, chosen, options=options)
    kept = [p for p, code in zip(positions, codes, strict=True) if code >= 0]
    check(moments, expected(dense, kept, [c for c in codes.tolist() if c >= 0], n_groups, columns))


def exact(values: list[float]) -> tuple[Fraction, Fraction]:
    """Return the sum and the variance of numbers without any rounding."""
    fractions = [Fraction(value) for value in values]
    total = sum(fractions, Fraction(0))
    mean = total / len(fractions)
    return total, sum(((f - mean) ** 2 for f in fractions), Fraction(0)) / (len(fractions) - 1)


@pytest.mark.parametrize("axes", [("cell", "gene"), ("gene", "cell")])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_equal_to_exact_sums(axes: tuple[str, str], *, is_sparse: bool, offset: float) -> None:
    """Sums hold to 1e-12, however many blocks; a variance keeps its digits under an offset."""
    rng = np.random.default_rng(7)
    dense = (rng.lognormal(size=(3000, 3)) + offset) * (rng.random((3000, 3)) < 0.6)
    if offset:
        dense = np.where(dense == 0, offset, dense)  # else the variance is that of the zeros
    values = sp.csc_array(dense) if is_sparse else dense
    daf = daf_of(values, relayout=False, axes=axes)
    codes = rng.integers(0, 2, 3000).astype(np.int32)
    rows = GroupedRows(np.arange(3000), codes, 2)
    for options in (BlockOptions(), BlockOptions(elements=10, window_elements=100, threads=1)):
        moments = group_moments(daf, ("cell", "gene"), "X", rows, Selection.all(3), options=options)
        for group in range(2):
            for column in range(3):
                total, variance = exact(dense[codes == group, column].tolist())
                assert math.isclose(moments.sum[group, column], total, rel_tol=1e-14)
                assert math.isclose(
                    moments.variance[group, column], variance, rel_tol=1e-12 if not offset else 1e-6
                )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_infinities(*, is_sparse: bool) -> None:
    """They are values: sums are infinite, and what has no meaning is NaN, without a warning."""
    dense = np.array([[np.inf, np.inf, 1.0], [1.0, -np.inf, 2.0]])
    values = sp.csc_array(dense) if is_sparse else dense
    rows = GroupedRows(np.arange(2), np.zeros(2, np.int32), 1)
    for options in (BlockOptions(), BlockOptions(elements=1, threads=1)):
        moments = group_moments(
            daf_of(values), ("cell", "gene"), "X", rows, Selection.all(3), options=options
        )
        np.testing.assert_array_equal(moments.sum, [[np.inf, np.nan, 3.0]])
        np.testing.assert_array_equal(moments.min, [[1.0, -np.inf, 1.0]])
        np.testing.assert_array_equal(moments.max, [[np.inf, np.inf, 2.0]])
        np.testing.assert_array_equal(moments.variance, [[np.nan, np.nan, 0.5]])


def sparse_matrix() -> Any:
    """Return 200 cells x 50 genes with a fifth of the elements."""
    rng = np.random.default_rng(3)
    return sp.csc_array(rng.poisson(3, (200, 50)) * (rng.random((200, 50)) < 0.2)).astype(
        np.float32
    )


@pytest.fixture(params=["plain", "packed", "zip", "hdf5"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> DafReader:
    """Return a data set on disk with the matrix sparse and dense."""
    packed: Packing | None = None
    if request.param == "hdf5":
        daf: DafWriter = H5df(tmp_path / "x.h5df", "w")
    elif request.param == "packed":
        packed = Packing(chunk_kb=1)
        daf = ZarrDaf(tmp_path / "x.daf.zarr", "w", packed=True)
    else:
        daf = create(tmp_path / ("x.daf.zarr.zip" if request.param == "zip" else "x.daf.zarr"))
    daf.add_axis("cell", [f"c{i}" for i in range(200)])
    daf.add_axis("gene", [f"g{i}" for i in range(50)])
    daf.set_matrix("cell", "gene", "s", sparse_matrix(), packed=packed)
    daf.set_matrix("cell", "gene", "d", sparse_matrix().toarray(), packed=packed)
    return daf


@pytest.mark.parametrize("name", ["s", "d"])
@pytest.mark.parametrize("few_rows", [False, True])
def test_every_way_of_storage(stored: DafReader, name: str, *, few_rows: bool) -> None:
    """Mapped and packed, in a directory, an archive and HDF5; all rows, and few of them."""
    positions = np.array([3, 150, 77]) if few_rows else np.arange(200)
    columns = [49, 0, 7, 8, 9, 30]
    codes = (positions % 3).astype(np.int32)
    rows = GroupedRows(positions, codes, 3)
    chosen = Selection.of(np.array(columns), 50)
    for options in (BlockOptions(), BlockOptions(elements=300, window_elements=700, threads=2)):
        moments = group_moments(stored, ("cell", "gene"), name, rows, chosen, options=options)
        check(
            moments,
            expected(sparse_matrix().toarray(), positions.tolist(), codes.tolist(), 3, columns),
        )


def test_a_damaged_layout(tmp_path: Path) -> None:
    """The other layout is read, and a warning says so; without another one it is an error."""
    for relayout in (True, False):
        path = tmp_path / f"{relayout}.daf.zarr"
        daf = create(path)
        daf.add_axis("cell", [f"c{i}" for i in range(200)])
        daf.add_axis("gene", [f"g{i}" for i in range(50)])
        daf.set_matrix("cell", "gene", "X", sparse_matrix(), relayout=relayout)
        daf.close()
        rowval = path / "matrices" / "cell" / "gene" / "X" / "rowval" / "0"
        rowval.write_bytes(b"\xff" * rowval.stat().st_size)
        rows = GroupedRows(np.arange(200), np.zeros(200, np.int32), 1)
        arguments = (reopen(path), ("cell", "gene"), "X", rows, Selection.all(50))
        if not relayout:
            with pytest.raises(errors.CorruptDataError, match="rowval leaves the range 1 to 200"):
                group_moments(*arguments)
            continue
        with pytest.warns(DamagedLayoutWarning, match="relayout_matrix"):
            moments = group_moments(*arguments)
        check(
            moments,
            expected(sparse_matrix().toarray(), list(range(200)), [0] * 200, 1, list(range(50))),
        )


def test_the_layout_that_fits_is_read(stored: DafReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells: that by genes, and each element once; few cells: the other one."""
    whole = GroupedRows(np.arange(200), (np.arange(200) % 3).astype(np.int32), 3)
    few = GroupedRows(np.array([5, 7]), np.zeros(2, np.int32), 1)
    element_bytes = (
        4
        + stored.open_matrix("cell", "gene", "s").entries("rowval").info.storage_type.dtype.itemsize
    )
    for rows, folder, n_elements in (
        (whole, "cell/gene", sparse_matrix().nnz),
        (few, "gene/cell", int(np.count_nonzero(sparse_matrix().toarray()[[5, 7]]))),
    ):
        read: list[int] = []
        with recorded_reads(monkeypatch) as reads:
            group_moments(
                stored,
                ("cell", "gene"),
                "s",
                rows,
                Selection.all(50),
                options=BlockOptions(elements=100),
                progress=read.append,
            )
        values = {chunk for chunk in reads.chunks() if "nzval" in chunk and "json" not in chunk}
        assert all(f"matrices/{folder}/s/nzval" in chunk for chunk in values)
        assert sum(read) == n_elements * element_bytes
        assert len(read) > 1 or rows is few
