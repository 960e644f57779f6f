"""Tables as lazy data frames of other engines, which push columns, filters and limits down.

**Nouns.** A *source* is a table as an engine asks for its rows: which columns, which filter, how
many rows.  What a filter says that the scan evaluates alike is *pushed*; the rest is evaluated by
the engine, on the rows that are left.

polars spells an expression as JSON.  A part is pushed only where the table is certain to answer as
polars does: comparisons of a column with a constant of its own type, lists of such constants,
missing values, booleans, and what AND, OR and NOT make of them.  Releases of polars may spell the
rest in other ways, which are then not recognised, and evaluated by polars.

Must not know SQL, sessions, or where a table comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_query.scan import BATCH_ROWS, COMPARISONS
from daf_query.table import CATEGORIES, TableDataset
from daf_storage import errors
from daf_storage._lazy import lazy_module, pc
from daf_storage.base import optional_import

polars: Any = lazy_module("polars")

_COMPARISONS: Final = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
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

_STRINGS: Final = (pa.string_view(), pa.large_string())
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
        return dict(polars.from_arrow(self.table.schema.empty_table()).schema) | self._enums()

    def _enums(self) -> dict[str, Any]:
        """Return the types of ordered categoricals."""
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
                f"categories ({errors.shown_names(enum.categories.to_list())}); "
                'connect with categoricals="string"'
            )
    return enums


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
    types = dict(zip(schema.names, schema.types, strict=True))
    parts = list(_conjuncts(tree))
    pushed = []
    for part in parts:
        with suppress(_NotPushedError, LookupError, TypeError, ValueError, pa.ArrowException):
            pushed.append(_translated(part, types))
    expression = reduce(and_, pushed) if pushed else None
    return PushedFilter(expression, is_whole=len(pushed) == len(parts))


def _conjuncts(node: Any) -> Iterator[Any]:
    """Yield what a predicate joins by AND."""
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield node


class _NotPushedError(Exception):
    """A part of a predicate that polars has to evaluate."""


def _translated(node: Any, types: Mapping[str, pa.DataType]) -> pc.Expression:
    """Return a node of polars' JSON that is true, false or null as an expression of Arrow.

    Raises
    ------
    _NotPushedError
        It has to be evaluated by polars; as it has where a name or a value is of another kind.
    """
    match node:
        case {"Column": name} if types[name] == pa.bool_():
            return pc.field(name)
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return _translated(left, types) & _translated(right, types)
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return _translated(left, types) | _translated(right, types)
        case {
            "BinaryExpr": {"left": {"Literal": value}, "op": "Eq" | "NotEq" as op, "right": column}
        }:  # polars turns the others around
            return _compared(column, op, value, types)
        case {"BinaryExpr": {"left": column, "op": op, "right": {"Literal": value}}}:
            return _compared(column, op, value, types)
        case {"Function": {"input": given, "function": {"Boolean": function}}}:
            return _function(function, given, types)
    raise _NotPushedError


def _function(function: Any, given: Any, types: Mapping[str, pa.DataType]) -> pc.Expression:
    match function, given:
        case "Not", [node]:
            return ~_translated(node, types)
        case "IsNull" | "IsNotNull", [{"Column": name}] if types[name] in _TYPES.values():
            missing = pc.field(name).is_null()
            return missing if function == "IsNull" else ~missing
        case {"IsBetween": {"closed": ends}}, [column, {"Literal": low}, {"Literal": high}]:
            least, most = _BETWEEN[ends]
            above, below = (least, low), (most, high)
            return _compared(column, *above, types) & _compared(column, *below, types)
        case ({"IsIn": how}, [{"Column": name}, {"Literal": {"Scalar": {"List": listed}}}]):
            values = pa.ipc.open_stream(bytes(listed)).read_all().column(0)
            of_strings = types[name] == pa.string() and values.type in _STRINGS
            is_comparable = of_strings or (values.type == types[name] in _TYPES.values())
            is_missing = pc.any(pc.is_null(values, nan_is_null=True)).as_py()
            if is_comparable and len(values) and not (is_missing or how.get("nulls_equal")):
                return pc.field(name).isin(values.cast(types[name]).combine_chunks())
    raise _NotPushedError


def _compared(
    column: Any, operator: str, literal: Any, types: Mapping[str, pa.DataType]
) -> pc.Expression:
    """Return a comparison of a column with a constant of its type, which polars has made it."""
    match column:
        case {"Column": name}:
            kind = types[name]
        case {"Cast": {"expr": {"Column": name}, "dtype": {"Literal": "Float64"}}}:
            kind = pa.float64()  # numbers compared with a fraction
            if types[name] not in _EXACT_IN_FLOAT64:
                raise _NotPushedError
        case _:
            raise _NotPushedError
    [(type_name, constant)] = literal.get("Scalar", literal).items()
    if _TYPES[type_name] != kind or constant is None:
        raise _NotPushedError
    if kind == pa.float32():
        constant = np.float32(constant)
    return COMPARISONS[_COMPARISONS[operator]](pc.field(name), pa.scalar(constant, kind))
