"""The labels of a slice, the slice as Arrow, pandas and polars, and obs and var of AnnData.

Of a concatenated axis obs has the columns of all data sets, missing where one lacks it.  Of an
aligned axis var has those on whose values all data sets agree that have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import Record, described
from daf_query.matrix import AlignedAxis, Positions, each_once
from daf_query.scan import number_array
from daf_query.slice._parts import Whole
from daf_query.table import DATASET, check_column_names, long_names
from daf_storage import AnnDataWarning, errors
from daf_storage._lazy import pc, sp
from daf_storage.anndata import axis_frame, unstructured
from daf_storage.base import Span, optional_import


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
            errors.warn(
                f"{location}: {count:,} {what} on axis {self.axis!r} of several data sets, such as "
                f"{name!r} in {' and '.join(having[:2])}; the labels are NAME-DATASET, as "
                f"'{name}-{having[0]}', and the column dataset says which it is",
                DuplicateNamesWarning,
            )

    def _repeated(self) -> tuple[int, str, list[str]]:
        """Return how many names occur in several data sets, and the first with these."""
        names, datasets = (each.indices.to_numpy() for each in (self.names, self.datasets))
        count = max(len(self.datasets.dictionary), 1)
        of, owners = np.divmod(np.unique(names.astype(np.int64) * count + datasets), count)
        several = np.flatnonzero(np.bincount(of) > 1)
        if not several.size:
            return 0, "", []
        having = self.datasets.dictionary.take(pa.array(owners[of == several[0]]))
        return several.size, self.names.dictionary[several[0]].as_py(), having.to_pylist()


def _unused(name: str, taken: Collection[str]) -> str:
    """Return a name, with underscores if it is taken."""
    while name in taken:
        name = f"{name}_"
    return name


def names_of(whole: Whole, number: int) -> pa.Array:
    """Return the names of the rows (0) or of the columns (1).

    Raises
    ------
    InvalidInputError
        An axis was replaced or reordered since the slice was made.
    """
    axis, positions = whole.axes[number], whole.selections[number].positions
    if number == whole.aligned:
        return axis.entries_at(positions)
    with whole.unchanged_axes():
        return axis.entries_at(positions)


def datasets_of(whole: Whole) -> pa.DictionaryArray:
    """Return the data set of each entry of the concatenated axis."""
    codes = np.zeros(whole.shape[whole.along], np.int32)
    for code, member in enumerate(whole.members):
        codes[member.places[whole.along].positions] = code
    names = pa.array([member.name for member in whole.members], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes), names)


def labels_of(whole: Whole) -> tuple[Labels, Labels]:
    """Return the labels of the rows and of the columns."""
    return labels_along(whole, 0), labels_along(whole, 1)


def labels_along(whole: Whole, number: int) -> Labels:
    """Return the labels of the rows (0) or of the columns (1)."""
    names = names_of(whole, number).dictionary_encode()
    has_datasets = whole.is_collection and number == whole.along
    datasets = datasets_of(whole) if has_datasets else None
    return Labels(whole.axis_names[number], names, datasets)


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
    of_datasets = [each.datasets.take(at) for each, at in sides if each.datasets is not None]
    columns = {DATASET: of_datasets[0]} if of_datasets else {}
    names = long_names((labels[0].axis, labels[1].axis), has_dataset=bool(columns))
    arrays = [each.names.take(offsets) for each, offsets in sides]
    arrays.append(pa.array(data, pa.string()) if data.dtype == object else number_array(data))
    columns |= zip(names, arrays, strict=True)
    table = pa.table(columns)
    return table if record is None else described(table, record)


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
    kind = pa.string() if dense.dtype == object else None
    arrays = [pa.array(dense[:, position], kind) for position in range(len(names))]
    leading = rows.as_columns(names)
    return pa.table([*leading.values(), *arrays], names=[*leading, *names])


Frame: TypeAlias = Any
"""A DataFrame of pandas."""


class OwnFrame(NamedTuple):
    """The table of one data set."""

    frame: Frame
    colors: Mapping[str, Any]
    """Lists of colours by ``COLUMN_colors``."""
    rows: Positions
    """Which rows of the whole these are."""


def axis_tables(whole: Whole) -> tuple[Frame, Frame, dict[str, Any]]:
    """Return the tables of the rows and of the columns, and what belongs into ``uns``.

    This is the colours of categoricals; of a single data set, also what belongs to no axis.
    """
    var, uns = _of_selected(whole, 1)
    obs, of_obs = _of_selected(whole, 0)
    rest = unstructured(whole.members[0].daf) if not whole.is_collection else {}
    return obs, var, {**rest, **uns, **of_obs}


def _of_selected(whole: Whole, number: int) -> tuple[Frame, dict[str, Any]]:
    """Return the table; if all of both axes is chosen, all categories remain."""
    table = axis_table(whole, number)
    return table if all(each.is_all for each in whole.selections) else with_used_categories(*table)


def with_used_categories(frame: Frame, colors: Mapping[str, Any]) -> tuple[Frame, dict[str, Any]]:
    """Return a table with the categories that its entries have, as anndata's indexing does.

    scanpy refuses groups without cells.
    """
    own = OwnFrame(frame.copy(deep=False), colors, np.arange(len(frame)))
    for name in frame.columns[[hasattr(frame[each], "cat") for each in frame.columns]]:
        frame[name] = frame[name].cat.remove_unused_categories()
    return frame, joined_colors([own], frame)


def axis_table(whole: Whole, number: int) -> tuple[Frame, dict[str, Any]]:
    """Return the table of the rows (0) or of the columns (1), and its colours.

    It is read by position, so whoever asks makes sure that axes are unchanged.

    Raises
    ------
    InvalidInputError
        The names of an aligned axis are others by now.

    Warns
    -----
    AnnDataWarning
        Columns are left out, because the data sets do not agree.
    """
    axis, positions, leading = whole.axes[number], whole.selections[number].positions, {}
    if not whole.is_collection:
        [part] = whole.members
        chosen = None if whole.selections[number].is_all else positions
        return axis_frame(part.daf, axis.axis, chosen, unreadable="warn")
    # Without rows: the columns of all data sets.
    parts = list(axis.parts(positions)) or [
        (name, daf, positions, positions) for name, daf in axis.members.items()
    ]
    own = [
        OwnFrame(*axis_frame(daf, axis.axis, within, unreadable="warn"), places)
        for _, daf, places, within in parts
    ]
    if isinstance(axis, AlignedAxis):
        index = objects_of(axis.entries_at(positions))
        if not all(np.array_equal(each.frame.index, index[each.rows]) for each in own):
            raise errors.InvalidInputError(
                f"{axis.location}: the axis {axis.axis!r} of a data set was replaced since this "
                "was made; make it again"
            )
    else:
        labels = labels_along(whole, number)
        labels.warn_of_repeated(axis.location)
        index = labels.unique
        pandas = optional_import("pandas", extra="anndata")
        categories = pandas.Index(labels.datasets.dictionary.to_pylist(), dtype=object)
        codes = labels.datasets.indices.to_numpy(zero_copy_only=False)
        leading[DATASET] = pandas.Categorical.from_codes(codes, categories=categories)
    joined, conflicts = joined_frame(own, index, leading)
    names = {each.frame.index.name for each in own}
    joined.index.name = names.pop() if len(names) == 1 else None
    if conflicts:
        errors.warn(
            f"{('obs', 'var')[number]} lacks {', '.join(conflicts)}; ask the table {axis.axis!r} "
            "for what each data set has",
            AnnDataWarning,
        )
    return joined, joined_colors(own, joined)


def joined_frame(
    own: Sequence[OwnFrame], index: Any, leading: Mapping[str, Any]
) -> tuple[Frame, list[str]]:
    """Return the rows of all, with some columns before theirs; and which columns are left out."""
    pandas = optional_import("pandas", extra="anndata")
    columns, conflicts = dict(leading), []
    for name in dict.fromkeys(name for each in own for name in each.frame.columns):
        parts = [(each.frame[name], each.rows) for each in own if name in each.frame.columns]
        column: Any = "the column of that name says of which data set a row is"
        if name not in leading:
            column = _joined(pandas, parts, len(index))
        if isinstance(column, str):
            conflicts.append(f"{name!r} ({column})")
        else:
            columns[name] = column
    return pandas.DataFrame(columns, index=index, copy=False), conflicts


def _joined(pandas: Any, parts: Sequence[tuple[Any, Positions]], length: int) -> Any:
    """Return a column of which data sets have some rows each; else why there is none."""
    first, rows = parts[0]
    others = [
        (series, places)
        for series, places in parts[1:]
        if not (np.array_equal(places, rows) and series.dtype == first.dtype)
        or not series.array.equals(first.array)
    ]
    series = [each for each, _ in (parts[0], *others)]
    rows = np.concatenate([places for _, places in (parts[0], *others)])
    dtypes = [each.dtype for each in series]
    is_categorical = [isinstance(dtype, pandas.CategoricalDtype) for dtype in dtypes]
    if all(is_categorical) and any(dtype != dtypes[0] for dtype in dtypes):
        listed = dict.fromkeys(value for dtype in dtypes for value in dtype.categories)
        series = [each.astype(pandas.CategoricalDtype(list(listed))) for each in series]
    elif any(is_categorical) and not all(is_categorical):
        dtypes = [
            getattr(dtype, "categories", pandas.Series(dtype=dtype)).dtype for dtype in dtypes
        ]
        series = [each.astype(dtype) for each, dtype in zip(series, dtypes, strict=True)]
    if len({"f" if dtype.kind in "iu" else dtype.kind for dtype in dtypes}) > 1:
        return "its types have none in common"
    present = pandas.concat(series, ignore_index=True).set_axis(rows).dropna()
    if present.index.has_duplicates and present.groupby(level=0, observed=True).nunique().max() > 1:
        return "it differs between the data sets"
    if each_once(rows).size < length:  # those of the other rows are missing
        present = present.convert_dtypes(
            infer_objects=False, convert_string=False, convert_floating=False
        )
    return present[~present.index.duplicated()].reindex(range(length)).array


def joined_colors(own: Sequence[OwnFrame], frame: Frame) -> dict[str, Any]:
    """Return the colours of the categories of all, where no two data sets contradict each other.

    Parameters
    ----------
    frame
        The table of all.
    """
    colors: dict[str, Any] = {}
    for key in dict.fromkeys(key for each in own for key in each.colors):
        column = key.removesuffix("_colors")
        if column not in frame.columns or not hasattr(frame[column], "cat"):
            continue
        pairs = {
            pair
            for each in own
            if key in each.colors and hasattr(each.frame[column], "cat")
            for pair in zip(
                each.frame[column].cat.categories, map(str, each.colors[key]), strict=False
            )
        }
        categories = frame[column].cat.categories
        found = {category: color for category, color in pairs if category in categories}
        if len(found) == len(categories) == sum(category in found for category, _ in pairs):
            colors[key] = np.array([found[category] for category in categories], object)
    return colors
