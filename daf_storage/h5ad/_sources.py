"""Where the parts of an AnnData come from: an ``h5ad`` file, read in blocks, or an object.

The small parts (``obs``, ``var``, ``uns``) are read by anndata itself; the large ones are wrapped
so that they can be streamed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daf_storage.errors import FormatError, SourceNotFoundError
from daf_storage.optional import optional_import


@dataclass(frozen=True, slots=True)
class SparseSource:
    """A compressed sparse matrix that can be read in blocks."""

    shape: tuple[int, int]
    """As AnnData has it."""
    layout: Literal["csr", "csc"]
    """Whether its rows or its columns are compressed."""
    indptr: npt.NDArray[np.int64]
    """Where each compressed row or column begins."""
    indices: Any
    """All indices, sliceable; maybe on disk."""
    data: Any
    """All values, sliceable; maybe on disk."""

    @property
    def element_bytes(self) -> int:
        """How many bytes one stored element takes."""
        size: int = self.data.dtype.itemsize + self.indices.dtype.itemsize
        return size

    @property
    def size_bytes(self) -> int:
        """About how many bytes there are to read."""
        return int(self.indptr[-1]) * self.element_bytes

    def to_scipy(self) -> Any:
        """Return it whole, in memory."""
        build = sp.csr_matrix if self.layout == "csr" else sp.csc_matrix
        return build((self.data[:], self.indices[:], self.indptr), shape=self.shape)


@dataclass(frozen=True, slots=True)
class DenseSource:
    """A dense matrix that can be read in blocks of rows."""

    shape: tuple[int, int]
    """As AnnData has it."""
    values: Any
    """The rows, sliceable; maybe on disk."""

    @property
    def size_bytes(self) -> int:
        """How many bytes there are to read."""
        return self.shape[0] * self.shape[1] * int(self.values.dtype.itemsize)


MatrixSource = SparseSource | DenseSource


@dataclass(slots=True)
class RawSource:
    """The parts of ``raw``."""

    matrix: MatrixSource
    """``raw.X``."""
    var: Any
    """``raw.var``, a DataFrame."""
    varm: dict[str, Any] = field(default_factory=dict)
    """``raw.varm``."""


@dataclass(slots=True)
class AnnDataSource:
    """All parts of an AnnData."""

    name: str
    """Where it is, for messages."""
    obs: Any
    """A DataFrame."""
    var: Any
    """A DataFrame."""
    main: MatrixSource | None
    """``X``."""
    layers: dict[str, MatrixSource]
    obsm: dict[str, Any]
    varm: dict[str, Any]
    obsp: dict[str, MatrixSource]
    varp: dict[str, MatrixSource]
    uns: dict[str, Any]
    raw: RawSource | None
    unknown: list[str]
    """Parts that this software does not know."""


_PARTS = frozenset(
    {"X", "layers", "obs", "var", "obsm", "varm", "obsp", "varp", "uns", "raw", "raw.X", "raw.var"}
)


@contextmanager
def open_h5ad(path: Path) -> Iterator[AnnDataSource]:
    """Open an ``h5ad`` file; its matrices are read while the block runs.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    FormatError
        It is not an HDF5 file, or not one that holds an AnnData.
    """
    h5py = optional_import("h5py", extra="anndata")
    anndata = optional_import("anndata", extra="anndata")
    if not path.exists():
        raise SourceNotFoundError(f"no such file: {path}")
    if path.is_dir() or not h5py.is_hdf5(path):
        raise FormatError(
            f"{path}: not an h5ad file: it is not HDF5; an h5ad is written by AnnData.write_h5ad()"
        )
    with h5py.File(path, "r") as file:
        missing = [part for part in ("obs", "var") if part not in file]
        if missing:
            raise FormatError(
                f"{path}: not an h5ad file: it has no {' and no '.join(missing)}; "
                f"it has {', '.join(sorted(file)) or 'nothing'}"
            )
        try:
            is_old = isinstance(file["obs"], h5py.Dataset) or "raw.X" in file
            source = None if is_old else _from_file(file, str(path), anndata)
        except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise _unreadable(path, error) from error
        if source is not None:
            yield source
            return
    yield from_object(_read_old(path, anndata), str(path))


def from_object(adata: Any, name: str) -> AnnDataSource:
    """Return the parts of an AnnData object; a backed ``X`` stays on disk."""
    raw = adata.raw
    return AnnDataSource(
        name=name,
        obs=adata.obs,
        var=adata.var,
        main=None if adata.X is None else _from_memory(adata.X),
        layers={key: _from_memory(value) for key, value in adata.layers.items()},
        obsm=dict(adata.obsm),
        varm=dict(adata.varm),
        obsp={key: _from_memory(value) for key, value in adata.obsp.items()},
        varp={key: _from_memory(value) for key, value in adata.varp.items()},
        uns=dict(adata.uns),
        raw=None if raw is None else RawSource(_from_memory(raw.X), raw.var, dict(raw.varm)),
        unknown=[],
    )


def _read_old(path: Path, anndata: Any) -> Any:
    """Read a file from before AnnData 0.7, which only anndata understands, whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return anndata.read_h5ad(path)
        except Exception as error:  # anndata raises many kinds for files that it cannot read
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> FormatError:
    reason = " ".join(str(error).split())
    return FormatError(f"{path}: the h5ad file cannot be read ({reason}); is it complete?")


