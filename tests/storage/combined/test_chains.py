"""Chains of data sets: which one counts, what is refused, and what is written where."""

from __future__ import annotations

import itertools
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import connect
from daf_query.index import build_index
from daf_query.table import Categoricals
from daf_storage import (
    DafReader,
    DafWriter,
    H5df,
    MemoryDaf,
    ZarrDaf,
    chain_reader,
    chain_writer,
    copy_all,
    errors,
    import_h5ad,
    open_daf,
    to_anndata,
)
from daf_storage.combined._chains import WritableChainTree
from daf_storage.stores import MemoryStore
from daf_storage.trees import WritableTree, WritableZarrTree
from daf_storage.trees._zarr_tree import ZarrTransaction
from daf_storage.upkeep import IndexPlace, IndexStorage
from tests import seams
from tests.suites import AppendOnlyDafSuite, ChangingDafSuite, ChangingTreeSuite, ReadOnlyDafSuite
from tests.support import (
    CELLS,
    GENES,
    PBMC,
    UMIS,
    contents,
    data_set,
    dense,
    fill,
    fill_served,
    new_daf,
    recorded_calls,
    there,
)


def memory(**vectors: Any) -> DafWriter:
    """Return a data set with the axis ``cell`` and vectors of it."""
    return data_set(cell={"name": CELLS, **vectors})


class TestAChainIsADataSet(ReadOnlyDafSuite):
    """What two data sets hold in part, their chain holds all of."""

    @pytest.fixture
    def daf(self) -> DafReader:
        """Return a chain of which either member lacks something, or has another value of it."""
        first, second = fill_served(MemoryDaf()), fill_served(MemoryDaf())
        first.set_vector("cell", "type", ["x", "y", "z"], if_exists="replace")
        first.set_matrix("cell", "gene", "UMIs", np.zeros((3, 4)), if_exists="replace")
        first.set_scalar("depth", 7, if_exists="replace")
        second.delete_axis("batch")
        for name in ("sparse_UMIs", "one", "labels"):
            second.delete_matrix("cell", "gene", name)
        second.delete_vector("gene", "counts")
        second.delete_scalar("name")
        return chain_reader([first, second], name="chain.read_only")


@pytest.mark.sampled(1)
class TestAChainIsWritten(ChangingDafSuite):
    """A chain on top of nothing is a data set as any other."""

    @pytest.fixture
    def daf(self) -> DafWriter:
        """Return a chain of two empty data sets."""
        return chain_writer([MemoryDaf(), MemoryDaf()])


class TestAChainIsATree(ChangingTreeSuite):
    """On top of an empty tree, and of one that has the groups."""

    @pytest.fixture(params=["empty", "groups"])
    def tree(self, request: pytest.FixtureRequest) -> WritableTree:
        """Return a chain of trees in memory."""
        base, last = (WritableZarrTree(MemoryStore(), consolidated=False) for _ in range(2))
        for each in (base, last):
            with each.transaction() as changes:
                changes.mark_group("")
        if request.param == "groups":
            with base.transaction() as changes:
                changes.create_group("h")
                changes.publish("h", replace=False)
        return WritableChainTree([base], last)


@pytest.mark.sampled(1)
class TestAnArchiveOnTop(AppendOnlyDafSuite):
    """What is on top may be an archive, which can only be added to."""

    @pytest.fixture
    def daf(self, tmp_path: Path) -> DafWriter:
        """Return a chain whose last data set is an archive."""
        return chain_writer([MemoryDaf(), ZarrDaf(tmp_path / "x.daf.zarr.zip", "w")])


