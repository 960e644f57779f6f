"""The part of a slice that its conversions are made of: entries, values, blocks, provenance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from daf_query._provenance import Record, record_of
from daf_query._runs import attended, checked
from daf_query.matrix import Selection, SlicePlan
from daf_query.slice._byte_sizes import ByteSize
from daf_query.slice._labels import datasets_of, names_of, objects_of
from daf_query.slice._part import Part
from daf_query.slice._reading import Figures, figures_of, read_whole, row_spans
from daf_query.slice._selector import EmptySelection, Written
from daf_query.slice._whole import Whole
from daf_storage import DafReader, errors
from daf_storage.base import ForkLock, Span


@dataclass(frozen=True, slots=True)
class Asked:
    """Which entries of a data set were asked for, and whether what leaves says so."""

    schema: str
    """What the session calls the data set."""
    rows: Written
    columns: Written
    is_described: bool
    """Whether files and AnnData say where they come from, unless a call says otherwise."""
    empty: tuple[EmptySelection, ...] = ()
    """The predicates that select nothing."""
    block: Span | None = None
    """Which of the chosen rows, if not all: those of a block."""

    def of_rows(self, span: Span) -> Asked:
        """Return the same for some of these rows.

        >>> whole = Asked("pbmc", "age > 60", None, is_described=True)
        >>> whole.of_rows(Span(10, 20)).of_rows(Span(2, 4)).block
        Span(start=12, stop=14)
        """
        first = 0 if self.block is None else self.block.start
        return replace(self, block=Span(first + span.start, first + span.stop))

    def of_some_rows(self, selected: int, count: int) -> Asked:
        """Return the same for some of these rows, of which only the number is described."""
        return replace(self, rows=f"{count:,} of {selected:,}, listed", block=None)

    def described(self, axes: tuple[str, str], name: str, shape: tuple[int, int]) -> dict[str, Any]:
        """Return what a provenance says of a slice of a matrix over two axes."""
        block = {} if self.block is None else {"block": [self.block.start, self.block.stop]}
        return {
            "matrix": {"name": name, "rows_axis": axes[0], "columns_axis": axes[1]},
            "rows": self.rows,
            **block,
            "columns": self.columns,
            "shape": list(shape),
        }


class SliceBase:
    """The part of a slice that its conversions are made of."""

    def __init__(self, whole: Whole, asked: Asked | None = None) -> None:
        self.rows_axis, self.columns_axis = whole.rows.axis, whole.columns.axis
        self.name = whole.name
        """The name of the matrix."""
        self.whole = whole
        """The part of each data set, and where it goes."""
        self._asked = asked
        self._lock = ForkLock()
        self._gathered: Any = None
        self._nnz: int | None = None

    def __reduce__(self) -> Any:
        """Pickle what was chosen, not the values; the other process opens the data again."""
        return type(self), (self.whole, self._asked)

    @property
    def of_several(self) -> bool:
        """Whether it is of several data sets as one, though perhaps of one entry of one of them."""
        return self.whole.joined is not None

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
        return self.whole.members[0].part

    @property
    def members(self) -> dict[str, Self]:
        """The slice of each data set of which something is selected, by its name."""
        return {each.name: type(self)(Whole.of(each.part)) for each in self.whole.members}

    @property
    def counts(self) -> dict[str, int]:
        """How many of the rows are of each data set; of the columns, if these are concatenated."""
        number = 0 if self.whole.rows_are_concatenated else 1
        return {member.name: member.part.shape[number] for member in self.whole.members}

    @property
    def datasets(self) -> npt.NDArray[np.object_]:
        """The data set of each entry of the concatenated axis, as ``str`` objects."""
        return objects_of(datasets_of(self.whole).dictionary_decode())

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.whole.shape

    @property
    def selections(self) -> tuple[Selection, Selection]:
        """The selected rows, and the selected columns."""
        return self.whole.rows.selection, self.whole.columns.selection

    @property
    def empty_selections(self) -> tuple[EmptySelection, ...]:
        """The predicates of ``rows=`` and ``columns=`` that select nothing."""
        return () if self._asked is None else self._asked.empty

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
        return objects_of(names_of(self.whole, 0))

    @property
    @attended
    def columns(self) -> npt.NDArray[np.object_]:
        """The entries of the columns axis, as ``str`` objects."""
        return objects_of(names_of(self.whole, 1))

    @attended
    def values(self, *, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values as they were read: ``csr_array`` if sparse, else ``ndarray``.

        The slice keeps them: do not change them.  What the ``to_`` methods return is the caller's.
        """
        with self._lock:
            if self._gathered is None:
                self._gathered = read_whole(self.whole, checked(progress))
            return self._gathered

    @property
    def loaded(self) -> Any:
        """The values if they were read, else None."""
        return self._gathered

    def load(self, *, progress: Callable[[int], None] = lambda _: None) -> Self:
        """Read the values now, reporting stored elements done; returns the slice itself."""
        self.values(progress=progress)
        return self

    def figures(self) -> Figures:
        """Return how large the values are, at most; nothing is read."""
        return figures_of(self.whole, self._gathered)

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
        return map(self.of_rows, row_spans(self.whole, self.figures(), rows, max_bytes))

    def of_rows(self, span: Span) -> Self:
        """Return some of the rows, by their offsets; nothing is read."""
        asked = self._asked and self._asked.of_rows(span)
        return self._cut(self.whole.of_rows(span), asked, span.slice)

    def take_rows(self, offsets: npt.NDArray[np.int64]) -> Self:
        """Return some of the rows, by their offsets, which ascend, each once; nothing is read."""
        asked = self._asked and self._asked.of_some_rows(self.shape[0], offsets.size)
        return self._cut(self.whole.take_rows(offsets), asked, offsets)

    def _cut(self, whole: Whole, asked: Asked | None, rows: Any) -> Self:
        cut = type(self)(whole, asked)
        if self._gathered is not None:
            cut._gathered = self._gathered[rows]  # noqa: SLF001 - of this class
        return cut

    @contextmanager
    def unchanged_axes(self) -> Iterator[None]:
        """Refuse what is read meanwhile by positions, if an axis was replaced or reordered."""
        with ExitStack() as stack:
            for member in self.whole.members:
                stack.enter_context(member.part.unchanged_axes())
            yield

    def provenance(self) -> dict[str, Any]:
        """Return what files of this slice say of where it comes from; see `daf_query.provenance`.

        Predicates have the values of their parameters in them.  Of a block, ``block`` says which
        of the rows it has, from 0, the last excluded.  Several data sets have a fingerprint each.
        """
        whole, joined = self.whole, self.whole.joined
        data_sets = self.data_sets()
        asked = self._asked or Asked(next(iter(data_sets)), None, None, is_described=True)
        described = asked.described((self.rows_axis, self.columns_axis), self.name, self.shape)
        if joined is not None:
            along = whole.sides[0 if whole.rows_are_concatenated else 1].axis
            described |= {"along": along, "join": joined.aligned.join}
            if whole.missing_count:
                described["fill_value"] = _plain(whole.fill)
        return record_of({asked.schema: next(iter(data_sets.values()))}, described)

    def record(self, *, is_wanted: bool | None) -> Record | None:
        """Return the provenance if that is wanted; None: as the session was connected."""
        if is_wanted is None:
            is_wanted = self._asked is not None and self._asked.is_described
        return self.provenance() if is_wanted else None

    def data_sets(self) -> Mapping[str, DafReader | Mapping[str, DafReader]]:
        """Return what the slice is read from, by name."""
        joined = self.whole.joined
        return {self.daf.name: self.daf} if joined is None else {self.name: joined.readers}


def _plain(fill: Any) -> Any:
    """Return a fill value as JSON has it: NaN as a string."""
    if isinstance(fill, np.generic):
        fill = fill.item()
    return "NaN" if isinstance(fill, float) and math.isnan(fill) else fill
