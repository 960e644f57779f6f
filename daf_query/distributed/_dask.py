"""Dask arrays of blocks and frames of partitions, each of which a task reads by path.

Blocks are ``scipy.sparse.csr_matrix`` and not ``csr_array``: Dask multiplies sparse blocks with
``*``, which of arrays means each element with each, and scanpy knows no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.distributed._source import token_of
from daf_storage._lazy import sp
from daf_storage.base import Span, optional_import

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


@dataclass(frozen=True, slots=True)
class FrameForm:
    """What the rows of a piece become."""

    schema: pa.Schema
    """The columns."""
    index: str | None
    """A column of the positions of the rows, which the index of the frame has; None without."""

    def frame(self, rows: pa.Table, columns: Sequence[str]) -> Any:
        """Return rows as a pandas DataFrame whose types are the same in every partition.

        Integers and booleans that may be missing are pandas' nullable ones, whether or not any is
        missing here; strings and categories are strings of Arrow.
        """
        pandas = optional_import("pandas", extra="dask")
        index = pandas.RangeIndex(rows.num_rows)
        if self.index is not None:
            index = pandas.Index(rows.column(self.index).to_numpy(), dtype="int64")
        series = {
            name: _series(pandas, rows.column(name), self.schema.field(name)).set_axis(index)
            for name in columns
        }
        return pandas.DataFrame(series, index=index, columns=pandas.Index(columns, dtype=object))

    def meta(self) -> Any:
        """Return an empty frame."""
        return self.frame(self._empty(), self.schema.names)

    def _empty(self) -> pa.Table:
        empty = self.schema.empty_table()
        if self.index is None or self.index in self.schema.names:
            return empty
        return empty.append_column(self.index, pa.array([], pa.int64()))


def nullable_types(pandas: Any) -> dict[pa.DataType, Any]:
    """Return pandas' types of booleans and integers that may be missing, by those of Arrow."""
    names = [f"{sign}{bits}" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)]
    types = {pa.from_numpy_dtype(name.lower()): getattr(pandas, f"{name}Dtype")() for name in names}
    return {pa.bool_(): pandas.BooleanDtype(), **types}


def _series(pandas: Any, column: pa.ChunkedArray, field: pa.Field) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    of_strings = pandas.StringDtype("pyarrow")
    types = dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), of_strings)
    if field.nullable:
        types |= nullable_types(pandas)
    if column.type == pa.string_view():  # pandas takes no views
        column = column.cast(pa.large_string())
    return column.to_pandas(types_mapper=types.get)
