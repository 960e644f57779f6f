"""The labels of the rows and columns of a slice, and the slice as Arrow, pandas and polars."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query._provenance import Record, described
from daf_query.scan import number_array
from daf_query.slice._parts import Whole
from daf_query.table import DATASET, check_column_names
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import Span, optional_import

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

VALUE = "value"


class DuplicateNamesWarning(errors.DafWarning):
    """Names occur in several data sets of a collection, so labels have that of the data set."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What the rows or the columns of a slice are called."""

    axis: str
    names: pa.DictionaryArray
    """The entry of each."""
    datasets: Any = None
    """The data set of each; None where there is but one."""

    @property
    def strings(self) -> npt.NDArray[np.object_]:
        """The entry of each, as ``str`` objects."""
        return objects_of(self.names.dictionary_decode())

    @property
    def unique(self) -> npt.NDArray[np.object_]:
        """A label of each that no other entry has: its name, or ``NAME-DATASET``."""
        if self.datasets is None or not self._repeated()[0]:
            return self.strings
        plain = self.names.dictionary_decode(), self.datasets.dictionary_decode()
        return objects_of(pc.binary_join_element_wise(*plain, "-"))

    def part(self, span: Span) -> Labels:
        """Return those of neighbouring rows."""
        datasets = None if self.datasets is None else self.datasets.slice(span.start, span.size)
        return replace(self, names=self.names.slice(span.start, span.size), datasets=datasets)

    def as_columns(self, taken: Collection[str] = ()) -> dict[str, pa.Array]:
        """Return them as columns of a table that has others, of the names ``taken``."""
        columns = {} if self.datasets is None else {DATASET: self.datasets.dictionary_decode()}
        axis = self.axis if self.axis not in columns else f"{self.axis}_2"
        columns[axis] = self.names.dictionary_decode()
        return {_unused(name, taken): column for name, column in columns.items()}

    def warn_of_repeated(self, location: str) -> None:
        """Warn of names that occur in several data sets."""
        count, name, having = self._repeated()
        if count:
            what = "name occurs" if count == 1 else "names occur"
            warnings.warn(
                f"{location}: {count:,} {what} on axis {self.axis!r} of several data sets, such as "
                f"{name!r} in {' and '.join(having[:2])}; the labels are NAME-DATASET, as "
                f"'{name}-{having[0]}', and the column dataset says which it is",
                DuplicateNamesWarning,
                stacklevel=4,
            )

    def _repeated(self) -> tuple[int, str, list[str]]:
        """Return how many names occur in several data sets, and the first with these."""
        pairs = pa.table({"name": self.names.indices, "dataset": self.datasets.indices})
        pairs = pairs.group_by(["name", "dataset"], use_threads=False).aggregate([])
        counted = pc.value_counts(pairs.column("name").combine_chunks())
        several = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
        if not len(several):
            return 0, "", []
        first = pc.min(several)
        having = pairs.filter(pc.equal(pairs.column("name"), first)).column("dataset").sort()
        return (
            len(several),
            self.names.dictionary[first.as_py()].as_py(),
            self.datasets.dictionary.take(having).to_pylist(),
        )


def _unused(name: str, taken: Collection[str]) -> str:
    """Return a name, with underscores if it is taken."""
    while name in taken:
        name = f"{name}_"
    return name


def names_of(whole: Whole, number: int) -> pa.Array:
    """Return the names of the rows (0) or of the columns (1)."""
    side = whole.sides[number]
    if side.names is not None:
        return side.names
    if whole.joined is None:
        return whole.members[0].names(number)
    parts = [member.names(number).cast(pa.string()) for member in whole.members]
    places = [member.places[number].positions for member in whole.members]
    order = np.empty(side.selection.size, np.int64)
    if places:
        order[np.concatenate(places)] = np.arange(order.size)
    return pa.concat_arrays([pa.array([], pa.string()), *parts]).take(pa.array(order))


def datasets_of(whole: Whole) -> pa.DictionaryArray:
    """Return the data set of each entry of the concatenated axis."""
    number = 0 if whole.rows_are_concatenated else 1
    codes = np.zeros(whole.shape[number], np.int32)
    for code, member in enumerate(whole.members):
        codes[member.places[number].positions] = code
    names = pa.array([member.name for member in whole.members], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), names)


