"""Tests of what `concatenate` refuses, renames, aligns, promotes and leaves out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daf_storage import (
    DafWriter,
    MemoryDaf,
    Packing,
    Relation,
    ZarrDaf,
    concatenate,
    from_anndata,
    open_daf,
    to_anndata,
)
from daf_storage.errors import CorruptDataError, DuplicateEntriesError, LabelsError, NotFoundError
from tests import seams
from tests.limits import lower
from tests.suites.examples import BY_ROWS, write_stored
from tests.support import contents, data_set, dense, recorded_calls


def _daf(name: str, cells: list[str], genes: list[str] | None = None) -> DafWriter:
    axes: Any = {"cell": cells} if genes is None else {"cell": cells, "gene": genes}
    return data_set(name=f"{name}!", **axes)


def concatenated(sources: Sequence[DafWriter], axis: Any = "cell", **options: Any) -> DafWriter:
    """Return the concatenation of data sets in memory."""
    daf = MemoryDaf()
    concatenate(daf, axis, sources, **options)
    return daf


def _vectors(values: list[Any], **options: Any) -> DafWriter:
    """Return the concatenation of data sets with such a vector ``x``, None for none."""
    sources = []
    for number, one in enumerate(values):
        length = 2 if one is None else len(one)
        source = _daf(f"d{number}", [f"{number}.{n}" for n in range(length)])
        if one is not None:
            source.set_vector("cell", "x", one)
        sources.append(source)
    return concatenated(sources, **options)


def _of_obs(columns: list[dict[str, Any]], *uns: dict[str, Any]) -> list[DafWriter]:
    """Return data sets of AnnData with such columns of ``obs``, and with such ``uns`` or none."""
    sources = []
    for number, (obs, others) in enumerate(itertools.zip_longest(columns, uns)):
        frame = pd.DataFrame(obs)
        frame.index = pd.Index([f"{number}{n}" for n in range(len(frame))])
        sources.append(from_anndata(ad.AnnData(obs=frame, uns=others)))
    return sources


U1, I8 = np.array([7], np.uint8), np.array([7], np.int64)


@pytest.mark.parametrize(
    ("values", "options", "expected", "dtype"),
    [
        ([np.array([-1], np.int8), np.array([255], np.uint8)], {}, [-1, 255], "int16"),
        ([np.array([-1], np.int64), np.array([2**62], np.uint64)], {}, [-1, 2**62], "int64"),
        ([np.array([True]), U1], {}, [1, 7], "uint8"),
        ([np.array([0.5], "f4"), np.array([2**24 + 1], "i4")], {}, [0.5, 2**24 + 1], "float64"),
        ([np.array([True, False]), np.array([True])], {}, [True, False, True], "bool"),
        ([np.array([0.5], np.float32), None], {"join": "outer"}, [0.5, np.nan, np.nan], "float32"),
        ([I8, None], {"join": "outer"}, [7, np.nan, np.nan], "float64"),
        ([U1, None], {"empty": {("cell", "x"): 300}}, [7, 300, 300], "uint16"),
        ([U1, None], {"empty": {("cell", "x"): -0.5}}, [7, -0.5, -0.5], "float32"),
        ([U1, None], {"empty": {("cell", "x"): True}}, [7, 1, 1], "uint8"),
        ([np.array([True]), None], {"empty": {("cell", "x"): False}}, [1, 0, 0], "bool"),
        ([U1, np.array([], np.uint8)], {}, [7], "uint8"),
    ],
)
def test_numbers_are_promoted(
    values: list[Any], options: dict[str, Any], expected: list[Any], dtype: str
) -> None:
    """Each value is what it was, or there is an error."""
    found = _vectors(values, **options).get_np_vector("cell", "x")
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == dtype


def test_strings_and_missing_values() -> None:
    """What is missing stays so, also beside an empty string that is none."""
    daf = _vectors([["a", "b"], None], join="outer")
    assert daf.get_np_vector("cell", "x").tolist() == ["a", "b", "", ""]
    assert daf.vector_info("cell", "x").empty_is_missing
    daf = _vectors([["a", ""], None], join="outer")
    assert not daf.vector_info("cell", "x").empty_is_missing
    assert daf.get_np_vector("cell", "x_is_missing").tolist() == [False, False, True, True]
    daf = _vectors([[True, False], None], join="outer")
    assert daf.get_np_vector("cell", "x").tolist() == ["true", "false", "", ""]
    daf = _vectors([[True], ["b"], [1.5]])
    assert daf.get_np_vector("cell", "x").tolist() == ["true", "b", "1.5"]
    assert not _vectors([["a"], None], join="inner").has_vector("cell", "x")


@pytest.mark.parametrize(
    ("kinds", "columns"),
    [
        ([object] * 3, [["a", None], ["", "b"], ["", None]]),
        (["Int64", "Int16", "UInt8"], [[2**60 + 1, None], [1, None], [3, 4]]),
    ],
    ids=["strings", "integers"],
)
def test_missing_values_of_anndata(kinds: list[Any], columns: list[list[Any]]) -> None:
    """They come back so, beside empty strings, and beside integers that no float holds."""
    sources = _of_obs([{"x": pd.Series(c, dtype=k)} for c, k in zip(columns, kinds, strict=True)])
    found = to_anndata(concatenated(sources, "obs")).obs["x"]
    assert found.dtype == kinds[0]
    assert [None if pd.isna(v) else v for v in found] == [v for c in columns for v in c]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    """A source that is damaged, found when its matrix is read: no target, and no scratch."""
    with data_set(ZarrDaf(tmp_path / "a.daf.zarr", "w"), cell=2, gene=2) as source:
        source.set_matrix("gene", "cell", "UMIs", sp.csc_array([[1, 0], [0, 2]]), relayout=False)
        source.set_scalar("year", 2020)
    rowval = next((tmp_path / "a.daf.zarr").rglob("rowval/0"))
    rowval.write_bytes(b"\x07" * rowval.stat().st_size)
    before = sorted(tmp_path.iterdir())
    options: Any = {"sparse_if_saves_storage_fraction": 0.0}
    for suffix in (".daf.zarr", ".daf.zarr.zip", ".h5df"):
        with pytest.raises(CorruptDataError, match="rowval leaves the range"):
            concatenate(tmp_path / f"all{suffix}", "cell", [tmp_path / "a.daf.zarr"], **options)
        assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(CorruptDataError):
        concatenate(daf := MemoryDaf(), "cell", [tmp_path / "a.daf.zarr"], merge="last")
    assert not daf.axes_set() | daf.scalars_set()


def test_a_packed_target(tmp_path: Path) -> None:
    """Large arrays are compressed while they are written, with the same values."""
    random = np.random.default_rng(2)
    sources = []
    for number in range(2):
        source = _daf(f"d{number}", [f"{number}.{n}" for n in range(900)], ["g", "f", "e"])
        source.set_matrix("cell", "gene", "x", sp.csc_array(random.poisson(0.2, (900, 3))))
        source.set_matrix("cell", "gene", "y", random.normal(size=(900, 3)))
        sources.append(source)
    plain, packed = tmp_path / "plain.daf.zarr", tmp_path / "packed.daf.zarr"
    concatenate(plain, "cell", sources)
    concatenate(packed, "cell", sources, packed=Packing(chunk_kb=1), zarr_format=3)
    one, other = open_daf(plain), open_daf(packed)
    assert contents(one) == contents(other)
    assert other.open_matrix("cell", "gene", "y").dense().info.chunks == (1, 128)
    assert other.open_matrix("gene", "cell", "x").entries("nzval").info.chunks == (128,)


def test_names_of_paths(tmp_path: Path) -> None:
    """A path is called by its file name, or by itself where two have the same."""
    paths = [tmp_path / "x" / "run.daf.zarr", tmp_path / "y" / "run.h5df", tmp_path / "b.daf.zarr"]
    for number, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        data_set(open_daf(path, "w"), cell=[f"c{number}"]).close()
    concatenate(daf := MemoryDaf(), "cell", paths)
    assert daf.axis_entries("dataset").tolist() == [str(paths[0]), str(paths[1]), "b"]


def test_duplicate_entries() -> None:
    """Refused, prefixed, or made unique as anndata does; vectors that hold them follow."""
    sources = [_daf("a", ["A", "B"]), _daf("b", ["A", "A-1", "C"])]
    for source, parents in zip(sources, (["B", ""], ["C", "A", "x"]), strict=True):
        source.set_vector("cell", "parent", parents)
        source.set_vector("cell", "cell.next", parents)
    with pytest.raises(DuplicateEntriesError, match="'A' of axis 'cell' .* in 'a!' and 'b!'; pass"):
        concatenated(sources)
    daf = concatenated(sources, prefix=True, names=["a", "b"])
    assert daf.axis_entries("cell").tolist() == ["a.A", "a.B", "b.A", "b.A-1", "b.C"]
    assert daf.get_np_vector("cell", "cell.next").tolist() == ["a.B", "", "b.C", "b.A", "b.x"]
    assert daf.get_np_vector("cell", "parent").tolist() == ["B", "", "C", "A", "x"]
    for axis, prefixed in (("cell", ["parent"]), (["cell"], ["parent"]), (["cell"], [["parent"]])):
        daf = concatenated(sources, axis, prefix=True, names=["a", "b"], prefixed=prefixed)
        assert daf.get_np_vector("cell", "cell.next").tolist() == ["B", "", "C", "A", "x"]
        assert daf.get_np_vector("cell", "parent").tolist() == ["a.B", "", "b.C", "b.A", "b.x"]
    daf = concatenated(sources, duplicates="make_unique")
    assert daf.axis_entries("cell").tolist() == ["A", "B", "A-2", "A-1", "C"]
    assert daf.get_np_vector("cell", "cell.next").tolist() == ["B", "", "C", "A-2", "x"]


def test_made_unique_is_that_of_anndata() -> None:
    """The same suffixes for the same names."""
    random = np.random.default_rng(3)
    names = [f"n{n}" for n in random.integers(0, 30, 120)] + ["n1-1", "n2-2", "n2"]
    with pytest.warns(UserWarning, match="Suffix used"):
        expected = ad.utils.make_index_unique(pd.Index(names)).tolist()
    runs: list[list[str]] = [[]]
    for name in names:
        if name in runs[-1]:
            runs.append([])
        runs[-1].append(name)
    sources = [_daf(f"d{number}", run) for number, run in enumerate(runs)]
    daf = concatenated(sources, duplicates="make_unique")
    assert daf.axis_entries("cell").tolist() == expected


def test_a_prefix_follows_recorded_relations() -> None:
    """A vector that was recorded to hold entries of the axis is prefixed whatever its name."""
    sources = [data_set(name=f"{name}!", cell=["A"], clone=["K"]) for name in "ab"]
    for source in sources:
        source.set_vector("cell", "family", ["K"], entries_of="clone")
    daf = concatenated(sources, ["cell", "clone"], prefix=True, names=["a", "b"])
    assert daf.get_np_vector("cell", "family").tolist() == ["a.K", "b.K"]
    assert Relation("cell", "family", "clone", "import") in daf.relations()
    assert Relation("cell", "dataset", "dataset", "import") in daf.relations()


FORMS: list[Any] = [np.asarray, sp.csc_array, sp.csr_array]


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("fill", [None, 7, np.nan])
@pytest.mark.parametrize("join", ["inner", "outer"])
def test_matrices_are_those_of_pandas(
    monkeypatch: pytest.MonkeyPatch, join: Any, fill: Any, *, is_sparse: bool
) -> None:
    """Any mix of forms, orientations and genes, in small pieces."""
    lower(monkeypatch, copied_bytes=64, thread_bytes=1, held_per_element=16)
    monkeypatch.setattr(seams.IS_STORED_SPARSE, lambda *_, **__: is_sparse)
    random = np.random.default_rng(5)
    genes = [["g", "f", "e"], ["e", "x", "g", "y"], ["g", "e", "f"], ["h", "g"], []]
    dtypes = ["u1", "i4", "f4", "?", "u2"]
    sources, frames = [], []
    for number, form in enumerate([*FORMS, sp.csc_array, sp.csc_array]):
        cells = [f"{number}{n}" for n in range(3 * (number != 1) + 2)]
        values = random.poisson(0.7, (len(cells), len(genes[number]))).astype(dtypes[number])
        source = _daf(f"d{number}", cells, genes[number])
        is_flipped = number in (1, 2)
        order = ("gene", "cell") if is_flipped else ("cell", "gene")
        source.set_matrix(
            *order, "x", form(values.T if is_flipped else values), relayout=number > 2
        )
        sources.append(source)
        frames.append(pd.DataFrame(values, cells, genes[number]).astype(float))
    if join == "inner":
        sources, frames = sources[:3], frames[:3]
    daf = concatenated(sources, join=join, fill_value=fill)
    for frame in frames:
        missing = {g for f in frames for g in f.columns} - set(frame.columns)
        for gene in missing if join == "outer" else ():
            frame[gene] = 0 if fill is None else fill
    expected = pd.concat(frames, join=join)
    for axes in (("cell", "gene"), ("gene", "cell")):
        found = daf.get_np_matrix(*axes, "x", relayout=False)
        assert sp.issparse(found) is is_sparse
        assert not is_sparse or found.has_canonical_format
        dense = found.toarray() if is_sparse else found
        dense = dense if axes[0] == "cell" else dense.T
        frame = pd.DataFrame(dense, expected.index, daf.axis_entries("gene"))
        np.testing.assert_array_equal(frame[list(expected.columns)], expected)


@pytest.mark.parametrize("fraction", [0.001, 0.999])
@pytest.mark.parametrize("order", [("gene", "cell"), ("cell", "gene")])
def test_elements_out_of_order(order: tuple[str, str], fraction: float) -> None:
    """They are put in order; one that is stored twice has no value, which is an error."""
    for rowval, is_right in (([3, 1, 2], True), ([2, 1, 2], False)):
        source = _daf("a", ["A", "B", "C"], ["g", "f", "e"])
        with source.empty_sparse_matrix(*order, "x", "float32", 3) as out:
            out.colptr[:] = [1, 4, 4, 4]
            out.rowval[:] = rowval
            out.nzval[:] = [30, 10, 20]
        options: Any = {"sparse_if_saves_storage_fraction": fraction}
        if not is_right:
            with pytest.raises(CorruptDataError, match="x: an element is stored twice"):
                concatenated([source], **options)
            continue
        found = concatenated([source], **options).get_np_matrix(*order, "x")
        assert dense(found).tolist() == [[10, 0, 0], [20, 0, 0], [30, 0, 0]]


def test_elements_stored_twice_beside_filled_ones() -> None:
    """They are an error also where what a member lacks is filled."""
    genes = [f"g{number}" for number in range(30)]
    source = _daf("a", ["A", "B"], genes)
    with source.empty_sparse_matrix("gene", "cell", "x", "float32", 2) as out:
        out.colptr[:] = [1, 3, 3]
        out.rowval[:] = [1, 1]
        out.nzval[:] = [30, 10]
    other = _daf("b", ["C"], [*genes, "h"])
    other.set_matrix("gene", "cell", "x", sp.csc_array(np.eye(31, 1, dtype=np.float32)))
    options: Any = {"fill_value": 7, "sparse_if_saves_storage_fraction": 0.001}
    with pytest.raises(CorruptDataError, match="x: an element is stored twice"):
        concatenated([source, other], join="outer", **options)


def test_matrices_of_bool_and_of_strings() -> None:
    """All-true values need none; strings are aligned by name as numbers are."""
    sources = [_daf("a", ["A", "B"], ["g", "f"]), _daf("b", ["C"], ["f", "h"])]
    sources.append(_daf("no genes", ["D", "E"], []))
    is_on = [np.array([[True, False], [False, True]]), np.array([[True, True]]), np.ones((2, 0))]
    words = [np.array([["p", "q"], ["r", ""]]), np.array([["s", "t"]]), np.empty((2, 0), "U1")]
    for source, flags, strings in zip(sources, is_on, words, strict=True):
        source.set_matrix("cell", "gene", "is_on", sp.csc_array(flags.astype(bool)))
        source.set_matrix("cell", "gene", "word", strings.astype(object))
    daf = concatenated(sources, join="outer", sparse_if_saves_storage_fraction=0.001)
    found = daf.get_np_matrix("cell", "gene", "is_on")
    assert found.dtype == bool
    expected = [[True, False, False], [False, True, False], [False, True, True]]
    assert dense(found).tolist() == [*expected, [False] * 3, [False] * 3]
    found = daf.get_np_matrix("cell", "gene", "word")
    expected_words = [["p", "q", ""], ["r", "", ""], ["", "s", "t"]]
    assert found.tolist() == [*expected_words, [""] * 3, [""] * 3]


def test_matrices_of_a_concatenated_axis_with_another_one_are_blocks() -> None:
    """Those of an axis with itself, by rows or by columns, and those of two of the axes."""
    random = np.random.default_rng(7)
    near, weight = random.poisson(0.5, (3, 3, 3)), random.poisson(0.5, (3, 3, 2)).astype("f4")
    near[2], weight[2] = 0, 0  # which are not stored
    sources = [_daf(name, [f"{name}{n}" for n in range(3)]) for name in "abc"]
    for source, name in zip(sources, "abc", strict=True):
        source.add_axis("pool", [f"{name}p", f"{name}q"])
    write_stored(sources[0], "matrices/cell/cell/near", {"": near[0]}, BY_ROWS)
    sources[1].set_matrix("cell", "cell", "near", sp.csc_array(near[1]))
    for number in range(2):
        sources[number].set_matrix("cell", "pool", "weight", weight[number], relayout=False)
    daf = concatenated(sources, ["cell", "pool"])
    for name, other, blocks in (("near", "cell", near), ("weight", "pool", weight)):
        found = dense(daf.get_np_matrix("cell", other, name))
        np.testing.assert_array_equal(found, sp.block_diag(list(blocks)).toarray())
    assert daf.matrix_info("cell", "cell", "near").is_row_major


def test_matrices_that_some_lack() -> None:
    """Left out, or filled."""
    sources = [_daf("a", ["A"], ["g"]), _daf("b", ["B"], ["g"])]
    sources[0].set_matrix("cell", "gene", "x", [[3]])
    report = concatenate(daf := MemoryDaf(), "cell", sources, join="inner")
    assert not daf.matrices_set("cell", "gene")
    assert str(report) == (
        "lost: matrix 'x' of axes 'gene' and 'cell': 'b!' has none; join=\"outer\" or empty= keeps it"
    )
    found = concatenated(sources, join="outer").get_np_matrix("cell", "gene", "x")
    np.testing.assert_array_equal(found, [[3], [np.nan]])


def test_shared_properties_are_aligned() -> None:
    """Merged vectors and matrices follow the entries that the axes have in the result."""
    first, second = _daf("a", ["A"], ["g", "f"]), _daf("b", ["B"], ["h", "f"])
    first.set_vector("gene", "length", [1, 2])
    second.set_vector("gene", "length", [3, 2])
    first.set_vector("gene", "band", ["p", "q"])
    for number, source in enumerate((first, second)):
        source.add_axis("pc", ["0", "1"])
        source.set_matrix("gene", "pc", "load", np.arange(4.0).reshape(2, 2) + number)
        source.set_matrix("gene", "gene", "near", sp.csc_array([[number, 5], [6, 7]]))
    sources = [first, second]
    daf = concatenated(sources, join="outer", merge="same")
    assert daf.get_np_vector("gene", "length").tolist() == [1, 2, 3]
    assert daf.get_np_vector("gene", "band").tolist() == ["p", "q", ""]
    assert not daf.has_matrix("gene", "pc", "load")
    daf = concatenated(sources, join="outer", merge="last")
    assert daf.axis_entries("gene").tolist() == ["g", "f", "h"]
    load = daf.get_np_matrix("gene", "pc", "load")
    np.testing.assert_array_equal(load, [[np.nan, np.nan], [3, 4], [1, 2]])
    near = daf.get_np_matrix("gene", "gene", "near")
    assert dense(near).tolist() == [[0, 0, 0], [0, 7, 6], [0, 5, 1]]
    daf = concatenated(sources, join="outer", merge="collect")
    found = daf.get_np_matrix("dataset", "gene", "length")
    np.testing.assert_array_equal(found, [[1, 2, np.nan], [np.nan, 2, 3]])
    found = daf.get_np_matrix("gene", "dataset", "band")
    assert found.tolist() == [["p", ""], ["q", ""], ["", ""]]
    daf = concatenated(sources, join="inner", merge="same")
    assert daf.axis_entries("gene").tolist() == ["f"]
    assert daf.get_np_vector("gene", "length").tolist() == [2]


def test_shared_properties_that_agree_or_not() -> None:
    """Scalars, vectors and matrices of each form: kept if equal, else named by the report."""
    sources = [_daf("a", ["A"], ["g", "f"]), _daf("b", ["B"], ["g", "f"])]
    for number, source in enumerate(sources):
        source.add_axis("set", ["S", "T"])
        source.set_vector("gene", "in", ["S", "T"], entries_of="set")
        source.set_vector("gene", "rank", [number, 1])
        source.set_vector("gene", "weight", [np.nan, 1.0])
        for name, last in (("same", 4), ("other", number)):
            values = np.array([[1.0, np.nan], [0, last]])
            source.set_matrix("gene", "set", f"{name}_dense", values)
            source.set_matrix("gene", "gene", f"{name}_sparse", sp.csc_array(values))
    sources[1].set_matrix("gene", "set", "form", sp.csc_array([[1, 2], [3, 4]]))
    sources[0].set_matrix("gene", "set", "form", [[1, 2], [3, 4]])
    report = concatenate(daf := MemoryDaf(), "cell", sources, merge="same")
    assert daf.vectors_set("gene") == {"in", "weight"}
    assert daf.vector_info("gene", "in").entries_of == "set"
    assert daf.matrices_set("gene", "set") == {"same_dense", "form"}
    assert daf.matrices_set("gene", "gene") == {"same_sparse"}
    assert {item.what.split("'")[1] for item in report.items} == {
        *("rank", "other_dense", "other_sparse")
    }
    found = daf.get_np_matrix("gene", "set", "same_dense")
    np.testing.assert_array_equal(found, [[1, np.nan], [0, 4]])


def test_shared_dense_matrices_of_another_order() -> None:
    """The last one, in the order of both axes, NaN or the fill value where it has no entry; dense."""
    sources = [_daf("a", ["A"], ["g", "f"]), _daf("b", ["B"], ["f", "h"])]
    for source, entries in zip(sources, (["S", "T"], ["T", "U"]), strict=True):
        source.add_axis("set", entries)
        source.set_matrix("gene", "set", "x", [[1, 2], [3, 4]])
    for fill, empty in ((None, np.nan), (9, 9), (0, 0)):
        daf = concatenated(sources, join="outer", merge="last", fill_value=fill)
        assert not daf.matrix_info("gene", "set", "x").is_sparse
        found = daf.get_np_matrix("gene", "set", "x")
        expected = [[empty, empty, empty], [empty, 1, 2], [empty, 3, 4]]
        np.testing.assert_array_equal(found, expected)
    for key in (("gene", "set", "x"), ("set", "gene", "x")):
        daf = concatenated(sources, join="outer", merge={key: "last"}, fill_value=9)
        assert daf.matrices_set("gene", "set") == {"x"}, key


def test_collected_properties_that_some_lack() -> None:
    """Strings and numbers; an error without a value, and missing in an outer join."""
    sources = [_daf("a", ["A"], ["g"]), _daf("b", ["B"], ["g"])]
    sources[0].set_scalar("lab", "X")
    sources[0].set_scalar("day", np.uint8(3))
    sources[0].set_vector("gene", "rank", [5])
    for key in ("lab", ("gene", "rank")):
        with pytest.raises(NotFoundError, match="'b!' has no .* which others have; pass empty="):
            concatenated(sources, merge={key: "collect"})
    daf = concatenated(sources, merge="collect", join="outer")
    assert daf.get_np_vector("dataset", "lab").tolist() == ["X", ""]
    assert daf.vector_info("dataset", "lab").empty_is_missing
    np.testing.assert_array_equal(daf.get_np_vector("dataset", "day"), [3, np.nan])
    found = daf.get_np_matrix("dataset", "gene", "rank")
    np.testing.assert_array_equal(found, [[5], [np.nan]])
    options: Any = {"lab": "Y", "day": 4, ("gene", "rank"): 6}
    daf = concatenated(sources, merge="collect", empty=options)
    assert daf.get_np_vector("dataset", "lab").tolist() == ["X", "Y"]
    assert daf.get_np_matrix("dataset", "gene", "rank").tolist() == [[5], [6]]


def test_a_large_transpose_lies_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix that is stored by genes alone is turned round beside the target, unseen."""
    lower(monkeypatch, scratch_bytes=1)
    folders = recorded_calls(monkeypatch, seams.TEMPORARY_FILE, lambda **options: options["dir"])
    source = _daf("a", ["A", "B"], ["g", "f", "e"])
    values = np.array([[1, 0, 2], [0, 3, 4]], np.float32)
    source.set_matrix("cell", "gene", "x", sp.csc_array(values), relayout=False)
    concatenate(tmp_path / "all.daf.zarr", "cell", [source], sparse_if_saves_storage_fraction=0.001)
    found = open_daf(tmp_path / "all.daf.zarr").get_np_matrix("cell", "gene", "x")
    assert dense(found).tolist() == values.tolist()
    assert folders == [tmp_path] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["all.daf.zarr"]


