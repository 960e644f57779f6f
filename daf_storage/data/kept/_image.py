"""One part of an AnnData as a small HDF5 file: an image that is stored as an array of bytes.

It holds ``elements/0``, in the encoding in which ``write_h5ad`` writes it; as attributes, which
part of the AnnData it was; and ``document``, which says that it is all of the value.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, TypeAlias

import numpy as np

from daf_storage.base import AnyArray, optional_import
from daf_storage.errors import (
    CorruptDataError,
    DafError,
    UnsupportedDataError,
    UnsupportedInputError,
)
from daf_storage.trees import StoredArray, check_contained

Writer: TypeAlias = Callable[[Any, str], None]
"""Writes a value into a group of an h5ad file, under a name; or nothing."""

EARLIER_FORM: Final = (
    "an earlier version kept it in a form that is no longer read; import the AnnData again"
)
_ELEMENTS: Final = "elements"
_DOCUMENT: Final = "document"
_NAME: Final = "0"
_WHOLE: Final = b'{"type":"element","name":"0"}'
"""The document of a value that is one element, as all are."""

_BLOCK_BYTES = 1 << 24
_OLD_FRAMES = "0.1.0"


@contextmanager
def new_image(part: str, key: str, write: Writer) -> Iterator[IO[bytes]]:
    """Hand out a new image as a temporary file.

    Parameters
    ----------
    part, key
        Which value of the AnnData it holds, such as ``"uns"`` and ``"paga"``.

    Raises
    ------
    UnsupportedInputError
        Anndata cannot write the value, or nothing of it was written.
    """
    h5py = optional_import("h5py", extra="anndata")
    with tempfile.TemporaryFile() as storage:
        with h5py.File(storage, "w") as file:
            file.attrs.update({"part": part, "key": key})
            elements = file.create_group(_ELEMENTS)
            write(elements, _NAME)
            if _NAME not in elements:
                raise UnsupportedInputError(f"nothing of {part}[{key!r}] was written")
            file.create_dataset(_DOCUMENT, data=np.frombuffer(_WHOLE, np.uint8))
        yield storage


def blocks_of(image: IO[bytes]) -> Iterator[AnyArray]:
    """Yield the bytes of a file."""
    image.seek(0)
    while block := image.read(_BLOCK_BYTES):
        yield np.frombuffer(block, np.uint8)


def writer_of(value: Any) -> Writer:
    """Return what writes a value as anndata does; a group or a dataset is copied as it is.

    DataFrames of AnnData 0.7 are not: their columns refer to categories elsewhere in the file.
    """
    h5py = optional_import("h5py", extra="anndata")
    if not isinstance(value, h5py.Group | h5py.Dataset):
        return lambda group, name: write_element(group, name, value)
    nodes = [value]
    if isinstance(value, h5py.Group):
        value.visititems(lambda _, node: nodes.append(node))
    if any(map(_is_old_frame, nodes)):
        return writer_of(read_element(value))
    return lambda group, name: value.file.copy(
        value, group, name, expand_soft=True, expand_external=True
    )


def _is_old_frame(node: Any) -> bool:
    encoding = [str(node.attrs.get(f"encoding-{name}", "")) for name in ("type", "version")]
    return encoding == ["dataframe", _OLD_FRAMES]


def write_element(group: Any, name: str, value: Any) -> None:
    """Write a value into a group of an h5ad file.

    Raises
    ------
    UnsupportedInputError
        Anndata cannot write it; nothing was written.
    """
    anndata = optional_import("anndata", extra="anndata")
    try:
        with _quiet(), anndata.settings.override(allow_write_nullable_strings=True):
            anndata.io.write_elem(group, name, value)
    except OSError:
        raise
    except Exception as error:  # anndata and h5py raise many kinds
        if name in group:
            del group[name]
        kind = f"{type(value).__module__}.{type(value).__name__}"
        raise UnsupportedInputError(
            f"anndata cannot write this value, of the type {kind}"
        ) from error


def read_element(element: Any) -> Any:
    """Return a group or dataset of an h5ad file as anndata reads it, without its warnings.

    A string is read without anndata, which takes longer to import than a query does.
    """
    if element.attrs.get("encoding-type") == "string" and hasattr(element, "asstr"):
        return element.asstr()[()]
    with _quiet():
        return optional_import("anndata", extra="anndata").io.read_elem(element)


@contextmanager
def opened(array: StoredArray, *, what: str) -> Iterator[Any]:
    """Open a stored image as an ``h5py.File``.

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
        with h5py.File(io.BytesIO(array.read().tobytes()), "r") as file:
            check_contained(file, what=what)
            yield file
    except DafError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CorruptDataError(
            f"{what}: this part of an AnnData cannot be read ({reason})"
        ) from error


def element_of(file: Any, *, what: str) -> Any:
    """Return the group or dataset that an opened image holds."""
    if bytes(file[_DOCUMENT][()]) != _WHOLE:
        raise UnsupportedDataError(f"{what}: {EARLIER_FORM}")
    return file[_ELEMENTS][_NAME]


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
