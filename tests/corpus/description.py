"""A neutral description of an AnnData: nested dictionaries and lists of plain values, as in JSON.

It runs under each version of anndata of the corpus, so it knows no more of Python than 3.7 has.
Two AnnData are alike if their descriptions are: what pandas and numpy call a type of strings
differs between years, so that is left out unless ``exact`` asks for it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp


def describe(adata: Any, *, exact: bool = False) -> dict[str, Any]:
    """Return what is in an AnnData; ``exact`` adds the dtypes of columns and the sparse formats."""
    of = _Describer(exact=exact)
    described = {
        "obs": of.frame(adata.obs),
        "var": of.frame(adata.var),
        "X": of.value(adata.X),
        "raw": None,
        "uns": of.value(dict(adata.uns)),
    }
    for part in ("layers", "obsm", "varm", "obsp", "varp"):
        values = dict(getattr(adata, part, None) or {})
        keys = sorted(key for key in values if key is not None)  # None is X
        described[part] = {key: of.value(values[key]) for key in keys}
    if adata.raw is not None:
        described["raw"] = {
            "X": of.value(adata.raw.X),
            "var": of.frame(adata.raw.var),
            "varm": {key: of.value(adata.raw.varm[key]) for key in sorted(adata.raw.varm.keys())},
        }
    return described


class _Describer:
    """What a description is made by."""

    def __init__(self, *, exact: bool) -> None:
        self._exact = exact

    def frame(self, frame: Any) -> dict[str, Any]:
        """Return the names and the columns of a DataFrame, in their order."""
        return {
            "names": [_plain(name) for name in frame.index],
            "index_name": frame.index.name,
            "columns": [[str(name), self._column(frame[name])] for name in frame.columns],
        }

    def value(self, value: Any) -> Any:
        """Return a value of any type."""
        if isinstance(value, dict) or type(value).__name__ == "OverloadedDict":
            return {"dict": {str(key): self.value(value[key]) for key in sorted(value)}}
        if isinstance(value, pd.DataFrame):
            return {"frame": self.frame(value)}
        if isinstance(value, (pd.Series, pd.Categorical)) or hasattr(value, "isna"):
            return self._column(pd.Series(value))
        if sp.issparse(value) or type(value).__name__.endswith("SparseDataset"):
            return self._matrix(value)
        if isinstance(value, np.ndarray) and value.dtype.names:
            fields = [[name, self.value(value[name])] for name in value.dtype.names]
            return {"record": fields, "shape": list(value.shape)}
        if isinstance(value, np.ndarray):
            dense = {"values": _nested(value), "shape": list(value.shape)}
            return _with(dense, dtype=_dtype(value.dtype))
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return _plain(value)

    def _matrix(self, matrix: Any) -> dict[str, Any]:
        dense = matrix.toarray()
        described = {"values": _nested(dense), "shape": list(matrix.shape), "is_sparse": True}
        if self._exact:
            described["format"] = matrix.format
        return _with(described, dtype=_dtype(matrix.dtype))

    def _column(self, series: Any) -> dict[str, Any]:
        if str(series.dtype) == "category":
            categories = series.cat.categories
            return {
                "values": [
                    None if code < 0 else _plain(categories[code]) for code in series.cat.codes
                ],
                "categories": [_plain(value) for value in categories],
                "is_ordered": bool(series.cat.ordered),
            }
        described = {"values": [_plain(value) for value in series.astype(object)]}
        return _with(described, dtype=str(series.dtype) if self._exact else _dtype(series.dtype))


def _with(described: dict[str, Any], **more: Any) -> dict[str, Any]:
    described.update(more)
    return described


def _dtype(dtype: Any) -> str:
    """Return the name of a dtype, whatever its byte order; all types of strings have one name."""
    is_number = isinstance(dtype, np.dtype) and dtype.kind in "iufc"
    name = str(dtype.newbyteorder("=") if is_number else dtype)
    is_string = getattr(dtype, "kind", "O") in "OUST" or name.lower().startswith(("str", "object"))
    return "string" if is_string else name


def _nested(values: Any) -> Any:
    """Return an array as lists."""
    if values.ndim == 0:
        return _plain(values[()])
    return [_nested(part) if isinstance(part, np.ndarray) else _plain(part) for part in values]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON lacks becomes text or None."""
    if value is None or value is pd.NaT or value is getattr(pd, "NA", None):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else (None if math.isnan(number) else repr(number))
    return str(value)
