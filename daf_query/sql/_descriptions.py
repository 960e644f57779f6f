"""Tables that describe data sets: the relations between their axes, and their matrices.

Made of metadata alone, whenever a query names one.  Of several data sets that are asked as one they
have the rows of all, and a column ``dataset`` like every table of theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset

from daf_query.matrix import open_layouts
from daf_query.table import DATASET
from daf_storage import DafReader
from daf_storage.data import StoredMatrix, axes_in_order
from daf_storage.errors import FormatError, MatrixNotFoundError, ReadOnlyError

MATRICES: Final = "matrices"
"""The table of the matrices, unless an axis has that name."""

RELATIONS: Final = "relations"
"""The table of the relations, unless an axis has that name."""

SCALARS: Final = "scalars"
"""The table of the scalars, unless an axis has that name."""

_RELATIONS: Final = pa.schema(
    [
        pa.field(name, pa.string(), nullable=False)
        for name in ("schema", "axis", "vector", "to_axis", "source")
    ]
)
_SCALARS: Final = pa.schema([(name, pa.string()) for name in ("name", "type", "value")])
_MATRICES: Final = pa.schema(
    [
        *(
            pa.field(name, pa.string(), nullable=False)
            for name in ("schema", "rows_axis", "columns_axis", "name", "type")
        ),
        pa.field("is_sparse", pa.bool_(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("layouts", "rows", "columns", "elements")
        ),
        pa.field("bytes", pa.int64()),
    ]
)


Described: TypeAlias = Mapping[str | None, DafReader]
"""Data sets, each by what the column ``dataset`` calls it; a single one by None."""
Description: TypeAlias = tuple[pa.dataset.Dataset, dict[str, str]]
"""A table, and why some of its rows are left out."""


def _relations_table(schema: str, described: Described) -> Description:
    """Return the relations: ``axis.vector`` has entries of ``to_axis``."""
    rows = [
        (dataset, (schema, one.axis, one.vector, one.to_axis, one.source))
        for dataset, daf in described.items()
        for one in daf.relations()
    ]
    return _table(described, _RELATIONS, rows), {}


def _matrices_table(schema: str, described: Described) -> Description:
    """Return the matrices, one row each, and why some are left out.

    ``layouts`` is 2 where the transpose is stored as well; if not, the stored one has the columns
    of ``columns_axis``.  ``elements`` are those that one layout stores; ``bytes`` are those of
    the arrays of all layouts without compression, NULL for strings.
    """
    problems: dict[str, str] = {}
    rows = [
        (dataset, (schema, *_matrix_row(stored)))
        for dataset, daf in described.items()
        for stored in _matrices(daf, problems)
    ]
    return _table(described, _MATRICES, rows), problems


def _matrices(daf: DafReader, problems: dict[str, str]) -> Iterator[list[StoredMatrix]]:
    """Yield the layouts of each matrix; those of which none is whole are problems."""
    for pair in itertools.combinations_with_replacement(axes_in_order(daf), 2):
        try:
            names = sorted(daf.matrices_set(*pair))
        except (FormatError, ReadOnlyError) as error:
            problems[f"the matrices of {' x '.join(pair)}"] = str(error)
            continue
        for name in names:
            try:
                layouts, faults = open_layouts(daf, pair, name)
            except (MatrixNotFoundError, ReadOnlyError) as error:
                layouts, faults = [], [FormatError(str(error))]
            if layouts:
                yield layouts
            elif daf.has_matrix(*pair, name):
                problems[f"{name!r} of {' x '.join(pair)}"] = str(faults[0])


def _matrix_row(layouts: list[StoredMatrix]) -> tuple[Any, ...]:
    info = layouts[0].info
    rows, columns = info.shape
    return (
        info.rows_axis,
        info.columns_axis,
        info.name,
        info.storage_type.value,
        info.is_sparse,
        len(layouts),
        rows,
        columns,
        rows * columns if info.nnz is None else info.nnz,
        _stored_bytes(layouts),
    )


def _stored_bytes(layouts: list[StoredMatrix]) -> int | None:
    arrays = [array.info for stored in layouts for array in stored.arrays().values()]
    if any(array.storage_type.is_string for array in arrays):
        return None
    return sum(array.size * array.storage_type.dtype.itemsize for array in arrays)


def _table(
    described: Described, schema: pa.Schema, rows: list[tuple[str | None, tuple[Any, ...]]]
) -> pa.dataset.Dataset:
    columns = [
        pa.array([values[place] for _, values in rows], field.type)
        for place, field in enumerate(schema)
    ]
    if None not in described:
        schema = schema.insert(0, pa.field(DATASET, pa.string(), nullable=False))
        columns.insert(0, pa.array([dataset for dataset, _ in rows], pa.string()))
    return pa.dataset.dataset(pa.table(columns, schema=schema))


def _scalars_table(_: str, described: Described) -> Description:
    """Return the scalars of a single data set: names, stored types and values as text."""
    rows: list[tuple[str | None, tuple[str, ...]]] = []
    problems = {}
    for daf in described.values():
        for name in sorted(daf.scalars_set()):
            try:
                row = (name, daf.scalar_type(name).value, _text(daf.get_scalar(name)))
                rows.append((None, row))
            except (FormatError, ReadOnlyError) as error:
                problems[f"the scalar {name!r}"] = str(error)
    return _table(described, _SCALARS, rows), problems


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


DESCRIPTIONS: Final = {
    MATRICES: _matrices_table,
    RELATIONS: _relations_table,
    SCALARS: _scalars_table,
}
"""What makes each of the tables, of a schema and its data sets."""
