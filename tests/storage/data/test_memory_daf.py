"""Tests of data sets in memory."""

from __future__ import annotations

import numpy as np
import pytest

from daf_storage import DafWriter, MemoryDaf, errors
from tests.suites import ChangingDafSuite


class TestMemoryDaf(ChangingDafSuite):
    @pytest.fixture
    def daf(self) -> DafWriter:
        """Return an empty data set."""
        return MemoryDaf()


def test_input_is_copied() -> None:
    """Changing the caller's array later does not change the data set."""
    daf = MemoryDaf()
    daf.add_axis("cell", ["a", "b"])
    values = np.array([1, 2])
    daf.set_vector("cell", "v", values)
    values[:] = 0
    assert daf.get_np_vector("cell", "v").tolist() == [1, 2]


def test_names_are_unique_within_the_process() -> None:
    """The second data set of a name gets a number, unless the name has an exclamation mark."""
    first, second = MemoryDaf(name="unique-test"), MemoryDaf(name="unique-test")
    assert (first.name, second.name) == ("unique-test", "unique-test#2")
    assert MemoryDaf(name="a!").name == MemoryDaf(name="a!").name == "a!"


@pytest.mark.parametrize("indices", [[1.5], [True, False], ["a"]])
def test_entries_at_positions_that_are_none(indices: list[object]) -> None:
    """Fractions are not cut, and a mask is not taken for positions 0 and 1."""
    daf = MemoryDaf(name="m")
    daf.add_axis("cell", ["a", "b"])
    with pytest.raises(errors.InvalidInputError, match=r"indices= of axis 'cell' holds .* values"):
        daf.axis_entries("cell", indices)
    assert daf.axis_entries("cell", []).tolist() == []
    assert daf.axis_entries("cell", np.array([1, 0], dtype=np.uint64)).tolist() == ["b", "a"]
    with pytest.raises(errors.EntryNotFoundError):
        daf.axis_entries("cell", np.array([2**64 - 1], dtype=np.uint64))
