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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from daf_storage._lazy import lazy_module
from daf_storage.base import StorageType, optional_import
from daf_storage.errors import FormatError, SourceNotFoundError
from daf_storage.trees import check_contained

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")


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
    is_array: bool = False
    """Whether it is one of scipy's arrays rather than matrices."""

    @property
    def element_bytes(self) -> int:
        """How many bytes one stored element takes."""
        size: int = self.data.dtype.itemsize + self.indices.dtype.itemsize
        return size

    @property
    def size_bytes(self) -> int:
        """About how many bytes there are to read."""
        return int(self.indptr[-1]) * self.element_bytes

    def whole(self) -> Any:
        """Return it whole, in memory, as AnnData has it."""
        return sp.csr_array(self.to_scipy()) if self.is_array else self.to_scipy()

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

    def whole(self) -> Any:
        """Return it whole, in memory."""
        return np.asarray(self.values[:])


@dataclass(frozen=True, slots=True)
class OtherSource:
    """Something in the place of a matrix that Daf has no matrices of."""

    value: Any
    """In memory, or a group or dataset of the file."""
    problem: str
    """Why not."""
    size_bytes: int = 0
    """Nothing is to be read in blocks."""


MatrixSource = SparseSource | DenseSource | OtherSource


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
    unknown: dict[str, Any]
    """Groups and datasets of the file that AnnData does not know."""
    uns_elements: dict[str, Any]
    """The entries of ``uns`` as groups and datasets of the file, as far as they are as there."""


_MOST_ELEMENTS_READ = 1 << 20
_DIMENSIONS = 2
_DICTIONARIES = frozenset(
    {"", "dict", "array", "string-array", "numeric-scalar", "string", "rec-array", "null"}
)
"""Encodings of which a dictionary may consist whose entries are read."""
_READ = frozenset({"", "array", "string-array", "csr_matrix", "csc_matrix", "dataframe"})
"""Encodings that can become a matrix; values of others are kept unread."""
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
    UnsupportedDataError
        Something in it is in another file, which is not read.
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
        check_contained(file, what=str(path))
        missing = [part for part in ("obs", "var") if part not in file]
        if missing:
            raise FormatError(
                f"{path}: not an h5ad file: it has no {' and no '.join(missing)}; "
                f"it has {', '.join(sorted(file)) or 'nothing'}"
            )
        try:
            is_old = isinstance(file["obs"], h5py.Dataset) or "raw.X" in file
            with _quiet():
                source = None if is_old else _from_file(file, str(path), anndata)
        except (OSError, LookupError, ValueError, TypeError, AttributeError) as error:
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
        unknown={},
        uns_elements={},
    )


