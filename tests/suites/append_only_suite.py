"""The tests of formats in which properties can be added, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daf_storage import DafWriter, errors
from tests.suites.daf_suite import DafSuite
from tests.suites.examples import UMIS, contents

REPLACE: Any = {"if_exists": "replace"}


class AppendOnlyDafSuite(DafSuite):
    """The contract of formats in which properties can be added, and nothing else."""

    def test_an_axis_is_not_reordered(self, full: DafWriter) -> None:
        """The way out is to convert."""
        before = contents(full)
        with pytest.raises(errors.AppendOnlyError, match="convert it to a directory"):
            full.reorder_axis("cell", [2, 1, 0])
        assert contents(full) == before

    @pytest.mark.parametrize(
        "change",
        [
            lambda daf: daf.delete_scalar("n"),
            lambda daf: daf.delete_axis("gene"),
            lambda daf: daf.delete_vector("cell", "age"),
            lambda daf: daf.delete_matrix("cell", "gene", "UMIs"),
            lambda daf: daf.set_scalar("n", 8, **REPLACE),
            lambda daf: daf.add_axis("gene", ["a"], **REPLACE),
            lambda daf: daf.set_vector("cell", "age", [1, 2, 3], **REPLACE),
            lambda daf: daf.set_matrix("cell", "gene", "UMIs", UMIS, **REPLACE),
            lambda daf: daf.relayout_matrix("cell", "gene", "UMIs", **REPLACE),
            lambda daf: daf.empty_dense_vector("cell", "age", "i4", **REPLACE).__enter__(),
            lambda daf: daf.empty_sparse_vector("cell", "age", "i4", 1, **REPLACE).__enter__(),
            lambda daf: daf.empty_dense_matrix("cell", "gene", "UMIs", "i4", **REPLACE).__enter__(),
        ],
    )
    def test_nothing_is_replaced_or_deleted(
        self, full: DafWriter, change: Any, tmp_path: Path
    ) -> None:
        """Each such change is refused, with the way out, all is as it was, and no file has grown."""
        before = contents(full), [file.read_bytes() for file in tmp_path.iterdir()]
        with pytest.raises(errors.AppendOnlyError, match=r"append-only; .* a directory"):
            change(full)
        assert (contents(full), [file.read_bytes() for file in tmp_path.iterdir()]) == before

    def test_the_transpose_of_what_is_there_is_not_replaced(self, full: DafWriter) -> None:
        """There are not two matrices that disagree."""
        full.set_matrix("cell", "gene", "once", UMIS, relayout=False)
        with pytest.raises(errors.AppendOnlyError, match=r"append-only; .* a directory"):
            full.set_matrix("gene", "cell", "once", UMIS.T * 2, **REPLACE, relayout=False)
        assert full.get_np_matrix("gene", "cell", "once").tolist() == UMIS.T.tolist()

    def test_an_existing_property_says_that_it_stays(self, full: DafWriter) -> None:
        """Without ``if_exists="replace"`` the message does not recommend it."""
        with pytest.raises(errors.ExistsError, match="an archive is append-only"):
            full.set_vector("cell", "age", [1, 2, 3])

    def test_replace_is_fine_for_what_is_new(self, full: DafWriter) -> None:
        """Nothing there, nothing to replace; deleting what need not exist is fine too."""
        full.set_scalar("new", 1, if_exists="replace")
        full.add_axis("batch", ["B1"], if_exists="replace")
        full.set_vector("cell", "new", [1, 2, 3], if_exists="replace")
        full.set_matrix("cell", "gene", "new", UMIS, if_exists="replace")
        full.delete_scalar("nothing", must_exist=False)
        full.delete_axis("nothing", must_exist=False)
        full.delete_vector("cell", "nothing", must_exist=False)
        full.delete_matrix("cell", "gene", "nothing", must_exist=False)
        assert full.get_np_matrix("gene", "cell", "new").tolist() == UMIS.T.tolist()

    def test_a_failed_fill_can_be_repeated(self, full: DafWriter) -> None:
        """An exception while filling leaves nothing, and the name is free."""

        def fail() -> None:
            with full.empty_dense_vector("cell", "v", "f8") as values:
                values[:] = 1
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert not full.has_vector("cell", "v")
        with full.empty_dense_vector("cell", "v", "f8") as values:
            assert values.tolist() == [0, 0, 0]
            values[:] = [1, 2, 3]
        assert full.get_np_vector("cell", "v").tolist() == [1, 2, 3]

    def test_an_error_undoes_a_batch(self, full: DafWriter) -> None:
        """All of a batch or nothing."""

        def fail() -> None:
            with full.batch():
                full.add_axis("batch", ["B1"])
                full.set_vector("cell", "v", [1, 2, 3])
                raise RuntimeError

        before = contents(full)
        with pytest.raises(RuntimeError):
            fail()
        assert contents(full) == before
        with full.batch():
            full.add_axis("batch", ["B1"])
        assert full.has_axis("batch")