def test_shared_strings_of_which_some_are_missing() -> None:
    """They stay missing, also beside empty strings that are none."""
    sources = [_daf("a", ["A"], ["g", "f"]), _daf("b", ["B"], ["g", "f", "h"])]
    sources[0].set_vector("gene", "band", ["p", ""], empty_is_missing=True)
    daf = concatenated(sources, join="outer", merge="same")
    assert daf.get_np_vector("gene", "band").tolist() == ["p", "", ""]
    assert daf.vector_info("gene", "band").empty_is_missing
    sources[1].set_vector("gene", "band", ["p", "", "q"])
    del sources[0]
    sources.append(_daf("c", ["C"], ["i"]))
    daf = concatenated(sources, join="outer", merge="last")
    assert daf.get_np_vector("gene", "band").tolist() == ["p", "", "q", ""]
    assert daf.get_np_vector("gene", "band_is_missing").tolist() == [False, False, False, True]


def test_an_axis_that_vectors_refer_to_has_all_entries() -> None:
    """An inner join keeps the types of all cells, and drops genes."""
    sources = [_daf("a", ["A", "B"], ["g", "f"]), _daf("b", ["C"], ["f"])]
    for source, entries, values in zip(
        sources, (["T", "U"], ["V"]), (["U", ""], ["V"]), strict=True
    ):
        source.add_axis("type", entries, vectors={"rank": list(range(len(entries)))})
        source.set_vector("cell", "type", values)
    daf = concatenated(sources, join="inner", merge="same")
    assert daf.axis_entries("gene").tolist() == ["f"]
    assert daf.axis_entries("type").tolist() == ["T", "U", "V"]
    assert daf.get_np_vector("type", "rank").tolist() == [0, 1, 0]
    for source in sources:
        source.delete_axis("gene")
    with pytest.raises(LabelsError, match="the axis 'type' has other entries"):
        concatenated(sources)


