"""Data sets to attack, in every form, and what is in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from daf_query.index import build_index
from daf_storage import DafError, DafReader, DafWriter, MemoryDaf, Packing, copy_all, open_daf

Form = Literal[
    "directory",
    "directory-v3",
    "packed",
    "archive",
    "archive-packed",
    "hdf5",
    "hdf5-packed",
    "files",
    "files-packed",
    "archive-files",
]

_OPTIONS: dict[Form, tuple[str, dict[str, Any]]] = {
    "directory": ("x.daf.zarr", {}),
    "directory-v3": ("x.daf.zarr", {"zarr_format": 3}),
    "packed": ("x.daf.zarr", {"packed": Packing("blosc-zstd", chunk_kb=1)}),
    "archive": ("x.daf.zarr.zip", {}),
    "archive-packed": ("x.daf.zarr.zip", {"packed": Packing("zstd", chunk_kb=1)}),
    "hdf5": ("x.h5df", {}),
    "hdf5-packed": ("x.h5df", {"packed": True}),
    "files": ("x.daf", {}),
    "files-packed": ("x.daf", {"packed": Packing("zstd", chunk_kb=1)}),
    "archive-files": ("x.daf.zip", {}),
}
FORMS: tuple[Form, ...] = tuple(_OPTIONS)

STRINGS = ["", "a", "B cell", "é", "日本", "it's", "x" * 40]


def create(folder: Path, form: Form) -> DafWriter:
    """Return a new data set of a form."""
    name, options = _OPTIONS[form]
    daf = open_daf(folder / name, "w", **options)
    assert isinstance(daf, DafWriter)
    return daf


def path_of(folder: Path, form: Form) -> Path:
    """Return where `create` puts a data set."""
    return folder / _OPTIONS[form][0]


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
    with create(folder, form) as daf:
        copy_all(sample(n_cells, 12), daf, progress="never")
        if with_indexes:
            build_index(daf, "cell", ["name", "id", "type", "sorted", "float64"], progress="never")
            build_index(daf, "cell", progress="never")
    return path_of(folder, form)


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
