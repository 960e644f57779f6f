"""Groups and datasets that are held open, or are opened when HDF5 is first asked."""

from __future__ import annotations

from typing import Any

from daf_storage.errors import CorruptDataError, InvalidInputError
from daf_storage.trees._hdf5_file import Hdf5File, as_object
from daf_storage.trees._hdf5_types import H5PY_ERRORS, h5py, reason_of


class HeldObject:
    """A group or dataset that is held open; opened again where the file was, see `Hdf5File`.

    Parameters
    ----------
    found
        Its identifier: h5py takes longer to make an object of it than HDF5 to open it.  None if it
        is opened when it is first needed.
    path
        Its path from the root of the file, if it is not open yet.
    """

    def __init__(self, shared: Hdf5File, found: Any, path: str = "") -> None:
        self._shared = shared
        self._file = shared.file
        self._id = found
        self._object: Any = None
        self._name = f"/{path}".encode() if found is None else h5py().h5i.get_name(found)

    def below(self, name: str) -> HeldObject:
        """Return what has a name in this group, to be opened when it is first needed."""
        path = self._name.decode().lstrip("/")
        return HeldObject(self._shared, None, f"{path}/{name}" if path else name)

    @property
    def name(self) -> bytes:
        """Its path in the file."""
        return bytes(self._name or b"")

    @property
    def is_open(self) -> bool:
        """Whether it was found in the file as it is opened now."""
        return self.is_as_found if self._id is None else bool(self._id.valid)

    @property
    def is_as_found(self) -> bool:
        """Whether the file was not opened again since it was found."""
        return self._file is self._shared.file and self._shared.is_valid

    @property
    def opened_id(self) -> Any:
        """Its identifier; None where it is not open, or was opened before the file was."""
        return self._id if self._id is not None and self._id.valid else None

    @property
    def id(self) -> Any:
        """Its identifier."""
        return self._id if self._id is not None and self._id.valid else self._opened()

    def ensure_open(self) -> None:
        """Look for it again where the file was opened again; raise if the file was closed."""
        if not self.is_open:
            self._opened()

    def get(self) -> Any:
        """Return it as h5py has it."""
        if self._object is not None and self._id.valid:
            return self._object
        with self._shared.lock:
            found = self.id
            self._object = as_object(found, is_writable=self._shared.is_writable)
        return self._object

    def _opened(self) -> Any:
        with self._shared.lock:
            if not self._shared.file.id.valid:
                raise InvalidInputError(
                    f"{self._shared.location}: the file was closed; open it again"
                )
            self._object = None
            try:
                self._id = h5py().h5o.open(self._shared.file.id, self._name)
            except H5PY_ERRORS as error:
                raise CorruptDataError(
                    f"{self._shared.location}: {self._name.decode()} cannot be read "
                    f"({reason_of(error)})"
                ) from error
        return self._id
