"""Elements of a file of AnnData, and what a tree of Daf has that is made of them.

Nothing of such a property is read before it is asked for.  What an element is follows from its
metadata alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import sp
from daf_storage.base import AnyArray, Span, StorageType, is_remote, spans_of_length, string_array
from daf_storage.data import Convention, MadeNode, convention_attributes, kept, required_array
from daf_storage.errors import CorruptDataError, DafError, FormatError, UnsupportedDataError
from daf_storage.stores import ReadEstimate, translated
from daf_storage.trees import (
    ArrayInfo,
    MemoryArray,
    Node,
    NodeKind,
    StoredArray,
    Tree,
    chunks_of,
    memory_array,
)

_BATCH_ROWS: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 24

ArrayMaker = Callable[[], StoredArray | None]
Nodes = tuple[Node, ...]


def node_at(tree: Tree, path: str) -> Node:
    """Return the node at a path.

    Raises
    ------
    CorruptDataError
        There is nothing.
    """
    node = tree.node(path)
    if node is None:
        raise CorruptDataError(f"{tree.location}: {path} is missing")
    return node


@dataclass(frozen=True, slots=True)
class Property:
    """An axis, a vector, a matrix or a scalar."""

    sources: tuple[str, ...]
    """The paths of the elements that it is made of."""
    arrays: Callable[[Nodes], Mapping[str, ArrayMaker]]
    """Returns its arrays by their names, given the pinned elements; one has no name."""
    attributes: Callable[[], Mapping[str, str]] = dict
    """Returns its attributes."""
    kind: NodeKind = "array"
    """Whether it is an array, or a group of some."""
    state: Hashable | None = None
    """The identity of its sources when something of them was read; None if nothing is kept."""

    def node(self, tree: Tree) -> MadeNode:
        """Return it, pinned.

        Raises
        ------
        CorruptDataError
            Something of it is missing.
        """
        nodes = tuple(node_at(tree, path) for path in self.sources)
        makers = self.arrays(nodes)
        return MadeNode(
            self.kind,
            nodes,
            lambda name: makers[name]() if name in makers else None,
            lambda name: self.attributes().get(name),
        )


def array_property(
    sources: tuple[str, ...],
    make: Callable[[Nodes], StoredArray],
    attributes: Callable[[], Mapping[str, str]] = dict,
    state: Hashable | None = None,
) -> Property:
    """Return a property that is an array."""
    return Property(sources, lambda nodes: {"": lambda: make(nodes)}, attributes, state=state)


def strings_property(path: str, strings: Callable[[], list[str]]) -> Property:
    """Return strings that are made when they are read; what is at a path tells when they change."""

    def make(_: Nodes) -> MemoryArray:
        return MemoryArray(lambda: string_array(strings()))

    return array_property((path,), make)


def broken_property(error: DafError) -> Property:
    """Return a property of which the metadata are broken: whoever uses it gets the error."""

    def fail(_: Nodes) -> StoredArray:
        raise error

    return array_property((), fail)


class ShiftedIndices(StoredArray):
    """Positions that count from 0 in the file, counted from 1."""

    def __init__(self, stored: StoredArray, storage_type: StorageType) -> None:
        self.sources = (stored,)
        self.from_zero = stored
        """The positions as they are stored."""
        self._dtype = storage_type.dtype
        info = stored.info
        self.info = ArrayInfo(info.shape, storage_type, info.chunks, is_mappable=False)

    def check_stored(self, *, is_complete: bool = False) -> None:  # noqa: ARG002 - of arrays of Daf
        """Raise if there is no room for them; zarr-python does not write chunks of zeros alone."""
        super().check_stored()

    def read(self) -> AnyArray:
        """Return all positions."""
        return self._shifted(self.sources[0].read())

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges."""
        return [self._shifted(part) for part in self.sources[0].read_spans(spans, within)]

    def _shifted(self, values: AnyArray) -> AnyArray:
        shifted: AnyArray = values.astype(self._dtype)
        shifted += 1
        shifted.flags.writeable = False
        return shifted


