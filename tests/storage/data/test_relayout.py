"""Tests of turning matrices around, against scipy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daf_storage import DafWriter, open_daf
from daf_storage.base import Span
from daf_storage.trees import StoredArray
from tests.limits import lower


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("name", ["x.daf.zarr", "x.daf.zarr.zip", "x.h5df", "x.daf"])
@pytest.mark.parametrize("packed", [True, None, False])
def test_both_layouts_are_packed_alike(tmp_path: Path, name: str, packed: bool | None) -> None:  # noqa: FBT001 - a parameter of the test
    """As the data set was opened, or as was asked for; also where the second one comes later."""
    values = np.arange(40.0).reshape(8, 5) % 3
    with open_daf(tmp_path / name, "w", packed=True) as daf:
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", [f"c{n}" for n in range(8)])
        daf.add_axis("gene", [f"g{n}" for n in range(5)])
        matrices = {"sparse": sp.csc_array(values), "dense": values}
        for matrix, value in matrices.items():
            daf.set_matrix("cell", "gene", matrix, value, packed=packed)
            daf.set_matrix("cell", "gene", f"{matrix} 2", value, packed=packed, relayout=False)
            daf.relayout_matrix("cell", "gene", f"{matrix} 2", packed=packed)
        for rows, columns in (("cell", "gene"), ("gene", "cell")):
            for matrix in [*matrices, *(f"{matrix} 2" for matrix in matrices)]:
                stored = daf.open_matrix(rows, columns, matrix)
                is_packed = {not array.info.is_mappable for array in stored.arrays().values()}
                assert is_packed == {packed is not False}, (rows, matrix)
                found = daf.get_np_matrix(rows, columns, matrix)
                dense = found.toarray() if sp.issparse(found) else found
                assert np.array_equal(dense, values if rows == "cell" else values.T)


@pytest.mark.parametrize("packed", [True, False])
def test_a_packed_dense_matrix_is_decoded_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """Memory does not grow with it, whether its transpose is packed or not."""
    values = np.arange(60_000).reshape(200, 300)
    with open_daf(tmp_path / "x.daf.zarr", "w", packed=True) as daf:
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", [f"c{n}" for n in range(200)])
        daf.add_axis("gene", [f"g{n}" for n in range(300)])
        daf.set_matrix("cell", "gene", "x", values, relayout=False)
        opened = type(daf.open_matrix("cell", "gene", "x").dense())
        read_rows, longest = opened.read_rows, [0]

        def counting(array: StoredArray, span: Span) -> Any:
            found = read_rows(array, span)
            longest.append(found.nbytes)
            return found

        monkeypatch.setattr(opened, "read_rows", counting)
        monkeypatch.setattr(opened, "read", lambda _: pytest.fail("read as a whole"))
        lower(monkeypatch, copied_bytes=1 << 16, thread_bytes=1)
        daf.relayout_matrix("cell", "gene", "x", packed=packed)
        monkeypatch.undo()
        assert 0 < max(longest) <= 1 << 16
        found = daf.get_np_matrix("gene", "cell", "x", relayout=False)
        assert np.array_equal(found, values.T)
