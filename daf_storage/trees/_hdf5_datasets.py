"""Datasets of a file that the caller has open, read as other stored arrays are."""

from __future__ import annotations

from typing import Any

from daf_storage.errors import DafError
from daf_storage.trees._hdf5_array import Hdf5Array
from daf_storage.trees._hdf5_chunks import Pipeline
from daf_storage.trees._hdf5_file import Hdf5File
from daf_storage.trees._hdf5_held import HeldObject
from daf_storage.trees._hdf5_types import h5py


def dataset_array(dataset: Any) -> Hdf5Array | None:
    """Return a dataset of h5py as a stored array that is mapped, or decoded without HDF5.

    It is valid while its file is open.  None where HDF5 has to read it, which h5py does best in
    large ranges: of filters that only HDF5 has, of files that are open for writing, and of what is
    no dataset of numbers.
    """
    h5 = h5py()
    if not isinstance(dataset, h5.Dataset) or dataset.file.mode != "r":
        return None
    shared = Hdf5File(dataset.file, location=dataset.file.filename)
    what = f"{shared.location}: {dataset.name.lstrip('/')}"
    try:
        array = Hdf5Array(shared, HeldObject(shared, dataset.id), what=what)
    except DafError:  # half floats, for example, which Daf has not
        return None
    is_read_here = array.info.is_mappable or Pipeline.of(dataset).is_known
    return array if is_read_here and not array.info.storage_type.is_string else None
