"""Tests of the moments of groups: against pandas, and against exact sums of fractions."""

from __future__ import annotations

import math
import shutil
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

from daf_query import DamagedLayoutWarning, connect
from daf_query.moments import LAYERS, GroupProfile
from daf_storage import DafReader, Packing, errors, open_daf
from tests.limits import lower
from tests.support import create, data_set, recorded_reads, reopen

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
DTYPES = ("bool", *INTEGERS, "float32", "float64")
BLOCKS: dict[str, dict[str, float]] = {
    "large": {"moment_threads": 1},
    "small": {"moment_elements": 3, "moment_window": 7, "moment_threads": 1},
    "threads": {"moment_elements": 4, "moment_window": 8, "moment_threads": 2},
}
"""How a matrix is cut into blocks."""


def moments_of(
    daf: DafReader, name: str, positions: Any = None, columns: Any = None
) -> GroupProfile:
    """Return the moments of the groups of some rows."""
    chosen: dict[str, Any] = {"rows": positions, "columns": columns, "max_bytes": None}
    return connect(daf).profile("cell", "gene", name, by="group", **chosen).content


def expected(
    dense: npt.NDArray[Any], positions: list[int], codes: Any, columns: list[int]
) -> dict[str, npt.NDArray[Any]]:
    """Return the moments as pandas computes them on the whole matrix."""
    frame = pd.DataFrame(dense[positions][:, columns].astype(float))
    groups = pd.Series(np.asarray(codes, int)[positions], dtype=int)
    grouped = frame.groupby(groups)
    n, sizes = grouped.count(), grouped.size()
    nonzero = ((frame != 0) & frame.notna()).groupby(groups).sum()
    found: dict[str, Any] = {
        "count": sizes,
        "missing": n.rsub(sizes, axis=0),
        "nonzero": nonzero,
        "sum": grouped.sum(min_count=1),
        "mean": grouped.mean(),
        "variance": grouped.var(),
        "min": grouped.min(),
        "max": grouped.max(),
        "fraction": nonzero / n.where(n > 0),
    }
    return {name: values.to_numpy() for name, values in found.items()}


def check(content: GroupProfile, wanted: dict[str, npt.NDArray[Any]]) -> None:
    """Compare moments with what they have to be."""
    assert content.sizes.tolist() == wanted["count"].tolist()
    for name in LAYERS:
        got = content.moments.statistic(name)
        assert got.shape == wanted[name].shape, name
        if name in ("sum", "mean", "variance"):
            np.testing.assert_allclose(
                got, wanted[name].astype(float), rtol=1e-9, atol=1e-9, err_msg=name
            )
        else:
            np.testing.assert_array_equal(got, wanted[name].astype(got.dtype), err_msg=name)


def daf_of(
    values: Any, codes: Any, *, relayout: bool = True, axes: tuple[str, str] = ("cell", "gene")
) -> DafReader:
    """Return a data set in memory with this matrix, and the group of each row."""
    daf = data_set(
        cell={"name": values.shape[0], "group": np.asarray(codes, np.int32)}, gene=values.shape[1]
    )
    stored = values if axes == ("cell", "gene") else values.T
    daf.set_matrix(*axes, "X", stored, relayout=relayout)
    return daf


def with_explicit_zeros(dense: npt.NDArray[Any], is_stored: npt.NDArray[np.bool_]) -> Any:
    """Return a sparse array that stores some of its zeros."""
    row, column = np.nonzero((dense != 0) | is_stored)
    return sp.csc_array((dense[row, column], (row, column)), shape=dense.shape)


