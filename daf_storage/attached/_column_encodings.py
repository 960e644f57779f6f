"""The kinds of columns of obs and var, by their encodings."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from daf_storage.attached import _elements as elements
from daf_storage.attached._categorical_column import CategoricalColumn
from daf_storage.attached._columns import Column, HalfColumn, NoVector, PlainColumn, SeriesColumn
from daf_storage.attached._nullable_columns import (
    NullableColumn,
    NullableStrings,
    values_and_mask,
)
from daf_storage.base import pandas
from daf_storage.data import required_array
from daf_storage.errors import CorruptDataError, UnsupportedDataError
from daf_storage.trees import Node, StoredArray, Tree


def column_at(tree: Tree, path: str, *, is_old: bool = False) -> Column:
    """Return the column at a path of a file, by its metadata.

    Parameters
    ----------
    is_old
        Whether byte strings are text, as in the frames of AnnData 0.7.
    """
    node = tree.node(path)
    if node is None:
        raise CorruptDataError(f"{tree.location}: the column {path!r} is missing")
    if node.kind == "array":
        return _array_column(tree, path, node, is_old=is_old)
    encoding = elements.encoding_of(node)
    what = f"{tree.location}: {path}"
    if encoding == "categorical":
        categories = _categories(tree, f"{path}/categories")
        if categories is None:  # such as dates, or numbers with a mask
            return SeriesColumn((path,), functools.partial(_series_at, tree, path))
        return CategoricalColumn(
            (path,),
            lambda nodes: required_array(nodes[0], "codes", path),
            categories,
            is_ordered=bool(node.attribute("ordered")),
            what=what,
            pinned=lambda: (node,),
        )
    if encoding in ("nullable-integer", "nullable-boolean"):
        return NullableColumn(path, node, what=what)
    if encoding == "nullable-string-array":
        return NullableStrings(path, node, what=what)
    return SeriesColumn((path,), functools.partial(_series_at, tree, path))


def _categories(tree: Tree, path: str) -> StoredArray | None:
    """Return categories that are an array, or strings none of which is missing; None for others."""
    node = tree.node(path)
    if node is None or node.kind == "array":
        return None if elements.has_bytes(tree, path) else _readable(tree, path)
    if elements.encoding_of(node) != "nullable-string-array":
        return None
    values, mask = values_and_mask(node, f"{tree.location}: {path}")
    if mask.read().any():
        raise CorruptDataError(f"{tree.location}: {path}: one of the categories is missing")
    return values if values.info.size else None


def _readable(tree: Tree, path: str) -> StoredArray | None:
    """Return an array, by its metadata; None if Daf has no arrays of its type."""
    try:
        return elements.array_at(tree, path)
    except UnsupportedDataError:
        return None


def _array_column(tree: Tree, path: str, node: Node, *, is_old: bool) -> Column:
    folder, _, name = path.rpartition("/")
    old_categories = f"{folder}/__categories/{name}"
    if node.attribute("categories") is not None and tree.kind(old_categories) == "array":
        categories = _readable(tree, old_categories)
        if categories is None:  # such as dates
            return SeriesColumn((path,), lambda: _old_series(tree, path, old_categories))
        noted = tree.node(old_categories)
        return CategoricalColumn(
            (path, old_categories),
            lambda nodes: required_array(nodes[0], "", path),
            categories,
            is_ordered=noted is not None and bool(noted.attribute("ordered")),
            what=f"{tree.location}: {path}",
            pinned=lambda: (node,),
        )
    try:
        array = node.array()
    except UnsupportedDataError:
        return _unusual_column(tree, path)
    if (
        array is None
        or len(array.info.shape) != 1
        or node.attribute("categories") is not None
        or (not is_old and elements.has_bytes(tree, path))
    ):
        return SeriesColumn((path,), functools.partial(_series_at, tree, path))
    return PlainColumn(path, array.info)


def _unusual_column(tree: Tree, path: str) -> Column:
    """Return a column of numbers of a type that Daf has not."""
    shape, dtype = elements.shape_and_dtype(tree, path)
    if len(shape) == 1 and dtype == np.float16:
        return HalfColumn(tree, path)
    if len(shape) == 1 and dtype.kind == "c":
        return NoVector(path, f"Daf has no place for values of dtype {dtype}")
    return SeriesColumn((path,), functools.partial(_series_at, tree, path))


def _series_at(tree: Tree, path: str) -> Any:
    values = elements.read_value(tree, path)
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        values = values.astype(object)  # of which pandas makes no text
    return pandas(extra="anndata").Series(values)


def _old_series(tree: Tree, path: str, categories_path: str) -> Any:
    """Return a categorical as AnnData 0.7 stored it."""
    node = tree.node(categories_path)
    is_ordered = node is not None and bool(node.attribute("ordered"))
    values = pandas(extra="anndata").Categorical.from_codes(
        elements.read_value(tree, path),
        categories=elements.read_value(tree, categories_path),
        ordered=is_ordered,
    )
    return pandas(extra="anndata").Series(values)
