"""Views: parts of data sets under other names, compared with numpy's indexing."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_query.index import build_index
from daf_storage import (
    DafReader,
    DafWriter,
    H5df,
    MemoryDaf,
    Packing,
    ZarrDaf,
    chain_writer,
    copy_all,
    errors,
    open_daf,
    to_anndata,
    view,
)
from daf_storage.base import Span
from daf_storage.upkeep import IndexPlace, IndexStorage
from tests.limits import lower
from tests.suites import ReadOnlyDafSuite
from tests.suites.examples import BY_ROWS, csc_parts, write_stored
from tests.support import (
    CELLS,
    UMIS,
    contents,
    data_set,
    dense,
    fill,
    fill_served,
    is_mapped,
    new_daf,
    there,
)

N_CELLS, N_GENES = 60, 23


class TestAViewOfEverything(ReadOnlyDafSuite):
    """A view that changes nothing is the data set."""

    @pytest.fixture
    def daf(self) -> DafReader:
        """Return a view of all."""
        return view(fill_served(MemoryDaf()), name="view.read_only")


class TestAViewUnderOtherNames(ReadOnlyDafSuite):
    """A view of a view that takes the first one's new names back."""

    @pytest.fixture
    def daf(self) -> DafReader:
        """Return a view of a view."""
        there = view(
            fill_served(MemoryDaf()),
            {"obs": "cell", "cell": None},
            {("obs", "kind"): "type", ("obs", "type"): None, "name": None, "title": "name"},
        )
        back = {("cell", "type"): "kind", ("cell", "kind"): None, "title": None, "name": "title"}
        return view(there, {"cell": "obs", "obs": None}, back, name="view.read_only")


def large(daf: DafWriter) -> DafWriter:
    """Fill a data set with one of every kind, in several chunks where it is packed."""
    random = np.random.default_rng(5)
    data_set(daf, cell=N_CELLS, gene=N_GENES, donor=["N1", "N2"])
    daf.set_vector("cell", "age", random.integers(0, 99, N_CELLS).astype("u1"))
    daf.set_vector("cell", "score", random.random(N_CELLS))
    daf.set_vector("cell", "ok", random.random(N_CELLS) < 0.5)
    donors = random.choice(["N1", "N2", ""], N_CELLS)
    daf.set_vector("cell", "who", donors, entries_of="donor", empty_is_missing=True)
    daf.set_vector("gene", "flag", sp.csr_array(random.random((1, N_GENES)) < 0.3))
    daf.set_vector("gene", "rare", sp.csr_array(np.eye(1, N_GENES, 7)))
    rare = np.full(N_GENES, "", dtype=object)
    rare[[2, 20]] = "yes"
    daf.set_vector("gene", "label", rare)
    counts = sp.random_array((N_CELLS, N_GENES), density=0.3, rng=random, dtype="f4")
    daf.set_matrix("cell", "gene", "X", sp.csc_array(counts))
    daf.set_matrix("cell", "gene", "one", sp.csc_array(counts * 2), relayout=False)
    daf.set_matrix("cell", "gene", "mask", sp.csc_array(counts > 0.5))
    daf.set_matrix("cell", "gene", "dense", random.random((N_CELLS, N_GENES)))
    words = random.choice(["", "", "a", "b"], (N_CELLS, N_GENES)).astype(object)
    daf.set_matrix("cell", "gene", "words", words)
    square = sp.random_array((N_CELLS, N_CELLS), density=0.1, rng=random)
    daf.set_matrix("cell", "cell", "near", sp.csc_array(square))
    values = random.random((N_CELLS, N_CELLS))
    write_stored(daf, "matrices/cell/cell/rows", {"": values}, BY_ROWS)
    return daf


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DafReader]:
    """Return the same data set in several formats."""
    folder = tmp_path_factory.mktemp("forms")
    memory = large(MemoryDaf())
    others = {
        "directory": ZarrDaf(folder / "a.daf.zarr", "w"),
        "packed": ZarrDaf(folder / "b.daf.zarr", "w", zarr_format=3, packed=Packing(chunk_kb=1)),
        "hdf5": H5df(folder / "c.h5df", "w"),
    }
    for daf in others.values():
        copy_all(memory, daf)
    return {"memory": memory, **others}


