"""Tables as sources of polars: a LazyFrame that reads what its query needs.

polars spells an expression as JSON.  A part is pushed only where the table is certain to answer as
polars does: comparisons of a column with a constant of its own type, lists of such constants,
missing values, booleans, and what AND, OR and NOT make of them.  Releases of polars may spell the
rest in other ways, which are then not recognised, and evaluated by polars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.scan import COMPARISONS
from daf_query.table import CATEGORIES, TableDataset
from daf_storage import errors
from daf_storage.base import optional_import

BATCH_ROWS: Final = 1 << 17

_COMPARISONS: Final = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED: Final = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_CONJUNCTIONS: Final = ("And", "LogicalAnd")
_DISJUNCTIONS: Final = ("Or", "LogicalOr")
_BETWEEN: Final = {
    "Both": ("GtEq", "LtEq"),
    "Left": ("GtEq", "Lt"),
    "Right": ("Gt", "LtEq"),
    "None": ("Gt", "Lt"),
}
_TYPES: Final = {
    "Boolean": pa.bool_(),
    "String": pa.string(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "Float32": pa.float32(),
    "Float64": pa.float64(),
}
"""Types by polars' names for them."""

_EXACT_IN_FLOAT64: Final = tuple(
    _TYPES[name] for name in ("Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32")
)


def scan_polars(table: TableDataset) -> Any:
    """Return a table as a ``polars.LazyFrame``; nothing is read until it is collected.

    Columns, predicates and limits are pushed into the scan, and rows come in batches, so that the
    streaming engine need not hold them all.  A predicate, or a part of one, that the scan does not
    know is evaluated by polars; the rows are the same.

    Parameters
    ----------
    table
        Any table: of an axis, of several data sets, the long form of a matrix, of Zarr arrays.

    Returns
    -------
    polars.LazyFrame
        Strings as ``String``, numbers as stored, NaN as null; categoricals of a session with
        ``categoricals="dictionary"`` as ``Categorical``, ordered ones as ``Enum``.  It can be
        serialised: it holds the path of the data set, which the other process opens.

    Examples
    --------
    >>> import daf_storage, polars as pl
    >>> from daf_query import AxisDataset
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> scan_polars(AxisDataset(daf, "cell")).filter(pl.col("age") > 40).collect().to_dicts()
    [{'name': 'GATA', 'index': 1, 'age': 60}]
    """
    plugins = optional_import("polars.io.plugins", extra="polars")
    source = PolarsSource(table)
    return plugins.register_io_source(source, schema=source.schema)