def test_scalars_that_agree() -> None:
    """They are kept with their types; NaN agrees with itself."""
    sources = [_daf("a", ["A"]), _daf("b", ["B"])]
    for number, source in enumerate(sources):
        source.set_scalar("same", np.uint8(3))
        source.set_scalar("nan", np.nan)
        source.set_scalar("other", number)
    daf = concatenated(sources, merge="same")
    assert daf.scalars_set() == {"same", "nan"}
    assert daf.scalar_type("same").value == "UInt8"


def test_categories_and_colours_of_anndata() -> None:
    """An axis of categories has those of all; also of a member that has them in its notes."""
    kinds = (["B", "T"], ["T", "NK"], ["B"])
    colors = (["#000001", "#000002"], ["#000002", "#000003"])
    columns = [{"type": pd.Categorical(kind, kind)} for kind in kinds]
    sources = _of_obs(columns, *({"type_colors": each} for each in colors))
    for join in ("exact", "inner", "outer"):
        daf = concatenated(sources, "obs", join=join, merge="same")
        assert daf.axis_entries("type").tolist() == ["B", "T", "NK"]
        found = to_anndata(daf)
        assert found.obs["type"].tolist() == ["B", "T", "T", "NK", "B"]
        assert found.obs["type"].cat.categories.tolist() == ["B", "T", "NK"]
        assert list(found.uns["type_colors"]) == ["#000001", "#000002", "#000003"]


