"""Slices as Dask arrays, whose blocks are read by path when they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from daf_query.dask_blocks import BlockKind, Source, block_array
from daf_query.slice._block_grid import BlockSizes, GridFacts, Spans, block_spans
from daf_storage import errors

if TYPE_CHECKING:
    import dask.array as da


class Blocked(Protocol):
    """What a Dask array needs of a slice."""

    @property
    def is_sparse(self) -> bool:
        """Whether its values are sparse."""
        ...

    @property
    def dtype(self) -> Any:
        """The numpy dtype of its values."""
        ...

    def grid_facts(self, kind: BlockKind) -> GridFacts:
        """Return what the grid of its blocks follows from."""
        ...

    def block_reads(self, spans: Spans) -> tuple[Source, Iterator[Any]]:
        """Return what all tasks read of, and what each of them has of it."""
        ...


class DaskArrays:
    """The part of a slice that is about Dask."""

    def to_dask(
        self: Blocked,
        *,
        rows_per_block: int | None = None,
        columns_per_block: int | None = None,
        blocks: BlockKind | None = None,
    ) -> da.Array:
        """Return a ``dask.array.Array`` whose blocks are read when they are computed.

        Its graph has a task for each block, which carries the path and the positions and no values:
        workers of a cluster open the path themselves, once each.

        Parameters
        ----------
        rows_per_block
            How many rows a block has; by default about 64 MiB of them, in whole chunks of a matrix
            that is stored in chunks.
        columns_per_block
            How many columns a block has; by default all, unless the matrix is stored by columns
            alone: then blocks have all rows, and some of the columns.
        blocks
            ``csr`` (``scipy.sparse.csr_matrix``, which Dask and scanpy multiply as matrices) or
            ``dense`` (``numpy.ndarray``); by default as the matrix is stored.

        Raises
        ------
        MissingDependencyError
            Dask is not installed.
        InvalidInputError
            A size is none, or cuts a matrix that is stored in the other layout alone; or the data
            was replaced since the slice was made.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> array = daf_query.connect(daf).matrix("cell", "gene", "UMIs").to_dask(rows_per_block=2)
        >>> array.chunks, array.sum().compute(scheduler="threads").item()
        (((2, 1), (2,)), 15)
        """
        return dask_array(self, BlockSizes(rows_per_block, columns_per_block), blocks)


def dask_array(part: Blocked, sizes: BlockSizes, blocks: BlockKind | None) -> Any:
    """Return a slice as a Dask array; see `DaskArrays.to_dask`."""
    kind: BlockKind = ("csr" if part.is_sparse else "dense") if blocks is None else blocks
    if kind not in ("csr", "dense"):
        raise errors.InvalidInputError(f"blocks={blocks!r} is neither 'csr' nor 'dense'")
    if kind == "csr" and part.dtype == np.dtype(object):
        raise errors.UnsupportedInputError(
            "blocks='csr': a matrix of strings has no sparse blocks; pass 'dense'"
        )
    spans = block_spans(part.grid_facts(kind), sizes)
    source, pieces = part.block_reads(spans)
    return block_array(source, pieces, spans, kind, part.dtype)
