"""Tables of the entries of several data sets, as AnnData has them in obs and var.

Of a concatenated axis a table has the columns of all, missing where a data set lacks one.  Of an
aligned axis it has those on whose values all data sets agree that have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from daf_query.collection._members import Positions
from daf_query.table import DATASET
from daf_storage.spi import optional_import

Frame: TypeAlias = Any
"""A DataFrame of pandas."""
Parts: TypeAlias = Sequence[tuple[Any, Positions]]
"""A column of each data set that has it, and which rows of the whole these are."""


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
