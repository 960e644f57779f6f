"""Conversions of a slice in memory: numpy, scipy, Arrow, data frames, AnnData."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import Record
from daf_query.slice import _anndata
from daf_query.slice import _export as export
from daf_query.slice._anndata import ANNDATA_MAX_BYTES, AnnDataChoice, Choice
from daf_query.slice._dask_arrays import DaskArrays
from daf_query.slice._held import IF_UNHELD
from daf_query.slice._lazy_anndata import LazySlice, lazy_anndata
from daf_storage import errors
from daf_storage.spi import lazy_module

if TYPE_CHECKING:
    import anndata
    import pandas as pd
    import polars as pl
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


class Convertible(LazySlice, export.Slice, Protocol):
    """What conversions need of a slice."""

    _gathered: Any
    """Its values, if they were read."""

    def _dense_values(self) -> Any:
        """Return sparse values as a new dense array, for a slice that nobody asks again."""
        ...

    def _record(self, *, is_wanted: bool | None) -> Record | None:
        """Return the provenance if that is wanted; None: as the session was connected."""
        ...


class Conversions(DaskArrays):
    """The part of a slice that is about its conversions."""

    def to_scipy(self: Convertible) -> sp.csr_array[Any]:
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
        is_last = self._gathered is None and sys.getrefcount(self) == IF_UNHELD
        return sp.csr_array(self.values(), copy=not is_last)

    def to_numpy(self: Convertible) -> npt.NDArray[Any]:
        """Return a dense array of shape ``(rows, columns)``.

        Of a dense matrix it is a view of the mapped file where rows and columns are plain ranges,
        else a copy of the slice.
        """
        is_last = self._gathered is None and sys.getrefcount(self) == IF_UNHELD
        if is_last and self.is_sparse:
            return self._dense_values()  # type: ignore[no-any-return] # of any element type
        values = self.values()
        if sp.issparse(values):
            values = values.toarray()
        elif values.flags.writeable:  # not a view of the file: the caller may change what it gets
            values = values.copy()
        dense: npt.NDArray[Any] = values
        return dense

    def to_arrow(self: Convertible, *, provenance: bool = False) -> pa.Table:
        """Return the long form: a row for each non-zero element, row by row.

        Columns are the two axes (dictionaries of their entries) and ``value``.  For a matrix of
        an axis with itself they are ``AXIS`` and ``AXIS_2``.

        Parameters
        ----------
        provenance
            Whether the metadata of its schema say where the slice comes from.
        """
        return export.long_table(self, self._record(is_wanted=provenance))

    def to_pandas(self: Convertible) -> pd.DataFrame:
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

    def to_polars(self: Convertible) -> pl.DataFrame:
        """Return a DataFrame with the row entries first, then a column per column entry.

        The first column is named after the rows axis.
        """
        return export.wide_polars(self)

    def to_anndata(  # noqa: PLR0913 - what comes along, and how
        self: Convertible,
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
        record = self._record(is_wanted=provenance)
        if lazy:
            return lazy_anndata(self, choice, record, rows_per_block)
        if rows_per_block is not None:
            raise errors.InvalidInputError("rows_per_block= is for lazy=True alone")
        return _anndata.to_anndata(self, choice, record)
