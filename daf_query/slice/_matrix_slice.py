"""A slice of a matrix: its entries, the stored layout it is read from, its blocks and its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._cancellation import checked
from daf_query._provenance import DataSets, Record, record_of, refuse_own_files
from daf_query._runs import attended
from daf_query.dask_blocks import BlockKind, Source
from daf_query.matrix import (
    ElementCount,
    Layout,
    PlannedLayouts,
    Selection,
    SlicePlan,
    find_layouts,
    gather_first,
    read_first,
)
from daf_query.slice import _anndata
from daf_query.slice import _explanation as explaining
from daf_query.slice import _export as export
from daf_query.slice._anndata import AnnDataChoice, Contents
from daf_query.slice._asked import Asked
from daf_query.slice._block_grid import GridFacts, Spans
from daf_query.slice._block_reads import matrix_facts, matrix_reads
from daf_query.slice._block_writers import Reading, needs_blocks, save_anndata, save_rows
from daf_query.slice._blocks import (
    BLOCK_BYTES,
    likely_row_counts,
    planned_at,
    planned_rows,
    row_spans,
    without_damaged,
)
from daf_query.slice._byte_sizes import ByteSize, byte_count
from daf_query.slice._conversions import Conversions
from daf_query.slice._current_axes import CurrentAxes
from daf_query.slice._empty_selection import EmptySelection
from daf_query.slice._explanation import SliceExplanation
from daf_query.slice._export import AxisNames, Labels
from daf_query.slice._page import slice_page
from daf_storage import DafReader, Origin, errors
from daf_storage.spi import AlignedMatrix, ForkLock, Span, lazy_module, visible_name

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


def slice_matrix(  # noqa: PLR0913 - what is chosen, and how
    daf: DafReader,
    rows_axis: str,
    columns_axis: str,
    name: str,
    rows: Selection,
    columns: Selection,
    *,
    max_bytes: ByteSize | None = None,
    asked: Asked | None = None,
    current: CurrentAxes | None = None,
) -> MatrixSlice:
    """Return a slice, to be read from the stored layout that takes the least time.

    Parameters
    ----------
    current
        The axes as they were when their entries were chosen; by default they are looked at now.

    Raises
    ------
    BudgetError
        Its result may take more memory than ``max_bytes``.
    """
    budget = None if max_bytes is None else byte_count(max_bytes, keyword="max_bytes")
    axes = (rows_axis, columns_axis)
    current = current or CurrentAxes(daf, axes)
    layouts = find_layouts(daf, axes, name, rows, columns, lengths=current.lengths)
    part = MatrixSlice(daf, axes, name, (rows, columns), layouts, current, asked=asked)
    if budget is not None:
        explaining.check_budget(part.explain(), budget)
    return part


class MatrixSlice(Conversions):
    """Some rows and columns of a stored matrix; `DafSession.matrix` makes one.

    The values are read when first asked for, once, from the stored layout that takes the least
    time; the rest of the matrix is not read.  If that layout is damaged, the other one is read,
    and a `DamagedLayoutWarning` says so.  A slice stays usable after its session is closed as
    far as its values have been read.
    """

    def __init__(
        self,
        daf: DafReader,
        axes: tuple[str, str],
        name: str,
        selections: tuple[Selection, Selection],
        layouts: PlannedLayouts,
        current: CurrentAxes,
        *,
        asked: Asked | None = None,
    ) -> None:
        self.daf = daf
        """The data set that it comes from."""
        self.rows_axis, self.columns_axis = axes
        self.name = name
        """The name of the matrix."""
        self.selections = selections
        """The selected rows, and the selected columns."""
        self._current = current
        self._asked = asked
        self._found = layouts
        self._planned = layouts  # once the values are read, the layout that they are from
        self._is_damaged = False
        self._lock = ForkLock()
        self._gathered: Any = None
        self._nnz: int | None = None

    def __reduce__(self) -> Any:
        """Pickle what was chosen, not the values; the other process opens the data set again."""
        axes = (self.rows_axis, self.columns_axis)
        origin = self.daf.require_origin()
        return _slice_again, (origin, axes, self.name, self.selections, self._asked)

    def __repr__(self) -> str:
        storage = "sparse" if self.is_sparse else "dense"
        summary = (
            f"MatrixSlice({self.name!r}, {self.shape[0]:,} {self.rows_axis} x "
            f"{self.shape[1]:,} {self.columns_axis}, {storage} {self.dtype})"
        )
        return "\n  ".join(map(visible_name, [summary, *self._notes()]))

    def _notes(self) -> list[str]:
        """Return which matrices come along as AnnData, and why nothing was selected, if so."""
        companions = _anndata.describe(self)
        return [companions] * bool(companions) + [str(each) for each in self.empty_selections]

    @property
    def plan(self) -> SlicePlan:
        """The stored layout that is read, and about how many bytes of it."""
        return self._planned.first.plan

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        rows, columns = self.selections
        return rows.size, columns.size

    @property
    def empty_selections(self) -> tuple[EmptySelection, ...]:
        """The predicates of ``rows=`` and ``columns=`` that select nothing."""
        return () if self._asked is None else self._asked.empty

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is stored sparse."""
        return self.plan.stored.info.is_sparse

    @property
    def dtype(self) -> Any:
        """The numpy dtype of the values; ``object`` for strings."""
        storage_type = self.plan.stored.info.storage_type
        if storage_type.is_string:
            return np.dtype(object)
        return storage_type.dtype.newbyteorder("=")

    @property
    def nnz(self) -> int:
        """Number of stored elements of a sparse slice, of non-zero ones of a dense slice."""
        if self._nnz is not None:  # it was saved in blocks
            return self._nnz
        values = self.values()
        return int(values.nnz) if sp.issparse(values) else int(np.count_nonzero(values))

    @property
    def row_positions(self) -> npt.NDArray[np.int64]:
        """The 0-based positions of the rows along their axis."""
        return self.selections[0].positions

    @property
    def column_positions(self) -> npt.NDArray[np.int64]:
        """The 0-based positions of the columns along their axis."""
        return self.selections[1].positions

    @property
    def rows(self) -> npt.NDArray[np.object_]:
        """The entries of the rows axis, as ``str`` objects."""
        return self._names(self.rows_axis, self.selections[0])

    @property
    def columns(self) -> npt.NDArray[np.object_]:
        """The entries of the columns axis, as ``str`` objects."""
        return self._names(self.columns_axis, self.selections[1])

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
        axes = (self.rows_axis, self.columns_axis)
        costs = explaining.layout_costs(self.daf, axes, self.name, self._found)
        if self._is_damaged:
            costs = explaining.after_damage(costs)
        return explaining.explain(self, self._figures(), self._planned.first, costs)

    def _figures(self) -> explaining.Figures:
        return explaining.figures_of(self.shape, self.dtype, self._planned, self._gathered)

    def element_count(self) -> ElementCount:
        """Return how many elements the slice has, at most; nothing is read."""
        return self._figures().elements

    def row_counts(self) -> npt.NDArray[np.float64]:
        """Return about how many elements each row has; nothing is read."""
        return likely_row_counts(self._figures(), self._planned)

    def load(self, *, progress: Callable[[int], None] = lambda _: None) -> MatrixSlice:
        """Read the values now, reporting stored elements done; returns the slice itself."""
        self.values(progress=progress)
        return self

    @attended
    def values(self, *, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values as they were read: ``csr_array`` if sparse, else ``ndarray``.

        The slice keeps them: do not change them.  What the ``to_`` methods return is the caller's.
        """
        with self._lock:
            if self._gathered is None:
                self._gathered, layout = gather_first(self._planned, checked(progress))
                self._is_damaged = layout is not self._planned.first
                self._planned = PlannedLayouts([layout])
            return self._gathered

    @attended
    def _dense_values(self) -> Any:
        """Return the values of a sparse matrix as a new array, for a slice that nobody asks again.

        The slice does not keep them.
        """
        return read_first(self._planned, Layout.gather_dense)[0]

    def provenance(self) -> dict[str, Any]:
        """Return what files of this slice say of where it comes from; see `daf_query.provenance`.

        Predicates have the values of their parameters in them.  Of a block, ``block`` says which
        of the rows it has, from 0, the last excluded.
        """
        asked = self._asked or Asked(self.daf.name, None, None, is_described=True)
        described = asked.described((self.rows_axis, self.columns_axis), self.name, self.shape)
        return record_of({asked.schema: self.daf}, described)

    def _data_sets(self) -> DataSets:
        """Return what the slice is read from, by name."""
        return {self.daf.name: self.daf}

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
        file_format = export.check_format(path, format)
        refuse_own_files(self._data_sets(), path)
        budget = byte_count(block_bytes, keyword="block_bytes")
        is_anndata = file_format in export.ANNDATA
        if choice and not is_anndata:
            raise errors.InvalidInputError(
                f"cannot write {', '.join(choice)} to {str(path)!r}: {file_format} holds one "
                "matrix; write an .h5ad file"
            )
        has_place = is_anndata or file_format in export.DESCRIBED
        record = self._record(is_wanted=provenance) if has_place else None
        is_read = self._gathered is not None
        if is_read or not needs_blocks(self._figures(), file_format, max_bytes=budget):
            self.load(progress=progress)
            if is_anndata:
                _anndata.save_anndata(self, path, file_format, choice, record)
            else:
                export.save(self, path, file_format, record)
            return
        reading = Reading(max(budget, 1), progress)
        if is_anndata:
            with self.unchanged_axes():
                contents = self.contents(choice, record)
            save_anndata(contents, self, path, file_format, self.companion, reading)
        else:
            save_rows(self, path, file_format, record, reading)
        self._nnz = reading.nnz

    def contents(self, choice: AnnDataChoice, record: Record | None) -> Contents:
        """Return what an AnnData of the slice has beside its large matrices."""
        return _anndata.contents_of(self, choice, record)

    def labels(self) -> tuple[Labels, Labels]:
        """Return what rows and columns are called in tables and files."""
        rows, columns = self.rows, self.columns
        return Labels(self.rows_axis, rows, rows), Labels(self.columns_axis, columns, columns)

    def axis_names(self) -> tuple[AxisNames, AxisNames]:
        """Return the selected entries of both axes, each once."""
        return export.axis_names(self)

    def _record(self, *, is_wanted: bool | None) -> Record | None:
        """Return the provenance if that is wanted; None: as the session was connected."""
        if is_wanted is None:
            is_wanted = self._asked is not None and self._asked.is_described
        return self.provenance() if is_wanted else None

    def companion(self, matrix: AlignedMatrix) -> MatrixSlice:
        """Return the selected part of a matrix that comes along."""
        selections = _anndata.companion_selections(self, matrix)
        return slice_matrix(
            self.daf, matrix.rows_axis, matrix.columns_axis, matrix.name, *selections
        )

    def blocks(
        self, rows: int | None = None, *, max_bytes: ByteSize | None = None
    ) -> Iterator[MatrixSlice]:
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
            In the order of the rows.  Of a slice without rows there are none.

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
        spans = row_spans(self._figures(), self._planned, rows, max_bytes)
        return self._blocks(spans)

    def _blocks(self, spans: Iterator[Span]) -> Iterator[MatrixSlice]:
        planned = self._planned
        for span in spans:
            layouts = planned_rows(planned, span)
            block = self._block(span, layouts)
            yield block
            planned = without_damaged(planned, block._planned.first, layouts.first)  # noqa: SLF001 - of this class
            del block  # its values, before those of the next are read

    def of_rows(self, span: Span) -> MatrixSlice:
        """Return some of the rows, by their offsets; nothing is read."""
        return self._block(span, planned_rows(self._planned, span))

    def at(self, rows: Selection, columns: Selection, *, asked: Asked | None = None) -> MatrixSlice:
        """Return other entries of the same matrix; nothing is read."""
        layouts = planned_at(self._planned, rows, columns)
        axes, both = (self.rows_axis, self.columns_axis), (rows, columns)
        return MatrixSlice(self.daf, axes, self.name, both, layouts, self._current, asked=asked)

    def take_rows(self, offsets: npt.NDArray[np.int64]) -> MatrixSlice:
        """Return some of the rows, by their offsets, which ascend, each once; nothing is read."""
        asked = self._asked and self._asked.of_some_rows(self.shape[0], offsets.size)
        part = self.at(self.selections[0].take(offsets), self.selections[1], asked=asked)
        if self._gathered is not None:
            part._gathered = self._gathered[offsets]  # noqa: SLF001 - of this class
        return part

    def grid_facts(self, kind: BlockKind) -> GridFacts:
        """Return what the grid of its blocks as a Dask array follows from."""
        figures = self._figures()
        return matrix_facts(self, figures.csr_bytes if kind == "csr" else figures.dense_bytes)

    def block_reads(self, spans: Spans) -> tuple[Source, Iterator[Any]]:
        """Return what the tasks of a Dask array read of, and what each of them has of it."""
        return matrix_reads(self, spans, slice_matrix)

    def check_matrix(self) -> None:
        """Refuse a matrix that was replaced, if others are to open it again."""
        self._current.check_matrix(self.plan.stored)

    def _block(self, span: Span, layouts: PlannedLayouts) -> MatrixSlice:
        axes = (self.rows_axis, self.columns_axis)
        selections = (self.selections[0].part(span.start, span.stop), self.selections[1])
        asked = None if self._asked is None else self._asked.of_rows(span)
        block = MatrixSlice(
            self.daf, axes, self.name, selections, layouts, self._current, asked=asked
        )
        if self._gathered is not None:
            block._gathered = self._gathered[span.slice]
        return block

    def unchanged_axes(self) -> AbstractContextManager[None]:
        """Refuse what is read meanwhile by positions, if an axis was replaced or reordered."""
        return self._current.unchanged(self.plan.stored)

    @attended
    def _names(self, axis: str, selection: Selection) -> npt.NDArray[np.object_]:
        with self.unchanged_axes():
            names = self.daf.get_pa_vector(axis, "name").take(pa.array(selection.positions))
        objects: npt.NDArray[np.object_] = names.to_numpy(zero_copy_only=False)
        return objects.astype(object, copy=False)

    def _repr_html_(self) -> str:
        by = f"read from the layout by {self.plan.stored.info.columns_axis}"
        reading = f"{by} (about {self.plan.cost_bytes:,} bytes)"
        facts = {"of": self.daf.location, "reading": reading}
        return slice_page(self, self._gathered, facts, self._notes())


def _slice_again(
    origin: Origin,
    axes: tuple[str, str],
    name: str,
    selections: tuple[Selection, Selection],
    asked: Asked | None,
) -> MatrixSlice:
    return slice_matrix(origin.open(), *axes, name, *selections, asked=asked)
