"""The columns of several tables as one: their names and common types.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from daf_query.scan import INDEX, NAME, numpy_type
from daf_query.table._columns import DATASET


def unified(
    schemas: Mapping[str, pa.Schema],
    table: str,
    broken: Mapping[str, str] = MappingProxyType({}),
    of_matrices: Mapping[str, set[pa.DataType]] = MappingProxyType({}),
) -> tuple[list[pa.Field], dict[str, str]]:
    """Return the columns of several tables as one, and why some cannot be.

    A column that is broken in one of them is left out of all: it is not missing there.

    Parameters
    ----------
    of_matrices
        The columns that are entries of matrices, and the types in which these are stored.

    >>> first, second = pa.schema([("n", pa.uint8())]), pa.schema([("n", pa.int16())])
    >>> unified({"a": first, "b": second}, "cell")[0][1:]
    [pyarrow.Field<n: int16>]
    """
    names = dict.fromkeys(name for schema in schemas.values() for name in schema.names)
    first = [name for name in (NAME, INDEX) if name in names]
    fields = [pa.field(DATASET, pa.string(), nullable=False)]
    problems = dict(broken)
    for name in (*first, *sorted(set(names) - {*first, *broken})):
        having = {
            key: schema.field(name) for key, schema in schemas.items() if name in schema.names
        }
        types_of = {field.type for field in having.values()}
        stored = of_matrices.get(name)
        shared_type = (
            common_type(types_of) if stored is None else value_type_of_all(types_of, stored)
        )
        if name == DATASET:
            problems[name] = (
                f"the axis {table!r} has a vector {name!r} of its own, which cannot be seen: the "
                "column of that name says of which data set a row is"
            )
        elif shared_type is None:
            types = ", ".join(f"{key}: {field.type}" for key, field in having.items())
            problems[name] = (
                f"the vector {name!r} of axis {table!r} has types that have none in common "
                f"({types}); connect the data sets one by one, and CAST it"
            )
        else:
            can_be_null = len(having) < len(schemas) or any(f.nullable for f in having.values())
            fields.append(pa.field(name, shared_type, nullable=can_be_null))
    return fields, problems


def value_type_of_all(shown: set[pa.DataType], stored: set[pa.DataType]) -> pa.DataType | None:
    """Return the type of the values of a matrix of several; booleans count as 0 and 1.

    Parameters
    ----------
    shown
        The types in which the table of each has them; see `value_type`.
    stored
        Those in which they are stored.

    Examples
    --------
    >>> value_type_of_all({pa.bool_(), pa.int64()}, {pa.bool_(), pa.int8()})
    DataType(int64)
    >>> value_type_of_all({pa.uint64(), pa.int64()}, {pa.uint64(), pa.uint8()})
    DataType(uint64)
    """
    return common_type(_numbers(shown)) or common_type(_numbers(stored))


def _numbers(types: set[pa.DataType]) -> set[pa.DataType]:
    return types if len(types) == 1 else types - {pa.bool_()}


def common_type(types: set[pa.DataType]) -> pa.DataType | None:
    """Return the smallest type that holds all values of some; ``None`` if there is none."""
    if len(types) == 1:
        return next(iter(types))
    if not all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in types):
        return None
    dtypes = [numpy_type(arrow_type) for arrow_type in types]
    common = np.result_type(*dtypes)
    are_integers = all(dtype.kind in "iu" for dtype in dtypes)
    if common.kind == "f" and are_integers:  # Int64 with UInt64
        return None
    return pa.from_numpy_dtype(common)
