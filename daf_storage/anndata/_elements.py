"""The metadata of the elements of a file of AnnData; no data is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from daf_storage._lazy import lazy_module
from daf_storage.anndata._virtual import Converted, node_at
from daf_storage.base import AnyArray, StorageType
from daf_storage.data import kept
from daf_storage.errors import CorruptDataError, DafError, FormatError, UnsupportedDataError
from daf_storage.trees import Hdf5Tree, Node, StoredArray, Tree, ZarrTree

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

MatrixLayout: TypeAlias = Literal["dense", "csr", "csc"]
"""Whether all elements of a matrix are stored, or those of its rows or columns that are not 0."""

STORED: Final = object()
"""Stands for a value that lies in the file."""

NO_MATRIX: Final = "Daf has no matrices of "

_DIMENSIONS: Final = 2


def text_of(value: Any) -> str:
    """Return an attribute as text; empty if there is none."""
    if isinstance(value, bytes):
        return value.decode()
    return "" if value is None else str(value)


def encoding_of(node: Node) -> str:
    """Return how anndata encoded an element, such as ``categorical``; empty if it says nothing."""
    return text_of(node.attribute("encoding-type"))


def names_of(value: Any) -> list[str]:
    """Return an attribute that is a list of strings."""
    if value is None:
        return []
    return [text_of(name) for name in np.asarray(value, dtype=object).reshape(-1).tolist()]


@dataclass(frozen=True, slots=True)
class MatrixHeader:
    """What the metadata say of a matrix."""

    layout: MatrixLayout = "dense"
    """Whether all elements are stored, or those of its rows or of its columns that are not 0."""
    shape: tuple[int, int] = (0, 0)
    """As AnnData has it."""
    dtype: np.dtype[Any] = np.dtype(float)  # noqa: RUF009 - it cannot be changed
    """The type of the stored elements."""
    problem: str = ""
    """Why Daf has no such matrix; empty if it has."""
    error: FormatError | None = None
    """What is wrong with its metadata."""
    is_array: bool = False
    """Whether it is one of scipy's sparse arrays rather than matrices."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value of an AnnData is."""

    path: str
    """Its path in the file, or that of what has it."""
    value: Any = STORED
    """The value, if it is in memory, or only anndata understands how it is stored."""
    known: MatrixHeader | None = None
    """What is known of it as a matrix, where its own metadata do not say it."""

    @property
    def is_stored(self) -> bool:
        """Whether it is read from the file."""
        return self.value is STORED

    def header(self, tree: Tree) -> MatrixHeader:
        """Return what is known of it as a matrix, or why it is none."""
        if self.known is not None:
            return self.known
        return _stored_header(tree, self.path) if self.is_stored else _known_header(self.value)

    def read(self, tree: Tree) -> Any:
        """Return it as anndata reads it."""
        return read_value(tree, self.path) if self.is_stored else self.value


def _stored_header(tree: Tree, path: str) -> MatrixHeader:
    node = node_at(tree, path)
    if node.kind == "array":
        return _dense_header(*shape_and_dtype(tree, path))
    kind = encoding_of(node) or text_of(node.attribute("h5sparse_format"))
    if not kind.startswith(("csr", "csc")):
        return MatrixHeader(problem=f"{NO_MATRIX}the kind {kind or 'dict'}")
    shape_attribute = node.attribute("shape")
    if shape_attribute is None:
        shape_attribute = node.attribute("h5sparse_shape")
    try:
        height, width = (int(n) for n in np.asarray(shape_attribute).reshape(-1))
    except (TypeError, ValueError):
        raise CorruptDataError(
            f"{tree.location}: {path}: the shape of the sparse matrix is {shape_attribute!r}"
        ) from None
    _, dtype = shape_and_dtype(tree, f"{path}/data")
    layout: MatrixLayout = "csc" if kind.startswith("csc") else "csr"
    return MatrixHeader(layout, (height, width), dtype, dtype_problem(dtype))


