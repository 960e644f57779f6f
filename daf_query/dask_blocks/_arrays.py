"""Dask arrays of blocks, each of which a task reads by path.

Blocks are ``scipy.sparse.csr_matrix`` and not ``csr_array``: Dask multiplies sparse blocks with
``*``, which of arrays means each element with each, and scanpy knows no others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from daf_query.dask_blocks._opened import Source, opened
from daf_query.dask_blocks._tokens import token_of
from daf_storage._lazy import lazy_module
from daf_storage.base import Span, optional_import

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

BlockKind: TypeAlias = Literal["csr", "dense"]
"""What a block is: a ``csr_matrix``, or a ``numpy.ndarray``."""


@dataclass(frozen=True, slots=True)
class BlockForm:
    """What the values of a piece become."""

    kind: BlockKind
    dtype: np.dtype[Any]

    def block(self, values: Any) -> Any:
        """Return values as a block that whoever gets it may change."""
        if self.kind == "csr":
            return _writable_csr(sp.csr_matrix(values).astype(self.dtype, copy=False))
        dense = values.toarray() if sp.issparse(values) else np.ascontiguousarray(values)
        dense = dense.astype(self.dtype, copy=False)
        return dense if dense.flags.writeable else dense.copy()

    def meta(self) -> Any:
        """Return an empty block."""
        if self.kind == "csr":
            return sp.csr_matrix((0, 0), dtype=self.dtype)
        return np.empty((0, 0), self.dtype)


def _writable_csr(matrix: Any) -> Any:
    parts = (matrix.data, matrix.indices, matrix.indptr)
    return matrix if all(part.flags.writeable for part in parts) else matrix.copy()


def read_block(source: Source, piece: Any, form: BlockForm) -> Any:
    """Return a block; what a task of a graph does."""
    return form.block(opened(source).read(piece))


def block_array(
    source: Source,
    pieces: Iterator[Any],
    spans: tuple[Sequence[Span], Sequence[Span]],
    kind: BlockKind,
    dtype: np.dtype[Any],
) -> Any:
    """Return a ``dask.array.Array`` of two dimensions.

    Parameters
    ----------
    source
        What is read.
    pieces
        What each block has of it, row by row of blocks.
    spans
        The rows of each row of blocks, and the columns of each column of blocks.

    Raises
    ------
    MissingDependencyError
        Dask is not installed.
    """
    da = optional_import("dask.array", extra="dask")
    graphs = optional_import("dask.highlevelgraph", extra="dask")
    form = BlockForm(kind, dtype)
    places = itertools.product(*(range(len(each)) for each in spans))
    placed = list(zip(places, pieces, strict=True))
    chunks = tuple(tuple(span.size for span in each) for each in spans)
    token = token_of(source.key, chunks, kind, dtype.str, *(piece for _, piece in placed))
    name, source_name = f"daf-matrix-{token}", f"daf-source-{token}"
    graph: dict[Any, Any] = {
        (name, *place): (read_block, source_name, piece, form) for place, piece in placed
    }
    graph[source_name] = source
    return da.Array(
        graphs.HighLevelGraph.from_collections(name, graph),
        name,
        chunks=chunks,
        meta=form.meta(),
    )
