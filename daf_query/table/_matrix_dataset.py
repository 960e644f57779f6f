"""A matrix as a table: its long form, a row for each element, scanned in blocks.

What a filter says of one axis alone is evaluated on its entries, once each, and becomes a
selection: of the majors of a layout only the selected ones are read, elements of other minors are
dropped by their codes.  All else is evaluated element by element, block by block.

The long form of several data sets has the elements of all, with a column ``dataset``.  Nothing is
aligned and nothing is filled: what a data set lacks is no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.distributed import Source
from daf_query.matrix import (
    ElementPart,
    Elements,
    Selection,
    SlicePlan,
    each_once,
    find_layouts,
    info_of,
)
from daf_query.scan import (
    Codes,
    Column,
    IsNull,
    Mask,
    Once,
    Predicate,
    Rows,
    Scan,
    ScanOptions,
    ScanPlan,
    Values,
    arrow_type,
    columns_of,
    conjuncts,
    evaluate,
    number_array,
    numpy_type,
    target_rows,
)
from daf_query.table._axis_dataset import entry_names
from daf_query.table._columns import DATASET, ConstantColumn, TableColumns, long_names, value_type
from daf_query.table._dataset import Piece, TableDataset, TableView
from daf_query.table._union import UnionDataset, value_type_of_all
from daf_storage import DafReader, MatrixInfo, Origin, errors
from daf_storage._lazy import pc
from daf_storage.base import DecodedCache
from daf_storage.data import matrix_version

_MOST_ENTRIES: Final = (1 << 31) - 1


class AxisEntries:
    """The entries of an axis, decoded when they are first needed."""

    def __init__(
        self, length: int, selection: Selection | None, read: Callable[[], pa.Array]
    ) -> None:
        self._length = length
        self._strings = Once(read)
        self._tables: dict[Predicate, Mask] = {}
        self._chosen: Mask = np.full(length, selection is None)
        if selection is not None:
            self._chosen[selection.positions] = True

    @property
    def selection(self) -> Selection:
        """The entries that are left."""
        if self._chosen.all():
            return Selection.all(self._length)
        return Selection.of(np.flatnonzero(self._chosen), self._length)

    def leave(self, predicate: Predicate) -> None:
        """Leave only the entries for which a predicate is true."""
        self._chosen &= self.table(predicate)

    @property
    def strings(self) -> pa.Array:
        """The entries, in their order."""
        return self._strings()

    def table(self, predicate: Predicate) -> Mask:
        """Return for which of the entries that are left a predicate is true."""
        table = self._tables.get(predicate)
        if table is None:
            strings = self.strings
            table = evaluate(predicate, lambda _: strings, len(strings)) & self._chosen
            self._tables[predicate] = table
        return table

    def encoded(self, codes: npt.NDArray[np.int32]) -> pa.DictionaryArray:
        """Return positions as a dictionary of the entries; the codes are not copied."""
        indices = pa.Array.from_buffers(pa.int32(), codes.size, [None, pa.py_buffer(codes)])
        return pa.DictionaryArray.from_arrays(indices, self.strings, safe=False)


@dataclass(frozen=True, eq=False)
class ElementColumn:
    """A part of each element; it is its own open column."""

    field: pa.Field
    part: ElementPart
    elements: Elements
    entries: AxisEntries | None = None
    """The entries of its axis; None for values."""
    chunk_rows = 0
    zones = None

    def open(self, cache: DecodedCache, options: ScanOptions) -> ElementColumn:  # noqa: ARG002 - its blocks are of one state
        """Open it for reading."""
        return self

    def values(self, rows: Rows) -> Values:
        """Return codes of the entries, or values."""
        read = self._read(rows)
        if self.entries is not None:
            return Codes(read, self.entries.strings, self.entries.table)
        return read

    def to_arrow(self, rows: Rows) -> pa.Array:
        """Return a dictionary of the entries, or values."""
        read = self._read(rows)
        if self.entries is not None:
            return self.entries.encoded(read)
        return read if isinstance(read, pa.Array) else number_array(read)

    def _read(self, rows: Rows) -> Any:
        """Return codes, Arrow strings, or numbers in the type that is shown."""
        read = self.elements.part(self.part, rows.span, rows.offsets)
        if self.entries is not None or isinstance(read, pa.Array):
            return read
        return read.astype(numpy_type(self.field.type), copy=False)


class MatrixDataset(TableDataset):
    """The long form of a matrix: a row for each stored element of a sparse one, or of a dense one.

    Its columns are the two axes, as dictionaries of their entries whose codes are the positions,
    and ``value``, NULL where it is NaN.  Explicit zeros of a sparse matrix are rows too.  Of a
    matrix of an axis with itself, the second column is ``AXIS_2``.

    It is scanned in blocks of a bounded number of elements.  What a filter says of one axis alone
    becomes a slice: of the two layouts, if both are stored, the one that reads less is taken, and
    of that only the selected majors.

    Parameters
    ----------
    rows, columns
        Only these entries of the axes, in any order, each once.
    member
        Of one of several data sets that are asked as one: what the column ``dataset``, which it has
        first, calls it, and the type of the values of all.

    Raises
    ------
    AxisNotFoundError, MatrixNotFoundError
        There is no such axis or matrix; the message lists those that exist.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
    >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
    >>> table = MatrixDataset(daf, "cell", "gene", "UMIs")
    >>> table.to_table(filter=pc.field("gene") == "WNT6").to_pydict()
    {'cell': ['TATA', 'GATA'], 'gene': ['WNT6', 'WNT6'], 'value': [1, 3]}
    """

    def __init__(  # noqa: PLR0913 - what is chosen, and how it is seen
        self,
        daf: DafReader,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: Selection | None = None,
        columns: Selection | None = None,
        view: TableView | None = None,
        member: tuple[str, pa.DataType] | None = None,
    ) -> None:
        self._daf, self._axes, self._name = daf, (rows_axis, columns_axis), name
        self._what = f"matrix({rows_axis!r}, {columns_axis!r}, {name!r})"
        self._member = member
        self._info = info = self._checked_info()
        self.stored_type = arrow_type(info.storage_type)
        """The Arrow type in which the values are stored."""
        shown = member[1] if member else value_type(daf, self._axes, name, info.storage_type)
        self.value_type = shown
        """The type of the values."""
        self._selections = (_as_set(rows), _as_set(columns))
        super().__init__(self._listed(), location=daf.location, view=view)
        self.member_name = member and member[0]

    def _checked_info(self) -> MatrixInfo:
        """Return the metadata of the matrix in one of its layouts; raise if it has none."""
        info = info_of(self._daf, self._axes, self._name)
        if max(info.shape) > _MOST_ENTRIES:
            raise errors.UnsupportedDataError(
                f"{self._daf.location}: {self._what} has an axis of {max(info.shape):,} entries; "
                f"the codes of its columns have room for {_MOST_ENTRIES:,}"
            )
        return info

    def _listed(self) -> TableColumns:
        """Return the columns, which the scan of the matrix reads."""
        info = self._info
        first, second, value = self._names
        entries = pa.dictionary(pa.int32(), pa.string())
        can_be_null = any(map(pa.types.is_floating, (self.stored_type, self.value_type)))
        fields = [
            *([] if self._member is None else [pa.field(DATASET, pa.string(), nullable=False)]),
            pa.field(first, entries, nullable=False),
            pa.field(second, entries, nullable=False),
            pa.field(value, self.value_type, nullable=can_be_null),
        ]
        length = info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
        columns: dict[str, Column] = {
            field.name: ConstantColumn(field, None, length) for field in fields
        }
        return TableColumns(self._what, length, columns, {})

    @property
    def _names(self) -> tuple[str, str, str]:
        """The names of the columns: both axes, and the values."""
        return long_names(self._axes, has_dataset=self._member is not None)

    def changed(self, **changes: Any) -> Self:
        """Return the elements of other rows and columns, or as those of a member of several."""
        rows, columns = self._selections
        own = {"rows": rows, "columns": columns, "view": self.view, "member": self._member}
        return type(self)(self._daf, *self._axes, self._name, **{**own, **changes})

    def data_version(self, columns: Iterable[str]) -> str | None:  # noqa: ARG002 - of all
        """Return what differs once the matrix was changed; None where nothing shows it."""
        return matrix_version(self._daf, *self._axes, self._name)

    def _place(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        rows, columns = self._selections
        again = partial(_open_matrix, rows=rows, columns=columns, member=self._member)
        return again, (self._daf.require_origin(), *self._axes, self._name)

    @property
    def is_filtered(self) -> bool:
        """Whether some elements are left out: by `filter`, or by the rows and columns chosen."""
        return super().is_filtered or any(part is not None for part in self._selections)

    def scan(self, predicate: Predicate | None) -> Scan:
        """Return the scan for a filter: chosen majors of a chosen layout, cut into blocks.

        Majors for which the filter cannot be true are in none of them.
        """
        layout, entries, residual = self._chosen(predicate)
        elements = Elements(layout)
        size = target_rows(elements.count, self.view.options)
        spans = [] if residual is None else elements.spans(size)
        major, minor = (0, 1) if layout.rows_are_major else (1, 0)
        required: list[Predicate] = []
        if elements.has_other_minors:
            required.append(IsNull(self._names[minor], is_negated=True))
        plan = ScanPlan(
            spans,
            spans,
            predicate,
            [*required, *(residual or ())],
            rows_pruned=self.table_columns.length - sum(span.size for span in spans),
        )
        schema = self.table_columns.schema
        columns: dict[str, Column] = {}
        if self.member_name is not None:
            field = schema.field(DATASET)
            columns[DATASET] = ConstantColumn(field, self.member_name, elements.count)
        parts: dict[str, ElementPart] = {
            self._names[major]: "majors",
            self._names[minor]: "minors",
            self._names[2]: "values",
        }
        for name, part in parts.items():
            columns[name] = ElementColumn(schema.field(name), part, elements, entries.get(name))
        title = f"{self._what}, stored by {self._axes[major]!r}"
        return Scan(self.open_table(title, columns, required), plan)

    def pieces(
        self,
        filter: pc.Expression | None,
        needed: Sequence[str],  # noqa: ARG002 - the version is that of the matrix
        rows: int,
    ) -> Iterator[Piece]:
        """Yield blocks of the matrix of about so many elements; reads metadata and entries alone.

        Each has all of the selected minors for some of the selected majors, at least one.
        """
        layout, _, residual = self._chosen(self.predicate_of(filter))
        if residual is None:
            return
        source = Source.of(self.changed(rows=None, columns=None), f"the table {self._what}")
        for span, count in layout.groups(rows):
            part, minor = layout.major.part(span.start, span.stop), layout.minor
            block = (part, minor) if layout.rows_are_major else (minor, part)
            if count:
                yield Piece(source, count, self.table_columns.length, block=block)

    def rows_of(
        self,
        piece: Piece,
        filter: pc.Expression | None,  # noqa: ARG002 - pyarrow's name; whoever reads has it
    ) -> Self:
        """Return the elements of a block."""
        rows, columns = piece.block or (None, None)
        return self.changed(rows=rows, columns=columns)

    def _chosen(
        self, predicate: Predicate | None
    ) -> tuple[SlicePlan, dict[str, AxisEntries], list[Predicate] | None]:
        """Return what a predicate leaves of a matrix.

        Returns
        -------
        SlicePlan
            The layout that is read, planned.
        dict
            The entries of both axes that are left, by the name of their columns.
        list or None
            Conditions on values, which are evaluated on each element; ``None`` if nothing is left.
        """
        shape = _shape_of(self._info, self._axes)
        entries = {
            name: AxisEntries(length, selection, partial(self._entries, axis, length))
            for name, axis, length, selection in zip(
                self._names[:2], self._axes, shape, self._selections, strict=True
            )
        }
        residual, is_never = list[Predicate](), False
        own_name = pa.array([self.member_name], pa.string())
        for condition in conjuncts(predicate):
            names = columns_of(condition)
            if len(names) == 1 and names[0] in entries:
                entries[names[0]].leave(condition)
            elif not names or (self.member_name is not None and names == [DATASET]):
                is_never |= not evaluate(condition, lambda _: own_name, 1)[0]
            else:
                residual.append(condition)
        selections = [each.selection for each in entries.values()]
        layout = find_layouts(self._daf, self._axes, self._name, *selections).first
        if self._kind_of(layout.stored.info) != self._kind_of(self._info):
            raise errors.FormatError(
                f"{self.location}: {self._what} was replaced while it was being queried; run the "
                "query again"
            )
        return layout, entries, None if is_never else residual

    def _entries(self, axis: str, length: int) -> pa.Array:
        """Return the entries of an axis, of which there have to be as many as before."""
        strings = entry_names(self._daf, axis, self.view.cache, self.view.options)
        if len(strings) != length:
            raise errors.FormatError(
                f"{self.location}: the axis {axis!r} was replaced while a matrix of it was being "
                "queried; run the query again"
            )
        return strings.cast(pa.string())

    def _kind_of(self, info: MatrixInfo) -> tuple[Any, ...]:
        """Return what the columns follow from, whichever layout it is of."""
        return info.storage_type, info.is_sparse, _shape_of(info, self._axes)


def _shape_of(info: MatrixInfo, axes: tuple[str, str]) -> tuple[int, int]:
    """Return the shape of a matrix as its axes were asked for."""
    rows, columns = info.shape
    return (rows, columns) if info.rows_axis == axes[0] else (columns, rows)


def _as_set(selection: Selection | None) -> Selection | None:
    """Return a selection in the order of the axis, each entry once; ``None`` for all."""
    if selection is None or selection.is_all:
        return None
    return Selection(each_once(selection.positions))


def _open_matrix(origin: Origin, *names: str, **chosen: Any) -> MatrixDataset:
    return MatrixDataset(origin.open(), *names, **chosen)


def matrix_union(tables: Mapping[str, MatrixDataset], location: str) -> UnionDataset:
    """Return the elements of the matrices of several data sets.

    Its columns are ``dataset``, the two axes, and ``value`` in the smallest type that holds those
    of all.  Each data set is scanned by itself, so filters on ``dataset`` leave out whole files,
    and those on the axes become slices.

    Parameters
    ----------
    tables
        The long form of each data set that has the matrix, by name.
    location
        Where they are, for messages.

    Raises
    ------
    UnsupportedDataError
        The values have no type in common.

    Examples
    --------
    >>> import daf_storage
    >>> runs = {}
    >>> for name, value in (("monday", 1), ("tuesday", 2.5)):
    ...     daf = daf_storage.MemoryDaf()
    ...     daf.add_axis("cell", ["A"])
    ...     daf.add_axis("gene", ["CD8A"])
    ...     daf.set_matrix("cell", "gene", "X", [[value]])
    ...     runs[name] = MatrixDataset(daf, "cell", "gene", "X")
    >>> table = matrix_union(runs, location="runs")
    >>> table.to_table().to_pydict()
    {'dataset': ['monday', 'tuesday'], 'cell': ['A', 'A'], 'gene': ['CD8A', 'CD8A'], \
'value': [1.0, 2.5]}
    """
    matrices = tables.values()
    title = next(iter(matrices)).table_columns.table
    value_type = value_type_of_all(
        {each.value_type for each in matrices}, {each.stored_type for each in matrices}
    )
    if value_type is None:
        types = ", ".join(f"{name}: {each.value_type}" for name, each in tables.items())
        raise errors.UnsupportedDataError(
            f"{location}: {title} has values of types that have none in common ({types}); "
            "connect the data sets one by one"
        )
    members = {name: each.changed(member=(name, value_type)) for name, each in tables.items()}
    return UnionDataset(title, members, location=location)
