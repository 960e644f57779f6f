"""Turn a list of names, positions or booleans, in any container, into positions of an axis."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, ValuesView
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.matrix import ConcatenatedAxis, EntryAxis
from daf_query.scan import INDEX
from daf_query.table import is_user_table
from daf_storage import errors

Positions: TypeAlias = npt.NDArray[np.int64]


def positions_of(axis: EntryAxis, selector: Any, keyword: str) -> Positions:
    """Return the positions that a selector other than SQL and tables chooses.

    Lists and columns keep their order and their duplicates; a set has the order of the axis.  A
    missing boolean chooses nothing.
    """
    if isinstance(selector, slice):
        return np.arange(axis.length)[selector]
    is_set = isinstance(selector, set | frozenset)
    if is_set or isinstance(selector, Iterator | KeysView | ValuesView):
        selector = list(selector)
    column = _as_arrow(selector, keyword)
    if isinstance(axis, ConcatenatedAxis) and _are_pairs(selector):
        datasets, names = zip(*selector, strict=True)
        positions = axis.named(pa.array(datasets, pa.string()), pa.array(names, pa.string()))
    elif column is None:
        positions = _of_values(axis, selector, keyword)
    else:
        positions = _of_arrow(axis, column, keyword, getattr(selector, "index", None))
    return each_once(positions) if is_set else positions


def is_table(selector: object) -> bool:
    """Return whether a selector has columns: a data frame, a result, an Arrow table."""
    is_column = hasattr(selector, "dtype") and not hasattr(selector, "columns")
    is_column |= isinstance(selector, pa.ChunkedArray | pa.Array)
    return is_user_table(selector) and not is_column


def each_once(positions: Positions) -> Positions:
    """Return positions ascending, each once; `numpy.unique` hashes them, which takes much longer.

    >>> each_once(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    if not np.all(positions[1:] > positions[:-1]):
        positions = np.sort(positions)
        positions = positions[np.append(True, positions[1:] != positions[:-1])]
    return positions


def _are_pairs(selector: Any) -> bool:
    """Return whether a selector lists a data set and a name each, as a MultiIndex of pandas may."""
    is_list = isinstance(selector, list | tuple) and isinstance(next(iter(selector), None), tuple)
    if not is_list and getattr(selector, "nlevels", 1) != 2:
        return False
    return len(selector) > 0 and all(
        isinstance(item, tuple) and len(item) == 2 and all(isinstance(each, str) for each in item)
        for item in selector
    )


def _as_arrow(selector: Any, keyword: str) -> Any:
    """Return a column of Arrow, polars or pandas as one of Arrow; None of what numpy can have."""
    if isinstance(selector, pa.ChunkedArray | pa.Array):
        return selector
    dtype = getattr(selector, "dtype", None)
    if dtype is not None and hasattr(selector, "to_arrow"):
        return selector.to_arrow()
    if getattr(selector, "nlevels", 1) > 1 or not hasattr(selector, "array"):
        return None
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return None
    try:
        return pa.array(selector, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise errors.InvalidInputError(
            f"{keyword}= mixes types; pass names (strings), positions (integers) or a mask "
            "(booleans)"
        ) from error


def _of_arrow(axis: EntryAxis, column: Any, keyword: str, labels: Any) -> Positions:
    column = strings(column)
    kind = column.type
    if pa.types.is_boolean(kind) and len(column):
        mask = pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False)
        return _of_mask(axis, mask, keyword, labels)
    if column.null_count:
        raise errors.InvalidInputError(
            f"{keyword}= has {column.null_count:,} missing values; drop them, for example with "
            "dropna() or drop_nulls()"
        )
    if not len(column):
        return np.empty(0, np.int64)
    if pa.types.is_integer(kind):
        return integers(column, axis, keyword)
    if kind in (pa.string(), pa.large_string()):
        return axis.axis_indices(column)
    raise errors.InvalidInputError(
        f"{keyword}= holds {kind} values; pass names (strings), positions (integers) or a "
        "mask (booleans)"
    )


def _of_values(axis: EntryAxis, selector: Any, keyword: str) -> Positions:
    values = np.asarray(selector)
    if values.ndim != 1:
        raise errors.InvalidInputError(
            f"{keyword}= is neither SQL nor a list of names, positions or booleans: {selector!r}"
        )
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.dtype.kind == "b":
        return _of_mask(axis, values, keyword, getattr(selector, "index", None))
    if values.dtype.kind in "iu":
        return _checked(values, axis, keyword)
    if values.dtype.kind in "OUT" and all(isinstance(value, str) for value in values):
        is_list = isinstance(selector, list | tuple)  # numpy takes a NUL at the end for padding
        return axis.axis_indices(selector if is_list else values)
    raise errors.InvalidInputError(
        f"{keyword}= mixes types or holds {type(values[0]).__name__} values; pass names (strings), "
        "positions (integers) or a mask (booleans)"
    )


def _of_mask(axis: EntryAxis, mask: Any, keyword: str, labels: Any) -> Positions:
    what = f"the mask passed as {keyword}="
    if len(mask) != axis.length:
        raise errors.wrong_length(axis.location, what, len(mask), axis.axis, axis.length)
    axis.check_labels(labels, what)
    return np.flatnonzero(mask)


def strings(column: Any) -> Any:
    """Return a column with plain strings in place of categoricals and views."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if column.type == pa.string_view() else column


def integers(column: Any, axis: EntryAxis, keyword: str) -> Positions:
    """Return a column of positions, after checking that they are of an axis."""
    if not pa.types.is_integer(column.type):
        raise errors.QueryError(
            f"{keyword}=: the column {INDEX!r} holds {column.type}, not integers"
        )
    return _checked(column.to_numpy(zero_copy_only=False), axis, keyword)


def _checked(values: npt.NDArray[Any], axis: EntryAxis, keyword: str) -> Positions:
    outside = values[(values < 0) | (values >= axis.length)]
    if outside.size:
        raise errors.EntryNotFoundError(
            f"{axis.location}: {keyword}= asks for position {outside[0]:,} of axis {axis.axis!r}; "
            f"positions count from 0 to {axis.length - 1:,}"
        )
    positions: Positions = values.astype(np.int64)
    return positions
