"""A slice of a matrix of several data sets, and its conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._cancellation import checked
from daf_query._provenance import DataSets, Record, record_of
from daf_query._runs import attended
from daf_query.collection._anndata import (
    collection_contents,
    find_collection_companions,
)
from daf_query.collection._block_reads import collection_facts, collection_reads
from daf_query.collection._explanation import CollectionExplanation, explain
from daf_query.collection._labels import (
    DuplicateNamesWarning,
    datasets_of,
    labels_of,
    names_of,
)
from daf_query.collection._members import RowRanges, Whole
from daf_query.collection._reading import figures_of, read_whole, row_sizes, spans_of
from daf_query.dask_blocks import BlockKind, Source
from daf_query.matrix import AlignedAxis, Selection, SlicePlan
from daf_query.slice import (
    BLOCK_BYTES,
    AnnDataChoice,
    Asked,
    AxisNames,
    ByteSize,
    Contents,
    Figures,
    GridFacts,
    Labels,
    MatrixSlice,
    Spans,
    byte_count,
    check_budget,
    select_companions,
    slice_page,
)
from daf_storage import DafReader, errors
from daf_storage.spi import AlignedMatrix, ForkLock, Span, visible_name

_SHOWN: Final = 10

__all__ = ["CollectionSlice", "DuplicateNamesWarning"]


class CollectionSlice(MatrixSlice):
    """Some rows and columns of a matrix of several data sets; `DafSession.matrix` makes one.

    One axis is concatenated, the other aligned by name.  It is a `MatrixSlice` in all that it
    returns; `datasets` says of which data set each entry of the concatenated axis is, and tables
    have that as the column ``dataset``.  It has no `daf` and no `plan`, for there are several.

    The parts are read in parallel, in blocks: the memory that this takes is the result, and a block
    for each thread.
    """

    def __init__(
        self, whole: Whole, readers: Mapping[str, DafReader], aligned: AlignedAxis, asked: Asked
    ) -> None:
        self.rows_axis, self.columns_axis = whole.rows.axis, whole.columns.axis
        self.name = whole.name
        """The name of the matrix."""
        self.whole = whole
        """The part of each data set, and where it goes."""
        self.selections = (_selection(whole.rows.positions), _selection(whole.columns.positions))
        """The selected positions: along the concatenated axis, in which those of one data set come
        after those of another, and along the aligned one."""
        self._readers = dict(readers)
        self._aligned = aligned
        self._asked: Asked = asked
        self._lock = ForkLock()
        self._gathered: Any = None
        self._nnz: int | None = None
        self._row_ranges: RowRanges | None = None
        self._labels: tuple[Labels, Labels] | None = None

    def __reduce__(self) -> Any:
        """Pickle what was chosen, not the values; the other process opens the data sets again."""
        origins = {name: daf.require_origin() for name, daf in self._readers.items()}
        return _open_again, (self.whole, origins, self._aligned.description, self._asked)

    @property
    def daf(self) -> NoReturn:  # type: ignore[override] # there are several
        """Refuse: there are several data sets."""
        raise self._refusal("has several data sets: see datasets")

    @property
    def plan(self) -> SlicePlan:
        """Refuse: each data set has a plan of its own."""
        raise self._refusal("has a plan for each data set: see explain()")

    def _refusal(self, what: str) -> errors.InvalidInputError:
        return errors.InvalidInputError(
            f"{self.whole.location}: this slice of {self.name!r} {what}; connect the data set that "
            "you want"
        )

    def __repr__(self) -> str:
        storage = "sparse" if self.is_sparse else "dense"
        count = len(self.members)
        summary = (
            f"CollectionSlice({self.name!r}, {self.shape[0]:,} {self.rows_axis} x "
            f"{self.shape[1]:,} {self.columns_axis}, {storage} {self.dtype}, of "
            f"{count:,} data set{'s' * (count != 1)})"
        )
        return "\n  ".join(map(visible_name, [summary, *self.empty_selections]))

    @property
    def members(self) -> dict[str, MatrixSlice]:
        """The part of each data set of which something is selected, by its name."""
        return {member.name: member.part for member in self.whole.members}

    @property
    def counts(self) -> dict[str, int]:
        """How many entries of the concatenated axis are of each data set."""
        number = 0 if self.whole.rows_are_concatenated else 1
        return {name: part.shape[number] for name, part in self.members.items()}

    @property
    def is_sparse(self) -> bool:
        """Whether the values are sparse: those of some data set are."""
        return self.whole.is_sparse

    @property
    def dtype(self) -> Any:
        """The numpy dtype that holds the values of all."""
        return self.whole.dtype

    @property
    def datasets(self) -> npt.NDArray[np.object_]:
        """The data set of each entry of the concatenated axis, as ``str`` objects."""
        decoded = self._datasets().dictionary_decode()
        objects: npt.NDArray[np.object_] = decoded.to_numpy(zero_copy_only=False)
        return objects.astype(object, copy=False)

    @property
    def rows(self) -> npt.NDArray[np.object_]:
        """The entries of the rows axis, as ``str`` objects."""
        rows: npt.NDArray[np.object_] = self.labels()[0].names
        return rows

    @property
    def columns(self) -> npt.NDArray[np.object_]:
        """The entries of the columns axis, as ``str`` objects."""
        columns: npt.NDArray[np.object_] = self.labels()[1].names
        return columns

    @attended
    def explain(self) -> CollectionExplanation:  # type: ignore[override] # as much as fits several
        """Return what the slice will read, and how much memory it will take, in all and of each.

        No values are read.
        """
        return explain(self.whole, self._companions())

    def check_budget(self, max_bytes: int) -> None:
        """Refuse a result that may take more memory.

        Raises
        ------
        BudgetError
            It may.
        """
        check_budget(self.explain(), max_bytes)

    @attended
    def values(self, *, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Return the values as they were read: ``csr_array`` if sparse, else ``ndarray``.

        The slice keeps them: do not change them.  What the ``to_`` methods return is the caller's.
        """
        with self._lock:
            if self._gathered is None:
                self._gathered = read_whole(self.whole, checked(progress))
            return self._gathered

    def _dense_values(self) -> Any:
        return self.values().toarray()

    def provenance(self) -> dict[str, Any]:
        """Return what files of this slice say of where it comes from; see `daf_query.provenance`.

        The data sets have a fingerprint each.
        """
        whole, asked = self.whole, self._asked
        described = asked.described((self.rows_axis, self.columns_axis), self.name, self.shape)
        fill = {} if not whole.missing else {"fill_value": _plain(whole.fill)}
        along = whole.rows.axis if whole.rows_are_concatenated else whole.columns.axis
        described = {**described, "along": along, "join": whole.join, **fill}
        return record_of({asked.schema: self._readers}, described)

    def _data_sets(self) -> DataSets:
        return {self.name: self._readers}

    def contents(self, choice: AnnDataChoice, record: Record | None) -> Contents:
        """Return what an AnnData of the slice has beside its large matrices."""
        return collection_contents(
            self.whole, self.labels(), self._datasets(), self._aligned, choice, record
        )

    @attended
    def labels(self) -> tuple[Labels, Labels]:
        """Return what rows and columns are called in tables and files."""
        with self._lock:
            if self._labels is None:
                self._labels = self._read_labels()
            return self._labels

    def _read_labels(self) -> tuple[Labels, Labels]:
        whole = self.whole
        labels = []
        for side, are_rows in ((whole.rows, True), (whole.columns, False)):
            if side.names is None:
                places = [m.rows if are_rows else m.columns for m in whole.members]
                names = names_of(whole.members, places, side.positions.size, are_rows=are_rows)
                labels.append(labels_of(side.axis, names, self._datasets()))
            else:
                names = side.names.to_numpy(zero_copy_only=False).astype(object, copy=False)
                labels.append(Labels(side.axis, names, names))
        return labels[0], labels[1]

    def axis_names(self) -> tuple[AxisNames, AxisNames]:
        """Return the selected entries of both axes, each once."""
        both = []
        labels = self.labels()
        for number, side in enumerate((self.whole.rows, self.whole.columns)):
            unique, first = np.unique(side.positions, return_index=True)
            names = pa.array(labels[number].names, pa.string()).take(pa.array(first))
            datasets = self._datasets().take(pa.array(first)) if side.names is None else None
            both.append(AxisNames(unique, names, datasets))
        return both[0], both[1]

    def of_rows(self, span: Span) -> CollectionSlice:
        """Return some of the rows, by their offsets; nothing is read."""
        block = CollectionSlice(
            self.whole.of_rows(span), self._readers, self._aligned, self._asked.of_rows(span)
        )
        if self._gathered is not None:
            block._gathered = self._gathered[span.slice]
        return block

    def take_rows(self, offsets: npt.NDArray[np.int64]) -> CollectionSlice:
        """Return some of the rows, by their offsets, which ascend, each once; nothing is read."""
        if self._row_ranges is None:
            self._row_ranges = RowRanges.of(self.whole)
        whole = self.whole.take_rows(offsets, self._row_ranges)
        asked = self._asked.of_some_rows(self.shape[0], offsets.size)
        part = CollectionSlice(whole, self._readers, self._aligned, asked)
        if self._gathered is not None:
            part._gathered = self._gathered[offsets]
        return part

    def blocks(
        self, rows: int | None = None, *, max_bytes: ByteSize | None = None
    ) -> Iterator[MatrixSlice]:
        """Return the slice in blocks of rows, each of which reads its own values.

        As of one data set: see `MatrixSlice.blocks`.
        """
        if rows is not None or not self.is_sparse:
            return super().blocks(rows, max_bytes=max_bytes)
        budget = byte_count(BLOCK_BYTES if max_bytes is None else max_bytes, keyword="max_bytes")
        if budget == 0:
            raise errors.InvalidInputError("max_bytes=0 has no room for a row; pass a larger one")
        return self._blocks(spans_of(row_sizes(self.whole, self._figures()), budget))

    def _blocks(self, spans: Iterator[Span]) -> Iterator[MatrixSlice]:
        return (self.of_rows(span) for span in spans)

    def grid_facts(self, kind: BlockKind) -> GridFacts:
        """Return what the grid of its blocks as a Dask array follows from."""
        figures = self._figures()
        size_bytes = figures.csr_bytes if kind == "csr" else figures.dense_bytes
        return collection_facts(self.whole, size_bytes)

    def block_reads(self, spans: Spans) -> tuple[Source, Iterator[Any]]:
        """Return what the tasks of a Dask array read of, and what each of them has of it."""
        return collection_reads(self.whole, spans)

    def unchanged_axes(self) -> AbstractContextManager[None]:
        """Refuse what is read meanwhile by positions, if an axis was replaced or reordered."""
        return self._unchanged()

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        with ExitStack() as stack:
            for member in self.whole.members:
                stack.enter_context(member.part.unchanged_axes())
            yield

    def _figures(self) -> Figures:
        return figures_of(self.whole)

    @property
    def _planned(self) -> tuple[Any, ...]:  # type: ignore[override] # those of each are in its part
        return ()

    def _datasets(self) -> Any:
        whole = self.whole
        is_rows = whole.rows_are_concatenated
        places = [member.rows if is_rows else member.columns for member in whole.members]
        return datasets_of(whole.members, places, whole.shape[0 if is_rows else 1])

    def _companions(self) -> tuple[Any, ...]:
        try:
            companions = find_collection_companions(self.whole).companions
        except errors.FormatError:  # one that cannot be read does not come along
            return ()
        return select_companions(self.whole.location, companions, {}).chosen

    def companion(self, matrix: AlignedMatrix) -> MatrixSlice:
        """Return the selected part of a matrix that comes along."""
        whole, _ = find_collection_companions(self.whole).slice_of(self.whole, matrix)
        return CollectionSlice(whole, self._readers, self._aligned, self._asked)

    def _repr_html_(self) -> str:
        count = len(self.counts)
        counts = ", ".join(f"{name} {n:,}" for name, n in list(self.counts.items())[:_SHOWN])
        more = f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
        notes = [str(each) for each in self.empty_selections]
        facts = {"of": self.whole.location, f"{count:,} data sets": counts + more}
        return slice_page(self, self._gathered, facts, notes)


def _selection(positions: npt.NDArray[np.int64]) -> Selection:
    return Selection(positions, is_all=False)


def _plain(fill: Any) -> Any:
    """Return a fill value as JSON has it: NaN as a string."""
    if isinstance(fill, np.generic):
        fill = fill.item()
    return "NaN" if isinstance(fill, float) and math.isnan(fill) else fill


def _open_again(
    whole: Whole,
    origins: Mapping[str, Any],
    description: tuple[Any, ...],
    asked: Asked,
) -> CollectionSlice:
    readers = {name: origin.open() for name, origin in origins.items()}
    return CollectionSlice(whole, readers, AlignedAxis.described(readers, *description), asked)
