"""Arrow arrays of the values of a column, without a copy where that is possible.

NaN becomes NULL, because engines disagree on how NaN compares (greater than everything, or nothing)
and agree on NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage.base import StorageType, arrow_of, show_pandas, string_offsets

PLAIN_TYPES: Final = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
"""The types of views, which Arrow stores and cannot compare, and the types without views."""


def show_pandas_for(kind: pa.DataType) -> None:
    """Let pyarrow make values of pandas of times with nanoseconds, which Python's own lack."""
    if getattr(kind, "unit", "") == "ns":
        with suppress(ImportError):
            show_pandas()
    for number in range(kind.num_fields):
        show_pandas_for(kind.field(number).type)


def arrow_type(storage_type: StorageType) -> pa.DataType:
    """Return the Arrow type of a storage type.

    >>> arrow_type(StorageType.UINT8)
    DataType(uint8)
    """
    if storage_type.is_string:
        return pa.string()
    return pa.from_numpy_dtype(storage_type.dtype.newbyteorder("="))


def numpy_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return numpy's type of one of Arrow; pyarrow's own answer needs pandas in version 25.

    >>> numpy_type(pa.float32())
    dtype('float32')
    """
    dtype: np.dtype[Any] = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    return dtype


def number_array(values: Any) -> pa.Array:
    """Return numbers as Arrow without a copy (but for Bool); NaN becomes NULL.

    >>> number_array(np.array([1.5, np.nan])).to_pylist()
    [1.5, None]
    """
    array = arrow_of(values)
    if values.dtype.kind != "f":
        return array
    is_nan = np.isnan(values)
    null_count = int(np.count_nonzero(is_nan))
    if not null_count:
        return array
    validity = pa.py_buffer(np.packbits(~is_nan, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [validity, array.buffers()[1]], null_count)


def cast_to(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Return an array as another type, in a shape that engines can read.

    >>> codes = pa.array(["a", None, "a"]).dictionary_encode()
    >>> cast_to(codes, pa.string_view()).to_pylist()
    ['a', None, 'a']
    """
    if _has_type(array, arrow_type):
        return array
    if pa.types.is_dictionary(array.type):
        return parts_of(array, arrow_type)(0, len(array))
    if array.type in (pa.large_string(), pa.string_view()):
        array = array.cast(pa.string())
    if arrow_type in PLAIN_TYPES:
        array = pa.concat_arrays([array, array.slice(0, 0)])  # just what the rows have, not all
    return array.cast(arrow_type)


def _has_type(array: pa.Array, arrow_type: pa.DataType) -> bool:
    """Return whether an array is of a type, without a missing category, which few readers know."""
    is_encoded = pa.types.is_dictionary(array.type)
    return array.type == arrow_type and not (is_encoded and array.dictionary.null_count)


def parts_of(array: pa.Array, arrow_type: pa.DataType) -> Callable[[int, int], pa.Array]:
    """Return what makes rows of an array, from the first to before the last, as another type.

    Of codes it makes views of 16 bytes, which share the buffers of the distinct values.
    """
    if _has_type(array, arrow_type) or not pa.types.is_dictionary(array.type):
        return lambda start, stop: cast_to(array.slice(start, stop - start), arrow_type)
    if arrow_type not in PLAIN_TYPES:
        plain = plain_array(array.dictionary)
        if pa.types.is_dictionary(arrow_type):  # each category once, what is missing is none
            plain = plain.dictionary_encode()
        return lambda start, stop: plain.take(array.indices[start:stop]).cast(arrow_type)
    distinct = cast_to(array.dictionary, arrow_type)
    validity, views, *data = distinct.buffers()
    table = pa.Array.from_buffers(  # as bytes, of which Arrow takes as it does of numbers
        pa.binary(16), len(distinct), [validity, views], offset=distinct.offset
    )

    def views_of(start: int, stop: int) -> pa.Array:
        taken = table.take(array.indices[start:stop])
        return pa.Array.from_buffers(arrow_type, len(taken), [*taken.buffers(), *data])

    return views_of


def plain_array(array: pa.Array) -> pa.Array:
    """Return an array without codes and views, which Arrow stores and cannot compare."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    kind = pa.string() if pa.types.is_large_string(kind) else PLAIN_TYPES.get(kind, kind)
    return cast_to(array, kind)


def plain_schema(schema: pa.Schema, *, strings_only: bool = False) -> pa.Schema:
    """Return a schema without dictionaries and views, which few readers and drivers know.

    Parameters
    ----------
    strings_only
        Only views of strings become strings; the rest stays.

    >>> plain_schema(pa.schema([("type", pa.dictionary(pa.int8(), pa.string_view()))]))
    type: string
    """
    fields = [_plain_field(field, strings_only=strings_only) for field in schema]
    return pa.schema(fields, schema.metadata)


def _plain_field(field: pa.Field, *, strings_only: bool = False) -> pa.Field:
    return field.with_type(plain_type(field.type, strings_only=strings_only))


def plain_type(data_type: pa.DataType, *, strings_only: bool = False) -> pa.DataType:
    """Return a type without dictionaries and views; or just without views of strings.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string_view()))
    DataType(string)
    """
    types, plain = pa.types, partial(_plain_field, strings_only=strings_only)
    if types.is_dictionary(data_type) or types.is_run_end_encoded(data_type):
        return data_type if strings_only else plain_type(data_type.value_type)
    if types.is_struct(data_type):
        return pa.struct(list(map(plain, data_type)))
    if types.is_list(data_type) or types.is_list_view(data_type):
        return pa.list_(plain(data_type.value_field))
    if types.is_large_list(data_type) or types.is_large_list_view(data_type):
        return pa.large_list(plain(data_type.value_field))
    if types.is_fixed_size_list(data_type):
        return pa.list_(plain(data_type.value_field), data_type.list_size)
    is_kept = strings_only and not types.is_string_view(data_type)
    return data_type if is_kept else PLAIN_TYPES.get(data_type, data_type)


def converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the types of a schema.

    The engine computes with views, which few readers know, and would lose the order of the rows if
    it were asked for others above an ORDER BY; it forgets that a dictionary is ordered.

    >>> donors = pa.record_batch({"donor": pa.array(["N3"], pa.string_view())})
    >>> converted(donors, pa.schema({"donor": pa.string()})).schema
    donor: string
    """
    columns = list(map(cast_to, batch.columns, schema.types))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def size_bytes(values: Any) -> int:
    """Return the size of values of numpy or Arrow.

    >>> size_bytes(pa.array(["a"]).cast(pa.string_view())) > 0
    True
    """
    if isinstance(values, pa.Array) and values.type in PLAIN_TYPES:
        return int(values.get_total_buffer_size())  # pyarrow refuses the other one
    return int(values.nbytes)


def nulls_for_empty(strings: Any) -> Any:
    """Return strings with a null for each empty one; shares their memory.

    >>> nulls_for_empty(pa.array(["a", "", "b"])).to_pylist()
    ['a', None, 'b']
    """
    offsets = string_offsets(strings)
    is_valid = offsets[1:] != offsets[:-1]
    null_count = len(strings) - int(np.count_nonzero(is_valid))
    if not null_count:
        return strings
    start = strings.offset
    validity = np.packbits(np.concatenate([np.zeros(start, bool), is_valid]), bitorder="little")
    buffers = [pa.py_buffer(validity), *strings.buffers()[1:]]
    return pa.Array.from_buffers(strings.type, len(strings), buffers, null_count, start)
