"""The document in a sidecar: of which files it was made, and the arrays that it has of them."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from daf_storage.data import layout
from daf_storage.errors import CorruptDataError
from daf_storage.trees import Tree

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


def array_types(tree: Tree, path: str) -> ArrayTypes:
    """Return the types and shapes of the arrays that a property consists of."""
    node = tree.node(path)
    if node is None:
        return {}
    names = [""] if node.kind == "array" else sorted(tree.children(path))
    arrays = {name: node.array(name) for name in names}
    return {
        name: (array.info.storage_type.value, list(array.info.shape))
        for name, array in arrays.items()
        if array is not None
    }


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
