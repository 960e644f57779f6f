"""A slice of a matrix, of one data set or of several as one: its request, its forms, its files.

A slice that is larger than its budget is written one block of rows after the other.  A *group* is
one of an HDF5 file or of a Zarr directory, into which matrices are written in the encodings of
anndata.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._calls import Advised, check_keywords
from daf_query._formats import COMPRESSED, SLICE_FORMATS
from daf_query._provenance import DataSets, Record, record_of, refuse_own_files
from daf_query._row_files import Rows, compressed, format_of, write_batches
from daf_query._runs import attended, checked
from daf_query.distributed import BlockKind, Source
from daf_query.matrix import AlignedAxis, Selection, SlicePlan
from daf_query.slice import _anndata, _tables
from daf_query.slice._anndata import ANNDATA_MAX_BYTES, AnnDataChoice, Choice, companion_slice
from daf_query.slice._blocks import (
    BLOCK_BYTES,
    ByteSize,
    byte_count,
    dask_array,
    row_spans,
    source_of,
)
from daf_query.slice._explanation import SliceExplanation, check_budget, explain, slice_page
from daf_query.slice._parts import Part, Whole, figures_of, read_whole, slice_of
from daf_query.slice._selector import SliceRequest, Written, matrix_axes
from daf_query.slice._tables import Labels, labels_of, long_table, wide_table
from daf_storage import DafReader, errors
from daf_storage._lazy import lazy_module, sp, zarr
from daf_storage._terminal_text import visible_name
from daf_storage.anndata import AlignedMatrix, narrowed, write_anndata
from daf_storage.base import ForkLock, Span, optional_import
from daf_storage.stores import find_output, open_output, output_directory, output_path
from daf_storage.trees import hdf5_output

if TYPE_CHECKING:
    import anndata
    import dask.array as da
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """Which entries of a data set were asked for, and whether what leaves says so."""

    schema: str
    """What the session calls the data set."""
    rows: Written
    columns: Written
    is_described: bool = False
    """Whether files and AnnData say where they come from, unless a call says otherwise."""
    empty: tuple[str, ...] = ()
    """A sentence for each predicate that selects nothing."""
    block: Span | None = None
    """Which of the chosen rows, if not all: those of a block."""

    def of_rows(self, span: Span) -> SliceRecord:
        """Return the same for some of these rows.

        >>> whole = SliceRecord("pbmc", "age > 60", None, is_described=True)
        >>> whole.of_rows(Span(10, 20)).of_rows(Span(2, 4)).block
        Span(start=12, stop=14)
        """
        first = 0 if self.block is None else self.block.start
        return replace(self, block=Span(first + span.start, first + span.stop))

    def provenance(self, whole: Whole, data_sets: DataSets) -> Record:
        """Return what files of a slice of these data sets say; see `MatrixSlice.provenance`."""
        rows_axis, columns_axis = whole.axis_names
        block = {} if self.block is None else {"block": [self.block.start, self.block.stop]}
        described = {
            "matrix": {"name": whole.name, "rows_axis": rows_axis, "columns_axis": columns_axis},
            "rows": self.rows,
            **block,
            "columns": self.columns,
            "shape": list(whole.shape),
        }
        if isinstance(across := whole.axes[1 - whole.along], AlignedAxis):
            described |= {"along": whole.axis_names[whole.along], "join": across.join}
            if whole.missing_count:
                described["fill_value"] = _plain(whole.fill)
        return record_of({self.schema: next(iter(data_sets.values()))}, described)


def _plain(fill: Any) -> Any:
    """Return a fill value as JSON has it: NaN as a string."""
    if isinstance(fill, np.generic):
        fill = fill.item()
    return "NaN" if isinstance(fill, float) and math.isnan(fill) else fill


class _Tried:
    def count(self) -> int:
        """Return the count within a method."""
        return sys.getrefcount(self)


COUNT_IF_UNHELD: Final = _Tried().count() if sys.version_info < (3, 14) else 0
"""What ``sys.getrefcount(self)`` returns in a method of an object that nobody else holds.

