"""Of which files a sidecar was made, and the arrays that it has of them.

A file is known by inode, size and times.  The time of its inode cannot be set back, so a file that
was changed in place shows, also if its size and the time of its data are the same.  A copy has
other times: what it holds is compared, by a digest of all of it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from daf_storage import errors
from daf_storage.data import contents_of, layout
from daf_storage.errors import CorruptDataError, DafError
from daf_storage.stores import fingerprint, is_stable, status_at
from daf_storage.trees import StoredArray, Tree

_PIECE_BYTES: Final = 1 << 24
_DIGEST_BYTES: Final = 16
_MAX_WAIT_SECONDS: Final = 0.25
_WAIT_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the file system says of the files of a source; nothing of them was read."""

    fingerprint: str
    """Changes with every write to any of them."""
    size_bytes: int
    """Of all of them."""
    is_stable: bool
    """Whether the next write is bound to change the fingerprint."""


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A file on a server: one version of it, as long as it is open."""

    name: str
    """Its URL."""
    version: tuple[Any, ...]
    """Its length, and the server's ETag and date."""

    def __str__(self) -> str:
        return self.name


Source: TypeAlias = Path | RemoteSource
"""What a sidecar is made of."""


def source_state(path: Source) -> SourceState | None:
    """Return the state of a file, or of all files below a directory; None if it is absent.

    Raises
    ------
    DafError
        A directory cannot be read, so that a change below it would not show.
    """
    if isinstance(path, RemoteSource):
        return SourceState(_digest(path.version), int(path.version[0]), is_stable=True)
    try:
        with errors.os_errors(""):
            files = list(_files(path))
    except errors.SourceNotFoundError:
        return None
    listed = [(name, *fingerprint(status)) for name, status in files]
    return SourceState(
        _digest(listed),
        sum(status.st_size for _, status in files),
        all(is_stable(status) for _, status in files),
    )


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def stable_state(path: Source) -> SourceState | None:
    """Return the state of a source once its next write is bound to show; waits for a moment."""
    end = time.monotonic() + _MAX_WAIT_SECONDS
    state = source_state(path)
    while state is not None and not state.is_stable and time.monotonic() < end:
        time.sleep(_WAIT_SECONDS)
        state = source_state(path)
    return state


def source_digest(
    path: Source, state: SourceState, progress: Callable[[int], None] = lambda _: None
) -> str | None:
    """Return a digest of all bytes of a source and the names of its files.

    None if it changed meanwhile.  What is on a server is not read for it: its state stands for its
    bytes.

    Raises
    ------
    DafError
        A file cannot be read.
    """
    if isinstance(path, RemoteSource):
        return state.fingerprint
    last_state, last_digest = _DIGESTS.get(path, (None, None))
    if last_state == state:
        return last_digest
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    try:
        with errors.os_errors(""):
            for name, status in _files(path):
                total.update(f"{name}\0{status.st_size}\0".encode(errors="surrogatepass"))
                if stat.S_ISREG(status.st_mode):
                    _add_file(total, path / name if name else path, progress)
    except errors.SourceNotFoundError:
        return None
    if not state.is_stable or source_state(path) != state:
        return None
    _DIGESTS[path] = (state, total.hexdigest())
    return total.hexdigest()


_DIGESTS: Final[dict[Path, tuple[SourceState, str]]] = {}
"""Of sources, with their states then: all of their bytes are read for one."""


def _add_file(total: hashlib.blake2b, path: Path, progress: Callable[[int], None]) -> None:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            total.update(piece)
            progress(len(piece))


