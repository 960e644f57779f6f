"""The function ``category_order``: where a value stands among the categories of a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import datafusion
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.sql._axis_schema import AxisSchema
from daf_query.sql._data_set_schema import DafSchema
from daf_storage import errors
from daf_storage.spi import recorded_types

NAME: Final = "category_order"


def register_category_order(
    context: datafusion.SessionContext, schemas: Mapping[str, AxisSchema]
) -> None:
    """Make ``category_order('cell.stage', stage)`` a function of SQL.

    The engine sorts strings and dictionaries by their values: ORDER BY needs a number.
    """

    def category_order(names: pa.Array, values: pa.Array) -> pa.Array:
        if not len(names):
            return pa.array([], pa.int32())
        categories = _categories(schemas, str(names[0]))
        places = pc.index_in(values, value_set=categories)
        after = pa.scalar(len(categories), pa.int32())  # of values that are no category
        return pc.if_else(pc.and_(pc.is_null(places), pc.is_valid(values)), after, places)

    function = datafusion.udf(
        category_order, [pa.string(), pa.string()], pa.int32(), "stable", NAME
    )
    context.register_udf(function)


def _categories(schemas: Mapping[str, AxisSchema], name: str) -> pa.Array:
    """Return the categories of ``axis.column``, or of ``schema.axis.column``."""
    known: dict[str, pa.Array] = {}
    for schema in (each for each in schemas.values() if isinstance(each, DafSchema)):
        for axis in sorted(schema.axes_set()):
            for column, recorded in recorded_types(schema.daf, axis).items():
                if recorded.categories is not None:
                    known.setdefault(f"{axis}.{column}", recorded.categories)
                    known[f"{schema.name}.{axis}.{column}"] = recorded.categories
    if name not in known:
        listed = [each for each in known if each.count(".") == 1]
        has = errors.known_names(listed, none="none")
        raise errors.QueryError(
            f"{NAME}() knows no categories of {name!r}; there are those of {has}"
            f"{errors.nearest(name, listed)}"
        )
    return known[name]
