"""An Arrow table as a pandas DataFrame that keeps booleans and integers beside missing ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from daf_storage.spi import optional_import


def pandas_frame(table: pa.Table) -> Any:
    """Return a table with numpy's types; of columns with missing ones, pandas' nullable types.

    Numpy has no missing booleans and integers: they would become objects and floats, which round
    beyond 2^53.
    """
    pandas = optional_import("pandas", extra="pandas")
    nullable = {
        pa.bool_(): pandas.BooleanDtype(),
        **{
            pa.from_numpy_dtype(name.lower()): getattr(pandas, f"{name}Dtype")()
            for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
        },
    }
    columns = [_each_value_once(column) for column in table.columns]
    frame = pa.table(columns, schema=table.schema).to_pandas()
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if column.null_count and column.type in nullable:
            frame[name] = column.to_pandas(types_mapper=nullable.get)
    return frame


def _each_value_once(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose dictionary has no value twice, which pandas refuses.

    The engine joins the dictionaries of batches end to end.  Those of several chunks become one by
    ``to_pandas``.
    """
    if column.num_chunks != 1 or not pa.types.is_dictionary(column.type):
        return column
    array = column.chunk(0)
    values = array.dictionary.unique()
    if len(values) == len(array.dictionary):
        return column
    codes = pc.index_in(array.dictionary, value_set=values).take(array.indices)
    unique = pa.DictionaryArray.from_arrays(codes, values, ordered=column.type.ordered)
    return pa.chunked_array([unique.cast(column.type)])