def _files(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a source by their names below it; a file itself has none.

    Those of a folder come before those of its folders, also where links lead to them.
    """
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        yield "", status
        return
    for folder, folders, names in os.walk(path, onerror=_refuse, followlinks=True):
        real = os.path.realpath(folder)
        if folder != str(path) and Path(os.path.realpath(Path(folder).parent)).is_relative_to(real):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder)
        folders.sort()
        for name in sorted(names):
            file = os.path.join(folder, name)
            yield os.path.relpath(file, path), status_at(file)


def _refuse(error: OSError) -> None:
    raise error


SIDECAR_SUFFIX: Final = ".daf.zarr"
"""What a sidecar has behind the name of the file that it is beside."""
SIDECAR_SCALAR: Final = "sidecar_of"
"""The scalar in which a sidecar says what it was made of."""

SIDECARS_VARIABLE: Final = "DAF_SIDECARS"
"""The variable of the environment with a directory for sidecars."""

SIDECAR_GROUPS: Final = (layout.AXES, layout.VECTORS, layout.MATRICES)
"""The groups of which a sidecar has properties."""

ArrayTypes: TypeAlias = dict[str, tuple[str, list[int]]]
"""Types of elements and shapes of the arrays of a property, by their names; its own is ''."""

_FORMAT: Final = 1
_STRING_BYTES: Final = 16
_MALFORMED: Final = (
    *(ValueError, TypeError, KeyError, AttributeError, RecursionError),
    OverflowError,  # of a length that is Infinity
)
_PLACE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class SidecarDocument:
    """Of what a sidecar was made, and what it has."""

    source: str
    """The name of the file or directory."""
    fingerprint: str
    """The state of its files."""
    digest: str
    """Of all of its bytes."""
    size_bytes: int
    """Of all of its files."""
    arrays: dict[str, ArrayTypes]
    """Of each axis, vector and matrix that it has, by its path, the arrays that it consists of."""
    checksums: dict[str, dict[str, int]]
    """Of their contents."""

    @property
    def properties(self) -> tuple[str, ...]:
        """The paths of the axes, vectors and matrices that it has."""
        return tuple(self.arrays)

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)})

    @staticmethod
    def parse(text: str) -> SidecarDocument:
        """Read it from JSON.

        Raises
        ------
        CorruptDataError
            It is no such document, or of another version.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            version = values.pop("format")
            if type(version) is not int or version != _FORMAT:
                raise CorruptDataError(f"it has the format {version!r}, not {_FORMAT}")
            values["arrays"] = {
                _checked_path(path): {
                    str(name): (str(kind), [int(length) for length in shape])
                    for name, (kind, shape) in arrays.items()
                }
                for path, arrays in values["arrays"].items()
            }
            values["checksums"] = {
                str(path): {str(name): int(sum_of) for name, sum_of in sums.items()}
                for path, sums in values["checksums"].items()
            }
            return SidecarDocument(**values)
        except _MALFORMED as error:
            if isinstance(error, CorruptDataError):
                raise
            raise CorruptDataError(f"its scalar {SIDECAR_SCALAR!r} is malformed") from None


def _checked_path(path: str) -> str:
    """Return the path of an axis, a vector or a matrix; raise ``ValueError`` for any other.

    >>> _checked_path("vectors/cell/age")
    'vectors/cell/age'
    """
    place = layout.property_of(path)
    if place is None or place.path != path or not path.startswith(SIDECAR_GROUPS):
        raise ValueError(path)
    return path


def read_document(tree: Tree) -> SidecarDocument:
    """Return what a data set says of itself as a sidecar.

    Raises
    ------
    CorruptDataError
        It says nothing, or nothing that can be understood.
    """
    array = layout.open_array(tree, layout.scalar_path(SIDECAR_SCALAR))
    if array is None or not array.info.storage_type.is_string or array.info.size != 1:
        raise CorruptDataError(f"it has no scalar {SIDECAR_SCALAR!r}")
    return SidecarDocument.parse(array.read_strings()[0].as_py())


def _arrays(tree: Tree, path: str) -> dict[str, StoredArray]:
    """Return the arrays that a property consists of, by their names."""
    node = tree.node(path)
    if node is None:
        return {}
    names = [""] if node.kind == "array" else sorted(tree.children(path))
    arrays = {name: node.array(name) for name in names}
    return {name: array for name, array in arrays.items() if array is not None}


def array_types(tree: Tree, path: str) -> ArrayTypes:
    """Return the types and shapes of the arrays that a property consists of."""
    infos = {name: array.info for name, array in _arrays(tree, path).items()}
    return {name: (info.storage_type.value, list(info.shape)) for name, info in infos.items()}


def array_checksums(tree: Tree, path: str) -> dict[str, int]:
    """Return the checksums of the contents of the arrays that a property consists of."""
    return {name: contents_of([array])[1] for name, array in _arrays(tree, path).items()}


def property_problem(
    tree: Tree, document: SidecarDocument, path: str, *, max_bytes: int | None = None
) -> str:
    """Return why a property of a sidecar cannot be used; empty if it can.

    Parameters
    ----------
    max_bytes
        Up to which size its contents are read, and compared with their checksums; if not given,
        of any size.
    """
    try:
        if array_types(tree, path) != document.arrays[path]:
            return "it does not consist of the arrays that were written"
        arrays = _arrays(tree, path)
        for array in arrays.values():
            array.check_stored(is_complete=True)
        is_read = max_bytes is None or sum(map(_size_bytes, arrays.values())) <= max_bytes
        if is_read and array_checksums(tree, path) != document.checksums.get(path):
            return "its contents are not those that were written: the checksum is wrong"
    except DafError as error:
        return str(error)
    return ""


def _size_bytes(array: StoredArray) -> int:
    kind = array.info.storage_type
    return array.info.size * (_STRING_BYTES if kind.is_string else kind.dtype.itemsize)


def sidecar_beside(path: Source) -> Path | None:
    """Return where the sidecar of a file or a directory is by default.

    That is beside it.  If there is none, and the environment names a directory for sidecars
    (``DAF_SIDECARS``), it is there, by a name that has the whole path in it.  None for a file on a
    server, if no directory is named.
    """
    folder, beside = os.environ.get(SIDECARS_VARIABLE), None
    if isinstance(path, RemoteSource):
        parent, _, name = path.name.rpartition("/")
    else:
        real = path.resolve()
        parent, name = os.fspath(real.parent), real.name
        beside = real.with_name(f"{name}{SIDECAR_SUFFIX}")
    if not folder or (beside is not None and is_sidecar(beside)):
        return beside
    place = hashlib.blake2b(os.fsencode(parent), digest_size=_PLACE_BYTES).hexdigest()
    return Path(os.path.abspath(folder), f"{name}-{place}{SIDECAR_SUFFIX}")


def is_sidecar(path: str | Path) -> bool:
    """Return whether a directory is a sidecar, by the name of its scalar alone."""
    return Path(path, layout.scalar_path(SIDECAR_SCALAR)).is_dir()
