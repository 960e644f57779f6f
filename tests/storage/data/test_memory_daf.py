"""Tests of data sets in memory."""

from __future__ import annotations

import numpy as np
import pytest

from daf_storage import DafWriter, MemoryDaf
from tests.suites import ChangingDafSuite
from tests.support import data_set


class TestMemoryDaf(ChangingDafSuite):
    @pytest.fixture
    def daf(self) -> DafWriter:
        """Return an empty data set."""
        return MemoryDaf()


def test_input_is_copied() -> None:
    """Changing the caller's array later does not change the data set."""
    daf = data_set(cell=2)
    values = np.array([1, 2])
    daf.set_vector("cell", "v", values)
    values[:] = 0
    assert daf.get_np_vector("cell", "v").tolist() == [1, 2]


def test_names_are_unique_within_the_process() -> None:
    """The second data set of a name gets a number, unless the name has an exclamation mark."""
    first, second = MemoryDaf(name="unique-test"), MemoryDaf(name="unique-test")
    assert (first.name, second.name) == ("unique-test", "unique-test#2")
    assert MemoryDaf(name="a!").name == MemoryDaf(name="a!").name == "a!"
