"""Changes of an HDF5 file: prepared in a group aside, put in place by renaming links."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from daf_storage.base import (
    AnyArray,
    Packing,
    StorageType,
    optional_import,
)
from daf_storage.errors import (
    UnsupportedInputError,
)
from daf_storage.trees._decompress import fill_blocks
from daf_storage.trees._hdf5_file import Hdf5File
from daf_storage.trees._hdf5_objects import (
    RECORD,
    STAGING,
    STRING_BLOCK,
    h5py,
    hdf5_type,
    reason_of,
)
from daf_storage.trees._hdf5_output import METADATA_BYTES, string_bytes


class Hdf5Transaction:
    """Changes prepared in a group aside; see `TreeTransaction`.

    Putting them in place is renaming a link, which no reader of this process sees half done.
    """

    stores_sparse_strings = True

    def __init__(
        self,
        shared: Hdf5File,
        path_in_file: Callable[[str], str],
        *,
        location: str,
        packing: Packing | None,
    ) -> None:
        self._shared = shared
        self._path_in_file = path_in_file
        self._location = location
        self._packing = packing
        self._token = f"{path_in_file(STAGING)}/{uuid.uuid4().hex}"
        self._old_count = 0
        self._moved: list[tuple[str, str]] = []
        self._buffers: dict[str, tuple[Any, AnyArray]] = {}
        self._attributes: dict[str, Mapping[str, str]] = {}

    def mark(self, name: str, numbers: tuple[int, ...]) -> None:
        """Mark the root with a few numbers."""
        self.write_array(name, np.array(numbers, dtype=np.uint8))
        self.publish(name, replace=False)

    def annotate(self, path: str, attributes: Mapping[str, str]) -> None:
        """Give attributes to the group or dataset that is prepared at ``path``."""
        self._attributes[path] = attributes

    def create_group(self, path: str) -> None:
        """Prepare an empty group."""
        with self._shared.lock:
            self._shared.file.require_group(self._prepared(path))

    def mark_group(self, path: str) -> None:
        """Make what is at ``path`` a group, in place; the root of the tree if it is empty."""
        with self._shared.lock:
            self._shared.file.require_group(f"/{self._path_in_file(path)}")

    def write_scalar(self, path: str, values: Any) -> None:
        """Prepare a scalar, given as one element."""
        if isinstance(values, np.ndarray):
            self.write_array(path, values.reshape(()))
        else:
            self.write_strings(path, values, ())

    def write_array(self, path: str, values: AnyArray) -> None:
        """Prepare a numeric array with these values."""
        kind = StorageType.of(values.dtype)
        if self.packs(values.shape, kind):
            self.write_blocks(path, values.shape, kind, [values])
            return
        with self._shared.lock:
            dataset = self._create(path, values.shape, kind)
            if values.size:
                _write(dataset, np.ascontiguousarray(values, kind.dtype).reshape(values.shape))
                self._shared.check_written()

    def packs(self, shape: tuple[int, ...], storage_type: StorageType) -> bool:
        """Return whether an array of this kind would be packed; HDF5 cannot compress strings."""
        packing = self._packing
        if packing is None or storage_type.is_string:
            return False
        return packing.chunks(shape, storage_type) is not None

    def write_blocks(
        self,
        path: str,
        shape: tuple[int, ...],
        storage_type: StorageType,
        blocks: Iterable[AnyArray],
    ) -> None:
        """Prepare a numeric array of consecutive ranges of its first dimension."""
        packing = self._packing
        if packing is None or not self.packs(shape, storage_type):
            fill_blocks(self.reserve_array(path, shape, storage_type), blocks)
            return
        with self._shared.lock:
            dataset = self._create(path, shape, storage_type, packing)
        start = 0
        for block in blocks:
            self._shared.require_space(block.nbytes)
            with self._shared.lock:
                _write_part(dataset, start, np.ascontiguousarray(block, storage_type.dtype))
                self._shared.check_written()
            start += len(block)
        with self._shared.lock:
            dataset.flush()

    def adopt_array(
        self,
        path: str,  # noqa: ARG002 - see below
        shape: tuple[int, ...],  # noqa: ARG002
        storage_type: StorageType,  # noqa: ARG002
        descriptor: int,  # noqa: ARG002
        *,
        link: bool,  # noqa: ARG002
    ) -> bool:
        """Do nothing: all datasets are in one file."""
        return False

    def write_strings(self, path: str, strings: pa.Array, shape: tuple[int, ...]) -> None:
        """Prepare an array of strings, given flattened in C order."""
        width = int(np.prod(shape[1:], dtype=object))
        step = max(STRING_BLOCK // max(width, 1), 1)
        try:
            with self._shared.lock:
                dataset = self._shared.file.create_dataset(
                    self._prepared(path), shape=shape, dtype=h5py().string_dtype()
                )
            if not shape:
                with self._shared.lock:
                    dataset[()] = strings[0].as_py()
            for start in range(0, shape[0] if shape and width else 0, step):
                block = strings.slice(start * width, step * width)
                self._shared.require_space(string_bytes(block))
                values = block.to_numpy(zero_copy_only=False).astype(object, copy=False)
                with self._shared.lock:
                    dataset[start : start + step] = values.reshape(-1, *shape[1:])
                    self._shared.check_written()
        except ValueError as error:
            raise UnsupportedInputError(
                f"{self._location}: {path} cannot be stored in HDF5, whose strings end at the "
                f"first NUL character ({reason_of(error)})"
            ) from error

    def reserve_array(
        self, path: str, shape: tuple[int, ...], storage_type: StorageType
    ) -> AnyArray:
        """Prepare a numeric array of zeros and return it, mapped, to be filled in place."""
        size_bytes = int(np.prod(shape, dtype=object)) * storage_type.dtype.itemsize
        with self._shared.lock:
            dataset = self._create(path, shape, storage_type)
            if size_bytes == 0:
                return np.empty(shape, storage_type.dtype)
            if not self._shared.can_map:
                values = np.zeros(shape, storage_type.dtype)
                self._buffers[path] = (dataset, values)
                return values
            self._shared.flush()
            data = self._shared.map(dataset, size_bytes, is_writable=True)
        return np.frombuffer(data, storage_type.dtype).reshape(shape)

    def publish(self, path: str, *, replace: bool) -> None:
        """Rename what was prepared at ``path`` into its place."""
        target = self._path_in_file(path)
        with self._shared.lock:
            file = self._shared.file
            if target in file and not replace:
                raise FileExistsError(f"{path} exists")
            for filled in [key for key in self._buffers if f"{key}/".startswith(f"{path}/")]:
                _write(*self._buffers.pop(filled))
            self._write_attributes(path)
            if target in file:
                self._take_away(target)
            self._move(self._prepared(path), target)
            self._settle()

    def adopt(self, source: str, paths: Iterable[str]) -> None:
        """Put the nodes below ``source`` in place of those of the same paths: all, or none.

        If there is none, the one at the path is taken away.  What was there is recorded until all
        are in place, see `put_back`.
        """
        record = self._path_in_file(RECORD)
        with self._shared.lock:
            file = self._shared.file
            drafted = f"{self._token}/record"
            for path in paths:
                target = self._path_in_file(path)
                if target in file:
                    file[f"{drafted}/old/{quote(path, safe='')}"] = file[target]
                else:
                    file.require_group(f"{drafted}/absent/{quote(path, safe='')}")
            self._move(drafted, record)
            self._settle()
            for path in paths:
                new, target = (
                    self._path_in_file(posixpath.join(source, path)),
                    self._path_in_file(path),
                )
                if target in file:
                    self._take_away(target)
                if new in file:
                    self._move(new, target)
            self._settle(is_last=False)
            self._move(record, f"{self._token}/record")
            self._settle()

    def remove(self, path: str) -> None:
        """Take a node away; what others have open stays readable until they let go."""
        target = self._path_in_file(path)
        with self._shared.lock:
            if target in self._shared.file:
                self._take_away(target)
                self._settle()

    def close(self) -> None:
        """Discard what was not published."""
        with self._shared.lock:
            file = self._shared.file
            if not file.id.valid:
                return
            staging = posixpath.dirname(self._token)
            if self._token in file:
                del file[self._token]
            if staging in file and not len(file[staging]):
                del file[staging]
                self._shared.flush()

    def _write_attributes(self, path: str) -> None:
        """Attach the attributes of what was prepared at and below a path."""
        for annotated in [key for key in self._attributes if f"{key}/".startswith(f"{path}/")]:
            prepared = self._shared.file[self._prepared(annotated)]
            prepared.attrs.update(self._attributes.pop(annotated))

    def _take_away(self, target: str) -> None:
        self._shared.file.require_group(self._token)
        self._move(target, f"{self._token}/old-{self._old_count}")
        self._old_count += 1

    def _move(self, source: str, target: str) -> None:
        """Rename a node, until `_settle` or back."""
        folder = posixpath.dirname(target)
        if folder:
            self._shared.file.require_group(folder)
        self._shared.file.move(source, target)
        self._moved.append((source, target))

    def _settle(self, *, is_last: bool = True) -> None:
        """Write what was renamed; where that fails, all is again as it was.

        Parameters
        ----------
        is_last
            Whether it stays so from now on, whatever follows.
        """
        try:
            self._shared.changes += 1
            self._shared.flush()
        except BaseException:
            for source, target in reversed(self._moved):
                self._shared.file.move(target, source)
            self._moved.clear()
            raise
        if is_last:
            self._moved.clear()

    def _prepared(self, path: str) -> str:
        return f"{self._token}/new/{path}"

    def _create(
        self,
        path: str,
        shape: tuple[int, ...],
        kind: StorageType,
        packing: Packing | None = None,
    ) -> Any:
        size_bytes = int(np.prod(shape, dtype=object)) * kind.dtype.itemsize
        self._shared.require_space(METADATA_BYTES if packing is not None else size_bytes)
        h5 = h5py()
        properties = h5.h5p.create(h5.h5p.DATASET_CREATE)
        links = h5.h5p.create(h5.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        if packing is None:
            properties.set_layout(h5.h5d.CONTIGUOUS)
            properties.set_alloc_time(h5.h5d.ALLOC_TIME_EARLY)
            properties.set_fill_time(h5.h5d.FILL_TIME_ALLOC)
        else:
            properties.set_chunk(packing.chunks(shape, kind))
            _set_filters(properties, packing)
        space = h5.h5s.create_simple(shape) if shape else h5.h5s.create(h5.h5s.SCALAR)
        name = self._prepared(path).encode()
        return h5.h5d.create(
            self._shared.file.id, name, hdf5_type(kind), space, dcpl=properties, lcpl=links
        )


def put_back(root: Any) -> None:
    """Put what `Hdf5Transaction.adopt` has recorded, and did not replace as a whole, back in place.

    Links are made before others are removed: HDF5 deletes what has none.

    Parameters
    ----------
    root
        The group of the tree, as h5py has it.
    """
    for quoted, node in root.get(f"{RECORD}/old", {}).items():
        path = unquote(quoted)
        if path in root and root[path] == node:
            continue
        if path in root:
            root.move(path, f"{STAGING}/{uuid.uuid4().hex}")
        root[path] = node
    for quoted in root.get(f"{RECORD}/absent", {}):
        if unquote(quoted) in root:
            root.move(unquote(quoted), f"{STAGING}/{uuid.uuid4().hex}")


def _write(dataset: Any, values: AnyArray) -> None:
    every = h5py().h5s.ALL
    if values.dtype == np.bool_:
        dataset.write(every, every, values.view("u1"), mtype=hdf5_type(StorageType.BOOL))
    else:
        dataset.write(every, every, values)


def _write_part(dataset: Any, start: int, values: AnyArray) -> None:
    """Write a range of the first dimension."""
    h5s = h5py().h5s
    space = dataset.get_space()
    space.select_hyperslab((start, *(0,) * (values.ndim - 1)), values.shape)
    kind = StorageType.of(values.dtype)
    data = values.view("u1") if kind is StorageType.BOOL else values
    dataset.write(h5s.create_simple(values.shape), space, data, mtype=hdf5_type(kind))


def _set_filters(properties: Any, packing: Packing) -> None:
    """Compress what is written; only ``gzip`` is part of every HDF5 library.

    Optional means that a chunk which does not become smaller is stored as it is; if the filter were
    mandatory, that would be an error, and one that HDF5 meets when it is too late to tell it.
    """
    if packing.codec == "gzip":
        properties.set_shuffle()
        properties.set_deflate(packing.level)
        return
    plugin = optional_import("hdf5plugin", extra="hdf5")
    if packing.codec == "zstd":
        options = plugin.Zstd(clevel=packing.level)
    else:
        shuffle = getattr(plugin.Blosc, packing.shuffle.upper())
        options = plugin.Blosc(cname=packing.compressor, clevel=packing.level, shuffle=shuffle)
    properties.set_filter(
        options["compression"], h5py().h5z.FLAG_OPTIONAL, tuple(options["compression_opts"])
    )
