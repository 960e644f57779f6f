"""Groups of the rows of a profile: values of vectors, and of expressions of SQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from daf_query.moments import STATISTICS, GroupValues
from daf_query.scan import INDEX, NAME
from daf_query.slice import expression_table
from daf_query.sql import AxisSchema, By, Engine, written_items
from daf_query.syntax import list_items, quoted_name, unquoted_name, without_name
from daf_query.table import DATASET
from daf_storage import DafReader, errors
from daf_storage.anndata import recorded_types


@dataclass(frozen=True)
class GroupedAxis:
    """An axis whose entries are grouped: of one data set, or of several as one."""

    tables: AxisSchema
    axis: str

    @cached_property
    def members(self) -> list[DafReader]:
        """The data sets that have the axis."""
        return [daf for daf in self.tables.readers().values() if daf.has_axis(self.axis)]

    @cached_property
    def vectors(self) -> frozenset[str]:
        """The names of its columns."""
        keys = {NAME, INDEX, *([DATASET] if self.tables.is_collection else [])}
        return frozenset(keys.union(*(daf.vectors_set(self.axis) for daf in self.members)))

    @property
    def length(self) -> int:
        """Its number of entries."""
        return self.tables.axis_length(self.axis)

    def categories(self, vector: str) -> pa.Array | None:
        """Return the categories of a vector in their order, if an import noted them.

        Those of a collection are those of all data sets that noted some.
        """
        listed: dict[str, None] = {}
        for daf in self.members:
            recorded = recorded_types(daf, self.axis, (vector,)).get(vector)
            if recorded is not None and recorded.categories is not None:
                listed.update(dict.fromkeys(recorded.categories.to_pylist()))
        return pa.array(list(listed), pa.string()) if listed else None


def group_values(
    engine: Engine, source: GroupedAxis, columns_axis: str, by: By
) -> list[GroupValues]:
    """Evaluate what the rows of a profile are grouped by.

    Raises
    ------
    QueryError, VectorNotFoundError
        An expression is wrong.
    InvalidInputError
        Two columns would have one name.
    """
    written: list[str] = []
    for text in written_items(by):
        written += [text] if text in source.vectors else list_items(text)
    groups: dict[str, GroupValues] = {}
    for text in written:
        expression, called = without_name(text)
        vector = expression.strip()
        vector = vector if vector in source.vectors else unquoted_name(vector)
        is_vector = vector in source.vectors
        name = called or (vector if is_vector else text.strip())
        if not name:
            raise errors.QueryError("by= is empty; pass a vector, or an expression of SQL")
        if name in groups or name in (columns_axis, *STATISTICS):
            what = "another group column" if name in groups else "another column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {name!r}; rename "
                f"the group column: by={f'{expression.strip()} AS group_1'!r}"
            )
        values = _values_of(engine, source, quoted_name(vector) if is_vector else expression)
        categories = source.categories(vector) if is_vector else None
        groups[name] = GroupValues(name, values, categories)
    return list(groups.values())


def _values_of(engine: Engine, source: GroupedAxis, expression: str) -> pa.Array:
    """Return the value of each entry of the axis, in its order."""
    by = f"by={expression.strip()!r}"
    try:
        table = expression_table(engine, source.tables.name, source.axis, expression)
    except errors.DafError as error:
        if "GROUP BY" not in str(error):
            raise errors.with_message(error, f"{by}, on axis {source.axis!r}: {error}") from None
        raise errors.QueryError(
            f"{by} is an aggregate, which has one value for all rows; group "
            "by what each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error
    index = table.column(0).to_numpy()
    order = np.argsort(index)
    if not np.array_equal(index[order], np.arange(source.length)):
        raise errors.QueryError(
            f"{by} yields {index.size:,} values for {source.length:,} entries of axis "
            f"{source.axis!r}; a group is one value for each"
        )
    values = table.column(1)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return values.combine_chunks().take(pa.array(order))