class Converted(StoredArray):
    """Numbers of a type that Daf has not, or in memory, of which ranges are converted.

    Parameters
    ----------
    read_range
        Returns a range of the first dimension, or of both, as stored.
    is_remote
        Whether they are on a server, where each chunk is a request.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        storage_type: StorageType,
        read_range: Callable[[tuple[slice, ...]], AnyArray],
        *,
        is_remote: bool = False,
    ) -> None:
        self.info = ArrayInfo(shape, storage_type, chunks, is_mappable=False)
        self._is_remote = is_remote
        self._read_range = read_range

    def read(self) -> AnyArray:
        """Return all elements."""
        return self._read((slice(None),))

    def read_spans(self, spans: list[Span], within: Span | None = None) -> list[AnyArray]:
        """Return several ranges of the first dimension."""
        columns = () if within is None else (within.slice,)
        return [self._read((span.slice, *columns)) for span in spans]

    def estimate(
        self, spans: list[Span], estimate: ReadEstimate, within: Span | None = None
    ) -> None:
        """Add about what the chunks have, before they are compressed."""
        super().estimate(spans, estimate, within)
        if self._is_remote:
            estimate.add_inexact(0, requests=chunks_of(self.info, spans, within))

    def _read(self, ranges: tuple[slice, ...]) -> AnyArray:
        stored = self._read_range(ranges)
        values: AnyArray = np.asarray(stored, self.info.storage_type.dtype, order="C").view()
        values.flags.writeable = False
        return values


class CodedStrings(StoredArray):
    """Strings given by numbers that say which of a few strings each is.

    Parameters
    ----------
    codes
        The numbers; negative ones stand for a missing value, which is an empty string here.
    strings
        The few strings.
    what
        The array as messages name it.
    """

    is_coded = True

    def __init__(self, codes: StoredArray, strings: pa.Array, *, what: str) -> None:
        self.sources = (codes,)
        self._strings = strings.cast(pa.string())
        self._what = what
        info = codes.info
        self.info = ArrayInfo(info.shape, StorageType.STRING, info.chunks, is_mappable=False)

    def codes(self, span: Span) -> AnyArray:
        """Return a range of the codes, after checking them."""
        stored = self.sources[0].read_rows(span)
        codes: AnyArray = stored.astype(np.int64) if stored.dtype.kind == "u" else stored
        count = len(self._strings)
        if codes.size and (int(codes.min()) < -1 or int(codes.max()) >= count):
            raise CorruptDataError(
                f"{self._what}: a code leaves the range -1 to {count - 1:,} of its categories"
            )
        return codes

    def string_rows(self, span: Span) -> pa.Array:
        """Return a range of the strings; reads their codes, and the few strings."""
        codes = self.codes(span)
        places = pa.array(codes.astype(np.int64), mask=codes < 0)
        return self._strings.take(places).fill_null("")

    def string_pieces(self) -> Iterator[pa.DictionaryArray]:
        """Yield the elements in pieces: numbers, and those of the strings that occur."""
        every = pa.concat_arrays([self._strings, pa.array([""], pa.string())])
        for span in spans_of_length(self.info.shape[0], _BATCH_ROWS):
            codes = self.codes(span)
            no_string = np.int64(len(self._strings))  # may be more than the type of the codes holds
            numbers = np.where(codes < 0, no_string, codes)
            is_used = np.bincount(numbers, minlength=len(every)) > 0
            places = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
            used = every.filter(pa.array(is_used))
            yield pa.DictionaryArray.from_arrays(pa.array(places.take(numbers)), used)

    def read_strings(self) -> pa.StringArray | pa.LargeStringArray:
        """Return all strings; the missing ones are empty."""
        return self.string_rows(Span(0, self.info.shape[0]))


MatrixLayout: TypeAlias = Literal["dense", "csr", "csc"]
"""Whether all elements of a matrix are stored, or those of its rows or columns that are not 0."""

STORED: Final = object()
"""Stands for a value that lies in the file."""

NO_MATRIX: Final = "Daf has no matrices of "

_DIMENSIONS: Final = 2


def part_label(part: str, key: str) -> str:
    """Return what messages call a part of an AnnData.

    >>> part_label("obsm", "X_pca"), part_label("X", "")
    ("obsm['X_pca']", 'X')
    """
    return f"{part}[{key!r}]" if key else part


def text_of(value: Any) -> str:
    """Return an attribute as text; empty if there is none."""
    if isinstance(value, bytes):
        return value.decode()
    return "" if value is None else str(value)


def encoding_of(node: Node) -> str:
    """Return how anndata encoded an element, such as ``categorical``; empty if it says nothing."""
    return text_of(node.attribute("encoding-type"))


def sparse_kind(node: Node) -> str:
    """Return how a sparse matrix is encoded, also before AnnData 0.7; empty if it is none."""
    kind = encoding_of(node) or text_of(node.attribute("h5sparse_format"))
    return kind if kind.startswith(("csr", "csc")) else ""


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

    @property
    def restored_dtype(self) -> np.dtype[Any]:
        """The type of the elements in an AnnData: scipy has none of half precision."""
        is_half = self.layout != "dense" and self.dtype == np.float16
        return np.dtype(np.float32) if is_half else self.dtype


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value of an AnnData is."""

    path: str
    """Its path in the file, or that of what has it."""
    value: Any = STORED
    """The value, if it is in memory, or only anndata understands how it is stored."""
    given_header: MatrixHeader | None = None
    """What is known of it as a matrix, where its own metadata do not say it."""
    without: tuple[str, ...] = ()
    """Those of its children in the file that are no part of it."""

    @property
    def is_stored(self) -> bool:
        """Whether it is what lies at its path in the file."""
        return self.value is STORED and not self.without

    def header(self, tree: Tree) -> MatrixHeader:
        """Return what is known of it as a matrix, or why it is none."""
        if self.given_header is not None:
            return self.given_header
        return _stored_header(tree, self.path) if self.is_stored else _header_of_value(self.value)

    def read(self, tree: Tree) -> Any:
        """Return it as anndata reads it."""
        if not self.without:
            return read_value(tree, self.path) if self.is_stored else self.value
        children = (key for key in tree.children(self.path) if key not in self.without)
        return {key: read_value(tree, f"{self.path}/{key}") for key in children}


