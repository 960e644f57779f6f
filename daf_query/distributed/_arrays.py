"""Dask arrays of blocks, each of which a task reads by path.

Blocks are ``scipy.sparse.csr_matrix`` and not ``csr_array``: Dask multiplies sparse blocks with
``*``, which of arrays means each element with each, and scanpy knows no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from daf_query.distributed._source import token_of
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


def block_of(read: Callable[[Span, Span], Any], rows: Span, columns: Span, form: BlockForm) -> Any:
    """Return a block; what a task of a graph does."""
    return form.block(read(rows, columns))


def block_array(
    read: Callable[[Span, Span], Any],
    spans: tuple[Sequence[Span], Sequence[Span]],
    kind: BlockKind,
    dtype: np.dtype[Any],
) -> Any:
    """Return a ``dask.array.Array`` of two dimensions.

    Parameters
    ----------
    read
        Returns the values of some rows and columns; it is pickled by path.
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
    chunks = tuple(tuple(span.size for span in each) for each in spans)
    token = token_of(read, chunks, kind, dtype.str)
    name, read_name = f"daf-matrix-{token}", f"daf-source-{token}"
    graph: dict[Any, Any] = {
        (name, row, column): (block_of, read_name, rows, columns, form)
        for row, rows in enumerate(spans[0])
        for column, columns in enumerate(spans[1])
    }
    graph[read_name] = read
    return da.Array(
        graphs.HighLevelGraph.from_collections(name, graph),
        name,
        chunks=chunks,
        meta=form.meta(),
    )
