"""Turn a list of names, positions or booleans, in any container, into positions of an axis."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, ValuesView
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.matrix import EntryAxis
from daf_query.scan import INDEX, NAME
from daf_query.table import arrow_table, is_user_table
from daf_storage import errors

_PLAIN_LISTS: Final = (list, tuple, range, np.ndarray)


def positions_of(daf: EntryAxis, axis: str, selector: Any, keyword: str) -> npt.NDArray[np.int64]:
    """Return the positions that a selector other than SQL chooses.

    Lists, columns and tables keep their order and their duplicates; a set has the order of the
    axis.  A missing boolean chooses nothing.
    """
    if type(selector) in _PLAIN_LISTS:  # most are: what follows tries what else there is
        return _of_values(daf, axis, selector, keyword)
    if isinstance(selector, slice):
        return np.arange(daf.axis_length(axis))[selector]
    if isinstance(selector, set | frozenset):
        return np.unique(_of_values(daf, axis, list(selector), keyword))
    if isinstance(selector, Iterator | KeysView | ValuesView):
        return _of_values(daf, axis, list(selector), keyword)
    if isinstance(selector, pa.ChunkedArray | pa.Array):
        return _of_arrow(daf, axis, selector, keyword)
    if is_table(selector):
        return positions_in(arrow_table(selector), daf, axis, keyword)
    dtype_kind = getattr(getattr(selector, "dtype", None), "kind", None)
    if hasattr(selector, "to_arrow") and hasattr(selector, "dtype"):
        return _of_arrow(daf, axis, selector.to_arrow(), keyword)
    is_extension = hasattr(selector, "array") and not isinstance(
        getattr(selector, "dtype", None), np.dtype
    )
    if is_extension or (dtype_kind == "O" and hasattr(selector, "array")):
        column = _arrow_of_pandas(selector, keyword)
        return _of_arrow(daf, axis, column, keyword, getattr(selector, "index", None))
    return _of_values(daf, axis, selector, keyword)


def is_table(selector: object) -> bool:
    """Return whether a selector has columns: a data frame, a result, an Arrow table."""
    is_column = hasattr(selector, "dtype") and not hasattr(selector, "columns")
    return is_user_table(selector) and not is_column


def _arrow_of_pandas(selector: Any, keyword: str) -> Any:
    try:
        return pa.array(selector, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise errors.InvalidInputError(
            f"{keyword}= mixes types; pass names (strings), positions (integers) or a mask "
            "(booleans)"
        ) from error


def positions_in(table: pa.Table, daf: EntryAxis, axis: str, keyword: str) -> npt.NDArray[np.int64]:
    """Return the positions of the entries that the rows of a result name."""
    for name in (INDEX, NAME):
        if name in table.column_names:
            column = table.column(name)
            _refuse_nulls(column, name, keyword)
            if name == NAME:
                return daf.axis_indices(axis, _strings(column))
            return _checked(_integers(column, keyword), daf, axis, keyword)
    raise errors.QueryError(
        f"{keyword}= yields {', '.join(table.column_names)}; it has to yield "
        f"the column {NAME!r} or {INDEX!r} of axis {axis!r}"
    )


def _of_arrow(
    daf: EntryAxis, axis: str, column: Any, keyword: str, labels: Any = None
) -> npt.NDArray[np.int64]:
    column = _strings(column)
    data_type = column.type
    if len(column) == 0 or pa.types.is_null(data_type):
        if len(column):
            _refuse_missing(column, keyword)
        return np.empty(0, np.int64)
    if pa.types.is_boolean(data_type):
        mask = pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False)
        return _of_mask(daf, axis, mask, keyword, labels)
    _refuse_missing(column, keyword)
    if pa.types.is_integer(data_type):
        return _checked(_as_int64(column.to_numpy()), daf, axis, keyword)
    if data_type in (pa.string(), pa.large_string()):
        return daf.axis_indices(axis, column)
    raise errors.InvalidInputError(
        f"{keyword}= holds {data_type} values; pass names (strings), positions (integers) or a "
        "mask (booleans)"
    )


def _of_values(daf: EntryAxis, axis: str, selector: Any, keyword: str) -> npt.NDArray[np.int64]:
    values = np.asarray(selector)
    if values.ndim != 1:
        raise errors.InvalidInputError(
            f"{keyword}= is neither SQL nor a list of names, positions or booleans: {selector!r}"
        )
    if values.size == 0:
        return np.empty(0, np.int64)
    if values.dtype.kind == "b":
        return _of_mask(daf, axis, values, keyword, getattr(selector, "index", None))
    if values.dtype.kind in "iu":
        return _checked(_as_int64(values), daf, axis, keyword)
    if values.dtype.kind in "OUT" and all(isinstance(value, str) for value in values):
        is_list = isinstance(selector, list | tuple)  # numpy takes a NUL at the end for padding
        return daf.axis_indices(axis, selector if is_list else values)
    raise errors.InvalidInputError(
        f"{keyword}= mixes types or holds {type(values[0]).__name__} values; pass names (strings), "
        "positions (integers) or a mask (booleans)"
    )


def _of_mask(
    daf: EntryAxis, axis: str, mask: Any, keyword: str, labels: Any
) -> npt.NDArray[np.int64]:
    what = f"the mask passed as {keyword}="
    length = daf.axis_length(axis)
    if len(mask) != length:
        raise errors.wrong_length(daf.location, what, len(mask), axis, length)
    daf.check_labels(axis, labels, what)
    return np.flatnonzero(mask)


def _strings(column: Any) -> Any:
    """Return a column with plain strings in place of categoricals and views."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if column.type == pa.string_view() else column


def _as_int64(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(np.iinfo(np.int64).max))
    positions: npt.NDArray[np.int64] = values.astype(np.int64)
    return positions


def _integers(column: Any, keyword: str) -> npt.NDArray[np.int64]:
    if not pa.types.is_integer(column.type):
        raise errors.QueryError(
            f"{keyword}=: the column {INDEX!r} holds {column.type}, not integers"
        )
    return _as_int64(column.to_numpy())


def _refuse_nulls(column: Any, name: str, keyword: str) -> None:
    if column.null_count:
        raise errors.QueryError(
            f"{keyword}= is a SELECT that yields NULL as {name!r} {column.null_count} times; "
            f"add: WHERE {name} IS NOT NULL"
        )


def _refuse_missing(column: Any, keyword: str) -> None:
    if column.null_count:
        raise errors.InvalidInputError(
            f"{keyword}= has {column.null_count:,} missing values; drop them, for example with "
            "dropna() or drop_nulls()"
        )


def _checked(
    positions: npt.NDArray[np.int64], daf: EntryAxis, axis: str, keyword: str
) -> npt.NDArray[np.int64]:
    length = daf.axis_length(axis)
    outside = positions[(positions < 0) | (positions >= length)]
    if outside.size:
        raise errors.EntryNotFoundError(
            f"{daf.location}: {keyword}= asks for position {outside[0]:,} of axis {axis!r}; "
            f"positions count from 0 to {length - 1:,}"
        )
    return positions