``db.matrix(...).to_scipy()`` leaves nobody who could ask the slice again, so that its values are
handed over, not copied: twice the memory for a moment otherwise.  From Python 3.14 on the count
does not tell, and everything counts as held.
"""


class MatrixSlice(Advised):
    """Some rows and columns of a matrix; `DafSession.matrix` makes one.

    The values are read when first asked for, once, from the stored layout that takes the least
    time; the rest of the matrix is not read.  If that layout is damaged, the other one is read,
    and a `DamagedLayoutWarning` says so.  A slice stays usable after its session is closed as
    far as its values have been read.

    In a collection, one axis is concatenated, the other aligned by name: `datasets`
    says of which data set each entry of the concatenated axis is, and tables have that as the
    column ``dataset``.  The parts are read in parallel, in blocks: the memory that this takes is
    the result, and two blocks for each thread.
    """

    def __init__(self, whole: Whole, requested: SliceRecord) -> None:
        self.rows_axis, self.columns_axis = whole.axis_names
        self.name = whole.name
        """The name of the matrix."""
        self.whole = whole
        """The part of each data set, and where it goes."""
        self._requested = requested
        self._lock = ForkLock()
        self._gathered: Any = None
        self._nnz: int | None = None

    def __reduce__(self) -> Any:
        """Pickle what was chosen, not the values; the other process opens the same data again."""
        source = source_of(self.whole)
        source.require_path()
        return _slice_again, (type(self), source, self._requested)

    @property
    def of_several(self) -> bool:
        """Whether it is of a collection, though perhaps of one entry of one of them."""
        return self.whole.is_collection

    @property
    def daf(self) -> DafReader:
        """The data set that it comes from; several are an error: see `members`."""
        return self._single("has several data sets: see datasets").daf

    @property
    def plan(self) -> SlicePlan:
        """The stored layout that is read; of several data sets an error: see `explain`."""
        return self._single("has a plan for each data set: see explain()").plan

    def _single(self, what: str) -> Part:
        """Return the part of the only data set."""
        if self.of_several:
            raise errors.InvalidInputError(
                f"{self.whole.location}: this slice of {self.name!r} {what}; connect the data set "
                "that you want"
            )
        return self.whole.members[0]

    @property
    def members(self) -> dict[str, Self]:
        """The slice of each data set of which something is selected, by its name."""
        parts = self.whole.members
        return {p.name: type(self)(Whole.of(p), SliceRecord(p.name, None, None)) for p in parts}

    @property
    def counts(self) -> dict[str, int]:
        """How many of the rows are of each data set; of the columns, if these are concatenated."""
        return self.whole.counts

    @property
    def datasets(self) -> npt.NDArray[np.object_]:
        """The data set of each entry of the concatenated axis, as ``str`` objects."""
        return _tables.objects_of(_tables.datasets_of(self.whole).dictionary_decode())

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.whole.shape

    @property
    def selections(self) -> tuple[Selection, Selection]:
        """The selected rows, and the selected columns."""
        return self.whole.selections

    @property
    def empty_selections(self) -> tuple[str, ...]:
        """A sentence for each of ``rows=`` and ``columns=`` that selects nothing."""
        return self._requested.empty

    @property
    def is_sparse(self) -> bool:
        """Whether the values are sparse: the matrix is stored so, by some data set at least."""
        return self.whole.is_sparse

    @property
    def dtype(self) -> Any:
        """The numpy dtype of the values; ``object`` for strings."""
        return self.whole.dtype

    @property
    def row_positions(self) -> npt.NDArray[np.int64]:
        """The 0-based positions of the rows along their axis."""
        return self.selections[0].positions

    @property
    def column_positions(self) -> npt.NDArray[np.int64]:
        """The 0-based positions of the columns along their axis."""
        return self.selections[1].positions

    @property
    @attended
    def rows(self) -> npt.NDArray[np.object_]:
        """The entries of the rows axis, as ``str`` objects."""
        return _tables.objects_of(_tables.names_of(self.whole, 0))

    @property
    @attended
    def columns(self) -> npt.NDArray[np.object_]:
        """The entries of the columns axis, as ``str`` objects."""
        return _tables.objects_of(_tables.names_of(self.whole, 1))

    @attended
    def values(self, *, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values as they were read: ``csr_array`` if sparse, else ``ndarray``.

        The slice keeps them: do not change them.  What the ``to_`` methods return is the caller's.
        """
        with self._lock:
            if self._gathered is None:
                self._gathered = read_whole(self.whole, checked(progress))
            return self._gathered

    def load(self, *, progress: Callable[[int], None] = lambda _: None) -> Self:
        """Read the values now, reporting stored elements done; returns the slice itself."""
        self.values(progress=progress)
        return self

    def blocks(
        self, rows: int | None = None, *, max_bytes: ByteSize | None = None
    ) -> Iterator[Self]:
        """Return the slice in blocks of rows, each of which reads its own values.

        Parameters
        ----------
        rows
            How many rows a block has; the last may have fewer.
        max_bytes
            Instead, how much memory the values of a block may take: a number of bytes, or
            ``"500MB"``; 128 MiB by default.  A single row may take more.

        Returns
        -------
        iterator of MatrixSlice
            In the order of the rows.  A slice without rows has none.

        Raises
        ------
        InvalidInputError
            One of them is no size, or both are given.

        Notes
        -----
        Blocks are cheap where the matrix is stored by rows.  Where it is stored by columns alone,
        each block reads all selected columns: ``relayout_matrix`` stores the other layout.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> part = daf_query.connect(daf).matrix("cell", "gene", "UMIs")
        >>> [block.to_numpy().tolist() for block in part.blocks(rows=2)]
        [[[0, 1], [2, 3]], [[4, 5]]]
        """
        figures = figures_of(self.whole, self._gathered)
        return map(self.of_rows, row_spans(figures, rows, max_bytes))

    def of_rows(self, span: Span) -> Self:
        """Return some of the rows, by their offsets; nothing is read."""
        return self._cut(self.whole.of_rows(span), self._requested.of_rows(span), span.slice)

    def take_rows(self, offsets: npt.NDArray[np.int64]) -> Self:
        """Return some of the rows, by their offsets, which ascend, each once; nothing is read."""
        listed = f"{offsets.size:,} of {self.shape[0]:,}, listed"
        requested = replace(self._requested, rows=listed, block=None)
        return self._cut(self.whole.take_rows(offsets), requested, offsets)

    def _cut(self, whole: Whole, requested: SliceRecord, rows: Any) -> Self:
        cut = type(self)(whole, requested)
        if self._gathered is not None:
            cut._gathered = self._gathered[rows]  # noqa: SLF001 - of this class
        return cut

    def provenance(self) -> dict[str, Any]:
        """Return what files of this slice say of where it comes from; see `daf_query.provenance`.

        Predicates have the values of their parameters in them.  In a block, ``block`` says which
        of the rows it has, from 0, the last excluded.  Several data sets have a fingerprint each.
        """
        return self._requested.provenance(self.whole, self.data_sets())

    def _record(self, *, is_wanted: bool | None) -> Record | None:
        """Return the provenance if that is wanted; None: as the session was connected."""
        is_described = self._requested.is_described if is_wanted is None else is_wanted
        return self.provenance() if is_described else None

    def data_sets(self) -> DataSets:
        """Return what the slice is read from, by name."""
        along = self.whole.axes[self.whole.along]
        return {self.name: along.members} if self.of_several else along.members

    def __repr__(self) -> str:
        storage = "sparse" if self.is_sparse else "dense"
        count = len(self.whole.members)
        several = f", of {count:,} data set{'s' * (count != 1)}" if self.of_several else ""
        summary = (
            f"MatrixSlice({self.name!r}, {self.shape[0]:,} {self.rows_axis} x "
            f"{self.shape[1]:,} {self.columns_axis}, {storage} {self.dtype}{several})"
        )
        return "\n  ".join(map(visible_name, [summary, *self._notes()]))

    def _notes(self) -> list[str]:
        """Return which matrices come along as AnnData, and why nothing was selected, if so."""
        companions = "" if self.of_several else _anndata.describe(self.whole)
        return [companions] * bool(companions) + list(self.empty_selections)

    def _repr_html_(self) -> str:
        return slice_page(self.whole, self._gathered, self._notes())

    @property
    def nnz(self) -> int:
        """Number of stored elements of a sparse slice, of non-zero ones of a dense slice."""
        return nnz_of(self.values()) if self._nnz is None else self._nnz  # as saved in blocks

    @attended
    def explain(self) -> SliceExplanation:
        """Return what the slice will read, and how much memory it will take; reads no values.

        Returns
        -------
        SliceExplanation
            Rows, columns, stored elements, the layout that is chosen and why, bytes and requests,
            and the memory of each form.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf(name="tiny")
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6", "CD8A"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1, 0], [2, 3, 0]])
        >>> part = daf_query.connect(daf).matrix("cell", "gene", "UMIs", rows=["GATA"])
        >>> part.explain().stored_elements, part.explain().result_bytes
        (3, 24)
        """
        return explain(self.whole, self._gathered)

    def to_scipy(self) -> sp.csr_array[Any]:
        """Return a ``scipy.sparse.csr_array`` of shape ``(rows, columns)``, indices ascending.

        It is a copy of the values that the slice keeps; of a slice that nobody holds, as in
        ``db.matrix(...).to_scipy()``, the values themselves.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> part = daf_query.connect(daf).matrix("cell", "gene", "UMIs", rows="age > 40")
        >>> part.to_scipy().toarray().tolist()
        [[2, 3], [4, 5]]
        """
        is_last = self._gathered is None and sys.getrefcount(self) == COUNT_IF_UNHELD
        return sp.csr_array(self.values(), copy=not is_last)

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return a dense array of shape ``(rows, columns)``.

        For a dense matrix it is a view of the mapped file where rows and columns are plain ranges,
        else a copy of the slice.
        """
        values = self.values()
        if sp.issparse(values):
            values = values.toarray()
        elif values.flags.writeable:  # not a view of the file: the caller may change what it gets
            values = values.copy()
        dense: npt.NDArray[Any] = values
        return dense

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        """Return the dense array of `to_numpy`, for functions of numpy."""
        return np.array(self.to_numpy(), dtype, copy=copy)

    def to_arrow(self, *, provenance: bool = False) -> pa.Table:
        """Return the long form: a row for each non-zero element, row by row.

        Columns are the two axes (dictionaries of their entries) and ``value``.  For a matrix of
        an axis with itself they are ``AXIS`` and ``AXIS_2``.

        Parameters
        ----------
        provenance
            Whether the metadata of its schema say where the slice comes from.
        """
        return _tables.long_table(
            self.values(), _tables.labels_of(self.whole), self._record(is_wanted=provenance)
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with a row per row and a column per column.

        A sparse matrix gets pandas' sparse columns; ``frame.sparse.to_dense()`` expands them.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> part = daf_query.connect(daf).matrix("cell", "gene", "UMIs", rows="age > 40")
        >>> part.to_pandas()
              FOXA1  WNT6
        GATA      2     3
        CATA      4     5
        """
        frame: pd.DataFrame = _tables.wide_pandas(self.values(), _tables.labels_of(self.whole))
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return a DataFrame with the row entries first, then a column per column entry.

        The first column is named after the rows axis.
        """
        return _tables.wide_polars(self.values(), _tables.labels_of(self.whole))

    def to_anndata(  # noqa: PLR0913 - what comes along, and how
        self,
        *,
        layers: Choice = None,
        obsm: Choice = None,
        varm: Choice = None,
        obsp: Choice = None,
        varp: Choice = None,
        max_bytes: int | None = ANNDATA_MAX_BYTES,
        provenance: bool | None = None,
        lazy: bool = False,
        rows_per_block: int | None = None,
    ) -> anndata.AnnData:
        """Return an AnnData whose ``X`` is this slice, with the other matrices over its axes.

        The rows axis becomes ``obs`` and the columns axis ``var``, with all vectors of the
        selected entries; categoricals get their order and their colours back.  The other matrices
        over both axes become ``layers``, those of one axis with itself ``obsp`` and ``varp``, and
        those to axes of their own ``obsm`` and ``varm``.  The selected entries of each are read
        and no more.  The `repr` of the slice names them.

        Parameters
        ----------
        layers, obsm, varm, obsp, varp
            True for all of a part, False for none, a key or a list of keys.  By default, as many
            as fit ``max_bytes``, the smallest first.
        max_bytes
            How many bytes the matrices that were not chosen may take in memory, in sum; 1 GiB by
            default, None for no limit.  A sparse matrix is estimated by its share of the axes.
        provenance
            Whether ``uns["daf_query"]`` says, as JSON, where the slice comes from; by default as
            the session was connected.
        lazy
            Whether ``X`` and the layers are Dask arrays as of `to_dask`, in blocks of rows, and
            nothing of them is read now.  All layers come along by default.
        rows_per_block
            How many rows their blocks have; by default as many as `to_dask` chooses for ``X``.

        Raises
        ------
        MatrixNotFoundError
            There is no matrix of a key; the message lists those that exist.
        InvalidInputError
            ``lazy``, and ``X`` or a layer is stored by columns alone; or ``rows_per_block`` without
            ``lazy``.

        Warns
        -----
        AnnDataWarning
            Matrices did not fit, or cannot be read; it names them, and says how to get them.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> part = daf_query.connect(daf).matrix("cell", "gene", "UMIs", rows="age > 40")
        >>> part.to_anndata().obs
              age
        GATA   60
        CATA   90
        """
        choice = AnnDataChoice(
            layers=layers, obsm=obsm, varm=varm, obsp=obsp, varp=varp, max_bytes=max_bytes
        )
        is_last = self._gathered is None and sys.getrefcount(self) == COUNT_IF_UNHELD
        record = self._record(is_wanted=provenance)
        if lazy:
            return _anndata.lazy_anndata(self.whole, choice, record, rows_per_block)
        if rows_per_block is not None:
            raise errors.InvalidInputError("rows_per_block= is for lazy=True alone")
        is_shared = self.is_sparse and not is_last  # of a dense one it is a copy
        read = (lambda: self.values().copy()) if is_shared else self.values
        return _anndata.to_anndata(self.whole, read, choice, record)

    def to_dask(
        self,
        *,
        rows_per_block: int | None = None,
        blocks: BlockKind | None = None,
    ) -> da.Array:
        """Return a ``dask.array.Array`` whose blocks are read when they are computed.

        Its graph has a task for each block, which carries the path and the positions and no values:
        workers of a cluster open the path themselves, once each.

        Parameters
        ----------
        rows_per_block
            How many rows a block has; by default about 64 MiB of them, in whole chunks of a matrix
            that is stored in chunks.  By default, blocks of a matrix that is stored by columns
            alone have all rows, and some of the columns.
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
        return dask_array(self.whole, rows_per_block, blocks)

    def save(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 - what it is called everywhere
        provenance: bool | None = None,
        block_bytes: ByteSize = BLOCK_BYTES,
        progress: Callable[[int], None] = lambda _: None,
        **choice: Unpack[AnnDataChoice],
    ) -> None:
        """Write the slice to a file, whose format follows from its suffix.

        ``.h5ad`` and ``.zarr`` (AnnData, the latter a directory), ``.npz`` (scipy, plus
        ``row_names`` and ``column_names``), ``.mtx`` (Matrix Market, plus ``.rows.tsv`` and
        ``.columns.tsv``), ``.csv`` and ``.tsv`` (wide, with names), ``.parquet`` and ``.arrow``
        (long form); those of text also compressed, such as
        ``.csv.gz``.  The file appears when it is complete.

        A slice that is larger than ``block_bytes``, and of which the values were not read yet, is
        written block by block as AnnData, Parquet, Arrow, CSV and TSV: the memory that this takes
        does not grow with the slice.

        Parameters
        ----------
        path
            A symbolic link is followed; a pipe or a device is written into.
        format
            The format, without a dot, where the suffix does not say it.
        provenance
            Whether an h5ad, Zarr, Parquet or Arrow file says where the slice comes from
            (`daf_query.provenance` reads it); by default as the session was connected.  The other
            formats have no place for it.
        block_bytes
            How large a block of values may be, and a slice that is written as a whole: a number of
            bytes, or ``"500MB"``.  Writing takes a few times as much memory.
        progress
            Called with the number of stored elements that were read since the last call.
        **choice
            ``layers=``, ``obsm=`` and so on, as in `to_anndata`; for h5ad and zarr only.

        Raises
        ------
        InvalidInputError
            The suffix is none of these, ``block_bytes`` no size, or the file is one that is read.
        """
        path = Path(path)
        file_format = check_format(path, format)
        refuse_own_files(self.data_sets(), path)
        check_keywords(choice, AnnDataChoice, "an AnnData")
        budget = byte_count(block_bytes, keyword="block_bytes")
        if choice and file_format not in ANNDATA:
            raise errors.InvalidInputError(
                f"cannot write {', '.join(choice)} to {str(path)!r}: {file_format} holds one "
                "matrix; write an .h5ad file"
            )
        has_place = SLICE_FORMATS[file_format].is_described
        record = self._record(is_wanted=provenance) if has_place else None
        reading, values = Reading(max(budget, 1), checked(progress)), self._gathered
        if values is None and not reading.needs_blocks(self.whole, file_format):
            values = self.values(progress=progress)
        if file_format in ANNDATA:
            save_anndata(self.whole, values, path, file_format, choice, record, reading)
        else:
            save_rows(self.whole, values, path, file_format, record, reading)
        self._nnz = reading.nnz


