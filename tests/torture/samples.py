"""Data sets to attack, in every form, and what is in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp

from daf_query.index import build_index
from daf_storage import DafError, DafReader, DafWriter, MemoryDaf, Packing, copy_all, open_daf

Form = str
"""A name of `FORMS` or of `FOREIGN`."""

_OPTIONS: dict[Form, tuple[str, dict[str, Any]]] = {
    "directory": ("x.daf.zarr", {}),
    "directory-v3": ("x.daf.zarr", {"zarr_format": 3}),
    "packed": ("x.daf.zarr", {"packed": Packing("blosc-zstd", chunk_kb=1)}),
    "archive": ("x.daf.zarr.zip", {}),
    "archive-packed": ("x.daf.zarr.zip", {"packed": Packing("zstd", chunk_kb=1)}),
    "hdf5": ("x.h5df", {}),
    "hdf5-packed": ("x.h5df", {"packed": True}),
    "files": ("x.daf", {}),
    "archive-files": ("x.daf.zip", {}),
}
FORMS: tuple[Form, ...] = tuple(_OPTIONS)
FOREIGN: tuple[Form, ...] = ("h5ad", "h5mu", "10x")
"""Files that are read in place, and written by others."""

STRINGS = ["", "a", "B cell", "é", "日本", "it's", "x" * 40]


def create(folder: Path, form: Form) -> DafWriter:
    """Return a new data set of a form."""
    name, options = _OPTIONS[form]
    return open_daf(folder / name, "w", **options)


def path_of(folder: Path, form: Form) -> Path:
    """Return where a sample of a form is put."""
    return folder / (f"x.{form}" if form in FOREIGN else _OPTIONS[form][0])


def sample(n_cells: int, n_genes: int) -> DafWriter:
    """Return a data set in memory that has something of everything."""
    random = np.random.default_rng(7)
    daf = MemoryDaf()
    daf.add_axis("cell", [f"c{i}" for i in range(n_cells)])
    daf.add_axis("gene", [f"gène {i}" for i in range(n_genes)])
    daf.add_axis("none", [])
    daf.set_scalar("organism", "human")
    daf.set_scalar("n", 7)
    for kind in ("bool", "int8", "uint16", "int64", "uint64", "float32", "float64"):
        values = random.integers(0, 100, n_cells).astype(kind)
        if kind.startswith("float"):
            values[random.random(n_cells) < 0.1] = np.nan
        daf.set_vector("cell", kind, values)
    daf.set_vector("cell", "sorted", np.sort(random.integers(0, 1000, n_cells)))
    daf.set_vector("cell", "type", random.choice(STRINGS, n_cells))
    daf.set_vector("cell", "id", [f"id {i * 7919 % n_cells}" for i in range(n_cells)])
    daf.set_vector("cell", "sparse", sp.csr_array((random.random((1, n_cells)) < 0.1) * 5))
    daf.set_vector("cell", "x", random.random(n_cells))
    daf.set_vector("cell", "y", random.random(n_cells))
    daf.set_vector("gene", "mark", random.random(n_genes) < 0.5)
    daf.set_vector("none", "nothing", np.zeros(0))
    counts = random.poisson(0.4, (n_cells, n_genes)).astype("i4")
    daf.set_matrix("cell", "gene", "UMIs", sp.csc_array(counts))
    daf.set_matrix("cell", "gene", "dense", counts.astype("f4") / 2)
    daf.set_matrix("cell", "gene", "mask", sp.csc_array(counts > 1), relayout=False)
    daf.set_matrix("gene", "gene", "square", random.random((n_genes, n_genes)))
    return daf


def stored_sample(folder: Path, form: Form, *, n_cells: int = 400, with_indexes: bool) -> Path:
    """Store the sample in a form; with indexes of its vectors on request."""
    if form in FOREIGN:
        with h5py.File(path_of(folder, form), "w") as file:
            _write_foreign(file, form)
        return path_of(folder, form)
    with create(folder, form) as daf:
        copy_all(sample(n_cells, 12), daf, progress="never")
        if with_indexes:
            build_index(daf, "cell", ["name", "id", "type", "sorted", "float64"], progress="never")
            build_index(daf, "cell", progress="never")
    return path_of(folder, form)


def _anndata(n_cells: int, n_genes: int, seed: int) -> anndata.AnnData:
    """Return an AnnData that has something of everything that is read in place."""
    random = np.random.default_rng(seed)
    counts = sp.random(n_cells, n_genes, 0.3, format="csr", dtype="f4", random_state=seed)
    maybe = pd.array(random.integers(0, 9, n_cells), "Int32")
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(random.choice(STRINGS[1:], n_cells), STRINGS[1:], ordered=True),
            "id": [f"id {i}" for i in range(n_cells)],
            "x": random.random(n_cells),
            "y": random.random(n_cells),
            "maybe": maybe,
        },
        index=[f"c{i}" for i in range(n_cells)],
    )
    var = pd.DataFrame({"mark": random.random(n_genes) < 0.5})
    adata = anndata.AnnData(counts, obs, var.set_index(f"g{seed} " + var.index.astype(str)))
    adata.obs.loc["c0", "maybe"] = pd.NA
    adata.layers["dense"] = counts.toarray()
    adata.obsm["X_pca"] = random.random((n_cells, 3))
    adata.obsp["near"] = sp.csr_matrix(np.eye(n_cells))
    adata.uns = {"obs_is": "cell", "n": 7, "more": {"text": "x"}, "type_colors": list("rgbcmy")}
    adata.raw = adata.copy()
    return adata


def _write_foreign(file: h5py.File, form: Form) -> None:
    """Write a file in the form in which anndata, mudata or Cell Ranger does, compressed."""
    write = partial(anndata.io.write_elem, dataset_kwargs={"compression": "gzip"})
    rna, some = _anndata(120, 8, 1), _anndata(50, 5, 2)
    if form == "h5ad":
        write(file, "/", rna)
    elif form == "h5mu":
        del rna.uns["obs_is"], some.uns["obs_is"]
        file.attrs.update({"encoding-type": "MuData", "axis": 0})
        genes = pd.DataFrame(index=[*rna.var_names, *some.var_names])
        for name, part in {"obs": rna.obs[["x", "y"]], "var": genes}.items():
            write(file, name, part)
        write(file, "uns", {"obs_is": "cell"})
        write(file, "mod", {"rna": rna, "some": some})
        places = np.arange(1, 121)
        write(file, "obsmap", {"rna": places, "some": np.where(places <= 50, places, 0)})
        write(file, "varmap", {"rna": np.r_[1:9, [0] * 5], "some": np.r_[[0] * 8, 1:6]})
    else:
        counts = (rna.X * 9).astype("i4")
        ids = np.array(rna.var_names, "S")
        lists = {"id": ids, "name": ids[::-1], "feature_type": np.full(8, b"Gene Expression")}
        names = {"barcodes": np.array(rna.obs_names, "S"), "shape": np.array(counts.shape[::-1])}
        matrix = file.create_group("matrix")
        for name in ("data", "indices", "indptr"):
            matrix.create_dataset(name, data=getattr(counts, name), chunks=True, compression="gzip")
        for name, values in (*names.items(), *((f"features/{n}", v) for n, v in lists.items())):
            matrix.create_dataset(name, data=values, chunks=True, compression="gzip")


@dataclass(frozen=True, slots=True)
class Property:
    """A scalar, axis, vector, or a matrix in one orientation."""

    kind: Literal["scalar", "axis", "vector", "matrix"]
    names: tuple[str, ...]

    @property
    def path(self) -> str:
        """Where it is stored."""
        group = {"scalar": "scalars", "axis": "axes", "vector": "vectors", "matrix": "matrices"}
        return "/".join((group[self.kind], *self.names))

    @property
    def flipped(self) -> Property | None:
        """The other orientation of a matrix."""
        if self.kind != "matrix":
            return None
        rows, columns, name = self.names
        return Property("matrix", (columns, rows, name))

    def axes(self) -> tuple[str, ...]:
        """Return the axes that it lies along."""
        return {"scalar": (), "axis": self.names, "vector": self.names[:1]}.get(
            self.kind, self.names[:2]
        )


def properties(daf: DafReader) -> list[Property]:
    """Return everything that a data set lists."""
    axes = sorted(daf.axes_set())
    found = [Property("scalar", (name,)) for name in sorted(daf.scalars_set())]
    found += [Property("axis", (axis,)) for axis in axes]
    for axis in axes:
        found += [Property("vector", (axis, name)) for name in sorted(daf.vectors_set(axis))]
    for rows, columns in itertools.product(axes, axes):
        names = sorted(daf.matrices_set(rows, columns, relayout=False))
        found += [Property("matrix", (rows, columns, name)) for name in names]
    return found


def read(daf: DafReader, one: Property) -> Any:
    """Return the value of a property: a scalar or a plain numpy array."""
    match one.kind:
        case "scalar":
            return daf.get_scalar(*one.names)
        case "axis":
            return daf.axis_entries(*one.names)
        case "vector":
            return daf.get_np_vector(*one.names)
    values = daf.get_np_matrix(*one.names, relayout=False)
    return values.toarray() if sp.issparse(values) else np.array(values)


def attempt(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what ``work`` returns, or the error of ours that it raises."""
    try:
        return work(*arguments)
    except DafError as error:
        return error


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same, NaN included; errors are equal to nothing."""
    if isinstance(one, DafError) or isinstance(other, DafError):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    return type(one) is type(other) and bool(one == other)


def is_equal_or_filled(one: Any, other: Any) -> bool:
    """Return whether each element of one array is that of the other, or the fill value.

    Examples
    --------
    >>> stored = np.array([1.0, np.nan, 3.0])
    >>> is_equal_or_filled(np.array([0.0, np.nan, 3.0]), stored)
    True
    >>> is_equal_or_filled(np.array([2.0, np.nan, 3.0]), stored)
    False
    """
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return False
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    is_fill = one == ("" if one.dtype.kind in "OUT" else np.zeros((), one.dtype))
    is_nan = (one != one) & (other != other)  # noqa: PLR0124 - NaN
    return bool(np.all(is_fill | is_nan | (one == other)))


def column_of(values: Any) -> list[Any]:
    """Return a vector as SQL gives it: NaN is NULL."""
    return list(pa.array(values, from_pandas=True).to_pylist())
