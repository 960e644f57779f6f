"""Tables that describe data sets: the relations between their axes, and their matrices.

Made of metadata alone, whenever a query names one.  Of several data sets that are asked as one they
have the rows of all, and a column ``dataset`` like every table of theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query import matrix
from daf_query import table as tables
from daf_storage import DafReader
from daf_storage._lazy import ds
from daf_storage.data import StoredMatrix, axes_in_order
from daf_storage.errors import FormatError, MatrixNotFoundError, ReadOnlyError

MATRICES: Final = "matrices"
"""The table of the matrices, unless an axis has that name."""

RELATIONS: Final = "relations"
"""The table of the relations, unless an axis has that name."""

SCALARS: Final = "scalars"
"""The table of the scalars, unless an axis has that name."""

Described: TypeAlias = Mapping[str | None, DafReader]
"""Data sets, each by what the column ``dataset`` calls it; a single one by None."""
Description: TypeAlias = "tuple[ds.Dataset, dict[str, str]]"
"""A table, and why some of its rows are left out."""
_Row: TypeAlias = dict[str, Any]


def _fields(type_: pa.DataType, *names: str) -> list[pa.Field]:
    return [pa.field(name, type_) for name in names]


_RELATIONS: Final = pa.schema(
    _fields(pa.string(), "schema", "axis", "vector", "to_axis", "source"),
)
_MATRICES: Final = pa.schema(
    [
        *_fields(pa.string(), "schema", "rows_axis", "columns_axis", "name", "type"),
        *_fields(pa.bool_(), "is_sparse"),
        *_fields(pa.int64(), "layouts", "rows", "columns", "elements"),
        *_fields(pa.int64(), "bytes"),
    ]
)
_SCALARS: Final = pa.schema(_fields(pa.string(), "name", "type", "value"))


def _relations(daf: DafReader, _: dict[str, str]) -> Iterator[_Row]:
    """Yield the relations: ``axis.vector`` has entries of ``to_axis``."""
    for one in daf.relations():
        yield {name: getattr(one, name) for name in ("axis", "vector", "to_axis", "source")}


def _matrices(daf: DafReader, problems: dict[str, str]) -> Iterator[_Row]:
    """Yield the matrices; those of which no layout is whole are problems.

    ``layouts`` is 2 where the transpose is stored as well; if not, the stored one has the columns
    of ``columns_axis``.  ``elements`` are those that one layout stores; ``bytes`` are those of
    the arrays of all layouts without compression, NULL for strings.
    """
    for pair in itertools.combinations_with_replacement(axes_in_order(daf), 2):
        try:
            names = sorted(daf.matrices_set(*pair))
        except (FormatError, ReadOnlyError) as error:
            problems[f"the matrices of {' x '.join(pair)}"] = str(error)
            continue
        for name in names:
            try:
                layouts, faults = matrix.open_layouts(daf, pair, name)
            except (MatrixNotFoundError, ReadOnlyError) as error:
                layouts, faults = [], [FormatError(str(error))]
            if layouts:
                yield _matrix(layouts)
            elif daf.has_matrix(*pair, name):
                problems[f"{name!r} of {' x '.join(pair)}"] = str(faults[0])


def _matrix(layouts: list[StoredMatrix]) -> _Row:
    info = layouts[0].info
    rows, columns = info.shape
    arrays = [array.info for stored in layouts for array in stored.arrays().values()]
    is_string = any(array.storage_type.is_string for array in arrays)
    return {
        "rows_axis": info.rows_axis,
        "columns_axis": info.columns_axis,
        "name": info.name,
        "type": info.storage_type.value,
        "is_sparse": info.is_sparse,
        "layouts": len(layouts),
        "rows": rows,
        "columns": columns,
        "elements": rows * columns if info.nnz is None else info.nnz,
        "bytes": None
        if is_string
        else sum(array.size * array.storage_type.dtype.itemsize for array in arrays),
    }


def _scalars(daf: DafReader, problems: dict[str, str]) -> Iterator[_Row]:
    """Yield the scalars of a single data set: names, stored types and values as text."""
    for name in sorted(daf.scalars_set()):
        try:
            value = daf.get_scalar(name)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield {"name": name, "type": daf.scalar_type(name).value, "value": text}
        except (FormatError, ReadOnlyError) as error:
            problems[f"the scalar {name!r}"] = str(error)


def _table(
    columns: pa.Schema,
    rows_of: Callable[[DafReader, dict[str, str]], Iterator[_Row]],
    schema: str,
    described: Described,
) -> Description:
    """Return what is described, one row each, and why some are left out."""
    problems: dict[str, str] = {}
    rows = [
        {tables.DATASET: dataset, "schema": schema, **row}
        for dataset, daf in described.items()
        for row in rows_of(daf, problems)
    ]
    if None not in described and "schema" in columns.names:
        columns = columns.insert(0, pa.field(tables.DATASET, pa.string()))
    return ds.dataset(pa.Table.from_pylist(rows, columns)), problems


DESCRIPTIONS: Final = {
    MATRICES: partial(_table, _MATRICES, _matrices),
    RELATIONS: partial(_table, _RELATIONS, _relations),
    SCALARS: partial(_table, _SCALARS, _scalars),
}
"""What makes each of the tables, of a schema and its data sets."""