def _stored_header(tree: Tree, path: str) -> MatrixHeader:
    node = node_at(tree, path)
    if node.kind == "array":
        return _dense_header(*shape_and_dtype(tree, path))
    kind = sparse_kind(node)
    if not kind:
        return MatrixHeader(problem=f"{NO_MATRIX}the kind {encoding_of(node) or 'dict'}")
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


def _header_of_value(value: Any) -> MatrixHeader:
    """Return what is known of a value in memory."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return MatrixHeader(problem="Daf has no masks")
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return MatrixHeader(problem=f"{NO_MATRIX}the kind {type(value).__name__}")
    if isinstance(value, np.ndarray) or not sp.issparse(value):
        return _dense_header(value.shape, np.dtype(value.dtype))
    layout: MatrixLayout = "csc" if value.format == "csc" else "csr"
    problem, is_array = dtype_problem(value.dtype), isinstance(value, sp.sparray)
    return MatrixHeader(layout, value.shape, value.dtype, problem, is_array=is_array)


def shape_and_dtype(tree: Tree, path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type of an array, also of a type that Daf has not."""
    try:
        info = array_at(tree, path).info
    except UnsupportedDataError:
        with element(tree, path) as stored:
            return tuple(stored.shape or ()), np.dtype(stored.dtype)
    kind = info.storage_type
    return info.shape, np.dtype(object) if kind.is_string else kind.dtype


def has_bytes(tree: Tree, path: str) -> bool:
    """Return whether an array has byte strings, of which nothing says that they are text."""
    is_string = encoding_of(node_at(tree, path)) == "array"
    if not is_string or shape_and_dtype(tree, path)[1] != np.dtype(object):
        return False
    with element(tree, path) as stored:
        return bool(np.dtype(stored.dtype).kind == "S")


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
    return required_array(node_at(tree, path), "", f"{tree.location}: {path}")


def element(tree: Any, path: str) -> AbstractContextManager[Any]:
    """Hand out an element as h5py or zarr have it; an AnnData lies in no other tree."""
    found: AbstractContextManager[Any] = tree.element(path)
    return found


def half_floats(tree: Tree, path: str) -> Converted:
    """Return an array of numbers of half precision, widened to Float32."""

    def read_range(ranges: tuple[slice, ...]) -> AnyArray:
        with element(tree, path) as stored:
            part: AnyArray = stored[ranges]
            return part

    with element(tree, path) as stored:
        shape = tuple(int(n) for n in stored.shape)
        chunks = tuple(int(n) for n in stored.chunks or shape)
    kind, is_on_server = StorageType.FLOAT32, is_remote(tree.location)
    return Converted(shape, chunks, kind, read_range, is_remote=is_on_server)


