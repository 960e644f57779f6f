"""A slice of a matrix, of one data set or of several as one: its forms in memory, and its files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._formats import SLICE_FORMATS
from daf_query._provenance import refuse_own_files
from daf_query._runs import attended
from daf_query.distributed import BlockKind
from daf_query.slice import _anndata
from daf_query.slice import _export as export
from daf_query.slice._anndata import ANNDATA_MAX_BYTES, AnnDataChoice, Choice
from daf_query.slice._base import SliceBase
from daf_query.slice._byte_sizes import ByteSize, byte_count
from daf_query.slice._dask import BlockSizes, dask_array
from daf_query.slice._explanation import SliceExplanation, explain
from daf_query.slice._files import ANNDATA, Reading, check_format, save_anndata, save_rows
from daf_query.slice._reading import BLOCK_BYTES
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage._terminal_text import visible_name
from daf_storage.data import arrow_of, plain_values
from daf_storage.display import (
    Markup,
    Preview,
    PreviewBudget,
    html_element,
    html_page,
    html_table,
    preview_cells,
    preview_of,
    shortened,
)

if TYPE_CHECKING:
    import anndata
    import dask.array as da
    import pandas as pd
    import polars as pl
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_SHOWN: Final = 10
_ROWS: Final = (64, 8, 1)
_MOST_VALUES: Final = 1 << 16


class _Tried:
    def count(self) -> int:
        """Return the count within a method."""
        return sys.getrefcount(self)


def _count_if_unheld() -> int:
    """Return the count within a method of an object that nobody holds; 0 if it does not tell."""
    held = _Tried()
    unheld = _Tried().count()
    return unheld if unheld < held.count() else 0


_IF_UNHELD: Final = _count_if_unheld()
"""What ``sys.getrefcount(self)`` returns in a method of an object that nobody else holds.

