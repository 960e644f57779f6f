"""The tables of the rows and of the columns of a slice, as AnnData has them in obs and var.

Of a concatenated axis a table has the columns of all data sets, missing where one lacks it.  Of an
aligned axis it has those on whose values all data sets agree that have them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from daf_query.matrix import AlignedAxis
from daf_query.slice._parts import Positions, Whole
from daf_query.slice._tables import labels_along, objects_of
from daf_query.table import DATASET
from daf_storage import AnnDataWarning, errors
from daf_storage.anndata import axis_frame, unstructured
from daf_storage.base import optional_import

Frame: TypeAlias = Any
"""A DataFrame of pandas."""


class OwnFrame(NamedTuple):
    """The table of one data set."""

    frame: Frame
    rows: Positions
    """Which rows of the whole these are."""
    colors: Mapping[str, Any]
    """Lists of colours by ``COLUMN_colors``."""


def axis_tables(whole: Whole) -> tuple[Frame, Frame, dict[str, Any]]:
    """Return the tables of the rows and of the columns, and what belongs into ``uns``.

    This is the colours of categoricals; of a single data set, also what belongs to no axis.
    """
    var, uns = _axis_table(whole, 1)
    obs, of_obs = _axis_table(whole, 0)
    rest = unstructured(whole.members[0].daf) if whole.joined is None else {}
    return obs, var, {**rest, **uns, **of_obs}


def _axis_table(whole: Whole, number: int) -> tuple[Frame, dict[str, Any]]:
    """Return the table of the rows (0) or the columns (1), and the colours of its categoricals."""
    side = whole.sides[number]
    if whole.joined is None:
        daf = whole.members[0].daf
        return axis_frame(daf, side.axis, side.selection.positions, unreadable="warn")
    if side.names is not None:
        return aligned_axis_frame(whole.joined.axis, side.selection.positions)
    own = []
    for member in whole.members:
        positions = member.selections[number].positions
        with member.unchanged_axes():
            frame, colors = axis_frame(member.daf, side.axis, positions, unreadable="warn")
        own.append(OwnFrame(frame, member.places[number].positions, colors))
    labels = labels_along(whole, number)
    labels.warn_of_repeated(whole.location)
    pandas = optional_import("pandas", extra="anndata")
    known = labels.datasets.dictionary.to_pylist()
    codes = labels.datasets.indices.to_numpy(zero_copy_only=False)
    categories = pandas.Index(known, dtype=object)
    datasets = pandas.Categorical.from_codes(codes, categories=categories)
    what = ("obs", "var")[number], side.axis
    return _of_all(own, labels.unique, {DATASET: datasets}, what)


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
    own = []
    for name, daf in now.members.items():
        sources = now.sources(name, positions)
        has = np.flatnonzero(sources >= 0)
        frame, colors = axis_frame(daf, axis.axis, sources[has], unreadable="warn")
        own.append(OwnFrame(frame, has, colors))
    index = objects_of(now.entries.take(pa.array(positions)))
    return _of_all(own, index, {}, ("var", axis.axis))


def _of_all(
    own: Sequence[OwnFrame], index: Any, leading: Mapping[str, Any], what: tuple[str, str]
) -> tuple[Frame, dict[str, Any]]:
    """Return the table of all, and the colours of its categoricals; warn of what is left out."""
    joined, conflicts = joined_frame(own, index, leading)
    names = {each.frame.index.name for each in own}
    joined.index.name = names.pop() if len(names) == 1 else None
    if conflicts:
        warnings.warn(
            f"{what[0]} lacks {', '.join(conflicts)}; ask the table {what[1]!r} for what each data "
            "set has",
            AnnDataWarning,
            stacklevel=5,
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
    whole = pandas.concat(series, ignore_index=True)
    is_there = np.flatnonzero(whole.notna())
    if np.unique(rows).size < rows.size:
        values = whole.iloc[is_there].groupby(rows[is_there], observed=True)
        if values.nunique().max() > 1:
            return "it differs between the data sets"
    if np.unique(rows).size < length:  # those of the other rows are missing
        whole = whole.convert_dtypes(
            infer_objects=False, convert_string=False, convert_floating=False
        )
    known, found = np.unique(rows[is_there], return_index=True)
    places = np.full(length, -1, np.int64)
    places[known] = is_there[found]
    return whole.array.take(places, allow_fill=True)


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
        known: dict[Any, set[str]] = {}
        for each in own:
            if key in each.colors and hasattr(each.frame[column], "cat"):
                categories = each.frame[column].cat.categories
                for category, color in zip(categories, each.colors[key], strict=False):
                    known.setdefault(category, set()).add(str(color))
        listed = [known.get(category, set()) for category in frame[column].cat.categories]
        if all(len(each) == 1 for each in listed):
            colors[key] = np.array([next(iter(each)) for each in listed], object)
    return colors
