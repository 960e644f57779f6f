"""Tables as pyarrow datasets: an axis, the union of several, a matrix, or a group of Zarr arrays.

**Nouns.** A *table* has a schema and columns of one length; DataFusion, DuckDB and polars scan it
through the protocol of ``pyarrow.dataset``.  A *union* joins the tables of several data sets row
by row.  A *Zarr table* is any group of aligned one-dimensional Zarr arrays.  The *long form* of a
matrix is a table with a row for each of its elements.

Must not know SQL or DataFusion.
"""

from typing import TYPE_CHECKING

from daf_query.table._arrow_face import ComputedDataset, nullable
from daf_query.table._axis_dataset import (
    AxisDataset,
    axis_columns,
    broken_columns,
    entry_not_found,
    find_entry,
    with_matrix_columns,
)
from daf_query.table._columns import (
    CATEGORIES,
    DATASET,
    GEOMETRY,
    META,
    BrokenColumns,
    Categoricals,
    MatrixEntry,
    TableColumns,
    UnreadableVectorWarning,
    category_columns,
    check_column_names,
    warn_of_problems,
    warn_once,
    with_categories,
)
from daf_query.table._dataset import TableDataset, TableView
from daf_query.table._fragments import ROWS_PER_FRAGMENT, Fragment, Piece, TableFragment
from daf_query.table._matrix_dataset import MatrixDataset, matrix_union
from daf_query.table._union import Members, UnionDataset
from daf_query.table._user_table import (
    UserTable,
    arrow_table,
    is_user_table,
    table_format,
    table_name,
    user_table,
)
from daf_storage._lazy import lazy_names

if TYPE_CHECKING:  # these need zarr-python
    from daf_query.table._zarr import (
        ATTRIBUTE,
        INDEXES,
        PENDING,
        ZarrTable,
        zarr_table,
    )
    from daf_query.table._zarr_columns import register_raw_bits

__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        "daf_query.table._zarr_columns": ("register_raw_bits",),
        "daf_query.table._zarr": (
            "ATTRIBUTE",
            "INDEXES",
            "PENDING",
            "ZarrTable",
            "zarr_table",
        ),
    },
)