``db.matrix(...).to_scipy()`` leaves nobody who could ask the slice again, so that its values are
handed over, not copied: twice the memory for a moment otherwise, and half the time more.  From
Python 3.14 on the count does not tell, and everything counts as held.
"""


class MatrixSlice(SliceBase):
    """Some rows and columns of a matrix; `DafSession.matrix` makes one.

    The values are read when first asked for, once, from the stored layout that takes the least
    time; the rest of the matrix is not read.  If that layout is damaged, the other one is read,
    and a `DamagedLayoutWarning` says so.  A slice stays usable after its session is closed as
    far as its values have been read.

    Of several data sets as one, one axis is concatenated, the other aligned by name: `datasets`
    says of which data set each entry of the concatenated axis is, and tables have that as the
    column ``dataset``.  The parts are read in parallel, in blocks: the memory that this takes is
    the result, and a block for each thread.
    """

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
        return [companions] * bool(companions) + [str(each) for each in self.empty_selections]

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"of": self.whole.location}
        if self.of_several:
            shown = [f"{name} {count:,}" for name, count in self.counts.items()]
            more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
            facts[f"{len(shown):,} data sets"] = ", ".join(shown[:_SHOWN]) + more
        else:
            by = f"read from the layout by {self.plan.stored.info.columns_axis}"
            facts["reading"] = f"{by} (about {self.plan.cost_bytes:,} bytes)"
        return _page(self, facts, self._notes())

    @property
    def nnz(self) -> int:
        """Number of stored elements of a sparse slice, of non-zero ones of a dense slice."""
        if self._nnz is not None:  # it was saved in blocks
            return self._nnz
        values = self.values()
        return int(values.nnz) if sp.issparse(values) else int(np.count_nonzero(values))

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
        is_last = self._gathered is None and sys.getrefcount(self) == _IF_UNHELD
        return sp.csr_array(self.values(), copy=not is_last)

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return a dense array of shape ``(rows, columns)``.

        Of a dense matrix it is a view of the mapped file where rows and columns are plain ranges,
        else a copy of the slice.
        """
        values = self.values()
        if sp.issparse(values):
            values = values.toarray()
        elif values.flags.writeable:  # not a view of the file: the caller may change what it gets
            values = values.copy()
        dense: npt.NDArray[Any] = values
        return dense

    def to_arrow(self, *, provenance: bool = False) -> pa.Table:
        """Return the long form: a row for each non-zero element, row by row.

        Columns are the two axes (dictionaries of their entries) and ``value``.  For a matrix of
        an axis with itself they are ``AXIS`` and ``AXIS_2``.

        Parameters
        ----------
        provenance
            Whether the metadata of its schema say where the slice comes from.
        """
        return export.long_table(self, self.record(is_wanted=provenance))

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
        frame: pd.DataFrame = export.wide_pandas(self)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return a DataFrame with the row entries first, then a column per column entry.

        The first column is named after the rows axis.
        """
        return export.wide_polars(self)

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
        those to axes of their own ``obsm`` and ``varm``.  Of each, the selected entries are read
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
        choice: AnnDataChoice = {
            "layers": layers,
            "obsm": obsm,
            "varm": varm,
            "obsp": obsp,
            "varp": varp,
            "max_bytes": max_bytes,
        }
        record = self.record(is_wanted=provenance)
        if lazy:
            return _anndata.lazy_anndata(self, choice, record, rows_per_block)
        if rows_per_block is not None:
            raise errors.InvalidInputError("rows_per_block= is for lazy=True alone")
        return _anndata.to_anndata(self, choice, record)

    def to_dask(
        self,
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
        budget = byte_count(block_bytes, keyword="block_bytes")
        if choice and file_format not in ANNDATA:
            raise errors.InvalidInputError(
                f"cannot write {', '.join(choice)} to {str(path)!r}: {file_format} holds one "
                "matrix; write an .h5ad file"
            )
        has_place = SLICE_FORMATS[file_format].is_described
        record = self.record(is_wanted=provenance) if has_place else None
        reading = Reading(max(budget, 1), progress)
        if file_format in ANNDATA:
            save_anndata(self, path, file_format, choice, record, reading)
        else:
            save_rows(self, path, file_format, record, reading)
        self._nnz = reading.nnz


def _page(part: SliceBase, facts: Mapping[str, object], notes: Sequence[str] = ()) -> Markup:
    """Return the page of a slice.

    Parameters
    ----------
    facts
        Rows of the table, by their titles.
    notes
        Lines below it.
    """
    budget = PreviewBudget()
    stored = f"{'sparse' if part.is_sparse else 'dense'} {part.dtype}"
    size = f"{part.shape[0]:,} {part.rows_axis} x {part.shape[1]:,} {part.columns_axis}"
    seen = _values(part, budget)
    what = "non-zero values" if part.is_sparse else "values"
    rows: list[tuple[object, ...]] = [("stored", stored)]
    rows += [(title, fact) for title, fact in facts.items() if fact]
    heading = html_element("div", html_element("strong", shortened(part.name)), f": {size}")
    preview, note = seen if isinstance(seen, tuple) else (seen, "")
    chart, figures, _ = preview_cells(preview)
    cells = html_table((), [(what, chart, figures, note)]) if preview else Markup()
    lines = [html_element("div", note, class_="note") for note in notes]
    return html_page(heading, html_table((), rows), cells, *lines)


def _values(part: SliceBase, budget: PreviewBudget) -> tuple[Preview, str] | str:
    """Return what values of some rows look like; nothing large is read for that."""
    height = part.shape[0]
    if not height or not part.shape[1]:
        return ""
    if part.loaded is not None:
        return _look(part.loaded, height, height)
    for most in _ROWS:
        offsets = np.unique(np.linspace(0, height - 1, most).astype(np.int64))
        try:
            some = part.take_rows(offsets)
            cost = explain(some.whole)
            if cost.requests is not None:
                return "on a server, not read yet"
            if budget.spend(max(cost.read_bytes, cost.decoded_bytes, cost.result_bytes)):
                return _look(some.values(), offsets.size, height)
        except errors.DafError as error:  # such as a closed session: the rest is shown all the same
            return f"cannot be read: {shortened(error, 160)}"
    return "not read yet; too much to look at quickly"


def _look(values: Any, looked_at: int, height: int) -> tuple[Preview, str]:
    elements = values.data if sp.issparse(values) else np.asarray(values).reshape(-1)
    count = elements.size
    if count > _MOST_VALUES:
        elements = elements[:: -(-count // _MOST_VALUES)]
    arrow = plain_values(elements, what="values") if elements.dtype == object else elements
    arrow = arrow_of(arrow) if isinstance(arrow, np.ndarray) else arrow
    preview = preview_of(arrow, total=elements.size)
    note = "" if looked_at == height else f"of {looked_at:,} of {height:,} rows"
    if count > elements.size:
        note = f"a sample of {elements.size:,} of {count:,}"
    return preview, note
