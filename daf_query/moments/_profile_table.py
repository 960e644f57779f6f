"""A profile as an Arrow table: a row for each group and column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.matrix import Selection
from daf_query.moments._accumulator import Moments
from daf_query.scan import NAME, number_array

COUNTS: Final = ("count", "missing", "nonzero")
NUMBERS: Final = ("sum", "mean", "variance", "min", "max")
STATISTICS: Final = (*COUNTS, *NUMBERS)
"""The columns of numbers, in their order."""

_BYTES: Final = 8


def row_bytes(groups: Mapping[str, pa.Array]) -> int:
    """Return about how many bytes a row takes."""
    of_groups = sum(-(-array.nbytes // max(len(array), 1)) for array in groups.values())
    return int(of_groups) + _BYTES * (len(STATISTICS) + 1)


def profile_schema(groups: Mapping[str, pa.DataType], columns_axis: str) -> pa.Schema:
    """Return the names and types of the columns of a profile."""
    return pa.schema(
        [
            *groups.items(),
            (columns_axis, pa.dictionary(pa.int32(), pa.string())),
            *((name, pa.int64()) for name in COUNTS),
            *((name, pa.float64()) for name in NUMBERS),
        ]
    )


def profile_table(
    daf: Any,
    columns_axis: str,
    groups: Mapping[str, pa.Array],
    columns: Selection,
    moments: Moments,
) -> pa.Table:
    """Return the rows, group by group; the moments are not copied."""
    n_groups, n_columns = moments.count.size, columns.positions.size
    codes = pa.array(np.repeat(np.arange(n_groups), n_columns))
    arrays = {
        **{name: values.take(codes) for name, values in groups.items()},
        columns_axis: _entries(daf, columns_axis, columns, n_groups),
        "count": pa.array(np.repeat(moments.count, n_columns)),
        "missing": pa.array(moments.missing.reshape(-1)),
        "nonzero": pa.array(moments.nonzero.reshape(-1)),
        **{name: number_array(_flat(getattr(moments, name))) for name in NUMBERS},
    }
    return pa.table(
        arrays, profile_schema({name: each.type for name, each in groups.items()}, columns_axis)
    )


def _flat(values: Any) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(values).reshape(-1)


def _entries(daf: Any, axis: str, columns: Selection, n_groups: int) -> pa.DictionaryArray:
    """Return the entries of the selected columns, repeated for each group."""
    unique, codes = np.unique(columns.positions, return_inverse=True)
    names = daf.get_pa_vector(axis, NAME).take(pa.array(unique)).cast(pa.string())
    repeated = np.tile(codes.reshape(-1).astype(np.int32), n_groups)
    return pa.DictionaryArray.from_arrays(pa.array(repeated), names)
