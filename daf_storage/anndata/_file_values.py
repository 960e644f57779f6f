"""Values as an h5ad file can hold them: what anndata cannot write is changed, or named as lost."""

from __future__ import annotations

import functools
import posixpath
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from daf_storage._lazy import sp
from daf_storage.anndata._parts import named
from daf_storage.anndata._restored import Report
from daf_storage.base import free_name, optional_import, pandas
from daf_storage.data import kept
from daf_storage.errors import UnsupportedInputError
from daf_storage.trees import hdf5_output

_RESERVED = "_index"


def writable_frame(frame: Any, part: str, report: Report) -> Any:
    """Turn columns that an h5ad file cannot hold into ones that it can, and say so."""
    frame = _with_writable_names(frame.copy(deep=False), part, report)
    for column in frame.columns:
        series, what = frame[column], f"{part}[{column!r}]"
        if series.ndim == 1:
            frame[column] = _writable_column(series, what, report)
    return frame


def write_anndata(adata: Any, path: str | Path, *, file_format: str = "h5ad") -> Report:
    """Write an AnnData in memory as a file; its ``obs`` and ``var`` are changed to fit.

    Parameters
    ----------
    file_format
        ``h5ad`` for an HDF5 file, ``zarr`` for a directory.

    Returns
    -------
    Report
        Columns that an h5ad file cannot hold as they were.
    """
    anndata = optional_import("anndata", extra="anndata")
    report = Report()
    for part in ("obs", "var"):
        setattr(adata, part, writable_frame(getattr(adata, part), part, report))
    for part in ("obsm", "varm"):
        matrices = getattr(adata, part)
        for key, value in matrices.items():
            matrices[key] = _with_writable_columns(value, f"{part}[{key!r}]", report)
    if file_format != "zarr":
        with hdf5_output(Path(path)) as (file, check):
            write_parts(file, adata, check)
        return report
    with anndata.settings.override(allow_write_nullable_strings=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Writing zarr v2", UserWarning)  # all versions read it
        adata.write_zarr(path, convert_strings_to_categoricals=False)
    return report


def write_parts(file: Any, adata: Any, check: Callable[[], None]) -> None:
    """Write an AnnData in memory into a new h5ad file, as ``write_h5ad`` does.

    Parameters
    ----------
    check
        Called after each part: raises if it could not be written.

    Raises
    ------
    UnsupportedInputError
        It has a string that HDF5 cannot hold.
    """
    anndata = optional_import("anndata", extra="anndata")
    file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    parts = {"X": adata.X, "raw": adata.raw, "obs": adata.obs, "var": adata.var}
    for name in ("obsm", "varm", "obsp", "varp", "layers", "uns"):
        parts[name] = named(getattr(adata, name))
    write = functools.partial(_write_element, check)
    with anndata.settings.override(allow_write_nullable_strings=True):
        for name, part in parts.items():
            if part is not None:
                anndata.experimental.write_dispatched(file, name, part, write)


def _write_element(
    check: Callable[[], None],
    write: Callable[..., None],
    group: Any,
    key: str,
    element: Any,
    *,
    dataset_kwargs: Any,
    iospec: Any,  # noqa: ARG001 - part of anndata's call
) -> None:
    """Write what anndata has cut an AnnData into."""
    try:
        write(group, key, element, dataset_kwargs=dataset_kwargs)
    except ValueError as error:
        if "NULL" not in str(error):
            raise
        where = posixpath.join(group.name, key).strip("/").removesuffix("/values")  # beside a mask
        raise UnsupportedInputError(
            f"{Path(group.file.filename).name}: {where} cannot be stored in HDF5, whose strings "
            "end at the first NUL character; replace those strings, or leave them out"
        ) from error
    check()


def _with_writable_columns(value: Any, what: str, report: Report) -> Any:
    """Give other names to columns of a data frame that are no keys; all else is as it was."""
    if not isinstance(value, pandas().DataFrame):
        return value
    taken = set(value.columns)
    renamed = {}
    for name in value.columns:
        if "/" not in str(name) and name not in ("", ".", ".."):
            continue
        renamed[name] = other = free_name(str(name), taken)
        report.changed(f"{what}[{name!r}]", f"a file has no key of this name; it is {other!r}")
    return value.rename(columns=renamed) if renamed else value


def _with_writable_names(frame: Any, part: str, report: Report) -> Any:
    """Give another name to a column that has the one that is reserved for the labels of rows."""
    if _RESERVED in frame.columns:
        name = free_name(f"{_RESERVED}_", {*frame.columns})
        report.changed(f"{part}[{_RESERVED!r}]", f"an h5ad file reserves this name; it is {name!r}")
        frame = frame.rename(columns={_RESERVED: name})
    if frame.index.name in frame.columns:
        if not np.array_equal(frame.index.to_numpy(), frame[frame.index.name].to_numpy()):
            report.changed(f"{part}.index", "a column has the name of the labels; they have none")
            frame.index.name = None
    return frame


def _writable_column(series: Any, what: str, report: Report) -> Any:
    types = pandas().api.types
    dtype = series.dtype
    if isinstance(dtype, pandas().CategoricalDtype):
        kind = dtype.categories.dtype
        is_text = str(kind) == "str"  # of pandas 3
        if not is_text and not (isinstance(kind, np.dtype) and kind.kind in "biufO"):
            report.changed(
                what, f"an h5ad file has no categories of dtype {kind}; they became text"
            )
            return series.cat.rename_categories(dtype.categories.astype(str).astype(object))
        return series
    if isinstance(dtype, pandas().SparseDtype):
        report.changed(what, "an h5ad file has no sparse columns; it became a dense one")
        return series.sparse.to_dense()
    if types.is_extension_array_dtype(dtype) and types.is_float_dtype(dtype):
        report.changed(what, "an h5ad file has no nullable floats; missing became NaN")
        return series.astype(np.float64)
    if types.is_object_dtype(dtype) and series.isna().any():
        report.changed(what, "an h5ad file has no missing text; the column became categorical")
        return series.astype("category")
    is_date = types.is_datetime64_any_dtype(dtype)
    if (
        is_date
        or dtype.kind == "m"
        or isinstance(dtype, pandas().PeriodDtype | pandas().IntervalDtype)
    ):
        kind = "dates" if is_date else f"values of dtype {dtype}"
        report.changed(what, f"an h5ad file has no {kind}; they became text")
        return series.astype(str).where(series.notna(), "").astype(object)
    return series


def write_value(group: Any, key: Any, value: Any, *, what: str, report: Report) -> None:
    """Write a value into a group of an h5ad file, or as much of it as anndata can write.

    What cannot be written is reported as lost, by name.
    """
    if not isinstance(key, str) or not key or "/" in key:
        report.lost(what, f"an h5ad file has no keys such as {key!r}")
        return
    if isinstance(value, dict):
        inner = group.create_group(key)
        inner.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
        for name, item in value.items():
            write_value(inner, name, item, what=f"{what}[{name!r}]", report=report)
        return
    if isinstance(value, bytes):
        dataset = group.create_dataset(key, data=np.bytes_(value))
        dataset.attrs.update({"encoding-type": "bytes", "encoding-version": "0.2.0"})
        return
    try:
        kept.write_element(group, key, _writable(value, what, report))
    except UnsupportedInputError as error:
        report.lost(what, str(error))


def _writable(value: Any, what: str, report: Report) -> Any:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return _unmasked(value, what, report)
    if isinstance(value, tuple):
        report.changed(what, "an h5ad file has no tuples; it became a list")
        return list(value)
    if sp.issparse(value) and value.format not in {"csr", "csc"}:
        report.changed(what, f"an h5ad file has no {value.format} matrices; it became csr")
        return value.tocsr()
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        return writable_frame(value, what, report)
    if isinstance(value, pandas().arrays.FloatingArray):
        report.changed(what, "an h5ad file has no nullable floats; missing became NaN")
        return value.to_numpy(dtype=np.float64, na_value=np.nan)
    return value


def _unmasked(value: Any, what: str, report: Report) -> Any:
    """Return a masked array as something that says which elements are missing."""
    if value.dtype.kind == "f":
        report.changed(what, "an h5ad file has no masks; masked elements became NaN")
        return value.filled(np.nan)
    if value.ndim == 1 and value.dtype.kind in "biu":
        report.changed(what, "an h5ad file has no masks; it became a nullable array")
        arrays = pandas().arrays
        build = arrays.BooleanArray if value.dtype.kind == "b" else arrays.IntegerArray
        return build(np.array(value.data), np.ma.getmaskarray(value).copy())
    report.changed(what, "an h5ad file has no masks; what was masked is not any longer")
    return value.data
