"""The document in a sidecar: of which files it was made, and the arrays that it has of them."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from daf_storage.data import contents_of, layout
from daf_storage.errors import CorruptDataError, DafError
from daf_storage.trees import StoredArray, Tree

SIDECAR_SUFFIX: Final = ".daf.zarr"
"""What a sidecar has behind the name of the file that it is beside."""
SIDECAR_SCALAR: Final = "sidecar_of"
"""The scalar in which a sidecar says what it was made of."""

SIDECARS_VARIABLE: Final = "DAF_SIDECARS"
"""The variable of the environment with a directory for sidecars."""

PROPERTY_PARTS: Final = {layout.AXES: 2, layout.VECTORS: 3, layout.MATRICES: 4}
"""How many parts the path of a property has, by its first one."""

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
    checksums: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of their contents; none in a sidecar that an older version wrote."""

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
                for path, sums in values.get("checksums", {}).items()
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
    parts = path.split("/")
    if len(parts) != PROPERTY_PARTS.get(parts[0]):
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
        known = document.checksums.get(path)
        if is_read and known is not None and array_checksums(tree, path) != known:
            return "its contents are not those that were written: the checksum is wrong"
    except DafError as error:
        return str(error)
    return ""


def _size_bytes(array: StoredArray) -> int:
    kind = array.info.storage_type
    return array.info.size * (_STRING_BYTES if kind.is_string else kind.dtype.itemsize)


def sidecar_beside(path: Path) -> Path:
    """Return where the sidecar of a file or a directory is by default.

    That is beside it.  If there is none, and the environment names a directory for sidecars
    (``DAF_SIDECARS``), it is there, by a name that has the whole path in it.
    """
    real = path.resolve()
    beside = real.with_name(f"{real.name}{SIDECAR_SUFFIX}")
    folder = os.environ.get(SIDECARS_VARIABLE)
    if not folder or is_sidecar(beside):
        return beside
    place = hashlib.blake2b(os.fsencode(real.parent), digest_size=_PLACE_BYTES).hexdigest()
    return Path(os.path.abspath(folder), f"{real.name}-{place}{SIDECAR_SUFFIX}")


def is_sidecar(path: str | Path) -> bool:
    """Return whether a directory is a sidecar, by the name of its scalar alone."""
    return Path(path, layout.scalar_path(SIDECAR_SCALAR)).is_dir()