SELECTIONS: dict[str, Callable[[int], Any]] = {
    "range": lambda n: slice(5, n - 3),
    "mask": lambda n: np.arange(n) % 3 == 1,
    "shuffled": lambda n: np.random.default_rng(n).permutation(n)[: n // 2],
    "backwards": lambda n: range(n - 1, -1, -1),
    "one": lambda n: [n - 1],
    "none": lambda _: [],
}


def pairs_of(form: str) -> list[tuple[Any, Any]]:
    """Return selections of cells and of genes; more of them where reading is cheap."""
    chosen = [None, *SELECTIONS.values()]
    few = [("range", "shuffled"), ("shuffled", "range"), ("mask", "one")]
    pairs: list[tuple[Any, Any]] = [(SELECTIONS[cells], SELECTIONS[genes]) for cells, genes in few]
    if form == "memory":
        pairs += [*((each, None) for each in chosen), *((None, each) for each in chosen)]
        pairs += [(each, chosen[(n + 3) % 7]) for n, each in enumerate(chosen)]
    return pairs


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["memory", "directory", "packed", "hdf5"])
def test_some_entries_equal_those_of_numpy(forms: dict[str, DafReader], form: str) -> None:
    """Every kind of vector and matrix; ranges and not, in order and not, of one axis and of two."""
    daf = forms[form]
    for cells, genes in pairs_of(form):
        axes = {
            axis: pick(daf.axis_length(axis))
            for axis, pick in (("cell", cells), ("gene", genes))
            if pick is not None
        }
        part = view(daf, axes)
        shown = {
            axis: np.arange(daf.axis_length(axis))[axes.get(axis, slice(None))]
            for axis in ("cell", "gene", "donor")
        }
        for axis, positions in shown.items():
            assert part.axis_entries(axis).tolist() == daf.axis_entries(axis)[positions].tolist()
            for name in daf.vectors_set(axis):
                whole, some = daf.get_np_vector(axis, name), part.get_np_vector(axis, name)
                assert (some.tolist(), some.dtype) == (whole[positions].tolist(), whole.dtype)
                info = part.vector_info(axis, name)
                assert info.is_sparse == daf.vector_info(axis, name).is_sparse
                ranges = (Span(0, info.length // 2), Span(info.length // 2, info.length))
                if not info.storage_type.is_string:
                    read = part.open_vector(axis, name).reader()
                    pieces = [read(span) for span in ranges]
                    assert np.concatenate(pieces).tolist() == some.tolist()
                    if not info.is_sparse:
                        assert not some.flags.writeable
                        stored = part.open_vector(axis, name).dense()
                        parts = stored.read_spans([*ranges[::-1], Span(0, 0)])
                        wanted = [*pieces[::-1], np.zeros(0)]
                        assert [p.tolist() for p in parts] == [p.tolist() for p in wanted]
        for rows, columns in itertools.product(shown, shown):
            assert part.matrices_set(rows, columns) == daf.matrices_set(rows, columns)
            for name in daf.matrices_set(rows, columns):
                whole = dense(daf.get_np_matrix(rows, columns, name))
                some = part.get_np_matrix(rows, columns, name)
                assert sp.issparse(some) == sp.issparse(daf.get_np_matrix(rows, columns, name))
                expected = whole[np.ix_(shown[rows], shown[columns])]
                assert dense(some).tolist() == expected.tolist(), (rows, columns, name)
                assert sp.issparse(some) or name == "words" or not some.flags.writeable
                for each in part.open_orientations(rows, columns, name):
                    if each.info.is_sparse and each.info.nnz:
                        rowval, nnz = each.entries("rowval"), each.info.nnz
                        spans = [Span(nnz // 2, nnz), Span(0, nnz // 3), Span(nnz - 1, nnz)]
                        parts = rowval.read_spans(spans)
                        all_rows = rowval.read()
                        assert [p.tolist() for p in parts] == [
                            all_rows[span.slice].tolist() for span in spans
                        ]
        assert part.vector_info("cell", "who").empty_is_missing
        assert [(r.vector, r.source) for r in part.relations()] == [("who", "import")]


def test_a_range_is_a_view_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense and sparse: nothing is copied but the pointers of the columns."""
    lower(monkeypatch, small_file_bytes=0)
    with ZarrDaf(tmp_path / "x.daf.zarr", "w") as daf:
        data_set(daf, cell=100, gene=2)
        daf.set_vector("cell", "age", np.arange(100))
        daf.set_matrix("cell", "gene", "UMIs", np.arange(200).reshape(100, 2))
        daf.set_matrix("cell", "gene", "X", sp.csr_array(np.arange(200).reshape(100, 2)))
    part = view(open_daf(tmp_path / "x.daf.zarr"), {"cell": slice(10, 30)})
    sparse = csc_parts(part, "gene", "cell", "X")
    for values, path in (
        (part.get_np_vector("cell", "age"), "vectors/cell/age/0"),
        (part.get_np_matrix("gene", "cell", "UMIs", relayout=False), "matrices/gene/cell/UMIs/0.0"),
        (part.get_np_matrix("cell", "gene", "UMIs", relayout=False), "matrices/cell/gene/UMIs/0.0"),
        (sparse.rowval, "matrices/gene/cell/X/rowval/0"),
        (sparse.nzval, "matrices/gene/cell/X/nzval/0"),
    ):
        assert values is not None
        assert is_mapped(values.ctypes.data, tmp_path / "x.daf.zarr" / path)
    # The orientation whose rows would have to be filtered is not shown, as the other one is there.
    assert not part.has_matrix("cell", "gene", "X", relayout=False)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (["CATA", "TATA"], [2, 0]),
        (pa.array(["GATA"]), [1]),
        (pd.Series([True, False, True]), [0, 2]),
        (pd.Index(["GATA", "TATA"]), [1, 0]),
        (np.array([2, 1], "u1"), [2, 1]),
        (range(2, -1, -1), [2, 1, 0]),
        (slice(-2, None), [1, 2]),
        (("cell", [1]), [1]),
    ],
)
def test_entries_are_chosen_in_many_ways(chosen: Any, expected: list[int]) -> None:
    """Names, masks, positions, ranges, of any library; and with the axis in the base."""
    part = view(fill(MemoryDaf()), {"cell": chosen})
    assert part.get_np_vector("cell", "age").tolist() == [[30, 60, 90][n] for n in expected]
    assert dense(part.get_np_matrix("cell", "gene", "sparse")).tolist() == UMIS[expected].tolist()


def test_names() -> None:
    """Renamed, hidden, and shown by a rule for many; a renamed property keeps its old name too."""
    daf = fill(MemoryDaf())
    part = view(
        daf,
        {"*": None, "obs": ("cell", ["CATA", "GATA"]), "gene": "="},
        {
            ("obs", "years"): "age",
            ("*", "*"): None,
            ("gene", "marker"): "=",
            ("gene", "obs", "counts"): "UMIs",
            "n": None,
            "species": "organism",
        },
    )
    assert contents(part) == {
        "scalars": {"organism": "human", "species": "human"},
        "axes": {"obs": ["CATA", "GATA"], "gene": daf.axis_entries("gene").tolist()},
        "vectors": {("obs", "years"): [90, 60], ("gene", "marker"): [True, False, True, False]},
        "matrices": {
            key: (values if key[0] == "obs" else values.T).tolist()
            for key, values in (
                (("obs", "gene", "counts"), UMIS[[2, 1]]),
                (("gene", "obs", "counts"), UMIS[[2, 1]]),
                (("obs", "gene", "UMIs"), UMIS[[2, 1]]),
                (("gene", "obs", "UMIs"), UMIS[[2, 1]]),
                (("gene", "obs", "sparse"), UMIS[[2, 1]]),
            )
        },
    }
    assert part.name.endswith(".view")
    pairs = view(daf, [("cell", "="), ("*", "=")], [(("*", "*"), "="), (("cell", "*"), None)])
    assert pairs.axes_set() == {"cell", "gene"}
    assert (pairs.scalars_set(), pairs.vectors_set("cell")) == (set(), set())
    assert pairs.vectors_set("gene") == {"marker", "flag"}
    hidden = view(daf, [("gene", "="), ("*", None)], None)
    assert hidden.axes_set() == set()


def test_parts_of_an_anndata_are_hidden_by_their_names(tmp_path: Path) -> None:
    """Also where all scalars or vectors are; neither copies nor an AnnData of the view have them."""
    path = tmp_path / "some.h5ad"
    made = anndata.AnnData(np.ones((4, 3), np.float32))
    made.obsm["cube"] = np.arange(16).reshape(4, 2, 2)
    made.uns["tree"] = pd.DataFrame({"a": [1, 2]})
    made.write_h5ad(path)
    cube, tree = ("obs", "obsm.cube"), "uns.tree"
    with open_daf(path) as daf:
        for data, shown in (
            (None, {"cube", "tree"}),
            ({"*": None}, {"cube"}),
            ({("obs", "*"): None, tree: "="}, {"tree"}),
            ({cube: None}, {"tree"}),
            ({tree: None, cube: None}, set()),
            ([("*", "="), (cube, None)], {"tree"}),
        ):
            part = view(daf, data=data)
            copy_all(part, copied := MemoryDaf())
            for each in (part, copied, pickle.loads(pickle.dumps(part))):
                given = to_anndata(each)
                assert (given.obsm.keys() | given.uns.keys()) & {"cube", "tree"} == shown, data
        with pytest.raises(errors.NotFoundError, match="no scalar 'uns.twig'"):
            view(daf, data={"uns.twig": None})
        copy_all(view(daf, {"obs": [2, 0]}), copied := MemoryDaf())
        assert to_anndata(copied).obsm["cube"].tolist() == made.obsm["cube"][[2, 0]].tolist()


def test_two_parts_of_one_axis() -> None:
    """Both are shown; matrices of one with the other are not, since they would be two."""
    daf = large(MemoryDaf())
    part = view(daf, {"old": ("cell", slice(0, 9)), "young": ("cell", slice(9, 20))})
    assert part.axes_set() == {"cell", "gene", "donor", "old", "young"}
    assert part.matrices_set("old", "young") == part.matrices_set("cell", "old") == set()
    near = dense(daf.get_np_matrix("cell", "cell", "near"))
    assert dense(part.get_np_matrix("old", "old", "near")).tolist() == near[:9, :9].tolist()
    assert part.matrices_set("gene", "young") == daf.matrices_set("gene", "cell")
    assert part.summary().as_dict()["problems"] == []


def test_vectors_of_a_view_that_hides_some_are_those_of_the_base() -> None:
    """The very arrays; a vector may be of entries, so renamed or shorter axes have their own."""
    daf = large(MemoryDaf())
    of_base = there(daf.tree.node("vectors/cell/age"))
    hidden = view(daf, data={("cell", "who"): None})
    assert of_base.place == there(hidden.tree.node("vectors/cell/age")).place
    for axes in ({"obs": "cell"}, {"donor": ["N1"]}):
        part = view(daf, axes)
        axis = "cell" if "cell" in part.axes_set() else "obs"
        assert of_base.place != there(part.tree.node(f"vectors/{axis}/age")).place
        values = part.get_np_vector(axis, "age")
        assert values.tolist() == daf.get_np_vector("cell", "age").tolist()


def test_relations_follow_the_names() -> None:
    """To the new name of the axis; not to an axis that is hidden, or of which entries lack."""
    daf = large(MemoryDaf())

    def targets(**axes: Any) -> list[tuple[str, str]]:
        relations = view(daf, axes or None).relations()
        return [(r.vector, r.to_axis) for r in relations]

    assert targets() == [("who", "donor")]
    assert targets(donor=None, person="donor") == [("who", "person")]
    assert targets(donor=None) == targets(donor=["N1"]) == []


@pytest.mark.parametrize("name", ["", "x.daf.zarr", "x.h5df"])
def test_what_changes_in_the_base(tmp_path: Path, name: str) -> None:
    """Values are seen at once; if the entries change of which some are shown, that is an error."""
    daf = fill(new_daf(tmp_path, name))
    part, all_of_it = view(daf, {"cell": ["CATA", "TATA"]}), view(daf, {"obs": "cell"})
    assert part.get_np_vector("cell", "age").tolist() == [90, 30]
    before = part.vector_identity("cell", "age")
    daf.set_vector("cell", "age", [1, 2, 3], if_exists="replace")
    assert part.get_np_vector("cell", "age").tolist() == [3, 1]
    assert part.vector_identity("cell", "age") != before
    assert dense(part.get_np_matrix("cell", "gene", "sparse")).tolist() == UMIS[[2, 0]].tolist()
    daf.set_matrix("cell", "gene", "sparse", sp.csc_array(UMIS * 2), if_exists="replace")
    assert (
        dense(part.get_np_matrix("cell", "gene", "sparse")).tolist() == (UMIS[[2, 0]] * 2).tolist()
    )
    daf.reorder_axis("cell", [2, 1, 0], progress="never")
    with pytest.raises(errors.LabelsError, match="axis 'cell' was replaced or reordered since"):
        part.get_np_vector("cell", "age")
    with pytest.raises(errors.LabelsError):
        part.axis_length("cell")
    assert all_of_it.get_np_vector("obs", "age").tolist() == [3, 2, 1]
    tree = all_of_it.tree
    assert tree.identity("vectors/obs/nope") is tree.identity("vectors/nope/age") is None
    daf.close()
    with pytest.raises(errors.InvalidInputError, match="was closed"):
        all_of_it.axes_set()


def test_a_view_is_pickled_with_its_entries(tmp_path: Path) -> None:
    """Which are shown also where they are in another order by then; one that is gone is named."""
    with ZarrDaf(tmp_path / "x.daf.zarr", "w") as daf:
        fill(daf)
    axes = {"obs": ("cell", [2, 0]), "cell": None}
    part = view(open_daf(tmp_path / "x.daf.zarr"), axes, {"n": None})
    pickled = pickle.dumps(part)
    again = pickle.loads(pickled)
    assert contents(again) == contents(part)
    part_ages = part.get_np_vector("obs", "age").tolist()
    again.close()
    with open_daf(tmp_path / "x.daf.zarr", "r+") as daf:
        daf.reorder_axis("cell", [1, 0, 2], progress="never")
    again = pickle.loads(pickled)
    assert again.get_np_vector("obs", "age").tolist() == part_ages
    again.close()
    with open_daf(tmp_path / "x.daf.zarr", "r+") as daf:
        daf.add_axis("cell", ["x"], if_exists="replace")
    with pytest.raises(errors.EntryNotFoundError):
        pickle.loads(pickled)
    with pytest.raises(errors.InvalidInputError, match="no path leads to this data set"):
        pickle.dumps(view(fill(MemoryDaf())))


def test_indexes_are_used_where_nothing_differs() -> None:
    """Of an axis with all its entries, under its name; else there is none."""
    daf = fill(MemoryDaf())
    build_index(daf, "cell", "age", progress="never")
    place = IndexPlace("cell", "ranges", ("age",))
    stored = there(IndexStorage(view(daf, {"gene": [1]})).load(place))
    assert stored.state == "fit"
    for axes, data in (
        ({"cell": [0, 1]}, None),
        (None, {("cell", "age"): None}),
        ({"obs": "cell", "cell": None}, None),
    ):
        assert IndexStorage(view(daf, axes, data)).places() == []


def test_a_chain_on_top_of_a_view() -> None:
    """Annotations of a part: what is written belongs to the entries that the view shows."""
    mine = MemoryDaf()
    chain = chain_writer([view(fill(MemoryDaf()), {"cell": [2, 0]}), mine])
    chain.set_vector("cell", "label", ["x", "y"])
    assert mine.axis_entries("cell").tolist() == [CELLS[2], CELLS[0]]
    copy_all(chain, copy := MemoryDaf())
    assert contents(copy) == {**contents(chain), "matrices": contents(copy)["matrices"]}
    for name in ("UMIs", "sparse"):
        assert dense(copy.get_np_matrix("cell", "gene", name)).tolist() == UMIS[[2, 0]].tolist()


def test_damaged_row_numbers_are_named() -> None:
    """A row number outside of its axis is an error, where a part of the rows is asked for."""
    daf = data_set(cell=CELLS, gene=["x"])
    parts = {"colptr": [1, 2], "rowval": [9], "nzval": [1]}
    arrays = {name: np.array(values, "u4") for name, values in parts.items()}
    write_stored(daf, "matrices/cell/gene/X", arrays)
    with pytest.raises(errors.CorruptDataError, match="rowval leaves the range 1 to 3"):
        view(daf, {"cell": [1]}).matrix_info("cell", "gene", "X")