def labels_of(whole: Whole) -> tuple[Labels, Labels]:
    """Return the labels of the rows and of the columns."""
    rows, columns = (labels_along(whole, number) for number in (0, 1))
    return rows, columns


def labels_along(whole: Whole, number: int) -> Labels:
    """Return the labels of the rows (0) or of the columns (1)."""
    side = whole.sides[number]
    names = names_of(whole, number).cast(pa.string()).dictionary_encode()
    has_datasets = whole.joined is not None and side.names is None
    return Labels(side.axis, names, datasets_of(whole) if has_datasets else None)


def objects_of(strings: pa.Array) -> npt.NDArray[np.object_]:
    """Return strings of Arrow as ``str`` objects."""
    objects: npt.NDArray[np.object_] = strings.to_numpy(zero_copy_only=False)
    return objects.astype(object, copy=False)


def long_table(
    values: Any, labels: tuple[Labels, Labels], record: Record | None = None
) -> pa.Table:
    """Return a row for each non-zero element, row by row.

    Parameters
    ----------
    record
        What its metadata say of its provenance.
    """
    if sp.issparse(values):
        row = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
        column, data = values.indices, values.data
    else:
        row, column = np.nonzero(values)
        data = values[row, column]
    sides = list(zip(labels, (pa.array(row), pa.array(column)), strict=True))
    columns: dict[str, pa.Array] = {}
    for each, offsets in sides:
        if each.datasets is not None:
            columns[DATASET] = each.datasets.take(offsets)
    first, second = (f"{each.axis}_2" if each.axis in columns else each.axis for each in labels)
    if second == first:
        second = f"{second}_2"
    # As in the table of the whole matrix: an axis may be called "value".
    value = f"{VALUE}_2" if VALUE in (first, second) else VALUE
    for name, (each, offsets) in zip((first, second), sides, strict=True):
        columns[name] = each.names.take(offsets)
    columns[value] = _strings(data) if data.dtype == object else number_array(data)
    table = pa.table(columns)
    return table if record is None else described(table, record)


def _strings(values: Any) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.string())


def wide_pandas(values: Any, labels: tuple[Labels, Labels]) -> Any:
    """Return a pandas DataFrame; sparse columns for a sparse matrix."""
    pandas = optional_import("pandas", extra="pandas")
    rows, columns = (_pandas_index(pandas, each) for each in labels)
    if sp.issparse(values):
        return pandas.DataFrame.sparse.from_spmatrix(values, index=rows, columns=columns)
    return pandas.DataFrame(values, index=rows, columns=columns, copy=True)


def _pandas_index(pandas: Any, labels: Labels) -> Any:
    """Return an index; of several data sets one of two levels, that of the data set first."""
    if labels.datasets is None:
        return labels.unique
    columns = labels.as_columns()
    arrays = [column.to_numpy(zero_copy_only=False) for column in columns.values()]
    return pandas.MultiIndex.from_arrays(arrays, names=list(columns))


def wide_polars(values: Any, labels: tuple[Labels, Labels]) -> Any:
    """Return a polars DataFrame; the row entries come first."""
    table = wide_table(values, labels)
    check_column_names(table.column_names, "a frame of polars", "to_pandas() or to_arrow()")
    return optional_import("polars", extra="polars").from_arrow(table)


def wide_table(values: Any, labels: tuple[Labels, Labels]) -> pa.Table:
    """Return an Arrow table: the row entries, then a column per column entry."""
    dense = np.asfortranarray(values.toarray() if sp.issparse(values) else values)
    rows, names = labels[0], list(labels[1].unique)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise errors.DuplicateEntriesError(
            f"a table cannot have two columns named {repeated[0]!r}; "
            "select each column once, or use to_arrow() or to_scipy()"
        )
    array = _strings if dense.dtype == object else pa.array
    arrays = [array(dense[:, position]) for position in range(len(names))]
    leading = rows.as_columns(names)
    return pa.table([*leading.values(), *arrays], names=[*leading, *names])
