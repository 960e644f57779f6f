"""The tables of the rows and of the columns of a slice, as AnnData has them in obs and var.

Of a concatenated axis a table has the columns of all data sets, missing where one lacks it.  Of an
aligned axis it has those on whose values all data sets agree that have them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.matrix import AlignedAxis
from daf_query.slice._labels import datasets_of, labels_of, objects_of, warn_of_repeated
from daf_query.slice._whole import Positions, Whole
from daf_query.table import DATASET
from daf_storage import AnnDataWarning, errors
from daf_storage.anndata import axis_frame, unstructured
from daf_storage.base import optional_import

Frame: TypeAlias = Any
"""A DataFrame of pandas."""
Parts: TypeAlias = Sequence[tuple[Any, Positions]]
"""A column of each data set that has it, and which rows of the whole these are."""


def axis_tables(whole: Whole) -> tuple[Frame, Frame, dict[str, Any]]:
    """Return the tables of the rows and of the columns, and what belongs into ``uns``.

    This is the colours of categoricals; of a single data set, also what belongs to no axis.
    """
    var, uns = _axis_table(whole, 1)
    obs, of_obs = _axis_table(whole, 0)
    rest = unstructured(whole.members[0].part.daf) if whole.joined is None else {}
    return obs, var, {**rest, **uns, **of_obs}


def _axis_table(whole: Whole, number: int) -> tuple[Frame, dict[str, Any]]:
    """Return the table of the rows (0) or the columns (1), and the colours of its categoricals."""
    side = whole.sides[number]
    if whole.joined is None:
        daf = whole.members[0].part.daf
        return axis_frame(daf, side.axis, side.selection.positions, unreadable="warn")
    if side.names is not None:
        return aligned_axis_frame(whole.joined.aligned, side.selection.positions)
    labels, datasets = labels_of(whole)[number], datasets_of(whole)
    frames, uns = [], []
    for member in whole.members:
        part = member.part
        positions = part.selections[number].positions
        with part.unchanged_axes():
            frame, colors = axis_frame(part.daf, side.axis, positions, unreadable="warn")
        frames.append((frame, (member.rows, member.columns)[number].positions))
        uns.append((frame, colors))
    joined, conflicts = concatenated_frame(frames, datasets, labels.unique)
    warn_of_repeated(whole, labels)
    warn_of_conflicts(("obs", "var")[number], side.axis, conflicts)
    index_names = {frame.index.name for frame, _ in frames}
    joined.index.name = index_names.pop() if len(index_names) == 1 else None
    return joined, joined_colors(uns, joined)


def aligned_axis_frame(axis: AlignedAxis, positions: Positions) -> tuple[Any, dict[str, Any]]:
    """Return a row for each selected name, and the colours of its categoricals.

    Raises
    ------
    InvalidInputError
        The names are others by now.

    Warns
    -----
    AnnDataWarning
        Columns are left out, because the data sets do not agree.
    """
    now = axis.again()
    if not now.entries.equals(axis.entries):
        raise errors.InvalidInputError(
            f"{axis.location}: the axis {axis.axis!r} of a data set was replaced since this was "
            "made; make it again"
        )
    frames, colors = [], []
    index_names = set()
    for name, daf in now.members.items():
        sources = now.sources(name, positions)
        has = np.flatnonzero(sources >= 0)
        frame, uns = axis_frame(daf, axis.axis, sources[has], unreadable="warn")
        frames.append((frame, has))
        index_names.add(frame.index.name)
        colors.append((frame, uns))
    index = objects_of(now.entries.take(pa.array(positions)))
    joined, conflicts = aligned_frame(frames, index)
    joined.index.name = index_names.pop() if len(index_names) == 1 else None
    warn_of_conflicts("var", axis.axis, conflicts)
    return joined, joined_colors(colors, joined)


def warn_of_conflicts(part: str, axis: str, conflicts: list[str]) -> None:
    """Warn of columns that are left out."""
    if conflicts:
        warnings.warn(
            f"{part} lacks {', '.join(conflicts)}; ask the table {axis!r} for what each data set "
            "has",
            AnnDataWarning,
            stacklevel=5,
        )


def concatenated_frame(
    frames: Sequence[tuple[Frame, Positions]], datasets: Any, index: Any
) -> tuple[Frame, list[str]]:
    """Return the rows of all, with the column ``dataset``, and which columns are left out.

    Parameters
    ----------
    frames
        The rows of each data set, and which of the whole they are.
    datasets
        The data set of each row of the whole, as an Arrow dictionary.
    """
    pandas = optional_import("pandas", extra="anndata")
    columns: dict[str, Any] = {
        DATASET: pandas.Categorical.from_codes(
            datasets.indices.to_numpy(zero_copy_only=False),
            categories=pandas.Index(datasets.dictionary.to_pylist(), dtype=object),
        )
    }

    def conflict(name: str, _: Parts) -> str | None:
        taken = "the column of that name says of which data set a row is"
        return taken if name == DATASET else None

    return _with_columns(columns, frames, index, conflict)


def aligned_frame(frames: Sequence[tuple[Frame, Positions]], index: Any) -> tuple[Frame, list[str]]:
    """Return a row per name, with the columns on which all agree, and which are left out."""
    pandas = optional_import("pandas", extra="anndata")

    def conflict(_: str, parts: Parts) -> str | None:
        return None if _agree(pandas, parts, len(index)) else "it differs between the data sets"

    return _with_columns({}, frames, index, conflict)


def _with_columns(
    columns: dict[str, Any],
    frames: Sequence[tuple[Frame, Positions]],
    index: Any,
    conflict: Callable[[str, Parts], str | None],
) -> tuple[Frame, list[str]]:
    """Return some columns, and those of all data sets, joined; and which are left out.

    Parameters
    ----------
    conflict
        Returns why a column is left out, given its name and what each data set has of it.
    """
    pandas = optional_import("pandas", extra="anndata")
    columns, conflicts = dict(columns), []
    for name in dict.fromkeys(name for frame, _ in frames for name in frame.columns):
        parts = [(frame[name], rows) for frame, rows in frames if name in frame.columns]
        reason = conflict(name, parts)
        column = None if reason else _joined(pandas, parts, len(index))
        if column is None:
            conflicts.append(f"{name!r} ({reason or 'its types have none in common'})")
        else:
            columns[name] = column.array
    return pandas.DataFrame(columns, index=index, copy=False), conflicts


def _agree(pandas: Any, parts: Parts, length: int) -> bool:
    """Return whether all data sets have the same value for each name, or are missing it."""
    first = parts[0]
    known = np.zeros(length, np.bool_)
    values = np.empty(length, object)
    for series, rows in parts:
        if series is not first[0] and _is_same(first, series, rows):
            continue
        plain = np.asarray(series.astype(object), object)
        is_there = ~np.asarray(pandas.isna(plain), np.bool_)
        both = is_there & known[rows]
        if bool((values[rows[both]] != plain[both]).any()):
            return False
        values[rows[is_there]] = plain[is_there]
        known[rows[is_there]] = True
    return True


def _is_same(first: tuple[Any, Positions], series: Any, rows: Positions) -> bool:
    return (
        np.array_equal(first[1], rows)
        and series.dtype == first[0].dtype
        and bool(series.array.equals(first[0].array))
    )


def _joined(pandas: Any, parts: Parts, length: int) -> Any:
    """Return a column of which data sets have some rows each; None if there is no such type."""
    series = [part for part, _ in parts]
    rows = np.concatenate([rows for _, rows in parts])
    is_categorical = [isinstance(part.dtype, pandas.CategoricalDtype) for part in series]
    if all(is_categorical):
        series = _same_categories(pandas, series)
    elif any(is_categorical):
        series = [
            part.astype(part.cat.categories.dtype) if one else part
            for part, one in zip(series, is_categorical, strict=True)
        ]
    kinds = {_kind(pandas, part) for part in series}
    if len(kinds) > 1:
        return None
    whole = pandas.concat(series, ignore_index=True)
    covered = np.zeros(length, np.bool_)
    covered[rows] = True
    if not bool(covered.all()):
        whole = _nullable(whole)
    places = np.full(length, -1, np.int64)
    is_missing = np.asarray(whole.isna(), np.bool_)
    order = np.concatenate([np.flatnonzero(is_missing), np.flatnonzero(~is_missing)[::-1]])
    places[rows[order]] = order  # of several the first that is there
    taken = whole.array.take(places, allow_fill=True)
    return pandas.Series(taken)


def _kind(pandas: Any, series: Any) -> str:
    types = pandas.api.types
    if isinstance(series.dtype, pandas.CategoricalDtype):
        return "categorical"
    if types.is_bool_dtype(series.dtype):
        return "bool"
    if types.is_numeric_dtype(series.dtype):
        return "number"
    if types.is_datetime64_any_dtype(series.dtype):
        return "date"
    return "string"


def _nullable(series: Any) -> Any:
    """Return a column that can have missing values."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "b":
        return series.astype("boolean")
    if isinstance(dtype, np.dtype) and dtype.kind in "iu":
        return series.astype(f"{'UInt' if dtype.kind == 'u' else 'Int'}{dtype.itemsize * 8}")
    return series