@pytest.mark.parametrize("name", ["", "m.daf.zarr", "m.h5df"])
def test_what_is_written_equals_a_copy_that_is_changed(tmp_path: Path, name: str) -> None:
    """Replacing, adding and deleting on top of a base: as on a copy of the base, left untouched."""
    base = fill(MemoryDaf())
    before = contents(base)
    mine = new_daf(tmp_path, name)
    chain, copy = chain_writer([base, mine]), MemoryDaf()
    copy_all(base, copy)
    for daf in (chain, copy):
        daf.set_scalar("n", 8, if_exists="replace")
        daf.set_vector("cell", "type", ["a", "", "c"], if_exists="replace", empty_is_missing=True)
        daf.set_vector("gene", "flag", sp.csr_array(np.eye(1, 4)), if_exists="replace")
        daf.set_matrix("gene", "cell", "UMIs", UMIS.T * 2, if_exists="replace", relayout=False)
        daf.add_axis("donor", ["N1", "N2"], vectors={"age": [30, 60]})
        daf.set_matrix("donor", "gene", "mean", np.arange(8.0).reshape(2, 4))
        daf.set_matrix("donor", "cell", "of", sp.csr_array(np.eye(2, 3)))
        daf.add_axis("gone", ["x"], vectors={"y": [1]})
        daf.delete_axis("gone")
        daf.reorder_axis("donor", ["N2", "N1"], progress="never")
        with daf.empty_dense_matrix("cell", "cell", "square", "float32") as filled:
            filled[:] = np.arange(9).reshape(3, 3)
    assert contents(chain) == contents(copy)
    assert chain.vector_info("cell", "type").empty_is_missing
    assert contents(base) == before
    assert contents(chain_reader([base, mine])) == contents(copy)
    assert contents(chain.read_only()) == contents(copy)
    chain.close()
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        chain.axes_set()
    assert mine.axes_set() == {"cell", "gene", "donor"}  # whoever opened it closes it


def test_a_matrix_of_a_later_one_hides_both_orientations() -> None:
    """Whichever is stored, both that are asked for are of the later one, and none of the base."""
    base, mine = fill(MemoryDaf()), fill(MemoryDaf())
    mine.set_matrix("gene", "cell", "UMIs", UMIS.T + 5, if_exists="replace", relayout=False)
    chain = chain_reader([base, mine])
    for rows, columns in (("cell", "gene"), ("gene", "cell")):
        values = dense(chain.get_np_matrix(rows, columns, "UMIs"))
        assert (values if rows == "cell" else values.T).tolist() == (UMIS + 5).tolist()
        assert chain.matrices_set(rows, columns) == {"UMIs", "sparse"}
    mine.delete_matrix("cell", "gene", "UMIs")
    mine.set_matrix("gene", "cell", "UMIs", UMIS.T + 6, relayout=False)
    assert not chain.has_matrix("cell", "gene", "UMIs", relayout=False)
    assert chain.matrices_set("cell", "gene", relayout=False) == {"sparse"}
    assert chain.get_np_matrix("cell", "gene", "UMIs").tolist() == (UMIS + 6).tolist()
    writer = chain_writer([base, MemoryDaf()])
    with pytest.raises(errors.ExistsError, match="to hide it"):
        writer.set_matrix("cell", "gene", "UMIs", UMIS)
    writer.set_matrix("cell", "gene", "UMIs", UMIS * 0, if_exists="replace", relayout=False)
    assert writer.get_np_matrix("gene", "cell", "UMIs").sum() == 0
    writer.relayout_matrix("cell", "gene", "UMIs")
    assert writer.get_np_matrix("gene", "cell", "UMIs", relayout=True).sum() == 0


def test_a_vector_of_the_last_one_is_deleted() -> None:
    """It is hidden no more, and what hides one of an earlier one stays."""
    mine = MemoryDaf()
    chain = chain_writer([fill(MemoryDaf()), mine])
    chain.set_vector("cell", "mine", [1, 2, 3])
    chain.set_vector("cell", "age", [1, 2, 3], if_exists="replace")
    chain.delete_vector("cell", "mine")
    assert mine.vectors_set("cell") == {"age"}


def test_entries_that_differ_are_refused() -> None:
    """When something of another data set is read, or is written."""
    base = memory(age=[1, 2, 3])
    moved = data_set(cell={"name": ["TATA", "CATA", "GATA"], "label": ["a", "b", "c"]})
    chain = chain_reader([base, moved])
    assert chain.get_np_vector("cell", "age").tolist() == [1, 2, 3]
    message = "not those of <memory>: at position 1 it has 'CATA' instead of 'GATA'"
    with pytest.raises(errors.LabelsError, match=message):
        chain.get_np_vector("cell", "label")
    writer = chain_writer([base, moved])
    with pytest.raises(errors.LabelsError, match=message):
        writer.set_vector("cell", "more", [1, 2, 3])
    assert moved.vectors_set("cell") == {"label"}
    moved.reorder_axis("cell", CELLS, progress="never")
    assert chain.get_np_vector("cell", "label").tolist() == ["a", "c", "b"]
    base.reorder_axis("cell", CELLS[::-1], progress="never")  # noticed, though it was equal before
    with pytest.raises(errors.LabelsError):
        chain.get_np_vector("cell", "label")


