"""Signatures group the tables that have the same schema."""

from __future__ import annotations

import numpy as np

from daf_query.table import AxisDataset
from daf_query.table._table_columns import signature_of
from daf_storage import MemoryDaf


def test_tables_of_one_signature_have_one_schema() -> None:
    """Another type or another name is another one; values and lengths are not."""
    signatures, schemas = [], []
    for rows, dtype, name in [(2, "i4", "age"), (5, "i4", "age"), (2, "i8", "age"), (2, "i4", "b")]:
        daf = MemoryDaf()
        daf.add_axis("cell", [f"c{row}" for row in range(rows)])
        daf.set_vector("cell", name, np.arange(rows).astype(dtype))
        table = AxisDataset(daf, "cell")
        signatures.append(signature_of(table.table_columns))
        schemas.append(table.schema)
    assert [each == signatures[0] for each in signatures] == [True, True, False, False]
    assert [each == schemas[0] for each in schemas] == [True, True, False, False]


def test_entries_of_matrices_have_no_signature() -> None:
    """A table with such a column is looked at by itself."""
    daf = MemoryDaf()
    daf.add_axis("cell", ["A"])
    daf.add_axis("gene", ["G"])
    daf.set_matrix("cell", "gene", "X", np.ones((1, 1)))
    table = AxisDataset(daf, "cell")
    assert signature_of(table.table_columns) is not None
    from_matrix = table.with_matrix_columns({})
    assert signature_of(from_matrix.table_columns) == signature_of(table.table_columns)