def test_columns_that_differ_in_type() -> None:
    """A categorical beside plain strings is plain; so are categories in another order, ordered."""
    columns: list[dict[str, Any]] = [
        {"x": pd.Categorical(["b"], ["b", "a"]), "grade": pd.Categorical(["l"], ["l", "h"], True)},
        {"x": ["c"], "grade": pd.Categorical(["h"], ["h", "l"], True)},
    ]
    sources = _of_obs(columns, {"x_colors": ["#000001", "#000002"]})
    daf = concatenated(sources, "obs", merge="same")
    assert daf.axis_entries("x").tolist() == ["b", "a", "c"]
    assert daf.get_np_vector("obs", "x").tolist() == ["b", "c"]
    found = to_anndata(concatenated([*sources], "obs")).obs["grade"]
    assert found.cat.categories.tolist() == ["l", "h"]
    assert not found.cat.ordered


def _adata(number: int, **parts: Any) -> ad.AnnData:
    """Return an AnnData of one gene in two cells."""
    obs = pd.DataFrame(index=[f"{number}a", f"{number}b"])
    return ad.AnnData(np.ones((2, 1), "f4"), obs, **parts)


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_frames_of_obsm(join: Any) -> None:
    """Their columns are joined by name, as anndata does."""
    parts = []
    for number, names in enumerate((["p", "q"], ["q", "r"])):
        adata = _adata(number)
        frame = pd.DataFrame(np.arange(4).reshape(2, 2) + number, adata.obs_names, names)
        adata.obsm["frame"] = frame
        parts.append(adata)
    found = to_anndata(concatenated(list(map(from_anndata, parts)), "obs", join=join))
    expected = ad.concat(parts, join=join).obsm["frame"]
    pd.testing.assert_frame_equal(
        found.obsm["frame"][expected.columns], expected, check_dtype=False
    )