def _dense_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> MatrixHeader:
    if len(shape) != _DIMENSIONS:
        return MatrixHeader(problem=f"it has {len(shape)} dimensions; matrices have two")
    return MatrixHeader("dense", (shape[0], shape[1]), dtype, dtype_problem(dtype))


def _known_header(value: Any) -> MatrixHeader:
    """Return what is known of a value in memory."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return MatrixHeader(problem="Daf has no masks")
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return MatrixHeader(problem=f"{NO_MATRIX}the kind {type(value).__name__}")
    if not sp.issparse(value):
        return _dense_header(value.shape, np.dtype(value.dtype))
    layout: MatrixLayout = "csc" if value.format == "csc" else "csr"
    problem, is_array = dtype_problem(value.dtype), isinstance(value, sp.sparray)
    return MatrixHeader(layout, value.shape, value.dtype, problem, is_array=is_array)


def shape_and_dtype(tree: Tree, path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type of an array, also of a type that Daf has not."""
    node = tree.node(path)
    try:
        array = None if node is None else node.array()
    except UnsupportedDataError:
        with element(tree, path) as stored:
            return tuple(stored.shape or ()), np.dtype(stored.dtype)
    if array is None:
        raise CorruptDataError(f"{tree.location}: {path} is missing")
    kind = array.info.storage_type
    return array.info.shape, np.dtype(object) if kind.is_string else kind.dtype


def has_bytes(tree: Tree, path: str) -> bool:
    """Return whether an array has byte strings, of which nothing says that they are text."""
    node = tree.node(path)
    with suppress(UnsupportedDataError):
        array = None if node is None else node.array()
        is_string = array is not None and array.info.storage_type.is_string
        if node is not None and is_string and encoding_of(node) == "array":
            with element(tree, path) as stored:
                return bool(np.dtype(stored.dtype).kind == "S")
    return False


def dtype_problem(dtype: np.dtype[Any]) -> str:
    """Return why Daf has no matrices of numbers of a type; empty if it has."""
    kind = None if dtype.kind not in "biuf" else StorageType.from_numpy(dtype)
    is_known = dtype == np.float16 or (kind is not None and not kind.is_string)
    return "" if is_known else f"{NO_MATRIX}dtype {dtype}"


def array_at(tree: Tree, path: str) -> StoredArray:
    """Return the array at a path.

    Raises
    ------
    CorruptDataError
        There is none.
    """
    node = tree.node(path)
    array = None if node is None else node.array()
    if array is None:
        raise CorruptDataError(f"{tree.location}: the array {path!r} is missing")
    return array


@contextmanager
def element(tree: Tree, path: str) -> Iterator[Any]:
    """Hand out an element as h5py or zarr have it."""
    if not isinstance(tree, Hdf5Tree | ZarrTree):
        raise UnsupportedDataError(f"{tree.location}: {path} cannot be read here")
    with tree.element(path) as stored:
        yield stored


def half_floats(tree: Tree, path: str) -> Converted:
    """Return an array of numbers of half precision, widened to Float32."""

    def read_range(rows: slice, columns: slice | None) -> AnyArray:
        with element(tree, path) as stored:
            part: AnyArray = stored[rows] if columns is None else stored[rows, columns]
            return part

    with element(tree, path) as stored:
        shape = tuple(int(n) for n in stored.shape)
        chunks = tuple(int(n) for n in stored.chunks or shape)
    return Converted(shape, chunks, StorageType.FLOAT32, read_range)


def read_value(tree: Tree, path: str) -> Any:
    """Return an element as anndata reads it.

    Raises
    ------
    CorruptDataError
        It cannot be read.
    """
    with element(tree, path) as stored:
        try:
            return kept.read_element(stored)
        except DafError:
            raise
        except Exception as error:  # anndata raises many kinds for what it cannot read
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CorruptDataError(
                f"{tree.location}: {path}: anndata cannot read it ({reason})"
            ) from error
