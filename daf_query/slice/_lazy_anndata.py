"""An AnnData of a slice whose X and layers are Dask arrays, and whose other parts are in memory."""

from __future__ import annotations

from typing import Any, Protocol

from daf_query._provenance import Record
from daf_query.slice import _anndata
from daf_query.slice._anndata import AnnDataChoice
from daf_query.slice._block_grid import BlockSizes
from daf_query.slice._dask_arrays import Blocked, dask_array
from daf_storage.spi import AlignedMatrix


class LazySlice(_anndata.Contained, Blocked, Protocol):
    """What this conversion needs of a matrix slice."""

    def companion(self, matrix: AlignedMatrix) -> Blocked:
        """Return the selected part of a matrix that comes along."""
        ...


def lazy_anndata(
    part: LazySlice, choice: AnnDataChoice, record: Record | None, rows_per_block: int | None
) -> Any:
    """Return an AnnData like `to_anndata`; of X and layers, nothing is read.

    All layers come along by default, for they take no memory.  Types are those that are stored,
    and sparse blocks CSR, whatever an import recorded.
    """
    layers = choice.get("layers")
    chosen: AnnDataChoice = {**choice, "layers": True if layers is None else layers}
    with part.unchanged_axes():
        contents = part.contents(chosen, record)
        values = dask_array(part, BlockSizes(rows_per_block, needs_rows=True), None)
        adata = contents.without_matrices(X=values)
        # Blocks of the same rows: what is computed of two of them reads neither twice.
        sizes = BlockSizes(max(values.chunks[0][0], 1), needs_rows=True)
        for companion in contents.companions:
            matrix = companion.matrix
            if matrix.part == "layers":
                adata.layers[matrix.key] = dask_array(part.companion(matrix), sizes, None)
            else:
                contents.add_to(adata, companion)
    return adata