def test_notes_of_matrices_and_of_other_parts() -> None:
    """Half floats are such again if all were; raw, and what layers and frames are called, are."""
    parts = []
    for number in range(2):
        adata = _adata(number, layers={"a/b": np.ones((2, 1), "f2")})
        adata.raw = ad.AnnData(np.ones((2, 3), "f4"), adata.obs)
        parts.append(adata)
    parts[0].layers["some"] = np.ones((2, 1), "f2")
    parts[0].obsm["frame"] = pd.DataFrame({"p": [1, 2]}, parts[0].obs_names)
    found = to_anndata(concatenated(list(map(from_anndata, parts)), "obs", join="outer"))
    assert {key: str(found.layers[key].dtype) for key in found.layers.keys() - {None}} == {
        "a/b": "float16",
        "some": "float32",
    }
    assert found.raw.X.shape == (4, 3)
    assert found.obsm["frame"]["p"].tolist()[:2] == [1, 2]
    common = to_anndata(concatenated(list(map(from_anndata, parts)), "obs", join="inner"))
    assert "frame" not in common.obsm


def test_parts_beside_the_data() -> None:
    """Nested uns is merged as scalars are; what is aligned to cells is left out, and said to be."""
    sources = []
    for number in range(2):
        uns: dict[str, Any] = {"each": {"n": np.arange(number)}, "l": [1], "m": [number]}
        uns["tree"] = sp.eye_array(2, format="csr")
        adata = _adata(number, uns=uns, obsm={"cube": np.zeros((2, 2, 2))})
        sources.append(from_anndata(adata))
    report = concatenate(daf := MemoryDaf(), "obs", sources, merge="same")
    found = to_anndata(daf)
    assert found.uns["tree"].toarray().tolist() == [[1, 0], [0, 1]]
    assert found.uns["l"] == [1]
    assert {"each", "m"}.isdisjoint(found.uns)
    assert {item.what for item in report.items} == {"obsm['cube']", "uns['each']", "uns['m']"}