def _from_file(file: Any, name: str, anndata: Any) -> AnnDataSource:
    read: Callable[[Any], Any] = anndata.io.read_elem
    uns = read(file["uns"]) if "uns" in file else {}
    obsp = _matrices(file, "obsp")
    neighbors = uns.get("neighbors")
    if isinstance(neighbors, dict):  # where AnnData 0.7 kept what is in obsp since
        for key in ("distances", "connectivities"):
            if sp.issparse(neighbors.get(key)):
                obsp.setdefault(key, _from_memory(neighbors.pop(key)))
    raw = None
    if "raw" in file:
        varm = file["raw"].get("varm", {})
        raw = RawSource(
            _from_hdf5(file["raw/X"]),
            read(file["raw/var"]),
            {key: read(varm[key]) for key in varm},
        )
    return AnnDataSource(
        name=name,
        obs=read(file["obs"]),
        var=read(file["var"]),
        main=_from_hdf5(file["X"]) if "X" in file else None,
        layers=_matrices(file, "layers"),
        obsm={key: read(value) for key, value in file.get("obsm", {}).items()},
        varm={key: read(value) for key, value in file.get("varm", {}).items()},
        obsp=obsp,
        varp=_matrices(file, "varp"),
        uns=uns,
        raw=raw,
        unknown=sorted(set(file) - _PARTS),
    )


def _matrices(file: Any, part: str) -> dict[str, MatrixSource]:
    return {key: _from_hdf5(value) for key, value in file.get(part, {}).items()}


def _from_hdf5(element: Any) -> MatrixSource:
    """Wrap a dataset, or the group of a sparse matrix; nothing but ``indptr`` is read."""
    if hasattr(element, "dtype"):
        return DenseSource(tuple(element.shape), element)
    attributes = element.attrs
    kind = attributes.get("encoding-type", attributes.get("h5sparse_format", ""))
    shape = attributes["shape"] if "shape" in attributes else attributes["h5sparse_shape"]
    layout: Literal["csr", "csc"] = "csc" if str(kind).startswith("csc") else "csr"
    indptr = element["indptr"][:].astype(np.int64)
    height, width = (int(n) for n in shape)
    return SparseSource((height, width), layout, indptr, element["indices"], element["data"])


def _from_memory(value: Any) -> MatrixSource:
    if hasattr(value, "group") and not sp.issparse(value):  # a backed sparse matrix
        return _from_hdf5(value.group)
    if sp.issparse(value):
        found = value if value.format in {"csr", "csc"} else value.tocsr()
        indptr = found.indptr.astype(np.int64)
        return SparseSource(found.shape, found.format, indptr, found.indices, found.data)
    dense = value if hasattr(value, "dtype") else np.asarray(value)
    return DenseSource(tuple(dense.shape), dense)