def chosen(length: int, most: int) -> st.SearchStrategy[list[int]]:
    """Return all positions, or some in any order."""
    return st.just([*range(length)]) | st.lists(st.integers(0, length - 1), max_size=most)


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
    positions = draw(chosen(n_cells, 12))
    codes = rng.integers(0, draw(st.integers(1, 5)), n_cells)
    columns = draw(chosen(n_genes, 8))
    is_stored = rng.random(dense.shape) < 0.3
    return dense, is_stored, positions, codes, columns


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axes", [("cell", "gene"), ("gene", "cell")])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("blocks", list(BLOCKS))
@given(case=cases())
def test_equal_to_pandas(
    case: tuple[Any, ...], axes: tuple[str, str], blocks: str, *, is_sparse: bool
) -> None:
    """Any types, NaN, stored zeros, repeats, either layout, blocks of any size."""
    dense, is_stored, positions, codes, columns = case
    values = with_explicit_zeros(dense, is_stored) if is_sparse else dense
    daf = daf_of(values, codes, relayout=False, axes=axes)
    with pytest.MonkeyPatch.context() as patch:
        lower(patch, **BLOCKS[blocks])
        content = moments_of(daf, "X", positions, columns)
        chosen: dict[str, Any] = {"rows": positions, "columns": columns, "progress": "never"}
        totals = connect(daf).totals("cell", "gene", "X", **chosen).to_pandas()
    check(content, expected(dense, positions, codes, columns))
    rows = dense[positions].astype(float)
    own = rows[:, sorted(set(columns))]  # a column that is chosen twice is added up once
    with np.errstate(all="ignore"):
        shares = np.nansum(own, axis=1) / np.nansum(rows, axis=1)
        means = np.nansum(own, axis=1) / np.sum(~np.isnan(own), axis=1)
    assert totals["index"].tolist() == positions
    assert totals["nonzero"].tolist() == np.count_nonzero(np.nan_to_num(own), axis=1).tolist()
    for name, wanted in (("sum", np.nansum(own, axis=1)), ("mean", means), ("share", shares)):
        np.testing.assert_allclose(totals[name].astype(float), wanted, rtol=1e-9, atol=1e-9)


def exact(values: list[float]) -> tuple[Fraction, Fraction]:
    """Return the sum and the variance of numbers without any rounding."""
    fractions = [Fraction(value) for value in values]
    total = sum(fractions, Fraction(0))
    mean = total / len(fractions)
    return total, sum(((f - mean) ** 2 for f in fractions), Fraction(0)) / (len(fractions) - 1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axes", [("cell", "gene"), ("gene", "cell")])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_equal_to_exact_sums(
    axes: tuple[str, str], monkeypatch: pytest.MonkeyPatch, *, is_sparse: bool, offset: float
) -> None:
    """Sums hold to 1e-12, however many blocks; a variance keeps its digits under an offset."""
    rng = np.random.default_rng(7)
    dense = (rng.lognormal(size=(3000, 3)) + offset) * (rng.random((3000, 3)) < 0.6)
    if offset:
        dense = np.where(dense == 0, offset, dense)  # else the variance is that of the zeros
    values = sp.csc_array(dense) if is_sparse else dense
    codes = rng.integers(0, 2, 3000).astype(np.int32)
    daf = daf_of(values, codes, relayout=False, axes=axes)
    for blocks in ({}, {"moment_elements": 10, "moment_window": 100, "moment_threads": 1}):
        lower(monkeypatch, **blocks)
        moments = moments_of(daf, "X").moments
        for group in range(2):
            for column in range(3):
                total, variance = exact(dense[codes == group, column].tolist())
                assert math.isclose(moments.sum[group, column], total, rel_tol=1e-14)
                assert math.isclose(
                    moments.variance[group, column], variance, rel_tol=1e-12 if not offset else 1e-6
                )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_infinities(monkeypatch: pytest.MonkeyPatch, *, is_sparse: bool) -> None:
    """They are values: sums are infinite, and what has no meaning is NaN, without a warning."""
    dense = np.array([[np.inf, np.inf, 1.0], [1.0, -np.inf, 2.0]])
    values = sp.csc_array(dense) if is_sparse else dense
    for blocks in ({}, {"moment_elements": 1, "moment_threads": 1}):
        lower(monkeypatch, **blocks)
        moments = moments_of(daf_of(values, [0, 0]), "X").moments
        np.testing.assert_array_equal(moments.sum, [[np.inf, np.nan, 3.0]])
        np.testing.assert_array_equal(moments.min, [[1.0, -np.inf, 1.0]])
        np.testing.assert_array_equal(moments.max, [[np.inf, np.inf, 2.0]])
        np.testing.assert_array_equal(moments.variance, [[np.nan, np.nan, 0.5]])
        daf = daf_of(np.array([[np.inf, 1.0, 2.0]]), [0])
        totals = (
            connect(daf).totals("cell", "gene", "X", columns=[1, 2], max_bytes=None).to_pylist()
        )
        assert [(row["sum"], row["share"]) for row in totals] == [(3.0, 0.0)]