@dataclass(frozen=True)
class PolarsSource:
    """A table as polars asks for its rows."""

    table: TableDataset

    @property
    def schema(self) -> dict[str, Any]:
        """The types of its columns."""
        polars = optional_import("polars", extra="polars")
        return dict(polars.from_arrow(self.table.schema.empty_table()).schema) | self._enums()

    def _enums(self) -> dict[str, Any]:
        """Return the types of ordered categoricals."""
        polars = optional_import("polars", extra="polars")
        return {
            field.name: polars.Enum(json.loads(field.metadata[CATEGORIES]))
            for field in self.table.schema
            if pa.types.is_dictionary(field.type)
            and field.type.ordered
            and CATEGORIES in (field.metadata or {})
        }

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[Any]:
        """Yield data frames.

        Parameters
        ----------
        with_columns
            The columns, in their order; ``None`` for all.
        predicate
            Only rows for which this expression is true; of the first ``n_rows``, if both are given.
        n_rows
            Not more than so many.
        batch_size
            How many at a time, about.
        """
        table = self.table
        pushed = pushed_filter(predicate if n_rows is None else None, table.schema)
        is_whole = pushed.is_whole and (n_rows is None or predicate is None)
        columns = list(self.table.schema.names if with_columns is None else with_columns)
        needed = columns if is_whole else [*dict.fromkeys([*columns, *predicate.meta.root_names()])]
        schema = pa.schema([table.schema.field(name) for name in needed])
        if n_rows is None:
            rows = table.scanner(needed, pushed.expression, batch_size or BATCH_ROWS).to_batches()
        else:
            rows = table.first(schema, table.predicate_of(None), n_rows)
        for frame in self._frames(rows, schema):
            yield (frame if is_whole else frame.filter(predicate)).select(columns)

    def _frames(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[Any]:
        """Yield batches as data frames; an empty one if there are none."""
        polars = optional_import("polars", extra="polars")
        enums = {name: enum for name, enum in self._enums().items() if name in schema.names}
        is_empty = True
        for batch in batches:
            is_empty = False
            frame = polars.from_arrow(batch, rechunk=False)
            yield frame.cast(_checked(enums, batch)) if enums else frame
        if is_empty:
            yield polars.from_arrow(schema.empty_table()).cast(enums)


def _checked(enums: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
    """Return types that have all categories of a batch, or raise."""
    for name, enum in enums.items():
        others = set(batch.column(name).dictionary.to_pylist()) - set(enum.categories.to_list())
        if others:
            raise errors.UnsupportedDataError(
                f"the column {name!r} has the value {min(others)!r}, which is none of its noted "
                f"categories ({errors.shown_names(enum.categories.to_list(), none='none')}); "
                'connect with categoricals="string"'
            )
    return enums


class NotPushedError(Exception):
    """A part of a predicate that polars has to evaluate."""


@dataclass(frozen=True, slots=True)
class PushedFilter:
    """What a table evaluates of a predicate."""

    expression: pc.Expression | None
    """True for every row for which the predicate is; ``None`` is no filter."""
    is_whole: bool
    """Whether it is true for no other row."""


def pushed_filter(predicate: Any, schema: pa.Schema) -> PushedFilter:
    """Return what a table evaluates of an expression of polars; ``None`` is no predicate.

    >>> import polars as pl
    >>> schema = pa.schema([("age", pa.int64()), ("donor", pa.string())])
    >>> pushed_filter((pl.col("donor") == "N1") & pl.col("donor").str.contains("N"), schema)
    PushedFilter(expression=<pyarrow.compute.Expression (donor == "N1")>, is_whole=False)
    """
    if predicate is None:
        return PushedFilter(None, is_whole=True)
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001 - what polars cannot spell, such as a Python function
        return PushedFilter(None, is_whole=False)
    parts = list(_conjuncts(tree))
    translated = [
        part for part in (_translated(part, schema) for part in parts) if part is not None
    ]
    expression = reduce(and_, translated) if translated else None
    return PushedFilter(expression, is_whole=len(translated) == len(parts))


def _conjuncts(node: Any) -> Iterator[Any]:
    """Yield what a predicate joins by AND."""
    binary = node.get("BinaryExpr") if isinstance(node, dict) else None
    if binary is not None and binary.get("op") in _CONJUNCTIONS:
        yield from _conjuncts(binary["left"])
        yield from _conjuncts(binary["right"])
    else:
        yield node


def _translated(node: Any, schema: pa.Schema) -> pc.Expression | None:
    """Return a part as an expression of Arrow; ``None`` if polars has to evaluate it."""
    try:
        return _Translator(schema).predicate(node)
    except (NotPushedError, LookupError, TypeError, ValueError, pa.ArrowException):
        return None


class _Translator:
    """Expressions of Arrow for nodes of polars' JSON, over the columns of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def predicate(self, node: Any) -> pc.Expression:
        """Return a node that is true, false or null."""
        if "BinaryExpr" in node:
            return self._binary(**node["BinaryExpr"])
        if "Function" in node:
            return self._function(node["Function"])
        name = node["Column"]
        self._require(self._schema.field(name).type == pa.bool_())
        return pc.field(name)

    def _binary(self, left: Any, op: str, right: Any) -> pc.Expression:
        if op in _CONJUNCTIONS:
            return self.predicate(left) & self.predicate(right)
        if op in _DISJUNCTIONS:
            return self.predicate(left) | self.predicate(right)
        if "Literal" in left:
            left, right, op = right, left, _MIRRORED.get(op, op)
        return self._compared(left, op, right)

    def _function(self, node: Any) -> pc.Expression:
        given, function = node["input"], node["function"]["Boolean"]
        if function == "Not":
            return ~self.predicate(given[0])
        if function in ("IsNull", "IsNotNull"):
            is_null = pc.field(self._column(given[0])).is_null()
            return is_null if function == "IsNull" else ~is_null
        if "IsBetween" in function:
            least, most = _BETWEEN[function["IsBetween"]["closed"]]
            column, low, high = given
            return self._compared(column, least, low) & self._compared(column, most, high)
        return self._listed(*given, **function["IsIn"])

    def _compared(self, column: Any, operator: str, literal: Any) -> pc.Expression:
        compare = COMPARISONS[_COMPARISONS[operator]]
        if "Cast" in column:  # numbers compared with a fraction
            cast = column["Cast"]
            name = self._column(cast["expr"])
            self._require(cast["dtype"] == {"Literal": "Float64"})
            self._require(self._schema.field(name).type in _EXACT_IN_FLOAT64)
            return compare(pc.field(name), self._constant(literal, pa.float64()))
        name = self._column(column)
        return compare(pc.field(name), self._constant(literal, self._schema.field(name).type))

    def _listed(self, column: Any, values: Any, *, nulls_equal: bool = False) -> pc.Expression:
        """Return whether a column is one of some values, of which none is missing."""
        name = self._column(column)
        stored = pa.ipc.open_stream(bytes(values["Literal"]["Scalar"]["List"])).read_all().column(0)
        arrow_type = self._schema.field(name).type
        is_string = arrow_type == pa.string() and stored.type in (
            pa.string_view(),
            pa.large_string(),
        )
        self._require(not nulls_equal and (is_string or stored.type == arrow_type))
        self._require(len(stored) > 0 and not stored.null_count and not _has_nan(stored))
        return pc.field(name).isin(stored.cast(arrow_type).combine_chunks())

    def _constant(self, literal: Any, arrow_type: pa.DataType) -> pa.Scalar:
        """Return a constant of the type of a column; polars has made it that where it can."""
        value = literal["Literal"]
        value = value.get("Scalar", value)
        [(type_name, constant)] = value.items()
        self._require(_TYPES[type_name] == arrow_type and constant is not None)
        if arrow_type == pa.float32():
            constant = np.float32(constant)
        return pa.scalar(constant, arrow_type)

    def _column(self, node: Any) -> str:
        name = str(node["Column"])
        self._require(self._schema.field(name).type in _TYPES.values())
        return name

    @staticmethod
    def _require(condition: bool) -> None:  # noqa: FBT001 - an assertion
        if not condition:
            raise NotPushedError


def _has_nan(values: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py())