def test_entries_are_compared_in_every_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored plainly, packed, or in HDF5; also where only the bytes of all together are equal.

    Of such as are stored plainly and are equal, no string is made.
    """
    read = recorded_calls(monkeypatch, seams.PLAIN_ARRAY_READ_STRINGS, lambda array: array.what)
    chain_of: dict[str, DafWriter] = {
        "plain": ZarrDaf(tmp_path / "a.daf.zarr", "w"),
        "packed": ZarrDaf(tmp_path / "b.daf.zarr", "w", zarr_format=3, packed=True),
        "hdf5": H5df(tmp_path / "c.h5df", "w"),
    }
    for daf in chain_of.values():
        data_set(daf, cell={"name": ["ab", "c", "é"], "x": [1, 2, 3]})
    other = data_set(cell=["a", "bc", "é"])
    for daf in chain_of.values():
        for again in chain_of.values():
            assert chain_reader([again, daf]).get_np_vector("cell", "x").tolist() == [1, 2, 3]
        with pytest.raises(errors.LabelsError, match="at position 0 it has 'ab' instead of 'a'"):
            chain_reader([other, daf]).get_np_vector("cell", "x")
    read.clear()
    assert chain_reader([chain_of["plain"]] * 2).get_np_vector("cell", "x").tolist() == [1, 2, 3]
    assert read == []


def test_a_chain_of_one_ends_with_it() -> None:
    """It is that data set, read only."""
    daf = memory()
    only = chain_reader([daf], name="two")
    assert only.name == "two"
    assert chain_reader([daf, memory()]).name.startswith("memory")
    daf.close()
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        only.axes_set()


def test_leftovers_of_a_data_set_without_the_axis_are_not_seen() -> None:
    """A crashed writer may leave vectors of an axis that was not put in place."""
    base, mine = memory(age=[1, 2, 3]), memory(label=["a", "b", "c"])
    with mine.writable_tree.transaction() as changes:
        changes.remove("axes/cell")
    chain = chain_reader([base, mine])
    assert chain.vectors_set("cell") == {"age"}
    assert not chain.has_vector("cell", "label")


def test_a_chain_is_pickled_by_its_paths(tmp_path: Path) -> None:
    """As other readers are; a chain with a part in memory says that it cannot be."""
    for name, value in (("a", [1, 2, 3]), ("b", [4, 5, 6])):
        with ZarrDaf(tmp_path / f"{name}.daf.zarr", "w") as daf:
            data_set(daf, cell={"name": CELLS, "x": value})
    parts = [open_daf(tmp_path / f"{name}.daf.zarr") for name in "ab"]
    chain = chain_reader(parts, name="of two parts")
    again = pickle.loads(pickle.dumps(chain))
    assert again.name == "of two parts"
    assert again.get_np_vector("cell", "x").tolist() == [4, 5, 6]
    with pytest.raises(errors.InvalidInputError, match="no path leads to this data set"):
        pickle.dumps(chain_reader([parts[0], memory()]))


def test_indexes_are_of_the_vector_that_is_seen(tmp_path: Path) -> None:
    """One of a vector that is hidden is not used; new ones are stored beside the last data."""
    cells: Any = {"name": CELLS, "age": [3, 1, 2]}
    for base in (data_set(cell=cells), data_set(H5df(tmp_path / "b.h5df", "w"), cell=cells)):
        build_index(base, "cell", "age", progress="never")
        mine = ZarrDaf(tmp_path / f"{type(base.tree).__name__}.daf.zarr", "w")
        chain = chain_writer([base, mine])
        place = IndexPlace("cell", "ranges", ("age",))
        assert there(IndexStorage(chain).load(place)).state == "fit"
        chain.set_vector("cell", "age", [1, 1, 1], if_exists="replace")
        assert IndexStorage(chain).load(place) is None
        build_index(chain, "cell", "age", progress="never")
        assert IndexStorage(chain).places() == IndexStorage(mine).places() != []
        assert there(IndexStorage(chain).load(place)).state == "fit"
        IndexStorage(chain).discard(place)
        assert IndexStorage(mine).places() == []


def test_an_axis_of_the_last_one_only_has_its_groups_there() -> None:
    """What is written is a data set of its own: it names no axis that it lacks."""
    base, mine = fill(MemoryDaf()), MemoryDaf()
    chain = chain_writer([base, mine])
    chain.add_axis("donor", ["N1"])
    assert set(mine.tree.children("matrices")) == {"donor"}
    chain.set_vector("gene", "x", [1, 2, 3, 4])
    assert mine.axes_set() == {"donor", "gene"}
    assert set(mine.tree.children("matrices/gene")) == {"donor", "gene"}
    assert mine.axis_entries("gene").tolist() == GENES


def test_an_archive_hides_what_it_has_not(tmp_path: Path) -> None:
    """It can only be added to, and hiding what an earlier one has is adding; once."""
    base, mine = fill(MemoryDaf()), ZarrDaf({}, "w")
    archive = ZarrDaf(tmp_path / "x.daf.zarr.zip", "w")
    for last in (mine, archive):
        chain = chain_writer([base, last])
        chain.set_vector("cell", "age", [1, 2, 3], if_exists="replace")
        chain.set_scalar("n", 5, if_exists="replace")
        chain.set_matrix("cell", "gene", "UMIs", UMIS * 2, if_exists="replace")
        assert chain.get_np_vector("cell", "age").tolist() == [1, 2, 3]
        assert chain.get_np_matrix("gene", "cell", "UMIs").tolist() == (UMIS.T * 2).tolist()
        with pytest.raises(errors.ExistsError, match="vector 'type' .* to hide it"):
            chain.set_vector("cell", "type", ["a"] * 3)
    with pytest.raises(errors.AppendOnlyError):
        chain.set_vector("cell", "age", [1, 2, 3], if_exists="replace")
    with pytest.raises(errors.ExistsError, match="an archive is append-only"):
        chain.set_vector("cell", "age", [1, 2, 3])


def test_a_write_that_fails_leaves_the_chain_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stops: at worst the last one has an axis more, and the next attempt works."""
    base = fill(MemoryDaf())
    before = contents(base)
    publish = ZarrTransaction.publish
    for stop in range(14):
        mine, calls = MemoryDaf(), itertools.count()

        def fail(self: ZarrTransaction, path: str, *, replace: bool) -> None:
            if next(calls) == stop:  # noqa: B023 - used within this round
                raise OSError(path)
            publish(self, path, replace=replace)

        chain = chain_writer([base, mine])
        with monkeypatch.context() as patched:
            patched.setattr(ZarrTransaction, "publish", fail)
            with suppress(OSError):
                chain.set_matrix("cell", "gene", "new", UMIS)
        seen = contents(chain)
        added = {key for key in seen["matrices"] if key[2] == "new"}
        assert {k: v for k, v in seen["matrices"].items() if k not in added} == before["matrices"]
        assert {**seen, "matrices": before["matrices"]} == before
        chain.set_matrix("cell", "gene", "new", UMIS, if_exists="replace")
        assert chain.get_np_matrix("gene", "cell", "new").tolist() == UMIS.T.tolist()
        assert mine.axes_set() == {"cell", "gene"}
    assert next(calls) < stop  # the last rounds were not stopped


def test_a_replaced_categorical_is_what_it_is_now(tmp_path: Path) -> None:
    """The notes of an import are of the base; values that they do not know are shown all the same."""
    import_h5ad(PBMC, tmp_path / "pbmc.daf.zarr")
    base, mine = open_daf(tmp_path / "pbmc.daf.zarr"), MemoryDaf()
    chain = chain_writer([base, mine])
    before = to_anndata(chain_reader([base, mine])).obs
    assert before["louvain"].dtype == "category"
    labels = ["new" if n % 3 else "" for n in range(len(before))]
    chain.set_vector("obs", "louvain", labels, if_exists="replace", empty_is_missing=True)
    for categoricals in get_args(Categoricals):
        with connect(chain.read_only(), categoricals=categoricals) as db:
            counts = db.sql("SELECT louvain, count(*) AS n FROM obs GROUP BY 1 ORDER BY n")
            assert counts.to_arrow_table().column(0).to_pylist() == [None, "new"]
    after = to_anndata(chain).obs
    assert after["louvain"].astype(object).fillna("").tolist() == labels
    assert after.drop(columns="louvain").equals(before.drop(columns="louvain"))
