"""Tests of scipy's compiled counting sort, and of what stands in for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage.data import _counting_sort as counting_sort
from daf_storage.data import largest_number
from daf_storage.data._counting_sort import count_numbers, is_compiled, select_into, transpose_into


@pytest.fixture(autouse=True)
def _tried_again() -> Iterator[None]:
    """Forget what was found out of another scipy."""
    is_compiled.cache_clear()
    yield
    is_compiled.cache_clear()


@pytest.fixture(params=[True, False], ids=["compiled", "public"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(counting_sort, "_sparsetools", object())
    assert is_compiled() == request.param


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "f4", "i8"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_all_are_those_of_scipy(dtype: str, index: Any) -> None:
    """With numbers of either width, and columns without elements."""
    random = np.random.default_rng(0)
    for shape in ((1, 1), (7, 4), (4, 30), (50, 50)):
        matrix = sp.random_array(shape, density=0.3, format="csr", rng=random)
        matrix.data = random.integers(0, 200, matrix.nnz).astype(dtype)
        numbers, pointers = matrix.indices.astype(index), matrix.indptr.astype(index)
        out = np.full(shape[1] + 1, 9, index), np.zeros_like(numbers), np.zeros_like(matrix.data)
        transpose_into(pointers, numbers, matrix.data, out)
        expected: Any = matrix.tocsc()
        for found, part in zip(out, ("indptr", "indices", "data"), strict=True):
            assert found.tolist() == getattr(expected, part).tolist()
        rows = random.integers(0, shape[0], 9).astype(index)
        some: Any = matrix[rows]
        picked = np.zeros(some.nnz, index), np.zeros(some.nnz, dtype)
        select_into(rows, (pointers, numbers, matrix.data), picked)
        assert picked[0].tolist() == some.indices.tolist()
        assert picked[1].tolist() == some.data.tolist()
        counts = count_numbers(numbers, shape[1])
        assert counts.dtype == np.int64
        assert counts.tolist() == np.diff(expected.indptr).tolist()


def nothing(*_: Any) -> None:
    """Do nothing."""


def refuse(*_: Any) -> None:
    """Take other arguments."""
    raise ValueError("Output dtype not compatible with inputs")


@pytest.mark.parametrize("name", ["csr_tocsc", "csr_row_index", "csr_column_index1"])
@pytest.mark.parametrize("function", [None, nothing, refuse, lambda: None])
def test_they_are_tried_first(monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> None:
    """None is used where one is gone, or does something else."""

    class Other:
        """A scipy of which one function is another one."""

        def __getattr__(self, asked: str) -> Any:
            if asked == name and function is None:
                raise AttributeError(asked)
            return function if asked == name else getattr(sp._sparsetools, asked)

    monkeypatch.setattr(counting_sort, "_sparsetools", Other())
    assert not is_compiled()
    assert count_numbers(np.array([1, 1], np.int32), 3).tolist() == [0, 2, 0]


def test_they_are_there() -> None:
    """The scipy that is installed has them: without them imports take half as long again."""
    assert is_compiled()


@pytest.mark.parametrize("dtype", ["u1", "i2", "<i4", ">i4", "u8", "i8"])
def test_the_largest_number_is_beyond_all_if_one_is_negative(dtype: str) -> None:
    """So one comparison finds what leaves a range at either end."""
    assert largest_number(np.array([3, 100, 5], dtype)) == 100
    if np.dtype(dtype).kind == "i":
        assert largest_number(np.array([3, -1], dtype)) > np.iinfo(dtype).max
