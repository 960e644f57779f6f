"""Tests of matrix slices: every shape they can take, and how little of the file they read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from daf_query import DafSession, MatrixSlice, connect
from daf_storage import AnnDataWarning, ZarrDaf, errors, to_anndata
from tests.support import CELLS, GENES, UMIS, create, data_set, edited_bytes


@pytest.mark.parametrize("name", ["UMIs", "sparse"])
def test_a_failed_save_leaves_the_old_file(
    tiny_session: DafSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The file is replaced when the new one is complete, and not before."""
    (tmp_path / "x.mtx").write_text("old")

    def fail(file: Any, _: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(scipy.io, "mmwrite", fail)
    with pytest.raises(OSError, match="disk full"):
        tiny_session.matrix("cell", "gene", name, rows=[2, 0]).save(tmp_path / "x.mtx")
    assert (tmp_path / "x.mtx").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.mtx"]


def test_square_matrices_have_two_columns_of_one_axis() -> None:
    """The second is numbered in the long form; both selections apply."""
    daf = data_set(cell=CELLS)
    daf.set_matrix("cell", "cell", "d", sp.csc_array(np.arange(9).reshape(3, 3)))
    part = connect(daf).matrix("cell", "cell", "d", rows=[2], columns=[0, 1])
    assert part.to_numpy().tolist() == [[6, 7]]
    found = part.to_arrow().to_pydict()
    assert found == {"cell": ["CATA"] * 2, "cell_2": ["TATA", "GATA"], "value": [6, 7]}


def test_duplicates_in_tables() -> None:
    """A sparse slice may repeat entries."""
    daf = data_set(cell=CELLS, gene=GENES, matrices={("cell", "gene", "m"): sp.csc_array(UMIS)})
    part = connect(daf).matrix("cell", "gene", "m", rows=[1, 1], columns=[3, 0, 3])
    assert part.to_numpy().tolist() == UMIS[[1, 1]][:, [3, 0, 3]].tolist()
    assert len(part.to_arrow().column("gene").combine_chunks().dictionary) == 2


def test_names_that_end_in_nul() -> None:
    """Forms that do not cut them off keep them."""
    names = ["G", "G\0", "cell"]
    daf = data_set(cell=CELLS, gene=names)
    daf.set_matrix("cell", "gene", "m", np.arange(3 * len(CELLS)).reshape(-1, 3))
    part = connect(daf).matrix("cell", "gene", "m", columns=["cell"])
    assert part.to_polars().columns == ["cell_", "cell"]
    part = connect(daf).matrix("cell", "gene", "m")
    assert part.to_pandas().columns.tolist() == part.to_anndata().var_names.tolist() == names
    assert set(part.to_arrow().column("gene").to_pylist()) == set(names)


def test_string_and_bool_matrices() -> None:
    """Labels are sliced like numbers; an all-true Bool matrix has no stored values."""
    daf = data_set(cell=CELLS, gene=GENES)
    labels = np.array([list("abcd"), list("efgh"), list("ijkl")])
    daf.set_matrix("cell", "gene", "labels", labels)
    daf.set_matrix("cell", "gene", "mask", sp.csc_array(UMIS == 3), relayout=False)
    db = connect(daf)
    part = db.matrix("cell", "gene", "labels", rows=[2, 0], columns=["WNT6"])
    assert part.to_numpy().tolist() == [["k"], ["c"]]
    assert part.to_polars().rows() == [("CATA", "k"), ("TATA", "c")]
    assert part.to_arrow().column("value").to_pylist() == ["k", "c"]
    mask = db.matrix("cell", "gene", "mask", rows=[1, 0])
    assert mask.to_numpy().tolist() == (UMIS == 3)[[1, 0]].tolist()
    assert mask.dtype == np.bool_


def test_a_row_number_that_leaves_the_axis(tmp_path: Path) -> None:
    """Is found, also in the middle of numbers that do not ascend."""
    daf = data_set(create(tmp_path / "x.daf.zarr"), cell=40, gene=["g"])
    daf.set_matrix("cell", "gene", "X", sp.csc_array(np.ones((40, 1))), relayout=False)
    daf.close()
    with edited_bytes(tmp_path / "x.daf.zarr/matrices/cell/gene/X/rowval/0") as data:
        size = len(data) // 40
        data[20 * size :] = b"\xff" * size + (7).to_bytes(size, "little") * 19
    with pytest.raises(errors.CorruptDataError, match="leaves the range 1 to 40"):
        connect(tmp_path / "x.daf.zarr").matrix("cell", "gene", "X", columns=["g"]).to_numpy()


@pytest.mark.parametrize("name", ["UMIs", "sparse"])
def test_what_is_handed_out_belongs_to_the_caller(tiny_session: DafSession, name: str) -> None:
    """Changing a result in place, as scanpy does, leaves the slice as it was."""
    part = tiny_session.matrix("cell", "gene", name, rows=[2, 0])
    part.to_scipy().data[:] = 0
    part.to_numpy()[:] = 0
    adata: Any = part.to_anndata()
    adata.X *= 0
    if not part.is_sparse:  # pandas' sparse columns cannot be assigned to
        frame = part.to_pandas()
        frame["RSPO3"] = 0
    assert part.to_numpy().tolist() == UMIS[[2, 0]].tolist()
    assert part.to_scipy().toarray().tolist() == UMIS[[2, 0]].tolist()


def test_a_slice_that_nobody_holds_hands_over_its_values(
    tiny_session: DafSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could be asked again keeps its values and hands out copies; what could not does not."""
    handed: list[bool] = []
    csr_array = sp.csr_array

    def recorded(values: Any, **options: Any) -> Any:
        if "copy" in options:
            handed.append(not options["copy"])
        return csr_array(values, **options)

    monkeypatch.setattr(sp, "csr_array", recorded)

    def part() -> MatrixSlice:
        return tiny_session.matrix("cell", "gene", "sparse", rows=[2, 0])

    held = part()
    results = [part().to_scipy(), held.to_scipy(), part().load().to_scipy()]
    bound = part().to_scipy
    results += [bound(), bound(), [part()][0].to_scipy(), MatrixSlice.to_scipy(held)]
    assert [handed[each] for each in (1, 2, 3, 4, 6)] == [False] * 5
    # The thread that made a slice may still be ending, and hold it a moment longer.
    results += [part().to_scipy() for _ in range(20)]
    assert sys.version_info >= (3, 14) or any(handed[-20:])
    for result in results:
        assert result.toarray().tolist() == UMIS[[2, 0]].tolist()
        result.data[:] = 0
    assert held.to_scipy().toarray().tolist() == bound().toarray().tolist()
    assert held.to_scipy().toarray().tolist() == UMIS[[2, 0]].tolist()


def test_a_slice_leaves_out_a_vector_that_cannot_be_read(tiny_path: Path, tmp_path: Path) -> None:
    """A broken vector takes itself only: the others come along, and a warning names it."""
    (tiny_path / "vectors/cell/age/0").write_bytes(b"1")
    part = connect(tiny_path).matrix("cell", "gene", "UMIs", rows=[2, 0])
    with pytest.warns(AnnDataWarning, match="vector 'age' of axis 'cell' is left out.*truncated"):
        found = part.to_anndata()
    assert list(found.obs.columns) == ["type"]
    assert found.obs["type"].tolist() == ["TCell", "Bcell"]
    with pytest.warns(AnnDataWarning, match="'age'"):
        part.save(tmp_path / "x.h5ad")
    with pytest.raises(errors.CorruptDataError, match="truncated"):
        to_anndata(ZarrDaf(tiny_path), obs_is="cell", var_is="gene", X_is="UMIs")
