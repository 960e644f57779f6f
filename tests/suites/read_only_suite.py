"""The tests of data sets that can only be read."""

from __future__ import annotations

import pytest

from daf_storage import DafReader, DafWriter, MemoryDaf, errors
from tests.suites.examples import contents, fill_served


class ReadOnlyDafSuite:
    """The contract of whatever can only be read: mode ``r``, and data sets on a server."""

    @pytest.fixture
    def daf(self) -> DafReader:
        """Return a data set that `fill_served` filled; overridden by each format's tests."""
        raise AssertionError("a format's tests override this")

    def test_everything_reads_back(self, daf: DafReader) -> None:
        """Every encoding: scalars, axes, vectors and matrices, dense, sparse and empty."""
        with MemoryDaf() as memory:
            assert contents(daf) == contents(fill_served(memory))

    def test_it_has_no_methods_that_write(self, daf: DafReader) -> None:
        """What cannot be done is absent, not refused."""
        assert not daf.is_writable
        assert daf.name.partition("#")[0].endswith(".read_only")
        writing = set(dir(DafWriter)) - set(dir(DafReader))
        assert {"add_axis", "set_scalar", "set_vector", "set_matrix", "delete_axis"} <= writing
        assert {name for name in writing if hasattr(daf, name)} == set()

    def test_what_is_missing_is_named(self, daf: DafReader) -> None:
        """As in every format, with what there is instead; and defaults are returned."""
        with pytest.raises(errors.AxisNotFoundError, match="it has batch, cell, gene, none"):
            daf.axis_length("sell")
        with pytest.raises(errors.VectorNotFoundError, match="has no vector 'age'"):
            daf.get_np_vector("cell", "age")
        with pytest.raises(errors.MatrixNotFoundError, match="no matrix 'nope'"):
            daf.get_np_matrix("cell", "gene", "nope")
        assert daf.get_scalar("nope", default=3) == 3
        assert daf.get_np_vector("cell", "age", default=1).tolist() == [1, 1, 1]

    def test_what_is_read_cannot_be_changed(self, daf: DafReader) -> None:
        """Arrays that are handed out are read-only."""
        for values in (
            daf.get_np_vector("gene", "marker"),
            daf.get_np_matrix("cell", "gene", "UMIs"),
        ):
            assert not values.flags.writeable