def _slice_again(kind: type[MatrixSlice], source: Source, requested: SliceRecord) -> MatrixSlice:
    return kind(source.open(), requested)


def matrix_slice(request: SliceRequest) -> MatrixSlice:
    """Return a slice; see `DafSession.matrix`."""
    found = matrix_axes(request)
    whole = slice_of(request.name, found.axes, found.selections, found.having, request.fill_value)
    if request.max_bytes is not None:
        check_budget(explain(whole), request.max_bytes)
    rows, columns = found.chosen
    empty = tuple(each.empty for each in found.chosen if each.empty is not None)
    is_described = request.engine.connections.provenance
    return MatrixSlice(
        whole, SliceRecord(request.tables.name, rows.written, columns.written, is_described, empty)
    )


_SCIPY_IO: Final = lazy_module("scipy.io")

H5AD: Final = "h5ad"
"""AnnData in an HDF5 file."""

ZARR: Final = "zarr"
"""AnnData in a Zarr directory."""

ANNDATA: Final = (H5AD, ZARR)
"""The formats of AnnData."""

WIDE: Final = ("csv", "tsv")
"""The formats in which a sparse slice becomes a dense one."""
_DATA_SETS: Final = (".daf.zarr", ".dafs.zarr")


def check_format(path: Path, given: str | None = None) -> str:
    """Return the format of the file of a slice; refuse a path where it cannot be written."""
    file_format: str = format_of(path, given, SLICE_FORMATS)
    if file_format == ZARR:
        _check_directory(path)
    return file_format


