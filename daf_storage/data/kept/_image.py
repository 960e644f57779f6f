"""One part of an AnnData as a small HDF5 file: an image that is stored as an array of bytes.

It holds ``elements/0``, ``elements/1`` and so on, each in the encoding in which ``write_h5ad``
writes it; ``document``, the JSON from which the value is put together; and as attributes which part
of the AnnData it was.
"""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import numpy as np

from daf_storage.base import AnyArray, optional_import
from daf_storage.data.kept import _values
from daf_storage.errors import CorruptDataError, DafError, UnsupportedInputError
from daf_storage.trees import StoredArray, check_contained

ELEMENTS: Final = "elements"
DOCUMENT: Final = "document"
WHOLE: Final = {"type": "element", "name": "0"}
"""The document of a value that is one element."""

_BLOCK_BYTES = 1 << 24
_OLD_FRAMES = "0.1.0"


class Image:
    """An image that is being written, in a temporary file.

    Parameters
    ----------
    part, key
        Which value of the AnnData it holds, such as ``"uns"`` and ``"paga"``.
    """

    def __init__(self, part: str, key: str) -> None:
        h5py = optional_import("h5py", extra="anndata")
        self._storage = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        self._file = h5py.File(self._storage, "w")
        self._file.attrs.update({"part": part, "key": key})
        self._elements = self._file.create_group(ELEMENTS)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._storage.close()

    def add(self, value: Any) -> str:
        """Write an element and return its name."""
        anndata = optional_import("anndata", extra="anndata")
        name = self._next()
        try:
            with _quiet(), anndata.settings.override(allow_write_nullable_strings=True):
                anndata.io.write_elem(self._elements, name, value)
        except OSError:
            raise
        except Exception as error:  # anndata and h5py raise many kinds
            if name in self._elements:
                self.remove(name)
            kind = f"{type(value).__module__}.{type(value).__name__}"
            raise UnsupportedInputError(f"{kind} objects, which anndata cannot write") from error
        return name

    def copy(self, element: Any) -> None:
        """Copy a group or a dataset of another HDF5 file as it is; it is the whole value."""
        element.file.copy(
            element, self._elements, self._next(), expand_soft=True, expand_external=True
        )
        self.write_document(WHOLE)

    def read(self, name: str) -> Any:
        """Return an element."""
        return read_element(self._elements[name])

    def remove(self, name: str) -> None:
        """Take an element away."""
        del self._elements[name]

    def write(self, value: Any) -> None:
        """Write a value."""
        self.write_document(_values.encode(value, self))

    def write_document(self, document: Any) -> None:
        """Write how the value is put together."""
        text = json.dumps(document, separators=(",", ":"))
        self._file.create_dataset(DOCUMENT, data=np.frombuffer(text.encode(), np.uint8))

    def finish(self) -> int:
        """Write everything to the file and return its length in bytes."""
        self._file.close()
        return self._storage.seek(0, io.SEEK_END)

    def blocks(self) -> Iterator[AnyArray]:
        """Yield the bytes of the finished file."""
        self._storage.seek(0)
        while block := self._storage.read(_BLOCK_BYTES):
            yield np.frombuffer(block, np.uint8)

    def _next(self) -> str:
        self._count += 1
        return str(self._count - 1)


@contextmanager
def opened(array: StoredArray, *, what: str) -> Iterator[Any]:
    """Open a stored image as an ``h5py.File``, without a copy where it can be mapped.

    Raises
    ------
    CorruptDataError
        It is no such image.
    UnsupportedDataError
        Something in it leads to another file.
    """
    h5py = optional_import("h5py", extra="anndata")
    if len(array.info.shape) != 1 or array.info.storage_type.dtype != np.uint8:
        raise CorruptDataError(f"{what}: it is no array of bytes, as a part of an AnnData is")
    try:
        with h5py.File(_ArrayFile(array.read()), "r") as file:
            check_contained(file, what=what)
            yield file
    except DafError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CorruptDataError(
            f"{what}: this part of an AnnData cannot be read ({reason})"
        ) from error


def document_of(file: Any) -> Any:
    """Return how the value of an opened image is put together."""
    return json.loads(bytes(file[DOCUMENT][()]))


def value_of(file: Any) -> Any:
    """Return the value of an opened image."""
    elements = file[ELEMENTS]
    return _values.decode(document_of(file), lambda name: read_element(elements[name]))


def is_copied_as_it_is(element: Any) -> bool:
    """Return whether an element of an h5ad file stays itself when it is copied into another file.

    DataFrames of AnnData 0.7 do not: their columns refer to categories elsewhere in the file.
    """
    nodes = [element]
    if hasattr(element, "visititems"):
        element.visititems(lambda _, node: nodes.append(node))
    return not any(_is_old_frame(node) for node in nodes)


def _is_old_frame(node: Any) -> bool:
    encoding = [str(node.attrs.get(f"encoding-{name}", "")) for name in ("type", "version")]
    return encoding == ["dataframe", _OLD_FRAMES]


def read_element(element: Any) -> Any:
    """Return a group or dataset of an h5ad file as anndata reads it, without its warnings."""
    with _quiet():
        return optional_import("anndata", extra="anndata").io.read_elem(element)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _ArrayFile(io.RawIOBase):
    """The bytes of an array as a file that can be read."""

    def __init__(self, values: AnyArray) -> None:
        self._bytes = np.ascontiguousarray(values).data
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._bytes)}
        self._position = start[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        part = self._bytes[self._position : self._position + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)