@pytest.mark.parametrize("values", [[1e16, 1.0, -1e16], [1.0, -1e16, 1e16]])
def test_sums_are_compensated(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """What a much larger value swallows is there again when that is taken away."""
    lower(monkeypatch, moment_elements=1, moment_threads=1)
    blocks = np.repeat(values, 4)[:, np.newaxis]
    daf = daf_of(blocks, [0] * 12, relayout=False, axes=("gene", "cell"))
    assert moments_of(daf, "X").moments.sum.tolist() == [[4.0]]


def sparse_matrix() -> Any:
    """Return 200 cells x 50 genes with a fifth of the elements."""
    rng = np.random.default_rng(3)
    return sp.csc_array(rng.poisson(3, (200, 50)) * (rng.random((200, 50)) < 0.2)).astype(
        np.float32
    )


STORED: dict[str, dict[str, Any]] = {
    "plain.daf.zarr": {},
    "packed.daf.zarr": {"packed": Packing(chunk_kb=1)},
    "x.daf.zarr.zip": {},
    "x.h5df": {},
}


@pytest.fixture(params=STORED)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> DafReader:
    """Return a data set on disk with the matrix sparse and dense."""
    daf = open_daf(tmp_path / request.param, "w", **STORED[request.param])
    data_set(daf, cell={"name": 200, "group": np.arange(200) % 3}, gene=50)
    daf.set_matrix("cell", "gene", "s", sparse_matrix())
    daf.set_matrix("cell", "gene", "d", sparse_matrix().toarray())
    return daf


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", ["s", "d"])
@pytest.mark.parametrize("few_rows", [False, True])
def test_every_way_of_storage(
    stored: DafReader, name: str, monkeypatch: pytest.MonkeyPatch, *, few_rows: bool
) -> None:
    """Mapped and packed, in a directory, an archive and HDF5; all rows, and few of them."""
    positions = [3, 150, 77, 4] if few_rows else list(range(200))
    columns = [49, 0, 7, 8, 9, 30]
    wanted = expected(sparse_matrix().toarray(), positions, np.arange(200) % 3, columns)
    for blocks in ({}, {"moment_elements": 300, "moment_window": 700, "moment_threads": 2}):
        lower(monkeypatch, **blocks)
        check(moments_of(stored, name, positions, columns), wanted)


DAMAGE = {
    "rowval leaves the range 1 to 200": b"\xff",
    "an element is stored more than once": b"\1\0\0\0",
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_layout(tmp_path: Path, message: str) -> None:
    """The other layout is read, and a warning says so; without another one it is an error."""
    path, numbers = tmp_path / "x.daf.zarr", DAMAGE[message]
    with create(path) as daf:
        data_set(daf, cell={"name": 200, "group": np.arange(200) % 100}, gene=50)
        daf.set_matrix("cell", "gene", "X", sparse_matrix())
    rowval = path / "matrices/cell/gene/X/rowval/0"
    rowval.write_bytes(numbers * (rowval.stat().st_size // len(numbers)))
    with pytest.warns(DamagedLayoutWarning, match="relayout_matrix"):
        content = moments_of(reopen(path), "X")
    every = list(range(200)), np.arange(200) % 100, list(range(50))
    check(content, expected(sparse_matrix().toarray(), *every))
    shutil.rmtree(path / "matrices/gene/cell/X")
    with pytest.raises(errors.CorruptDataError, match=message):
        moments_of(reopen(path), "X")


def test_the_layout_that_fits_is_read(stored: DafReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells: that by genes; few cells: the other one."""
    lower(monkeypatch, moment_elements=100)
    for positions, folder in ((None, "cell/gene"), ([5, 7], "gene/cell")):
        with recorded_reads(monkeypatch) as reads:
            moments_of(stored, "s", positions)
        values = {chunk for chunk in reads.chunks() if "nzval" in chunk and "json" not in chunk}
        assert values or not reads.chunks()  # of what is mapped as a whole there are none
        assert all(f"matrices/{folder}/s/nzval" in chunk for chunk in values)