def _same_categories(pandas: Any, series: Sequence[Any]) -> list[Any]:
    """Return categoricals with the categories of all, in the order in which they come.

    They are ordered if all of them have the same, in the same order.
    """
    dtypes = [part.dtype for part in series]
    if all(dtype == dtypes[0] for dtype in dtypes):
        return list(series)
    listed = list(dict.fromkeys(value for dtype in dtypes for value in dtype.categories))
    dtype = pandas.CategoricalDtype(listed)
    return [part.astype(dtype) for part in series]


def joined_colors(parts: Sequence[tuple[Frame, Mapping[str, Any]]], frame: Frame) -> dict[str, Any]:
    """Return the colours of the categories of all, where no two data sets contradict each other.

    Parameters
    ----------
    parts
        The table of each data set, and its ``uns``, which has lists by ``COLUMN_colors``.
    frame
        The table of all.
    """
    colors: dict[str, Any] = {}
    for key in dict.fromkeys(key for _, uns in parts for key in uns):
        column = key.removesuffix("_colors")
        if column not in frame.columns or not hasattr(frame[column], "cat"):
            continue
        known: dict[Any, set[str]] = {}
        for own, uns in parts:
            if key in uns and hasattr(own[column], "cat"):
                for category, color in zip(own[column].cat.categories, uns[key], strict=False):
                    known.setdefault(category, set()).add(str(color))
        categories = list(frame[column].cat.categories)
        if all(len(known.get(category, ())) == 1 for category in categories):
            colors[key] = np.array(
                [known[category].copy().pop() for category in categories], object
            )
    return colors