def read_value(tree: Tree, path: str) -> Any:
    """Return an element as anndata reads it.

    Raises
    ------
    CorruptDataError
        It cannot be read.
    """
    what = f"{tree.location}: {path}: anndata cannot read it"
    with element(tree, path) as stored, translated(Exception, CorruptDataError, what):
        return kept.read_element(stored)


# Matrices


def matrix_property(
    tree: Tree,
    place: Place,
    header: MatrixHeader,
    *,
    is_square: bool = False,
    lengths: Callable[[], tuple[int, int]],
) -> Property:
    """Return a matrix of two axes, or of an axis with itself.

    Parameters
    ----------
    lengths
        Returns the lengths of the two axes.
    """
    is_by_rows = is_square and header.layout != "csc"
    convention = Convention.ROW_MAJOR if is_by_rows else None

    def parts(nodes: Nodes) -> Mapping[str, ArrayMaker]:
        if not place.is_stored:
            return _parts_of_value(place.value, header)
        if header.layout == "dense":
            return {"": lambda: _numbers(tree, nodes[0], "", place.path, header.dtype)}
        if header.shape != lengths():
            raise CorruptDataError(
                f"{tree.location}: {place.path}: the matrix has the shape {list(header.shape)}, "
                f"and its axes have {lengths()[0]:,} and {lengths()[1]:,} entries"
            )
        return _stored_parts(tree, nodes[0], place.path, header)

    kind: Any = "array" if header.layout == "dense" else "group"
    return Property((place.path,), parts, lambda: convention_attributes(convention), kind)


def _stored_parts(
    tree: Tree, node: Node, path: str, header: MatrixHeader
) -> Mapping[str, ArrayMaker]:
    """Return the parts of a stored sparse matrix."""

    def stored(name: str) -> StoredArray:
        if name == "data":
            return _numbers(tree, node, name, f"{path}/data", header.dtype)
        array = required_array(node, name, f"{tree.location}: {path}")
        if not array.info.storage_type.is_integer or len(array.info.shape) != 1:
            raise CorruptDataError(f"{tree.location}: {path}: {name} is no list of positions")
        return array

    return _sparse_parts(stored, header)


def _parts_of_value(value: Any, header: MatrixHeader) -> Mapping[str, ArrayMaker]:
    """Return the parts of a matrix in memory."""
    kind = StorageType.of(np.dtype(np.float32) if header.dtype == np.float16 else header.dtype)
    if header.layout == "dense":
        return {"": lambda: _converted(value, header.shape, kind)}
    stored = value if value.format == header.layout else value.tocsr()

    def part(name: str) -> StoredArray:
        values = getattr(stored, name)
        return _converted(values, values.shape, kind) if name == "data" else memory_array(values)

    return _sparse_parts(part, header)


def _sparse_parts(
    stored: Callable[[str], StoredArray], header: MatrixHeader
) -> Mapping[str, ArrayMaker]:
    """Return the parts of a sparse matrix, given those that AnnData has of it by their names."""
    return {
        "colptr": lambda: _shifted(stored("indptr"), stored("indices"), header),
        "rowval": lambda: _shifted(stored("indices"), stored("indices"), header),
        "nzval": lambda: stored("data"),
    }


def _shifted(positions: StoredArray, indices: StoredArray, header: MatrixHeader) -> ShiftedIndices:
    """Return positions from 1, in the type of the indices unless they would overflow it."""
    kind = indices.info.storage_type
    largest = max(indices.info.size, header.shape[1 if header.layout == "csr" else 0])
    fits = largest + 1 <= np.iinfo(kind.dtype).max
    return ShiftedIndices(positions, kind if fits else StorageType.INT64)


def _numbers(tree: Tree, node: Node, name: str, path: str, dtype: np.dtype[Any]) -> StoredArray:
    """Return stored numbers; half floats widened."""
    if dtype == np.float16:
        return half_floats(tree, path)
    return required_array(node, name, f"{tree.location}: {path}")


def _converted(values: Any, shape: tuple[int, ...], kind: StorageType) -> Converted:
    """Return numbers in memory, of which a range is copied when it is asked for."""
    chunk = max(_CHUNK_BYTES // max(math.prod(shape[1:]) * kind.dtype.itemsize, 1), 1)
    return Converted(
        shape, (min(chunk, shape[0]), *shape[1:]), kind, lambda ranges: np.asarray(values[ranges])
    )
