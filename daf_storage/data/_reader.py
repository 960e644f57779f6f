"""The reader of a Daf data set: every rule common to the formats, once.

`DafReader` answers questions about scalars, axes, vectors and matrices of any `Tree`.  It reads
metadata when asked and data when needed, keeps nothing open, and hands out views of mapped files
that stay valid as long as they are referred to.  `PropertyReader` finds what is stored and reads
vectors; here are whole matrices, tables of pandas, positions of entries, and summaries.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import sp
from daf_storage.base import VectorInfo, pandas
from daf_storage.data import _layout as layout
from daf_storage.data import _summary as summaries
from daf_storage.data._coercion import arrow_strings, given_matrix
from daf_storage.data._entries import positions_among
from daf_storage.data._layout import Relation, StoredMatrix, StoredVector, relations_of
from daf_storage.data._property_reader import (
    REQUIRED,
    PropertyReader,
    integer_positions,
    numpy_matrix,
    objects,
    ordered,
    scipy_of,
)
from daf_storage.display import PreviewBudget, html_page
from daf_storage.trees import Remarked

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Origin:
    """How a data set can be opened again for reading, in this process or another."""

    open_again: Callable[[str], DafReader]
    """Opens a path for reading."""
    path: str
    """An absolute path, or a URL."""
    name: str
    """The name of the data set."""
    inode: tuple[int, int] | None = None
    """That of the file which was opened here; None of what is no file, and elsewhere."""

    def open(self) -> DafReader:
        """Open it again, by the same name."""
        reader = self.open_again(self.path)
        reader.rename(self.name)
        return reader


def is_in_place(daf: DafReader) -> bool:
    """Return whether a data set is the file of another format, which is read and never written."""
    return isinstance(daf.tree, Remarked)


def writing_remedy(daf: DafReader) -> str:
    """Return what to do in order to write, where a data set is open for reading."""
    if is_in_place(daf):
        return (
            "it is read in place and never written; write beside it: "
            f'connect({daf.location!r}, overlay="mine.daf.zarr"), or import it into a data set of '
            f"its own: daf import {errors.in_shell(daf.location)} OUT.daf.zarr"
        )
    return daf.how_to_write


def check_reader(value: object, function: str) -> None:
    """Refuse a path, or anything else, where an open data set is asked for."""
    if isinstance(value, DafReader):
        return
    is_path = isinstance(value, str | os.PathLike)
    raise errors.InvalidInputError(
        f"{function} takes an open data set, not {value!r}; "
        + (f"pass open_daf({str(value)!r})" if is_path else "open one with open_daf")
    )


class DafReader(PropertyReader):
    """A Daf data set that can be read.

    Do not construct it; `open_daf`, `ZarrDaf` and `MemoryDaf` return one (or a writer, which can
    do all of this too).  It is safe to use from several threads.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> daf.get_np_vector("cell", "age").tolist()
    [30, 60]
    """

    how_to_write: ClassVar[str] = (
        "it was opened for reading; open it with mode 'r+' to change it: open_daf(path, 'r+'), or "
        "connect(path, mode='r+')"
    )
    """What messages advise where it was to be written."""

    origin: Origin | None = None
    """How it can be opened again; None if it is in memory."""

    def __reduce__(self) -> tuple[Callable[[Origin], DafReader], tuple[Origin]]:
        """Pickle the path and the name; whoever unpickles it opens the path again."""
        if self.is_writable:
            raise errors.InvalidInputError(
                f"{self.location}: a data set that is open for writing cannot be pickled, since "
                "one process alone may write; pickle a reader of it, open_daf(path)"
            )
        return Origin.open, (self.require_origin(),)

    def require_origin(self) -> Origin:
        """Return how it can be opened again.

        Raises
        ------
        InvalidInputError
            It is in memory, or was closed.
        """
        self._check_open()
        if self.origin is None:
            raise errors.InvalidInputError(
                f"{self.location}: no path leads to this data set, so it cannot be pickled; "
                "copy_all() it to a path, and open that"
            )
        return self.origin

    def axis_entries(
        self, axis: str, indices: Any = None, *, allow_empty: bool = False
    ) -> npt.NDArray[np.object_]:
        """Return the entries of an axis as an array of ``str`` objects.

        ``get_pa_vector(axis, "name")`` is the fast way for large axes.

        Parameters
        ----------
        indices
            The 0-based positions of the entries to return, in any order; by default all.
        allow_empty
            Negative positions, which `axis_indices` gives for "no entry", become empty strings
            instead of an error.

        Raises
        ------
        EntryNotFoundError
            A position is outside of the axis.
        InvalidInputError
            They are not integers; a mask is not taken for positions 0 and 1.
        """
        own = self._entries(axis)
        if indices is None:
            return objects(own)
        positions = integer_positions(indices, f"{self.location}: indices= of axis {axis!r}")
        is_empty = positions < 0
        is_outside = (positions >= len(own)) | (is_empty & (not allow_empty))
        if bool(is_outside.any()):
            raise errors.EntryNotFoundError(
                f"{self.location}: axis {axis!r} has no entry at position "
                f"{int(positions[is_outside][0])}; it has {len(own):,} entries, counted from 0"
            )
        return objects(own.take(pa.array(positions, mask=is_empty)).fill_null(""))

    def axis_dict(self, axis: str) -> dict[str, int]:
        """Return the 0-based position of each entry of an axis.

        It has a Python object per entry; `axis_indices` looks up many entries without.
        """
        return {entry: i for i, entry in enumerate(self._entries(axis).to_pylist())}

    def axis_indices(
        self,
        axis: str,
        entries: Iterable[str],
        *,
        allow_empty: bool = False,
        allow_missing: bool = False,
    ) -> npt.NDArray[np.int64]:
        """Return the 0-based positions of entries, in the order given; duplicates are kept.

        Parameters
        ----------
        allow_empty
            Empty strings, which by convention mean "no entry", become -1 instead of an error.
        allow_missing
            So do other strings that are not entries of the axis.

        Raises
        ------
        EntryNotFoundError
            A string is not an entry of the axis.
        """
        own = self._entries(axis)
        requested = arrow_strings(entries)
        requested = requested if requested.type == own.type else requested.cast(own.type)
        positions = positions_among(requested, own)
        is_missing = positions < 0
        if is_missing.any():
            missing = requested.filter(pa.array(is_missing)).to_pylist()
            bad = [e for e in missing if not (allow_empty if e == "" else allow_missing)]
            if bad:
                raise errors.entry_not_found(
                    self.location, axis, str(bad[0]), own.slice(0, 20_000).to_pylist()
                )
        return positions

    def get_pd_vector(self, axis: str, name: str) -> pd.Series[Any]:
        """Return a vector as a pandas Series whose index is the axis entries."""
        values = self.get_np_vector(axis, name)
        series: pd.Series[Any] = pandas().Series(values, index=self.axis_entries(axis), name=name)
        return series

    def get_np_matrix(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        relayout: bool = True,
        default: Any = REQUIRED,
    ) -> Any:
        """Return a whole matrix.

        Returns
        -------
        numpy.ndarray or scipy.sparse.csc_array or scipy.sparse.csr_array
            Shape ``(rows, columns)``.  Dense: a read-only view of the mapped file, Fortran order
            where stored in this orientation, C order where only the transpose is stored.  Sparse:
            CSC, or CSR where only the transpose is stored; values are views, indices are
            copied since they count from 0 here and from 1 in the file.  A matrix of an axis with
            itself that was imported from AnnData is stored by rows: C order, or CSR.

        Raises
        ------
        MatrixNotFoundError
            There is none, and no ``default``; with ``relayout=False`` the transpose does not count.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> daf.get_np_matrix("gene", "cell", "UMIs").tolist()
        [[0, 2, 4], [1, 3, 5]]
        >>> daf.get_np_matrix("cell", "gene", "counts", default=None) is None
        True
        """
        if default is not REQUIRED and not self.has_matrix(
            rows_axis, columns_axis, name, relayout=relayout
        ):
            if default is None:
                return None
            rows, columns = self.given_axis(rows_axis), self.given_axis(columns_axis)
            called = "the default for matrix"
            return numpy_matrix(given_matrix(rows, columns, name, default, called=called))
        if not relayout:
            return self._matrix_values(self.open_matrix(rows_axis, columns_axis, name))
        stored = self.open_orientations(rows_axis, columns_axis, name)[0]
        is_flipped = stored.info.rows_axis != rows_axis
        return self._matrix_values(stored).T if is_flipped else self._matrix_values(stored)

    def get_pd_matrix(self, rows_axis: str, columns_axis: str, name: str) -> pd.DataFrame:
        """Return a whole matrix as a pandas DataFrame with both axes' entries as labels.

        A sparse matrix becomes a frame of pandas' sparse columns.
        """
        values = self.get_np_matrix(rows_axis, columns_axis, name)
        labels = {"index": self.axis_entries(rows_axis), "columns": self.axis_entries(columns_axis)}
        frame: pd.DataFrame
        if sp.issparse(values):
            frame = pandas().DataFrame.sparse.from_spmatrix(values, **labels)
        else:
            frame = pandas().DataFrame(values, **labels)
        return frame

    def _matrix_values(self, stored: StoredMatrix) -> Any:
        if stored.info.is_sparse:
            return scipy_of(ordered(stored))
        array = stored.dense()
        if array.info.storage_type.is_string:
            values: Any = objects(array.read_strings()).reshape(array.info.shape)
        else:
            values = array.read()
        return values if stored.info.is_row_major else values.T

    def description(self) -> str:
        """Return a readable summary: axes, vectors, matrices and scalars.  Reads metadata only."""
        return summaries.as_text(self.summary())

    def summary(self) -> summaries.DafSummary:
        """Return what the data set holds, as a value.  Reads metadata only."""
        return summaries.summarise(self)

    def _repr_html_(self) -> str:
        return html_page(summaries.data_set_section(self.summary(), self, PreviewBudget()))

    def relations(self) -> list[Relation]:
        """Return the vectors whose values are entries of an axis.  Reads metadata only.

        A vector whose metadata are broken is left out; `summary` and `verify` name it.

        Returns
        -------
        list of Relation
            In alphabetical order.  Values are not looked at: `verify` tells of those that are no
            entries.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("type", ["B", "T"])
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.set_vector("cell", "type.manual", ["T", ""])
        >>> daf.relations()
        [Relation(axis='cell', vector='type.manual', to_axis='type', source='name')]
        """
        infos: list[VectorInfo] = []
        for axis in self.axes_set():
            with suppress(errors.DafError):
                found = (info for _, info in self.vector_infos(axis))
                infos += [info for info in found if isinstance(info, VectorInfo)]
        return relations_of(self.axes_set(), infos)

    def read_only(self) -> DafReader:
        """Return an object that reads the same data and cannot change it; a reader returns itself.

        It is called ``NAME.read_only`` and sees what is written through the other one.
        """
        return self


def stored_properties(
    daf: DafReader, axes: Collection[str] | None = None
) -> Iterator[tuple[str, StoredVector | StoredMatrix]]:
    """Yield vectors, and matrices in each stored orientation, by their paths, pinned.

    Parameters
    ----------
    axes
        Only what has one of these axes; by default all.
    """
    every = sorted(daf.axes_set())
    for axis in every if axes is None else axes:
        for name in sorted(daf.vectors_set(axis)):
            yield layout.vector_path(axis, name), daf.open_vector(axis, name)
    for pair in itertools.product(every, every):
        if axes is None or not set(axes).isdisjoint(pair):
            for name in sorted(daf.matrices_set(*pair, relayout=False)):
                yield layout.matrix_path(*pair, name), daf.open_matrix(*pair, name)
