"""The metadata of datasets: by their headers, or as HDF5 has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from daf_storage.base import optional_import
from daf_storage.errors import CorruptDataError, MissingDependencyError, UnsupportedDataError
from daf_storage.trees._hdf5_checks import check_source
from daf_storage.trees._hdf5_file import Hdf5File
from daf_storage.trees._hdf5_headers import DatasetHeader
from daf_storage.trees._hdf5_types import h5py, is_plain, storage_type_of, usual_types
from daf_storage.trees._metadata import check_chunk_bytes
from daf_storage.trees._protocol import ArrayInfo

_FIRST_FOREIGN_FILTER: Final = 256
_MAX_ELEMENTS: Final = 2**62


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """The metadata of a dataset."""

    info: ArrayInfo
    item_bytes: int
    """The bytes of an element in the file."""
    is_chunked: bool
    header: DatasetHeader | None = None
    """What its header says, where that was read without HDF5."""


def header_info(header: DatasetHeader, what: str) -> DatasetInfo | None:
    """Return the metadata of a dataset of a mapped file; None where HDF5 has to be asked."""
    known = usual_types().get(header.datatype)
    if known is None or known.storage_type is None:
        return None
    chunks = tuple(max(n, 1) for n in header.chunks or header.shape)
    if header.chunks:
        _load_filters(header.filters)
        check_chunk_bytes(header.shape, chunks, header.item_bytes, what=what)
    is_mappable = header.elements is not None and not known.storage_type.is_string
    info = ArrayInfo(header.shape, known.storage_type, chunks, is_mappable=is_mappable)
    return DatasetInfo(info, header.item_bytes, bool(header.chunks), header)


def dataset_info(shared: Hdf5File, dataset: Any, what: str) -> DatasetInfo:
    """Return the metadata of a dataset, as HDF5 has them."""
    dimensions = dataset.shape  # asked once: it takes as long as half of opening the dataset
    if dimensions is None:
        raise UnsupportedDataError(f"{what}: the dataset is empty: it has not even a shape")
    stored = dataset.get_type()
    storage_type = storage_type_of(stored, what)
    item_bytes = int(stored.get_size())
    chunk_shape = None
    if dataset.get_offset() is None:  # what has one is in the file, in one piece
        properties = dataset.get_create_plist()
        check_source(properties, what=what)
        if properties.get_layout() == h5py().h5d.CHUNKED:
            chunk_shape = properties.get_chunk()
    shape = tuple(int(n) for n in dimensions)
    if math.prod(max(n, 1) for n in shape) > _MAX_ELEMENTS:
        raise CorruptDataError(f"{what}: the dataset is said to have the shape {list(shape)}")
    chunks = tuple(max(int(c), 1) for c in chunk_shape or shape)
    if chunk_shape:
        _load_filters([properties.get_filter(n)[0] for n in range(properties.get_nfilters())])
        check_chunk_bytes(shape, chunks, item_bytes, what=what)
    info = ArrayInfo(
        shape=shape,
        storage_type=storage_type,
        chunks=chunks,
        is_mappable=shared.can_map and is_plain(dataset, stored, storage_type),
    )
    return DatasetInfo(info, item_bytes, is_chunked=bool(chunk_shape))


def _load_filters(numbers: Sequence[int]) -> None:
    """Load the package that has the filters which are not part of every HDF5 library."""
    if any(number >= _FIRST_FOREIGN_FILTER for number in numbers):
        with suppress(MissingDependencyError):  # reading names the filter, and the package
            optional_import("hdf5plugin", extra="hdf5")