def _read_old(path: Path, anndata: Any) -> Any:
    """Read a file from before AnnData 0.7, which only anndata understands, whole."""
    with _quiet():
        try:
            return anndata.read_h5ad(path)
        except Exception as error:  # anndata raises many kinds for files that it cannot read
            raise _unreadable(path, error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out anndata's warnings of old formats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _unreadable(path: Path, error: Exception) -> FormatError:
    reason = " ".join(str(error).split())
    return FormatError(f"{path}: the h5ad file cannot be read ({reason}); is it complete?")


def _from_file(file: Any, name: str, anndata: Any) -> AnnDataSource:
    read: Callable[[Any], Any] = anndata.io.read_elem
    uns, elements = _uns(file, read)
    obsp = _matrices(file, "obsp")
    neighbors = uns.get("neighbors")
    if isinstance(neighbors, dict):  # where AnnData 0.7 kept what is in obsp since
        for key in ("distances", "connectivities"):
            if sp.issparse(neighbors.get(key)):
                obsp.setdefault(key, _from_memory(neighbors.pop(key)))
                elements.pop("neighbors", None)
    raw = None
    if "raw" in file and _encoding(file["raw"]) != "null":
        varm = file["raw"].get("varm", {})
        raw = RawSource(
            _from_hdf5(file["raw/X"]),
            _frame(file["raw/var"], read, anndata),
            {key: _read_or_keep(varm[key], read) for key in varm},
        )
    return AnnDataSource(
        name=name,
        obs=_frame(file["obs"], read, anndata),
        var=_frame(file["var"], read, anndata),
        main=_main(file),
        layers=_matrices(file, "layers"),
        obsm={key: _read_or_keep(value, read) for key, value in file.get("obsm", {}).items()},
        varm={key: _read_or_keep(value, read) for key, value in file.get("varm", {}).items()},
        obsp=obsp,
        varp=_matrices(file, "varp"),
        uns=uns,
        raw=raw,
        unknown={part: file[part] for part in sorted(set(file) - _PARTS)},
        uns_elements=elements,
    )


def _frame(element: Any, read: Callable[[Any], Any], anndata: Any) -> Any:
    """Return ``obs`` or ``var`` with names that are strings.

    Byte strings are decoded.  A group without encoding attributes is read as a dictionary, of
    which anndata makes a DataFrame with numbers for names.
    """
    for column in element.values():  # anndata takes numbers in a mask for positions
        if _encoding(column) == "nullable-string-array" and column["mask"].dtype != bool:
            raise ValueError(f"the mask of {column.name} has no booleans")
    frame = read(element)
    if hasattr(frame, "columns") and frame.index.inferred_type in {"string", "empty"}:
        return frame
    return anndata.AnnData(obs=frame).obs


def _uns(file: Any, read: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the entries of ``uns``, and the stored elements of all of them.

    What is large, or more than a dictionary of arrays, is not read, but an `OtherSource`.
    """
    if "uns" not in file:
        return {}, {}
    elements = {key: file["uns"][key] for key in file["uns"]}
    uns = {}
    for key, element in elements.items():
        problem = "" if key == "neighbors" else _why_unread(element)
        uns[key] = OtherSource(element, problem) if problem else read(element)
    return uns, elements


def _why_unread(element: Any) -> str:
    """Return why an element is not read; empty for arrays of moderate size and their dicts."""
    count = 0

    def look(name: str, node: Any) -> str | None:
        nonlocal count
        kind = "sparse matrix" if "h5sparse_format" in node.attrs else _encoding(node)
        count += getattr(node, "size", 0) or 0
        return None if kind in _DICTIONARIES else f"{f'{name} in it' if name else 'it'} is a {kind}"

    found = look("", element)
    if found is None and hasattr(element, "visititems"):
        found = element.visititems(look)
    if found is None and count > _MOST_ELEMENTS_READ:
        found = f"it has {count:,} elements"
    return found or ""


def _read_or_keep(element: Any, read: Callable[[Any], Any]) -> Any:
    """Read an element of a kind that can become a matrix; return any other one as it is."""
    return read(element) if _encoding(element) in _READ else element


def _encoding(element: Any) -> str:
    return str(element.attrs.get("encoding-type", ""))


def _main(file: Any) -> MatrixSource | None:
    if "X" not in file or _encoding(file["X"]) == "null":
        return None
    return _from_hdf5(file["X"])


def _matrices(file: Any, part: str) -> dict[str, MatrixSource]:
    return {key: _from_hdf5(value) for key, value in file.get(part, {}).items()}


def _from_hdf5(element: Any) -> MatrixSource:
    """Wrap a dataset, or the group of a sparse matrix; nothing but ``indptr`` is read."""
    attributes = element.attrs
    if hasattr(element, "dtype"):
        return _dense(element, tuple(element.shape or ()), np.dtype(element.dtype))
    kind = attributes.get("encoding-type", attributes.get("h5sparse_format", ""))
    if not str(kind).startswith(("csr", "csc")):
        return OtherSource(element, f"Daf has no matrices of the kind {kind or 'dict'!s}")
    shape = attributes["shape"] if "shape" in attributes else attributes["h5sparse_shape"]
    layout: Literal["csr", "csc"] = "csc" if str(kind).startswith("csc") else "csr"
    problem = _dtype_problem(np.dtype(element["data"].dtype))
    if problem:
        return OtherSource(element, problem)
    indptr = element["indptr"][:].astype(np.int64)
    height, width = (int(n) for n in shape)
    return SparseSource((height, width), layout, indptr, element["indices"], element["data"])


def _from_memory(value: Any) -> MatrixSource:
    if hasattr(value, "group") and not sp.issparse(value):  # a backed sparse matrix
        return _from_hdf5(value.group)
    if sp.issparse(value):
        problem = _dtype_problem(value.dtype)
        if problem:
            return OtherSource(value, problem)
        found = value if value.format in {"csr", "csc"} else value.tocsr()
        indptr = found.indptr.astype(np.int64)
        is_array = isinstance(value, sp.sparray)
        return SparseSource(
            found.shape, found.format, indptr, found.indices, found.data, is_array=is_array
        )
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return OtherSource(value, "Daf has no masks")
    dense = value if hasattr(value, "dtype") else np.asarray(value)
    return _dense(dense, tuple(dense.shape), np.dtype(dense.dtype))


def _dense(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> MatrixSource:
    if len(shape) != _DIMENSIONS:
        return OtherSource(values, f"it has {len(shape)} dimensions; matrices have two")
    problem = _dtype_problem(dtype)
    height, width = shape
    return OtherSource(values, problem) if problem else DenseSource((height, width), values)


def _dtype_problem(dtype: np.dtype[Any]) -> str:
    """Return why Daf has no matrices of numbers of a type; empty if it has."""
    kind = None if dtype.kind not in "biuf" else StorageType.from_numpy(dtype)
    is_known = dtype == np.float16 or (kind is not None and not kind.is_string)
    return "" if is_known else f"Daf has no matrices of dtype {dtype}"