def _check_directory(path: Path) -> None:
    """Refuse to write a Zarr directory where something else is, or would be expected."""
    if path.name.endswith(_DATA_SETS):
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: this is the name of a Daf data set; name the AnnData of "
            "a slice otherwise, such as 'slice.zarr'"
        )
    if path.is_dir():
        if any(path.iterdir()) and not _is_anndata(path):
            raise errors.InvalidInputError(
                f"cannot write {str(path)!r}: this is a directory, and not an AnnData, which "
                "would be replaced; remove it, or choose another name"
            )
    elif path.exists() or not find_output(path).is_regular:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: zarr is a directory; name one that is not there yet"
        )


def _is_anndata(path: Path) -> bool:
    """Return whether a directory is an AnnData in Zarr, by the metadata of its root."""
    try:
        return bool(zarr.open_group(path, mode="r").attrs.get("encoding-type") == "anndata")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def nnz_of(values: Any) -> int:
    """Return how many elements are stored of CSR, or are not zero of an array."""
    return int(values.nnz if sp.issparse(values) else np.count_nonzero(values))


@dataclass
class Reading:
    """Reads a slice to be written, in blocks."""

    block_bytes: int
    """How large a block may be."""
    progress: Callable[[int], None] = lambda _: None
    """Called with the number of stored elements that were read since the last call."""
    nnz: int | None = None
    """The number of elements of the last slice that are stored, or not zero."""
    check: Callable[[], None] = lambda: None
    """Called before the next block is read: raises if one could not be written."""

    def needs_blocks(self, whole: Whole, file_format: str) -> bool:
        """Return whether a slice is to be read in blocks for a file of some format."""
        figures = figures_of(whole)
        size = figures.dense_bytes if file_format in WIDE else figures.result_bytes
        can_be_cut = SLICE_FORMATS[file_format].in_blocks and whole.dtype != object
        return can_be_cut and whole.shape[0] > 0 and size > self.block_bytes

    def blocks(self, whole: Whole, file_format: str) -> Iterator[tuple[Span, Any]]:
        """Yield the rows and the values of each block."""
        self.nnz, figures, rows = 0, figures_of(whole), None
        if file_format in WIDE:  # no larger as dense ones
            rows = max(self.block_bytes // (whole.shape[1] * figures.item_bytes), 1)
        for span in row_spans(figures, rows, None if rows else self.block_bytes):
            self.check()
            block = read_whole(whole.of_rows(span), self.progress)
            self.nnz += nnz_of(block)
            yield span, block


def save_rows(
    whole: Whole, values: Any, path: Path, file_format: str, record: Record | None, reading: Reading
) -> None:
    """Write a slice, but for AnnData; an old file is replaced when the new one is complete.

    The metadata of the long form have a record of the provenance.

    Parameters
    ----------
    values
        Those of the slice; None to read them in blocks.
    """
    rows, columns = labels_of(whole)  # so that all blocks have the same dictionaries
    if file_format == "mtx" and not find_output(path).is_regular:
        raise errors.InvalidInputError(
            f"cannot write {str(path)!r}: mtx is a file with two more beside it, for the names; "
            "choose a format that has all of it in one"
        )
    with open_output(path) as file, compressed(file, path) as sink:
        if file_format in ("npz", "mtx"):
            matrix = sp.csr_array(values)
            if file_format == "npz":
                _write_npz(rows, columns, matrix, sink)
            else:
                _SCIPY_IO.mmwrite(sink, matrix)
        else:
            blocks: Iterable[tuple[Span, Any]] = [(Span(0, whole.shape[0]), values)]
            if values is None:
                blocks = reading.blocks(whole, file_format)
            table_of = wide_table if file_format in WIDE else partial(long_table, record=record)
            tables = (table_of(block, (rows.part(span), columns)) for span, block in blocks)
            first = next(tables)
            batches = (batch for each in chain([first], tables) for batch in each.to_batches())
            write_batches(Rows(first.schema, batches), file_format, sink)
    if file_format == "mtx":
        _save_names((rows, columns), path)


def _save_names(both: tuple[Labels, Labels], path: Path) -> None:
    """Write the names of the rows and of the columns beside a matrix in Matrix Market."""
    plain = path.with_suffix("") if path.suffix == COMPRESSED else path
    for labels, suffix in zip(both, (".rows.tsv", ".columns.tsv"), strict=True):
        columns = [labels.strings]
        if labels.datasets is not None:
            columns.append(labels.datasets.to_pylist())
        with open_output(plain.with_suffix(suffix)) as file:
            lines = ("\t".join(map(str, line)) for line in zip(*columns, strict=True))
            file.write("".join(f"{line}\n" for line in lines).encode())


def _write_npz(rows: Labels, columns: Labels, matrix: Any, file: IO[bytes]) -> None:
    """Write what ``scipy.sparse.load_npz`` reads, and the names beside it."""
    datasets: dict[str, Any] = {
        name: _fixed_width(labels.datasets.to_pylist())
        for name, labels in (("row_datasets", rows), ("column_datasets", columns))
        if labels.datasets is not None
    }
    np.savez_compressed(
        file,
        format=np.array(b"csr"),
        shape=np.array(matrix.shape),
        data=matrix.data,
        indices=matrix.indices,
        indptr=matrix.indptr,
        _is_array=np.array(True),  # noqa: FBT003 - scipy's own mark
        row_names=_fixed_width(rows.strings),
        column_names=_fixed_width(columns.strings),
        **datasets,
    )


def _fixed_width(names: Iterable[str]) -> npt.NDArray[np.str_]:
    """Return names as numpy stores them without pickling, which takes NULs at the end off."""
    listed = list(names)
    for name in listed:
        if name.endswith("\0"):
            raise errors.UnsupportedInputError(
                f"a file of numpy cannot hold the name {name!r}, which ends in a NUL character; "
                "write another form, such as .parquet, or select other entries"
            )
    return np.array(listed, str)


def save_anndata(
    whole: Whole,
    values: Any,
    path: Path,
    file_format: str,
    choice: _anndata.AnnDataChoice,
    record: Record | None,
    reading: Reading,
) -> None:
    """Write what `to_anndata` returns; a large ``X`` and large layers in blocks.

    A companion that is no larger than a block is gathered as a whole.

    Parameters
    ----------
    values
        Those of the slice; None to read them in blocks.
    """
    with whole.unchanged_axes():
        adata, main, companions = _anndata.annotated(whole, choice, record)
        large = [(whole, main, reading)] if values is None else []
        if values is not None:
            adata.X = main.restore(values, index=None, columns=None)
        for companion in companions:
            part, _ = companion_slice(whole, companion)
            if companion.matrix.is_annotation or not reading.needs_blocks(part, file_format):
                _anndata.add_companion(adata, whole, companion)
            else:
                large.append((part, companion.matrix, Reading(reading.block_bytes)))
    output = output_directory(path) if file_format == ZARR else output_path(path)
    with output as prepared:
        report = write_anndata(adata, prepared, file_format=file_format)
        if large:
            with whole.unchanged_axes(), _opened(prepared, file_format) as (root, check):
                for part, matrix, own in large:
                    own.check = check
                    group = root.require_group(matrix.part) if matrix.key else root
                    _write_matrix(group, matrix.key or "X", part, matrix, own)
    report.warn()


@contextmanager
def _opened(prepared: Path, file_format: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Open a file for more matrices; Zarr lists them in its consolidated metadata in the end.

    Also hands out what raises if a block could not be written.
    """
    if file_format == H5AD:
        with hdf5_output(prepared, "r+") as opened:
            yield opened
        return
    group = zarr.open_group(prepared, mode="r+", use_consolidated=False)
    yield group, lambda: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Zarr v3 does not specify them yet
        zarr.consolidate_metadata(group.store)


def _write_matrix(
    group: Any, key: str, whole: Whole, matrix: AlignedMatrix, reading: Reading
) -> None:
    """Write a matrix in the dtype that it had when it was imported, if all values fit that."""
    for dtype in (np.dtype(matrix.note.get("dtype", whole.dtype)), whole.dtype):
        if key in group:
            del group[key]
        if _is_written(group, key, whole, dtype, reading):
            return


def _is_written(group: Any, key: str, whole: Whole, dtype: np.dtype[Any], reading: Reading) -> bool:
    """Write a matrix in a dtype, as far as all values fit that; return whether they do."""
    anndata = optional_import("anndata", extra="anndata")
    is_hdf5, is_sparse = not isinstance(group, zarr.Group), whole.is_sparse
    growing = {"maxshape": (None, whole.shape[1])} if is_hdf5 and not is_sparse else {}
    indptr_dtype = np.dtype(f"i{figures_of(whole).index_bytes}")  # for as many as in the end
    for span, values in reading.blocks(whole, H5AD):
        written = narrowed(values.data if is_sparse else values, dtype)
        if written.dtype != dtype:
            return False
        if is_sparse:
            values.data, values.indptr = written, values.indptr.astype(indptr_dtype)
            written = values
        if not span.start:
            anndata.io.write_elem(group, key, written, dataset_kwargs=growing)
        elif is_sparse:
            anndata.io.sparse_dataset(group[key]).append(sp.csr_matrix(written))
        else:
            group[key].resize((span.stop, whole.shape[1]))
            group[key][span.slice] = written
    return True
