"""Calls that do not fit: names of other libraries, and arguments that are missing or wrong.

**Nouns.** A *foreign name* is what pandas, polars, DuckDB or scanpy call something that has another
name here.  It is no attribute: the error says what to write.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

from daf_storage import errors

_SAVE: Final = "save('rows.parquet'), or .csv, .tsv, .json, .ndjson, .arrow"
_SQL: Final = "SQL: GROUP BY, JOIN and window functions"
_SPELLED: Final = {
    "QueryResult": {
        "to_pandas()": "df to_df fetchdf fetch_df pandas toPandas as_pandas to_dataframe",
        "to_polars()": "pl polars",
        "to_arrow_table()": "arrow to_arrow fetch_arrow_table arrow_table",
        "to_pylist()": "fetchall fetchone fetchmany to_list to_dicts tolist",
        "to_pydict()": "to_dict",
        "to_pandas().to_numpy()": "to_numpy numpy fetchnumpy values",
        "column_names": "columns",
        "schema": "dtypes types description",
        "len(result) and column_names": "shape",
        _SAVE: "to_csv write_csv to_parquet write_parquet to_json write_json to_excel write_ipc",
        "sort('age DESC')": "sort_values order_by orderBy order",
        "filter('age > 60')": "where query",
        _SQL: "groupby group_by groupBy aggregate agg join merge with_columns assign pivot",
    },
    "MatrixSlice": {
        "to_pandas()": "df to_df",
        "to_scipy()": "to_csr tocsr to_csc to_sparse sparse",
        "to_numpy()": "X toarray todense to_array to_dense numpy",
        "to_anndata()": "obs var layers obsm adata",
        "save('slice.h5ad'), or .csv, .zarr and others": "to_csv write_csv write_h5ad write",
    },
    "DafSession": {
        "sql('SELECT ...')": "query execute run cursor select",
        "sql('SELECT * FROM AXIS LIMIT 5')": "head df fetchall",
        "sql('SELECT * FROM {} LIMIT 5')": "obs var cell gene",
        "tables()": "axes info list_tables show_tables keys",
        "matrix(rows_axis, columns_axis, name)": "X layers obsm varm shape",
        "matrix(rows_axis, columns_axis, name).to_anndata()": "to_anndata to_adata to_memory to_df",
        "profile(rows_axis, columns_axis, name, by=...)": "groupby group_by aggregate",
        "markers(rows_axis, columns_axis, name, by=...)": "rank_genes_groups",
    },
    "SessionPlots": {
        "embedding('X_umap')": "umap tsne pca",
        "profile(...).plot": "dotplot matrixplot",
    },
}
"""By what is written here, the foreign names of each class."""
FOREIGN_NAMES: Final = {
    kind: {name: here for here, names in spelled.items() for name in names.split()}
    for kind, spelled in _SPELLED.items()
}
"""The foreign names of each class, with what to write instead."""


class Advised:
    """Raises errors that say what to write for foreign names, and for calls that lack arguments."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, function in list(vars(cls).items()):
            if not name.startswith("_") and inspect.isfunction(function) and _needed(function):
                setattr(cls, name, _with_advice(function))

    def _choices(self, needed: list[str]) -> str:
        """Return what may be passed for the parameters of a method; empty if that is clear."""
        del needed
        return ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, whose own error says more
                return object.__getattribute__(self, name)
            kinds = (FOREIGN_NAMES.get(each.__name__, {}) for each in type(self).__mro__)
            here = next((found[name] for found in kinds if name in found), None)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            text += f"; write {here.format(name)}" if here else ""
            raise AttributeError(text, name=name, obj=self)


def _needed(function: Callable[..., Any]) -> list[str]:
    """Return the parameters of a method that have to be given, as they are written."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [
        f"{each.name}=..." if each.kind is each.KEYWORD_ONLY else each.name
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _with_advice(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that says what it needs, and what may be passed, if it is called without."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        try:
            return method(self, *arguments, **named)
        except TypeError:
            signature = inspect.signature(method)
            try:
                signature.bind(self, *arguments, **named)
            except TypeError as misfit:
                fault = str(misfit)
            else:
                raise
            if not isinstance(self, Advised):  # called of the class
                raise
        needed = _needed(method)
        usage = f"write {method.__name__}({', '.join(needed)})"
        optional = [
            f"{each.name}="
            for each in signature.parameters.values()
            if each.kind is each.KEYWORD_ONLY and each.default is not each.empty
        ]
        more = f"others are {', '.join(optional)}" if "missing" not in fault and optional else ""
        said = (f"{method.__name__}(): {fault}", usage, more, self._choices(needed))
        raise TypeError("; ".join(filter(None, said)))

    return call


def check_keywords(given: Iterable[str], choice: type, what: str) -> None:
    """Refuse keywords that a ``TypedDict`` does not have."""
    available = choice.__annotations__
    for name in given:
        if name not in available:
            raise errors.InvalidInputError(
                f"there is no {name}= of {what}; there is {errors.choices(name, available)}"
            )


def positive_number(value: object, argument: str, *, least: int = 1) -> int:
    """Return how many of something are asked for; refuse anything but an integer, 1 or more.

    >>> positive_number(2, "rows")
    2
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        kind = "positive whole number" if least else "whole number"
        raise errors.InvalidInputError(f"{argument}={value!r} is no {kind}; pass {least} or more")
    return int(value)
